/* Tensors of a model by name, as float32 in file order. */
#include "model/model.h"

#include <string.h>

const char *kvs_model_tensor_name(const kvs_model *model, size_t index, size_t *count)
{
    if (!model || index >= model->layout.count)
        return NULL;
    if (count)
        *count = model->layout.list[index].count;
    return model->layout.list[index].name;
}

static kvs_status find_tensor(const kvsi_parameter **out, const kvs_model *model, const char *name,
                              size_t count, kvs_err *err)
{
    *out = kvsi_layout_find(&model->layout, name);
    if (!*out)
        return kvsi_fail(err, KVS_E_INVALID, "the model has no tensor '%s'", name);
    if ((*out)->count != count)
        return kvsi_fail(err, KVS_E_INVALID, "tensor '%s' has %zu numbers, %zu were given", name,
                         (*out)->count, count);
    return KVS_OK;
}

/* Files and callers use float32, the backend `real`: values are converted in a small buffer. */
enum { CONVERT_CHUNK = 1024 };

static kvs_status download_tensor(float *out, kvsi_context c, const kvsi_parameter *p,
                                  const real *tensor, kvs_err *err)
{
    real chunk[CONVERT_CHUNK];

    for (size_t at = 0; at < p->count; at += CONVERT_CHUNK) {
        const size_t n = p->count - at < CONVERT_CHUNK ? p->count - at : CONVERT_CHUNK;

        c.ops->download(&c, chunk, tensor + at, n * sizeof *chunk);
        TRY(kvsi_sync(&c, err));
        for (size_t i = 0; i < n; i++)
            out[kvsi_file_index(p, at + i)] = (float)chunk[i];
    }
    return KVS_OK;
}

kvs_status kvs_model_read_tensor(float *out, size_t count, const kvs_model *model, const char *name,
                                 kvs_err *err)
{
    const kvsi_parameter *p;
    const real *tensor;

    NEED(out);
    NEED(model);
    NEED(name);
    TRY(find_tensor(&p, model, name, count, err));
    if (model->shards && kvsi_group_of(p->role) == KVSI_MATRICES)
        return kvsi_sharded_read(model, p, out, err);
    tensor = model->values[p - model->layout.list];
    if (tensor)
        return download_tensor(out, model->context, p, tensor, err);
    kvsi_weights_read(out, kvsi_weights_find(model->weights, name));
    return KVS_OK;
}

/* A sharded model: writes to this rank's shards; gathered blocks are only copies. */
static void put_sharded(kvs_model *m, kvsi_range range, const real *values)
{
    kvsi_context *c = &m->context;

    for (size_t b = 0; b < m->shards->buckets; b++) {
        const kvsi_overlap own = kvsi_shard_overlap(m->shards, &m->shards->bucket[b], range);

        if (own.count > 0)
            c->ops->upload(c, m->parameters + own.at, values + own.from,
                           own.count * sizeof *values);
    }
}

kvs_status kvsi_model_put(kvs_model *model, const kvsi_parameter *p, size_t first,
                          const real *values, size_t count, kvs_err *err)
{
    real *tensor = model->values[p - model->layout.list];
    kvsi_context *c = &model->context;

    if (model->shards)
        put_sharded(model, (kvsi_range){p->offset + first, count}, values);
    else
        c->ops->upload(c, tensor + first, values, count * sizeof *values);
    model->version++;
    return kvsi_sync(c, err);
}

kvs_status kvsi_model_set(kvs_model *model, const kvsi_parameter *p, const void *float32,
                          kvs_err *err)
{
    const unsigned char *bytes = float32;
    real chunk[CONVERT_CHUNK];

    for (size_t at = 0; at < p->count; at += CONVERT_CHUNK) {
        const size_t n = p->count - at < CONVERT_CHUNK ? p->count - at : CONVERT_CHUNK;

        for (size_t i = 0; i < n; i++) {
            float value;
            memcpy(&value, bytes + kvsi_file_index(p, at + i) * sizeof value, sizeof value);
            chunk[i] = (real)value;
        }
        TRY(kvsi_model_put(model, p, at, chunk, n, err));
    }
    return KVS_OK;
}

kvs_status kvsi_model_must_own(const kvs_model *model, const char *what, kvs_err *err)
{
    if (model->parameters)
        return KVS_OK;
    return kvsi_fail(err, KVS_E_UNSUPPORTED,
                     "'%s' was opened for running and cannot be %s, expected a model that was "
                     "loaded",
                     kvsi_weights_path(model->weights), what);
}

kvs_status kvsi_model_must_be_whole(const kvs_model *model, kvs_err *err)
{
    if (!model->shards)
        return KVS_OK;
    return kvsi_fail(err, KVS_E_UNSUPPORTED,
                     "the model's weights are sharded over %zu ranks: it can only be trained",
                     model->shards->ranks);
}

kvs_status kvs_model_write_tensor(kvs_model *model, const char *name, const float *in, size_t count,
                                  kvs_err *err)
{
    const kvsi_parameter *p;

    NEED(model);
    NEED(name);
    NEED_AS(in, values);
    TRY(kvsi_model_must_own(model, "changed", err));
    TRY(find_tensor(&p, model, name, count, err));
    return kvsi_model_set(model, p, in, err);
}
