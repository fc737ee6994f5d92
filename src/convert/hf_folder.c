#include "base/files.h"
#include "base/memory.h"
#include "base/new_folder.h"
#include "base/text.h"
#include "convert/companions.h"
#include "convert/convert.h"
#include "formats/family_tensors.h"
#include "formats/hf.h"
#include "formats/hf_python.h"
#include "formats/safetensors.h"
#include "tokenizer/tokenizer_files.h"

#include <string.h>

static const char CONFIG_FILE[] = "config.json", VOCABULARY_FILE[] = "tokenizer.gguf";

/* ---- the folder ------------------------------------------------------------------------------ */

static int is_part(const char *name)
{
    return kvsi_is_companion(name) || strcmp(name, CONFIG_FILE) == 0 ||
           strcmp(name, kvsi_hf_python_name) == 0 || strcmp(name, VOCABULARY_FILE) == 0 ||
           strcmp(name, "model.safetensors.index.json") == 0 ||
           kvsi_ends_with(name, ".safetensors");
}

static const kvsi_folder_kind model_folder = {"model", CONFIG_FILE, is_part};

/* ---- config.json ----------------------------------------------------------------------------- */

static const char *torch_name(kvsi_dtype dtype)
{
    return dtype == KVSI_F16 ? "float16" : dtype == KVSI_BF16 ? "bfloat16" : "float32";
}

static json_t *id_to_json(int32_t id)
{
    return id < 0 ? json_null() : json_integer(id);
}

/* Copies keys of the input's config.json unchanged; loading the model has checked them. */
static kvs_status take_ids(json_t *object, const char *folder, kvs_err *err)
{
    static const char *const keys[] = {"bos_token_id", "eos_token_id", "pad_token_id"};
    enum { CONFIG_LIMIT = 1 << 20 };
    char *path = kvsi_path_join(folder, CONFIG_FILE);
    json_t *config = NULL;
    kvs_status st = KVS_OK;

    if (!path)
        return kvsi_no_memory(err, "'%s'", folder);
    TRY_OUT(kvsi_json_read(&config, path, CONFIG_LIMIT, err));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        json_t *value = json_object_get(config, keys[i]);

        if (value && json_object_set(object, keys[i], value) != 0) {
            st = kvsi_no_memory(err, "'%s'", CONFIG_FILE);
            break;
        }
    }
out:
    json_decref(config);
    kvsi_free(path);
    return st;
}

/* BOS and EOS ids: those of the input, otherwise of the tokenizer.  Writes null if there is none,
 * since readers use their own defaults for a missing key. */
static kvs_status set_ids(json_t *object, const kvsi_conversion *c, kvs_err *err)
{
    const kvsi_token_ids *ids = &c->ids;
    const int32_t bos = c->tokenizer ? kvs_tokenizer_bos(c->tokenizer) : -1;
    const int32_t eos = c->tokenizer ? kvs_tokenizer_eos(c->tokenizer) : -1;
    int failed = 0;

    failed |=
        json_object_set_new(object, "bos_token_id", id_to_json(ids->bos < 0 ? bos : ids->bos));
    failed |=
        json_object_set_new(object, "eos_token_id",
                            ids->eos_count > 0 ? kvsi_token_ids_eos_to_json(ids) : id_to_json(eos));
    if (ids->pad >= 0)
        failed |= json_object_set_new(object, "pad_token_id", json_integer(ids->pad));
    if (failed)
        return kvsi_no_memory(err, "'%s'", CONFIG_FILE);
    return c->keeps_ids && c->folder ? take_ids(object, c->folder, err) : KVS_OK;
}

static json_t *make_config(const kvsi_conversion *c, const kvsi_family **family)
{
    json_t *object = kvsi_hf_config_to_family_json(&c->source.config, family);
    int failed = 0;

    failed |= json_object_set_new(object, "torch_dtype",
                                  json_string(torch_name(kvsi_convert_dtype(&c->source))));
    failed |= kvsi_hf_python_refer(object, c->source.config.body);
    if (failed) {
        json_decref(object);
        return NULL;
    }
    return object;
}

/* ---- the tokenizer --------------------------------------------------------------------------- */

/* The text of a token; NULL if there is none. */
static json_t *token_to_json(const kvs_tokenizer *t, int32_t id)
{
    const kvsi_bytes piece = kvsi_vocabulary_at(&t->vocabulary, id >= 0 ? (size_t)id : SIZE_MAX);

    return piece.text ? json_stringn(piece.text, piece.size) : NULL;
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
    if (c->chat_template)
        json_object_set_new(object, "chat_template", json_string(c->chat_template));
    return object;
}

/* A GGUF file with only the vocabulary, for tokenizers that a tokenizer.json cannot represent. */
static kvs_status save_vocabulary(const kvs_tokenizer *t, const char *path, kvs_err *err)
{
    const kvsi_tensor_source nothing = {0};
    kvsi_gguf_tokenizer words = {0};
    kvsi_gguf_keys keys = {0};
    kvs_status st;

    TRY_OUT(kvsi_tokenizer_to_gguf(&words, t, err));
    kvsi_gguf_put_text(&keys, "general.architecture", "kvshift");
    kvsi_gguf_put_vocabulary(&keys, &words.vocabulary, 0);
    TRY_OUT(kvsi_gguf_write(path, &keys, &nothing, err));
out:
    kvsi_gguf_keys_release(&keys);
    kvsi_gguf_tokenizer_release(&words);
    return st;
}

static kvs_status save_tokenizer(const kvs_tokenizer *t, const char *dir, kvs_err *err)
{
    const int exact = kvsi_tokenizer_fits_json(t);
    char *path = kvsi_path_join(dir, exact ? "tokenizer.json" : VOCABULARY_FILE);
    kvs_status st;

    if (!path)
        st = kvsi_no_memory(err, "'%s'", dir);
    else
        st = exact ? kvs_tokenizer_save(t, path, err) : save_vocabulary(t, path, err);
    kvsi_free(path);
    return st;
}

static kvs_status write_tokenizer(const kvsi_conversion *c, const char *dir, kvs_err *err)
{
    const kvs_tokenizer *t = c->tokenizer;
    kvsi_companions copied = {0};

    if (c->keeps_ids && c->folder)
        TRY(kvsi_copy_generation(c->folder, dir, err));
    if (!t)
        return KVS_OK;
    if (c->keeps_tokenizer && c->folder)
        TRY(kvsi_copy_companions(&copied, c->folder, dir, t, err));
    if (!copied.tokenizer)
        TRY(save_tokenizer(t, dir, err));
    if (!copied.settings && kvsi_tokenizer_fits_json(t))
        TRY(kvsi_write_json(dir, "tokenizer_config.json", make_tokenizer_config(c), err));
    return KVS_OK;
}

/* ---- the folder ------------------------------------------------------------------------------ */

static kvs_status fill(kvsi_conversion *c, const char *dir, kvs_err *err)
{
    const kvsi_tensor_source ours = kvsi_convert_tensors(&c->source);
    kvsi_family_tensors tensors = {0};
    const kvsi_family *family = NULL;
    kvsi_tensor_source theirs;
    json_t *config = NULL;
    kvs_status st;

    TRY_OUT(write_tokenizer(c, dir, err));
    config = make_config(c, &family);
    if (config)
        TRY_OUT(set_ids(config, c, err));
    TRY_OUT(kvsi_write_json(dir, CONFIG_FILE, json_incref(config), err));
    TRY_OUT(kvsi_hf_python_write(dir, config, err));
    TRY_OUT(kvsi_family_tensors_init(&tensors, family, c->source.config.heads, &ours, err));
    theirs = kvsi_family_source(&tensors);
    TRY_OUT(kvsi_safetensors_write_shards(dir, &theirs, c->request->how.shard_bytes, err));
out:
    kvsi_family_tensors_release(&tensors);
    json_decref(config);
    return st;
}

kvs_status kvsi_convert_to_hf(kvsi_conversion *c, kvs_err *err)
{
    kvsi_new_folder folder = {0};
    kvs_status st;

    TRY_OUT(kvsi_new_folder_begin(&folder, c->request->out, &model_folder,
                                  c->request->how.overwrite, err));
    TRY_OUT(fill(c, folder.temporary, err));
    return kvsi_new_folder_commit(&folder, err);
out:
    kvsi_new_folder_abandon(&folder);
    return st;
}
