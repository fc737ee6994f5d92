/* The parser: Jinja's grammar, in the order of jinja2's parser.  Filters, tests, functions and
 * methods are looked up here, and their arguments are put into the order of their parameters. */
#include "base/memory.h"
#include "base/utf8.h"
#include "chat/template.h"

#include <string.h>

typedef struct parser {
    kvsi_arena *arena;
    kvs_err *err;
    const kvsi_token *at;
    size_t depth;
    int loops;           /* enclosing loops in this macro or block */
    const char **macros; /* all names of macros in the template */
    size_t macro_count;
    const kvsi_node *safe; /* an application of the filter "safe" that no output has taken yet */
} parser;

enum { MACROS_MAX = 200 };

static kvs_status parse_expression(kvsi_node **out, parser *p);
static kvs_status parse_choice(kvsi_node **out, parser *p);
static kvs_status parse_unary(kvsi_node **out, parser *p, int with_filters);
static kvs_status parse_body(kvsi_node **out, parser *p, const char *const *ends);

/* ---- tokens ---------------------------------------------------------------------------------- */

static kvs_status no_memory(const parser *p)
{
    return kvsi_no_memory(p->err, "a chat template");
}

static int is_sign_at(const kvsi_token *token, const char *sign)
{
    return token->kind == KVSI_TOKEN_SIGN && strcmp(token->text, sign) == 0;
}

static int is_sign(const parser *p, const char *sign)
{
    return is_sign_at(p->at, sign);
}

static int is_word(const parser *p, const char *word)
{
    return p->at->kind == KVSI_TOKEN_NAME && strcmp(p->at->text, word) == 0;
}

static int skip_sign(parser *p, const char *sign)
{
    const int found = is_sign(p, sign);

    p->at += found;
    return found;
}

static int skip_word(parser *p, const char *word)
{
    const int found = is_word(p, word);

    p->at += found;
    return found;
}

static kvs_status unexpected(const parser *p, const char *expected)
{
    const kvsi_token *t = p->at;
    const char *found = t->kind == KVSI_TOKEN_END          ? "the end of the template"
                        : t->kind == KVSI_TOKEN_DATA       ? "text"
                        : t->kind <= KVSI_TOKEN_OUTPUT_END ? "the end of the tag"
                                                           : t->text;

    return kvsi_fail(p->err, KVS_E_FORMAT, "line %u: expected %s, found '%.60s'", t->line, expected,
                     found);
}

static kvs_status expect_sign(parser *p, const char *sign)
{
    return skip_sign(p, sign) ? KVS_OK : unexpected(p, sign);
}

static kvs_status expect_end(parser *p)
{
    if (p->at->kind != KVSI_TOKEN_BLOCK_END)
        return unexpected(p, "'%}'");
    p->at++;
    return KVS_OK;
}

static kvs_status unsupported(const parser *p, unsigned line, const char *what, const char *name)
{
    return kvsi_fail(p->err, KVS_E_UNSUPPORTED, "line %u: %s '%.60s' is not supported", line, what,
                     name);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static kvs_status make(kvsi_node **out, parser *p, kvsi_node_kind kind, unsigned line)
{
    *out = kvsi_arena_alloc(p->arena, 1, sizeof **out);
    if (!*out)
        return no_memory(p);
    (*out)->kind = kind;
    (*out)->line = line;
    (*out)->depth = 1;
    return KVS_OK;
}

/* Records that `inner` is part of `node`.  The evaluator calls itself once per level. */
static kvs_status deepen(const parser *p, kvsi_node *node, const kvsi_node *inner)
{
    if (inner && inner->depth >= node->depth)
        node->depth = inner->depth + 1;
    if (node->depth > KVSI_CHAT_DEPTH)
        return kvsi_fail(p->err, KVS_E_LIMIT, "line %u: nested deeper than %d", node->line,
                         KVSI_CHAT_DEPTH);
    return KVS_OK;
}

static kvs_status join(kvsi_node **out, parser *p, kvsi_node_kind kind, unsigned line, kvsi_node *a,
                       kvsi_node *b)
{
    kvsi_node *node;

    TRY(make(&node, p, kind, line));
    node->a = a;
    node->b = b;
    TRY(deepen(p, node, a));
    TRY(deepen(p, node, b));
    *out = node;
    return KVS_OK;
}

/* Adds to `list` and `names`. */
static kvs_status append(parser *p, kvsi_node *node, kvsi_node *item, const char *name)
{
    const size_t count = node->count;

    if ((count & (count - 1)) == 0) { /* full: the capacity is the next power of two */
        const size_t capacity = count ? 2 * count : 1;
        kvsi_node **list = kvsi_arena_alloc(p->arena, capacity, sizeof(kvsi_node *));
        const char **names = kvsi_arena_alloc(p->arena, capacity, sizeof *names);

        if (!list || !names)
            return no_memory(p);
        if (count > 0) {
            memcpy(list, node->list, count * sizeof(kvsi_node *));
            memcpy(names, node->names, count * sizeof *names);
        }
        node->list = list;
        node->names = names;
    }
    node->list[count] = item;
    node->names[count] = name;
    node->count++;
    return deepen(p, node, item);
}

static kvs_status enter(parser *p)
{
    if (++p->depth > KVSI_CHAT_DEPTH)
        return kvsi_fail(p->err, KVS_E_LIMIT, "line %u: nested deeper than %d", p->at->line,
                         KVSI_CHAT_DEPTH);
    return KVS_OK;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* Arguments in brackets, into `list` and `names` of the node. */
static kvs_status parse_arguments(parser *p, kvsi_node *node)
{
    TRY(expect_sign(p, "("));
    for (int first = 1; !is_sign(p, ")"); first = 0) {
        const char *name = NULL;
        kvsi_node *value;

        if (!first) {
            TRY(expect_sign(p, ","));
            if (is_sign(p, ")"))
                break;
        }
        if (is_sign(p, "*") || is_sign(p, "**"))
            return unsupported(p, p->at->line, "argument", p->at->text);
        if (p->at->kind == KVSI_TOKEN_NAME && is_sign_at(p->at + 1, "=")) {
            name = p->at->text;
            p->at += 2;
        } else if (node->count > 0 && node->names[node->count - 1]) {
            return unexpected(p, "a named argument");
        }
        TRY(parse_expression(&value, p));
        TRY(append(p, node, value, name));
    }
    return expect_sign(p, ")");
}

/* The index of a parameter by name; SIZE_MAX = there is none. */
static size_t find_parameter(const char *parameters, const char *name)
{
    const size_t size = strlen(name);
    size_t index = 0;

    for (const char *at = parameters; *at; index++) {
        const size_t length = strcspn(at, ",");
        const int star = *at == '*';

        if (length - (size_t)star == size && strncmp(at + star, name, size) == 0)
            return index;
        at += length + (at[length] == ',');
    }
    return SIZE_MAX;
}

static size_t count_parameters(const char *parameters, int positional)
{
    size_t count = 0;

    for (const char *at = parameters; *at; at += *at == ',') {
        count += !positional || *at != '*';
        at += strcspn(at, ",");
    }
    return count;
}

/* Puts arguments into the order of the function's parameters; missing ones become NULL. */
static kvs_status bind(parser *p, kvsi_node *node, const kvsi_function *function, const char *what)
{
    const size_t all = count_parameters(function->parameters, 0),
                 positional = count_parameters(function->parameters, 1);
    kvsi_node **bound;

    node->function = function;
    if (function->takes_any_names) {
        for (size_t i = 0; i < node->count; i++)
            if (!node->names[i])
                return kvsi_fail(p->err, KVS_E_UNSUPPORTED,
                                 "line %u: %s '%s' with an argument without a name is not "
                                 "supported",
                                 node->line, what, function->name);
        return KVS_OK;
    }
    bound = kvsi_arena_alloc(p->arena, all + 1, sizeof(kvsi_node *));
    if (!bound)
        return no_memory(p);
    for (size_t i = 0; i < node->count; i++) {
        const char *name = node->names[i];
        const size_t slot = name ? find_parameter(function->parameters, name) : i;

        if (slot >= (name ? all : positional) || bound[slot])
            return kvsi_fail(p->err, KVS_E_UNSUPPORTED,
                             "line %u: %s '%s' with argument '%.60s' is not supported", node->line,
                             what, function->name, name ? name : "more than it takes");
        bound[slot] = node->list[i];
    }
    for (size_t i = 0; i < function->required; i++)
        if (!bound[i])
            return kvsi_fail(p->err, KVS_E_FORMAT, "line %u: %s '%s' needs %zu argument%s",
                             node->line, what, function->name, function->required,
                             function->required == 1 ? "" : "s");
    node->list = bound;
    node->names = NULL;
    node->count = all;
    return KVS_OK;
}

static int is_macro(const parser *p, const char *name)
{
    for (size_t i = 0; i < p->macro_count; i++)
        if (strcmp(p->macros[i], name) == 0)
            return 1;
    return 0;
}

static kvs_status parse_call(kvsi_node **out, parser *p, kvsi_node *callee)
{
    const unsigned line = p->at->line;
    kvsi_node *node;

    TRY(join(&node, p, KVSI_NODE_CALL, line, callee, NULL));
    TRY(parse_arguments(p, node));
    *out = node;
    if (callee->kind == KVSI_NODE_NAME) {
        const kvsi_function *function = kvsi_find_global(callee->name);

        if (is_macro(p, callee->name))
            return KVS_OK;
        if (!function)
            return unsupported(p, line, "function", callee->name);
        node->kind = KVSI_NODE_APPLY;
        node->a = NULL;
        return bind(p, node, function, "function");
    }
    if (callee->kind == KVSI_NODE_ATTRIBUTE) {
        const kvsi_function *method = kvsi_find_method(callee->name);

        if (!method)
            return unsupported(p, line, "method", callee->name);
        node->kind = KVSI_NODE_APPLY;
        node->is_method = 1;
        return bind(p, node, method, "method");
    }
    return kvsi_fail(p->err, KVS_E_UNSUPPORTED,
                     "line %u: a call of this expression is not "
                     "supported",
                     line);
}

/* Filters that take the name of another filter or of a test, which must be known at start. */
static kvs_status check_inner(parser *p, const kvsi_node *node)
{
    const char *name = node->function->name;
    const int by_test = strcmp(name, "select") == 0 || strcmp(name, "reject") == 0,
              by_attribute = strcmp(name, "selectattr") == 0 || strcmp(name, "rejectattr") == 0,
              is_map = strcmp(name, "map") == 0;
    const kvsi_node *inner = by_attribute        ? node->list[1]
                             : by_test || is_map ? node->list[0]
                                                 : NULL;

    if (!inner)
        return KVS_OK;
    if (inner->kind != KVSI_NODE_CONSTANT || inner->value.kind != KVSI_VALUE_TEXT)
        return kvsi_fail(p->err, KVS_E_UNSUPPORTED,
                         "line %u: filter '%s' needs a name in quotes here", node->line, name);
    if (!(is_map ? kvsi_find_filter(inner->value.text) : kvsi_find_test(inner->value.text)))
        return unsupported(p, node->line, is_map ? "filter" : "test", inner->value.text);
    return KVS_OK;
}

/* The filter "safe" marks text, which changes how it is joined with other text.  It is only known
 * at the end of an output, where that cannot happen. */
static kvs_status check_safe(const parser *p)
{
    return p->safe ? kvsi_fail(p->err, KVS_E_UNSUPPORTED,
                               "line %u: filter 'safe' is only supported at the end of an output",
                               p->safe->line)
                   : KVS_OK;
}

/* After '|': a name and arguments. */
static kvs_status parse_filter(kvsi_node **out, parser *p, kvsi_node *value)
{
    const unsigned line = p->at->line;
    const kvsi_function *function;
    kvsi_node *node;

    if (p->at->kind != KVSI_TOKEN_NAME)
        return unexpected(p, "the name of a filter");
    function = kvsi_find_filter(p->at->text);
    if (!function || is_sign_at(p->at + 1, "."))
        return unsupported(p, line, "filter", p->at->text);
    p->at++;
    TRY(join(&node, p, KVSI_NODE_APPLY, line, value, NULL));
    if (is_sign(p, "("))
        TRY(parse_arguments(p, node));
    TRY(bind(p, node, function, "filter"));
    TRY(check_inner(p, node));
    *out = node;
    if (strcmp(function->name, "safe") != 0)
        return KVS_OK;
    TRY(check_safe(p));
    p->safe = node;
    return KVS_OK;
}

static kvs_status parse_postfix(kvsi_node **out, parser *p);

/* After 'is': a test, negated or not, and its arguments. */
static kvs_status parse_test(kvsi_node **out, parser *p, kvsi_node *value)
{
    const int negated = skip_word(p, "not");
    const unsigned line = p->at->line;
    const kvsi_function *function;
    kvsi_node *node, *argument;

    if (p->at->kind != KVSI_TOKEN_NAME)
        return unexpected(p, "the name of a test");
    function = kvsi_find_test(p->at->text);
    if (!function || is_sign_at(p->at + 1, "."))
        return unsupported(p, line, "test", p->at->text);
    p->at++;
    TRY(join(&node, p, KVSI_NODE_APPLY, line, value, NULL));
    if (is_sign(p, "(")) {
        TRY(parse_arguments(p, node));
    } else if ((p->at->kind >= KVSI_TOKEN_NAME && p->at->kind <= KVSI_TOKEN_REAL &&
                !is_word(p, "else") && !is_word(p, "or") && !is_word(p, "and")) ||
               is_sign(p, "[") || is_sign(p, "{")) {
        if (is_word(p, "is"))
            return unexpected(p, "no second test");
        TRY(parse_postfix(&argument, p));
        TRY(append(p, node, argument, NULL));
    }
    TRY(bind(p, node, function, "test"));
    if (negated)
        return join(out, p, KVSI_NODE_NOT, line, node, NULL);
    *out = node;
    return KVS_OK;
}

/* ---- expressions ----------------------------------------------------------------------------- */

/* Expressions with commas, up to a token that ends them: a tuple, or the only one. */
static kvs_status parse_tuple(kvsi_node **out, parser *p, int with_choice, int in_brackets)
{
    const unsigned line = p->at->line;
    kvsi_node *tuple, *item;
    int is_tuple = 0;

    TRY(make(&tuple, p, KVSI_NODE_TUPLE, line));
    for (;;) {
        if (tuple->count > 0 || (in_brackets && is_sign(p, ")"))) {
            if (p->at->kind == KVSI_TOKEN_BLOCK_END || p->at->kind == KVSI_TOKEN_OUTPUT_END ||
                is_sign(p, ")"))
                break;
        }
        if (with_choice)
            TRY(parse_expression(&item, p));
        else
            TRY(parse_choice(&item, p));
        TRY(append(p, tuple, item, NULL));
        if (!skip_sign(p, ","))
            break;
        is_tuple = 1;
    }
    *out = is_tuple || tuple->count == 0 ? tuple : tuple->list[0];
    return KVS_OK;
}

static kvs_status parse_list(kvsi_node **out, parser *p)
{
    kvsi_node *node, *item;

    TRY(make(&node, p, KVSI_NODE_LIST, p->at->line));
    TRY(expect_sign(p, "["));
    while (!is_sign(p, "]")) {
        if (node->count > 0)
            TRY(expect_sign(p, ","));
        if (is_sign(p, "]"))
            break;
        TRY(parse_expression(&item, p));
        TRY(append(p, node, item, NULL));
    }
    *out = node;
    return expect_sign(p, "]");
}

/* Whether the expression, whatever its variables are, is no text. */
static int is_never_text(const kvsi_node *node)
{
    switch (node->kind) {
    case KVSI_NODE_CONSTANT:
        return node->value.kind != KVSI_VALUE_TEXT;
    case KVSI_NODE_LIST:
    case KVSI_NODE_TUPLE:
    case KVSI_NODE_DICT:
    case KVSI_NODE_NOT:
    case KVSI_NODE_NEGATIVE:
    case KVSI_NODE_POSITIVE:
        return 1;
    default:
        return 0;
    }
}

static kvs_status parse_dict(kvsi_node **out, parser *p)
{
    kvsi_node *node, *item;

    TRY(make(&node, p, KVSI_NODE_DICT, p->at->line));
    TRY(expect_sign(p, "{"));
    while (!is_sign(p, "}")) {
        if (node->count > 0)
            TRY(expect_sign(p, ","));
        if (is_sign(p, "}"))
            break;
        TRY(parse_expression(&item, p));
        if (is_never_text(item))
            return kvsi_fail(p->err, KVS_E_UNSUPPORTED,
                             "line %u: a dict with a key that is no text is not supported",
                             item->line);
        TRY(append(p, node, item, NULL));
        TRY(expect_sign(p, ":"));
        TRY(parse_expression(&item, p));
        TRY(append(p, node, item, NULL));
    }
    *out = node;
    return expect_sign(p, "}");
}

static kvs_status constant(kvsi_node **out, parser *p, kvsi_value value)
{
    TRY(make(out, p, KVSI_NODE_CONSTANT, p->at->line));
    (*out)->value = value;
    p->at++;
    return KVS_OK;
}

/* Adjacent strings are one. */
static kvs_status parse_string(kvsi_node **out, parser *p)
{
    kvsi_text text = {0};
    char *copy = NULL;

    if (p->at[1].kind != KVSI_TOKEN_STRING)
        return constant(out, p, kvsi_borrow(p->at->text, p->at->size));
    for (; p->at->kind == KVSI_TOKEN_STRING; p->at++)
        kvsi_text_add_bytes(&text, p->at->text, p->at->size);
    p->at--;
    if (kvsi_text_check(&text, p->err) == KVS_OK)
        copy = kvsi_arena_copy(p->arena, text.length ? text.data : "", text.length);
    const size_t size = text.length;

    kvsi_text_release(&text);
    return copy ? constant(out, p, kvsi_borrow(copy, size)) : no_memory(p);
}

static kvs_status parse_name(kvsi_node **out, parser *p)
{
    static const char *const refused[] = {"caller", "varargs", "kwargs", "self",   "super",
                                          "cycler", "joiner",  "lipsum", "gettext"};

    if (is_word(p, "true") || is_word(p, "True"))
        return constant(out, p, kvsi_bool(1));
    if (is_word(p, "false") || is_word(p, "False"))
        return constant(out, p, kvsi_bool(0));
    if (is_word(p, "none") || is_word(p, "None"))
        return constant(out, p, (kvsi_value){.kind = KVSI_VALUE_NONE});
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (is_word(p, refused[i]))
            return unsupported(p, p->at->line, "name", refused[i]);
    TRY(make(out, p, KVSI_NODE_NAME, p->at->line));
    (*out)->name = p->at->text;
    p->at++;
    return KVS_OK;
}

static kvs_status parse_primary(kvsi_node **out, parser *p)
{
    switch (p->at->kind) {
    case KVSI_TOKEN_NAME:
        return parse_name(out, p);
    case KVSI_TOKEN_STRING:
        return parse_string(out, p);
    case KVSI_TOKEN_WHOLE:
        return constant(out, p, kvsi_whole(p->at->whole));
    case KVSI_TOKEN_REAL:
        return constant(out, p, (kvsi_value){.kind = KVSI_VALUE_REAL, .real = p->at->real});
    default:
        break;
    }
    if (is_sign(p, "["))
        return parse_list(out, p);
    if (is_sign(p, "{"))
        return parse_dict(out, p);
    if (!skip_sign(p, "("))
        return unexpected(p, "an expression");
    TRY(parse_tuple(out, p, 1, 1));
    return expect_sign(p, ")");
}

/* value[...] */
static kvs_status parse_subscript(kvsi_node **out, parser *p, kvsi_node *value)
{
    const unsigned line = p->at->line;
    kvsi_node *parts[3] = {NULL}, *node;
    size_t part = 0;
    int is_slice = 0;

    TRY(expect_sign(p, "["));
    while (!is_sign(p, "]")) {
        if (skip_sign(p, ":")) {
            is_slice = 1;
            if (++part > 2)
                return unexpected(p, "']'");
        } else if (parts[part]) {
            return unexpected(p, "']'"); /* also several indices, which no value here has */
        } else {
            TRY(parse_expression(&parts[part], p));
        }
    }
    p->at++;
    if (!is_slice && !parts[0])
        return unexpected(p, "an index");
    TRY(join(&node, p, is_slice ? KVSI_NODE_SLICE : KVSI_NODE_ITEM, line, value,
             is_slice ? NULL : parts[0]));
    for (size_t i = 0; is_slice && i < 3; i++)
        TRY(append(p, node, parts[i], NULL));
    *out = node;
    return KVS_OK;
}

static kvs_status parse_attribute(kvsi_node **out, parser *p, kvsi_node *value)
{
    const unsigned line = p->at->line;
    kvsi_node *node;

    p->at++;
    if (p->at->kind != KVSI_TOKEN_NAME)
        return unexpected(p, "a name after '.'");
    if (strncmp(p->at->text, "__", 2) == 0)
        return unsupported(p, line, "attribute", p->at->text);
    TRY(join(&node, p, KVSI_NODE_ATTRIBUTE, line, value, NULL));
    node->name = p->at->text;
    p->at++;
    *out = node;
    return KVS_OK;
}

/* Attributes, subscripts and calls behind a value. */
static kvs_status parse_behind(kvsi_node **out, parser *p, kvsi_node *node)
{
    for (;;) {
        if (is_sign(p, "."))
            TRY(parse_attribute(&node, p, node));
        else if (is_sign(p, "["))
            TRY(parse_subscript(&node, p, node));
        else if (is_sign(p, "("))
            TRY(parse_call(&node, p, node));
        else
            break;
    }
    *out = node;
    return KVS_OK;
}

static kvs_status parse_postfix(kvsi_node **out, parser *p)
{
    kvsi_node *node = NULL;

    TRY(enter(p));
    TRY(parse_primary(&node, p));
    p->depth--;
    return parse_behind(out, p, node);
}

static kvs_status parse_unary(kvsi_node **out, parser *p, int with_filters)
{
    const unsigned line = p->at->line;
    kvsi_node *node;

    TRY(enter(p));
    if (is_sign(p, "-") || is_sign(p, "+")) {
        const int negative = is_sign(p, "-");

        p->at++;
        TRY(parse_unary(&node, p, 0));
        TRY(join(&node, p, negative ? KVSI_NODE_NEGATIVE : KVSI_NODE_POSITIVE, line, node, NULL));
        TRY(parse_behind(&node, p, node));
    } else {
        TRY(parse_postfix(&node, p));
    }
    while (with_filters) {
        if (skip_sign(p, "|"))
            TRY(parse_filter(&node, p, node));
        else if (skip_word(p, "is"))
            TRY(parse_test(&node, p, node));
        else if (is_sign(p, "("))
            TRY(parse_call(&node, p, node));
        else
            break;
    }
    p->depth--;
    *out = node;
    return KVS_OK;
}

static kvs_status parse_product(kvsi_node **out, parser *p)
{
    kvsi_node *left, *right;

    TRY(parse_unary(&left, p, 1));
    while (is_sign(p, "*") || is_sign(p, "/") || is_sign(p, "//") || is_sign(p, "%") ||
           is_sign(p, "**")) {
        const kvsi_token *sign = p->at++;

        if (strcmp(sign->text, "**") == 0)
            return unsupported(p, sign->line, "operator", sign->text);
        if (sign->text[0] == '%' && left->kind == KVSI_NODE_CONSTANT &&
            left->value.kind == KVSI_VALUE_TEXT)
            return unsupported(p, sign->line, "operator", "% after a text");
        TRY(parse_unary(&right, p, 1));
        TRY(join(&left, p, KVSI_NODE_BINARY, sign->line, left, right));
        left->name = sign->text;
    }
    *out = left;
    return KVS_OK;
}

static kvs_status parse_concat(kvsi_node **out, parser *p)
{
    const unsigned line = p->at->line;
    kvsi_node *item, *node;

    TRY(parse_product(&item, p));
    *out = item;
    if (!is_sign(p, "~"))
        return KVS_OK;
    TRY(make(&node, p, KVSI_NODE_CONCAT, line));
    TRY(append(p, node, item, NULL));
    while (skip_sign(p, "~")) {
        TRY(parse_product(&item, p));
        TRY(append(p, node, item, NULL));
    }
    *out = node;
    return KVS_OK;
}

static kvs_status parse_sum(kvsi_node **out, parser *p)
{
    kvsi_node *left, *right;

    TRY(parse_concat(&left, p));
    while (is_sign(p, "+") || is_sign(p, "-")) {
        const kvsi_token *sign = p->at++;

        TRY(parse_concat(&right, p));
        TRY(join(&left, p, KVSI_NODE_BINARY, sign->line, left, right));
        left->name = sign->text;
    }
    *out = left;
    return KVS_OK;
}

static const char *comparison(parser *p)
{
    static const char *const signs[] = {"==", "!=", ">=", "<=", ">", "<"};

    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (skip_sign(p, signs[i]))
            return signs[i];
    if (skip_word(p, "in"))
        return "in";
    if (is_word(p, "not") && p->at[1].kind == KVSI_TOKEN_NAME && strcmp(p->at[1].text, "in") == 0) {
        p->at += 2;
        return "not in";
    }
    return NULL;
}

static kvs_status parse_compare(kvsi_node **out, parser *p)
{
    const unsigned line = p->at->line;
    kvsi_node *first, *node = NULL, *item;
    const char *sign;

    TRY(parse_sum(&first, p));
    while ((sign = comparison(p)) != NULL) {
        TRY(parse_sum(&item, p));
        if (!node)
            TRY(join(&node, p, KVSI_NODE_COMPARE, line, first, NULL));
        TRY(append(p, node, item, sign));
    }
    *out = node ? node : first;
    return KVS_OK;
}

static kvs_status parse_not(kvsi_node **out, parser *p)
{
    const unsigned line = p->at->line;

    if (!skip_word(p, "not"))
        return parse_compare(out, p);
    TRY(enter(p));
    TRY(parse_not(out, p));
    p->depth--;
    return join(out, p, KVSI_NODE_NOT, line, *out, NULL);
}

static kvs_status parse_and(kvsi_node **out, parser *p)
{
    kvsi_node *right;

    TRY(parse_not(out, p));
    while (is_word(p, "and")) {
        const unsigned line = p->at++->line;

        TRY(parse_not(&right, p));
        TRY(join(out, p, KVSI_NODE_AND, line, *out, right));
    }
    return KVS_OK;
}

/* An expression without "if". */
static kvs_status parse_choice(kvsi_node **out, parser *p)
{
    kvsi_node *right;

    TRY(parse_and(out, p));
    while (is_word(p, "or")) {
        const unsigned line = p->at++->line;

        TRY(parse_and(&right, p));
        TRY(join(out, p, KVSI_NODE_OR, line, *out, right));
    }
    return KVS_OK;
}

static kvs_status parse_expression(kvsi_node **out, parser *p)
{
    kvsi_node *value, *node;

    TRY(enter(p));
    TRY(parse_choice(&value, p));
    while (is_word(p, "if")) {
        const unsigned line = p->at++->line;

        TRY(make(&node, p, KVSI_NODE_CHOICE, line));
        node->b = value;
        TRY(parse_choice(&node->a, p));
        if (skip_word(p, "else"))
            TRY(parse_expression(&node->c, p));
        TRY(deepen(p, node, node->a));
        TRY(deepen(p, node, node->b));
        TRY(deepen(p, node, node->c));
        value = node;
    }
    p->depth--;
    *out = value;
    return KVS_OK;
}

/* ---- statements ------------------------------------------------------------------------------ */

/* What a loop or 'set' assigns to: a name, names with commas, or an attribute of a namespace. */
static kvs_status parse_target(kvsi_node **out, parser *p, int may_be_attribute)
{
    const unsigned line = p->at->line;
    const int in_brackets = skip_sign(p, "(");
    kvsi_node *tuple, *name;
    int is_tuple = 0;

    TRY(make(&tuple, p, KVSI_NODE_TUPLE, line));
    do {
        if (tuple->count > 0 && p->at->kind != KVSI_TOKEN_NAME)
            break;
        if (p->at->kind != KVSI_TOKEN_NAME)
            return unexpected(p, "a name to assign to");
        TRY(parse_name(&name, p));
        if (name->kind != KVSI_NODE_NAME)
            return kvsi_fail(p->err, KVS_E_FORMAT, "line %u: a constant cannot be assigned to",
                             line);
        if (may_be_attribute && tuple->count == 0 && is_sign(p, ".")) {
            TRY(parse_attribute(out, p, name));
            if ((*out)->name[0] == '_')
                return unsupported(p, line, "attribute", (*out)->name);
            return KVS_OK;
        }
        TRY(append(p, tuple, name, NULL));
        is_tuple = is_tuple || is_sign(p, ",");
    } while (skip_sign(p, ","));
    if (in_brackets)
        TRY(expect_sign(p, ")"));
    *out = is_tuple ? tuple : tuple->list[0];
    return KVS_OK;
}

static kvs_status parse_if(kvsi_node *node, parser *p)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL}, *const end[] = {"endif",
                                                                                       NULL};

    TRY(parse_tuple(&node->a, p, 0, 0));
    TRY(deepen(p, node, node->a));
    TRY(expect_end(p));
    TRY(parse_body(&node->body, p, ends));
    TRY(deepen(p, node, node->body));
    if (is_word(p, "elif")) {
        const unsigned line = p->at->line;

        p->at++;
        TRY(enter(p));
        TRY(make(&node->other, p, KVSI_NODE_IF, line));
        TRY(parse_if(node->other, p));
        p->depth--;
        return deepen(p, node, node->other);
    }
    if (skip_word(p, "else")) {
        TRY(expect_end(p));
        TRY(parse_body(&node->other, p, end));
        TRY(deepen(p, node, node->other));
    }
    p->at++; /* endif */
    return expect_end(p);
}

static kvs_status parse_for(kvsi_node *node, parser *p)
{
    static const char *const ends[] = {"else", "endfor", NULL}, *const end[] = {"endfor", NULL};

    node->kind = KVSI_NODE_FOR;
    TRY(parse_target(&node->target, p, 0));
    if (!skip_word(p, "in"))
        return unexpected(p, "'in'");
    TRY(parse_tuple(&node->a, p, 0, 0));
    TRY(deepen(p, node, node->a));
    if (skip_word(p, "if")) {
        TRY(parse_expression(&node->b, p));
        TRY(deepen(p, node, node->b));
    }
    if (is_word(p, "recursive"))
        return unsupported(p, p->at->line, "loop", "recursive");
    TRY(expect_end(p));
    p->loops++;
    TRY(parse_body(&node->body, p, ends));
    p->loops--;
    TRY(deepen(p, node, node->body));
    if (skip_word(p, "else")) {
        TRY(expect_end(p));
        TRY(parse_body(&node->other, p, end));
        TRY(deepen(p, node, node->other));
    }
    p->at++; /* endfor */
    return expect_end(p);
}

/* A body that is a scope of its own and that no loop control leaves. */
static kvs_status parse_inner(kvsi_node *node, parser *p, const char *end)
{
    const char *const ends[] = {end, NULL};
    const int loops = p->loops;

    TRY(expect_end(p));
    p->loops = 0;
    TRY(parse_body(&node->body, p, ends));
    p->loops = loops;
    TRY(deepen(p, node, node->body));
    p->at++;
    return expect_end(p);
}

/* Filters that start from the text of a block. */
static kvs_status parse_filters(kvsi_node *node, parser *p, int required)
{
    TRY(make(&node->a, p, KVSI_NODE_BLOCK_TEXT, p->at->line));
    if (required)
        TRY(parse_filter(&node->a, p, node->a));
    while (skip_sign(p, "|"))
        TRY(parse_filter(&node->a, p, node->a));
    return deepen(p, node, node->a);
}

static kvs_status parse_set(kvsi_node *node, parser *p)
{
    TRY(parse_target(&node->target, p, 1));
    if (skip_sign(p, "=")) {
        node->kind = KVSI_NODE_SET;
        TRY(parse_tuple(&node->a, p, 1, 0));
        TRY(deepen(p, node, node->a));
        return expect_end(p);
    }
    node->kind = KVSI_NODE_SET_BLOCK;
    TRY(parse_filters(node, p, 0));
    return parse_inner(node, p, "endset");
}

static kvs_status parse_macro(kvsi_node *node, parser *p)
{
    node->kind = KVSI_NODE_MACRO;
    if (p->at->kind != KVSI_TOKEN_NAME)
        return unexpected(p, "the name of a macro");
    node->name = p->at->text;
    p->at++;
    TRY(expect_sign(p, "("));
    while (!is_sign(p, ")")) {
        kvsi_node *value = NULL, *name;

        if (node->count > 0)
            TRY(expect_sign(p, ","));
        if (p->at->kind != KVSI_TOKEN_NAME)
            return unexpected(p, "the name of a parameter");
        TRY(parse_name(&name, p));
        if (name->kind != KVSI_NODE_NAME)
            return unexpected(p, "the name of a parameter");
        for (size_t i = 0; i < node->count; i++)
            if (strcmp(node->names[i], name->name) == 0)
                return kvsi_fail(p->err, KVS_E_FORMAT, "line %u: parameter '%.60s' occurs twice",
                                 name->line, name->name);
        if (skip_sign(p, "="))
            TRY(parse_expression(&value, p));
        else if (node->count > 0 && node->list[node->count - 1])
            return unexpected(p, "a default, as the parameter before has one");
        TRY(append(p, node, value, name->name));
    }
    p->at++;
    return parse_inner(node, p, "endmacro");
}

static kvs_status parse_control(kvsi_node *node, parser *p, kvsi_node_kind kind)
{
    node->kind = kind;
    if (p->loops == 0)
        return kvsi_fail(p->err, KVS_E_FORMAT, "line %u: '%s' outside of a loop", node->line,
                         kind == KVSI_NODE_BREAK ? "break" : "continue");
    return expect_end(p);
}

/* After "{%". */
static kvs_status parse_statement(kvsi_node **out, parser *p)
{
    kvsi_node *node;

    if (p->at->kind != KVSI_TOKEN_NAME)
        return unexpected(p, "a statement");
    TRY(make(&node, p, KVSI_NODE_IF, p->at->line));
    *out = node;
    if (skip_word(p, "if"))
        return parse_if(node, p);
    if (skip_word(p, "for"))
        return parse_for(node, p);
    if (skip_word(p, "set"))
        return parse_set(node, p);
    if (skip_word(p, "macro"))
        return parse_macro(node, p);
    if (skip_word(p, "break"))
        return parse_control(node, p, KVSI_NODE_BREAK);
    if (skip_word(p, "continue"))
        return parse_control(node, p, KVSI_NODE_CONTINUE);
    if (skip_word(p, "generation")) {
        node->kind = KVSI_NODE_GENERATION;
        return parse_inner(node, p, "endgeneration");
    }
    if (skip_word(p, "filter")) {
        node->kind = KVSI_NODE_FILTER;
        TRY(parse_filters(node, p, 1));
        return parse_inner(node, p, "endfilter");
    }
    return unsupported(p, p->at->line, "statement", p->at->text);
}

/* Between "{{" and "}}". */
static kvs_status parse_output(kvsi_node **out, parser *p)
{
    kvsi_node *node;

    TRY(make(&node, p, KVSI_NODE_OUTPUT, p->at->line));
    TRY(parse_tuple(&node->a, p, 1, 0));
    TRY(deepen(p, node, node->a));
    if (p->at->kind != KVSI_TOKEN_OUTPUT_END)
        return unexpected(p, "'}}'");
    p->at++;
    if (p->safe == node->a)
        p->safe = NULL;
    *out = node;
    return check_safe(p);
}

static int is_end(const parser *p, const char *const *ends)
{
    for (; ends && *ends; ends++)
        if (is_word(p, *ends))
            return 1;
    return 0;
}

/* Statements up to one of the words in `ends`, which stays; NULL = up to the end of the
 * template. */
static kvs_status parse_body(kvsi_node **out, parser *p, const char *const *ends)
{
    kvsi_node **last = out, *first;
    unsigned depth = 1;

    *out = NULL;
    TRY(enter(p));
    for (;;) {
        const kvsi_token *token = p->at;

        if (token->kind == KVSI_TOKEN_END) {
            if (ends)
                return unexpected(p, ends[0]);
            break;
        }
        p->at++;
        if (token->kind == KVSI_TOKEN_BLOCK_BEGIN && is_end(p, ends))
            break;
        if (token->kind == KVSI_TOKEN_DATA) {
            TRY(make(last, p, KVSI_NODE_DATA, token->line));
            (*last)->value = kvsi_borrow(token->text, token->size);
        } else if (token->kind == KVSI_TOKEN_OUTPUT_BEGIN) {
            TRY(parse_output(last, p));
        } else {
            TRY(parse_statement(last, p));
        }
        depth = (*last)->depth > depth ? (*last)->depth : depth;
        last = &(*last)->next;
    }
    first = *out;
    if (first)
        first->depth = depth; /* the depth of a list of statements is that of its first */
    p->depth--;
    return KVS_OK;
}

static kvs_status find_macros(parser *p, const kvsi_token *tokens)
{
    size_t count = 0;

    for (int pass = 0; pass < 2; pass++) {
        p->macro_count = 0;
        for (const kvsi_token *t = tokens; t->kind != KVSI_TOKEN_END; t++)
            if (t->kind == KVSI_TOKEN_BLOCK_BEGIN && t[1].kind == KVSI_TOKEN_NAME &&
                strcmp(t[1].text, "macro") == 0 && t[2].kind == KVSI_TOKEN_NAME) {
                if (pass == 1)
                    p->macros[p->macro_count] = t[2].text;
                p->macro_count++;
            }
        count = p->macro_count;
        if (pass == 0)
            p->macros = kvsi_arena_alloc(p->arena, count + 1, sizeof *p->macros);
        if (!p->macros)
            return no_memory(p);
        if (count > MACROS_MAX)
            return kvsi_fail(p->err, KVS_E_LIMIT, "the template has more than %d macros",
                             MACROS_MAX);
    }
    return KVS_OK;
}

kvs_status kvsi_template_parse(kvsi_node **out, kvsi_arena *arena, const char *text, size_t size,
                               kvs_err *err)
{
    parser p = {.arena = arena, .err = err};
    kvsi_token *tokens;

    if (size > KVSI_CHAT_TEMPLATE_MAX)
        return kvsi_fail(err, KVS_E_LIMIT, "the template has %zu bytes, at most %d are read", size,
                         KVSI_CHAT_TEMPLATE_MAX);
    if (kvsi_utf8_valid(text, size) < size || (size > 0 && memchr(text, '\0', size)))
        return kvsi_fail(err, KVS_E_FORMAT, "the template is not UTF-8 text");
    TRY(kvsi_template_tokens(&tokens, arena, text, size, err));
    p.at = tokens;
    TRY(find_macros(&p, tokens));
    TRY(parse_body(out, &p, NULL));
    return check_safe(&p);
}
