/* Loads trained hop-k models, with or without a configuration. */
#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"
#include "formats/safetensors.h"
#include "model/model.h"
#include "repro/hop_errors.h"

#include <stdio.h>
#include <string.h>

enum { HEAD_SIZE = 32 };

/* Prefixes of GPT-2's names in published files. */
static const char *const prefixes[] = {"transformer.", "backbone.", ""};

static const kvsi_file_tensor *find(const kvsi_safetensors *file, const char *name)
{
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        const kvsi_file_tensor *found;
        char full[KVSI_NAME_SIZE];

        snprintf(full, sizeof full, "%s%s", prefixes[i], name);
        found = kvsi_safetensors_find(file, full);
        if (found)
            return found;
    }
    return NULL;
}

static size_t count_layers(const kvsi_safetensors *file)
{
    size_t layers = 0;

    for (;; layers++) {
        char name[KVSI_NAME_SIZE];

        snprintf(name, sizeof name, "h.%zu.ln_1.weight", layers);
        if (!find(file, name))
            return layers;
    }
}

static kvs_status read_config(kvs_model_config *c, const kvsi_safetensors *file, const char *path,
                              kvs_err *err)
{
    const kvsi_file_tensor *tokens = find(file, "wte.weight"), *places = find(file, "wpe.weight");

    if (!tokens || !places || tokens->rank != 2 || places->rank != 2 ||
        tokens->shape[1] % HEAD_SIZE != 0)
        return kvsi_fail(err, KVS_E_FORMAT,
                         "'%s' has no config.json beside it, and is not a hop-k model: expected "
                         "'wte.weight' and 'wpe.weight' of a multiple of %d channels",
                         path, HEAD_SIZE);
    kvsi_model_config_init(c);
    kvsi_model_config_set_body(c, KVSI_BODY_GPT2);
    c->vocab = tokens->shape[0];
    c->dim = tokens->shape[1];
    c->context = places->shape[0];
    c->layers = count_layers(file);
    c->heads = c->dim / HEAD_SIZE;
    c->head = KVSI_HEAD_NONE;
    if (find(file, "h.0.attn.k_shift"))
        c->shift.targets = KVS_SHIFT_K | KVS_SHIFT_V;
    return KVS_OK;
}

static kvs_status set_tensor(kvs_model *model, const char *name, size_t count,
                             const kvsi_safetensors *file, const char *path, kvs_err *err)
{
    const kvsi_file_tensor *tensor = find(file, name + strlen(prefixes[0]));
    float *numbers = NULL;
    kvs_status st;

    if (!tensor || !kvsi_dtype_is_weight(tensor->dtype) || kvsi_file_tensor_count(tensor) != count)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s' has no tensor '%s' of %zu numbers", path, name,
                         count);
    numbers = kvsi_alloc(count, sizeof *numbers);
    if (!numbers)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for tensor '%s'", name);
    kvsi_dtype_decode(numbers, tensor->dtype, tensor->data, count);
    st = kvs_model_write_tensor(model, name, numbers, count, err);
    kvsi_free(numbers);
    return st;
}

static kvs_status load_bare(kvs_model **out, kvs_runtime *rt, const char *path, kvs_err *err)
{
    kvsi_safetensors *file = NULL;
    kvs_model *model = NULL;
    kvs_model_config config;
    const char *name;
    kvs_status st;
    size_t count;

    TRY_OUT(kvsi_safetensors_open(&file, path, err));
    TRY_OUT(read_config(&config, file, path, err));
    TRY_OUT(kvs_model_create(&model, rt, &config, 1, err));
    for (size_t i = 0; (name = kvs_model_tensor_name(model, i, &count)); i++)
        TRY_OUT(set_tensor(model, name, count, file, path, err));
    *out = model;
    model = NULL;
out:
    kvs_model_free(model);
    kvsi_safetensors_close(file);
    return st;
}

kvs_status kvsi_hop_model_load(kvs_model **out, kvs_runtime *rt, const char *path, kvs_err *err)
{
    char *folder = kvsi_path_parent(path),
         *config = folder ? kvsi_path_join(folder, "config.json") : NULL;
    const int is_bare = config && kvsi_ends_with(path, ".safetensors") && !kvsi_file_exists(config);
    const int has_memory = config != NULL;

    kvsi_free(folder);
    kvsi_free(config);
    *out = NULL;
    if (!has_memory)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", path);
    return is_bare ? load_bare(out, rt, path, err) : kvs_model_load(out, rt, path, NULL, err);
}

void kvsi_hop_model_drop(kvs_model *model, double rate)
{
    kvs_model_config *c = &model->config;

    c->dropout_embedding = c->dropout_attention = c->dropout_residual = rate;
}
