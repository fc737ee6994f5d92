#include "chat/value.h"

#include "base/memory.h"
#include "base/utf8.h"
#include "tokenizer/characters.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- limits ---------------------------------------------------------------------------------- */

kvs_status kvsi_render_work(kvsi_render *r, uint64_t steps)
{
    r->steps += steps;
    if (r->steps > KVSI_CHAT_STEPS)
        return kvsi_render_fail_as(r, KVS_E_LIMIT, "more than %d steps", KVSI_CHAT_STEPS);
    return KVS_OK;
}

kvs_status kvsi_render_alloc(void **out, kvsi_render *r, size_t count, size_t size)
{
    const uint64_t bytes = (uint64_t)count * size + 16;

    *out = NULL;
    if (count > KVSI_CHAT_MEMORY || bytes > KVSI_CHAT_MEMORY - r->bytes)
        return kvsi_render_fail_as(r, KVS_E_LIMIT, "values take more than %d bytes",
                                   KVSI_CHAT_MEMORY);
    r->bytes += bytes;
    *out = kvsi_arena_alloc(r->arena, count, size);
    return *out ? KVS_OK : kvsi_no_memory(r->err, "values of a chat template");
}

/* ---- making values --------------------------------------------------------------------------- */

kvs_status kvsi_make_text(kvsi_value *out, kvsi_render *r, const char *text, size_t size)
{
    void *copy;

    TRY(kvsi_render_work(r, size / 64));
    TRY(kvsi_render_alloc(&copy, r, size + 1, 1));
    if (size > 0)
        memcpy(copy, text, size);
    *out = kvsi_borrow(copy, size);
    return KVS_OK;
}

kvs_status kvsi_take_text(kvsi_value *out, kvsi_render *r, kvsi_text *text)
{
    kvs_status st = kvsi_text_check(text, r->err);

    if (st == KVS_OK)
        st = kvsi_make_text(out, r, text->data, text->length);
    kvsi_text_release(text);
    return st;
}

kvs_status kvsi_make_items(kvsi_value *out, kvsi_render *r, kvsi_kind kind)
{
    void *items;

    TRY(kvsi_render_alloc(&items, r, 1, sizeof(kvsi_items)));
    *out = (kvsi_value){.kind = kind, .items = items};
    out->items->depth = 1;
    return KVS_OK;
}

static size_t depth_of(const kvsi_value *value)
{
    if (value->kind == KVSI_VALUE_DICT)
        return value->dict->depth;
    return kvsi_has_items(value) ? value->items->depth : 0;
}

static kvs_status check_depth(kvsi_render *r, size_t *depth, const kvsi_value *inner)
{
    if (depth_of(inner) >= *depth)
        *depth = depth_of(inner) + 1;
    if (*depth > KVSI_CHAT_DEPTH)
        return kvsi_render_fail_as(r, KVS_E_LIMIT, "lists are nested deeper than %d",
                                   KVSI_CHAT_DEPTH);
    return KVS_OK;
}

static kvs_status grow(void **at, size_t *capacity, kvsi_render *r, size_t count, size_t size)
{
    void *larger;

    if (count < *capacity)
        return KVS_OK;
    TRY(kvsi_render_alloc(&larger, r, count > 0 ? 2 * count : 4, size));
    if (count > 0)
        memcpy(larger, *at, count * size);
    *at = larger;
    *capacity = count > 0 ? 2 * count : 4;
    return KVS_OK;
}

kvs_status kvsi_add_item(kvsi_value *list, kvsi_render *r, kvsi_value item)
{
    kvsi_items *items = list->items;
    void *at = items->at;

    TRY(kvsi_render_work(r, 1));
    TRY(check_depth(r, &items->depth, &item));
    TRY(grow(&at, &items->capacity, r, items->count, sizeof item));
    items->at = at;
    items->at[items->count++] = item;
    return KVS_OK;
}

kvs_status kvsi_make_pair(kvsi_value *out, kvsi_render *r, kvsi_value first, kvsi_value second)
{
    TRY(kvsi_make_items(out, r, KVSI_VALUE_TUPLE));
    TRY(kvsi_add_item(out, r, first));
    return kvsi_add_item(out, r, second);
}

kvs_status kvsi_make_dict(kvsi_value *out, kvsi_render *r)
{
    void *dict;

    TRY(kvsi_render_alloc(&dict, r, 1, sizeof(kvsi_dict)));
    *out = (kvsi_value){.kind = KVSI_VALUE_DICT, .dict = dict};
    out->dict->depth = 1;
    return KVS_OK;
}

static int same_bytes(const char *a, size_t a_size, const char *b, size_t b_size)
{
    return a_size == b_size && (a_size == 0 || memcmp(a, b, a_size) == 0);
}

/* The index of a key; dict->count = there is none. */
static kvs_status find_key(size_t *out, kvsi_render *r, const kvsi_dict *dict, const char *key,
                           size_t size)
{
    size_t i = 0;

    while (i < dict->count && !same_bytes(dict->at[i].key, dict->at[i].size, key, size))
        i++;
    *out = i;
    return kvsi_render_work(r, dict->count / 4 + 1);
}

kvs_status kvsi_dict_find(const kvsi_value **out, kvsi_render *r, const kvsi_dict *dict,
                          const char *key, size_t size)
{
    size_t index;

    *out = NULL;
    TRY(find_key(&index, r, dict, key, size));
    if (index < dict->count)
        *out = &dict->at[index].value;
    return KVS_OK;
}

kvs_status kvsi_dict_set(kvsi_value *value, kvsi_render *r, const char *key, size_t size,
                         kvsi_value content)
{
    kvsi_dict *dict = value->dict;
    void *at = dict->at;
    size_t index;

    if (value->kind == KVSI_VALUE_DICT)
        TRY(check_depth(r, &dict->depth, &content));
    TRY(find_key(&index, r, dict, key, size));
    if (index < dict->count) {
        dict->at[index].value = content;
        return KVS_OK;
    }
    TRY(grow(&at, &dict->capacity, r, dict->count, sizeof(kvsi_entry)));
    dict->at = at;
    dict->at[dict->count++] = (kvsi_entry){key, size, content};
    return KVS_OK;
}

static kvs_status from_json(kvsi_value *out, kvsi_render *r, json_t *json, size_t depth)
{
    const char *key;
    json_t *member;
    size_t index;
    kvsi_value inner;

    if (depth > KVSI_CHAT_DEPTH)
        return kvsi_fail(r->err, KVS_E_LIMIT, "the JSON is nested deeper than %d", KVSI_CHAT_DEPTH);
    switch (json_typeof(json)) {
    case JSON_NULL:
        *out = (kvsi_value){.kind = KVSI_VALUE_NONE};
        return KVS_OK;
    case JSON_TRUE:
        *out = kvsi_bool(1);
        return KVS_OK;
    case JSON_FALSE:
        *out = kvsi_bool(0);
        return KVS_OK;
    case JSON_INTEGER:
        *out = kvsi_whole(json_integer_value(json));
        return KVS_OK;
    case JSON_REAL:
        *out = (kvsi_value){.kind = KVSI_VALUE_REAL, .real = json_real_value(json)};
        return KVS_OK;
    case JSON_STRING:
        return kvsi_make_text(out, r, json_string_value(json), json_string_length(json));
    case JSON_ARRAY:
        TRY(kvsi_make_items(out, r, KVSI_VALUE_LIST));
        json_array_foreach(json, index, member) {
            TRY(from_json(&inner, r, member, depth + 1));
            TRY(kvsi_add_item(out, r, inner));
        }
        return KVS_OK;
    case JSON_OBJECT:
    default:
        break;
    }
    TRY(kvsi_make_dict(out, r));
    json_object_foreach(json, key, member) {
        kvsi_value name;

        TRY(from_json(&inner, r, member, depth + 1));
        TRY(kvsi_make_text(&name, r, key, strlen(key)));
        TRY(kvsi_dict_set(out, r, name.text, name.size, inner));
    }
    return KVS_OK;
}

kvs_status kvsi_value_from_json(kvsi_value *out, kvsi_render *r, json_t *json)
{
    return from_json(out, r, json, 0);
}

/* ---- using values ---------------------------------------------------------------------------- */

int kvsi_is_number(const kvsi_value *value)
{
    return value->kind == KVSI_VALUE_BOOL || value->kind == KVSI_VALUE_WHOLE ||
           value->kind == KVSI_VALUE_REAL;
}

int kvsi_has_items(const kvsi_value *value)
{
    return value->kind >= KVSI_VALUE_LIST && value->kind <= KVSI_VALUE_GENERATOR;
}

double kvsi_as_real(const kvsi_value *number)
{
    return number->kind == KVSI_VALUE_REAL ? number->real : (double)number->whole;
}

int kvsi_truth(const kvsi_value *value)
{
    switch (value->kind) {
    case KVSI_VALUE_MISSING:
    case KVSI_VALUE_UNDEFINED:
    case KVSI_VALUE_NONE:
        return 0;
    case KVSI_VALUE_BOOL:
    case KVSI_VALUE_WHOLE:
        return value->whole != 0;
    case KVSI_VALUE_REAL:
        return value->real != 0;
    case KVSI_VALUE_TEXT:
        return value->size > 0;
    case KVSI_VALUE_LIST:
    case KVSI_VALUE_TUPLE:
    case KVSI_VALUE_RANGE:
    case KVSI_VALUE_VIEW:
        return value->items->count > 0;
    case KVSI_VALUE_DICT:
        return value->dict->count > 0;
    default:
        return 1;
    }
}

const char *kvsi_kind_name(const kvsi_value *value)
{
    static const char *const names[] = {"nothing", "undefined", "None", "bool",      "int",
                                        "float",   "text",      "list", "tuple",     "range",
                                        "view",    "generator", "dict", "namespace", "function",
                                        "method",  "macro",     "loop"};

    return names[value->kind];
}

static kvs_status items_equal(int *out, kvsi_render *r, const kvsi_items *a, const kvsi_items *b)
{
    *out = a->count == b->count;
    for (size_t i = 0; i < a->count && *out; i++)
        TRY(kvsi_equal(out, r, &a->at[i], &b->at[i]));
    return KVS_OK;
}

static kvs_status dicts_equal(int *out, kvsi_render *r, const kvsi_dict *a, const kvsi_dict *b)
{
    *out = a->count == b->count;
    for (size_t i = 0; i < a->count && *out; i++) {
        const kvsi_value *other;

        TRY(kvsi_dict_find(&other, r, b, a->at[i].key, a->at[i].size));
        *out = other != NULL;
        if (other)
            TRY(kvsi_equal(out, r, &a->at[i].value, other));
    }
    return KVS_OK;
}

/* Compares numbers; bool is 0 or 1.  A whole number and a float are compared exactly. */
static int number_order(const kvsi_value *a, const kvsi_value *b)
{
    if (a->kind != KVSI_VALUE_REAL && b->kind != KVSI_VALUE_REAL)
        return (a->whole > b->whole) - (a->whole < b->whole);
    const long double x = a->kind == KVSI_VALUE_REAL ? (long double)a->real : (long double)a->whole,
                      y = b->kind == KVSI_VALUE_REAL ? (long double)b->real : (long double)b->whole;

    return (x > y) - (x < y);
}

static int has_nan(const kvsi_value *a, const kvsi_value *b)
{
    return (a->kind == KVSI_VALUE_REAL && isnan(a->real)) ||
           (b->kind == KVSI_VALUE_REAL && isnan(b->real));
}

kvs_status kvsi_equal(int *out, kvsi_render *r, const kvsi_value *a, const kvsi_value *b)
{
    TRY(kvsi_render_work(r, 1));
    *out = 0;
    if (kvsi_is_number(a) && kvsi_is_number(b)) {
        *out = !has_nan(a, b) && number_order(a, b) == 0;
        return KVS_OK;
    }
    if (a->kind != b->kind)
        return KVS_OK;
    switch (a->kind) {
    case KVSI_VALUE_MISSING:
    case KVSI_VALUE_UNDEFINED:
    case KVSI_VALUE_NONE:
        *out = 1;
        return KVS_OK;
    case KVSI_VALUE_TEXT:
        TRY(kvsi_render_work(r, a->size / 64));
        *out = same_bytes(a->text, a->size, b->text, b->size);
        return KVS_OK;
    case KVSI_VALUE_LIST:
    case KVSI_VALUE_TUPLE:
    case KVSI_VALUE_RANGE:
        return items_equal(out, r, a->items, b->items);
    case KVSI_VALUE_DICT:
        return dicts_equal(out, r, a->dict, b->dict);
    case KVSI_VALUE_VIEW:
        return kvsi_render_fail(r, "views of dicts cannot be compared here");
    default:
        *out = a->items == b->items;
        return KVS_OK;
    }
}

kvs_status kvsi_order(int *out, kvsi_render *r, const kvsi_value *a, const kvsi_value *b)
{
    TRY(kvsi_render_work(r, 1));
    if (kvsi_is_number(a) && kvsi_is_number(b) && !has_nan(a, b)) {
        *out = number_order(a, b);
        return KVS_OK;
    }
    if (a->kind == KVSI_VALUE_TEXT && b->kind == KVSI_VALUE_TEXT) {
        const size_t both = a->size < b->size ? a->size : b->size;
        const int order = both > 0 ? memcmp(a->text, b->text, both) : 0;

        TRY(kvsi_render_work(r, both / 64));
        *out = order ? (order > 0) - (order < 0) : (a->size > b->size) - (a->size < b->size);
        return KVS_OK;
    }
    if (a->kind == b->kind && (a->kind == KVSI_VALUE_LIST || a->kind == KVSI_VALUE_TUPLE)) {
        const kvsi_items *x = a->items, *y = b->items;

        for (size_t i = 0; i < x->count && i < y->count; i++) {
            int equal;

            TRY(kvsi_equal(&equal, r, &x->at[i], &y->at[i]));
            if (!equal)
                return kvsi_order(out, r, &x->at[i], &y->at[i]);
        }
        *out = (x->count > y->count) - (x->count < y->count);
        return KVS_OK;
    }
    return kvsi_render_fail(r, "%s and %s have no order", kvsi_kind_name(a), kvsi_kind_name(b));
}

kvs_status kvsi_iterate(const kvsi_value **at, size_t *count, kvsi_render *r, kvsi_value *value)
{
    kvsi_value list;

    *at = NULL;
    *count = 0;
    if (value->kind == KVSI_VALUE_UNDEFINED)
        return KVS_OK;
    if (kvsi_has_items(value)) {
        kvsi_items *items = value->items;
        const size_t first = value->kind == KVSI_VALUE_GENERATOR ? items->used : 0;

        *count = items->count - first;
        *at = items->at ? items->at + first : NULL;
        items->used = items->count;
        return KVS_OK;
    }
    if (value->kind != KVSI_VALUE_DICT && value->kind != KVSI_VALUE_TEXT)
        return kvsi_render_fail(r, "%s cannot be iterated over", kvsi_kind_name(value));
    TRY(kvsi_make_items(&list, r, KVSI_VALUE_LIST));
    if (value->kind == KVSI_VALUE_DICT)
        for (size_t i = 0; i < value->dict->count; i++)
            TRY(kvsi_add_item(&list, r,
                              kvsi_borrow(value->dict->at[i].key, value->dict->at[i].size)));
    else
        for (size_t i = 0; i < value->size;) {
            uint32_t code;
            const size_t size = kvsi_utf8_next(value->text + i, value->size - i, &code);

            TRY(kvsi_add_item(&list, r, kvsi_borrow(value->text + i, size)));
            i += size;
        }
    *at = list.items->at;
    *count = list.items->count;
    return KVS_OK;
}

/* Every place where the first byte matches counts as work, since it may be compared to its end. */
kvs_status kvsi_find_part(const char **out, kvsi_render *r, const kvsi_value *text, size_t at,
                          const kvsi_value *part)
{
    const char *end, *next;

    *out = NULL;
    if (!text->text) /* an empty text may have no bytes to point to */
        return KVS_OK;
    end = text->text + text->size;
    next = text->text + at;
    if (part->size == 0)
        *out = next;
    while (!*out && (size_t)(end - next) >= part->size) {
        const char *first = memchr(next, part->text[0], (size_t)(end - next) - part->size + 1);

        TRY(kvsi_render_work(r, ((size_t)((first ? first : end) - next) + part->size) / 16 + 1));
        if (!first)
            break;
        if (memcmp(first, part->text, part->size) == 0)
            *out = first;
        next = first + 1;
    }
    return KVS_OK;
}

size_t kvsi_characters(const char *text, size_t size)
{
    size_t count = 0;

    for (size_t i = 0; i < size; i++)
        count += ((unsigned char)text[i] & 0xc0) != 0x80;
    return count;
}

size_t kvsi_offset_of(const char *text, size_t size, size_t character)
{
    size_t at = 0;

    for (; at < size; at++)
        if (((unsigned char)text[at] & 0xc0) != 0x80 && character-- == 0)
            break;
    return at;
}

kvs_status kvsi_length(size_t *out, kvsi_render *r, const kvsi_value *value)
{
    switch (value->kind) {
    case KVSI_VALUE_UNDEFINED:
        *out = 0;
        return KVS_OK;
    case KVSI_VALUE_TEXT:
        TRY(kvsi_render_work(r, value->size / 64));
        *out = kvsi_characters(value->text, value->size);
        return KVS_OK;
    case KVSI_VALUE_LIST:
    case KVSI_VALUE_TUPLE:
    case KVSI_VALUE_RANGE:
    case KVSI_VALUE_VIEW:
        *out = value->items->count;
        return KVS_OK;
    case KVSI_VALUE_DICT:
        *out = value->dict->count;
        return KVS_OK;
    default:
        return kvsi_render_fail(r, "%s has no length", kvsi_kind_name(value));
    }
}

/* ---- text of values -------------------------------------------------------------------------- */

/* Adds text that counts against the limits. */
static kvs_status add(kvsi_text *out, kvsi_render *r, const char *text, size_t size)
{
    TRY(kvsi_render_work(r, size / 64 + 1));
    if (size > KVSI_CHAT_OUTPUT - out->length)
        return kvsi_render_fail_as(r, KVS_E_LIMIT, "a text has more than %d bytes",
                                   KVSI_CHAT_OUTPUT);
    kvsi_text_add_bytes(out, text, size);
    return out->failed ? kvsi_text_check(out, r->err) : KVS_OK;
}

static kvs_status add_word(kvsi_text *out, kvsi_render *r, const char *word)
{
    return add(out, r, word, strlen(word));
}

/* Python's repr() of a float: the shortest digits that give the same number, with an exponent below
 * 1e-4 and from 1e16 on. */
static kvs_status add_real(kvsi_text *out, kvsi_render *r, double number, int is_json)
{
    char digits[40], text[64];
    int precision = 1;

    if (isnan(number))
        return add_word(out, r, is_json ? "NaN" : "nan");
    if (isinf(number))
        return add_word(out, r,
                        is_json      ? number > 0 ? "Infinity" : "-Infinity"
                        : number > 0 ? "inf"
                                     : "-inf");
    do
        snprintf(digits, sizeof digits, "%.*e", precision - 1, number);
    while (strtod(digits, NULL) != number && precision++ < 17);

    char *mark = strchr(digits, 'e');
    const int exponent = (int)strtol(mark + 1, NULL, 10);

    if (exponent < -4 || exponent >= 16) {
        *mark = '\0';
        snprintf(text, sizeof text, "%se%c%02d", digits, exponent < 0 ? '-' : '+', abs(exponent));
    } else {
        const int places = precision - 1 - exponent;

        snprintf(text, sizeof text, "%.*f", places > 1 ? places : 1, number);
    }
    return add_word(out, r, text);
}

static kvs_status add_text_repr(kvsi_text *out, kvsi_render *r, const kvsi_value *value)
{
    const int has_single = value->size > 0 && memchr(value->text, '\'', value->size),
              has_double = value->size > 0 && memchr(value->text, '"', value->size);
    const char quote = has_single && !has_double ? '"' : '\'';
    char escape[16];

    TRY(add(out, r, &quote, 1));
    for (size_t i = 0, size; i < value->size; i += size) {
        uint32_t code;

        size = kvsi_utf8_next(value->text + i, value->size - i, &code);
        if (code == (unsigned char)quote || code == '\\')
            snprintf(escape, sizeof escape, "\\%c", (char)code);
        else if (code == '\n' || code == '\r' || code == '\t')
            snprintf(escape, sizeof escape, "\\%c", code == '\n' ? 'n' : code == '\r' ? 'r' : 't');
        else if (kvsi_is_printable(code))
            snprintf(escape, sizeof escape, "%.*s", (int)size, value->text + i);
        else
            snprintf(escape, sizeof escape,
                     code <= 0xff     ? "\\x%02x"
                     : code <= 0xffff ? "\\u%04x"
                                      : "\\U%08x",
                     (unsigned)code);
        TRY(add_word(out, r, escape));
    }
    return add(out, r, &quote, 1);
}

static kvs_status add_items_repr(kvsi_text *out, kvsi_render *r, const kvsi_value *value)
{
    const kvsi_items *items = value->items;
    const int is_tuple = value->kind == KVSI_VALUE_TUPLE;

    TRY(add_word(out, r, is_tuple ? "(" : "["));
    for (size_t i = 0; i < items->count; i++) {
        if (i > 0)
            TRY(add_word(out, r, ", "));
        TRY(kvsi_add_repr(out, r, &items->at[i]));
    }
    if (is_tuple && items->count == 1)
        TRY(add_word(out, r, ","));
    return add_word(out, r, is_tuple ? ")" : "]");
}

static kvs_status add_dict_repr(kvsi_text *out, kvsi_render *r, const kvsi_dict *dict)
{
    TRY(add_word(out, r, "{"));
    for (size_t i = 0; i < dict->count; i++) {
        const kvsi_value key = kvsi_borrow(dict->at[i].key, dict->at[i].size);

        if (i > 0)
            TRY(add_word(out, r, ", "));
        TRY(add_text_repr(out, r, &key));
        TRY(add_word(out, r, ": "));
        TRY(kvsi_add_repr(out, r, &dict->at[i].value));
    }
    return add_word(out, r, "}");
}

kvs_status kvsi_add_repr(kvsi_text *out, kvsi_render *r, const kvsi_value *value)
{
    char number[32];

    switch (value->kind) {
    case KVSI_VALUE_UNDEFINED:
        return add_word(out, r, "Undefined");
    case KVSI_VALUE_NONE:
        return add_word(out, r, "None");
    case KVSI_VALUE_BOOL:
        return add_word(out, r, value->whole ? "True" : "False");
    case KVSI_VALUE_WHOLE:
        snprintf(number, sizeof number, "%lld", (long long)value->whole);
        return add_word(out, r, number);
    case KVSI_VALUE_REAL:
        return add_real(out, r, value->real, 0);
    case KVSI_VALUE_TEXT:
        return add_text_repr(out, r, value);
    case KVSI_VALUE_LIST:
    case KVSI_VALUE_TUPLE:
        return add_items_repr(out, r, value);
    case KVSI_VALUE_DICT:
        return add_dict_repr(out, r, value->dict);
    default:
        return kvsi_render_fail(r, "%s cannot be written as text", kvsi_kind_name(value));
    }
}

kvs_status kvsi_add_str(kvsi_text *out, kvsi_render *r, const kvsi_value *value)
{
    if (value->kind == KVSI_VALUE_TEXT)
        return add(out, r, value->text, value->size);
    return value->kind == KVSI_VALUE_UNDEFINED ? KVS_OK : kvsi_add_repr(out, r, value);
}

kvs_status kvsi_to_str(kvsi_value *out, kvsi_render *r, const kvsi_value *value)
{
    kvsi_text text = {0};
    kvs_status st;

    *out = *value;
    if (value->kind == KVSI_VALUE_TEXT)
        return KVS_OK;
    st = kvsi_add_str(&text, r, value);
    if (st == KVS_OK)
        return kvsi_take_text(out, r, &text);
    kvsi_text_release(&text);
    return st;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static kvs_status add_json_text(kvsi_text *out, kvsi_render *r, const char *text, size_t size,
                                int ascii)
{
    static const char from[] = "\"\\\n\r\t\f\b", to[] = "\"\\nrtfb";
    char escape[16];

    TRY(add_word(out, r, "\""));
    for (size_t i = 0, length; i < size; i += length) {
        uint32_t code;
        const char *short_form;

        length = kvsi_utf8_next(text + i, size - i, &code);
        short_form = code > 0 && code < 128 ? strchr(from, (int)code) : NULL;
        if (short_form)
            snprintf(escape, sizeof escape, "\\%c", to[short_form - from]);
        else if (code < 0x20 || (ascii && code >= 0x7f && code <= 0xffff))
            snprintf(escape, sizeof escape, "\\u%04x", (unsigned)code);
        else if (ascii && code > 0xffff)
            snprintf(escape, sizeof escape, "\\u%04x\\u%04x",
                     (unsigned)(0xd800 + ((code - 0x10000) >> 10)),
                     (unsigned)(0xdc00 + ((code - 0x10000) & 0x3ff)));
        else {
            TRY(add(out, r, text + i, length));
            continue;
        }
        TRY(add_word(out, r, escape));
    }
    return add_word(out, r, "\"");
}

/* A new line and its indent, if there is one. */
static kvs_status break_line(kvsi_text *out, kvsi_render *r, const kvsi_json_style *style,
                             size_t depth)
{
    if (style->indent.kind == KVSI_VALUE_NONE)
        return KVS_OK;
    TRY(add_word(out, r, "\n"));
    for (size_t i = 0; i < depth; i++)
        TRY(add(out, r, style->indent.text, style->indent.size));
    return KVS_OK;
}

static kvs_status separate(kvsi_text *out, kvsi_render *r, const kvsi_json_style *style)
{
    if (style->item_separator.kind == KVSI_VALUE_TEXT)
        return add(out, r, style->item_separator.text, style->item_separator.size);
    return add_word(out, r, style->indent.kind == KVSI_VALUE_NONE ? ", " : ",");
}

static int compare_entries(const void *a, const void *b)
{
    const kvsi_entry *x = a, *y = b;
    const size_t both = x->size < y->size ? x->size : y->size;
    const int order = both > 0 ? memcmp(x->key, y->key, both) : 0;

    return order ? order : (x->size > y->size) - (x->size < y->size);
}

static kvs_status add_json_dict(kvsi_text *out, kvsi_render *r, const kvsi_dict *dict,
                                const kvsi_json_style *style, size_t depth)
{
    const kvsi_entry *at = dict->at;
    void *sorted;

    if (dict->count == 0 || !at)
        return add_word(out, r, "{}");
    if (style->sorted) {
        TRY(kvsi_render_alloc(&sorted, r, dict->count, sizeof *at));
        memcpy(sorted, at, dict->count * sizeof *at);
        qsort(sorted, dict->count, sizeof *at, compare_entries);
        at = sorted;
    }
    TRY(add_word(out, r, "{"));
    for (size_t i = 0; i < dict->count; i++) {
        if (i > 0)
            TRY(separate(out, r, style));
        TRY(break_line(out, r, style, depth + 1));
        TRY(add_json_text(out, r, at[i].key, at[i].size, style->ascii));
        if (style->key_separator.kind == KVSI_VALUE_TEXT)
            TRY(add(out, r, style->key_separator.text, style->key_separator.size));
        else
            TRY(add_word(out, r, ": "));
        TRY(kvsi_add_json(out, r, &at[i].value, style, depth + 1));
    }
    TRY(break_line(out, r, style, depth));
    return add_word(out, r, "}");
}

static kvs_status add_json_list(kvsi_text *out, kvsi_render *r, const kvsi_items *items,
                                const kvsi_json_style *style, size_t depth)
{
    if (items->count == 0)
        return add_word(out, r, "[]");
    TRY(add_word(out, r, "["));
    for (size_t i = 0; i < items->count; i++) {
        if (i > 0)
            TRY(separate(out, r, style));
        TRY(break_line(out, r, style, depth + 1));
        TRY(kvsi_add_json(out, r, &items->at[i], style, depth + 1));
    }
    TRY(break_line(out, r, style, depth));
    return add_word(out, r, "]");
}

kvs_status kvsi_add_json(kvsi_text *out, kvsi_render *r, const kvsi_value *value,
                         const kvsi_json_style *style, size_t depth)
{
    switch (value->kind) {
    case KVSI_VALUE_NONE:
        return add_word(out, r, "null");
    case KVSI_VALUE_BOOL:
        return add_word(out, r, value->whole ? "true" : "false");
    case KVSI_VALUE_WHOLE:
        return kvsi_add_repr(out, r, value);
    case KVSI_VALUE_REAL:
        return add_real(out, r, value->real, 1);
    case KVSI_VALUE_TEXT:
        return add_json_text(out, r, value->text, value->size, style->ascii);
    case KVSI_VALUE_LIST:
    case KVSI_VALUE_TUPLE:
        return add_json_list(out, r, value->items, style, depth);
    case KVSI_VALUE_DICT:
        return add_json_dict(out, r, value->dict, style, depth);
    default:
        return kvsi_render_fail(r, "%s cannot be written as JSON", kvsi_kind_name(value));
    }
}

/* ---- errors ---------------------------------------------------------------------------------- */

#undef kvsi_render_fail_as
kvs_status kvsi_render_fail_as(const kvsi_render *r, kvs_status status, const char *format, ...)
{
    char message[400];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return kvsi_fail(r->err, status, "line %u: %s", r->line, message);
}
