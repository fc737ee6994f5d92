/* Reads a tokenizer.json: model, added tokens and post-processor.  components.c reads the other
 * parts. */
#include "base/array.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "tokenizer/characters.h"
#include "tokenizer/tokenizer.h"

#include <stdio.h>
#include <string.h>

typedef struct reader {
    kvs_tokenizer *t;
    const char *what;
    kvs_err *err;
} reader;

/* ---- the model ------------------------------------------------------------------------------- */

static kvs_status set_piece(const reader *r, const char *piece, uint64_t id)
{
    if (id >= KVSI_TOKENS_MAX)
        return kvsi_fail(r->err, KVS_E_FORMAT, "'%s': token '%s' has id %llu, expected at most %d",
                         r->what, piece, (unsigned long long)id, KVSI_TOKENS_MAX - 1);
    return kvsi_vocabulary_set(&r->t->vocabulary, id, piece, strlen(piece), r->err);
}

static kvs_status read_vocabulary(const reader *r, json_t *model)
{
    json_t *vocab = json_object_get(model, "vocab"), *id;
    const char *piece;

    if (!json_is_object(vocab))
        return kvsi_fail(r->err, KVS_E_FORMAT, "'%s': key 'vocab': expected an object", r->what);
    json_object_foreach(vocab, piece, id) {
        if (!json_is_integer(id) || json_integer_value(id) < 0)
            return kvsi_fail(r->err, KVS_E_FORMAT,
                             "'%s': token '%s': expected a whole number as its id", r->what, piece);
        TRY(set_piece(r, piece, (uint64_t)json_integer_value(id)));
    }
    return KVS_OK;
}

static kvs_status add_merge(const reader *r, kvsi_text *joined, kvsi_bytes left, kvsi_bytes right,
                            size_t rank)
{
    const kvsi_vocabulary *v = &r->t->vocabulary;
    kvsi_merge merge = {.rank = (uint32_t)rank};

    joined->length = 0;
    kvsi_text_add_bytes(joined, left.text, left.size);
    kvsi_text_add_bytes(joined, right.text, right.size);
    if (joined->failed)
        return kvsi_text_check(joined, r->err);
    merge.left = kvsi_vocabulary_find(v, left.text, left.size);
    merge.right = kvsi_vocabulary_find(v, right.text, right.size);
    merge.result = kvsi_vocabulary_find(v, joined->data, joined->length);
    if (merge.left < 0 || merge.right < 0 || merge.result < 0)
        return kvsi_fail(r->err, KVS_E_FORMAT,
                         "'%s': merge %zu, of '%.*s' and '%.*s': the %s is not in the vocabulary",
                         r->what, rank, (int)(left.size < 64 ? left.size : 64), left.text,
                         (int)(right.size < 64 ? right.size : 64), right.text,
                         merge.left < 0    ? "first"
                         : merge.right < 0 ? "second"
                                           : "result");
    return kvsi_merges_set(&r->t->merges, &merge, r->err);
}

static kvsi_bytes span_of(const json_t *text)
{
    return (kvsi_bytes){json_string_value(text), json_string_length(text)};
}

static int is_piece(const reader *r, kvsi_bytes text)
{
    return kvsi_vocabulary_find(&r->t->vocabulary, text.text, text.size) >= 0;
}

/* Splits "a b".  If tokens contain spaces, takes the first split into two tokens. */
static int split_text(const reader *r, kvsi_bytes merge, kvsi_bytes *left, kvsi_bytes *right)
{
    size_t cuts = 0;

    for (size_t at = 1; at + 1 < merge.size; at++) {
        if (merge.text[at] != ' ')
            continue;
        cuts++;
        *left = (kvsi_bytes){merge.text, at};
        *right = (kvsi_bytes){merge.text + at + 1, merge.size - at - 1};
        if (is_piece(r, *left) && is_piece(r, *right))
            return 1;
    }
    return cuts == 1; /* two words that are not tokens: the caller's message names them */
}

/* "a b" or ["a", "b"] */
static int split_merge(const reader *r, const json_t *merge, kvsi_bytes *left, kvsi_bytes *right)
{
    if (json_is_string(merge))
        return split_text(r, span_of(merge), left, right);
    *left = span_of(json_array_get(merge, 0));
    *right = span_of(json_array_get(merge, 1));
    return json_array_size(merge) == 2 && left->size > 0 && right->size > 0;
}

static kvs_status read_merges(const reader *r, json_t *model)
{
    const json_t *merges = json_object_get(model, "merges"), *merge;
    kvsi_text joined = {0};
    kvs_status st = KVS_OK;
    size_t rank;

    if (merges && !json_is_array(merges))
        return kvsi_fail(r->err, KVS_E_FORMAT, "'%s': key 'merges': expected an array", r->what);
    json_array_foreach(merges, rank, merge) {
        kvsi_bytes left, right;

        if (!split_merge(r, merge, &left, &right)) {
            st = kvsi_fail(r->err, KVS_E_FORMAT,
                           "'%s': merge %zu: expected two tokens, as in \"a b\"", r->what, rank);
            goto out;
        }
        TRY_OUT(add_merge(r, &joined, left, right, rank));
    }
out:
    kvsi_text_release(&joined);
    return st;
}

/* Refuses options that would change ids and are not implemented. */
static kvs_status refuse_options(const reader *r, const json_t *model)
{
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    const json_t *dropout = json_object_get(model, "dropout");
    const json_t *type = json_object_get(model, "type");

    if (type && (!json_is_string(type) || strcmp(json_string_value(type), "BPE") != 0))
        return kvsi_fail(r->err, KVS_E_UNSUPPORTED, "'%s': model '%s' is not supported, only BPE",
                         r->what, json_is_string(type) ? json_string_value(type) : "?");
    if (dropout && !json_is_null(dropout) && json_number_value(dropout) != 0)
        return kvsi_fail(r->err, KVS_E_UNSUPPORTED, "'%s': 'dropout' of merges is not supported",
                         r->what);
    for (size_t i = 0; i < 2; i++) {
        const json_t *affix = json_object_get(model, affixes[i]);

        if (affix && !json_is_null(affix) && json_string_length(affix) > 0)
            return kvsi_fail(r->err, KVS_E_UNSUPPORTED, "'%s': '%s' is not supported", r->what,
                             affixes[i]);
    }
    return KVS_OK;
}

static kvs_status read_unknown(const reader *r, const json_t *model)
{
    const json_t *unknown = json_object_get(model, "unk_token");

    if (!unknown || json_is_null(unknown))
        return KVS_OK;
    if (json_is_string(unknown))
        r->t->unknown = kvsi_vocabulary_find(&r->t->vocabulary, json_string_value(unknown),
                                             json_string_length(unknown));
    if (r->t->unknown < 0)
        return kvsi_fail(r->err, KVS_E_FORMAT, "'%s': key 'unk_token': '%s' is not a token",
                         r->what, json_is_string(unknown) ? json_string_value(unknown) : "?");
    return KVS_OK;
}

static kvs_status read_model(const reader *r, json_t *model)
{
    kvs_tokenizer *t = r->t;

    if (!json_is_object(model))
        return kvsi_fail(r->err, KVS_E_FORMAT, "'%s': key 'model': expected an object", r->what);
    TRY(refuse_options(r, model));
    TRY(read_vocabulary(r, model));
    TRY(read_merges(r, model));
    TRY(read_unknown(r, model));
    TRY(kvsi_json_get_bool(&t->byte_fallback, model, "byte_fallback", r->what, r->err));
    TRY(kvsi_json_get_bool(&t->ignore_merges, model, "ignore_merges", r->what, r->err));
    return kvsi_json_get_bool(&t->fuse_unknown, model, "fuse_unk", r->what, r->err);
}

/* Finds the ids of bytes: of <0x00> to <0xFF>, or of the characters that represent bytes. */
static void find_bytes(kvs_tokenizer *t)
{
    const kvsi_components *steps = &t->pre_tokenizers;

    t->byte_words = steps->count > 0 && steps->list[steps->count - 1].kind == KVSI_BYTE_LEVEL;
    for (unsigned byte = 0; byte < 256; byte++) {
        char name[8];
        size_t size = 6;

        snprintf(name, sizeof name, "<0x%02X>", byte);
        if (t->byte_words)
            size = kvsi_utf8_put(name, kvsi_byte_character((unsigned char)byte));
        t->byte_ids[byte] = kvsi_vocabulary_find(&t->vocabulary, name, size);
    }
}

/* ---- added tokens ---------------------------------------------------------------------------- */

/* Adds the content to the vocabulary, or checks the id it has there. */
static kvs_status place_added(const reader *r, const char *content, uint64_t id)
{
    const kvsi_vocabulary *v = &r->t->vocabulary;
    const int32_t found = kvsi_vocabulary_find(v, content, strlen(content));

    if (found < 0)
        return set_piece(r, content, id);
    if ((uint64_t)found != id)
        return kvsi_fail(r->err, KVS_E_FORMAT,
                         "'%s': added token '%s' has id %llu, but the vocabulary has it as %d",
                         r->what, content, (unsigned long long)id, (int)found);
    return KVS_OK;
}

static kvs_status index_added(const reader *r, const char *content, int normalized, size_t index)
{
    kvsi_workspace *w = NULL;
    kvsi_text text = {0};
    kvs_status st;

    TRY_OUT(kvsi_workspace_take(&w, r->t->workspaces, r->err));
    kvsi_text_add(&text, "");
    if (normalized)
        TRY_OUT(kvsi_normalize(&r->t->normalizers, w->matcher, &text, content, strlen(content),
                               r->err));
    else
        kvsi_text_add(&text, content);
    TRY_OUT(kvsi_text_check(&text, r->err));
    TRY_OUT(kvsi_trie_add(normalized ? &r->t->added_normalized : &r->t->added_raw, text.data,
                          text.length, (int32_t)index, r->err));
out:
    kvsi_workspace_put(r->t->workspaces, w, st);
    kvsi_text_release(&text);
    return st;
}

static kvs_status read_added_token(const reader *r, const json_t *value)
{
    kvs_tokenizer *t = r->t;
    kvsi_added *added;
    const char *content = NULL;
    size_t id = 0;
    int normalized;

    TRY(kvsi_array_reserve(&t->added, &t->added_capacity, t->added_count + 1, sizeof *t->added,
                           r->err));
    added = t->added + t->added_count;
    TRY(kvsi_json_require(value, "content", r->what, r->err));
    TRY(kvsi_json_require(value, "id", r->what, r->err));
    TRY(kvsi_json_get_text(&content, value, "content", r->what, r->err));
    TRY(kvsi_json_get_size(&id, value, "id", r->what, r->err));
    TRY(kvsi_json_get_bool(&added->special, value, "special", r->what, r->err));
    TRY(kvsi_json_get_bool(&added->single_word, value, "single_word", r->what, r->err));
    TRY(kvsi_json_get_bool(&added->strip_left, value, "lstrip", r->what, r->err));
    TRY(kvsi_json_get_bool(&added->strip_right, value, "rstrip", r->what, r->err));
    normalized = !added->special;
    TRY(kvsi_json_get_bool(&normalized, value, "normalized", r->what, r->err));
    TRY(place_added(r, content, id));
    added->id = (int32_t)id;
    added->normalized = normalized;
    return index_added(r, content, normalized, t->added_count++);
}

static kvs_status read_added(const reader *r, const json_t *list)
{
    const json_t *value;
    size_t i;

    if (list && !json_is_null(list) && !json_is_array(list))
        return kvsi_fail(r->err, KVS_E_FORMAT, "'%s': key 'added_tokens': expected an array",
                         r->what);
    json_array_foreach(list, i, value) {
        TRY(read_added_token(r, value));
    }
    return KVS_OK;
}

/* ---- post-processors ------------------------------------------------------------------------- */

/* A template has few tokens, but a small file could repeat a long list many times. */
static kvs_status add_template_ids(const reader *r, kvsi_ids *out, const int32_t *ids, size_t count)
{
    enum { TEMPLATE_IDS_MAX = 256 };

    if (out->count + count > TEMPLATE_IDS_MAX)
        return kvsi_fail(r->err, KVS_E_LIMIT, "'%s': more than %d tokens on one side of a text",
                         r->what, (int)TEMPLATE_IDS_MAX);
    return kvsi_ids_add(out, ids, count, r->err);
}

static kvs_status add_special(const reader *r, const json_t *template, const char *name,
                              kvsi_ids *out)
{
    const json_t *token = json_object_get(json_object_get(template, "special_tokens"), name);
    const json_t *ids = json_object_get(token, "ids"), *value;
    size_t i;

    if (!json_is_array(ids))
        return kvsi_fail(r->err, KVS_E_FORMAT, "'%s': template token '%s' has no ids", r->what,
                         name);
    json_array_foreach(ids, i, value) {
        const json_int_t number = json_is_integer(value) ? json_integer_value(value) : -1;
        const int32_t id = (int32_t)number;
        kvs_status st;

        if (number < 0 || number >= KVSI_TOKENS_MAX ||
            !kvsi_vocabulary_at(&r->t->vocabulary, (size_t)number).text)
            return kvsi_fail(r->err, KVS_E_FORMAT,
                             "'%s': template token '%s' has an id outside the vocabulary", r->what,
                             name);
        st = add_template_ids(r, out, &id, 1);
        if (st != KVS_OK)
            return st;
    }
    return KVS_OK;
}

/* Each template is applied outside the ones before it. */
static kvs_status read_template(const reader *r, const json_t *value)
{
    const json_t *parts = json_object_get(value, "single"), *part;
    kvsi_ids before = {0};
    size_t i, texts = 0;
    kvs_status st = KVS_OK;

    json_array_foreach(parts, i, part) {
        const char *text =
            json_string_value(json_object_get(json_object_get(part, "Sequence"), "id"));
        const char *special =
            json_string_value(json_object_get(json_object_get(part, "SpecialToken"), "id"));

        if (special) {
            TRY_OUT(add_special(r, value, special, texts ? &r->t->after : &before));
        } else if (!text || strcmp(text, "A") != 0 || texts++) {
            st = kvsi_fail(r->err, KVS_E_FORMAT,
                           "'%s': expected Sequence 'A' once in a template for one text", r->what);
            goto out;
        }
    }
    if (!texts) {
        st = kvsi_fail(r->err, KVS_E_FORMAT, "'%s': a template has no Sequence", r->what);
        goto out;
    }
    TRY_OUT(add_template_ids(r, &before, r->t->before.ids, r->t->before.count));
    kvsi_free(r->t->before.ids);
    r->t->before = before;
    before = (kvsi_ids){0};
out:
    kvsi_free(before.ids);
    return st;
}

static kvs_status read_post_processor(const reader *r, const json_t *value, int depth)
{
    const char *type = json_string_value(json_object_get(value, "type"));
    const json_t *parts, *part;
    size_t i;

    if (!value || json_is_null(value) || (type && strcmp(type, "ByteLevel") == 0))
        return KVS_OK; /* ByteLevel moves offsets, not ids */
    if (type && strcmp(type, "TemplateProcessing") == 0)
        return read_template(r, value);
    if (!type || strcmp(type, "Sequence") != 0 || depth > 8)
        return kvsi_fail(r->err, KVS_E_UNSUPPORTED, "'%s': post-processor '%s' is not supported",
                         r->what, type ? type : "?");
    parts = json_object_get(value, "processors");
    json_array_foreach(parts, i, part) {
        TRY(read_post_processor(r, part, depth + 1));
    }
    return KVS_OK;
}

/* ---- the tokenizer --------------------------------------------------------------------------- */

/* tokenizer.json does not name BOS and EOS: they are the template's first tokens, or have usual
 * names. */
static int32_t find_special(const kvs_tokenizer *t, const kvsi_ids *template_ids,
                            const char *const *names)
{
    if (template_ids->count > 0)
        return template_ids->ids[0];
    for (; *names; names++) {
        const int32_t id = kvsi_vocabulary_find(&t->vocabulary, *names, strlen(*names));

        for (size_t i = 0; id >= 0 && i < t->added_count; i++)
            if (t->added[i].id == id && t->added[i].special)
                return id;
    }
    return -1;
}

static void find_bos_eos(kvs_tokenizer *t)
{
    static const char *const bos_names[] = {"<s>", "<bos>", "<|begin_of_text|>", "<|endoftext|>",
                                            NULL};
    static const char *const eos_names[] = {"</s>", "<eos>", "<|end_of_text|>", "<|endoftext|>",
                                            NULL};

    t->bos = find_special(t, &t->before, bos_names);
    t->eos = find_special(t, &t->after, eos_names);
    t->document_bos = t->bos;
    t->document_eos = t->eos;
}

static kvs_status read_document(const reader *r)
{
    kvs_tokenizer *t = r->t;
    json_t *document = t->document, *model = json_object_get(document, "model");

    TRY(read_model(r, model));
    TRY(kvsi_components_read(&t->normalizers, KVSI_NORMALIZER,
                             json_object_get(document, "normalizer"), r->what, r->err));
    TRY(kvsi_components_read(&t->pre_tokenizers, KVSI_PRE_TOKENIZER,
                             json_object_get(document, "pre_tokenizer"), r->what, r->err));
    TRY(kvsi_components_read(&t->decoders, KVSI_DECODER, json_object_get(document, "decoder"),
                             r->what, r->err));
    TRY(read_added(r, json_object_get(document, "added_tokens")));
    TRY(read_post_processor(r, json_object_get(document, "post_processor"), 0));
    t->vocab = t->vocabulary.count;
    if (t->vocab == 0)
        return kvsi_fail(r->err, KVS_E_FORMAT, "'%s': the vocabulary is empty", r->what);
    find_bytes(t);
    find_bos_eos(t);
    if (!t->byte_words) /* byte words are already split by the pre-tokenizer */
        TRY(kvsi_find_joinable(t, r->err));
    json_object_del(model, "vocab"); /* stored in `vocabulary` and `merges` now */
    json_object_del(model, "merges");
    return KVS_OK;
}

kvs_status kvsi_tokenizer_from_json(kvs_tokenizer **out, json_t *document, const char *what,
                                    kvs_err *err)
{
    kvs_tokenizer *t = kvsi_alloc(1, sizeof *t);
    const reader r = {t, what, err};
    kvs_status st;

    *out = NULL;
    if (!t) {
        json_decref(document);
        return kvsi_no_memory(err, "'%s'", what);
    }
    t->document = document;
    t->unknown = t->bos = t->eos = -1;
    TRY_OUT(kvsi_workspaces_create(&t->workspaces, err));
    TRY_OUT(kvsi_json_check("a tokenizer", err));
    TRY_OUT(read_document(&r));
    TRY_OUT(kvsi_json_check("a tokenizer", err));
    *out = t;
    t = NULL;
out:
    kvs_tokenizer_free(t);
    return st;
}
