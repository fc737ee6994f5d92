/* Opening a model for running: its matrices stay in the mapped file. */
#include "base/memory.h"
#include "base/read_ahead.h"
#include "model/model.h"

/* Whether kernels can use a matrix as it is in the file. */
static int is_view(const kvs_model *m, const kvsi_parameter *p)
{
    const kvsi_weights_tensor *t = kvsi_weights_find(m->weights, p->name);
    const int is_head = (ptrdiff_t)p->offset == m->layout.head;

    if (p->transposed || t->runs > 0)
        return 0;
    if (t->view.dtype == KVSI_F32 && (uintptr_t)t->view.data % _Alignof(float) != 0)
        return 0;
    if (p->role == KVSI_POSITION || (is_head && m->config.head == KVSI_HEAD_NORMALISED))
        return t->view.dtype == KVSI_REAL_TYPE;
    return 1;
}

static kvs_status fail_memory(const kvs_model *m, size_t values, kvs_err *err)
{
    return kvsi_fail(err, KVS_E_NOMEM, "out of memory for %zu values of '%s'", values,
                     kvsi_weights_path(m->weights));
}

/* Memory for tensors that are decoded; the other matrices stay in the file's type. */
static kvs_status place_tensors(kvs_model *m, kvs_err *err)
{
    const kvsi_context *c = &m->context;
    const size_t small = kvsi_layout_total(&m->layout) - m->layout.group_start[KVSI_GAINS];

    m->small = c->ops->alloc(c, small * sizeof *m->small);
    m->views = kvsi_alloc(m->layout.count, sizeof *m->views);
    if (!m->small || !m->views)
        return fail_memory(m, small, err);
    for (size_t i = 0; i < m->layout.count; i++) {
        const kvsi_parameter *p = &m->layout.list[i];

        if (kvsi_group_of(p->role) != KVSI_MATRICES) {
            m->values[i] = kvsi_model_small(m, (ptrdiff_t)p->offset);
        } else if (!is_view(m, p)) {
            m->values[i] = c->ops->alloc(c, p->count * sizeof *m->values[i]);
            if (!m->values[i])
                return fail_memory(m, p->count, err);
        } else {
            const kvsi_file_tensor *view = &kvsi_weights_find(m->weights, p->name)->view;

            m->views[i] = c->ops->adopt(c, view->data, kvsi_file_tensor_bytes(view));
            if (!m->views[i])
                return fail_memory(m, p->count, err);
        }
    }
    return KVS_OK;
}

/* The small tensors are all over the file: reading ahead all of them at once is faster. */
static void read_ahead_small_tensors(const kvs_model *m)
{
    for (size_t i = 0; i < m->layout.count; i++) {
        const kvsi_parameter *p = &m->layout.list[i];
        const kvsi_weights_tensor *t = kvsi_weights_find(m->weights, p->name);

        if (kvsi_group_of(p->role) != KVSI_MATRICES)
            kvsi_read_soon(t->view.data, kvsi_weights_extent(t));
    }
}

kvs_status kvsi_model_map(kvs_model **out, kvs_runtime *rt, const char *path, kvs_err *err)
{
    kvsi_weights *weights = NULL;
    kvs_model *m = NULL;
    kvs_status st;

    *out = NULL;
    TRY_OUT(kvsi_weights_open(&weights, path, err));
    TRY_OUT(kvsi_weights_check(weights, err));
    TRY_OUT(kvsi_model_begin(&m, rt, kvsi_weights_config(weights), err));
    m->weights = weights;
    m->ids = *kvsi_weights_token_ids(weights);
    weights = NULL;
    read_ahead_small_tensors(m);
    TRY_OUT(place_tensors(m, err));
    TRY_OUT(kvsi_model_set_weights(m, m->weights, err));
    TRY_OUT(kvsi_matrices_init(&m->matrices, m, err));
    *out = m;
    m = NULL;
out:
    kvs_model_free(m);
    kvsi_weights_close(weights);
    return st;
}
