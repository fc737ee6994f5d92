#include "base/utf8.h"

#include <string.h>

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
    static const unsigned char lead[] = {0, 0xc0, 0xe0, 0xf0};
    const size_t more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;

    if (code > 0x10ffff)
        return 0;
    out[0] = (char)(lead[more] | code >> (6 * more));
    for (size_t i = 1; i <= more; i++)
        out[i] = (char)(0x80 | (code >> (6 * (more - i)) & 0x3f));
    return more + 1;
}
