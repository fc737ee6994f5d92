/* Filters, tests, methods and functions of templates: one row each in the tables at the end. */
#include "base/utf8.h"
#include "chat/template.h"
#include "tokenizer/characters.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RUN(name) static kvs_status name(kvsi_value *out, kvsi_render *r, kvsi_value *args)

/* ---- arguments ------------------------------------------------------------------------------- */

static int is_given(const kvsi_value *value)
{
    return value->kind != KVSI_VALUE_MISSING && value->kind != KVSI_VALUE_NONE;
}

static kvs_status need_text(kvsi_render *r, const kvsi_value *value)
{
    return value->kind == KVSI_VALUE_TEXT
               ? KVS_OK
               : kvsi_render_fail(r, "expected text, found %s", kvsi_kind_name(value));
}

static kvs_status get_whole(int64_t *out, kvsi_render *r, const kvsi_value *value)
{
    if (value->kind == KVSI_VALUE_MISSING)
        return KVS_OK;
    if (value->kind != KVSI_VALUE_WHOLE && value->kind != KVSI_VALUE_BOOL)
        return kvsi_render_fail(r, "expected a whole number, found %s", kvsi_kind_name(value));
    *out = value->whole;
    return KVS_OK;
}

static int equals(const kvsi_value *value, const char *word)
{
    return value->kind == KVSI_VALUE_TEXT && value->size == strlen(word) &&
           memcmp(value->text, word, value->size) == 0;
}

/* The value of an attribute such as "function.name" or 0. */
static kvs_status dotted(kvsi_value *out, kvsi_render *r, const kvsi_value *value,
                         const kvsi_value *path)
{
    *out = *value;
    if (path->kind == KVSI_VALUE_WHOLE)
        return kvsi_get_item(out, r, value, path);
    TRY(need_text(r, path));
    for (size_t at = 0; at <= path->size;) {
        const char *dot = at < path->size ? memchr(path->text + at, '.', path->size - at) : NULL;
        const size_t end = dot ? (size_t)(dot - path->text) : path->size;
        kvsi_value key = kvsi_borrow(path->text + at, end - at), inner = *out;

        int64_t number = 0;
        size_t digits = 0;

        for (; digits < key.size && digits < 9; digits++) {
            if (key.text[digits] < '0' || key.text[digits] > '9')
                break;
            number = number * 10 + key.text[digits] - '0';
        }
        if (digits > 0 && digits == key.size)
            key = kvsi_whole(number);
        TRY(kvsi_get_item(out, r, &inner, &key));
        at = end + 1;
    }
    return KVS_OK;
}

/* ---- text ------------------------------------------------------------------------------------ */

static kvs_status add(kvsi_text *text, kvsi_render *r, const char *more, size_t size)
{
    const kvsi_value value = kvsi_borrow(more, size);

    return kvsi_add_str(text, r, &value);
}

/* ASCII, and for small letters the characters that Unicode maps to one character. */
static kvs_status change_case(kvsi_value *out, kvsi_render *r, const kvsi_value *value, int upper,
                              int capital)
{
    kvsi_text text = {0};
    kvs_status st = KVS_OK;

    for (size_t i = 0, size; i < value->size; i += size) {
        const int rises = capital ? i == 0 : upper;
        char bytes[4];
        uint32_t code;

        size = kvsi_utf8_next(value->text + i, value->size - i, &code);
        if (code >= 128 && (rises || code == 0x3a3 || code == 0x130) && kvsi_is_cased(code)) {
            st = kvsi_render_fail_as(r, KVS_E_UNSUPPORTED, "the case of '%.*s' cannot be changed",
                                     (int)size, value->text + i);
            goto out;
        }
        if (rises)
            code = code >= 'a' && code <= 'z' ? code - 32 : code;
        else
            code = kvsi_to_lower(code);
        TRY_OUT(add(&text, r, bytes, kvsi_utf8_put(bytes, code)));
    }
    return kvsi_take_text(out, r, &text);
out:
    kvsi_text_release(&text);
    return st;
}

/* Whether a character is one of those to strip; NULL = white space. */
static int is_stripped(const char *character, size_t size, const kvsi_value *chars)
{
    uint32_t code, other;

    if (chars->kind != KVSI_VALUE_TEXT)
        return kvsi_space_at_start(character, size) > 0;
    kvsi_utf8_next(character, size, &code);
    for (size_t i = 0; i < chars->size;) {
        i += kvsi_utf8_next(chars->text + i, chars->size - i, &other);
        if (other == code)
            return 1;
    }
    return 0;
}

static kvs_status strip(kvsi_value *out, kvsi_render *r, const kvsi_value *value,
                        const kvsi_value *chars, int left, int right)
{
    const char *text = value->text;
    size_t size = value->size;
    uint32_t code;

    TRY(need_text(r, value));
    if (is_given(chars))
        TRY(need_text(r, chars));
    while (left && size > 0 && is_stripped(text, size, chars)) {
        const size_t bytes = kvsi_utf8_next(text, size, &code);

        TRY(kvsi_render_work(r, 1 + (chars->kind == KVSI_VALUE_TEXT ? chars->size / 8 : 0)));
        text += bytes;
        size -= bytes;
    }
    while (right && size > 0) {
        const size_t bytes = kvsi_utf8_last(text, size, &code);

        TRY(kvsi_render_work(r, 1 + (chars->kind == KVSI_VALUE_TEXT ? chars->size / 8 : 0)));
        if (!is_stripped(text + size - bytes, bytes, chars))
            break;
        size -= bytes;
    }
    *out = kvsi_borrow(text, size);
    return KVS_OK;
}

static kvs_status replace(kvsi_value *out, kvsi_render *r, const kvsi_value *value,
                          const kvsi_value *old, const kvsi_value *new, int64_t count)
{
    kvsi_text text = {0};
    size_t at = 0;
    kvs_status st = KVS_OK;

    while (count != 0) {
        const char *found;

        if (old->size == 0) { /* between all characters */
            uint32_t code;
            const size_t size =
                at < value->size ? kvsi_utf8_next(value->text + at, value->size - at, &code) : 0;

            TRY_OUT(add(&text, r, new->text, new->size));
            TRY_OUT(add(&text, r, value->text + at, size));
            at += size;
            if (size == 0)
                break;
            count--;
            continue;
        }
        TRY_OUT(kvsi_find_part(&found, r, value, at, old));
        if (!found)
            break;
        TRY_OUT(add(&text, r, value->text + at, (size_t)(found - value->text) - at));
        TRY_OUT(add(&text, r, new->text, new->size));
        at = (size_t)(found - value->text) + old->size;
        count--;
    }
    TRY_OUT(add(&text, r, value->text + at, value->size - at));
    return kvsi_take_text(out, r, &text);
out:
    kvsi_text_release(&text);
    return st;
}

static kvs_status add_part(kvsi_value *list, kvsi_render *r, const char *text, size_t size)
{
    return kvsi_add_item(list, r, kvsi_borrow(text, size));
}

static kvs_status split_at_space(kvsi_value *out, kvsi_render *r, const kvsi_value *value,
                                 int64_t limit)
{
    size_t at = 0, size;

    for (;;) {
        size_t first;

        while ((size = kvsi_space_at_start(value->text + at, value->size - at)) > 0) {
            TRY(kvsi_render_work(r, 1));
            at += size;
        }
        if (at >= value->size)
            return KVS_OK;
        first = at;
        if (limit-- == 0) /* the rest, also white space at its end */
            return add_part(out, r, value->text + first, value->size - first);
        while (at < value->size && !kvsi_space_at_start(value->text + at, value->size - at)) {
            uint32_t code;

            at += kvsi_utf8_next(value->text + at, value->size - at, &code);
        }
        TRY(kvsi_render_work(r, (at - first) / 16 + 1));
        TRY(add_part(out, r, value->text + first, at - first));
    }
}

RUN(method_split)
{
    const kvsi_value *value = &args[0], *separator = &args[1];
    int64_t limit = -1;
    size_t at = 0;

    TRY(get_whole(&limit, r, &args[2]));
    TRY(kvsi_make_items(out, r, KVSI_VALUE_LIST));
    if (!is_given(separator))
        return split_at_space(out, r, value, limit);
    TRY(need_text(r, separator));
    if (separator->size == 0)
        return kvsi_render_fail(r, "an empty separator");
    for (;; limit--) {
        const char *found = NULL;

        if (limit != 0)
            TRY(kvsi_find_part(&found, r, value, at, separator));
        if (!found)
            return add_part(out, r, value->text + at, value->size - at);
        TRY(add_part(out, r, value->text + at, (size_t)(found - value->text) - at));
        at = (size_t)(found - value->text) + separator->size;
    }
}

RUN(method_strip)
{
    return strip(out, r, &args[0], &args[1], 1, 1);
}

RUN(method_lstrip)
{
    return strip(out, r, &args[0], &args[1], 1, 0);
}

RUN(method_rstrip)
{
    return strip(out, r, &args[0], &args[1], 0, 1);
}

static int has_part(const kvsi_value *text, const kvsi_value *part, int at_end)
{
    return text->size >= part->size &&
           (part->size == 0 || memcmp(text->text + (at_end ? text->size - part->size : 0),
                                      part->text, part->size) == 0);
}

static kvs_status has_any(kvsi_value *out, kvsi_render *r, const kvsi_value *args, int at_end)
{
    int found = 0;

    if (args[1].kind != KVSI_VALUE_TUPLE) {
        TRY(need_text(r, &args[1]));
        *out = kvsi_bool(has_part(&args[0], &args[1], at_end));
        return KVS_OK;
    }
    for (size_t i = 0; i < args[1].items->count && !found; i++) {
        TRY(need_text(r, &args[1].items->at[i]));
        found = has_part(&args[0], &args[1].items->at[i], at_end);
    }
    *out = kvsi_bool(found);
    return KVS_OK;
}

RUN(method_startswith)
{
    return has_any(out, r, args, 0);
}

RUN(method_endswith)
{
    return has_any(out, r, args, 1);
}

RUN(method_removeprefix)
{
    TRY(need_text(r, &args[1]));
    *out = args[0];
    if (has_part(&args[0], &args[1], 0))
        *out = kvsi_borrow(args[0].text + args[1].size, args[0].size - args[1].size);
    return KVS_OK;
}

RUN(method_removesuffix)
{
    TRY(need_text(r, &args[1]));
    *out = args[0];
    if (has_part(&args[0], &args[1], 1))
        out->size -= args[1].size;
    return KVS_OK;
}

RUN(method_replace)
{
    int64_t count = -1;

    TRY(need_text(r, &args[1]));
    TRY(need_text(r, &args[2]));
    TRY(get_whole(&count, r, &args[3]));
    return replace(out, r, &args[0], &args[1], &args[2], count);
}

RUN(method_upper)
{
    return change_case(out, r, &args[0], 1, 0);
}

RUN(method_lower)
{
    return change_case(out, r, &args[0], 0, 0);
}

RUN(method_capitalize)
{
    return change_case(out, r, &args[0], 0, 1);
}

RUN(method_find)
{
    const char *found;

    TRY(need_text(r, &args[1]));
    TRY(kvsi_find_part(&found, r, &args[0], 0, &args[1]));
    *out = kvsi_whole(found ? (int64_t)kvsi_characters(args[0].text, (size_t)(found - args[0].text))
                            : -1);
    return KVS_OK;
}

static kvs_status join(kvsi_value *out, kvsi_render *r, kvsi_value *list, const kvsi_value *between,
                       const kvsi_value *attribute, int only_text)
{
    const kvsi_value *items;
    kvsi_text text = {0};
    size_t count;
    kvs_status st;

    TRY_OUT(kvsi_iterate(&items, &count, r, list));
    for (size_t i = 0; i < count; i++) {
        kvsi_value item = items[i];

        if (is_given(attribute))
            TRY_OUT(dotted(&item, r, &items[i], attribute));
        if (i > 0)
            TRY_OUT(kvsi_add_str(&text, r, between));
        if (only_text)
            TRY_OUT(need_text(r, &item));
        TRY_OUT(kvsi_add_str(&text, r, &item));
    }
    return kvsi_take_text(out, r, &text);
out:
    kvsi_text_release(&text);
    return st;
}

RUN(method_join)
{
    const kvsi_value none = {0};

    return join(out, r, &args[1], &args[0], &none, 1);
}

/* ---- dicts ----------------------------------------------------------------------------------- */

static kvs_status dict_parts(kvsi_value *out, kvsi_render *r, const kvsi_value *value,
                             kvsi_kind kind, int keys, int values)
{
    TRY(kvsi_make_items(out, r, kind));
    for (size_t i = 0; i < value->dict->count; i++) {
        const kvsi_entry *entry = &value->dict->at[i];
        const kvsi_value key = kvsi_borrow(entry->key, entry->size);
        kvsi_value pair = keys ? key : entry->value;

        if (keys && values)
            TRY(kvsi_make_pair(&pair, r, key, entry->value));
        TRY(kvsi_add_item(out, r, pair));
    }
    return KVS_OK;
}

RUN(method_items)
{
    return dict_parts(out, r, &args[0], KVSI_VALUE_VIEW, 1, 1);
}

RUN(method_keys)
{
    return dict_parts(out, r, &args[0], KVSI_VALUE_VIEW, 1, 0);
}

RUN(method_values)
{
    return dict_parts(out, r, &args[0], KVSI_VALUE_VIEW, 0, 1);
}

RUN(method_get)
{
    const kvsi_value *found = NULL;

    if (args[1].kind == KVSI_VALUE_TEXT)
        TRY(kvsi_dict_find(&found, r, args[0].dict, args[1].text, args[1].size));
    *out = args[2].kind == KVSI_VALUE_MISSING ? (kvsi_value){.kind = KVSI_VALUE_NONE} : args[2];
    if (found)
        *out = *found;
    return KVS_OK;
}

/* ---- filters of one value -------------------------------------------------------------------- */

RUN(filter_tojson)
{
    kvsi_json_style style = {.indent.kind = KVSI_VALUE_NONE,
                             .item_separator.kind = KVSI_VALUE_NONE,
                             .key_separator.kind = KVSI_VALUE_NONE};
    kvsi_text text = {0};
    kvs_status st;

    style.ascii = kvsi_truth(&args[1]);
    style.sorted = kvsi_truth(&args[4]);
    if (is_given(&args[2]) && args[2].kind == KVSI_VALUE_TEXT) {
        style.indent = args[2];
    } else if (is_given(&args[2])) {
        static const char spaces[] = "                ";
        int64_t width = 0;

        TRY(get_whole(&width, r, &args[2]));
        if (width > (int64_t)sizeof spaces - 1)
            return kvsi_render_fail_as(r, KVS_E_LIMIT, "an indent of more than 16");
        style.indent = kvsi_borrow(spaces, width > 0 ? (size_t)width : 0);
    }
    if (is_given(&args[3])) {
        if ((args[3].kind != KVSI_VALUE_TUPLE && args[3].kind != KVSI_VALUE_LIST) ||
            args[3].items->count != 2)
            return kvsi_render_fail(r, "separators: expected two texts");
        style.item_separator = args[3].items->at[0];
        style.key_separator = args[3].items->at[1];
        TRY(need_text(r, &style.item_separator));
        TRY(need_text(r, &style.key_separator));
    }
    kvsi_text_add(&text, "");
    TRY_OUT(kvsi_add_json(&text, r, &args[0], &style, 0));
    return kvsi_take_text(out, r, &text);
out:
    kvsi_text_release(&text);
    return st;
}

RUN(filter_length)
{
    size_t count;

    TRY(kvsi_length(&count, r, &args[0]));
    *out = kvsi_whole((int64_t)count);
    return KVS_OK;
}

RUN(filter_string)
{
    return kvsi_to_str(out, r, &args[0]);
}

RUN(filter_trim)
{
    kvsi_value text;

    TRY(kvsi_to_str(&text, r, &args[0]));
    return strip(out, r, &text, &args[1], 1, 1);
}

RUN(filter_upper)
{
    kvsi_value text;

    TRY(kvsi_to_str(&text, r, &args[0]));
    return change_case(out, r, &text, 1, 0);
}

RUN(filter_lower)
{
    kvsi_value text;

    TRY(kvsi_to_str(&text, r, &args[0]));
    return change_case(out, r, &text, 0, 0);
}

RUN(filter_capitalize)
{
    kvsi_value text;

    TRY(kvsi_to_str(&text, r, &args[0]));
    return change_case(out, r, &text, 0, 1);
}

RUN(filter_replace)
{
    kvsi_value text, old, new;
    int64_t count = -1;

    TRY(kvsi_to_str(&text, r, &args[0]));
    TRY(kvsi_to_str(&old, r, &args[1]));
    TRY(kvsi_to_str(&new, r, &args[2]));
    if (is_given(&args[3]))
        TRY(get_whole(&count, r, &args[3]));
    return replace(out, r, &text, &old, &new, count);
}

RUN(filter_default)
{
    const int use =
        args[0].kind == KVSI_VALUE_UNDEFINED || (kvsi_truth(&args[2]) && !kvsi_truth(args));

    (void)r;
    *out = !use ? args[0] : args[1].kind == KVSI_VALUE_MISSING ? kvsi_borrow("", 0) : args[1];
    return KVS_OK;
}

/* The lines of a text as str.splitlines() finds them. */
static kvs_status split_lines(kvsi_value *out, kvsi_render *r, const kvsi_value *text)
{
    size_t first = 0, at = 0;

    TRY(kvsi_make_items(out, r, KVSI_VALUE_LIST));
    while (at < text->size) {
        uint32_t code;
        const size_t size = kvsi_utf8_next(text->text + at, text->size - at, &code);
        const int ends = (code >= '\n' && code <= '\r') || (code >= 0x1c && code <= 0x1e) ||
                         code == 0x85 || code == 0x2028 || code == 0x2029;

        at += size;
        if (!ends)
            continue;
        TRY(add_part(out, r, text->text + first, at - size - first));
        at += code == '\r' && at < text->size && text->text[at] == '\n';
        first = at;
    }
    TRY(kvsi_render_work(r, text->size / 16));
    return first < text->size ? add_part(out, r, text->text + first, text->size - first) : KVS_OK;
}

RUN(method_splitlines)
{
    return split_lines(out, r, &args[0]);
}

RUN(filter_indent)
{
    static const char spaces[] = "                                                                ";
    kvsi_value text, lines, indent = args[1];
    int64_t width = 4;
    kvsi_text result = {0};
    kvs_status st = KVS_OK;

    TRY(need_text(r, &args[0]));
    if (indent.kind != KVSI_VALUE_TEXT) {
        TRY(get_whole(&width, r, &indent));
        if (width > (int64_t)sizeof spaces - 1)
            return kvsi_render_fail_as(r, KVS_E_LIMIT, "an indent of more than 64");
        indent = kvsi_borrow(spaces, width > 0 ? (size_t)width : 0);
    }
    TRY_OUT(kvsi_add_str(&result, r, &args[0]));
    TRY_OUT(add(&result, r, "\n", 1)); /* as jinja2 does, so that a last newline stays */
    TRY(kvsi_take_text(&text, r, &result));
    TRY(split_lines(&lines, r, &text));
    result = (kvsi_text){0};
    for (size_t i = 0; i < lines.items->count; i++) {
        const kvsi_value *line = &lines.items->at[i];
        const int is_indented =
            i == 0 ? kvsi_truth(&args[2]) : line->size > 0 || kvsi_truth(&args[3]);

        if (i > 0)
            TRY_OUT(add(&result, r, "\n", 1));
        if (is_indented)
            TRY_OUT(kvsi_add_str(&result, r, &indent));
        TRY_OUT(kvsi_add_str(&result, r, line));
    }
    return kvsi_take_text(out, r, &result);
out:
    kvsi_text_release(&result);
    return st;
}

RUN(filter_int)
{
    char *end;
    kvsi_value text;

    *out = args[1].kind == KVSI_VALUE_MISSING ? kvsi_whole(0) : args[1];
    if (args[0].kind == KVSI_VALUE_WHOLE || args[0].kind == KVSI_VALUE_BOOL)
        *out = kvsi_whole(args[0].whole);
    else if (args[0].kind == KVSI_VALUE_REAL && fabs(args[0].real) < 9e18)
        *out = kvsi_whole((int64_t)args[0].real);
    if (args[0].kind != KVSI_VALUE_TEXT)
        return args[0].kind == KVSI_VALUE_REAL && !(fabs(args[0].real) < 9e18)
                   ? kvsi_render_fail_as(r, KVS_E_LIMIT, "a number is too large")
                   : KVS_OK;
    TRY(strip(&text, r, &args[0], &(kvsi_value){0}, 1, 1));
    TRY(kvsi_make_text(&text, r, text.text, text.size)); /* for the NUL */
    if (text.size == 0 || strspn(text.text, "+-0123456789.") < text.size)
        return text.size > 0 && strpbrk(text.text, "0123456789") && text.size < 400 &&
                       strcspn(text.text, "eE_") < text.size
                   ? kvsi_render_fail_as(r, KVS_E_UNSUPPORTED, "int of this text")
                   : KVS_OK;
    errno = 0;
    const long long whole = strtoll(text.text, &end, 10);

    if (*end == '.')
        strtod(text.text, &end);
    if (errno)
        return kvsi_render_fail_as(r, KVS_E_LIMIT, "a number is too large");
    if (end == text.text + text.size)
        *out = kvsi_whole(whole);
    return KVS_OK;
}

RUN(filter_abs)
{
    if (!kvsi_is_number(&args[0]) || args[0].whole == INT64_MIN)
        return kvsi_render_fail(r, "abs of %s", kvsi_kind_name(&args[0]));
    *out = args[0];
    if (args[0].kind == KVSI_VALUE_REAL)
        out->real = fabs(args[0].real);
    else
        *out = kvsi_whole(args[0].whole < 0 ? -args[0].whole : args[0].whole);
    return KVS_OK;
}

/* ---- filters of lists ------------------------------------------------------------------------ */

static kvs_status copy_items(kvsi_value *out, kvsi_render *r, kvsi_value *from, kvsi_kind kind,
                             int reversed)
{
    const kvsi_value *items;
    size_t count;

    TRY(kvsi_iterate(&items, &count, r, from));
    TRY(kvsi_make_items(out, r, kind));
    for (size_t i = 0; i < count; i++)
        TRY(kvsi_add_item(out, r, items[reversed ? count - 1 - i : i]));
    return KVS_OK;
}

RUN(filter_list)
{
    return copy_items(out, r, &args[0], KVSI_VALUE_LIST, 0);
}

RUN(filter_join)
{
    if (args[1].kind == KVSI_VALUE_MISSING)
        args[1] = kvsi_borrow("", 0);
    return join(out, r, &args[0], &args[1], &args[2], 0);
}

RUN(filter_items)
{
    if (args[0].kind == KVSI_VALUE_UNDEFINED)
        return kvsi_make_items(out, r, KVSI_VALUE_GENERATOR);
    if (args[0].kind != KVSI_VALUE_DICT)
        return kvsi_render_fail(r, "items of %s", kvsi_kind_name(&args[0]));
    return dict_parts(out, r, &args[0], KVSI_VALUE_GENERATOR, 1, 1);
}

RUN(filter_first)
{
    const kvsi_value *items;
    size_t count;

    TRY(kvsi_iterate(&items, &count, r, &args[0]));
    if (args[0].kind == KVSI_VALUE_GENERATOR) /* the others stay */
        args[0].items->used = args[0].items->count - count + (count > 0);
    *out = count > 0 ? items[0] : kvsi_undefined("the first element");
    return KVS_OK;
}

RUN(filter_last)
{
    const kvsi_value *items;
    size_t count;

    if (args[0].kind == KVSI_VALUE_GENERATOR)
        return kvsi_render_fail(r, "last of a generator");
    TRY(kvsi_iterate(&items, &count, r, &args[0]));
    *out = count > 0 ? items[count - 1] : kvsi_undefined("the last element");
    return KVS_OK;
}

RUN(filter_reverse)
{
    if (args[0].kind == KVSI_VALUE_GENERATOR) /* jinja2 makes a list of it */
        return copy_items(out, r, &args[0], KVSI_VALUE_LIST, 1);
    TRY(copy_items(out, r, &args[0], KVSI_VALUE_GENERATOR, 1));
    if (args[0].kind != KVSI_VALUE_TEXT)
        return KVS_OK;
    args[1] = *out;
    return join(out, r, &args[1], &(kvsi_value){.kind = KVSI_VALUE_TEXT, .text = ""},
                &(kvsi_value){0}, 0);
}

/* What an element is sorted or compared by: an attribute, in small letters unless cases differ. */
static kvs_status sort_key(kvsi_value *out, kvsi_render *r, const kvsi_value *item,
                           const kvsi_value *attribute, const kvsi_value *case_sensitive)
{
    kvsi_value key = *item;

    if (is_given(attribute))
        TRY(dotted(&key, r, item, attribute));
    *out = key;
    if (key.kind == KVSI_VALUE_TEXT && !kvsi_truth(case_sensitive))
        return change_case(out, r, &key, 0, 0);
    return KVS_OK;
}

/* Sorts pairs (key, element) and keeps the order of equal keys. */
static kvs_status sort_pairs(kvsi_render *r, kvsi_items *pairs, int reversed)
{
    for (size_t i = 1; i < pairs->count; i++) {
        const kvsi_value pair = pairs->at[i];
        size_t at = i;

        for (; at > 0; at--) {
            int order;

            TRY(kvsi_order(&order, r, &pair.items->at[0], &pairs->at[at - 1].items->at[0]));
            if (reversed ? order <= 0 : order >= 0)
                break;
            pairs->at[at] = pairs->at[at - 1];
        }
        pairs->at[at] = pair;
    }
    return KVS_OK;
}

static kvs_status make_pairs(kvsi_value *out, kvsi_render *r, kvsi_value *list,
                             const kvsi_value *attribute, const kvsi_value *case_sensitive)
{
    const kvsi_value *items;
    size_t count;

    TRY(kvsi_iterate(&items, &count, r, list));
    TRY(kvsi_make_items(out, r, KVSI_VALUE_LIST));
    for (size_t i = 0; i < count; i++) {
        kvsi_value key, pair;

        TRY(sort_key(&key, r, &items[i], attribute, case_sensitive));
        TRY(kvsi_make_pair(&pair, r, key, items[i]));
        TRY(kvsi_add_item(out, r, pair));
    }
    return KVS_OK;
}

static kvs_status seconds(kvsi_value *out, kvsi_render *r, const kvsi_items *pairs)
{
    TRY(kvsi_make_items(out, r, KVSI_VALUE_LIST));
    for (size_t i = 0; i < pairs->count; i++)
        TRY(kvsi_add_item(out, r, pairs->at[i].items->at[1]));
    return KVS_OK;
}

RUN(filter_sort)
{
    kvsi_value pairs;

    TRY(make_pairs(&pairs, r, &args[0], &args[3], &args[2]));
    TRY(sort_pairs(r, pairs.items, kvsi_truth(&args[1])));
    return seconds(out, r, pairs.items);
}

RUN(filter_dictsort)
{
    const int by_value = equals(&args[2], "value");
    kvsi_value items, pairs;

    if (args[0].kind != KVSI_VALUE_DICT ||
        (args[2].kind != KVSI_VALUE_MISSING && !by_value && !equals(&args[2], "key")))
        return kvsi_render_fail(r, "dictsort of %s", kvsi_kind_name(&args[0]));
    TRY(dict_parts(&items, r, &args[0], KVSI_VALUE_LIST, 1, 1));
    args[5] = kvsi_whole(by_value);
    TRY(make_pairs(&pairs, r, &items, &args[5], &args[1]));
    TRY(sort_pairs(r, pairs.items, kvsi_truth(&args[3])));
    return seconds(out, r, pairs.items);
}

RUN(filter_unique)
{
    kvsi_value pairs;

    TRY(make_pairs(&pairs, r, &args[0], &args[2], &args[1]));
    TRY(kvsi_make_items(out, r, KVSI_VALUE_GENERATOR));
    for (size_t i = 0; i < pairs.items->count; i++) {
        const kvsi_value *pair = pairs.items->at[i].items->at;
        int found = 0;

        for (size_t k = 0; k < i && !found; k++)
            TRY(kvsi_equal(&found, r, &pairs.items->at[k].items->at[0], &pair[0]));
        if (!found)
            TRY(kvsi_add_item(out, r, pair[1]));
    }
    return KVS_OK;
}

static kvs_status extreme(kvsi_value *out, kvsi_render *r, kvsi_value *args, int sign)
{
    kvsi_value pairs;
    size_t best = 0;

    TRY(make_pairs(&pairs, r, &args[0], &args[2], &args[1]));
    *out = kvsi_undefined("the least or greatest element");
    for (size_t i = 1; i < pairs.items->count; i++) {
        int order;

        TRY(kvsi_order(&order, r, &pairs.items->at[i].items->at[0],
                       &pairs.items->at[best].items->at[0]));
        if (order * sign > 0)
            best = i;
    }
    if (pairs.items->count > 0)
        *out = pairs.items->at[best].items->at[1];
    return KVS_OK;
}

RUN(filter_min)
{
    return extreme(out, r, args, -1);
}

RUN(filter_max)
{
    return extreme(out, r, args, 1);
}

/* ---- filters that apply others --------------------------------------------------------------- */

RUN(filter_map)
{
    const kvsi_value *items;
    const kvsi_function *filter = NULL;
    size_t count;

    if (args[1].kind == KVSI_VALUE_TEXT)
        filter = kvsi_find_filter(args[1].text); /* the parser has checked the name */
    else if (!is_given(&args[4]))
        return kvsi_render_fail(r, "map needs the name of a filter or an attribute");
    TRY(kvsi_iterate(&items, &count, r, &args[0]));
    TRY(kvsi_make_items(out, r, KVSI_VALUE_GENERATOR));
    for (size_t i = 0; i < count; i++) {
        kvsi_value item, inner[KVSI_ARGUMENTS_MAX + 1] = {items[i], args[2], args[3]};

        if (filter) {
            TRY(filter->run(&item, r, inner));
        } else {
            TRY(dotted(&item, r, &items[i], &args[4]));
            if (item.kind == KVSI_VALUE_UNDEFINED && args[5].kind != KVSI_VALUE_MISSING)
                item = args[5];
        }
        TRY(kvsi_add_item(out, r, item));
    }
    return KVS_OK;
}

/* Keeps the elements for which the test of their value, or of an attribute, holds or fails. */
static kvs_status choose(kvsi_value *out, kvsi_render *r, kvsi_value *args,
                         const kvsi_value *attribute, const kvsi_value *test, int wanted)
{
    const kvsi_function *function =
        test->kind == KVSI_VALUE_TEXT ? kvsi_find_test(test->text) : NULL;
    const kvsi_value *items;
    size_t count;

    TRY(kvsi_iterate(&items, &count, r, &args[0]));
    TRY(kvsi_make_items(out, r, KVSI_VALUE_GENERATOR));
    for (size_t i = 0; i < count; i++) {
        kvsi_value value = items[i], holds, inner[KVSI_ARGUMENTS_MAX + 1] = {{0}, test[1], test[2]};

        if (attribute)
            TRY(dotted(&value, r, &items[i], attribute));
        inner[0] = value;
        holds = value;
        if (function)
            TRY(function->run(&holds, r, inner));
        if (kvsi_truth(&holds) == wanted)
            TRY(kvsi_add_item(out, r, items[i]));
    }
    return KVS_OK;
}

RUN(filter_select)
{
    return choose(out, r, args, NULL, &args[1], 1);
}

RUN(filter_reject)
{
    return choose(out, r, args, NULL, &args[1], 0);
}

RUN(filter_selectattr)
{
    return choose(out, r, args, &args[1], &args[2], 1);
}

RUN(filter_rejectattr)
{
    return choose(out, r, args, &args[1], &args[2], 0);
}

/* ---- tests ----------------------------------------------------------------------------------- */

#define TEST(name, holds)                                                                          \
    RUN(name)                                                                                      \
    {                                                                                              \
        const kvsi_value *v = args;                                                                \
                                                                                                   \
        (void)r;                                                                                   \
        *out = kvsi_bool(holds);                                                                   \
        return KVS_OK;                                                                             \
    }

TEST(test_defined, v->kind != KVSI_VALUE_UNDEFINED)
TEST(test_undefined, v->kind == KVSI_VALUE_UNDEFINED)
TEST(test_none, v->kind == KVSI_VALUE_NONE)
TEST(test_string, v->kind == KVSI_VALUE_TEXT)
TEST(test_mapping, v->kind == KVSI_VALUE_DICT)
TEST(test_sequence, v->kind == KVSI_VALUE_UNDEFINED || v->kind == KVSI_VALUE_TEXT ||
                        v->kind == KVSI_VALUE_LIST || v->kind == KVSI_VALUE_TUPLE ||
                        v->kind == KVSI_VALUE_RANGE || v->kind == KVSI_VALUE_DICT)
TEST(test_iterable, v->kind == KVSI_VALUE_UNDEFINED || v->kind == KVSI_VALUE_TEXT ||
                        kvsi_has_items(v) || v->kind == KVSI_VALUE_DICT ||
                        v->kind == KVSI_VALUE_LOOP)
TEST(test_boolean, v->kind == KVSI_VALUE_BOOL)
TEST(test_true, v->kind == KVSI_VALUE_BOOL && v->whole)
TEST(test_false, v->kind == KVSI_VALUE_BOOL && !v->whole)
TEST(test_number, kvsi_is_number(v))
TEST(test_integer, v->kind == KVSI_VALUE_WHOLE)
TEST(test_float, v->kind == KVSI_VALUE_REAL)

static kvs_status remainder_is(kvsi_value *out, kvsi_render *r, const kvsi_value *value,
                               int64_t divisor, int64_t wanted)
{
    int64_t number = 0;

    TRY(get_whole(&number, r, value));
    if (divisor == 0)
        return kvsi_render_fail(r, "division by zero");
    *out = kvsi_bool(llabs(divisor == -1 ? 0 : number % divisor) == wanted);
    return KVS_OK;
}

RUN(test_odd)
{
    return remainder_is(out, r, &args[0], 2, 1);
}

RUN(test_even)
{
    return remainder_is(out, r, &args[0], 2, 0);
}

RUN(test_divisibleby)
{
    int64_t divisor = 1;

    TRY(get_whole(&divisor, r, &args[1]));
    return remainder_is(out, r, &args[0], divisor, 0);
}

RUN(test_equal)
{
    int holds;

    TRY(kvsi_equal(&holds, r, &args[0], &args[1]));
    *out = kvsi_bool(holds);
    return KVS_OK;
}

RUN(test_unequal)
{
    TRY(test_equal(out, r, args));
    *out = kvsi_bool(!out->whole);
    return KVS_OK;
}

static kvs_status test_order(kvsi_value *out, kvsi_render *r, kvsi_value *args, int low, int high)
{
    int order;

    TRY(kvsi_order(&order, r, &args[0], &args[1]));
    *out = kvsi_bool(order >= low && order <= high);
    return KVS_OK;
}

RUN(test_greater)
{
    return test_order(out, r, args, 1, 1);
}

RUN(test_at_least)
{
    return test_order(out, r, args, 0, 1);
}

RUN(test_less)
{
    return test_order(out, r, args, -1, -1);
}

RUN(test_at_most)
{
    return test_order(out, r, args, -1, 0);
}

RUN(test_in)
{
    const kvsi_value *items;
    size_t count;
    int found = 0;

    if (args[1].kind == KVSI_VALUE_TEXT) {
        const char *at;

        TRY(need_text(r, &args[0]));
        TRY(kvsi_find_part(&at, r, &args[1], 0, &args[0]));
        *out = kvsi_bool(at != NULL);
        return KVS_OK;
    }
    TRY(kvsi_iterate(&items, &count, r, &args[1]));
    for (size_t i = 0; i < count && !found; i++)
        TRY(kvsi_equal(&found, r, &items[i], &args[0]));
    *out = kvsi_bool(found);
    return KVS_OK;
}

/* ---- functions ------------------------------------------------------------------------------- */

RUN(global_range)
{
    int64_t start = 0, stop = 0, step = 1;

    TRY(get_whole(args[2].kind == KVSI_VALUE_MISSING ? &stop : &start, r, &args[1]));
    TRY(get_whole(&stop, r, &args[2]));
    TRY(get_whole(&step, r, &args[3]));
    if (step == 0)
        return kvsi_render_fail(r, "range with step 0");
    TRY(kvsi_make_items(out, r, KVSI_VALUE_RANGE));
    for (int64_t at = start; step > 0 ? at < stop : at > stop;) {
        if (out->items->count == KVSI_CHAT_RANGE)
            return kvsi_render_fail_as(r, KVS_E_LIMIT, "a range of more than %d", KVSI_CHAT_RANGE);
        TRY(kvsi_add_item(out, r, kvsi_whole(at)));
        if (__builtin_add_overflow(at, step, &at))
            break;
    }
    return KVS_OK;
}

RUN(global_namespace)
{
    for (size_t i = 0; i < args[0].dict->count; i++)
        if (args[0].dict->at[i].key[0] == '_')
            return kvsi_render_fail(r, "a namespace with a name that begins with '_'");
    *out = args[0];
    out->kind = KVSI_VALUE_NAMESPACE;
    return KVS_OK;
}

RUN(global_dict)
{
    (void)r;
    *out = args[0];
    return KVS_OK;
}

RUN(global_raise_exception)
{
    kvsi_value text;

    (void)out;
    TRY(kvsi_to_str(&text, r, &args[1]));
    return kvsi_fail(r->err, KVS_E_INVALID, "the template says: %.*s",
                     (int)(text.size < 300 ? text.size : 300), text.text);
}

RUN(global_strftime_now)
{
    const time_t now = (time_t)r->now;
    struct tm when;
    char text[512];
    kvsi_value format;

    TRY(need_text(r, &args[1]));
    TRY(kvsi_make_text(&format, r, args[1].text, args[1].size)); /* for the NUL */
    if (format.size > 100 || memchr(format.text, '\0', format.size) || !localtime_r(&now, &when))
        return kvsi_render_fail(r, "strftime_now: expected a format of at most 100 bytes");
    return kvsi_make_text(out, r, text, strftime(text, sizeof text, format.text, &when));
}

/* ---- tables ---------------------------------------------------------------------------------- */

static const kvsi_function globals[] = {
    {"range", "start,stop,step", 1, global_range, 0},
    {"namespace", "", 0, global_namespace, 1},
    {"dict", "", 0, global_dict, 1},
    {"raise_exception", "message", 1, global_raise_exception, 0},
    {"strftime_now", "format", 1, global_strftime_now, 0},
    {0},
};

static const kvsi_function filters[] = {
    {"tojson", "ensure_ascii,indent,separators,sort_keys", 0, filter_tojson, 0},
    {"length", "", 0, filter_length, 0},
    {"count", "", 0, filter_length, 0},
    {"string", "", 0, filter_string, 0},
    {"safe", "", 0, filter_string, 0},
    {"trim", "chars", 0, filter_trim, 0},
    {"upper", "", 0, filter_upper, 0},
    {"lower", "", 0, filter_lower, 0},
    {"capitalize", "", 0, filter_capitalize, 0},
    {"replace", "old,new,count", 2, filter_replace, 0},
    {"default", "default_value,boolean", 0, filter_default, 0},
    {"d", "default_value,boolean", 0, filter_default, 0},
    {"indent", "width,first,blank", 0, filter_indent, 0},
    {"int", "default", 0, filter_int, 0},
    {"abs", "", 0, filter_abs, 0},
    {"list", "", 0, filter_list, 0},
    {"join", "d,attribute", 0, filter_join, 0},
    {"items", "", 0, filter_items, 0},
    {"first", "", 0, filter_first, 0},
    {"last", "", 0, filter_last, 0},
    {"reverse", "", 0, filter_reverse, 0},
    {"sort", "reverse,case_sensitive,attribute", 0, filter_sort, 0},
    {"dictsort", "case_sensitive,by,reverse", 0, filter_dictsort, 0},
    {"unique", "case_sensitive,attribute", 0, filter_unique, 0},
    {"min", "case_sensitive,attribute", 0, filter_min, 0},
    {"max", "case_sensitive,attribute", 0, filter_max, 0},
    {"map", "name,first,second,*attribute,*default", 0, filter_map, 0},
    {"select", "test,first,second", 0, filter_select, 0},
    {"reject", "test,first,second", 0, filter_reject, 0},
    {"selectattr", "attribute,test,first,second", 1, filter_selectattr, 0},
    {"rejectattr", "attribute,test,first,second", 1, filter_rejectattr, 0},
    {0},
};

static const kvsi_function tests[] = {
    {"defined", "", 0, test_defined, 0},
    {"undefined", "", 0, test_undefined, 0},
    {"none", "", 0, test_none, 0},
    {"string", "", 0, test_string, 0},
    {"mapping", "", 0, test_mapping, 0},
    {"sequence", "", 0, test_sequence, 0},
    {"iterable", "", 0, test_iterable, 0},
    {"boolean", "", 0, test_boolean, 0},
    {"true", "", 0, test_true, 0},
    {"false", "", 0, test_false, 0},
    {"number", "", 0, test_number, 0},
    {"integer", "", 0, test_integer, 0},
    {"float", "", 0, test_float, 0},
    {"odd", "", 0, test_odd, 0},
    {"even", "", 0, test_even, 0},
    {"divisibleby", "num", 1, test_divisibleby, 0},
    {"eq", "other", 1, test_equal, 0},
    {"equalto", "other", 1, test_equal, 0},
    {"==", "other", 1, test_equal, 0},
    {"ne", "other", 1, test_unequal, 0},
    {"!=", "other", 1, test_unequal, 0},
    {"gt", "other", 1, test_greater, 0},
    {"greaterthan", "other", 1, test_greater, 0},
    {"ge", "other", 1, test_at_least, 0},
    {"lt", "other", 1, test_less, 0},
    {"lessthan", "other", 1, test_less, 0},
    {"le", "other", 1, test_at_most, 0},
    {"in", "seq", 1, test_in, 0},
    {0},
};

static const kvsi_function methods[] = {
    {"split", "sep,maxsplit", 0, method_split, 0},
    {"splitlines", "", 0, method_splitlines, 0},
    {"strip", "chars", 0, method_strip, 0},
    {"lstrip", "chars", 0, method_lstrip, 0},
    {"rstrip", "chars", 0, method_rstrip, 0},
    {"startswith", "prefix", 1, method_startswith, 0},
    {"endswith", "suffix", 1, method_endswith, 0},
    {"removeprefix", "prefix", 1, method_removeprefix, 0},
    {"removesuffix", "suffix", 1, method_removesuffix, 0},
    {"replace", "old,new,count", 2, method_replace, 0},
    {"upper", "", 0, method_upper, 0},
    {"lower", "", 0, method_lower, 0},
    {"capitalize", "", 0, method_capitalize, 0},
    {"find", "sub", 1, method_find, 0},
    {"join", "iterable", 1, method_join, 0},
    {"items", "", 0, method_items, 0},
    {"keys", "", 0, method_keys, 0},
    {"values", "", 0, method_values, 0},
    {"get", "key,default", 1, method_get, 0},
    {0},
};

/* All names that Python's types have; those that are not in `methods` cannot be called. */
static const char of_text[] =
    " capitalize casefold center count encode endswith expandtabs find format format_map index "
    "isalnum isalpha isascii isdecimal isdigit isidentifier islower isnumeric isprintable isspace "
    "istitle isupper join ljust lower lstrip maketrans partition removeprefix removesuffix replace "
    "rfind rindex rjust rpartition rsplit rstrip split splitlines startswith strip swapcase title "
    "translate upper zfill ";
static const char of_list[] = " copy count index ";
static const char of_tuple[] = " count index ";
static const char of_dict[] = " copy fromkeys get items keys values ";
/* The sandbox hides what changes a dict, also a key of that name. */
static const char hidden[] = " clear pop popitem setdefault update ";

static int is_listed(const char *list, const char *name)
{
    const size_t size = strlen(name);

    for (const char *at = list; size > 0 && !strchr(name, ' ') && (at = strstr(at, name)); at++)
        if (at[-1] == ' ' && at[size] == ' ')
            return 1;
    return 0;
}

static const kvsi_function *find(const kvsi_function *table, const char *name)
{
    for (; table->name; table++)
        if (strcmp(table->name, name) == 0)
            return table;
    return NULL;
}

const kvsi_function *kvsi_find_global(const char *name)
{
    return find(globals, name);
}

const kvsi_function *kvsi_find_filter(const char *name)
{
    return find(filters, name);
}

const kvsi_function *kvsi_find_test(const char *name)
{
    return find(tests, name);
}

const kvsi_function *kvsi_find_method(const char *name)
{
    return find(methods, name);
}

int kvsi_has_method(kvsi_kind kind, const char *name)
{
    return is_listed(kind == KVSI_VALUE_TEXT    ? of_text
                     : kind == KVSI_VALUE_LIST  ? of_list
                     : kind == KVSI_VALUE_TUPLE ? of_tuple
                     : kind == KVSI_VALUE_DICT  ? of_dict
                                                : "",
                     name);
}

int kvsi_is_hidden(const char *name)
{
    return is_listed(hidden, name);
}
