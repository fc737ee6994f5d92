/* chat/template.h - a parsed template: a tree of statements and expressions.
 *
 * The language is the subset of Jinja that chat templates use, with the settings of transformers:
 * trim_blocks, lstrip_blocks, loop controls, {% generation %}.  Everything that is not known is
 * refused by the parser, so that a template that was read can be trusted to mean what it says. */
#ifndef KVSI_CHAT_TEMPLATE_H
#define KVSI_CHAT_TEMPLATE_H

#include "chat/value.h"

/* ---- tokens ---- */

typedef enum kvsi_token_kind {
    KVSI_TOKEN_END,
    KVSI_TOKEN_DATA, /* text between tags */
    KVSI_TOKEN_BLOCK_BEGIN,
    KVSI_TOKEN_BLOCK_END,
    KVSI_TOKEN_OUTPUT_BEGIN,
    KVSI_TOKEN_OUTPUT_END,
    KVSI_TOKEN_NAME,
    KVSI_TOKEN_STRING, /* without quotes and escapes */
    KVSI_TOKEN_WHOLE,
    KVSI_TOKEN_REAL,
    KVSI_TOKEN_SIGN /* an operator or a bracket */
} kvsi_token_kind;

typedef struct kvsi_token {
    kvsi_token_kind kind;
    unsigned line;
    const char *text; /* NUL-terminated */
    size_t size;
    int64_t whole;
    double real;
} kvsi_token;

/* Splits a template, which is valid UTF-8, into tokens of the arena; the last is KVSI_TOKEN_END. */
kvs_status kvsi_template_tokens(kvsi_token **out, kvsi_arena *arena, const char *text, size_t size,
                                kvs_err *err);
/* Python's str.isspace() of one character at the start or end of a text; returns its bytes or 0. */
size_t kvsi_space_at_start(const char *text, size_t size);
size_t kvsi_space_at_end(const char *text, size_t size);

/* ---- functions, filters, tests, methods ---- */

enum { KVSI_ARGUMENTS_MAX = 7 };

typedef struct kvsi_function {
    const char *name;
    /* Names of parameters behind the value, with commas; those behind '*' are only given by
     * name. */
    const char *parameters;
    size_t required;
    /* args[0] is the value that a filter, test or method belongs to; arguments follow in the order
     * of `parameters`, KVSI_VALUE_MISSING if not given. */
    kvs_status (*run)(kvsi_value *out, kvsi_render *r, kvsi_value *args);
    int takes_any_names; /* args[0] is a dict of all named arguments; there are no others */
} kvsi_function;

typedef struct kvsi_method {
    kvsi_value self;
    const kvsi_function *function; /* NULL = a method of Python that is not known here */
} kvsi_method;

/* NULL = there is none. */
const kvsi_function *kvsi_find_global(const char *name);
const kvsi_function *kvsi_find_filter(const char *name);
const kvsi_function *kvsi_find_test(const char *name);
const kvsi_function *kvsi_find_method(const char *name);
/* Whether a value of this kind has a method of that name in Python. */
int kvsi_has_method(kvsi_kind kind, const char *name);
/* Whether it is a method of dicts that transformers' sandbox does not show. */
int kvsi_is_hidden(const char *name);
/* value.name and value[key] of Jinja. */
kvs_status kvsi_get_attribute(kvsi_value *out, kvsi_render *r, const kvsi_value *value,
                              const char *name, size_t size);
kvs_status kvsi_get_item(kvsi_value *out, kvsi_render *r, const kvsi_value *value,
                         const kvsi_value *key);

/* ---- the tree ---- */

typedef enum kvsi_node_kind {
    /* expressions */
    KVSI_NODE_CONSTANT,  /* value */
    KVSI_NODE_NAME,      /* name */
    KVSI_NODE_LIST,      /* list */
    KVSI_NODE_TUPLE,     /* list */
    KVSI_NODE_DICT,      /* list: key, value, key, ... */
    KVSI_NODE_ATTRIBUTE, /* a.name */
    KVSI_NODE_ITEM,      /* a[b] */
    KVSI_NODE_SLICE,     /* a[list[0] : list[1] : list[2]], which may be NULL */
    KVSI_NODE_CALL,      /* a(list), names[i] = NULL for a positional argument */
    KVSI_NODE_APPLY,     /* function(a, list): filters, tests, functions and methods */
    KVSI_NODE_NOT,       /* a */
    KVSI_NODE_NEGATIVE,  /* a */
    KVSI_NODE_POSITIVE,  /* a */
    KVSI_NODE_AND,       /* a, b */
    KVSI_NODE_OR,        /* a, b */
    KVSI_NODE_CHOICE,    /* b if a else c; c may be NULL */
    KVSI_NODE_CONCAT,    /* list */
    KVSI_NODE_BINARY,    /* a name b */
    KVSI_NODE_COMPARE,   /* a names[0] list[0] names[1] list[1] ... */
    KVSI_NODE_BLOCK_TEXT,
    /* statements; `next` is the one after it */
    KVSI_NODE_DATA,      /* value */
    KVSI_NODE_OUTPUT,    /* a */
    KVSI_NODE_IF,        /* a, body, other */
    KVSI_NODE_FOR,       /* target, a, condition b or NULL, body, other */
    KVSI_NODE_SET,       /* target = a */
    KVSI_NODE_SET_BLOCK, /* target = filters a of body */
    KVSI_NODE_FILTER,    /* filters a of body */
    KVSI_NODE_MACRO,     /* name, names, list = defaults or NULL, body */
    KVSI_NODE_BREAK,
    KVSI_NODE_CONTINUE,
    KVSI_NODE_GENERATION /* body */
} kvsi_node_kind;

typedef struct kvsi_node kvsi_node;

struct kvsi_node {
    kvsi_node_kind kind;
    unsigned line, depth;
    const char *name;
    kvsi_node *a, *b, *c;
    kvsi_node **list;
    const char **names;
    size_t count; /* of `list` and `names` */
    const kvsi_function *function;
    int is_method;     /* APPLY: a.function(list) */
    kvsi_node *target; /* NAME, TUPLE, or ATTRIBUTE of a namespace */
    kvsi_node *body, *other, *next;
    kvsi_value value;
};

/* Parses a template.  All nodes lie in the arena; text is copied. */
kvs_status kvsi_template_parse(kvsi_node **out, kvsi_arena *arena, const char *text, size_t size,
                               kvs_err *err);
/* Runs the statements with the variables of a dict; the output is r->out. */
kvs_status kvsi_template_run(kvsi_render *r, const kvsi_node *body, const kvsi_value *variables);

#endif
