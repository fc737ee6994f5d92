/* Runs a parsed template.  Names are looked up in scopes: a loop, a macro and a block have one of
 * their own, 'if' has none. */
#include "base/memory.h"
#include "chat/template.h"

#include <math.h>
#include <string.h>

enum { CALL_DEPTH = 2000 }; /* calls of evaluate() and run_body() within each other */

typedef struct variable {
    const char *name;
    kvsi_value value;
} variable;

typedef struct scope {
    struct scope *parent;
    variable *at;
    size_t count, capacity;
    const kvsi_dict *globals; /* of the outermost scope: the variables of the caller */
} scope;

struct kvsi_macro {
    const kvsi_node *node;
    scope *defined_in;
};

struct kvsi_loop {
    const kvsi_value *items;
    size_t index, count;
};

typedef enum flow { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE } flow;

static kvs_status evaluate(kvsi_value *out, kvsi_render *r, scope *s, const kvsi_node *node);
static kvs_status run_body(flow *out, kvsi_render *r, scope *s, const kvsi_node *body);

/* ---- scopes ---------------------------------------------------------------------------------- */

static kvs_status make_scope(scope **out, kvsi_render *r, scope *parent)
{
    void *memory;

    TRY(kvsi_render_alloc(&memory, r, 1, sizeof(scope)));
    *out = memory;
    (*out)->parent = parent;
    return KVS_OK;
}

static kvs_status find_name(kvsi_value *out, kvsi_render *r, const scope *s, const char *name)
{
    const kvsi_value *found = NULL;

    for (;; s = s->parent) {
        TRY(kvsi_render_work(r, s->count / 4 + 1));
        for (size_t i = 0; i < s->count; i++)
            if (strcmp(s->at[i].name, name) == 0) {
                *out = s->at[i].value;
                return KVS_OK;
            }
        if (!s->parent)
            break;
    }
    if (s->globals)
        TRY(kvsi_dict_find(&found, r, s->globals, name, strlen(name)));
    *out = found ? *found : kvsi_undefined(name);
    if (!found && kvsi_find_global(name))
        *out = (kvsi_value){.kind = KVSI_VALUE_FUNCTION, .function = kvsi_find_global(name)};
    return KVS_OK;
}

static kvs_status set_name(kvsi_render *r, scope *s, const char *name, kvsi_value value)
{
    TRY(kvsi_render_work(r, s->count / 4 + 1));
    for (size_t i = 0; i < s->count; i++)
        if (strcmp(s->at[i].name, name) == 0) {
            s->at[i].value = value;
            return KVS_OK;
        }
    if (s->count == s->capacity) {
        const size_t capacity = s->capacity ? 2 * s->capacity : 4;
        void *larger;

        TRY(kvsi_render_alloc(&larger, r, capacity, sizeof(variable)));
        if (s->count > 0)
            memcpy(larger, s->at, s->count * sizeof(variable));
        s->at = larger;
        s->capacity = capacity;
    }
    s->at[s->count++] = (variable){name, value};
    return KVS_OK;
}

static kvs_status assign(kvsi_render *r, scope *s, const kvsi_node *target, kvsi_value value)
{
    const kvsi_value *items;
    kvsi_value owner;
    size_t count;

    if (target->kind == KVSI_NODE_NAME)
        return set_name(r, s, target->name, value);
    if (target->kind == KVSI_NODE_ATTRIBUTE) {
        TRY(evaluate(&owner, r, s, target->a));
        if (owner.kind != KVSI_VALUE_NAMESPACE)
            return kvsi_render_fail(r, "'%.60s' is no namespace", target->a->name);
        return kvsi_dict_set(&owner, r, target->name, strlen(target->name), value);
    }
    TRY(kvsi_iterate(&items, &count, r, &value));
    if (value.kind == KVSI_VALUE_UNDEFINED || count != target->count)
        return kvsi_render_fail(r, "%zu values for %zu names", count, target->count);
    for (size_t i = 0; i < count; i++)
        TRY(set_name(r, s, target->list[i]->name, items[i]));
    return KVS_OK;
}

/* ---- attributes and items -------------------------------------------------------------------- */

static void loop_attribute(kvsi_value *out, const struct kvsi_loop *loop, const char *name,
                           size_t size)
{
    static const char *const names[] = {"index",    "index0",    "first",    "last",    "length",
                                        "revindex", "revindex0", "previtem", "nextitem"};
    size_t which = 0;

    while (which < 9 && !(strlen(names[which]) == size && memcmp(names[which], name, size) == 0))
        which++;
    switch (which) {
    case 0:
        *out = kvsi_whole((int64_t)loop->index + 1);
        break;
    case 1:
        *out = kvsi_whole((int64_t)loop->index);
        break;
    case 2:
        *out = kvsi_bool(loop->index == 0);
        break;
    case 3:
        *out = kvsi_bool(loop->index + 1 == loop->count);
        break;
    case 4:
        *out = kvsi_whole((int64_t)loop->count);
        break;
    case 5:
        *out = kvsi_whole((int64_t)(loop->count - loop->index));
        break;
    case 6:
        *out = kvsi_whole((int64_t)(loop->count - loop->index) - 1);
        break;
    case 7:
        *out = loop->index > 0 ? loop->items[loop->index - 1] : kvsi_undefined("loop.previtem");
        break;
    case 8:
        *out = loop->index + 1 < loop->count ? loop->items[loop->index + 1]
                                             : kvsi_undefined("loop.nextitem");
        break;
    default:
        *out = kvsi_undefined("loop");
    }
}

static kvs_status make_method(kvsi_value *out, kvsi_render *r, const kvsi_value *self,
                              const char *name)
{
    kvsi_method *method;
    void *memory;

    TRY(kvsi_render_alloc(&memory, r, 1, sizeof *method));
    method = memory;
    method->self = *self;
    method->function = kvsi_find_method(name);
    *out = (kvsi_value){.kind = KVSI_VALUE_METHOD, .method = method};
    return KVS_OK;
}

kvs_status kvsi_get_attribute(kvsi_value *out, kvsi_render *r, const kvsi_value *value,
                              const char *name, size_t size)
{
    const kvsi_value *found = NULL;
    char word[32];

    *out = kvsi_undefined("the attribute");
    if (value->kind == KVSI_VALUE_UNDEFINED)
        return kvsi_render_fail(r, "'%.100s' is undefined", value->text);
    if (value->kind == KVSI_VALUE_LOOP) {
        loop_attribute(out, value->loop, name, size);
        return KVS_OK;
    }
    if (size < sizeof word) {
        memcpy(word, name, size);
        word[size] = '\0';
        if (kvsi_has_method(value->kind, word))
            return make_method(out, r, value, word);
        if (value->kind == KVSI_VALUE_DICT && kvsi_is_hidden(word))
            return KVS_OK;
    }
    if (value->kind == KVSI_VALUE_DICT || value->kind == KVSI_VALUE_NAMESPACE)
        TRY(kvsi_dict_find(&found, r, value->dict, name, size));
    if (found)
        *out = *found;
    return KVS_OK;
}

/* The element at an index, which may be negative. */
static kvs_status element(kvsi_value *out, kvsi_render *r, const kvsi_value *value, int64_t index)
{
    size_t count;

    TRY(kvsi_length(&count, r, value));
    if (index < 0)
        index += (int64_t)count;
    if (index < 0 || (size_t)index >= count) {
        *out = kvsi_undefined("the element");
        return KVS_OK;
    }
    if (value->kind != KVSI_VALUE_TEXT) {
        *out = value->items->at[index];
        return KVS_OK;
    }
    const size_t first = kvsi_offset_of(value->text, value->size, (size_t)index);

    *out = kvsi_borrow(value->text + first,
                       kvsi_offset_of(value->text + first, value->size - first, 1));
    return kvsi_render_work(r, value->size / 64);
}

kvs_status kvsi_get_item(kvsi_value *out, kvsi_render *r, const kvsi_value *value,
                         const kvsi_value *key)
{
    const kvsi_value *found = NULL;

    *out = kvsi_undefined("the element");
    if (value->kind == KVSI_VALUE_UNDEFINED)
        return kvsi_render_fail(r, "'%.100s' is undefined", value->text);
    if (key->kind == KVSI_VALUE_TEXT) {
        if (value->kind == KVSI_VALUE_DICT)
            TRY(kvsi_dict_find(&found, r, value->dict, key->text, key->size));
        if (!found)
            return kvsi_get_attribute(out, r, value, key->text, key->size);
        *out = *found;
        return KVS_OK;
    }
    if ((key->kind == KVSI_VALUE_WHOLE || key->kind == KVSI_VALUE_BOOL) &&
        (value->kind == KVSI_VALUE_TEXT || value->kind == KVSI_VALUE_LIST ||
         value->kind == KVSI_VALUE_TUPLE || value->kind == KVSI_VALUE_RANGE))
        return element(out, r, value, key->whole);
    return KVS_OK;
}

/* A bound of a slice as Python adjusts it. */
static kvs_status slice_bound(int64_t *out, kvsi_render *r, scope *s, const kvsi_node *node,
                              int64_t automatic, int64_t low, int64_t high, int64_t count)
{
    kvsi_value value;

    *out = automatic;
    if (!node)
        return KVS_OK;
    TRY(evaluate(&value, r, s, node));
    if (value.kind == KVSI_VALUE_NONE)
        return KVS_OK;
    if (value.kind != KVSI_VALUE_WHOLE && value.kind != KVSI_VALUE_BOOL)
        return kvsi_render_fail(r, "a slice with %s", kvsi_kind_name(&value));
    *out = value.whole < 0 && value.whole >= INT64_MIN + count ? value.whole + count : value.whole;
    *out = *out < low ? low : *out > high ? high : *out;
    return KVS_OK;
}

static kvs_status slice(kvsi_value *out, kvsi_render *r, scope *s, const kvsi_node *node)
{
    kvsi_value value;
    kvsi_text text = {0};
    size_t length;
    int64_t start, stop, step, count;
    kvs_status st = KVS_OK;

    TRY(evaluate(&value, r, s, node->a));
    if (value.kind == KVSI_VALUE_UNDEFINED)
        return kvsi_render_fail(r, "'%.100s' is undefined", value.text);
    if (value.kind != KVSI_VALUE_TEXT && value.kind != KVSI_VALUE_LIST &&
        value.kind != KVSI_VALUE_TUPLE && value.kind != KVSI_VALUE_RANGE)
        return kvsi_render_fail(r, "%s cannot be sliced", kvsi_kind_name(&value));
    TRY(kvsi_length(&length, r, &value));
    count = (int64_t)length;
    TRY(slice_bound(&step, r, s, node->list[2], 1, INT32_MIN, INT32_MAX, 0));
    if (step == 0)
        return kvsi_render_fail(r, "a slice with step 0");
    TRY(slice_bound(&start, r, s, node->list[0], step > 0 ? 0 : count - 1, step > 0 ? 0 : -1,
                    step > 0 ? count : count - 1, count));
    TRY(slice_bound(&stop, r, s, node->list[1], step > 0 ? count : -1, step > 0 ? 0 : -1,
                    step > 0 ? count : count - 1, count));
    if (value.kind == KVSI_VALUE_TEXT && step == 1) {
        const size_t first = kvsi_offset_of(value.text, value.size, (size_t)start);
        const size_t size = stop > start ? kvsi_offset_of(value.text + first, value.size - first,
                                                          (size_t)(stop - start))
                                         : 0;

        *out = kvsi_borrow(value.text + first, size);
        return kvsi_render_work(r, value.size / 64);
    }
    if (value.kind != KVSI_VALUE_TEXT)
        TRY(kvsi_make_items(out, r,
                            value.kind == KVSI_VALUE_TUPLE ? KVSI_VALUE_TUPLE : KVSI_VALUE_LIST));
    for (int64_t i = start; step > 0 ? i < stop : i > stop; i += step) {
        kvsi_value item;

        TRY_OUT(element(&item, r, &value, i));
        if (value.kind != KVSI_VALUE_TEXT)
            TRY_OUT(kvsi_add_item(out, r, item));
        else
            TRY_OUT(kvsi_add_str(&text, r, &item));
    }
    if (value.kind == KVSI_VALUE_TEXT)
        return kvsi_take_text(out, r, &text);
out:
    kvsi_text_release(&text);
    return st;
}

/* ---- operators ------------------------------------------------------------------------------- */

static kvs_status no_operator(const kvsi_render *r, const char *sign, const kvsi_value *a,
                              const kvsi_value *b)
{
    const kvsi_value *undefined = a->kind == KVSI_VALUE_UNDEFINED ? a : b;

    if (undefined->kind == KVSI_VALUE_UNDEFINED)
        return kvsi_render_fail(r, "'%.100s' is undefined", undefined->text);
    return kvsi_render_fail(r, "%s %s %s has no meaning here", kvsi_kind_name(a), sign,
                            kvsi_kind_name(b));
}

static kvs_status add_values(kvsi_value *out, kvsi_render *r, const kvsi_value *a,
                             const kvsi_value *b)
{
    kvsi_text text = {0};
    kvs_status st;

    if (a->kind == KVSI_VALUE_TEXT && b->kind == KVSI_VALUE_TEXT) {
        TRY_OUT(kvsi_add_str(&text, r, a));
        TRY_OUT(kvsi_add_str(&text, r, b));
        return kvsi_take_text(out, r, &text);
    }
    if (a->kind != b->kind || (a->kind != KVSI_VALUE_LIST && a->kind != KVSI_VALUE_TUPLE))
        return no_operator(r, "+", a, b);
    TRY(kvsi_make_items(out, r, a->kind));
    for (size_t i = 0; i < a->items->count; i++)
        TRY(kvsi_add_item(out, r, a->items->at[i]));
    for (size_t i = 0; i < b->items->count; i++)
        TRY(kvsi_add_item(out, r, b->items->at[i]));
    return KVS_OK;
out:
    kvsi_text_release(&text);
    return st;
}

static kvs_status repeat(kvsi_value *out, kvsi_render *r, const kvsi_value *value, int64_t times)
{
    kvsi_text text = {0};
    kvs_status st = KVS_OK;

    if (value->kind != KVSI_VALUE_TEXT)
        TRY(kvsi_make_items(out, r, value->kind));
    for (int64_t i = 0; i < times; i++) {
        TRY_OUT(kvsi_render_work(r, 1));
        if (value->kind == KVSI_VALUE_TEXT)
            TRY_OUT(kvsi_add_str(&text, r, value));
        else
            for (size_t k = 0; k < value->items->count; k++)
                TRY_OUT(kvsi_add_item(out, r, value->items->at[k]));
    }
    if (value->kind == KVSI_VALUE_TEXT)
        return kvsi_take_text(out, r, &text);
out:
    kvsi_text_release(&text);
    return st;
}

static int is_sequence(const kvsi_value *value)
{
    return value->kind == KVSI_VALUE_TEXT || value->kind == KVSI_VALUE_LIST ||
           value->kind == KVSI_VALUE_TUPLE;
}

static kvs_status whole_numbers(kvsi_value *out, kvsi_render *r, const char *sign, int64_t a,
                                int64_t b)
{
    int64_t result = 0;
    int overflows = 0;

    switch (sign[0]) {
    case '+':
        overflows = __builtin_add_overflow(a, b, &result);
        break;
    case '-':
        overflows = __builtin_sub_overflow(a, b, &result);
        break;
    case '*':
        overflows = __builtin_mul_overflow(a, b, &result);
        break;
    default: /* // and %, which round down */
        if (b == 0)
            return kvsi_render_fail(r, "division by zero");
        if (b == -1) {
            overflows = sign[0] == '/' && __builtin_sub_overflow(0, a, &result);
            break;
        }
        result = a / b - ((a % b != 0) && ((a < 0) != (b < 0)));
        if (sign[0] == '%')
            result = a - result * b;
    }
    if (overflows)
        return kvsi_render_fail_as(r, KVS_E_LIMIT, "a number is too large");
    *out = kvsi_whole(result);
    return KVS_OK;
}

static kvs_status real_numbers(kvsi_value *out, kvsi_render *r, const char *sign, double a,
                               double b)
{
    double result;

    if ((sign[0] == '/' || sign[0] == '%') && b == 0)
        return kvsi_render_fail(r, "division by zero");
    if (sign[0] == '+')
        result = a + b;
    else if (sign[0] == '-')
        result = a - b;
    else if (sign[0] == '*')
        result = a * b;
    else if (sign[0] == '/' && sign[1] == '\0')
        result = a / b;
    else
        return kvsi_render_fail_as(r, KVS_E_UNSUPPORTED, "'%s' of floats is not supported", sign);
    *out = (kvsi_value){.kind = KVSI_VALUE_REAL, .real = result};
    return KVS_OK;
}

static kvs_status binary(kvsi_value *out, kvsi_render *r, const char *sign, const kvsi_value *a,
                         const kvsi_value *b)
{
    if (kvsi_is_number(a) && kvsi_is_number(b)) {
        if (a->kind != KVSI_VALUE_REAL && b->kind != KVSI_VALUE_REAL && strcmp(sign, "/") != 0)
            return whole_numbers(out, r, sign, a->whole, b->whole);
        return real_numbers(out, r, sign, kvsi_as_real(a), kvsi_as_real(b));
    }
    if (sign[0] == '+')
        return add_values(out, r, a, b);
    if (sign[0] == '*' && is_sequence(a) &&
        (b->kind == KVSI_VALUE_WHOLE || b->kind == KVSI_VALUE_BOOL))
        return repeat(out, r, a, b->whole);
    if (sign[0] == '*' && is_sequence(b) &&
        (a->kind == KVSI_VALUE_WHOLE || a->kind == KVSI_VALUE_BOOL))
        return repeat(out, r, b, a->whole);
    if (sign[0] == '%' && a->kind == KVSI_VALUE_TEXT)
        return kvsi_render_fail_as(r, KVS_E_UNSUPPORTED, "'%%' after a text is not supported");
    return no_operator(r, sign, a, b);
}

static kvs_status contains(int *out, kvsi_render *r, kvsi_value *all, const kvsi_value *one)
{
    const kvsi_value *found = NULL, *items;
    const char *at;
    size_t count;

    *out = 0;
    if (all->kind == KVSI_VALUE_TEXT) {
        if (one->kind != KVSI_VALUE_TEXT)
            return no_operator(r, "in", one, all);
        TRY(kvsi_find_part(&at, r, all, 0, one));
        *out = at != NULL;
        return KVS_OK;
    }
    if (all->kind == KVSI_VALUE_DICT) {
        if (one->kind == KVSI_VALUE_TEXT)
            TRY(kvsi_dict_find(&found, r, all->dict, one->text, one->size));
        *out = found != NULL;
        return KVS_OK;
    }
    TRY(kvsi_iterate(&items, &count, r, all));
    for (size_t i = 0; i < count && !*out; i++)
        TRY(kvsi_equal(out, r, &items[i], one));
    return KVS_OK;
}

static kvs_status compare_pair(int *out, kvsi_render *r, const char *sign, const kvsi_value *a,
                               kvsi_value *b)
{
    int order;

    if (strcmp(sign, "==") == 0 || strcmp(sign, "!=") == 0) {
        TRY(kvsi_equal(out, r, a, b));
        *out ^= sign[0] == '!';
        return KVS_OK;
    }
    if (strcmp(sign, "in") == 0 || strcmp(sign, "not in") == 0) {
        TRY(contains(out, r, b, a));
        *out ^= sign[0] == 'n';
        return KVS_OK;
    }
    if (a->kind == KVSI_VALUE_UNDEFINED || b->kind == KVSI_VALUE_UNDEFINED)
        return no_operator(r, sign, a, b);
    TRY(kvsi_order(&order, r, a, b));
    *out = sign[0] == '<' ? order < 0 : order > 0;
    if (sign[1] == '=')
        *out = *out || order == 0;
    return KVS_OK;
}

static kvs_status compare(kvsi_value *out, kvsi_render *r, scope *s, const kvsi_node *node)
{
    kvsi_value left, right;
    int holds = 1;

    TRY(evaluate(&left, r, s, node->a));
    for (size_t i = 0; i < node->count && holds; i++) {
        TRY(evaluate(&right, r, s, node->list[i]));
        TRY(compare_pair(&holds, r, node->names[i], &left, &right));
        left = right;
    }
    *out = kvsi_bool(holds);
    return KVS_OK;
}

static kvs_status concatenate(kvsi_value *out, kvsi_render *r, scope *s, const kvsi_node *node)
{
    kvsi_text text = {0};
    kvs_status st = KVS_OK;

    for (size_t i = 0; i < node->count; i++) {
        kvsi_value item;

        TRY_OUT(evaluate(&item, r, s, node->list[i]));
        TRY_OUT(kvsi_add_str(&text, r, &item));
    }
    return kvsi_take_text(out, r, &text);
out:
    kvsi_text_release(&text);
    return st;
}

static kvs_status negate(kvsi_value *out, kvsi_render *r, scope *s, const kvsi_node *node)
{
    kvsi_value value;

    TRY(evaluate(&value, r, s, node->a));
    if (!kvsi_is_number(&value))
        return kvsi_render_fail(r, "a sign before %s", kvsi_kind_name(&value));
    if (value.kind == KVSI_VALUE_REAL) {
        *out = value;
        if (node->kind == KVSI_NODE_NEGATIVE)
            out->real = -value.real;
        return KVS_OK;
    }
    return whole_numbers(out, r, node->kind == KVSI_NODE_NEGATIVE ? "-" : "+", 0, value.whole);
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* Runs a body and returns what it writes. */
static kvs_status capture(kvsi_value *out, kvsi_render *r, scope *s, const kvsi_node *body)
{
    kvsi_text *const outer = r->out;
    kvsi_text text = {0};
    flow ignored;
    kvs_status st;

    r->out = &text;
    st = run_body(&ignored, r, s, body);
    r->out = outer;
    if (st == KVS_OK)
        return kvsi_take_text(out, r, &text);
    kvsi_text_release(&text);
    return st;
}

static kvs_status call_macro(kvsi_value *out, kvsi_render *r, scope *s, const kvsi_node *call,
                             const struct kvsi_macro *macro)
{
    const kvsi_node *node = macro->node;
    scope *inner;
    kvs_status st;

    TRY(make_scope(&inner, r, macro->defined_in));
    for (size_t i = 0; i < call->count; i++) {
        const char *name = call->names[i];
        size_t slot = name ? 0 : i;
        kvsi_value value;

        for (; name && slot < node->count; slot++)
            if (strcmp(node->names[slot], name) == 0)
                break;
        if (slot >= node->count)
            return kvsi_render_fail(r, "macro '%.60s' takes no argument '%.60s'", node->name,
                                    name ? name : "more");
        TRY(evaluate(&value, r, s, call->list[i]));
        for (size_t k = 0; k < inner->count; k++)
            if (strcmp(inner->at[k].name, node->names[slot]) == 0)
                return kvsi_render_fail(r, "macro '%.60s' got '%.60s' twice", node->name,
                                        node->names[slot]);
        TRY(set_name(r, inner, node->names[slot], value));
    }
    for (size_t i = 0; i < node->count; i++) {
        kvsi_value value = kvsi_undefined(node->names[i]);
        size_t k = 0;

        while (k < inner->count && strcmp(inner->at[k].name, node->names[i]) != 0)
            k++;
        if (k < inner->count)
            continue;
        if (node->list[i])
            TRY(evaluate(&value, r, inner, node->list[i]));
        TRY(set_name(r, inner, node->names[i], value));
    }
    if (++r->calls > KVSI_CHAT_CALLS)
        return kvsi_render_fail_as(r, KVS_E_LIMIT, "more than %d nested calls of macros",
                                   KVSI_CHAT_CALLS);
    st = capture(out, r, inner, node->body);
    r->calls--;
    return st;
}

static kvs_status named_arguments(kvsi_value *out, kvsi_render *r, scope *s, const kvsi_node *node)
{
    TRY(kvsi_make_dict(out, r));
    for (size_t i = 0; i < node->count; i++) {
        kvsi_value value;

        TRY(evaluate(&value, r, s, node->list[i]));
        TRY(kvsi_dict_set(out, r, node->names[i], strlen(node->names[i]), value));
    }
    return KVS_OK;
}

/* A filter, a test, a function or a method. */
static kvs_status apply(kvsi_value *out, kvsi_render *r, scope *s, const kvsi_node *node)
{
    kvsi_value args[KVSI_ARGUMENTS_MAX + 1] = {{0}};
    const kvsi_function *function = node->function;

    if (node->is_method) {
        kvsi_value callee;

        TRY(evaluate(&callee, r, s, node->a));
        if (callee.kind == KVSI_VALUE_UNDEFINED)
            return kvsi_render_fail(r, "'%.60s' is undefined", node->a->name);
        if (callee.kind != KVSI_VALUE_METHOD || callee.method->function != function)
            return kvsi_render_fail(r, "'%.60s' cannot be called", node->a->name);
        args[0] = callee.method->self;
    } else if (node->a) {
        TRY(evaluate(&args[0], r, s, node->a));
    }
    if (function->takes_any_names)
        TRY(named_arguments(&args[0], r, s, node));
    for (size_t i = 0; !function->takes_any_names && i < node->count; i++)
        if (node->list[i])
            TRY(evaluate(&args[i + 1], r, s, node->list[i]));
    r->line = node->line;
    return function->run(out, r, args);
}

static kvs_status call(kvsi_value *out, kvsi_render *r, scope *s, const kvsi_node *node)
{
    kvsi_value callee;

    TRY(evaluate(&callee, r, s, node->a));
    r->line = node->line;
    if (callee.kind != KVSI_VALUE_MACRO)
        return kvsi_render_fail(r, "'%.60s' cannot be called", node->a->name);
    return call_macro(out, r, s, node, callee.macro);
}

/* ---- expressions ----------------------------------------------------------------------------- */

static kvs_status make_list(kvsi_value *out, kvsi_render *r, scope *s, const kvsi_node *node)
{
    TRY(kvsi_make_items(out, r, node->kind == KVSI_NODE_LIST ? KVSI_VALUE_LIST : KVSI_VALUE_TUPLE));
    for (size_t i = 0; i < node->count; i++) {
        kvsi_value item;

        TRY(evaluate(&item, r, s, node->list[i]));
        TRY(kvsi_add_item(out, r, item));
    }
    return KVS_OK;
}

static kvs_status make_dict(kvsi_value *out, kvsi_render *r, scope *s, const kvsi_node *node)
{
    TRY(kvsi_make_dict(out, r));
    for (size_t i = 0; i < node->count; i += 2) {
        kvsi_value key, value;

        TRY(evaluate(&key, r, s, node->list[i]));
        TRY(evaluate(&value, r, s, node->list[i + 1]));
        if (key.kind != KVSI_VALUE_TEXT)
            return kvsi_render_fail_as(r, KVS_E_UNSUPPORTED, "a dict with a key that is no text");
        TRY(kvsi_dict_set(out, r, key.text, key.size, value));
    }
    return KVS_OK;
}

static kvs_status evaluate_node(kvsi_value *out, kvsi_render *r, scope *s, const kvsi_node *node)
{
    kvsi_value a, b;

    switch (node->kind) {
    case KVSI_NODE_CONSTANT:
        *out = node->value;
        return KVS_OK;
    case KVSI_NODE_NAME:
        return find_name(out, r, s, node->name);
    case KVSI_NODE_LIST:
    case KVSI_NODE_TUPLE:
        return make_list(out, r, s, node);
    case KVSI_NODE_DICT:
        return make_dict(out, r, s, node);
    case KVSI_NODE_ATTRIBUTE:
        TRY(evaluate(&a, r, s, node->a));
        TRY(kvsi_get_attribute(out, r, &a, node->name, strlen(node->name)));
        if (out->kind == KVSI_VALUE_UNDEFINED)
            *out = kvsi_undefined(node->name);
        return KVS_OK;
    case KVSI_NODE_ITEM:
        TRY(evaluate(&a, r, s, node->a));
        TRY(evaluate(&b, r, s, node->b));
        return kvsi_get_item(out, r, &a, &b);
    case KVSI_NODE_SLICE:
        return slice(out, r, s, node);
    case KVSI_NODE_CALL:
        return call(out, r, s, node);
    case KVSI_NODE_APPLY:
        return apply(out, r, s, node);
    case KVSI_NODE_NOT:
        TRY(evaluate(&a, r, s, node->a));
        *out = kvsi_bool(!kvsi_truth(&a));
        return KVS_OK;
    case KVSI_NODE_NEGATIVE:
    case KVSI_NODE_POSITIVE:
        return negate(out, r, s, node);
    case KVSI_NODE_AND:
    case KVSI_NODE_OR:
        TRY(evaluate(out, r, s, node->a));
        return kvsi_truth(out) == (node->kind == KVSI_NODE_AND) ? evaluate(out, r, s, node->b)
                                                                : KVS_OK;
    case KVSI_NODE_CHOICE:
        TRY(evaluate(&a, r, s, node->a));
        *out = kvsi_undefined("the expression without else");
        if (kvsi_truth(&a))
            return evaluate(out, r, s, node->b);
        return node->c ? evaluate(out, r, s, node->c) : KVS_OK;
    case KVSI_NODE_CONCAT:
        return concatenate(out, r, s, node);
    case KVSI_NODE_BINARY:
        TRY(evaluate(&a, r, s, node->a));
        TRY(evaluate(&b, r, s, node->b));
        r->line = node->line;
        return binary(out, r, node->name, &a, &b);
    case KVSI_NODE_COMPARE:
        return compare(out, r, s, node);
    default:
        *out = r->block_text;
        return KVS_OK;
    }
}

static kvs_status evaluate(kvsi_value *out, kvsi_render *r, scope *s, const kvsi_node *node)
{
    kvs_status st;

    TRY(kvsi_render_work(r, 1));
    r->line = node->line;
    if (++r->depth > CALL_DEPTH)
        return kvsi_render_fail_as(r, KVS_E_LIMIT, "calls are nested too deep");
    st = evaluate_node(out, r, s, node);
    r->depth--;
    return st;
}

/* ---- statements ------------------------------------------------------------------------------ */

/* The elements for which the condition of a loop holds. */
static kvs_status select_items(const kvsi_value **items, size_t *count, kvsi_render *r, scope *s,
                               const kvsi_node *node)
{
    kvsi_value chosen;

    TRY(kvsi_make_items(&chosen, r, KVSI_VALUE_LIST));
    for (size_t i = 0; i < *count; i++) {
        kvsi_value holds;
        scope *inner;

        TRY(make_scope(&inner, r, s));
        TRY(assign(r, inner, node->target, (*items)[i]));
        TRY(evaluate(&holds, r, inner, node->b));
        if (kvsi_truth(&holds))
            TRY(kvsi_add_item(&chosen, r, (*items)[i]));
    }
    *items = chosen.items->at;
    *count = chosen.items->count;
    return KVS_OK;
}

static kvs_status run_for(kvsi_render *r, scope *s, const kvsi_node *node)
{
    const kvsi_value *items;
    kvsi_value iterated;
    struct kvsi_loop *loop;
    void *memory;
    scope *inner;
    size_t count;
    flow next = FLOW_NEXT;

    TRY(evaluate(&iterated, r, s, node->a));
    TRY(kvsi_iterate(&items, &count, r, &iterated));
    if (node->b)
        TRY(select_items(&items, &count, r, s, node));
    TRY(kvsi_render_alloc(&memory, r, 1, sizeof *loop));
    loop = memory;
    loop->items = items;
    loop->count = count;
    for (; loop->index < count && next != FLOW_BREAK; loop->index++) {
        TRY(kvsi_render_work(r, 1));
        TRY(make_scope(&inner, r, s));
        TRY(set_name(r, inner, "loop", (kvsi_value){.kind = KVSI_VALUE_LOOP, .loop = loop}));
        TRY(assign(r, inner, node->target, items[loop->index]));
        TRY(run_body(&next, r, inner, node->body));
    }
    if (count > 0)
        return KVS_OK;
    TRY(make_scope(&inner, r, s));
    return run_body(&next, r, inner, node->other);
}

static kvs_status run_block(kvsi_render *r, scope *s, const kvsi_node *node)
{
    const kvsi_value outer = r->block_text;
    kvsi_value value;
    scope *inner;
    kvs_status st;

    TRY(make_scope(&inner, r, s));
    TRY(capture(&value, r, inner, node->body));
    if (node->a) {
        r->block_text = value;
        st = evaluate(&value, r, s, node->a);
        r->block_text = outer;
        if (st != KVS_OK)
            return st;
    }
    return node->target ? assign(r, s, node->target, value) : kvsi_add_str(r->out, r, &value);
}

static kvs_status run_macro(kvsi_render *r, scope *s, const kvsi_node *node)
{
    struct kvsi_macro *macro;
    void *memory;

    TRY(kvsi_render_alloc(&memory, r, 1, sizeof *macro));
    macro = memory;
    macro->node = node;
    macro->defined_in = s;
    return set_name(r, s, node->name, (kvsi_value){.kind = KVSI_VALUE_MACRO, .macro = macro});
}

static kvs_status run_statement(flow *next, kvsi_render *r, scope *s, const kvsi_node *node)
{
    kvsi_value value;

    r->line = node->line;
    switch (node->kind) {
    case KVSI_NODE_DATA:
        return kvsi_add_str(r->out, r, &node->value);
    case KVSI_NODE_OUTPUT:
        TRY(evaluate(&value, r, s, node->a));
        return kvsi_add_str(r->out, r, &value);
    case KVSI_NODE_IF:
        TRY(evaluate(&value, r, s, node->a));
        return run_body(next, r, s, kvsi_truth(&value) ? node->body : node->other);
    case KVSI_NODE_FOR:
        return run_for(r, s, node);
    case KVSI_NODE_SET:
        TRY(evaluate(&value, r, s, node->a));
        return assign(r, s, node->target, value);
    case KVSI_NODE_SET_BLOCK:
    case KVSI_NODE_FILTER:
    case KVSI_NODE_GENERATION:
        return run_block(r, s, node);
    case KVSI_NODE_MACRO:
        return run_macro(r, s, node);
    case KVSI_NODE_BREAK:
        *next = FLOW_BREAK;
        return KVS_OK;
    default:
        *next = FLOW_CONTINUE;
        return KVS_OK;
    }
}

static kvs_status run_body(flow *out, kvsi_render *r, scope *s, const kvsi_node *body)
{
    *out = FLOW_NEXT;
    if (++r->depth > CALL_DEPTH)
        return kvsi_render_fail_as(r, KVS_E_LIMIT, "calls are nested too deep");
    for (; body && *out == FLOW_NEXT; body = body->next) {
        TRY(kvsi_render_work(r, 1));
        TRY(run_statement(out, r, s, body));
    }
    r->depth--;
    return KVS_OK;
}

kvs_status kvsi_template_run(kvsi_render *r, const kvsi_node *body, const kvsi_value *variables)
{
    scope *globals;
    flow ignored;

    TRY(make_scope(&globals, r, NULL));
    globals->globals = variables->dict;
    return run_body(&ignored, r, globals, body);
}
