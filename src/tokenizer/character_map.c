#include "tokenizer/character_map.h"

#include "base/utf8.h"

#include <string.h>

/* ---- the trie -------------------------------------------------------------------------------- */

static uint32_t little_endian(const char *data)
{
    const unsigned char *b = (const unsigned char *)data;

    return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

/* Bit fields of a unit of the double-array trie. */
static uint32_t offset_of(uint32_t unit)
{
    return (unit >> 10) << ((unit & 0x200) >> 6);
}

static uint32_t label_of(uint32_t unit)
{
    return unit & 0x800000ff;
}

static int has_value(uint32_t unit)
{
    return unit >> 8 & 1;
}

/* The size of the longest key at the start of the text (0 = none), and the offset of its
 * replacement. */
static size_t match(const char *map, const char *text, size_t size, size_t *replacement)
{
    const size_t units = little_endian(map) / 4;
    const char *trie = map + 4;
    uint32_t at = offset_of(little_endian(trie));
    size_t longest = 0;

    for (size_t i = 0; i < size; i++) {
        const unsigned char byte = (unsigned char)text[i];
        uint32_t unit;

        at ^= byte;
        if (at >= units)
            break;
        unit = little_endian(trie + 4 * (size_t)at);
        if (label_of(unit) != byte)
            break;
        at ^= offset_of(unit);
        if (at >= units)
            break;
        if (has_value(unit)) {
            longest = i + 1;
            *replacement = little_endian(trie + 4 * (size_t)at) & 0x7fffffff;
        }
    }
    return longest;
}

kvs_status kvsi_character_map_check(const char *map, size_t size, kvs_err *err)
{
    const uint32_t trie = size >= 8 ? little_endian(map) : 0;

    if (trie < 4 || trie % 4 != 0 || trie > size - 4 || (size > 4 + trie && map[size - 1] != '\0'))
        return kvsi_fail(err, KVS_E_FORMAT, "the tokenizer's character map is damaged");
    return KVS_OK;
}

void kvsi_character_map_apply(const char *map, size_t map_size, const kvsi_trie *keep,
                              kvsi_text *out, const char *text, size_t size)
{
    const char *texts = map + 4 + little_endian(map);
    const size_t texts_size = map_size - 4 - little_endian(map);

    while (size > 0) {
        size_t length = 0, replacement = 0;
        int32_t kept;
        uint32_t code;

        if (keep)
            length = kvsi_trie_match(keep, text, size, &kept);
        if (length > 0) {
            kvsi_text_add_bytes(out, text, length);
        } else if ((length = match(map, text, size, &replacement)) > 0) {
            if (replacement < texts_size)
                kvsi_text_add(out, texts + replacement);
        } else {
            length = kvsi_utf8_next(text, size, &code);
            kvsi_text_add_bytes(out, text, length);
        }
        text += length;
        size -= length;
    }
}

/* ---- base64 ---------------------------------------------------------------------------------- */

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void kvsi_base64_encode(kvsi_text *out, const char *data, size_t size)
{
    for (size_t i = 0; i < size; i += 3) {
        const size_t count = size - i < 3 ? size - i : 3;
        uint32_t bits = 0;
        char four[4];

        for (size_t k = 0; k < 3; k++)
            bits = bits << 8 | (k < count ? (unsigned char)data[i + k] : 0u);
        for (size_t k = 0; k < 4; k++)
            four[k] = k <= count ? digits[bits >> (18 - 6 * k) & 63] : '=';
        kvsi_text_add_bytes(out, four, 4);
    }
}

int kvsi_base64_decode(kvsi_text *out, const char *text)
{
    const size_t length = strlen(text), used = strspn(text, digits);

    if (length % 4 != 0 || length - used > 2 || strspn(text + used, "=") != length - used)
        return 0;
    kvsi_text_add(out, "");
    for (size_t i = 0; i < length; i += 4) {
        const size_t count = i + 4 <= used ? 4 : used - i;
        uint32_t bits = 0;
        char three[3];

        for (size_t k = 0; k < 4; k++)
            bits = bits << 6 | (k < count ? (uint32_t)(strchr(digits, text[i + k]) - digits) : 0u);
        for (size_t k = 0; k < 3; k++)
            three[k] = (char)(bits >> (16 - 8 * k));
        kvsi_text_add_bytes(out, three, count - 1);
    }
    return 1;
}
