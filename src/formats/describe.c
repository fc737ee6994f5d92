/* Describes a model from headers alone. */
#include "base/files.h"
#include "base/memory.h"
#include "base/sized.h"
#include "base/text.h"
#include "formats/weights_open.h"

static const char *const format_names[] = {
    [KVSI_FORMAT_HF] = "safetensors",
    [KVSI_FORMAT_BAICHUAN] = "safetensors, as Baichuan-M1",
    [KVSI_FORMAT_GGUF] = "GGUF",
    [KVSI_FORMAT_LLAMA2C] = "llama2.c",
    [KVSI_FORMAT_LLAMA2C_V1] = "llama2.c, version 1",
};

/* The type with the most bytes. */
static void count_tensors(kvs_model_info *out, const kvsi_weights *w)
{
    uint64_t bytes[KVSI_DTYPES] = {0};
    int most = 0;

    for (size_t i = 0; i < w->count; i++)
        bytes[w->tensors[i].view.dtype] += kvsi_file_tensor_bytes(&w->tensors[i].view);
    for (int i = 0; i < KVSI_DTYPES; i++) {
        most = bytes[i] > bytes[most] ? i : most;
        out->bytes += bytes[i];
    }
    out->tensors = w->count;
    out->is_mixed = out->bytes != bytes[most];
    out->dtype = kvsi_dtype_name((kvsi_dtype)most);
}

static kvs_status describe_weights(kvs_model_info *out, const char *path, kvs_err *err)
{
    kvsi_weights *w = NULL;
    kvs_status st;

    TRY_OUT(kvsi_weights_open(&w, path, err));
    out->format = format_names[w->format];
    out->files = w->shard_count > 0 ? w->shard_count : 1;
    out->has_vocabulary = w->gguf && (kvsi_gguf_find(w->gguf, "tokenizer.ggml.tokens") ||
                                      kvsi_gguf_find(w->gguf, "tokenizer.huggingface.json"));
    count_tensors(out, w);
out:
    kvsi_weights_close(w);
    return st;
}

/* A folder may contain only a config.json. */
static kvs_status describe_folder(kvs_model_info *out, const char *folder, kvs_err *err)
{
    char *weights = NULL, *settings = kvsi_path_join(folder, "config.json");
    kvsi_weights_format format;
    kvs_model_config config;
    kvs_status st;

    if (!settings)
        return kvsi_no_memory(err, "'%s'", folder);
    TRY_OUT(kvsi_hf_check_run(folder, err));
    TRY_OUT(kvsi_hf_config_open(&config, &format, settings, err));
    out->format = format_names[format];
    TRY_OUT(kvsi_hf_find_weights(&weights, folder, err));
    if (weights)
        st = describe_weights(out, folder, err);
out:
    kvsi_free(weights);
    kvsi_free(settings);
    return st;
}

kvs_status kvs_model_describe(kvs_model_info *out, const char *path, kvs_err *err)
{
    kvs_model_info info = {.size = sizeof info};
    kvsi_content found;
    char *folder = NULL;
    kvs_status st;

    NEED(out);
    NEED(path);
    TRY(kvsi_sized_check(out, "kvs_model_info", err));
    TRY_OUT(kvsi_detect_content(&found, path, err));
    if (found == KVSI_CONTENT_FOLDER_MEMBER && !(folder = kvsi_path_parent(path)))
        TRY_OUT(kvsi_no_memory(err, "'%s'", path));
    if (found == KVSI_CONTENT_FOLDER || found == KVSI_CONTENT_FOLDER_MEMBER)
        TRY_OUT(describe_folder(&info, folder ? folder : path, err));
    else
        TRY_OUT(describe_weights(&info, path, err));
    kvsi_sized_write(out, &info, sizeof info);
out:
    kvsi_free(folder);
    return st;
}

static kvs_status config_in_folder(kvs_model_config *out, const char *folder, kvs_err *err)
{
    char *path = kvsi_path_join(folder, "config.json");
    kvsi_weights_format format;
    kvs_status st = path ? kvsi_hf_check_run(folder, err) : kvsi_no_memory(err, "'%s'", folder);

    if (st == KVS_OK)
        st = kvsi_hf_config_open(out, &format, path, err);
    kvsi_free(path);
    return st;
}

kvs_status kvsi_model_config_load(kvs_model_config *out, const char *path, kvs_err *err)
{
    kvsi_weights_format format;
    kvsi_weights *w = NULL;
    kvsi_content found;
    kvs_status st;

    TRY_OUT(kvsi_detect_content(&found, path, err));
    if (found == KVSI_CONTENT_FOLDER)
        return config_in_folder(out, path, err);
    if (found == KVSI_CONTENT_JSON ||
        (found == KVSI_CONTENT_FOLDER_MEMBER && kvsi_ends_with(path, "config.json")))
        return kvsi_hf_config_open(out, &format, path, err);
    TRY_OUT(kvsi_weights_open(&w, path, err));
    *out = w->config;
out:
    kvsi_weights_close(w);
    return st;
}

kvs_status kvs_model_config_load(kvs_model_config **out, const char *path, kvs_err *err)
{
    kvs_model_config config;

    NEED(out);
    *out = NULL;
    NEED(path);
    TRY(kvsi_model_config_load(&config, path, err));
    return kvs_model_config_copy(out, &config, err);
}
