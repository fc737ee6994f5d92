/* Saving a model to a folder: config.json and model.safetensors, tensor by tensor. */
#include "base/files.h"
#include "base/memory.h"
#include "formats/hf.h"
#include "formats/safetensors.h"
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

/* The configuration, with the tokens that end a text. */
static kvs_status write_config(const kvs_model *model, const char *path, kvs_err *err)
{
    json_t *object = kvsi_hf_config_to_family_json(&model->config);
    kvs_status st;

    if (model->ids.eos_count > 0)
        json_object_set_new(object, "eos_token_id", kvsi_token_ids_eos_to_json(&model->ids));
    st = kvsi_json_write(object, path, err); /* also checks for out of memory */
    json_decref(object);
    return st;
}

kvs_status kvs_model_save(const kvs_model *model, const char *dir, kvs_err *err)
{
    kvsi_tensor_source source;
    kvs_status st = KVS_OK;
    char *weights, *config;

    NEED(model);
    NEED(dir);
    if (!*dir)
        return kvsi_fail(err, KVS_E_INVALID, "dir is empty");
    source = (kvsi_tensor_source){model->layout.count, describe, read_tensor, model};
    if (model->shards && model->comm->rank > 0)
        return send_tensors(model, err);
    weights = kvsi_path_join(dir, "model.safetensors");
    config = kvsi_path_join(dir, "config.json");
    if (!weights || !config) {
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory while saving to '%s'", dir);
        goto out;
    }
    TRY_OUT(kvsi_safetensors_write_source(weights, &source, err));
    TRY_OUT(write_config(model, config, err));
out:
    kvsi_free(weights);
    kvsi_free(config);
    return st;
}
