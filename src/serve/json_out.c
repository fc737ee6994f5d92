#include "serve/json_out.h"

#include "base/utf8.h"

#include <math.h>
#include <string.h>

static void add_character(kvsi_text *out, const char *bytes, size_t size, uint32_t code)
{
    if (code == KVSI_NO_CHARACTER)
        kvsi_text_add(out, "\xef\xbf\xbd");
    else if (code == '"' || code == '\\')
        kvsi_text_format(out, "\\%c", (char)code);
    else if (code < ' ' || code == 0x7f)
        kvsi_text_format(out, "\\u%04x", (unsigned)code);
    else
        kvsi_text_add_bytes(out, bytes, size);
}

void kvsi_json_add_string(kvsi_text *out, const char *bytes, size_t size)
{
    kvsi_text_add(out, "\"");
    for (size_t at = 0; at < size;) {
        uint32_t code;
        const size_t length = kvsi_utf8_next(bytes + at, size - at, &code);

        add_character(out, bytes + at, length, code);
        at += length;
    }
    kvsi_text_add(out, "\"");
}

void kvsi_json_add_text(kvsi_text *out, const char *text)
{
    if (text)
        kvsi_json_add_string(out, text, strlen(text));
    else
        kvsi_text_add(out, "null");
}

void kvsi_json_add_logprob(kvsi_text *out, double value)
{
    if (isfinite(value))
        kvsi_text_format(out, "%.17g", value);
    else
        kvsi_text_add(out, "-9999.0");
}

void kvsi_json_add_ids(kvsi_text *out, const int32_t *ids, size_t count)
{
    kvsi_text_add(out, "[");
    for (size_t i = 0; i < count; i++)
        kvsi_text_format(out, i > 0 ? ",%d" : "%d", (int)ids[i]);
    kvsi_text_add(out, "]");
}
