#include "tokenizer/characters.h"

#include "base/utf8.h"

#include <utf8proc.h>

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

int kvsi_is_python_space(uint32_t code)
{
    return kvsi_is_space(code) || (code >= 0x1c && code <= 0x1f);
}

int kvsi_is_printable(uint32_t code)
{
    switch (category(code)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return 0;
    case UTF8PROC_CATEGORY_ZS:
        return code == ' ';
    default:
        return 1;
    }
}

uint32_t kvsi_to_lower(uint32_t code)
{
    return code == KVSI_NO_CHARACTER ? code : (uint32_t)utf8proc_tolower((utf8proc_int32_t)code);
}

uint32_t kvsi_to_title(uint32_t code)
{
    return code == KVSI_NO_CHARACTER ? code : (uint32_t)utf8proc_totitle((utf8proc_int32_t)code);
}

int kvsi_is_cased(uint32_t code)
{
    const utf8proc_category_t kind = category(code);

    return kind == UTF8PROC_CATEGORY_LU || kind == UTF8PROC_CATEGORY_LL ||
           kind == UTF8PROC_CATEGORY_LT || kvsi_to_lower(code) != code ||
           kvsi_to_title(code) != code;
}

int kvsi_is_case_ignorable(uint32_t code)
{
    static const uint32_t within_words[] = {'\'', '.', ':', 0xb7, 0x2018, 0x2019, 0x2024, 0x2027};

    for (size_t i = 0; i < sizeof within_words / sizeof *within_words; i++)
        if (code == within_words[i])
            return 1;
    switch (category(code)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
        return 1;
    default:
        return 0;
    }
}

int kvsi_is_letter(uint32_t code)
{
    const utf8proc_category_t kind = category(code);

    return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}

int kvsi_is_numeric(uint32_t code)
{
    const utf8proc_category_t kind = category(code);

    return kind == UTF8PROC_CATEGORY_ND || kind == UTF8PROC_CATEGORY_NL ||
           kind == UTF8PROC_CATEGORY_NO;
}

int kvsi_is_decimal(uint32_t code)
{
    return category(code) == UTF8PROC_CATEGORY_ND;
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

/* Printable Latin-1 bytes represent themselves; the others are mapped to U+0100 and above. */
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
