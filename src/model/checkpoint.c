/* Saving a model in a folder: config.json and model.safetensors, as Hugging Face's Llama has
 * them. */
#include "base/files.h"
#include "base/memory.h"
#include "formats/hf.h"
#include "formats/safetensors.h"
#include "model/model.h"

static void describe(kvsi_file_tensor *out, const kvsi_parameter *p, const float *data)
{
    *out = (kvsi_file_tensor){.name = p->name, .dtype = KVSI_F32, .rank = p->rank, .data = data};
    for (size_t i = 0; i < p->rank; i++)
        out->shape[i] = p->shape[i];
}

static kvs_status save_weights(const kvs_model *model, const char *path, kvs_err *err)
{
    const kvsi_layout *layout = &model->layout;
    kvsi_file_tensor *tensors = kvsi_alloc(layout->count, sizeof *tensors);
    float *values = kvsi_alloc(kvsi_layout_total(layout), sizeof *values);
    kvs_status st = KVS_OK;

    if (!tensors || !values) {
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory while saving '%s'", path);
        goto out;
    }
    for (size_t i = 0; i < layout->count; i++) {
        const kvsi_parameter *p = &layout->list[i];

        KVS_TRY(kvs_model_read_tensor(model, p->name, values + p->offset, p->count, err));
        describe(&tensors[i], p, values + p->offset);
    }
    st = kvsi_safetensors_write(path, tensors, layout->count, err);
out:
    kvsi_free(tensors);
    kvsi_free(values);
    return st;
}

kvs_status kvs_model_save(const kvs_model *model, const char *dir, kvs_err *err)
{
    kvs_status st = KVS_OK;
    char *weights = kvsi_path_join(dir, "model.safetensors");
    char *config = kvsi_path_join(dir, "config.json");

    if (!weights || !config) {
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory while saving to '%s'", dir);
        goto out;
    }
    KVS_TRY(save_weights(model, weights, err));
    KVS_TRY(kvsi_hf_config_write(&model->config, config, err));
out:
    kvsi_free(weights);
    kvsi_free(config);
    return st;
}
