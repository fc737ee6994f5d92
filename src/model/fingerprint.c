/* A 64-bit checksum of a model's weights, the same whether it was loaded or opened. */
#include "base/checksum.h"
#include "base/memory.h"
#include "model/model.h"

enum { CHUNK = 4096 };

static kvs_status add_values(kvsi_checksum_stream *stream, kvsi_context c, const real *values,
                             size_t count, kvs_err *err)
{
    real chunk[CHUNK];

    for (size_t at = 0; at < count; at += CHUNK) {
        const size_t n = count - at < CHUNK ? count - at : CHUNK;

        c.ops->download(&c, chunk, values + at, n * sizeof *chunk);
        TRY(kvsi_sync(&c, err));
        kvsi_checksum_add(stream, chunk, n * sizeof *chunk);
    }
    return KVS_OK;
}

/* A tensor that is only in the file, row by row. */
static kvs_status add_view(kvsi_checksum_stream *stream, const kvsi_weights_tensor *t, kvs_err *err)
{
    const size_t rows = t->view.shape[0], cols = t->view.shape[1];
    float *row = kvsi_alloc(cols, sizeof *row);
    real *values = kvsi_alloc(cols, sizeof *values);
    kvs_status st = KVS_OK;

    if (!row || !values)
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for a row of %zu values", cols);
    for (size_t r = 0; st == KVS_OK && r < rows; r++) {
        kvsi_weights_read_rows(row, t, r, 1);
        for (size_t i = 0; i < cols; i++)
            values[i] = (real)row[i];
        kvsi_checksum_add(stream, values, cols * sizeof *values);
    }
    kvsi_free(row);
    kvsi_free(values);
    return st;
}

kvs_status kvsi_model_fingerprint(uint64_t *out, const kvs_model *model, kvs_err *err)
{
    kvsi_checksum_stream *stream = NULL;
    kvs_status st;

    TRY_OUT(kvsi_checksum_create(&stream, err));
    for (size_t i = 0; i < model->layout.count; i++) {
        const kvsi_parameter *p = &model->layout.list[i];

        if (model->values[i])
            TRY_OUT(add_values(stream, model->context, model->values[i], p->count, err));
        else
            TRY_OUT(add_view(stream, kvsi_weights_find(model->weights, p->name), err));
    }
    *out = kvsi_checksum_value(stream);
out:
    kvsi_checksum_free(stream);
    return st;
}
