/* Ids to text.  Bytes that are not UTF-8 are decoded to the same bytes, not to U+FFFD. */
#include "tokenizer/decode.h"

#include "base/memory.h"
#include "base/utf8.h"
#include "tokenizer/characters.h"

#include <string.h>

/* ---- decoders of one piece ------------------------------------------------------------------- */

/* A piece with a character that represents no byte is an added token and already text. */
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

/* In the first piece the replacement was added by encoding, so it is dropped. */
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

/* Replaces text as the normalizer Replace does. */
static kvs_status decode_replace(kvsi_decoding *d, const kvsi_component *c, kvsi_text *out,
                                 const char *text, size_t size, kvs_err *err)
{
    const kvsi_components alone = {.list = (kvsi_component *)c, .count = 1};

    if (!d->workspace)
        TRY(kvsi_workspace_take(&d->workspace, d->t->workspaces, err));
    return kvsi_normalize(&alone, d->workspace->matcher, out, text, size, err);
}

static kvs_status decode_piece(kvsi_decoding *d, const kvsi_component *c, kvsi_text *out,
                               const char *text, size_t size, int first, kvs_err *err)
{
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
    default:
        return decode_replace(d, c, out, text, size, err);
    }
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static void swap(kvsi_text *a, kvsi_text *b)
{
    const kvsi_text text = *a;

    *a = *b;
    *b = text;
}

/* Applies decoders `from` to `to`-1 to *text and checks the growth limit. */
static kvs_status run_steps(kvsi_decoding *d, size_t from, size_t to, kvsi_text *text, int first,
                            kvs_err *err)
{
    const size_t limit = kvsi_growth_limit(text->length);

    for (size_t i = from; i < to; i++) {
        const kvsi_component *c = d->t->decoders.list + i;

        if (c->kind == KVSI_FUSE)
            continue;
        d->spare.length = 0;
        kvsi_text_add(&d->spare, "");
        TRY(decode_piece(d, c, &d->spare, text->data, text->length, first, err));
        TRY(kvsi_text_check(&d->spare, err));
        TRY(kvsi_check_growth(d->spare.length, limit, err));
        swap(text, &d->spare);
    }
    return KVS_OK;
}

/* Applies the Strip that follows Fuse to the text that has arrived so far. */
static void strip_waiting(kvsi_decoding *d)
{
    const kvsi_component *c = d->t->decoders.list + d->piece_steps + 1;
    const char *text = d->waiting.data;
    size_t size = d->waiting.length;

    for (; d->stripped < c->start && starts_with(text, size, c); d->stripped++) {
        text += c->content_size;
        size -= c->content_size;
    }
    d->stripping =
        d->stripped < c->start && size < c->content_size && memcmp(text, c->content, size) == 0;
    if (d->stripping) {
        memmove(d->waiting.data, text, size + 1);
        d->waiting.length = size;
        return;
    }
    kvsi_text_add_bytes(&d->text, text, size);
    d->waiting.length = 0;
}

static int strips_only_the_start(const kvs_tokenizer *t, size_t fuse)
{
    const kvsi_component *after;

    if (fuse + 2 != t->decoders.count)
        return 0;
    after = &t->decoders.list[fuse + 1];
    return after->kind == KVSI_STRIP && after->stop == 0 && after->content_size > 0;
}

/* Without decoders, pieces are words separated by spaces. */
static kvs_status decode_id(kvsi_decoding *d, int32_t id, kvs_err *err)
{
    const kvsi_components *steps = &d->t->decoders;
    const kvsi_bytes piece = kvsi_vocabulary_at(&d->t->vocabulary, (size_t)id);
    const int first = d->pieces++ == 0, waits = d->piece_steps + 1 < steps->count;

    if (!first && !steps->count)
        kvsi_text_add(&d->text, " ");
    d->piece.length = 0;
    kvsi_text_add_bytes(&d->piece, piece.text, piece.size);
    TRY(kvsi_text_check(&d->piece, err));
    TRY(run_steps(d, 0, d->piece_steps, &d->piece, first, err));
    if (waits && (d->stripping || !strips_only_the_start(d->t, d->piece_steps)))
        kvsi_text_add_bytes(&d->waiting, d->piece.data, d->piece.length);
    else
        kvsi_text_add_bytes(&d->text, d->piece.data, d->piece.length);
    TRY(kvsi_text_check(&d->waiting, err));
    if (d->stripping)
        strip_waiting(d);
    return kvsi_text_check(&d->text, err);
}

/* Applies the decoders after Fuse to the whole text. */
static kvs_status decode_waiting(kvsi_decoding *d, kvs_err *err)
{
    if (d->pieces == 0)
        return kvsi_text_check(&d->text, err);
    kvsi_text_add(&d->waiting, "");
    TRY(kvsi_text_check(&d->waiting, err));
    if (!strips_only_the_start(d->t, d->piece_steps))
        TRY(run_steps(d, d->piece_steps, d->t->decoders.count, &d->waiting, 1, err));
    kvsi_text_add_bytes(&d->text, d->waiting.data, d->waiting.length);
    return kvsi_text_check(&d->text, err);
}

/* ---- ids ------------------------------------------------------------------------------------- */

void kvsi_decoding_reset(kvsi_decoding *d)
{
    d->begun = 0;
    d->held.count = 0;
    d->pieces = d->stripped = 0;
    d->stripping = strips_only_the_start(d->t, d->piece_steps);
    d->waiting.length = d->text.length = 0;
    kvsi_text_add(&d->text, ""); /* NUL-terminated even if empty */
}

void kvsi_decoding_init(kvsi_decoding *d, const kvs_tokenizer *t)
{
    *d = (kvsi_decoding){.t = t};
    while (d->piece_steps < t->decoders.count && t->decoders.list[d->piece_steps].kind != KVSI_FUSE)
        d->piece_steps++;
    kvsi_decoding_reset(d);
}

void kvsi_decoding_release(kvsi_decoding *d)
{
    kvsi_free(d->held.ids);
    kvsi_text_release(&d->piece);
    kvsi_text_release(&d->spare);
    kvsi_text_release(&d->waiting);
    kvsi_text_release(&d->text);
}

static int is_start_of(const kvsi_ids *ids, const kvsi_ids *frame)
{
    return ids->count <= frame->count &&
           memcmp(ids->ids, frame->ids, ids->count * sizeof *ids->ids) == 0;
}

/* Decodes held ids; unless `all`, keeps those that may be the start of the template's end. */
static kvs_status decode_held(kvsi_decoding *d, int all, kvs_err *err)
{
    kvs_status st = KVS_OK;

    while (st == KVS_OK && d->held.count > 0 && (all || !is_start_of(&d->held, &d->t->after))) {
        const int32_t id = d->held.ids[0];

        memmove(d->held.ids, d->held.ids + 1, --d->held.count * sizeof id);
        st = decode_id(d, id, err);
    }
    return st;
}

static kvs_status take_id(kvsi_decoding *d, int32_t id, kvs_err *err)
{
    TRY(kvsi_ids_add(&d->held, &id, 1, err));
    if (!d->begun && is_start_of(&d->held, &d->t->before)) {
        if (d->held.count == d->t->before.count) {
            d->held.count = 0;
            d->begun = 1;
        }
        return KVS_OK;
    }
    d->begun = 1;
    return decode_held(d, 0, err);
}

/* ---- adding ids and finishing ---------------------------------------------------------------- */

/* Ends a call: puts its workspace back, if it took one, and returns its status. */
static kvs_status end(kvsi_decoding *d, kvs_status st)
{
    kvsi_workspace_put(d->t->workspaces, d->workspace, st);
    d->workspace = NULL;
    return st;
}

kvs_status kvsi_decoding_add(kvsi_decoding *d, const int32_t *ids, size_t count, kvs_err *err)
{
    const kvs_tokenizer *t = d->t;
    kvs_status st = KVS_OK;

    for (size_t i = 0; i < count; i++)
        if (ids[i] < 0 || (size_t)ids[i] >= t->vocab ||
            !kvsi_vocabulary_at(&t->vocabulary, (size_t)ids[i]).text)
            return kvsi_fail(err, KVS_E_INVALID, "id %d is not in the vocabulary of %zu tokens",
                             (int)ids[i], t->vocab);
    for (size_t i = 0; st == KVS_OK && i < count; i++)
        st = take_id(d, ids[i], err);
    return end(d, st);
}

kvs_status kvsi_decoding_flush(kvsi_decoding *d, kvs_err *err)
{
    return d->begun ? end(d, decode_held(d, 1, err)) : KVS_OK;
}

static kvs_status decode_rest(kvsi_decoding *d, kvs_err *err)
{
    TRY(decode_held(d, 0, err));
    if (d->held.count == d->t->after.count)
        d->held.count = 0;
    TRY(decode_held(d, 1, err));
    return decode_waiting(d, err);
}

kvs_status kvsi_decoding_finish(kvsi_decoding *d, kvs_err *err)
{
    return end(d, decode_rest(d, err));
}

kvs_status kvs_tokenizer_decode(char **text, size_t *size, const kvs_tokenizer *t,
                                const int32_t *ids, size_t count, kvs_err *err)
{
    kvsi_decoding d;
    kvs_status st;

    NEED(text);
    *text = NULL;
    NEED(size);
    *size = 0;
    NEED_AS(t, tokenizer);
    NEED_ARRAY(ids, count);
    kvsi_decoding_init(&d, t);
    TRY_OUT(kvsi_decoding_add(&d, ids, count, err));
    TRY_OUT(kvsi_decoding_finish(&d, err));
    *text = d.text.data;
    *size = d.text.length;
    d.text.data = NULL;
out:
    kvsi_decoding_release(&d);
    return st;
}
