/* Loading, saving and properties of a tokenizer. */
#include "tokenizer/tokenizer.h"

#include "base/files.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "tokenizer/characters.h"
#include "tokenizer/tokenizer_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- loading --------------------------------------------------------------------------------- */

static kvs_status load_bytes(kvs_tokenizer **out, kvs_err *err)
{
    json_t *document = kvsi_byte_level_json("");
    kvs_status st = KVS_OK;

    for (unsigned byte = 0; document && byte < 256; byte++) {
        char piece[4];
        const size_t size = kvsi_utf8_put(piece, kvsi_byte_character((unsigned char)byte));

        TRY_OUT(kvsi_tokenizer_json_add_piece(document, piece, size, byte, err));
    }
    if (!document)
        return kvsi_no_memory(err, "a tokenizer");
    st = kvsi_tokenizer_from_json(out, json_incref(document), "bytes", err);
out:
    json_decref(document);
    return st;
}

static kvs_status load_json(kvs_tokenizer **out, const char *path, kvs_err *err)
{
    json_t *document = NULL;
    kvsi_tokenizer_config config_files = {0};
    kvs_tokenizer *t = NULL;
    kvs_status st;

    TRY_OUT(kvsi_json_read(&document, path, KVSI_TOKENIZER_FILE_MAX, err));
    TRY_OUT(kvsi_tokenizer_from_json(&t, document, path, err));
    TRY_OUT(kvsi_tokenizer_config_open(&config_files, path, "tokenizer.json", err));
    TRY_OUT(kvsi_tokenizer_config_set_bos_eos(&config_files, t, err));
    *out = t;
    t = NULL;
out:
    kvsi_tokenizer_config_close(&config_files);
    kvs_tokenizer_free(t);
    return st;
}

static kvs_status load_gpt2_pair(kvs_tokenizer **out, const char *path, kvs_err *err)
{
    char *dir = kvsi_strdup(path), *slash = dir ? strrchr(dir, '/') : NULL;
    kvs_status st;

    if (!dir)
        return kvsi_no_memory(err, "'%s'", path);
    if (slash)
        slash[slash == dir] = '\0';
    st = kvsi_tokenizer_load_gpt2(out, slash ? dir : ".", err);
    kvsi_free(dir);
    return st;
}

/* Detects the format by the first bytes, not by the name. */
static kvs_status load_file(kvs_tokenizer **out, const char *path, kvs_err *err)
{
    unsigned char start[16] = {0};
    FILE *file = fopen(path, "rb");
    size_t size, space = 0;

    if (!file)
        return kvsi_fail_errno(err, "open", path);
    size = fread(start, 1, sizeof start, file);
    fclose(file);
    while (space < size && strchr(" \t\r\n", start[space]))
        space++;
    if (size >= 4 && memcmp(start, "GGUF", 4) == 0)
        return kvsi_tokenizer_load_gguf(out, path, err);
    if (space < size && start[space] == '{')
        return load_json(out, path, err);
    if (size >= 8 && memcmp(start, "#version", 8) == 0)
        return load_gpt2_pair(out, path, err);
    if (size >= 8 && start[2] == 0 && start[3] == 0)
        return kvsi_tokenizer_load_llama2c(out, path, err);
    if (size >= 2 && start[0] == '\n')
        return kvsi_tokenizer_load_sentencepiece(out, path, err);
    return kvsi_fail(err, KVS_E_FORMAT,
                     "'%s' is not a tokenizer: expected a tokenizer.json, a SentencePiece model, a "
                     "llama2.c tokenizer, GGUF or vocab.bpe",
                     path);
}

int kvsi_folder_has_tokenizer(const char *dir)
{
    char *path = kvsi_find_tokenizer(dir);
    const int found = path != NULL || kvsi_has_gpt2_files(dir);

    kvsi_free(path);
    return found;
}

static kvs_status load_folder(kvs_tokenizer **out, const char *dir, kvs_err *err)
{
    char *path = kvsi_find_tokenizer(dir);
    kvs_status st;

    if (path) {
        st = load_file(out, path, err);
        kvsi_free(path);
        return st;
    }
    if (kvsi_has_gpt2_files(dir))
        return kvsi_tokenizer_load_gpt2(out, dir, err);
    return kvsi_fail(err, KVS_E_IO,
                     "no tokenizer in '%s': expected tokenizer.json, .model, .bin or .gguf, or "
                     "encoder.json and vocab.bpe",
                     dir);
}

kvs_status kvs_tokenizer_load(kvs_tokenizer **out, const char *path, kvs_err *err)
{
    struct stat info;

    NEED(out);
    *out = NULL;
    NEED(path);
    if (strcmp(path, "bytes") == 0)
        return load_bytes(out, err);
    if (stat(path, &info) != 0)
        return kvsi_fail_errno(err, "open", path);
    if (S_ISDIR(info.st_mode))
        return load_folder(out, path, err);
    if (!S_ISREG(info.st_mode))
        return kvsi_fail(err, KVS_E_IO, "cannot read '%s': not a regular file", path);
    return load_file(out, path, err);
}

void kvs_tokenizer_free(kvs_tokenizer *t)
{
    if (!t)
        return;
    json_decref(t->document);
    kvsi_vocabulary_release(&t->vocabulary);
    kvsi_merges_release(&t->merges);
    kvsi_merges_release(&t->joinable);
    kvsi_trie_release(&t->user_defined);
    kvsi_free(t->scores);
    kvsi_free(t->kinds);
    kvsi_components_release(&t->normalizers);
    kvsi_components_release(&t->pre_tokenizers);
    kvsi_components_release(&t->decoders);
    kvsi_free(t->added);
    kvsi_trie_release(&t->added_raw);
    kvsi_trie_release(&t->added_normalized);
    kvsi_free(t->before.ids);
    kvsi_free(t->after.ids);
    kvsi_workspaces_free(t->workspaces);
    kvsi_free(t);
}

/* ---- saving ---------------------------------------------------------------------------------- */

static json_t *vocabulary_to_json(const kvs_tokenizer *t)
{
    json_t *vocab = json_object();
    kvsi_text key = {0};

    for (size_t id = 0; vocab && id < t->vocab; id++) {
        const kvsi_bytes piece = kvsi_vocabulary_at(&t->vocabulary, id);

        if (!piece.text)
            continue;
        key.length = 0;
        kvsi_text_add_bytes(&key, piece.text, piece.size);
        if (key.failed || json_object_set_new(vocab, key.data, json_integer((json_int_t)id)) != 0) {
            json_decref(vocab);
            vocab = NULL;
        }
    }
    kvsi_text_release(&key);
    return vocab;
}

/* "a b", which every reader accepts, or ["a", "b"] */
static json_t *merge_to_json(kvsi_bytes left, kvsi_bytes right, int as_pair)
{
    kvsi_text text = {0};
    json_t *merge;

    if (as_pair)
        return json_pack("[s%, s%]", left.text, left.size, right.text, right.size);
    kvsi_text_add_bytes(&text, left.text, left.size);
    kvsi_text_add(&text, " ");
    kvsi_text_add_bytes(&text, right.text, right.size);
    merge = text.failed ? NULL : json_stringn(text.data, text.length);
    kvsi_text_release(&text);
    return merge;
}

/* Then "a b" is ambiguous, so all merges are written as pairs; readers expect one form for all. */
static int has_spaces(const kvs_tokenizer *t)
{
    for (size_t id = 0; id < t->vocab; id++) {
        const kvsi_bytes piece = kvsi_vocabulary_at(&t->vocabulary, id);

        if (piece.text && memchr(piece.text, ' ', piece.size))
            return 1;
    }
    return 0;
}

static json_t *merges_to_json(const kvs_tokenizer *t)
{
    const int as_pairs = has_spaces(t);
    kvsi_merge *list = kvsi_merges_list(&t->merges);
    json_t *merges = list ? json_array() : NULL;

    for (size_t i = 0; merges && i < t->merges.count; i++) {
        const kvsi_bytes left = kvsi_vocabulary_at(&t->vocabulary, (size_t)list[i].left);
        const kvsi_bytes right = kvsi_vocabulary_at(&t->vocabulary, (size_t)list[i].right);

        if ((size_t)list[i].left >= t->vocab || (size_t)list[i].right >= t->vocab)
            continue; /* the character is not a token, so merges cannot name it */
        if (json_array_append_new(merges, merge_to_json(left, right, as_pairs)) != 0) {
            json_decref(merges);
            merges = NULL;
        }
    }
    kvsi_free(list);
    return merges;
}

int kvsi_tokenizer_fits_json(const kvs_tokenizer *t)
{
    return !t->is_sentencepiece || (t->user_defined.count == 0 && t->vocabulary.count == t->vocab);
}

json_t *kvsi_tokenizer_to_json(const kvs_tokenizer *t)
{
    json_t *document = json_copy(t->document);
    json_t *model = json_copy(json_object_get(t->document, "model"));

    if (!document || !model || json_object_set_new(model, "vocab", vocabulary_to_json(t)) != 0 ||
        json_object_set_new(model, "merges", merges_to_json(t)) != 0 ||
        json_object_set(document, "model", model) != 0) {
        json_decref(document);
        document = NULL;
    }
    json_decref(model);
    return document;
}

kvs_status kvs_tokenizer_save(const kvs_tokenizer *t, const char *path, kvs_err *err)
{
    json_t *document;
    kvs_status st;

    NEED_AS(t, tokenizer);
    NEED(path);
    document = kvsi_tokenizer_to_json(t);
    st = document ? kvsi_json_write(document, path, err) : kvsi_no_memory(err, "a tokenizer");
    json_decref(document);
    if (st == KVS_OK && (t->bos != t->document_bos || t->eos != t->document_eos))
        st = kvsi_tokenizer_config_write(t, path, err);
    return st;
}

/* ---- properties ------------------------------------------------------------------------------ */

size_t kvs_tokenizer_vocab(const kvs_tokenizer *t)
{
    return t ? t->vocab : 0;
}

int32_t kvs_tokenizer_bos(const kvs_tokenizer *t)
{
    return t ? t->bos : -1;
}

int32_t kvs_tokenizer_eos(const kvs_tokenizer *t)
{
    return t ? t->eos : -1;
}

int32_t kvs_tokenizer_find(const kvs_tokenizer *t, const char *piece)
{
    int32_t id;

    if (!t || !piece)
        return -1;
    id = kvsi_vocabulary_find(&t->vocabulary, piece, strlen(piece));
    return id >= 0 && (size_t)id < t->vocab ? id : -1;
}

/* FNV-1a */
static void hash_data(uint64_t *hash, const void *data, size_t size)
{
    const unsigned char *bytes = data;

    for (size_t i = 0; i < size; i++)
        *hash = (*hash ^ bytes[i]) * UINT64_C(0x100000001b3);
}

static void hash_number(uint64_t *hash, uint64_t number)
{
    for (unsigned shift = 0; shift < 64; shift += 8) {
        const unsigned char byte = (unsigned char)(number >> shift);

        hash_data(hash, &byte, 1);
    }
}

/* 0 = out of memory.  jansson goes on if memory runs out for a key, and its text then lacks it. */
static int hash_member(uint64_t *hash, const json_t *document, const char *key)
{
    const json_t *member = json_object_get(document, key);
    char *text = json_dumps(member, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);

    if (text)
        hash_data(hash, text, strlen(text));
    hash_number(hash, text != NULL); /* a missing member hashes differently from an empty one */
    free(text);
    return (text || !member) && !kvsi_nomem_is_set();
}

uint64_t kvs_tokenizer_hash(const kvs_tokenizer *t)
{
    static const char *const members[] = {"added_tokens", "normalizer", "pre_tokenizer",
                                          "post_processor", "model"};
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    kvsi_merge *list;
    int done;

    if (!t)
        return 0;
    list = kvsi_merges_list(&t->merges);
    done = list != NULL;
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        done &= hash_member(&hash, t->document, members[i]);
    for (size_t id = 0; id < t->vocabulary.count; id++) {
        const kvsi_bytes piece = kvsi_vocabulary_at(&t->vocabulary, id);

        hash_number(&hash, piece.text ? piece.size : UINT64_MAX);
        hash_data(&hash, piece.text, piece.size);
    }
    for (size_t i = 0; list && i < t->merges.count; i++) {
        hash_number(&hash, (uint64_t)list[i].left << 32 | (uint32_t)list[i].right);
        hash_number(&hash, list[i].rank);
    }
    kvsi_free(list);
    return done ? hash : 0;
}
