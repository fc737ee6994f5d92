/* Text for streaming output: whole characters only, and no part of a stop string. */
#include "base/memory.h"
#include "base/utf8.h"
#include "tokenizer/decode.h"

#include <string.h>

struct kvs_detokenizer {
    kvsi_decoding decoding; /* its text: what was returned last, then what is held back */
    size_t returned;        /* bytes returned */
    size_t searched;        /* bytes in which no stop string ends */
    int stopped;
    char **stops; /* none is empty */
    size_t stop_count;
};

void kvs_detokenizer_free(kvs_detokenizer *d)
{
    if (!d)
        return;
    kvsi_decoding_release(&d->decoding);
    for (size_t i = 0; i < d->stop_count; i++)
        kvsi_free(d->stops[i]);
    kvsi_free(d->stops);
    kvsi_free(d);
}

static kvs_status copy_stops(kvs_detokenizer *d, const char *const *stops, size_t count,
                             kvs_err *err)
{
    d->stops = kvsi_alloc(count, sizeof *d->stops);
    for (size_t i = 0; d->stops && i < count; i++) {
        NEED(stops[i]);
        if (!*stops[i])
            return kvsi_fail(err, KVS_E_INVALID, "stop string %zu is empty", i);
        d->stops[i] = kvsi_strdup(stops[i]);
        if (!d->stops[i])
            break;
        d->stop_count++;
    }
    if (!d->stops || d->stop_count < count)
        return kvsi_no_memory(err, "%zu stop strings", count);
    return KVS_OK;
}

kvs_status kvs_detokenizer_create(kvs_detokenizer **out, const kvs_tokenizer *tokenizer,
                                  const char *const *stops, size_t stop_count, kvs_err *err)
{
    kvs_detokenizer *d;
    kvs_status st;

    NEED(out);
    *out = NULL;
    NEED(tokenizer);
    NEED_ARRAY(stops, stop_count);
    d = kvsi_alloc(1, sizeof *d);
    if (!d)
        return kvsi_no_memory(err, "a detokenizer");
    kvsi_decoding_init(&d->decoding, tokenizer);
    TRY_OUT(copy_stops(d, stops, stop_count, err));
    *out = d;
    d = NULL;
out:
    kvs_detokenizer_free(d);
    return st;
}

int kvs_detokenizer_stopped(const kvs_detokenizer *d)
{
    return d ? d->stopped : 0;
}

/* ---- stop strings ---------------------------------------------------------------------------- */

/* The size of the longest stop string that ends at text[end], or 0.  Held-back text includes the
 * start of every stop string in progress, so none can begin before it. */
static size_t stop_ending_at(const kvs_detokenizer *d, const char *text, size_t end)
{
    size_t longest = 0;

    for (size_t i = 0; i < d->stop_count; i++) {
        const size_t size = strlen(d->stops[i]);

        if (size > longest && size <= end && memcmp(text + end - size, d->stops[i], size) == 0)
            longest = size;
    }
    return longest;
}

/* The number of bytes at the end of the text that may be the start of a stop string. */
static size_t partial_stop(const kvs_detokenizer *d, const char *text, size_t size)
{
    size_t longest = 0;

    for (size_t i = 0; i < d->stop_count; i++) {
        const size_t whole = strlen(d->stops[i]);

        for (size_t part = whole - 1 < size ? whole - 1 : size; part > longest; part--)
            if (memcmp(text + size - part, d->stops[i], part) == 0)
                longest = part;
    }
    return longest;
}

/* Byte by byte, so that the result does not depend on token boundaries. */
static void search(kvs_detokenizer *d)
{
    kvsi_text *text = &d->decoding.text;

    while (!d->stopped && d->searched < text->length) {
        const size_t stop = stop_ending_at(d, text->data, ++d->searched);

        if (stop > 0) {
            d->stopped = 1;
            text->length = d->searched - stop;
        }
    }
}

/* ---- returning text -------------------------------------------------------------------------- */

static void drop_returned(kvs_detokenizer *d)
{
    kvsi_text *text = &d->decoding.text;

    text->length = d->stopped ? 0 : text->length - d->returned;
    if (text->length > 0)
        memmove(text->data, text->data + d->returned, text->length);
    d->searched = text->length;
    d->returned = 0;
}

static void return_text(kvs_detokenizer *d, size_t size, const char **text, size_t *out_size)
{
    d->returned = size;
    *text = d->decoding.text.data;
    *out_size = size;
}

kvs_status kvs_detokenizer_skip(kvs_detokenizer *d, const int32_t *ids, size_t count, kvs_err *err)
{
    kvsi_text *text;

    NEED_AS(d, detokenizer);
    NEED_ARRAY(ids, count);
    text = &d->decoding.text;
    TRY(kvsi_decoding_add(&d->decoding, ids, count, err));
    TRY(kvsi_decoding_flush(&d->decoding, err));
    d->returned = kvsi_utf8_complete(text->data, text->length);
    drop_returned(d);
    return KVS_OK;
}

kvs_status kvs_detokenizer_add(const char **text, size_t *size, kvs_detokenizer *d,
                               const int32_t *ids, size_t count, kvs_err *err)
{
    const kvsi_text *all;
    size_t shown;

    NEED(text);
    *text = NULL;
    NEED(size);
    *size = 0;
    NEED_AS(d, detokenizer);
    NEED_ARRAY(ids, count);
    all = &d->decoding.text;
    drop_returned(d);
    if (!d->stopped)
        TRY(kvsi_decoding_add(&d->decoding, ids, count, err));
    search(d);
    shown = all->length;
    if (!d->stopped)
        shown = kvsi_utf8_complete(all->data, shown - partial_stop(d, all->data, shown));
    return_text(d, shown, text, size);
    return KVS_OK;
}

kvs_status kvs_detokenizer_finish(const char **text, size_t *size, kvs_detokenizer *d, kvs_err *err)
{
    NEED(text);
    *text = NULL;
    NEED(size);
    *size = 0;
    NEED_AS(d, detokenizer);
    drop_returned(d);
    if (!d->stopped)
        TRY(kvsi_decoding_finish(&d->decoding, err));
    search(d);
    return_text(d, d->decoding.text.length, text, size);
    return KVS_OK;
}

void kvs_detokenizer_reset(kvs_detokenizer *d)
{
    if (!d)
        return;
    kvsi_decoding_reset(&d->decoding);
    d->returned = d->searched = 0;
    d->stopped = 0;
}
