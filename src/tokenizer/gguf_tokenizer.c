/* Reads the vocabulary of a GGUF file: SentencePiece ("llama"), byte-level ("gpt2"), or a
 * tokenizer.json. */
#include "base/memory.h"
#include "formats/gguf.h"
#include "tokenizer/tokenizer_files.h"

#include <stdio.h>
#include <string.h>

#define KEY(name) "tokenizer.ggml." name
#define DOCUMENT_KEY "tokenizer.huggingface.json"

static int is(const char *text, size_t size, const char *name)
{
    return size == strlen(name) && memcmp(text, name, size) == 0;
}

static kvs_status get_flag(int *out, const kvsi_gguf *file, const char *key, kvs_err *err)
{
    int64_t value = *out;
    const kvs_status st = kvsi_gguf_get_whole(&value, file, key, err);

    *out = value != 0;
    return st;
}

/* *out = the token types, or NULL if the file has none. */
static kvs_status get_kinds(const kvsi_gguf_value **out, const kvsi_gguf *file, size_t count,
                            const char *path, kvs_err *err)
{
    kvs_status st;

    *out = NULL;
    if (!kvsi_gguf_find(file, KEY("token_type")))
        return KVS_OK;
    st = kvsi_gguf_get_array(out, file, KEY("token_type"), KVSI_GGUF_I32, err);
    if (st == KVS_OK && (*out)->count != count)
        st = kvsi_fail(err, KVS_E_FORMAT, "'%s': %zu tokens, but %zu token types", path, count,
                       (*out)->count);
    return st;
}

static int kind_at(const kvsi_gguf_value *kinds, size_t id)
{
    return kinds ? kvsi_gguf_int_at(kinds, id) : KVSI_PIECE_NORMAL;
}

/* ---- SentencePiece --------------------------------------------------------------------------- */

static kvs_status read_pieces(kvsi_sp_model *sp, const kvsi_gguf *file, const char *path,
                              kvs_err *err)
{
    const kvsi_gguf_value *tokens, *scores, *kinds;
    size_t at = 0;

    TRY(kvsi_gguf_get_array(&tokens, file, KEY("tokens"), KVSI_GGUF_TEXT, err));
    TRY(kvsi_gguf_get_array(&scores, file, KEY("scores"), KVSI_GGUF_F32, err));
    TRY(get_kinds(&kinds, file, tokens->count, path, err));
    if (scores->count != tokens->count)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s': %zu tokens, but %zu scores", path, tokens->count,
                         scores->count);
    for (size_t id = 0; id < tokens->count; id++) {
        kvsi_sp_piece piece = {.score = kvsi_gguf_float_at(scores, id), .kind = kind_at(kinds, id)};

        piece.text = kvsi_gguf_next_text(tokens, &at, &piece.size);
        TRY(kvsi_sp_model_add(sp, &piece, err));
    }
    return KVS_OK;
}

static kvs_status get_character_map(kvsi_sp_model *sp, const kvsi_gguf *file, kvs_err *err)
{
    static const char key[] = KEY("precompiled_charsmap");
    const kvsi_gguf_value *bytes = NULL;
    kvs_status st;

    if (!kvsi_gguf_find(file, key))
        return KVS_OK;
    st = kvsi_gguf_get_array(&bytes, file, key, KVSI_GGUF_U8, err);
    if (st == KVS_OK && bytes->count > 0) {
        sp->character_map = (const char *)bytes->data;
        sp->character_map_size = bytes->count;
    }
    return st;
}

static kvs_status load_sentencepiece(kvs_tokenizer **out, const kvsi_gguf *file, const char *path,
                                     kvs_err *err)
{
    kvsi_sp_model sp;
    kvs_status st;

    kvsi_sp_model_init(&sp);
    TRY_OUT(read_pieces(&sp, file, path, err));
    TRY_OUT(kvsi_gguf_get_whole(&sp.unknown, file, KEY("unknown_token_id"), err));
    TRY_OUT(kvsi_gguf_get_whole(&sp.bos, file, KEY("bos_token_id"), err));
    TRY_OUT(kvsi_gguf_get_whole(&sp.eos, file, KEY("eos_token_id"), err));
    TRY_OUT(get_flag(&sp.add_bos, file, KEY("add_bos_token"), err));
    TRY_OUT(get_flag(&sp.add_eos, file, KEY("add_eos_token"), err));
    TRY_OUT(get_flag(&sp.add_dummy_prefix, file, KEY("add_space_prefix"), err));
    TRY_OUT(get_flag(&sp.remove_extra_spaces, file, KEY("remove_extra_whitespaces"), err));
    TRY_OUT(get_character_map(&sp, file, err));
    TRY_OUT(kvsi_tokenizer_from_sp_model(out, &sp, path, err));
out:
    kvsi_free(sp.pieces);
    return st;
}

/* ---- byte-level ------------------------------------------------------------------------------ */

/* GGUF files store the name of their pre-tokenizer, not its expression. */
static const struct {
    const char *name, *expression; /* NULL = GPT-2's */
    int ignore_merges;
    int add_bos; /* default if the file has no add_bos_token */
} splits[] = {
    {"gpt-2", NULL, 0, 0},
    {"llama-bpe",
     "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
     "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     1, 1},
    {"qwen2",
     "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
     "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     0, 0},
};

static int is_same(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

const char *kvsi_gguf_split_name(const char *expression, int ignore_merges)
{
    for (size_t i = 0; i < sizeof splits / sizeof *splits; i++)
        if (is_same(splits[i].expression, expression) && splits[i].ignore_merges == ignore_merges)
            return splits[i].name;
    return NULL;
}

static kvs_status make_document(json_t **out, int *add_bos, const kvsi_gguf *file, const char *path,
                                kvs_err *err)
{
    const char *name = "gpt-2";
    size_t size = strlen(name);

    TRY(kvsi_gguf_get_text(&name, &size, file, KEY("pre"), err));
    for (size_t i = 0; i < sizeof splits / sizeof *splits; i++) {
        if (!is(name, size, splits[i].name))
            continue;
        *out = kvsi_byte_level_json(splits[i].expression);
        *add_bos = splits[i].add_bos;
        if (!*out)
            return kvsi_no_memory(err, "'%s'", path);
        if (splits[i].ignore_merges)
            json_object_set_new(json_object_get(*out, "model"), "ignore_merges", json_true());
        return KVS_OK;
    }
    return kvsi_fail(err, KVS_E_UNSUPPORTED, "'%s': pre-tokenizer '%.*s' is not supported", path,
                     (int)(size < 64 ? size : 64), name);
}

static kvs_status add_tokens(json_t *document, const kvsi_gguf *file, const char *path,
                             kvs_err *err)
{
    const kvsi_gguf_value *tokens, *merges, *kinds;
    size_t at = 0, size;

    TRY(kvsi_gguf_get_array(&tokens, file, KEY("tokens"), KVSI_GGUF_TEXT, err));
    TRY(kvsi_gguf_get_array(&merges, file, KEY("merges"), KVSI_GGUF_TEXT, err));
    TRY(get_kinds(&kinds, file, tokens->count, path, err));
    for (size_t id = 0; id < tokens->count; id++) {
        const char *text = kvsi_gguf_next_text(tokens, &at, &size);
        const int kind = kind_at(kinds, id);

        TRY(kvsi_tokenizer_json_add_piece(document, text, size, id, err));
        if (kind == KVSI_PIECE_CONTROL || kind == KVSI_PIECE_USER_DEFINED)
            TRY(kvsi_tokenizer_json_add_token(document, text, size, id, kind == KVSI_PIECE_CONTROL,
                                              err));
    }
    at = 0;
    for (size_t i = 0; i < merges->count; i++) {
        const char *merge = kvsi_gguf_next_text(merges, &at, &size);

        TRY(kvsi_tokenizer_json_add_merge(document, merge, size, err));
    }
    return KVS_OK;
}

/* Sets BOS and EOS if the file has them. */
static kvs_status set_bos_eos(kvs_tokenizer *t, const kvsi_gguf *file, kvs_err *err)
{
    int64_t bos = -1, eos = -1;

    TRY(kvsi_gguf_get_whole(&bos, file, KEY("bos_token_id"), err));
    TRY(kvsi_gguf_get_whole(&eos, file, KEY("eos_token_id"), err));
    if (bos >= 0 && (uint64_t)bos < t->vocab)
        t->bos = (int32_t)bos;
    if (eos >= 0 && (uint64_t)eos < t->vocab)
        t->eos = (int32_t)eos;
    return KVS_OK;
}

/* Adds the template that puts these tokens around every text; -1 = none. */
static kvs_status set_template(kvs_tokenizer *t, int32_t before, int32_t after, kvs_err *err)
{
    const int32_t ids[2] = {before, after};
    kvsi_ids *const sides[2] = {&t->before, &t->after};
    char names[2][128];

    if (before < 0 && after < 0)
        return KVS_OK;
    for (size_t i = 0; i < 2; i++) {
        const kvsi_bytes piece =
            kvsi_vocabulary_at(&t->vocabulary, ids[i] >= 0 ? (size_t)ids[i] : SIZE_MAX);

        if (piece.size >= sizeof names[i])
            return kvsi_fail(err, KVS_E_LIMIT,
                             "the name of the BOS or EOS token is longer than 127 bytes");
        snprintf(names[i], sizeof names[i], "%.*s", (int)piece.size, piece.text ? piece.text : "");
        if (ids[i] >= 0)
            TRY(kvsi_ids_add(sides[i], ids + i, 1, err));
    }
    return kvsi_tokenizer_json_set_template(
        t->document, before >= 0 ? names[0] : NULL, (size_t)(before >= 0 ? before : 0),
        after >= 0 ? names[1] : NULL, (size_t)(after >= 0 ? after : 0), err);
}

static kvs_status load_byte_level(kvs_tokenizer **out, const kvsi_gguf *file, const char *path,
                                  kvs_err *err)
{
    json_t *document = NULL;
    kvs_tokenizer *t = NULL;
    int add_bos = 0, add_eos = 0;
    kvs_status st;

    TRY_OUT(make_document(&document, &add_bos, file, path, err));
    TRY_OUT(add_tokens(document, file, path, err));
    TRY_OUT(get_flag(&add_bos, file, KEY("add_bos_token"), err));
    TRY_OUT(get_flag(&add_eos, file, KEY("add_eos_token"), err));
    TRY_OUT(kvsi_tokenizer_from_json(&t, json_incref(document), path, err));
    TRY_OUT(set_bos_eos(t, file, err));
    TRY_OUT(set_template(t, add_bos ? t->bos : -1, add_eos ? t->eos : -1, err));
    *out = t;
    t = NULL;
out:
    kvs_tokenizer_free(t);
    json_decref(document);
    return st;
}

/* ---- any of them ----------------------------------------------------------------------------- */

static kvs_status load_document(kvs_tokenizer **out, const kvsi_gguf *file, const char *text,
                                size_t size, const char *path, kvs_err *err)
{
    json_t *document = NULL;
    kvs_tokenizer *t = NULL;
    kvs_status st;

    TRY_OUT(kvsi_json_parse(&document, text, size, path, err));
    TRY_OUT(kvsi_tokenizer_from_json(&t, document, path, err));
    TRY_OUT(set_bos_eos(t, file, err));
    *out = t;
    t = NULL;
out:
    kvs_tokenizer_free(t);
    return st;
}

kvs_status kvsi_gguf_has_tokenizer(int *out, const char *path, kvs_err *err)
{
    kvsi_gguf *file = NULL;
    const kvs_status st = kvsi_gguf_open(&file, path, err);

    *out =
        st == KVS_OK && (kvsi_gguf_find(file, KEY("tokens")) || kvsi_gguf_find(file, DOCUMENT_KEY));
    kvsi_gguf_close(file);
    return st;
}

kvs_status kvsi_tokenizer_load_gguf(kvs_tokenizer **out, const char *path, kvs_err *err)
{
    kvsi_gguf *file = NULL;
    const char *model = "", *document = NULL;
    size_t size = 0, document_size = 0;
    kvs_status st;

    *out = NULL;
    TRY_OUT(kvsi_gguf_open(&file, path, err));
    TRY_OUT(kvsi_gguf_get_text(&model, &size, file, KEY("model"), err));
    TRY_OUT(kvsi_gguf_get_text(&document, &document_size, file, DOCUMENT_KEY, err));
    if (size == 0 && document)
        st = load_document(out, file, document, document_size, path, err);
    else if (is(model, size, "llama"))
        st = load_sentencepiece(out, file, path, err);
    else if (is(model, size, "gpt2"))
        st = load_byte_level(out, file, path, err);
    else
        st = kvsi_fail(err, KVS_E_UNSUPPORTED, "'%s': vocabulary '%.*s' is not supported", path,
                       (int)(size < 64 ? size : 64), model);
out:
    kvsi_gguf_close(file);
    return st;
}
