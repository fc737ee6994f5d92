#include "eval/rewrite.h"

#include <string.h>

void kvsi_rewrite_start(kvsi_rewrite *r, const char *text, size_t size)
{
    r->text.length = 0;
    kvsi_text_add_bytes(&r->text, text, size);
}

void kvsi_rewrite_release(kvsi_rewrite *r)
{
    kvsi_text_release(&r->text);
    kvsi_text_release(&r->spare);
}

int kvsi_rewrite_begin(kvsi_rewrite *r)
{
    r->spare.length = 0;
    kvsi_text_add(&r->spare, ""); /* NUL-terminated even if empty */
    r->text.failed |= r->spare.failed;
    return !r->text.failed;
}

void kvsi_rewrite_end(kvsi_rewrite *r)
{
    const kvsi_text text = r->text;

    r->text = r->spare;
    r->spare = text;
}

void kvsi_replace(kvsi_rewrite *r, const char *from, const char *to)
{
    const size_t size = strlen(from);
    const char *rest, *found;

    if (!kvsi_rewrite_begin(r) || !(found = strstr(r->text.data, from)))
        return;
    for (rest = r->text.data; found; rest = found + size, found = strstr(rest, from)) {
        kvsi_text_add_bytes(&r->spare, rest, (size_t)(found - rest));
        kvsi_text_add(&r->spare, to);
    }
    kvsi_text_add(&r->spare, rest);
    kvsi_rewrite_end(r);
}

void kvsi_keep(kvsi_rewrite *r, size_t start, size_t size)
{
    if (!kvsi_rewrite_begin(r))
        return;
    kvsi_text_add_bytes(&r->spare, r->text.data + start, size);
    kvsi_rewrite_end(r);
}
