/* Saving a model to a folder: config.json and model.safetensors, tensor by tensor, the Python file
 * of our own models, and the files of adapters. */
#include "base/files.h"
#include "base/memory.h"
#include "formats/family_tensors.h"
#include "formats/hf.h"
#include "formats/hf_python.h"
#include "formats/safetensors.h"
#include "model/adapter_files.h"
#include "model/model.h"

static void describe(const void *self, size_t index, kvsi_file_tensor *out)
{
    const kvs_model *model = self;

    kvsi_parameter_describe(&model->layout.list[index], KVSI_F32, out);
}

static kvs_status read_tensor(const void *self, size_t index, float *out, kvs_err *err)
{
    const kvs_model *model = self;
    const kvsi_parameter *p = &model->layout.list[index];

    return kvs_model_read_tensor(out, p->count, model, p->name, err);
}

/* The other ranks take part in the all-gather of each tensor while rank 0 writes. */
static kvs_status send_tensors(const kvs_model *model, kvs_err *err)
{
    kvs_status st = KVS_OK;

    for (size_t i = 0; st == KVS_OK && i < model->layout.count; i++) {
        const kvsi_parameter *p = &model->layout.list[i];

        if (kvsi_group_of(p->role) == KVSI_MATRICES)
            st = kvsi_sharded_read(model, p, NULL, err);
    }
    return st;
}

static json_t *id_to_json(int32_t id)
{
    return id < 0 ? json_null() : json_integer(id);
}

/* Adds the tokens that start and end a text.  Families have ids of their own for missing keys, so
 * that a model of a family has all of them. */
static void set_ids(json_t *config, const kvs_model *model)
{
    const kvsi_token_ids *ids = &model->ids;

    if (model->config.family) {
        json_object_set_new(config, "bos_token_id", id_to_json(ids->bos));
        json_object_set_new(config, "eos_token_id", json_null());
        json_object_set_new(config, "pad_token_id", id_to_json(ids->pad));
    }
    if (ids->eos_count > 0)
        json_object_set_new(config, "eos_token_id", kvsi_token_ids_eos_to_json(ids));
}

static kvs_status save(const kvs_model *model, const char *dir, int python, kvs_err *err)
{
    kvsi_family_tensors tensors = {0};
    const kvsi_family *family = NULL;
    kvsi_tensor_source ours, theirs;
    json_t *object = NULL;
    kvs_status st = KVS_OK;
    char *weights, *config;

    NEED(model);
    NEED(dir);
    if (!*dir)
        return kvsi_fail(err, KVS_E_INVALID, "dir is empty");
    ours = (kvsi_tensor_source){model->layout.count, describe, read_tensor, model};
    if (model->shards && model->comm->rank > 0)
        return send_tensors(model, err);
    weights = kvsi_path_join(dir, "model.safetensors");
    config = kvsi_path_join(dir, "config.json");
    if (!weights || !config) {
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory while saving to '%s'", dir);
        goto out;
    }
    object = kvsi_hf_config_to_family_json(&model->config, &family);
    set_ids(object, model);
    if (python && kvsi_hf_python_refer(object, model->config.body) != 0) {
        st = kvsi_no_memory(err, "'%s'", config);
        goto out;
    }
    TRY_OUT(kvsi_hf_python_write(dir, object, err));
    if (model->config.lora.rank > 0)
        TRY_OUT(kvsi_adapter_files_write(model, dir, err));
    TRY_OUT(kvsi_family_tensors_init(&tensors, family, model->config.heads, &ours, err));
    theirs = kvsi_family_source(&tensors);
    TRY_OUT(kvsi_safetensors_write_source(weights, &theirs, err));
    TRY_OUT(kvsi_json_write(object, config, err)); /* also checks for out of memory */
out:
    kvsi_family_tensors_release(&tensors);
    json_decref(object);
    kvsi_free(weights);
    kvsi_free(config);
    return st;
}

kvs_status kvs_model_save(const kvs_model *model, const char *dir, kvs_err *err)
{
    return save(model, dir, 1, err);
}

kvs_status kvsi_model_save_weights(const kvs_model *model, const char *dir, kvs_err *err)
{
    return save(model, dir, 0, err);
}
