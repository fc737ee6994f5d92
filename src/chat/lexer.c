/* Tokens of a template.  White space follows jinja2's lexer with trim_blocks and lstrip_blocks: the
 * first newline after a block or comment is dropped, and so is white space between the start of a
 * line and a block or comment. */
#include "base/memory.h"
#include "base/utf8.h"
#include "chat/template.h"
#include "tokenizer/characters.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct lexer {
    kvsi_arena *arena;
    kvs_err *err;
    const char *text; /* with \n as the only line end */
    size_t size, at;
    unsigned line;
    kvsi_token *tokens;
    size_t count, capacity;
} lexer;

size_t kvsi_space_at_start(const char *text, size_t size)
{
    uint32_t code;
    const size_t bytes = size > 0 ? kvsi_utf8_next(text, size, &code) : 0;

    return bytes > 0 && kvsi_is_python_space(code) ? bytes : 0;
}

size_t kvsi_space_at_end(const char *text, size_t size)
{
    uint32_t code;
    const size_t bytes = size > 0 ? kvsi_utf8_last(text, size, &code) : 0;

    return bytes > 0 && kvsi_is_python_space(code) ? bytes : 0;
}

static kvs_status no_memory(const lexer *x)
{
    return kvsi_no_memory(x->err, "a chat template");
}

static kvs_status add(lexer *x, kvsi_token_kind kind, const char *text, size_t size)
{
    kvsi_token token = {.kind = kind, .line = x->line, .size = size};

    token.text = kvsi_arena_copy(x->arena, text, size);
    if (!token.text)
        return no_memory(x);
    if (x->count == x->capacity) {
        const size_t capacity = x->capacity ? 2 * x->capacity : 64;
        kvsi_token *larger = kvsi_arena_alloc(x->arena, capacity, sizeof *larger);

        if (!larger)
            return no_memory(x);
        if (x->count > 0)
            memcpy(larger, x->tokens, x->count * sizeof *larger);
        x->tokens = larger;
        x->capacity = capacity;
    }
    x->tokens[x->count++] = token;
    return KVS_OK;
}

static int starts(const lexer *x, const char *word)
{
    const size_t size = strlen(word);

    return x->size - x->at >= size && memcmp(x->text + x->at, word, size) == 0;
}

static void advance(lexer *x, size_t size)
{
    for (size_t i = 0; i < size; i++)
        x->line += x->text[x->at + i] == '\n';
    x->at += size;
}

static void skip_space(lexer *x)
{
    size_t size;

    while ((size = kvsi_space_at_start(x->text + x->at, x->size - x->at)) > 0)
        advance(x, size);
}

/* ---- strings and numbers --------------------------------------------------------------------- */

static int hex_digits(uint32_t *code, const char *text, size_t size, size_t digits)
{
    *code = 0;
    if (size < digits)
        return 0;
    for (size_t i = 0; i < digits; i++) {
        const char *found = text[i] ? strchr("0123456789abcdefABCDEF", text[i]) : NULL;
        const long digit = found ? found - "0123456789abcdefABCDEF" : 0;

        if (!found)
            return 0;
        *code = *code * 16 + (uint32_t)(digit < 16 ? digit : digit - 6);
    }
    return 1;
}

/* Python's escapes; an unknown one stays as it is. */
static kvs_status unescape(lexer *x, kvsi_text *out, const char *text, size_t size)
{
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";

    for (size_t i = 0; i < size; i++) {
        const char *found;
        char bytes[4];
        uint32_t code;
        size_t digits;

        if (text[i] != '\\') {
            kvsi_text_add_bytes(out, text + i, 1);
            continue;
        }
        i++; /* the end of the text is never a single backslash */
        if (text[i] == '\n')
            continue;
        found = text[i] ? strchr(from, text[i]) : NULL;
        if (found) {
            kvsi_text_add_bytes(out, to + (found - from), 1);
            continue;
        }
        digits = text[i] == 'x' ? 2 : text[i] == 'u' ? 4 : text[i] == 'U' ? 8 : 0;
        if (digits > 0) {
            if (!hex_digits(&code, text + i + 1, size - i - 1, digits) ||
                (code >= 0xd800 && code <= 0xdfff) || code > 0x10ffff)
                return kvsi_fail(x->err, KVS_E_FORMAT, "line %u: '\\%c' needs a valid character",
                                 x->line, text[i]);
            kvsi_text_add_bytes(out, bytes, kvsi_utf8_put(bytes, code));
            i += digits;
            continue;
        }
        if ((text[i] >= '0' && text[i] <= '7') || text[i] == 'N')
            return kvsi_fail(x->err, KVS_E_UNSUPPORTED, "line %u: escape '\\%c' is not supported",
                             x->line, text[i]);
        kvsi_text_add_bytes(out, "\\", 1);
        kvsi_text_add_bytes(out, text + i, 1);
    }
    return kvsi_text_check(out, x->err);
}

static kvs_status take_string(lexer *x)
{
    const char quote = x->text[x->at];
    kvsi_text text = {0};
    size_t end = x->at + 1;
    kvs_status st;

    while (end < x->size && x->text[end] != quote)
        end += x->text[end] == '\\' && end + 1 < x->size ? 2 : 1;
    if (end >= x->size)
        return kvsi_fail(x->err, KVS_E_FORMAT, "line %u: a string does not end", x->line);
    kvsi_text_add(&text, "");
    TRY_OUT(unescape(x, &text, x->text + x->at + 1, end - x->at - 1));
    TRY_OUT(add(x, KVSI_TOKEN_STRING, text.data, text.length));
    advance(x, end + 1 - x->at);
out:
    kvsi_text_release(&text);
    return st;
}

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static kvs_status take_number(lexer *x)
{
    const char *start = x->text + x->at;
    const size_t left = x->size - x->at;
    size_t size = 0;
    int is_real = 0;
    char *end;

    while (size < left && is_digit(start[size]))
        size++;
    if (size + 1 < left && start[size] == '.' && is_digit(start[size + 1]) &&
        (x->at == 0 || start[-1] != '.')) {
        is_real = 1;
        size++;
        while (size < left && is_digit(start[size]))
            size++;
    }
    if ((size < left &&
         (start[size] == '_' || (start[size] | 32) == 'e' || (start[size] | 32) == 'x' ||
          (start[size] | 32) == 'o' || (start[size] | 32) == 'b')) ||
        (!is_real && size > 1 && start[0] == '0') || size > 300)
        return kvsi_fail(x->err, KVS_E_UNSUPPORTED, "line %u: number '%.*s' is not supported",
                         x->line, (int)(size < 20 ? size + 1 : 20), start);
    TRY(add(x, is_real ? KVSI_TOKEN_REAL : KVSI_TOKEN_WHOLE, start, size));

    kvsi_token *token = &x->tokens[x->count - 1];

    errno = 0;
    token->real = strtod(token->text, &end);
    token->whole = is_real ? 0 : strtoll(token->text, &end, 10);
    if (errno)
        return kvsi_fail(x->err, KVS_E_LIMIT, "line %u: number '%.40s' is too large", x->line,
                         token->text);
    advance(x, size);
    return KVS_OK;
}

/* ---- tags ------------------------------------------------------------------------------------ */

static int is_name_character(char c, int first)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (!first && is_digit(c));
}

/* The end of a tag: "-%}" with the white space after it, "+%}", or "%}" with one newline; the end
 * of an output keeps the newline. */
static int take_end(lexer *x, const char *end, int trims)
{
    const char sign = x->text[x->at];
    const int has_sign = sign == '-' || (trims && sign == '+');

    if (has_sign && !(x->size - x->at > 2 && memcmp(x->text + x->at + 1, end, 2) == 0))
        return 0;
    if (!has_sign && !starts(x, end))
        return 0;
    advance(x, has_sign ? 3 : 2);
    if (has_sign && sign == '-')
        skip_space(x);
    else if (trims && !has_sign && x->at < x->size && x->text[x->at] == '\n')
        advance(x, 1);
    return 1;
}

static kvs_status take_sign(lexer *x, char *brackets, size_t *depth)
{
    static const char *const signs[] = {"//", "**", "==", "!=", ">=", "<=", ">", "<", "=",
                                        "+",  "-",  "/",  "*",  "%",  "~",  "[", "]", "(",
                                        ")",  "{",  "}",  ".",  ":",  "|",  ",", ";"};

    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        const char c = signs[i][0];

        if (!starts(x, signs[i]))
            continue;
        if (strchr("([{", c)) {
            if (*depth == KVSI_CHAT_DEPTH)
                return kvsi_fail(x->err, KVS_E_LIMIT, "line %u: more than %d nested brackets",
                                 x->line, KVSI_CHAT_DEPTH);
            brackets[(*depth)++] = c == '(' ? ')' : c == '[' ? ']' : '}';
        } else if (strchr(")]}", c)) {
            if (*depth == 0 || brackets[--*depth] != c)
                return kvsi_fail(x->err, KVS_E_FORMAT, "line %u: unexpected '%c'", x->line, c);
        }
        TRY(add(x, KVSI_TOKEN_SIGN, signs[i], strlen(signs[i])));
        advance(x, strlen(signs[i]));
        return KVS_OK;
    }
    return kvsi_fail(x->err, KVS_E_FORMAT, "line %u: unexpected character '%.*s'", x->line,
                     (int)kvsi_utf8_next(x->text + x->at, x->size - x->at, &(uint32_t){0}),
                     x->text + x->at);
}

/* The inside of a tag, up to and with its end. */
static kvs_status take_tag(lexer *x, int is_block)
{
    char brackets[KVSI_CHAT_DEPTH];
    size_t depth = 0;

    for (;;) {
        const unsigned line = x->line;

        skip_space(x);
        if (x->at == x->size)
            return kvsi_fail(x->err, KVS_E_FORMAT, "line %u: a tag does not end", line);
        if (depth == 0 && take_end(x, is_block ? "%}" : "}}", is_block))
            return add(x, is_block ? KVSI_TOKEN_BLOCK_END : KVSI_TOKEN_OUTPUT_END, "", 0);
        const char c = x->text[x->at];

        if (c == '"' || c == '\'') {
            TRY(take_string(x));
        } else if (is_digit(c)) {
            TRY(take_number(x));
        } else if (is_name_character(c, 1)) {
            size_t size = 1;

            while (x->at + size < x->size && is_name_character(x->text[x->at + size], 0))
                size++;
            TRY(add(x, KVSI_TOKEN_NAME, x->text + x->at, size));
            advance(x, size);
        } else {
            TRY(take_sign(x, brackets, &depth));
        }
    }
}

/* The text before a tag without the white space that the tag removes. */
static size_t trimmed(const lexer *x, size_t first, size_t end, char sign, int is_output,
                      int at_line_start)
{
    size_t line = end, size;

    if (sign == '-') {
        while (end > first && (size = kvsi_space_at_end(x->text + first, end - first)) > 0)
            end -= size;
        return end;
    }
    if (sign == '+' || is_output)
        return end;
    while (line > first && x->text[line - 1] != '\n')
        line--;
    if (line == first && !at_line_start)
        return end;
    size = line;
    while (size < end) {
        const size_t space = kvsi_space_at_start(x->text + size, end - size);

        if (space == 0)
            return end;
        size += space;
    }
    return line;
}

static kvs_status take_comment(lexer *x)
{
    const unsigned line = x->line;

    for (; x->at < x->size; advance(x, 1))
        if (take_end(x, "#}", 1))
            return KVS_OK;
    return kvsi_fail(x->err, KVS_E_FORMAT, "line %u: a comment does not end", line);
}

static kvs_status take_all(lexer *x)
{
    int at_line_start = 1;

    while (x->at < x->size) {
        const size_t first = x->at;
        const unsigned line = x->line;
        size_t end = first;
        char kind, sign;

        while (end + 1 < x->size &&
               !(x->text[end] == '{' && strchr("%{#", x->text[end + 1]) && x->text[end + 1]))
            end++;
        if (end + 1 >= x->size)
            return add(x, KVSI_TOKEN_DATA, x->text + first, x->size - first);
        kind = x->text[end + 1];
        sign = end + 2 < x->size ? x->text[end + 2] : '\0';
        sign = sign == '-' || sign == '+' ? sign : '\0';

        const size_t kept = trimmed(x, first, end, sign, kind == '{', at_line_start);

        if (kept > first)
            TRY(add(x, KVSI_TOKEN_DATA, x->text + first, kept - first));
        x->line = line;
        advance(x, end + (sign ? 3 : 2) - first);
        if (kind == '#') {
            TRY(take_comment(x));
        } else {
            TRY(add(x, kind == '%' ? KVSI_TOKEN_BLOCK_BEGIN : KVSI_TOKEN_OUTPUT_BEGIN, "", 0));
            TRY(take_tag(x, kind == '%'));
        }
        at_line_start = x->at > 0 && x->text[x->at - 1] == '\n';
    }
    return KVS_OK;
}

/* Makes every line end \n and drops one at the end. */
static char *one_line_end(kvsi_arena *arena, const char *text, size_t *size)
{
    char *out = kvsi_arena_alloc(arena, *size + 1, 1);
    size_t count = 0;

    for (size_t i = 0; out && i < *size; i++) {
        if (text[i] == '\r' && i + 1 < *size && text[i + 1] == '\n')
            continue;
        out[count++] = text[i] == '\r' ? '\n' : text[i];
    }
    if (out && count > 0 && out[count - 1] == '\n')
        count--;
    *size = count;
    return out;
}

kvs_status kvsi_template_tokens(kvsi_token **out, kvsi_arena *arena, const char *text, size_t size,
                                kvs_err *err)
{
    lexer x = {.arena = arena, .err = err, .line = 1};

    x.text = one_line_end(arena, text, &size);
    x.size = size;
    if (!x.text)
        return no_memory(&x);
    TRY(take_all(&x));
    TRY(add(&x, KVSI_TOKEN_END, "", 0));
    *out = x.tokens;
    return KVS_OK;
}
