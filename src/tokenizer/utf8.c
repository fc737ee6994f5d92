#include "tokenizer/utf8.h"

#include <string.h>
#include <utf8proc.h>

/* ---- characters ------------------------------------------------------------------------------ */

static size_t expected_length(unsigned char first)
{
    return first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

size_t kvsi_utf8_next(const char *text, size_t size, uint32_t *code)
{
    const unsigned char first = (unsigned char)*text;
    const size_t length = expected_length(first);
    uint32_t value;

    *code = KVSI_NO_CHARACTER;
    if (length == 1) {
        *code = first;
        return 1;
    }
    if (length == 0 || length > size || first > 0xf4)
        return 1;
    value = first & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        const unsigned char byte = (unsigned char)text[i];

        if ((byte & 0xc0) != 0x80)
            return 1;
        value = value << 6 | (byte & 0x3fu);
    }
    if ((length == 3 && value < 0x800) || (length == 4 && value < 0x10000) || value > 0x10ffff ||
        (value >= 0xd800 && value < 0xe000))
        return 1;
    *code = value;
    return length;
}

size_t kvsi_utf8_last(const char *text, size_t size, uint32_t *code)
{
    for (size_t length = 1; length <= 4 && length <= size; length++)
        if (kvsi_utf8_next(text + size - length, length, code) == length &&
            *code != KVSI_NO_CHARACTER)
            return length;
    *code = KVSI_NO_CHARACTER;
    return 1;
}

size_t kvsi_utf8_valid(const char *text, size_t size)
{
    size_t at = 0;

    while (at < size) {
        uint64_t eight;
        uint32_t code;
        size_t length;

        if (at + 8 <= size) {
            memcpy(&eight, text + at, 8);
            if (!(eight & UINT64_C(0x8080808080808080))) {
                at += 8;
                continue;
            }
        }
        length = kvsi_utf8_next(text + at, size - at, &code);
        if (code == KVSI_NO_CHARACTER)
            return at;
        at += length;
    }
    return at;
}

size_t kvsi_utf8_complete(const char *text, size_t size)
{
    for (size_t back = 1; back <= 3 && back <= size; back++) {
        const unsigned char byte = (unsigned char)text[size - back];

        if ((byte & 0xc0) != 0x80)
            return byte <= 0xf4 && expected_length(byte) > back ? size - back : size;
    }
    return size;
}

size_t kvsi_utf8_put(char out[4], uint32_t code)
{
    return (size_t)utf8proc_encode_char((utf8proc_int32_t)code, (utf8proc_uint8_t *)out);
}

/* ---- classes --------------------------------------------------------------------------------- */

static utf8proc_category_t category(uint32_t code)
{
    return code == KVSI_NO_CHARACTER ? UTF8PROC_CATEGORY_CN
                                     : utf8proc_category((utf8proc_int32_t)code);
}

int kvsi_is_space(uint32_t code)
{
    switch (category(code)) {
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return 1;
    default:
        return (code >= '\t' && code <= '\r') || code == 0x85;
    }
}

int kvsi_is_numeric(uint32_t code)
{
    const utf8proc_category_t kind = category(code);

    return kind == UTF8PROC_CATEGORY_ND || kind == UTF8PROC_CATEGORY_NL ||
           kind == UTF8PROC_CATEGORY_NO;
}

int kvsi_is_punctuation(uint32_t code)
{
    const utf8proc_category_t kind = category(code);

    if (code < 0x80)
        return code > ' ' && code != 0x7f && kind != UTF8PROC_CATEGORY_ND &&
               kind != UTF8PROC_CATEGORY_LU && kind != UTF8PROC_CATEGORY_LL;
    return kind >= UTF8PROC_CATEGORY_PC && kind <= UTF8PROC_CATEGORY_PO;
}

int kvsi_is_word(uint32_t code)
{
    const utf8proc_category_t kind = category(code);

    return (kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_NL) ||
           kind == UTF8PROC_CATEGORY_PC;
}

/* ---- characters for bytes -------------------------------------------------------------------- */

/* Printable in Latin-1: these stand for themselves, the others follow from U+0100 on. */
static int is_plain(unsigned byte)
{
    return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

uint32_t kvsi_byte_character(unsigned char byte)
{
    if (is_plain(byte))
        return byte;
    if (byte <= 0x20)
        return 0x100u + byte;
    return byte == 0xad ? 0x143 : 0x121u + (byte - 0x7fu);
}

int kvsi_character_byte(uint32_t code)
{
    if (code < 0x100)
        return is_plain(code) ? (int)code : -1;
    if (code <= 0x120)
        return (int)(code - 0x100);
    if (code <= 0x142)
        return (int)(code - 0x121 + 0x7f);
    return code == 0x143 ? 0xad : -1;
}

void kvsi_byte_order(unsigned char order[256])
{
    size_t at = 0;

    for (int plain = 1; plain >= 0; plain--)
        for (unsigned byte = 0; byte < 256; byte++)
            if (is_plain(byte) == plain)
                order[at++] = (unsigned char)byte;
}
