#include "eval/python_text.h"

#include "base/utf8.h"
#include "tokenizer/characters.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- strip, length --------------------------------------------------------------------------- */

kvsi_text_part kvsi_python_strip(const char *text, size_t size)
{
    uint32_t code;

    while (size > 0) {
        const size_t length = kvsi_utf8_next(text, size, &code);

        if (!kvsi_is_python_space(code))
            break;
        text += length;
        size -= length;
    }
    while (size > 0) {
        const size_t length = kvsi_utf8_last(text, size, &code);

        if (!kvsi_is_python_space(code))
            break;
        size -= length;
    }
    return (kvsi_text_part){text, size};
}

size_t kvsi_python_length(const char *text, size_t size)
{
    size_t count = 0;

    for (size_t i = 0; i < size; i++)
        count += ((unsigned char)text[i] & 0xc0) != 0x80;
    return count;
}

/* ---- capitalize ------------------------------------------------------------------------------ */

/* Characters whose title case is several characters, from Unicode's SpecialCasing.txt. */
static const struct {
    uint32_t code, title[3];
} long_titles[] = {{0x00df, {0x0053, 0x0073}},         {0x0149, {0x02bc, 0x004e}},
                   {0x01f0, {0x004a, 0x030c}},         {0x0390, {0x0399, 0x0308, 0x0301}},
                   {0x03b0, {0x03a5, 0x0308, 0x0301}}, {0x0587, {0x0535, 0x0582}},
                   {0x1e96, {0x0048, 0x0331}},         {0x1e97, {0x0054, 0x0308}},
                   {0x1e98, {0x0057, 0x030a}},         {0x1e99, {0x0059, 0x030a}},
                   {0x1e9a, {0x0041, 0x02be}},         {0x1f50, {0x03a5, 0x0313}},
                   {0x1f52, {0x03a5, 0x0313, 0x0300}}, {0x1f54, {0x03a5, 0x0313, 0x0301}},
                   {0x1f56, {0x03a5, 0x0313, 0x0342}}, {0x1fb2, {0x1fba, 0x0345}},
                   {0x1fb4, {0x0386, 0x0345}},         {0x1fb6, {0x0391, 0x0342}},
                   {0x1fb7, {0x0391, 0x0342, 0x0345}}, {0x1fc2, {0x1fca, 0x0345}},
                   {0x1fc4, {0x0389, 0x0345}},         {0x1fc6, {0x0397, 0x0342}},
                   {0x1fc7, {0x0397, 0x0342, 0x0345}}, {0x1fd2, {0x0399, 0x0308, 0x0300}},
                   {0x1fd3, {0x0399, 0x0308, 0x0301}}, {0x1fd6, {0x0399, 0x0342}},
                   {0x1fd7, {0x0399, 0x0308, 0x0342}}, {0x1fe2, {0x03a5, 0x0308, 0x0300}},
                   {0x1fe3, {0x03a5, 0x0308, 0x0301}}, {0x1fe4, {0x03a1, 0x0313}},
                   {0x1fe6, {0x03a5, 0x0342}},         {0x1fe7, {0x03a5, 0x0308, 0x0342}},
                   {0x1ff2, {0x1ffa, 0x0345}},         {0x1ff4, {0x038f, 0x0345}},
                   {0x1ff6, {0x03a9, 0x0342}},         {0x1ff7, {0x03a9, 0x0342, 0x0345}},
                   {0xfb00, {0x0046, 0x0066}},         {0xfb01, {0x0046, 0x0069}},
                   {0xfb02, {0x0046, 0x006c}},         {0xfb03, {0x0046, 0x0066, 0x0069}},
                   {0xfb04, {0x0046, 0x0066, 0x006c}}, {0xfb05, {0x0053, 0x0074}},
                   {0xfb06, {0x0053, 0x0074}},         {0xfb13, {0x0544, 0x0576}},
                   {0xfb14, {0x0544, 0x0565}},         {0xfb15, {0x0544, 0x056b}},
                   {0xfb16, {0x054e, 0x0576}},         {0xfb17, {0x0544, 0x056d}}};

static void add_character(kvsi_text *out, uint32_t code)
{
    char bytes[4];

    kvsi_text_add_bytes(out, bytes, kvsi_utf8_put(bytes, code));
}

static void add_title(kvsi_text *out, uint32_t code)
{
    for (size_t i = 0; i < sizeof long_titles / sizeof *long_titles; i++)
        if (long_titles[i].code == code) {
            for (size_t k = 0; k < 3 && long_titles[i].title[k]; k++)
                add_character(out, long_titles[i].title[k]);
            return;
        }
    add_character(out, kvsi_to_title(code));
}

/* Whether a capital sigma at text[at] ends a word: a cased letter stands before it and none after,
 * where marks and the like are skipped. */
static int is_final_sigma(const char *text, size_t size, size_t at, size_t length)
{
    uint32_t code = KVSI_NO_CHARACTER;
    size_t before = at, after = at + length;

    while (before > 0) {
        before -= kvsi_utf8_last(text, before, &code);
        if (!kvsi_is_case_ignorable(code))
            break;
        code = KVSI_NO_CHARACTER;
    }
    if (!kvsi_is_cased(code))
        return 0;
    while (after < size) {
        after += kvsi_utf8_next(text + after, size - after, &code);
        if (!kvsi_is_case_ignorable(code))
            return !kvsi_is_cased(code);
    }
    return 1;
}

void kvsi_python_capitalize(kvsi_text *out, const char *text, size_t size)
{
    enum { DOTTED_I = 0x130, DOT = 0x307, SIGMA = 0x3a3, FINAL_SIGMA = 0x3c2 };

    for (size_t at = 0, length; at < size; at += length) {
        uint32_t code;

        length = kvsi_utf8_next(text + at, size - at, &code);
        if (code == KVSI_NO_CHARACTER) {
            kvsi_text_add_bytes(out, text + at, length);
        } else if (at == 0) {
            add_title(out, code);
        } else if (code == DOTTED_I) {
            add_character(out, 'i');
            add_character(out, DOT);
        } else if (code == SIGMA && is_final_sigma(text, size, at, length)) {
            add_character(out, FINAL_SIGMA);
        } else {
            add_character(out, kvsi_to_lower(code));
        }
    }
}

/* ---- json.dumps ------------------------------------------------------------------------------ */

void kvsi_python_float(kvsi_text *out, double value)
{
    char digits[32], *exponent;
    int precision = 0, power;

    if (!isfinite(value)) { /* as json.dumps has them */
        kvsi_text_add(out, isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity");
        return;
    }
    do
        snprintf(digits, sizeof digits, "%.*e", precision, value);
    while (strtod(digits, NULL) != value && ++precision < 17);
    exponent = strchr(digits, 'e');
    power = (int)strtol(exponent + 1, NULL, 10);
    if (power < -4 || power >= 16) {
        *exponent = '\0';
        kvsi_text_format(out, "%se%c%02d", digits, power < 0 ? '-' : '+', abs(power));
    } else {
        kvsi_text_format(out, "%.*f", precision > power ? precision - power : 1, value);
    }
}

static void add_string(kvsi_text *out, const char *text, size_t size)
{
    static const char special[] = "\"\\\n\r\t\f\b", letters[] = "\"\\nrtfb";

    kvsi_text_add(out, "\"");
    for (size_t i = 0; i < size; i++) {
        const char *found = text[i] ? strchr(special, text[i]) : NULL;

        if (found)
            kvsi_text_format(out, "\\%c", letters[found - special]);
        else if ((unsigned char)text[i] < 0x20)
            kvsi_text_format(out, "\\u%04x", (unsigned)text[i]);
        else
            kvsi_text_add_bytes(out, text + i, 1);
    }
    kvsi_text_add(out, "\"");
}

static void add_line(kvsi_text *out, size_t depth)
{
    kvsi_text_add(out, "\n");
    for (size_t i = 0; i < depth; i++)
        kvsi_text_add(out, "  ");
}

/* jansson bounds the depth of what it reads. */
static void add_value(kvsi_text *out, const json_t *value, size_t depth)
{
    json_t *member;
    const char *key;
    size_t i, count = 0;

    switch (json_typeof(value)) {
    case JSON_OBJECT:
        kvsi_text_add(out, "{");
        json_object_foreach((json_t *)value, key, member) {
            kvsi_text_add(out, count++ ? "," : "");
            add_line(out, depth + 1);
            add_string(out, key, strlen(key));
            kvsi_text_add(out, ": ");
            add_value(out, member, depth + 1);
        }
        if (count)
            add_line(out, depth);
        kvsi_text_add(out, "}");
        break;
    case JSON_ARRAY:
        kvsi_text_add(out, "[");
        json_array_foreach(value, i, member) {
            kvsi_text_add(out, count++ ? "," : "");
            add_line(out, depth + 1);
            add_value(out, member, depth + 1);
        }
        if (count)
            add_line(out, depth);
        kvsi_text_add(out, "]");
        break;
    case JSON_STRING:
        add_string(out, json_string_value(value), json_string_length(value));
        break;
    case JSON_INTEGER:
        kvsi_text_format(out, "%lld", (long long)json_integer_value(value));
        break;
    case JSON_REAL:
        kvsi_python_float(out, json_real_value(value));
        break;
    case JSON_TRUE:
        kvsi_text_add(out, "true");
        break;
    case JSON_FALSE:
        kvsi_text_add(out, "false");
        break;
    case JSON_NULL:
        kvsi_text_add(out, "null");
        break;
    }
}

void kvsi_python_json(kvsi_text *out, const json_t *value)
{
    add_value(out, value, 0);
}
