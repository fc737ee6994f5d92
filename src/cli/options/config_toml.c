/* Settings as TOML: the subset that cli/options/config_file.h describes. */
#include "base/utf8.h"
#include "cli/options/config_file.h"

#include <stdint.h>
#include <string.h>

static const char name_letters[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
static const char digits[] = "0123456789";

/* ---- position ---- */

/* Returns the character at r->at + ahead, or '\0' at the end; no valid file contains '\0'. */
static char peek(const kvsi_config_reader *r, size_t ahead)
{
    return ahead < (size_t)(r->end - r->at) ? r->at[ahead] : '\0';
}

static int is_one_of(char c, const char *set)
{
    return c != '\0' && strchr(set, c) != NULL;
}

static kvs_status fail_expected(const kvsi_config_reader *r, const char *expected, kvs_err *err)
{
    enum { SHOWN = 24 };
    size_t length = 0;

    if (!peek(r, 0))
        return kvsi_fail(err, KVS_E_FORMAT, "%s:%zu: expected %s, found the end of the file",
                         r->path, r->line, expected);
    while (length < SHOWN && peek(r, length) && !is_one_of(peek(r, length), "\r\n"))
        length++;
    while (length > 0 && ((unsigned char)peek(r, length) & 0xc0) == 0x80)
        length--; /* show only whole characters */
    if (length == 0)
        return kvsi_fail(err, KVS_E_FORMAT, "%s:%zu: expected %s, found the end of the line",
                         r->path, r->line, expected);
    return kvsi_fail(err, KVS_E_FORMAT, "%s:%zu: expected %s, found '%.*s'", r->path, r->line,
                     expected, (int)length, r->at);
}

static void skip_blanks(kvsi_config_reader *r)
{
    while (is_one_of(peek(r, 0), " \t"))
        r->at++;
}

/* Skips blanks, a comment and the end of the line; returns whether nothing else was there. */
static int skip_rest_of_line(kvsi_config_reader *r)
{
    skip_blanks(r);
    if (peek(r, 0) == '#')
        while (peek(r, 0) && !is_one_of(peek(r, 0), "\r\n"))
            r->at++;
    if (peek(r, 0) == '\r')
        r->at++; /* the file was checked: a newline follows */
    if (peek(r, 0) != '\n')
        return peek(r, 0) == '\0';
    r->at++;
    r->line++;
    return 1;
}

static kvs_status read_name(kvsi_config_reader *r, kvsi_text *name, const char *expected,
                            kvs_err *err)
{
    const char *const start = r->at;

    while (is_one_of(peek(r, 0), name_letters))
        r->at++;
    if (r->at == start)
        return fail_expected(r, expected, err);
    name->length = 0;
    kvsi_text_add_bytes(name, start, (size_t)(r->at - start));
    return kvsi_text_check(name, err);
}

/* ---- strings ---- */

/* Reads the four or eight hexadecimal digits of \u and \U. */
static kvs_status read_code_point(kvsi_config_reader *r, kvsi_text *text, size_t count,
                                  kvs_err *err)
{
    static const char hex[] = "0123456789abcdef0123456789ABCDEF";
    uint32_t c = 0;
    char bytes[4];

    for (size_t i = 0; i < count; i++) {
        if (!is_one_of(peek(r, i), hex))
            return fail_expected(r, "hexadecimal digits", err);
        c = c << 4 | (uint32_t)(strchr(hex, peek(r, i)) - hex) % 16;
    }
    if (c == 0 || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        return fail_expected(r, "a character's number", err);
    r->at += count;
    kvsi_text_add_bytes(text, bytes, kvsi_utf8_put(bytes, c));
    return KVS_OK;
}

static kvs_status read_escape(kvsi_config_reader *r, kvsi_text *text, kvs_err *err)
{
    static const char names[] = "btnfr\"\\", meanings[] = "\b\t\n\f\r\"\\";
    const char c = peek(r, 1);

    if (c == 'u' || c == 'U') {
        r->at += 2;
        return read_code_point(r, text, c == 'u' ? 4 : 8, err);
    }
    if (!is_one_of(c, names))
        return fail_expected(r, "an escape such as \\n or \\\\", err);
    r->at += 2;
    kvsi_text_add_bytes(text, meanings + (strchr(names, c) - names), 1);
    return KVS_OK;
}

static kvs_status read_string(kvsi_config_reader *r, kvsi_text *text, kvs_err *err)
{
    const char quote = *r->at;

    if (peek(r, 1) == quote && peek(r, 2) == quote)
        return fail_expected(r, "text on one line", err);
    r->at++;
    while (peek(r, 0) != quote) {
        if (!peek(r, 0) || is_one_of(peek(r, 0), "\r\n"))
            return fail_expected(r, quote == '"' ? "a closing \"" : "a closing '", err);
        if (quote == '"' && peek(r, 0) == '\\') {
            TRY(read_escape(r, text, err));
        } else {
            kvsi_text_add_bytes(text, r->at++, 1);
        }
    }
    r->at++;
    return KVS_OK;
}

/* ---- numbers ---- */

/* Reads digits, drops single underscores between them, and returns the number of digits. */
static size_t read_digits(kvsi_config_reader *r, kvsi_text *text)
{
    size_t count = 0;

    for (;; r->at++) {
        if (is_one_of(peek(r, 0), digits)) {
            kvsi_text_add_bytes(text, r->at, 1);
            count++;
        } else if (count == 0 || peek(r, 0) != '_' || !is_one_of(peek(r, 1), digits)) {
            return count;
        }
    }
}

static kvs_status read_number(kvsi_config_reader *r, kvsi_text *text, kvsi_config_kind *kind,
                              kvs_err *err)
{
    static const char what[] = "a number, \"text\", true, false or an array of numbers";
    kvsi_config_reader start = *r;
    size_t whole;
    int first_zero;

    *kind = KVSI_CONFIG_WHOLE;
    if (peek(r, 0) == '-')
        kvsi_text_add(text, "-");
    if (is_one_of(peek(r, 0), "+-"))
        r->at++;
    first_zero = peek(r, 0) == '0';
    whole = read_digits(r, text);
    if (whole == 0 || (first_zero && whole > 1))
        return fail_expected(&start, what, err);
    if (peek(r, 0) == '.') {
        kvsi_text_add_bytes(text, r->at++, 1);
        *kind = KVSI_CONFIG_REAL;
        if (read_digits(r, text) == 0)
            return fail_expected(&start, what, err);
    }
    if (is_one_of(peek(r, 0), "eE")) {
        kvsi_text_add_bytes(text, r->at++, 1);
        *kind = KVSI_CONFIG_REAL;
        if (is_one_of(peek(r, 0), "+-"))
            kvsi_text_add_bytes(text, r->at++, 1);
        if (read_digits(r, text) == 0)
            return fail_expected(&start, what, err);
    }
    return is_one_of(peek(r, 0), name_letters) ? fail_expected(&start, what, err) : KVS_OK;
}

static void skip_lines(kvsi_config_reader *r)
{
    while (peek(r, 0) && skip_rest_of_line(r))
        ;
}

/* Reads an array of numbers, which may extend over several lines. */
static kvs_status read_array(kvsi_config_reader *r, kvsi_text *text, kvs_err *err)
{
    kvsi_config_kind kind;

    r->at++;
    for (skip_lines(r); peek(r, 0) != ']'; skip_lines(r)) {
        kvs_status st;

        if (!is_one_of(peek(r, 0), "+-0123456789"))
            return fail_expected(r, "a number or ]", err);
        if (text->length > 0)
            kvsi_text_add(text, ",");
        st = read_number(r, text, &kind, err);
        if (st != KVS_OK)
            return st;
        skip_lines(r);
        if (peek(r, 0) != ',' && peek(r, 0) != ']')
            return fail_expected(r, ", or ]", err);
        r->at += peek(r, 0) == ',';
    }
    r->at++;
    return KVS_OK;
}

/* ---- lines ---- */

static int skip_word(kvsi_config_reader *r, const char *word)
{
    const size_t length = strlen(word);

    if ((size_t)(r->end - r->at) < length || strncmp(r->at, word, length) != 0 ||
        is_one_of(peek(r, length), name_letters))
        return 0;
    r->at += length;
    return 1;
}

static kvs_status read_value(kvsi_config_reader *r, kvsi_text *text, kvsi_config_kind *kind,
                             kvs_err *err)
{
    kvsi_text_add(text, "");
    if (peek(r, 0) == '"' || peek(r, 0) == '\'') {
        *kind = KVSI_CONFIG_TEXT;
        return read_string(r, text, err);
    }
    if (peek(r, 0) == '[') {
        *kind = KVSI_CONFIG_NUMBERS;
        return read_array(r, text, err);
    }
    *kind = KVSI_CONFIG_BOOLEAN;
    if (skip_word(r, "true"))
        kvsi_text_add(text, "true");
    else if (skip_word(r, "false"))
        kvsi_text_add(text, "false");
    else
        return read_number(r, text, kind, err);
    return KVS_OK;
}

static kvs_status read_section(kvsi_config_reader *r, kvsi_text *section, kvs_err *err)
{
    kvsi_config_entry setting = {.path = r->path, .line = r->line};

    r->at++;
    skip_blanks(r);
    TRY(read_name(r, section, "the name of a section", err));
    skip_blanks(r);
    if (peek(r, 0) != ']')
        return fail_expected(r, "]", err);
    r->at++;
    setting.section = section->data;
    return r->take(r->user, &setting, err);
}

static kvs_status read_setting(kvsi_config_reader *r, const char *section, kvs_err *err)
{
    kvsi_config_entry setting = {.path = r->path, .section = section, .line = r->line};
    kvsi_text key = {0}, value = {0};
    kvs_status st;

    TRY_OUT(read_name(r, &key, "a key, a [section] or a # comment", err));
    skip_blanks(r);
    if (peek(r, 0) != '=') {
        st = fail_expected(r, "=", err);
        goto out;
    }
    r->at++;
    skip_blanks(r);
    TRY_OUT(read_value(r, &value, &setting.kind, err));
    TRY_OUT(kvsi_text_check(&value, err));
    setting.key = key.data;
    setting.value = value.data;
    TRY_OUT(r->take(r->user, &setting, err));
out:
    kvsi_text_release(&key);
    kvsi_text_release(&value);
    return st;
}

kvs_status kvsi_config_read_toml(kvsi_config_reader *r, kvs_err *err)
{
    kvsi_text section = {0};
    kvs_status st = KVS_OK;

    for (skip_lines(r); peek(r, 0); skip_lines(r)) {
        if (peek(r, 0) == '[')
            TRY_OUT(read_section(r, &section, err));
        else
            TRY_OUT(read_setting(r, section.data, err));
        if (!skip_rest_of_line(r)) {
            st = fail_expected(r, "the end of the line", err);
            goto out;
        }
    }
out:
    kvsi_text_release(&section);
    return st;
}
