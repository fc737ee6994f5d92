#include "formats/token_ids.h"

#include "base/files.h"
#include "base/memory.h"

enum { FILE_LIMIT = 1 << 20 }; /* bytes of config.json and generation_config.json */

int kvsi_token_ids_has_eos(const kvsi_token_ids *ids, int32_t id)
{
    for (size_t i = 0; i < ids->eos_count; i++)
        if (ids->eos[i] == id)
            return 1;
    return 0;
}

/* The value as an id, or -1 if it is outside the vocabulary. */
static int32_t id_within(int64_t number, size_t vocab)
{
    return number >= 0 && (uint64_t)number < vocab && number <= INT32_MAX ? (int32_t)number : -1;
}

static void add_eos(kvsi_token_ids *ids, int64_t number, size_t vocab)
{
    const int32_t id = id_within(number, vocab);

    if (id >= 0 && !kvsi_token_ids_has_eos(ids, id) && ids->eos_count < KVSI_EOS_MAX)
        ids->eos[ids->eos_count++] = id;
}

json_t *kvsi_token_ids_eos_to_json(const kvsi_token_ids *ids)
{
    return ids->eos_count == 1 ? json_integer(ids->eos[0])
                               : kvsi_json_ids(ids->eos, ids->eos_count);
}

/* ---- config.json and generation_config.json -------------------------------------------------- */

typedef struct source {
    const json_t *object;
    const char *path;
    size_t vocab;
} source;

static kvs_status fail_type(const source *s, const char *key, const char *expected, kvs_err *err)
{
    return kvsi_fail(err, KVS_E_FORMAT, "'%s': key '%s': expected %s", s->path, key, expected);
}

static kvs_status read_eos(kvsi_token_ids *ids, const source *s, kvs_err *err)
{
    static const char key[] = "eos_token_id";
    const json_t *value = json_object_get(s->object, key), *member;
    size_t i;

    if (!value || json_is_null(value))
        return KVS_OK;
    if (!json_is_integer(value) && !json_is_array(value))
        return fail_type(s, key, "a whole number or a list of them", err);
    if (json_array_size(value) > KVSI_EOS_MAX)
        return kvsi_fail(err, KVS_E_LIMIT, "'%s': key '%s': expected at most %d ids, found %zu",
                         s->path, key, (int)KVSI_EOS_MAX, json_array_size(value));
    json_array_foreach(value, i, member) {
        if (!json_is_integer(member))
            return fail_type(s, key, "a whole number or a list of them", err);
    }
    ids->eos_count = 0; /* drop those of the previous file */
    if (json_is_integer(value))
        add_eos(ids, json_integer_value(value), s->vocab);
    json_array_foreach(value, i, member) {
        add_eos(ids, json_integer_value(member), s->vocab);
    }
    return KVS_OK;
}

/* Reads one id if the key exists; some files have a list of one. */
static kvs_status read_id(int32_t *id, const source *s, const char *key, kvs_err *err)
{
    const json_t *value = json_object_get(s->object, key);

    if (json_is_array(value))
        value = json_array_get(value, 0);
    if (!value || json_is_null(value))
        return KVS_OK;
    if (!json_is_integer(value))
        return fail_type(s, key, "a whole number", err);
    *id = id_within(json_integer_value(value), s->vocab);
    return KVS_OK;
}

static kvs_status read_file(kvsi_token_ids *ids, const char *path, size_t vocab, kvs_err *err)
{
    json_t *object = NULL;
    source s = {.path = path, .vocab = vocab};
    kvs_status st;

    TRY_OUT(kvsi_json_read(&object, path, FILE_LIMIT, err));
    s.object = object;
    TRY_OUT(read_id(&ids->bos, &s, "bos_token_id", err));
    TRY_OUT(read_id(&ids->pad, &s, "pad_token_id", err));
    TRY_OUT(read_eos(ids, &s, err));
out:
    json_decref(object);
    return st;
}

kvs_status kvsi_token_ids_read_folder(kvsi_token_ids *out, const char *folder, size_t vocab,
                                      kvs_err *err)
{
    static const char *const names[] = {"config.json", "generation_config.json"};
    kvsi_token_ids ids = KVSI_NO_TOKEN_IDS;
    kvs_status st = KVS_OK;

    for (size_t i = 0; i < sizeof names / sizeof *names && st == KVS_OK; i++) {
        char *path = kvsi_path_join(folder, names[i]);

        if (!path)
            return kvsi_no_memory(err, "'%s'", folder);
        if (kvsi_file_exists(path))
            st = read_file(&ids, path, vocab, err);
        kvsi_free(path);
    }
    *out = ids;
    return st;
}

/* ---- GGUF ------------------------------------------------------------------------------------ */

static kvs_status read_key(int64_t *out, const kvsi_gguf *file, const char *key, kvs_err *err)
{
    *out = -1;
    return kvsi_gguf_get_whole(out, file, key, err);
}

static kvs_status read_list(kvsi_token_ids *ids, const kvsi_gguf *file, size_t vocab, kvs_err *err)
{
    const kvsi_gguf_value *list = NULL;

    TRY(kvsi_gguf_get_array(&list, file, KVSI_GGUF_EOS_LIST, KVSI_GGUF_I32, err));
    if (list->count > KVSI_EOS_MAX)
        return kvsi_fail(err, KVS_E_LIMIT, "key '%s': expected at most %d ids, found %zu",
                         KVSI_GGUF_EOS_LIST, (int)KVSI_EOS_MAX, list->count);
    for (size_t i = 0; i < list->count; i++)
        add_eos(ids, kvsi_gguf_int_at(list, i), vocab);
    return KVS_OK;
}

kvs_status kvsi_token_ids_read_gguf(kvsi_token_ids *out, const kvsi_gguf *file, size_t vocab,
                                    kvs_err *err)
{
    static const char *const ends[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    kvsi_token_ids ids = KVSI_NO_TOKEN_IDS;
    int64_t number;

    TRY(read_key(&number, file, "tokenizer.ggml.bos_token_id", err));
    ids.bos = id_within(number, vocab);
    TRY(read_key(&number, file, "tokenizer.ggml.padding_token_id", err));
    ids.pad = id_within(number, vocab);
    if (kvsi_gguf_find(file, KVSI_GGUF_EOS_LIST)) {
        TRY(read_list(&ids, file, vocab, err));
    } else {
        for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
            TRY(read_key(&number, file, ends[i], err));
            add_eos(&ids, number, vocab);
        }
    }
    *out = ids;
    return KVS_OK;
}
