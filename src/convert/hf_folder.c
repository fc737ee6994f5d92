#include "base/files.h"
#include "base/memory.h"
#include "base/new_folder.h"
#include "base/text.h"
#include "convert/convert.h"
#include "formats/hf.h"
#include "formats/safetensors.h"
#include "tokenizer/documents.h"

#include <string.h>

enum { COMPANION_LIMIT = 1 << 30 }; /* bytes of a file that is copied */

/* The model for transformers, as it is in python/modeling_kvshift.py. */
static const char modeling[] = {
#include "convert/modeling_kvshift.inc"
};

static const char MODELING_FILE[] = "modeling_kvshift.py", CONFIG_FILE[] = "config.json",
                  VOCABULARY_FILE[] = "tokenizer.gguf";

/* Files that say more about a tokenizer, and how its model is used; they go along unread. */
static const char *const companions[] = {
    "tokenizer.json",          "tokenizer_config.json",  "tokenizer.model",
    "special_tokens_map.json", "generation_config.json", NULL,
};

/* ---- the folder ------------------------------------------------------------------------------ */

static int is_part(const char *name)
{
    for (const char *const *at = companions; *at; at++)
        if (strcmp(name, *at) == 0)
            return 1;
    return strcmp(name, CONFIG_FILE) == 0 || strcmp(name, MODELING_FILE) == 0 ||
           strcmp(name, VOCABULARY_FILE) == 0 ||
           strcmp(name, "model.safetensors.index.json") == 0 ||
           kvsi_ends_with(name, ".safetensors");
}

static const kvsi_folder_kind model_folder = {"model", CONFIG_FILE, is_part};

static kvs_status write_bytes(const char *dir, const char *name, const char *bytes, size_t size,
                              kvs_err *err)
{
    char *path = kvsi_path_join(dir, name);
    kvsi_new_file *file = NULL;
    kvs_status st;

    if (!path)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", name);
    KVS_TRY(kvsi_new_file_open(&file, path, err));
    KVS_TRY(kvsi_new_file_write(file, bytes, size, err));
    st = kvsi_new_file_commit(file, err);
    file = NULL;
out:
    kvsi_new_file_abandon(file);
    kvsi_free(path);
    return st;
}

/* Takes the reference; NULL stands for memory that ran out. */
static kvs_status write_json(const char *dir, const char *name, json_t *value, kvs_err *err)
{
    char *path = kvsi_path_join(dir, name);
    const kvs_status st = path && value
                              ? kvsi_json_write(value, path, err)
                              : kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", name);

    json_decref(value);
    kvsi_free(path);
    return st;
}

/* ---- config.json ----------------------------------------------------------------------------- */

static const char *torch_name(kvsi_dtype dtype)
{
    return dtype == KVSI_F16 ? "float16" : dtype == KVSI_BF16 ? "bfloat16" : "float32";
}

static json_t *id_to_json(int32_t id)
{
    return id < 0 ? json_null() : json_integer(id);
}

/* A model of ours that the Python file runs. */
static int has_python(const kvs_model_config *config, const json_t *object)
{
    return config->body == KVS_BODY_LLAMA && json_object_get(object, "kvshift");
}

static json_t *make_config(const kvsi_conversion *c, int *python)
{
    json_t *object = kvsi_hf_config_to_json(&c->source.config);
    const int32_t bos = c->tokenizer ? kvs_tokenizer_bos(c->tokenizer) : -1;
    const int32_t eos = c->tokenizer ? kvs_tokenizer_eos(c->tokenizer) : -1;
    int failed = 0;

    *python = has_python(&c->source.config, object);
    failed |= json_object_set_new(object, "torch_dtype",
                                  json_string(torch_name(kvsi_convert_dtype(&c->source))));
    /* Said even where there is none: readers would take their own defaults. */
    failed |= json_object_set_new(object, "bos_token_id", id_to_json(bos));
    failed |= json_object_set_new(object, "eos_token_id", id_to_json(eos));
    if (*python)
        failed |= json_object_set_new(
            object, "auto_map",
            json_pack("{s:s, s:s, s:s}", "AutoConfig", "modeling_kvshift.KVShiftConfig",
                      "AutoModel", "modeling_kvshift.KVShiftModel", "AutoModelForCausalLM",
                      "modeling_kvshift.KVShiftForCausalLM"));
    if (failed) {
        json_decref(object);
        return NULL;
    }
    return object;
}

/* ---- the tokenizer --------------------------------------------------------------------------- */

static kvs_status copy_companion(const char *from, const char *to, const char *name, int *there,
                                 kvs_err *err)
{
    char *path = kvsi_path_join(from, name), *bytes = NULL;
    size_t size = 0;
    kvs_status st = KVS_OK;

    if (!path)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", name);
    *there = kvsi_file_exists(path);
    if (*there) {
        KVS_TRY(kvsi_file_read(&bytes, &size, path, COMPANION_LIMIT, err));
        KVS_TRY(write_bytes(to, name, bytes, size, err));
    }
out:
    kvsi_free(bytes);
    kvsi_free(path);
    return st;
}

/* The text of a token as files name it; NULL if there is none. */
static json_t *token_to_json(const kvs_tokenizer *t, int32_t id)
{
    json_t *name = NULL;
    char *text = NULL;
    size_t size = 0;

    if (id >= 0 && kvs_tokenizer_decode(t, &id, 1, &text, &size, NULL) == KVS_OK &&
        kvs_tokenizer_find(t, text) == id)
        name = json_stringn(text, size);
    kvs_text_free(text);
    return name;
}

static json_t *make_tokenizer_config(const kvsi_conversion *c)
{
    const kvs_tokenizer *t = c->tokenizer;
    json_t *object = json_pack("{s:s, s:I, s:b}", "tokenizer_class", "PreTrainedTokenizerFast",
                               "model_max_length", (json_int_t)c->source.config.context,
                               "clean_up_tokenization_spaces", 0);
    json_t *bos = token_to_json(t, kvs_tokenizer_bos(t));
    json_t *eos = token_to_json(t, kvs_tokenizer_eos(t));

    if (bos)
        json_object_set_new(object, "bos_token", bos);
    if (eos)
        json_object_set_new(object, "eos_token", eos);
    return object;
}

/* A GGUF file with nothing but the vocabulary, for what a tokenizer.json cannot say. */
static kvs_status save_vocabulary(const kvs_tokenizer *t, const char *path, kvs_err *err)
{
    const kvsi_tensor_source nothing = {0};
    kvsi_gguf_words words = {0};
    kvsi_gguf_keys keys = {0};
    kvs_status st;

    KVS_TRY(kvsi_tokenizer_to_gguf(&words, t, err));
    kvsi_gguf_put_text(&keys, "general.architecture", "kvshift");
    kvsi_gguf_put_vocabulary(&keys, &words.vocabulary, 0);
    KVS_TRY(kvsi_gguf_write(path, &keys, &nothing, err));
out:
    kvsi_gguf_keys_release(&keys);
    kvsi_gguf_words_release(&words);
    return st;
}

static kvs_status save_tokenizer(const kvs_tokenizer *t, const char *dir, kvs_err *err)
{
    const int exact = kvsi_tokenizer_is_document(t);
    char *path = kvsi_path_join(dir, exact ? "tokenizer.json" : VOCABULARY_FILE);
    kvs_status st;

    if (!path)
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", dir);
    else
        st = exact ? kvs_tokenizer_save(t, path, err) : save_vocabulary(t, path, err);
    kvsi_free(path);
    return st;
}

static kvs_status write_tokenizer(const kvsi_conversion *c, const char *dir, kvs_err *err)
{
    const kvs_tokenizer *t = c->tokenizer;
    int whole = 0, config = 0;
    kvs_status st = KVS_OK;

    if (!t)
        return KVS_OK;
    for (const char *const *name = companions; *name && c->folder; name++) {
        int there = 0;

        KVS_TRY(copy_companion(c->folder, dir, *name, &there, err));
        whole |=
            there && (strcmp(*name, "tokenizer.json") == 0 ||
                      (strcmp(*name, "tokenizer.model") == 0 && !kvsi_tokenizer_is_document(t)));
        config |= there && strcmp(*name, "tokenizer_config.json") == 0;
    }
    if (!whole)
        KVS_TRY(save_tokenizer(t, dir, err));
    if (!config && kvsi_tokenizer_is_document(t))
        KVS_TRY(write_json(dir, "tokenizer_config.json", make_tokenizer_config(c), err));
out:
    return st;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static kvs_status fill(kvsi_conversion *c, const char *dir, kvs_err *err)
{
    const kvsi_tensor_source tensors = kvsi_convert_tensors(&c->source);
    int python = 0;
    json_t *config;
    kvs_status st;

    KVS_TRY(write_tokenizer(c, dir, err));
    config = make_config(c, &python);
    KVS_TRY(write_json(dir, CONFIG_FILE, config, err));
    if (python)
        KVS_TRY(write_bytes(dir, MODELING_FILE, modeling, sizeof modeling, err));
    KVS_TRY(kvsi_safetensors_write_shards(dir, &tensors, c->options->shard_bytes, err));
out:
    return st;
}

kvs_status kvsi_convert_to_hf(kvsi_conversion *c, kvs_err *err)
{
    kvsi_new_folder folder = {0};
    kvs_status st;

    KVS_TRY(
        kvsi_new_folder_begin(&folder, c->options->out, &model_folder, c->options->overwrite, err));
    KVS_TRY(fill(c, folder.temporary, err));
    return kvsi_new_folder_commit(&folder, err);
out:
    kvsi_new_folder_abandon(&folder);
    return st;
}
