/* Ids back to text.  What are lost characters elsewhere stays as it is here: bytes that are not
 * UTF-8 come back as those bytes. */
#include "base/memory.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/utf8.h"

#include <string.h>

/* Pieces of text, one behind the other. */
typedef struct pieces {
    kvsi_text bytes;
    size_t *ends;
    size_t count, capacity;
} pieces;

static kvs_status end_piece(pieces *p, kvs_err *err)
{
    const kvs_status st =
        kvsi_array_reserve(&p->ends, &p->capacity, p->count + 1, sizeof *p->ends, err);

    if (st == KVS_OK)
        p->ends[p->count++] = p->bytes.length;
    return st;
}

static void release(pieces *p)
{
    kvsi_text_release(&p->bytes);
    kvsi_free(p->ends);
}

/* ---- steps: one piece -> one piece ----------------------------------------------------------- */

/* A piece with a character that stands for no byte is an added token, and is text already. */
static void decode_byte_level(kvsi_text *out, const char *text, size_t size)
{
    const size_t start = out->length;

    for (size_t at = 0; at < size;) {
        uint32_t code;
        int byte;
        char character;

        at += kvsi_utf8_next(text + at, size - at, &code);
        byte = kvsi_character_byte(code);
        if (byte < 0) {
            out->length = start;
            kvsi_text_add_bytes(out, text, size);
            return;
        }
        character = (char)byte;
        kvsi_text_add_bytes(out, &character, 1);
    }
}

int kvsi_byte_piece(const char *text, size_t size)
{
    static const char digits[] = "0123456789ABCDEF";
    const char *high, *low;

    if (size != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>' || !text[3] || !text[4])
        return -1;
    high = strchr(digits, text[3]);
    low = strchr(digits, text[4]);
    return high && low ? (int)(16 * (high - digits) + (low - digits)) : -1;
}

static void decode_byte_fallback(kvsi_text *out, const char *text, size_t size)
{
    const int byte = kvsi_byte_piece(text, size);
    const char character = (char)byte;

    kvsi_text_add_bytes(out, byte < 0 ? text : &character, byte < 0 ? size : 1);
}

static int starts_with(const char *text, size_t size, const kvsi_component *c)
{
    return size >= c->content_size && memcmp(text, c->content, c->content_size) == 0;
}

/* In the very first piece the replacement was put there by encoding, not by the text. */
static void decode_metaspace(const kvsi_component *c, kvsi_text *out, const char *text, size_t size,
                             int first)
{
    while (size > 0) {
        const int is_space = starts_with(text, size, c);
        const size_t length = is_space ? c->content_size : 1;

        if (!is_space)
            kvsi_text_add_bytes(out, text, 1);
        else if (!first || c->prefix == KVSI_PREFIX_NEVER)
            kvsi_text_add(out, " ");
        text += length;
        size -= length;
    }
}

static void decode_strip(const kvsi_component *c, kvsi_text *out, const char *text, size_t size)
{
    for (size_t i = 0; i < c->start && starts_with(text, size, c); i++) {
        text += c->content_size;
        size -= c->content_size;
    }
    for (size_t i = 0; i < c->stop && size >= c->content_size &&
                       starts_with(text + size - c->content_size, c->content_size, c);
         i++)
        size -= c->content_size;
    kvsi_text_add_bytes(out, text, size);
}

static kvs_status decode_piece(const kvsi_component *c, kvsi_text *out, const char *text,
                               size_t size, int first, kvs_err *err)
{
    const kvsi_components alone = {.list = (kvsi_component *)c, .count = 1};

    switch (c->kind) {
    case KVSI_BYTE_LEVEL:
        decode_byte_level(out, text, size);
        return KVS_OK;
    case KVSI_BYTE_FALLBACK:
        decode_byte_fallback(out, text, size);
        return KVS_OK;
    case KVSI_METASPACE:
        decode_metaspace(c, out, text, size, first);
        return KVS_OK;
    case KVSI_STRIP:
        decode_strip(c, out, text, size);
        return KVS_OK;
    default: /* replacing is as in normalizing */
        return kvsi_normalize(&alone, out, text, size, err);
    }
}

/* ---- all of it ------------------------------------------------------------------------------- */

static kvs_status run_step(const kvsi_component *c, pieces *p, kvs_err *err)
{
    pieces next = {0};
    kvs_status st = KVS_OK;

    if (c->kind == KVSI_FUSE) {
        p->count = p->count > 0;
        if (p->count)
            p->ends[0] = p->bytes.length;
        return KVS_OK;
    }
    kvsi_text_add(&next.bytes, "");
    for (size_t i = 0, start = 0; i < p->count; start = p->ends[i++]) {
        KVS_TRY(
            decode_piece(c, &next.bytes, p->bytes.data + start, p->ends[i] - start, i == 0, err));
        KVS_TRY(end_piece(&next, err));
    }
    KVS_TRY(kvsi_text_check(&next.bytes, err));
    release(p);
    *p = next;
    next = (pieces){0};
out:
    release(&next);
    return st;
}

/* Without a decoder, pieces are words. */
static kvs_status add_pieces(const kvs_tokenizer *t, pieces *p, const int32_t *ids, size_t count,
                             kvs_err *err)
{
    kvs_status st = KVS_OK;

    kvsi_text_add(&p->bytes, "");
    for (size_t i = 0; i < count; i++) {
        const kvsi_bytes piece = kvsi_vocabulary_at(&t->vocabulary, (size_t)ids[i]);

        if (ids[i] < 0 || (size_t)ids[i] >= t->vocab || !piece.text)
            return kvsi_fail(err, KVS_E_INVALID, "id %d is not in the vocabulary of %zu tokens",
                             (int)ids[i], t->vocab);
        if (i > 0 && !t->decoders.count)
            kvsi_text_add(&p->bytes, " ");
        kvsi_text_add_bytes(&p->bytes, piece.text, piece.size);
        KVS_TRY(end_piece(p, err));
    }
    st = kvsi_text_check(&p->bytes, err);
out:
    return st;
}

/* What encoding puts around a text is no part of it. */
static void drop_frame(const kvs_tokenizer *t, const int32_t **ids, size_t *count)
{
    const size_t before = t->before.count, after = t->after.count;

    if (before && *count >= before && memcmp(*ids, t->before.ids, before * sizeof **ids) == 0) {
        *ids += before;
        *count -= before;
    }
    if (after && *count >= after &&
        memcmp(*ids + *count - after, t->after.ids, after * sizeof **ids) == 0)
        *count -= after;
}

kvs_status kvs_tokenizer_decode(const kvs_tokenizer *t, const int32_t *ids, size_t count,
                                char **text, size_t *size, kvs_err *err)
{
    pieces p = {0};
    kvs_status st;

    *text = NULL;
    *size = 0;
    drop_frame(t, &ids, &count);
    KVS_TRY(add_pieces(t, &p, ids, count, err));
    for (size_t i = 0; i < t->decoders.count; i++)
        KVS_TRY(run_step(t->decoders.list + i, &p, err));
    *text = p.bytes.data;
    *size = p.bytes.length;
    p.bytes.data = NULL;
out:
    release(&p);
    return st;
}
