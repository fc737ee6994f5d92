/* Parameters that are sharded over ranks (ZeRO stage 3): gathered blocks become the model's
 * tensors, and tensors are gathered for files and broadcast from them. */
#include "base/memory.h"
#include "model/model.h"

void kvsi_model_set_block(kvs_model *model, size_t block, real *values)
{
    const kvsi_range range = model->shards->block[block];

    for (size_t i = 0; i < model->layout.count; i++) {
        const kvsi_parameter *p = &model->layout.list[i];

        if (p->offset >= range.from && p->offset < range.from + range.count)
            model->values[i] = values + (p->offset - range.from);
    }
    kvsi_matrices_set_block(&model->matrices, model, block);
}

kvs_status kvsi_bucket_all_gather(real *out, const real *shard, const kvsi_shard_layout *layout,
                                  const kvsi_bucket *bucket, const kvs_comm *comm, kvs_err *err)
{
    const size_t shard_count = bucket->chunk * (layout->chunks / layout->ranks);
    kvsi_transfer transfer = {0};
    kvsi_comm_shards shards = {0};
    kvs_status st;

    TRY_OUT(kvsi_comm_shards_init(&shards, comm, bucket->all.count * sizeof *out,
                                  shard_count * sizeof *out, err));
    TRY_OUT(comm->ops->all_gather_shards(comm->self, &transfer, out, shard, &shards, err));
    TRY_OUT(kvsi_comm_wait(comm, &transfer, err));
out:
    kvsi_comm_shards_release(&shards);
    return st;
}

kvs_status kvsi_sharded_read(const kvs_model *model, const kvsi_parameter *p, float *out,
                             kvs_err *err)
{
    const kvsi_shard_layout *shards = model->shards;
    kvsi_context c = model->context;
    real *host = kvsi_alloc(shards->largest_bucket, sizeof *host);
    real *gathered = c.ops->alloc(&c, shards->largest_bucket * sizeof *gathered);
    kvs_status st = KVS_OK;

    if (!host || !gathered) {
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for tensor '%s'", p->name);
        goto out;
    }
    for (size_t i = 0; i < shards->buckets; i++) {
        const kvsi_bucket *b = &shards->bucket[i];
        const size_t end = p->offset + p->count, bucket_end = b->all.from + b->all.count;

        if (b->group != KVSI_MATRICES || b->all.from >= end || bucket_end <= p->offset)
            continue;
        TRY_OUT(kvsi_bucket_all_gather(gathered, model->parameters + b->at, shards, b, model->comm,
                                       err));
        if (!out)
            continue;
        c.ops->download(&c, host, gathered, b->all.count * sizeof *host);
        TRY_OUT(kvsi_sync(&c, err));
        for (size_t n = b->all.from > p->offset ? b->all.from : p->offset;
             n < end && n < bucket_end; n++)
            out[kvsi_file_index(p, n - p->offset)] = (float)host[n - b->all.from];
    }
out:
    kvsi_free(host);
    c.ops->release(&c, gathered);
    return st;
}

/* ---- from one file to all ranks ---- */

enum { PART = 1 << 18 }; /* values per broadcast */

/* `values`: the tensor in file order on rank 0, NULL elsewhere.  `part`: workspace [PART]. */
static kvs_status broadcast_tensor(kvs_model *m, const kvsi_parameter *p, const float *values,
                                   real *part, kvs_err *err)
{
    for (size_t at = 0; at < p->count; at += PART) {
        const size_t n = p->count - at < PART ? p->count - at : PART;

        for (size_t i = 0; values && i < n; i++)
            part[i] = (real)values[kvsi_file_index(p, at + i)];
        TRY(kvsi_comm_broadcast(m->comm, part, n * sizeof *part, 0, err));
        TRY(kvsi_model_put(m, p, at, part, n, err));
    }
    return KVS_OK;
}

kvs_status kvsi_model_broadcast_weights(kvs_model *model, const kvsi_weights *weights, kvs_err *err)
{
    real *part = kvsi_alloc(PART, sizeof *part);
    float *values = NULL;
    size_t largest = 0;
    kvs_status st = KVS_OK;

    for (size_t i = 0; i < model->layout.count; i++)
        largest = model->layout.list[i].count > largest ? model->layout.list[i].count : largest;
    if (weights)
        values = kvsi_alloc(largest, sizeof *values);
    if (!part || (weights && !values)) {
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for a tensor of %zu numbers", largest);
        goto out;
    }
    if (weights)
        TRY_OUT(kvsi_weights_fit(&model->layout, weights, err));
    for (size_t i = 0; i < model->layout.count; i++) {
        const kvsi_parameter *p = &model->layout.list[i];

        if (weights)
            TRY_OUT(kvsi_weights_values(values, p, kvsi_weights_find(weights, p->name), err));
        TRY_OUT(broadcast_tensor(model, p, values, part, err));
    }
out:
    kvsi_free(part);
    kvsi_free(values);
    return st;
}
