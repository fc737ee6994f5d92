/* SentencePiece's BPE model.  Two adjacent pieces merge if their concatenation is a piece, highest
 * score first.  It is converted to merges: every split of every piece, ranked by score; equal
 * scores get equal ranks. */
#include "base/array.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "tokenizer/character_map.h"
#include "tokenizer/tokenizer_files.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE_MAX = 1024 }; /* bytes; a piece of n bytes has up to n - 1 splits */

#define META "\xe2\x96\x81" /* U+2581, represents a space */

void kvsi_sp_model_init(kvsi_sp_model *sp)
{
    *sp = (kvsi_sp_model){
        .unknown = 0, .bos = 1, .eos = 2, .add_bos = 1, .add_dummy_prefix = 1, .byte_fallback = 1};
}

kvs_status kvsi_sp_model_add(kvsi_sp_model *sp, const kvsi_sp_piece *piece, kvs_err *err)
{
    const kvs_status st =
        kvsi_array_reserve(&sp->pieces, &sp->capacity, sp->count + 1, sizeof *sp->pieces, err);

    if (st == KVS_OK)
        sp->pieces[sp->count++] = *piece;
    return st;
}

/* ---- the tokenizer.json ---------------------------------------------------------------------- */

static json_t *replace(const char *kind, const char *pattern, const char *content)
{
    return json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern", kind, pattern, "content",
                     content);
}

static json_t *character_map(const kvsi_sp_model *sp)
{
    kvsi_text base64 = {0};
    json_t *step;

    kvsi_base64_encode(&base64, sp->character_map, sp->character_map_size);
    step = json_pack("{s:s, s:s}", "type", "Precompiled", "precompiled_charsmap", base64.data);
    kvsi_text_release(&base64);
    return step;
}

static json_t *normalizer(const kvsi_sp_model *sp)
{
    json_t *steps = json_array();

    if (sp->character_map)
        json_array_append_new(steps, character_map(sp));
    if (sp->remove_extra_spaces) {
        json_array_append_new(steps, replace("Regex", "\\A +|[ " META "]+\\z", ""));
        json_array_append_new(steps, replace("Regex", " {2,}", " "));
    }
    if (sp->add_dummy_prefix)
        json_array_append_new(steps, json_pack("{s:s, s:s}", "type", "Prepend", "prepend", META));
    json_array_append_new(steps, replace("String", " ", META));
    return json_pack("{s:s, s:o}", "type", "Sequence", "normalizers", steps);
}

/* A copy of the normalizer without a leading Precompiled step: a new reference. */
static json_t *without_map(const json_t *value)
{
    json_t *copy = json_deep_copy(value), *steps = json_object_get(copy, "normalizers");
    const char *first = json_string_value(json_object_get(json_array_get(steps, 0), "type"));

    if (first && strcmp(first, "Precompiled") == 0)
        json_array_remove(steps, 0);
    return copy;
}

int kvsi_sp_model_read_normalizer(kvsi_sp_model *out, const json_t *value)
{
    json_t *steps = without_map(value);
    int found = 0;

    for (int flags = 0; flags < 4 && !found; flags++) {
        const kvsi_sp_model candidate = {.add_dummy_prefix = flags & 1,
                                         .remove_extra_spaces = flags >> 1};
        json_t *expected = normalizer(&candidate);

        found = json_equal(expected, steps);
        json_decref(expected);
        out->add_dummy_prefix = candidate.add_dummy_prefix;
        out->remove_extra_spaces = candidate.remove_extra_spaces;
    }
    json_decref(steps);
    return found;
}

static json_t *decoder(const kvsi_sp_model *sp)
{
    json_t *steps = json_pack("[o, {s:s}, {s:s}]", replace("String", META, " "), "type",
                              "ByteFallback", "type", "Fuse");

    if (sp->add_dummy_prefix)
        json_array_append_new(steps, json_pack("{s:s, s:s, s:i, s:i}", "type", "Strip", "content",
                                               " ", "start", 1, "stop", 0));
    return json_pack("{s:s, s:o}", "type", "Sequence", "decoders", steps);
}

static const kvsi_sp_piece *piece_at(const kvsi_sp_model *sp, int64_t id)
{
    return id >= 0 && (uint64_t)id < sp->count ? sp->pieces + id : NULL;
}

/* The text of an added token; NULL = none. */
static const json_t *added_text(const kvsi_sp_model *sp, int64_t id)
{
    const json_t *token;
    size_t i;

    json_array_foreach(sp->added, i, token) {
        if (json_integer_value(json_object_get(token, "id")) == id)
            return json_object_get(token, "content");
    }
    return NULL;
}

static kvsi_bytes text_at(const kvsi_sp_model *sp, int64_t id)
{
    const kvsi_sp_piece *piece = piece_at(sp, id);
    const json_t *text = piece ? NULL : added_text(sp, id);

    return piece ? (kvsi_bytes){piece->text, piece->size}
                 : (kvsi_bytes){json_string_value(text), json_string_length(text)};
}

static json_t *empty_document(const kvsi_sp_model *sp)
{
    const kvsi_sp_piece *unknown = piece_at(sp, sp->unknown);
    json_t *name = unknown ? json_stringn(unknown->text, unknown->size) : json_null();

    return json_pack("{s:s, s:n, s:n, s:[], s:o, s:n, s:n, s:o, "
                     "s:{s:s, s:n, s:o, s:n, s:n, s:b, s:b, s:b, s:{}, s:[]}}",
                     "version", "1.0", "truncation", "padding", "added_tokens", "normalizer",
                     normalizer(sp), "pre_tokenizer", "post_processor", "decoder", decoder(sp),
                     "model", "type", "BPE", "dropout", "unk_token", name,
                     "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 1,
                     "byte_fallback", sp->byte_fallback, "ignore_merges", 0, "vocab", "merges");
}

static kvs_status add_template(json_t *document, const kvsi_sp_model *sp, kvs_err *err)
{
    const kvsi_bytes none = {0};
    const kvsi_bytes bos = sp->add_bos ? text_at(sp, sp->bos) : none;
    const kvsi_bytes eos = sp->add_eos ? text_at(sp, sp->eos) : none;
    char before[64], after[64];

    if (!bos.text && !eos.text)
        return KVS_OK;
    if (bos.size >= sizeof before || eos.size >= sizeof after)
        return kvsi_fail(err, KVS_E_LIMIT,
                         "the name of the BOS or EOS token is longer than 63 bytes");
    if (bos.text)
        snprintf(before, sizeof before, "%.*s", (int)bos.size, bos.text);
    if (eos.text)
        snprintf(after, sizeof after, "%.*s", (int)eos.size, eos.text);
    return kvsi_tokenizer_json_set_template(document, bos.text ? before : NULL, (size_t)sp->bos,
                                            eos.text ? after : NULL, (size_t)sp->eos, err);
}

static kvs_status fill_document(json_t *document, const kvsi_sp_model *sp, const char *what,
                                kvs_err *err)
{
    for (size_t id = 0; id < sp->count; id++) {
        const kvsi_sp_piece *piece = sp->pieces + id;

        if (piece->size == 0 || !isfinite(piece->score))
            return kvsi_fail(err, KVS_E_FORMAT, "'%s': token %zu has %s", what, id,
                             piece->size ? "a score that is not finite" : "no text");
        TRY(kvsi_tokenizer_json_add_piece(document, piece->text, piece->size, id, err));
        if (!sp->added && (piece->kind == KVSI_PIECE_CONTROL || piece->kind == KVSI_PIECE_UNKNOWN))
            TRY(kvsi_tokenizer_json_add_token(document, piece->text, piece->size, id, 1, err));
    }
    if (sp->added &&
        json_array_extend(json_object_get(document, "added_tokens"), (json_t *)sp->added) != 0)
        return kvsi_no_memory(err, "'%s'", what);
    return add_template(document, sp, err);
}

/* ---- merges ---------------------------------------------------------------------------------- */

static int descending(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;

    return (x < y) - (x > y);
}

/* The distinct scores in descending order; *count = their number. */
static float *sort_scores(const kvsi_sp_model *sp, size_t *count)
{
    float *scores = kvsi_alloc(sp->count, sizeof *scores);
    size_t kept = 0;

    if (!scores)
        return NULL;
    for (size_t i = 0; i < sp->count; i++)
        scores[i] = sp->pieces[i].score;
    qsort(scores, sp->count, sizeof *scores, descending);
    for (size_t i = 0; i < sp->count; i++)
        if (kept == 0 || descending(scores + kept - 1, scores + i) != 0)
            scores[kept++] = scores[i];
    *count = kept;
    return scores;
}

/* The id of a part of a piece.  A part is a normal piece or a single character.  A character that
 * is not a piece gets an id above the vocabulary.  -1 = neither. */
static kvs_status find_part(kvs_tokenizer *t, const kvsi_sp_model *sp, kvsi_bytes part, int32_t *id,
                            kvs_err *err)
{
    uint32_t fresh, code;
    kvs_status st;

    *id = kvsi_vocabulary_find(&t->vocabulary, part.text, part.size);
    if (*id >= 0 && (size_t)*id < t->vocab &&
        ((size_t)*id >= sp->count || sp->pieces[*id].kind != KVSI_PIECE_NORMAL))
        *id = -1;
    else if (*id < 0 && kvsi_utf8_next(part.text, part.size, &code) == part.size) {
        st = kvsi_vocabulary_add(&t->vocabulary, part.text, part.size, &fresh, err);
        if (st != KVS_OK)
            return st;
        *id = (int32_t)fresh;
    }
    return KVS_OK;
}

static kvs_status add_cuts(kvs_tokenizer *t, const kvsi_sp_model *sp, size_t id, uint32_t rank,
                           kvs_err *err)
{
    const kvsi_sp_piece *piece = sp->pieces + id;

    if (piece->size > PIECE_MAX)
        return kvsi_fail(err, KVS_E_LIMIT, "token %zu has %zu bytes, at most %d are allowed", id,
                         piece->size, (int)PIECE_MAX);
    for (size_t at = 1; at < piece->size; at++) {
        const kvsi_bytes left = {piece->text, at}, right = {piece->text + at, piece->size - at};
        kvsi_merge merge = {.result = (int32_t)id, .rank = rank};

        if (((unsigned char)piece->text[at] & 0xc0) == 0x80)
            continue; /* not a character boundary */
        TRY(find_part(t, sp, left, &merge.left, err));
        TRY(find_part(t, sp, right, &merge.right, err));
        if (merge.left >= 0 && merge.right >= 0)
            TRY(kvsi_merges_set(&t->merges, &merge, err));
    }
    return KVS_OK;
}

static kvs_status add_merges(kvs_tokenizer *t, const kvsi_sp_model *sp, kvs_err *err)
{
    size_t count = 0;
    float *scores = sort_scores(sp, &count);
    kvs_status st = KVS_OK;

    if (!scores)
        return kvsi_no_memory(err, "scores");
    for (size_t id = 0; id < sp->count; id++) {
        const float *at;

        if (sp->pieces[id].kind != KVSI_PIECE_NORMAL)
            continue;
        at = bsearch(&sp->pieces[id].score, scores, count, sizeof *scores, descending);
        TRY_OUT(add_cuts(t, sp, id, (uint32_t)(at - scores), err));
    }
out:
    kvsi_free(scores);
    return st;
}

/* ---- conversion ------------------------------------------------------------------------------ */

/* Other readers of the tokenizer.json treat them as added tokens; here they are symbols of the
 * model. */
static kvs_status add_user_defined(kvs_tokenizer *t, const kvsi_sp_model *sp, kvs_err *err)
{
    for (size_t id = 0; id < sp->count; id++) {
        const kvsi_sp_piece *piece = sp->pieces + id;

        if (piece->kind != KVSI_PIECE_USER_DEFINED || piece->is_added)
            continue; /* added tokens are cut out before encoding */
        TRY(kvsi_trie_add(&t->user_defined, piece->text, piece->size, (int32_t)id, err));
        TRY(kvsi_forbid_split(t, piece->text, piece->size, err));
        TRY(kvsi_tokenizer_json_add_token(t->document, piece->text, piece->size, id, 0, err));
    }
    return KVS_OK;
}

/* The kind for GGUF, which has no list of added tokens.  Control tokens are recognized in text, as
 * added tokens are; unused ones are not. */
static int kind_at(const kvsi_sp_model *sp, size_t id)
{
    const kvsi_sp_piece *piece = piece_at(sp, (int64_t)id);

    if (!piece)
        return KVSI_PIECE_CONTROL;
    if (!sp->added || piece->kind == KVSI_PIECE_UNKNOWN)
        return piece->kind;
    if (piece->is_added)
        return KVSI_PIECE_CONTROL;
    return piece->kind == KVSI_PIECE_CONTROL ? KVSI_PIECE_UNUSED : piece->kind;
}

/* Keeps scores and kinds for export to GGUF. */
static kvs_status keep_scores(kvs_tokenizer *t, const kvsi_sp_model *sp, kvs_err *err)
{
    t->scores = kvsi_alloc(t->vocab, sizeof *t->scores);
    t->kinds = kvsi_alloc(t->vocab, 1);
    if (!t->scores || !t->kinds)
        return kvsi_no_memory(err, "scores");
    for (size_t id = 0; id < t->vocab; id++) {
        t->scores[id] = id < sp->count ? sp->pieces[id].score : 0;
        t->kinds[id] = (unsigned char)kind_at(sp, id);
    }
    return KVS_OK;
}

kvs_status kvsi_tokenizer_from_sp_model(kvs_tokenizer **out, const kvsi_sp_model *sp,
                                        const char *what, kvs_err *err)
{
    json_t *document = empty_document(sp);
    kvs_tokenizer *t = NULL;
    kvs_status st;

    *out = NULL;
    TRY_OUT(kvsi_json_check("a tokenizer", err));
    if (!document) {
        st = kvsi_fail(err, KVS_E_FORMAT, "'%s': the unknown token is not valid UTF-8", what);
        goto out;
    }
    TRY_OUT(fill_document(document, sp, what, err));
    TRY_OUT(kvsi_tokenizer_from_json(&t, json_incref(document), what, err));
    t->is_sentencepiece = 1;
    if (text_at(sp, sp->bos).text)
        t->bos = (int32_t)sp->bos;
    if (text_at(sp, sp->eos).text)
        t->eos = (int32_t)sp->eos;
    TRY_OUT(keep_scores(t, sp, err));
    TRY_OUT(add_merges(t, sp, err));
    TRY_OUT(kvsi_find_joinable(t, err));
    TRY_OUT(add_user_defined(t, sp, err));
    for (size_t i = 0; i < t->normalizers.count; i++)
        t->normalizers.list[i].keep = &t->user_defined;
    *out = t;
    t = NULL;
out:
    kvs_tokenizer_free(t);
    json_decref(document);
    return st;
}
