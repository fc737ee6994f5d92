/* Weights that are spread over ranks: units come to where a pass wants them, tensors to where they
 * are written. */
#include "base/memory.h"
#include "model/model.h"

void kvsi_model_place(kvs_model *model, size_t unit, real *numbers)
{
    const kvsi_range range = model->share->unit[unit];

    for (size_t i = 0; i < model->layout.count; i++) {
        const kvsi_parameter *p = &model->layout.list[i];

        if (p->offset >= range.from && p->offset < range.from + range.count)
            model->values[i] = numbers + (p->offset - range.from);
    }
    kvsi_matrices_place(&model->matrices, model, unit);
}

/* All of a bucket, from everyone, into host memory. */
static kvs_status collect_bucket(real *out, real *scratch, const kvs_model *m, const kvsi_bucket *b,
                                 kvs_err *err)
{
    const size_t piece = b->grain * (m->share->grains / m->share->ranks);
    kvsi_context c = m->context;
    kvsi_transfer transfer = {0};
    kvsi_cut cut = {0};
    kvs_status st;

    TRY_OUT(kvsi_cut_init(&cut, m->comm, b->all.count * sizeof *out, piece * sizeof *out, err));
    TRY_OUT(
        m->comm->ops->collect(m->comm->self, &transfer, scratch, m->parameters + b->at, &cut, err));
    TRY_OUT(kvsi_comm_wait(m->comm, &transfer, err));
    c.ops->download(&c, out, scratch, b->all.count * sizeof *out);
    st = kvsi_sync(&c, err);
out:
    kvsi_cut_release(&cut);
    return st;
}

kvs_status kvsi_spread_read(const kvs_model *model, const kvsi_parameter *p, float *out,
                            kvs_err *err)
{
    const kvsi_share *share = model->share;
    const kvsi_ops *op = model->context.ops;
    real *host = kvsi_alloc(share->largest_bucket, sizeof *host);
    real *scratch = op->alloc(&model->context, share->largest_bucket * sizeof *scratch);
    kvs_status st = KVS_OK;

    if (!host || !scratch)
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for tensor '%s'", p->name);
    for (size_t i = 0; st == KVS_OK && i < share->buckets; i++) {
        const kvsi_bucket *b = &share->bucket[i];
        const size_t end = p->offset + p->count, bucket_end = b->all.from + b->all.count;

        if (b->group != KVSI_MATRICES || b->all.from >= end || bucket_end <= p->offset)
            continue;
        st = collect_bucket(host, scratch, model, b, err);
        for (size_t n = b->all.from > p->offset ? b->all.from : p->offset;
             st == KVS_OK && out && n < end && n < bucket_end; n++)
            out[kvsi_file_index(p, n - p->offset)] = (float)host[n - b->all.from];
    }
    kvsi_free(host);
    op->release(&model->context, scratch);
    return st;
}

/* ---- from one file to all ranks ---- */

enum { CHUNK = 1 << 18 }; /* numbers at once */

/* A tensor that rank 0 has in the order of files. */
static kvs_status share_tensor(kvs_model *m, const kvsi_parameter *p, const float *numbers,
                               real *chunk, kvs_err *err)
{
    kvs_status st = KVS_OK;

    for (size_t at = 0; st == KVS_OK && at < p->count; at += CHUNK) {
        const size_t n = p->count - at < CHUNK ? p->count - at : CHUNK;

        for (size_t i = 0; numbers && i < n; i++)
            chunk[i] = (real)numbers[kvsi_file_index(p, at + i)];
        st = kvsi_comm_broadcast(m->comm, chunk, n * sizeof *chunk, 0, err);
        if (st == KVS_OK)
            st = kvsi_model_put(m, p, at, chunk, n, err);
    }
    return st;
}

kvs_status kvsi_model_share_weights(kvs_model *model, const kvsi_weights *weights, kvs_err *err)
{
    real *chunk = kvsi_alloc(CHUNK, sizeof *chunk);
    float *numbers = NULL;
    size_t largest = 0;
    kvs_status st = KVS_OK;

    for (size_t i = 0; i < model->layout.count; i++)
        largest = model->layout.list[i].count > largest ? model->layout.list[i].count : largest;
    if (weights)
        numbers = kvsi_alloc(largest, sizeof *numbers);
    if (!chunk || (weights && !numbers)) {
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for a tensor of %zu numbers", largest);
        goto out;
    }
    if (weights)
        TRY_OUT(kvsi_weights_fit(&model->layout, weights, err));
    for (size_t i = 0; i < model->layout.count; i++) {
        const kvsi_parameter *p = &model->layout.list[i];

        if (weights)
            TRY_OUT(kvsi_weights_values(numbers, p, kvsi_weights_find(weights, p->name), err));
        TRY_OUT(share_tensor(model, p, numbers, chunk, err));
    }
out:
    kvsi_free(chunk);
    kvsi_free(numbers);
    return st;
}
