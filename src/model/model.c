#include "model/model.h"

#include "base/memory.h"
#include "config/rotations.h"
#include "kernels/runtime.h"

#include <math.h>
#include <string.h>

/* Moves a table to the backend; frees the host's copy. */
static kvs_status upload_table(real **out, kvsi_context *c, real *host, size_t count, kvs_err *err)
{
    *out = c->ops->alloc(c, count * sizeof *host);
    if (!host || !*out) {
        kvsi_free(host);
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for a table of %zu values", count);
    }
    c->ops->upload(c, *out, host, count * sizeof *host);
    kvsi_free(host);
    return kvsi_sync(c, err);
}

/* Pair i rotates by position * angle i; computed in double, stored as real. */
static kvs_status make_rotations(real **out, kvs_model *m, size_t rotary, int slides, kvs_err *err)
{
    const size_t half = rotary / 2, rows = m->config.context;
    real *host = kvsi_alloc(rows * rotary, sizeof *host);
    double *angles = kvsi_alloc(half, sizeof *angles), scale; /* angle per position */

    if (!host || !angles) {
        kvsi_free(host);
        kvsi_free(angles);
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for the rotations of %zu tokens", rows);
    }
    scale = kvsi_rope_frequencies(angles, &m->config, rotary, slides);
    for (size_t t = 0; t < rows; t++)
        for (size_t i = 0; i < half; i++) {
            const double angle = (double)t * angles[i];

            host[t * rotary + i] = (real)(scale * cos(angle));
            host[t * rotary + half + i] = (real)(scale * sin(angle));
        }
    kvsi_free(angles);
    return upload_table(out, &m->context, host, rows * rotary, err);
}

static kvs_status make_slopes(real **out, kvs_model *m, size_t heads, kvs_err *err)
{
    const kvs_model_config *c = &m->config;
    real *host = kvsi_alloc(heads, sizeof *host);

    for (size_t h = 0; host && h < heads; h++)
        host[h] = (real)(c->slopes == 0 ? pow(2.0, -8.0 * (double)(h + 1) / (double)heads)
                                        : c->slope[c->slopes == 1 ? 0 : h]);
    return upload_table(out, &m->context, host, heads, err);
}

static kvs_status make_growth(real **out, kvs_model *m, kvs_err *err)
{
    const kvs_model_config *c = &m->config;
    real *host = kvsi_alloc(c->context, sizeof *host);

    for (size_t t = 0; host && t < c->context; t++)
        host[t] =
            (real)(1 + c->score_growth * log(fmax((double)(t + 1) / c->score_growth_start, 1)));
    return upload_table(out, &m->context, host, c->context, err);
}

static kvs_status make_tables(kvsi_tables *out, kvs_model *m, int slides, kvs_err *err)
{
    const kvs_model_config *c = &m->config;
    const size_t rotary = kvsi_rotary_channels(c, slides);

    if (c->score_growth > 0 && !slides)
        TRY(make_growth(&out->growth, m, err));
    if (rotary > 0)
        return make_rotations(&out->rotations, m, rotary, slides, err);
    if (c->positions == KVSI_POSITIONS_ALIBI)
        return make_slopes(&out->slopes, m, slides ? c->sliding_heads : c->heads, err);
    return KVS_OK;
}

static void release_tables(const kvsi_tables *tables, const kvsi_context *c)
{
    c->ops->release(c, tables->rotations);
    c->ops->release(c, tables->slopes);
    c->ops->release(c, tables->growth);
}

kvs_status kvsi_model_begin(kvs_model **out, kvs_runtime *rt, const kvs_model_config *config,
                            kvs_err *err)
{
    kvs_status st = KVS_OK;
    kvs_model *m = kvsi_alloc(1, sizeof *m);

    *out = NULL;
    if (!m)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for a model");
    m->config = *config;
    m->context = kvsi_runtime_context(rt);
    m->comm = rt->comm;
    m->version = 1;
    TRY_OUT(kvs_model_config_finish(&m->config, err));
    TRY_OUT(kvsi_layout_init(&m->layout, &m->config, err));
    m->values = kvsi_alloc(m->layout.count, sizeof *m->values);
    if (!m->values) {
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for %zu tensors", m->layout.count);
        goto out;
    }
    TRY_OUT(make_tables(&m->tables, m, 0, err));
    TRY_OUT(make_tables(&m->sliding_tables, m, 1, err));
    *out = m;
    m = NULL;
out:
    kvs_model_free(m);
    return st;
}

/* Number of parameters that this process holds. */
static kvs_status find_shards(size_t *values, kvs_model *m, int spread, kvs_err *err)
{
    kvs_status st;

    *values = kvsi_layout_total(&m->layout);
    if (!spread)
        return KVS_OK;
    m->shards = kvsi_alloc(1, sizeof *m->shards);
    if (!m->shards)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for a model");
    st = kvsi_shard_layout_init(m->shards, &m->layout, m->config.layers, m->comm->size,
                                m->comm->rank, err);
    *values = m->shards->total;
    return st;
}

kvs_status kvsi_model_allocate(kvs_model **out, kvs_runtime *rt, const kvs_model_config *config,
                               kvs_err *err)
{
    kvs_model *m = NULL;
    size_t values;
    kvs_status st;

    *out = NULL;
    TRY_OUT(kvsi_model_begin(&m, rt, config, err));
    TRY_OUT(find_shards(&values, m, rt->spread, err));
    m->parameters = rt->ops->alloc(&m->context, values * sizeof(real));
    if (!m->parameters) {
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for %zu parameters", values);
        goto out;
    }
    m->small =
        m->parameters + (m->shards ? m->shards->matrices : m->layout.group_start[KVSI_GAINS]);
    for (size_t i = 0; i < m->layout.count; i++) {
        const kvsi_parameter *p = &m->layout.list[i];

        if (kvsi_group_of(p->role) != KVSI_MATRICES)
            m->values[i] = kvsi_model_small(m, (ptrdiff_t)p->offset);
        else if (!m->shards)
            m->values[i] = m->parameters + p->offset;
    }
    TRY_OUT(kvsi_matrices_init(&m->matrices, m, err));
    *out = m;
    m = NULL;
out:
    kvs_model_free(m);
    return st;
}

kvs_status kvs_model_create(kvs_model **out, kvs_runtime *rt, const kvs_model_config *config,
                            uint64_t seed, kvs_err *err)
{
    kvs_status st;
    kvs_model *m = NULL;
    real *values = NULL;
    size_t largest = 0;

    NEED(out);
    *out = NULL;
    NEED(rt);
    NEED(config);
    TRY_OUT(kvsi_model_allocate(&m, rt, config, err));
    for (size_t i = 0; i < m->layout.count; i++)
        largest = m->layout.list[i].count > largest ? m->layout.list[i].count : largest;
    values = kvsi_alloc(largest, sizeof *values);
    if (!values) {
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for a tensor of %zu values", largest);
        goto out;
    }
    for (size_t i = 0; i < m->layout.count; i++) {
        const kvsi_parameter *p = &m->layout.list[i];

        kvsi_parameter_fill(values, p, &m->config, seed, rt->threads);
        TRY_OUT(kvsi_model_put(m, p, 0, values, p->count, err));
    }
    *out = m;
    m = NULL;
out:
    kvsi_free(values);
    kvs_model_free(m);
    return st;
}

/* A model without a block: the small tensors, and the matrices of the file, decoded or adopted. */
static void release_tensors(const kvs_model *m)
{
    const kvsi_context *c = &m->context;

    for (size_t i = 0; m->values && i < m->layout.count; i++)
        if (kvsi_group_of(m->layout.list[i].role) == KVSI_MATRICES)
            c->ops->release(c, m->values[i]);
    for (size_t i = 0; m->views && i < m->layout.count; i++)
        c->ops->disown(c, m->views[i]);
    c->ops->release(c, m->small);
}

void kvs_model_free(kvs_model *model)
{
    if (!model)
        return;
    if (model->parameters)
        model->context.ops->release(&model->context, model->parameters);
    else
        release_tensors(model);
    kvsi_weights_close(model->weights);
    kvsi_matrices_release(&model->matrices);
    release_tables(&model->tables, &model->context);
    release_tables(&model->sliding_tables, &model->context);
    kvsi_free(model->values);
    kvsi_free(model->views);
    if (model->shards)
        kvsi_shard_layout_release(model->shards);
    kvsi_free(model->shards);
    kvsi_layout_release(&model->layout);
    kvsi_free(model);
}

size_t kvs_model_eos(const kvs_model *model, const int32_t **ids)
{
    if (ids)
        *ids = model ? model->ids.eos : NULL;
    return model ? model->ids.eos_count : 0;
}

kvs_status kvs_model_set_eos(kvs_model *model, const int32_t *ids, size_t count, kvs_err *err)
{
    NEED(model);
    NEED_ARRAY(ids, count);
    if (count > KVSI_EOS_MAX)
        return kvsi_fail(err, KVS_E_LIMIT, "expected at most %d tokens that end a text, found %zu",
                         (int)KVSI_EOS_MAX, count);
    for (size_t i = 0; i < count; i++)
        if (ids[i] < 0 || (size_t)ids[i] >= model->config.vocab)
            return kvsi_fail(err, KVS_E_INVALID, "token %zu is id %d, expected 0 to %zu", i,
                             (int)ids[i], model->config.vocab - 1);
    if (count > 0)
        memcpy(model->ids.eos, ids, count * sizeof *ids);
    model->ids.eos_count = count;
    return KVS_OK;
}

const kvs_model_config *kvs_model_get_config(const kvs_model *model)
{
    return model ? &model->config : NULL;
}

uint64_t kvs_model_parameters(const kvs_model *model)
{
    return model ? kvsi_layout_total(&model->layout) : 0;
}
