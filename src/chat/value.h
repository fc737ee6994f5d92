/* chat/value.h - values of a template's expressions, with Python's rules.
 *
 * All values of one rendering lie in one arena, whose size is bounded, and are released together.
 * Text is valid UTF-8. */
#ifndef KVSI_CHAT_VALUE_H
#define KVSI_CHAT_VALUE_H

#include "base/arena.h"
#include "base/json.h"
#include "base/text.h"

/* Limits of one rendering.  A conversation of a million words needs a small part of each. */
enum {
    KVSI_CHAT_STEPS = 5000000,         /* expressions, iterations, comparisons */
    KVSI_CHAT_MEMORY = 128 << 20,      /* bytes of values */
    KVSI_CHAT_OUTPUT = 16 << 20,       /* bytes of text */
    KVSI_CHAT_DEPTH = 200,             /* nested statements, expressions and lists */
    KVSI_CHAT_CALLS = 30,              /* nested calls of macros */
    KVSI_CHAT_RANGE = 100000,          /* elements of range(), as in Jinja's sandbox */
    KVSI_CHAT_TEMPLATE_MAX = 1 << 20,  /* bytes of a template */
    KVSI_CHAT_MESSAGES_MAX = 16 << 20, /* bytes of messages as JSON */
};

typedef enum kvsi_kind {
    KVSI_VALUE_MISSING, /* an argument that was not given */
    KVSI_VALUE_UNDEFINED,
    KVSI_VALUE_NONE,
    KVSI_VALUE_BOOL,
    KVSI_VALUE_WHOLE,
    KVSI_VALUE_REAL,
    KVSI_VALUE_TEXT,
    KVSI_VALUE_LIST,
    KVSI_VALUE_TUPLE,
    KVSI_VALUE_RANGE,
    KVSI_VALUE_VIEW,      /* dict.items() and the like: a length, but no elements by index */
    KVSI_VALUE_GENERATOR, /* read once: what |map, |items and others return */
    KVSI_VALUE_DICT,
    KVSI_VALUE_NAMESPACE,
    KVSI_VALUE_FUNCTION, /* a global function */
    KVSI_VALUE_METHOD,   /* of a text, a list or a dict */
    KVSI_VALUE_MACRO,
    KVSI_VALUE_LOOP
} kvsi_kind;

typedef struct kvsi_value kvsi_value;

typedef struct kvsi_items {
    kvsi_value *at;
    size_t count, capacity;
    size_t depth; /* of nesting: 1 = no element is a list or a dict */
    size_t used;  /* by a generator */
} kvsi_items;

typedef struct kvsi_entry kvsi_entry;

typedef struct kvsi_dict { /* in order of insertion */
    kvsi_entry *at;
    size_t count, capacity;
    size_t depth;
} kvsi_dict;

struct kvsi_macro;
struct kvsi_loop;
struct kvsi_method;

struct kvsi_value {
    kvsi_kind kind;
    union {
        int64_t whole; /* also of a bool */
        double real;
        size_t size; /* of a text */
    };
    union {
        const char *text; /* not NUL-terminated; of an undefined value its name, NUL-terminated */
        kvsi_items *items;
        kvsi_dict *dict; /* also of a namespace */
        const struct kvsi_function *function;
        const struct kvsi_macro *macro;
        const struct kvsi_loop *loop;
        const struct kvsi_method *method;
    };
};

struct kvsi_entry {
    const char *key;
    size_t size;
    kvsi_value value;
};

/* One rendering. */
typedef struct kvsi_render {
    kvsi_arena *arena;
    kvs_err *err;
    uint64_t steps, bytes;
    size_t depth, calls;
    unsigned line;         /* of the statement or expression, for messages */
    int64_t now;           /* seconds since 1970 for strftime_now() */
    kvsi_text *out;        /* where statements write */
    kvsi_value block_text; /* what the filters of a set or filter block start from */
} kvsi_render;

/* Fails with "line N: ...". */
#define kvsi_render_fail(r, ...) kvsi_render_fail_as(r, KVS_E_INVALID, __VA_ARGS__)
kvs_status kvsi_render_fail_as(const kvsi_render *r, kvs_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#ifdef __clang_analyzer__ /* as for kvsi_fail */
#define kvsi_render_fail_as(r, status, ...)                                                        \
    ((void)kvsi_render_fail_as(r, status, __VA_ARGS__), (status))
#endif
/* Counts work; fails at the limit. */
kvs_status kvsi_render_work(kvsi_render *r, uint64_t steps);
/* Zeroed memory of the rendering. */
kvs_status kvsi_render_alloc(void **out, kvsi_render *r, size_t count, size_t size);

/* ---- making values ---- */

static inline kvsi_value kvsi_bool(int is)
{
    return (kvsi_value){.kind = KVSI_VALUE_BOOL, .whole = is != 0};
}

static inline kvsi_value kvsi_whole(int64_t number)
{
    return (kvsi_value){.kind = KVSI_VALUE_WHOLE, .whole = number};
}

static inline kvsi_value kvsi_borrow(const char *text, size_t size)
{
    return (kvsi_value){.kind = KVSI_VALUE_TEXT, .size = size, .text = text};
}

static inline kvsi_value kvsi_undefined(const char *name)
{
    return (kvsi_value){.kind = KVSI_VALUE_UNDEFINED, .text = name};
}

/* A copy of the text. */
kvs_status kvsi_make_text(kvsi_value *out, kvsi_render *r, const char *text, size_t size);
/* The same from text that was collected; releases it. */
kvs_status kvsi_take_text(kvsi_value *out, kvsi_render *r, kvsi_text *text);
/* An empty list, tuple, ... */
kvs_status kvsi_make_items(kvsi_value *out, kvsi_render *r, kvsi_kind kind);
kvs_status kvsi_add_item(kvsi_value *list, kvsi_render *r, kvsi_value item);
kvs_status kvsi_make_pair(kvsi_value *out, kvsi_render *r, kvsi_value first, kvsi_value second);
kvs_status kvsi_make_dict(kvsi_value *out, kvsi_render *r);
/* Replaces an entry or adds one.  `key` is borrowed. */
kvs_status kvsi_dict_set(kvsi_value *dict, kvsi_render *r, const char *key, size_t size,
                         kvsi_value value);
/* NULL = no such key. */
kvs_status kvsi_dict_find(const kvsi_value **out, kvsi_render *r, const kvsi_dict *dict,
                          const char *key, size_t size);
kvs_status kvsi_value_from_json(kvsi_value *out, kvsi_render *r, json_t *json);

/* ---- using values ---- */

int kvsi_is_number(const kvsi_value *value); /* also a bool, as in Python */
int kvsi_has_items(const kvsi_value *value); /* an array of elements in `items` */
int kvsi_truth(const kvsi_value *value);
const char *kvsi_kind_name(const kvsi_value *value);
double kvsi_as_real(const kvsi_value *number);
kvs_status kvsi_equal(int *out, kvsi_render *r, const kvsi_value *a, const kvsi_value *b);
/* a < b gives -1, a > b gives 1; fails for values without an order. */
kvs_status kvsi_order(int *out, kvsi_render *r, const kvsi_value *a, const kvsi_value *b);
/* The elements that a loop visits, in an array of the value or of the rendering. */
kvs_status kvsi_iterate(const kvsi_value **at, size_t *count, kvsi_render *r, kvsi_value *value);
/* len(); fails for values without a length. */
kvs_status kvsi_length(size_t *out, kvsi_render *r, const kvsi_value *value);

/* Adds what str(), repr() and json.dumps() return. */
kvs_status kvsi_add_str(kvsi_text *out, kvsi_render *r, const kvsi_value *value);
kvs_status kvsi_add_repr(kvsi_text *out, kvsi_render *r, const kvsi_value *value);

typedef struct kvsi_json_style {
    kvsi_value indent, item_separator, key_separator; /* KVSI_VALUE_NONE = the default */
    int ascii, sorted;
} kvsi_json_style;
kvs_status kvsi_add_json(kvsi_text *out, kvsi_render *r, const kvsi_value *value,
                         const kvsi_json_style *style, size_t depth);
/* str() as a value; a text is returned as it is. */
kvs_status kvsi_to_str(kvsi_value *out, kvsi_render *r, const kvsi_value *value);

/* The first occurrence of `part` in a text at or after a byte; NULL = none. */
kvs_status kvsi_find_part(const char **out, kvsi_render *r, const kvsi_value *text, size_t at,
                          const kvsi_value *part);
/* The number of characters, and the byte offset of one. */
size_t kvsi_characters(const char *text, size_t size);
size_t kvsi_offset_of(const char *text, size_t size, size_t character);

#endif
