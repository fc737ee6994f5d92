/* Byte-pair encoding of one word. */
#include "base/utf8.h"
#include "tokenizer/tokenizer.h"

#include <string.h>

/* ---- unknown characters ---------------------------------------------------------------------- */

static int has_bytes(const kvs_tokenizer *t, const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (t->byte_ids[(unsigned char)text[i]] < 0)
            return 0;
    return 1;
}

/* Adds the id of the unknown token; with fuse_unknown, a run of unknown characters shares one. */
static kvs_status add_unknown(const kvs_tokenizer *t, kvsi_word *word, size_t at, int *fuse,
                              kvs_err *err)
{
    const int fused = *fuse && t->fuse_unknown;

    *fuse = 1;
    return t->unknown < 0 || fused ? KVS_OK : kvsi_word_add(word, t->unknown, at, err);
}

/* ---- the initial symbols --------------------------------------------------------------------- */

static kvs_status start_from_bytes(const kvs_tokenizer *t, kvsi_word *word, const char *text,
                                   size_t size, kvs_err *err)
{
    int after_unknown = 0;

    for (size_t i = 0; i < size; i++) {
        const int32_t id = t->byte_ids[(unsigned char)text[i]];

        if (id >= 0) {
            TRY(kvsi_word_add(word, id, i, err));
            after_unknown = 0;
        } else {
            TRY(add_unknown(t, word, i, &after_unknown, err));
        }
    }
    return KVS_OK;
}

static kvs_status start_from_characters(const kvs_tokenizer *t, kvsi_word *word, const char *text,
                                        size_t size, kvs_err *err)
{
    int after_unknown = 0;
    size_t length;

    for (size_t at = 0; at < size; at += length) {
        uint32_t code;
        int32_t id;

        length = kvsi_utf8_next(text + at, size - at, &code);
        id = kvsi_vocabulary_find(&t->vocabulary, text + at, length);
        if (id < 0 && t->byte_fallback && has_bytes(t, text + at, length)) {
            for (size_t i = at; i < at + length; i++)
                TRY(kvsi_word_add(word, t->byte_ids[(unsigned char)text[i]], i, err));
            after_unknown = 0;
        } else if (id < 0) {
            TRY(add_unknown(t, word, at, &after_unknown, err));
        } else {
            TRY(kvsi_word_add(word, id, at, err));
            after_unknown = 0;
        }
    }
    return KVS_OK;
}

/* User-defined symbols stay whole; unknown characters become -1. */
static kvs_status start_from_sentencepiece(const kvs_tokenizer *t, kvsi_word *word,
                                           const char *text, size_t size, kvs_err *err)
{
    size_t length;

    for (size_t at = 0; at < size; at += length) {
        uint32_t code;
        int32_t id;
        kvs_status st;

        length = kvsi_trie_match(&t->user_defined, text + at, size - at, &id);
        if (!length) {
            length = kvsi_utf8_next(text + at, size - at, &code);
            id = kvsi_vocabulary_find(&t->vocabulary, text + at, length);
        }
        st = kvsi_word_add(word, id, at, err);
        if (st != KVS_OK)
            return st;
    }
    return KVS_OK;
}

/* ---- ids ------------------------------------------------------------------------------------- */

/* A SentencePiece symbol that is not a piece becomes its bytes or the unknown token. */
static kvs_status add_fallback(const kvs_tokenizer *t, const char *text, size_t size, int fuse,
                               kvsi_ids *out, kvs_err *err)
{
    kvs_status st = KVS_OK;

    if (!t->byte_fallback || !has_bytes(t, text, size))
        return fuse || t->unknown < 0 ? KVS_OK : kvsi_ids_add(out, &t->unknown, 1, err);
    for (size_t i = 0; i < size && st == KVS_OK; i++)
        st = kvsi_ids_add(out, t->byte_ids + (unsigned char)text[i], 1, err);
    return st;
}

static kvs_status collect(const kvs_tokenizer *t, const kvsi_word *word, const char *text,
                          size_t size, kvsi_ids *out, kvs_err *err)
{
    const kvsi_symbol *symbols = word->symbols;
    kvs_status st = KVS_OK;
    int after_unknown = 0;

    for (uint32_t i = 0; i < word->count && st == KVS_OK; i = symbols[i].next) {
        const size_t end = symbols[i].next < word->count ? symbols[symbols[i].next].at : size;
        const int known = symbols[i].id >= 0 && (size_t)symbols[i].id < t->vocab;

        if (known)
            st = kvsi_ids_add(out, &symbols[i].id, 1, err);
        else
            st =
                add_fallback(t, text + symbols[i].at, end - symbols[i].at, after_unknown, out, err);
        after_unknown = !known;
    }
    return st;
}

/* Finds the piece that is the whole word; *id is -1 if there is none.  With ignore_merges, such a
 * word is not merged. */
static kvs_status find_whole(const kvs_tokenizer *t, kvsi_text *mapped, const char *text,
                             size_t size, int32_t *id, kvs_err *err)
{
    if (t->byte_words) {
        mapped->length = 0;
        kvsi_map_bytes(mapped, text, size);
        TRY(kvsi_text_check(mapped, err));
        text = mapped->data;
        size = mapped->length;
    }
    *id = kvsi_vocabulary_find(&t->vocabulary, text, size);
    return KVS_OK;
}

/* Encodes a word, or a part of one that kvsi_safe_prefix split off. */
static kvs_status encode_part(const kvs_tokenizer *t, kvsi_workspace *w, const char *text,
                              size_t size, kvsi_ids *out, kvs_err *err)
{
    kvsi_word *word = &w->word;
    const size_t start = out->count;
    size_t count = 0;
    const int32_t *known = kvsi_word_cache_get(&w->cache, text, size, &count);

    if (known)
        return kvsi_ids_add(out, known, count, err);
    word->count = 0;
    if (t->is_sentencepiece)
        TRY(start_from_sentencepiece(t, word, text, size, err));
    else if (t->byte_words)
        TRY(start_from_bytes(t, word, text, size, err));
    else
        TRY(start_from_characters(t, word, text, size, err));
    TRY(kvsi_word_merge(word, &t->merges, err));
    TRY(collect(t, word, text, size, out, err));
    return kvsi_word_cache_put(&w->cache, text, size, out->ids + start, out->count - start, err);
}

kvs_status kvsi_encode_word(const kvs_tokenizer *t, kvsi_workspace *w, const char *text,
                            size_t size, kvsi_ids *out, kvs_err *err)
{
    int32_t whole = -1;
    kvs_status st = KVS_OK;

    if (t->ignore_merges)
        TRY(find_whole(t, &w->mapped, text, size, &whole, err));
    if (whole >= 0)
        return kvsi_ids_add(out, &whole, 1, err);
    if (t->byte_words)
        return encode_part(t, w, text, size, out, err);
    while (size > 0 && st == KVS_OK) {
        const size_t part = kvsi_safe_prefix(t, text, size);

        st = encode_part(t, w, text, part, out, err);
        text += part;
        size -= part;
    }
    return st;
}
