/* Exports a tokenizer to GGUF.  GGUF names a few kinds of tokenizers and does not store their
 * rules. A tokenizer that is none of them exactly is stored as a tokenizer.json, which few programs
 * read. */
#include "base/memory.h"
#include "base/utf8.h"
#include "tokenizer/tokenizer_files.h"

#include <stdlib.h>
#include <string.h>

/* ---- both kinds ------------------------------------------------------------------------------ */

static int has_all_bytes(const kvs_tokenizer *t)
{
    for (size_t byte = 0; byte < 256; byte++)
        if (t->byte_ids[byte] < 0)
            return 0;
    return 1;
}

/* What GGUF cannot represent, for messages; NULL if there is nothing. */
static const char *unsupported_feature(const kvs_tokenizer *t)
{
    if (t->before.count > 1 || (t->before.count == 1 && t->before.ids[0] != t->bos) ||
        t->after.count > 1 || (t->after.count == 1 && t->after.ids[0] != t->eos))
        return "its template";
    for (size_t i = 0; i < t->added_count; i++)
        if (t->added[i].single_word || t->added[i].strip_left || t->added[i].strip_right)
            return "added tokens with single_word, lstrip or rstrip";
    return NULL;
}

static int is_added(const kvs_tokenizer *t, size_t id, int special)
{
    for (size_t i = 0; i < t->added_count; i++)
        if ((size_t)t->added[i].id == id && t->added[i].special == special)
            return 1;
    return 0;
}

static kvs_status add_tokens(kvsi_gguf_tokenizer *w, const kvs_tokenizer *t, kvs_err *err)
{
    kvsi_gguf_vocabulary *v = &w->vocabulary;

    w->tokens = kvsi_alloc(t->vocab, sizeof *w->tokens);
    if (!w->tokens)
        return kvsi_no_memory(err, "a vocabulary");
    for (size_t id = 0; id < t->vocab; id++) {
        const kvsi_bytes piece = kvsi_vocabulary_at(&t->vocabulary, id);
        const int type = t->kinds             ? t->kinds[id]
                         : is_added(t, id, 1) ? KVSI_PIECE_CONTROL
                         : is_added(t, id, 0) ? KVSI_PIECE_USER_DEFINED
                                              : KVSI_PIECE_NORMAL;

        w->tokens[id] = (kvsi_gguf_token){.text = piece.text,
                                          .size = piece.size,
                                          .score = t->scores ? t->scores[id] : 0,
                                          .type = type};
    }
    v->tokens = w->tokens;
    v->count = t->vocab;
    v->unknown = t->unknown;
    v->bos = t->bos;
    v->eos = t->eos;
    v->add_bos = t->before.count > 0;
    v->add_eos = t->after.count > 0;
    return KVS_OK;
}

/* ---- SentencePiece: "llama" ------------------------------------------------------------------ */

/* The range of ranks of the merges that produce a piece. */
typedef struct rank_range {
    uint32_t low, high;
    int32_t id;
} rank_range;

static int by_low_rank(const void *a, const void *b)
{
    const rank_range *x = a, *y = b;

    return x->low < y->low ? -1 : x->low > y->low;
}

/* SentencePiece merges any two adjacent pieces whose concatenation is a piece.  Merges are
 * equivalent only if they contain every split of every piece. */
static int has_every_cut(const kvs_tokenizer *t, const kvsi_gguf_token *tokens, size_t id)
{
    const kvsi_gguf_token *token = tokens + id;

    for (size_t at = 1; at < token->size; at++) {
        const size_t rest = token->size - at;
        int32_t left, right;

        if (((unsigned char)token->text[at] & 0xc0) == 0x80)
            continue; /* inside a character */
        left = kvsi_vocabulary_find(&t->vocabulary, token->text, at);
        right = kvsi_vocabulary_find(&t->vocabulary, token->text + at, rest);
        if (left < 0 || right < 0) {
            uint32_t code;
            /* A character that is not a piece could still be merged here. */
            const int left_odd = left < 0 && kvsi_utf8_next(token->text, at, &code) == at;
            const int right_odd =
                right < 0 && kvsi_utf8_next(token->text + at, rest, &code) == rest;

            if ((left_odd || left >= 0) && (right_odd || right >= 0))
                return 0;
        } else if (tokens[left].type == KVSI_PIECE_NORMAL &&
                   tokens[right].type == KVSI_PIECE_NORMAL &&
                   !kvsi_merges_find(&t->merges, left, right)) {
            return 0;
        }
    }
    return 1;
}

/* The range of each piece that has merges, sorted by rank; *count = their number. */
static rank_range *list_ranges(const kvs_tokenizer *t, size_t *count)
{
    rank_range *ranges = kvsi_alloc(t->vocab, sizeof *ranges);
    kvsi_merge *merges = kvsi_merges_list(&t->merges);

    *count = 0;
    for (size_t id = 0; ranges && id < t->vocab; id++)
        ranges[id] = (rank_range){UINT32_MAX, 0, (int32_t)id};
    for (size_t i = 0; ranges && merges && i < t->merges.count; i++) {
        rank_range *s = ranges + merges[i].result;

        s->low = merges[i].rank < s->low ? merges[i].rank : s->low;
        s->high = merges[i].rank > s->high ? merges[i].rank : s->high;
    }
    kvsi_free(merges);
    for (size_t id = 0; ranges && id < t->vocab; id++)
        if (ranges[id].low != UINT32_MAX)
            ranges[(*count)++] = ranges[id];
    if (ranges)
        qsort(ranges, *count, sizeof *ranges, by_low_rank);
    return ranges;
}

/* Derives scores from the order of merges; *ordered = whether equivalent scores exist. */
static kvs_status score_by_merges(kvsi_gguf_tokenizer *w, const kvs_tokenizer *t, int *ordered,
                                  kvs_err *err)
{
    size_t count = 0;
    rank_range *ranges = list_ranges(t, &count);

    if (!ranges)
        return kvsi_no_memory(err, "a vocabulary");
    *ordered = 1;
    for (size_t id = 0; id < t->vocab; id++) {
        const int normal = w->tokens[id].text && w->tokens[id].type == KVSI_PIECE_NORMAL;

        if (normal && kvsi_byte_piece(w->tokens[id].text, w->tokens[id].size) >= 0)
            w->tokens[id].type = KVSI_PIECE_BYTE;
        else if ((int64_t)id == t->unknown)
            w->tokens[id].type = KVSI_PIECE_UNKNOWN;
    }
    for (size_t id = 0; id < t->vocab && *ordered; id++)
        if (w->tokens[id].text && w->tokens[id].type == KVSI_PIECE_NORMAL)
            *ordered = has_every_cut(t, w->tokens, id);
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && ranges[i].low <= ranges[i - 1].high)
            *ordered = 0;
        w->tokens[ranges[i].id].score = -(float)(i + 1);
    }
    kvsi_free(ranges);
    return KVS_OK;
}

/* Why the tokenizer cannot be a SentencePiece vocabulary; NULL if it can. */
static const char *why_not_sentencepiece(const kvs_tokenizer *t, kvsi_sp_model *flags)
{
    if (!json_is_null(json_object_get(t->document, "pre_tokenizer")) &&
        json_object_get(t->document, "pre_tokenizer"))
        return "its pre-tokenizer";
    if (!kvsi_sp_model_read_normalizer(flags, json_object_get(t->document, "normalizer")))
        return "its normalizer";
    if (!has_all_bytes(t) && (t->unknown < 0 || !(t->is_sentencepiece || t->fuse_unknown)))
        return "characters without tokens";
    if (!t->is_sentencepiece && (!t->byte_fallback || t->ignore_merges))
        return "its model";
    for (size_t i = 0; i < t->added_count && !t->is_sentencepiece; i++)
        if (!t->added[i].special)
            return "added tokens that are not special";
    return unsupported_feature(t);
}

static kvs_status export_sentencepiece(kvsi_gguf_tokenizer *w, const kvs_tokenizer *t, kvs_err *err)
{
    kvsi_gguf_vocabulary *v = &w->vocabulary;
    kvsi_sp_model flags = {0};
    int ordered = 1;

    v->reason = why_not_sentencepiece(t, &flags);
    if (v->reason)
        return KVS_OK;
    TRY(add_tokens(w, t, err));
    if (!t->is_sentencepiece)
        TRY(score_by_merges(w, t, &ordered, err));
    for (size_t i = 0; i < t->normalizers.count; i++)
        if (t->normalizers.list[i].kind == KVSI_CHARACTER_MAP) {
            v->character_map = t->normalizers.list[i].content;
            v->character_map_size = t->normalizers.list[i].content_size;
        }
    v->add_space_prefix = flags.add_dummy_prefix;
    v->remove_extra_spaces = flags.remove_extra_spaces;
    if (ordered)
        v->model = "llama";
    else
        v->reason = "merges whose order no scores give";
    return KVS_OK;
}

/* ---- byte-level: "gpt2" ---------------------------------------------------------------------- */

static int is_false(const json_t *object, const char *key)
{
    return json_is_false(json_object_get(object, key));
}

static int is_text(const json_t *object, const char *key, const char *text)
{
    const char *found = json_string_value(json_object_get(object, key));

    return found && strcmp(found, text) == 0;
}

static int is_type(const json_t *object, const char *type)
{
    return is_text(object, "type", type);
}

/* GGUF's name of the pre-tokenizer; NULL if it has none. */
static const char *find_split(const kvs_tokenizer *t)
{
    const json_t *pre = json_object_get(t->document, "pre_tokenizer");
    const json_t *steps = json_object_get(pre, "pretokenizers"), *split, *bytes;
    const char *expression;

    /* Without merges the splits do not matter. */
    if (is_type(pre, "ByteLevel") && is_false(pre, "add_prefix_space") &&
        (!is_false(pre, "use_regex") || t->merges.count == 0))
        return kvsi_gguf_split_name(NULL, t->ignore_merges);
    split = json_array_get(steps, 0);
    bytes = json_array_get(steps, 1);
    expression = json_string_value(json_object_get(json_object_get(split, "pattern"), "Regex"));
    if (!is_type(pre, "Sequence") || json_array_size(steps) != 2 || !is_type(split, "Split") ||
        !expression || !is_false(split, "invert") || !is_type(bytes, "ByteLevel") ||
        !is_false(bytes, "add_prefix_space") || !is_false(bytes, "use_regex") ||
        !is_text(split, "behavior", "Isolated"))
        return NULL;
    return kvsi_gguf_split_name(expression, t->ignore_merges);
}

static const char *why_not_byte_level(const kvs_tokenizer *t)
{
    const json_t *normalizer = json_object_get(t->document, "normalizer");

    if (normalizer && !json_is_null(normalizer))
        return "its normalizer";
    if (!has_all_bytes(t) && t->unknown >= 0)
        return "bytes without tokens";
    if (!find_split(t))
        return "its pre-tokenizer";
    return unsupported_feature(t);
}

/* All merges as "left right", sorted by rank.  Pointers are set when the text has stopped
 * growing. */
static kvs_status add_merges(kvsi_gguf_tokenizer *w, const kvs_tokenizer *t, kvs_err *err)
{
    kvsi_merge *list = kvsi_merges_list(&t->merges);
    const size_t count = t->merges.count;
    size_t at = 0;
    kvs_status st = KVS_OK;

    w->merges = kvsi_alloc(count, sizeof *w->merges);
    if (!list || !w->merges) {
        st = kvsi_no_memory(err, "a vocabulary");
        goto out;
    }
    for (size_t i = 0; i < count; i++) {
        const kvsi_bytes left = kvsi_vocabulary_at(&t->vocabulary, (size_t)list[i].left);
        const kvsi_bytes right = kvsi_vocabulary_at(&t->vocabulary, (size_t)list[i].right);

        kvsi_text_add_bytes(&w->bytes, left.text, left.size);
        kvsi_text_add(&w->bytes, " ");
        kvsi_text_add_bytes(&w->bytes, right.text, right.size);
        w->merges[i].size = left.size + right.size + 1;
    }
    TRY_OUT(kvsi_text_check(&w->bytes, err));
    for (size_t i = 0; i < count; at += w->merges[i++].size)
        w->merges[i].text = w->bytes.data + at;
    w->vocabulary.merges = w->merges;
    w->vocabulary.merge_count = count;
out:
    kvsi_free(list);
    return st;
}

static kvs_status export_byte_level(kvsi_gguf_tokenizer *w, const kvs_tokenizer *t, kvs_err *err)
{
    w->vocabulary.reason = why_not_byte_level(t);
    if (w->vocabulary.reason)
        return KVS_OK;
    TRY(add_tokens(w, t, err));
    TRY(add_merges(w, t, err));
    w->vocabulary.model = "gpt2";
    w->vocabulary.pre = find_split(t);
    return KVS_OK;
}

/* ---- export ---------------------------------------------------------------------------------- */

static kvs_status export_json(kvsi_gguf_tokenizer *w, const kvs_tokenizer *t, kvs_err *err)
{
    json_t *document = kvsi_tokenizer_to_json(t);
    char *text = document ? json_dumps(document, JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;

    json_decref(document);
    w->document = text ? kvsi_strdup(text) : NULL;
    w->vocabulary.document = w->document;
    w->vocabulary.bos = t->bos;
    w->vocabulary.eos = t->eos;
    free(text);
    return w->document ? KVS_OK : kvsi_no_memory(err, "a vocabulary");
}

kvs_status kvsi_tokenizer_to_gguf(kvsi_gguf_tokenizer *out, const kvs_tokenizer *t, kvs_err *err)
{
    kvs_status st;

    *out = (kvsi_gguf_tokenizer){0};
    TRY_OUT(t->byte_words ? export_byte_level(out, t, err) : export_sentencepiece(out, t, err));
    if (!out->vocabulary.model)
        TRY_OUT(export_json(out, t, err));
    TRY_OUT(kvsi_json_check("a tokenizer", err)); /* the comparisons above can run out of memory */
out:
    if (st != KVS_OK)
        kvsi_gguf_tokenizer_release(out);
    return st;
}

void kvsi_gguf_tokenizer_release(kvsi_gguf_tokenizer *words)
{
    kvsi_free(words->tokens);
    kvsi_free(words->merges);
    kvsi_free(words->document);
    kvsi_text_release(&words->bytes);
    *words = (kvsi_gguf_tokenizer){0};
}
