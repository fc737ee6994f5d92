/* Loading a model of any format that can be opened. */
#include "base/memory.h"
#include "base/sized.h"
#include "model/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- checks ---- */

static void shape_text(char *out, size_t size, const size_t *shape, size_t rank)
{
    size_t at = 0;

    out[0] = '\0';
    for (size_t i = 0; i < rank && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, "%s%zu", i > 0 ? "," : "", shape[i]);
}

static kvs_status check_tensor(const kvsi_weights_tensor *t, const kvsi_parameter *p, kvs_err *err)
{
    const kvsi_file_tensor *view = &t->view;
    char found[96], expected[96];

    if (!kvsi_dtype_is_weight(view->dtype))
        return kvsi_fail(err, KVS_E_UNSUPPORTED,
                         "'%s': tensor '%s' is of type %s, which weights cannot have", t->file,
                         p->name, kvsi_dtype_name(view->dtype));
    if (view->rank == p->rank && memcmp(view->shape, p->shape, p->rank * sizeof *p->shape) == 0)
        return KVS_OK;
    shape_text(found, sizeof found, view->shape, view->rank);
    shape_text(expected, sizeof expected, p->shape, p->rank);
    return kvsi_fail(err, KVS_E_FORMAT,
                     "'%s': tensor '%s' has shape (%s), the configuration needs (%s)", t->file,
                     p->name, found, expected);
}

/* Refuses tensors that are not in the layout.  Call it when all of the layout's were found. */
static kvs_status check_unknown_tensors(const kvsi_layout *layout, const kvsi_weights *weights,
                                        kvs_err *err)
{
    if (kvsi_weights_count(weights) == layout->count)
        return KVS_OK;
    for (size_t i = 0; i < kvsi_weights_count(weights); i++) {
        const kvsi_weights_tensor *t = kvsi_weights_at(weights, i);

        if (!kvsi_layout_find(layout, t->view.name))
            return kvsi_fail(err, KVS_E_FORMAT,
                             "'%s' has a tensor '%.100s' that the configuration does not account "
                             "for",
                             t->file, t->view.name);
    }
    return KVS_OK;
}

kvs_status kvsi_weights_fit(const kvsi_layout *layout, const kvsi_weights *weights, kvs_err *err)
{
    for (size_t i = 0; i < layout->count; i++) {
        const kvsi_parameter *p = &layout->list[i];
        const kvsi_weights_tensor *t = kvsi_weights_find(weights, p->name);

        if (!t)
            return kvsi_fail(err, KVS_E_FORMAT, "'%s' has no tensor '%s'",
                             kvsi_weights_file(weights), p->name);
        TRY(check_tensor(t, p, err));
    }
    return check_unknown_tensors(layout, weights, err);
}

/* The tables of positions have one row per position of the context: a small file must not make us
 * allocate a large one. */
static kvs_status check_context(const kvs_model_config *c, const kvsi_layout *layout,
                                const char *file, kvs_err *err)
{
    enum {
        ALWAYS = 1 << 23,
        OF_WEIGHTS = 16
    }; /* table size that is always allowed, and per weight */
    const size_t row = kvsi_rotary_channels(c, 0) + (c->score_growth > 0);

    if (row > 0 && c->context > (ALWAYS + OF_WEIGHTS * kvsi_layout_total(layout)) / row)
        return kvsi_fail(err, KVS_E_LIMIT,
                         "'%s' claims a context of %zu tokens, too long for its %zu weights", file,
                         c->context, kvsi_layout_total(layout));
    return KVS_OK;
}

/* Runs before anything is allocated from the configuration, so that a small file cannot make us
 * allocate all memory. */
kvs_status kvsi_weights_check(const kvsi_weights *weights, kvs_err *err)
{
    const kvs_model_config *config = kvsi_weights_config(weights);
    kvsi_layout layout;
    kvs_status st;

    if (config->layers > kvsi_weights_count(weights))
        return kvsi_fail(err, KVS_E_FORMAT, "'%s' has %zu tensors, too few for %zu layers",
                         kvsi_weights_file(weights), kvsi_weights_count(weights), config->layers);
    st = kvsi_layout_init(&layout, config, err);
    if (st == KVS_OK)
        st = kvsi_weights_fit(&layout, weights, err);
    if (st == KVS_OK)
        st = check_context(config, &layout, kvsi_weights_file(weights), err);
    kvsi_layout_release(&layout);
    return st;
}

/* ---- values ---- */

/* A gain or a shift that is not finite would spoil every later token; there are few enough to check
 * each. */
static kvs_status check_finite(const kvsi_weights_tensor *t, const kvsi_parameter *p,
                               const float *values, kvs_err *err)
{
    for (size_t i = 0; i < p->count; i++)
        if (!isfinite(values[i]))
            return kvsi_fail(err, KVS_E_FORMAT, "'%s': tensor '%s' has %g at %zu", t->file, p->name,
                             (double)values[i], i);
    return KVS_OK;
}

kvs_status kvsi_weights_values(float *out, const kvsi_parameter *p,
                               const kvsi_weights_tensor *tensor, kvs_err *err)
{
    kvsi_weights_read(out, tensor);
    return kvsi_group_of(p->role) == KVSI_MATRICES ? KVS_OK : check_finite(tensor, p, out, err);
}

/* float32 in our order is read from the file directly; everything else is decoded into a buffer for
 * one tensor. */
static kvs_status set_tensor(kvs_model *m, const kvsi_parameter *p, const kvsi_weights_tensor *t,
                             kvs_err *err)
{
    const int is_small = kvsi_group_of(p->role) != KVSI_MATRICES;
    kvs_status st;
    float *values;

    if (t->view.dtype == KVSI_F32 && kvsi_weights_is_whole(t) && !is_small)
        return kvsi_model_set(m, p, t->view.data, err);
    values = kvsi_alloc(p->count, sizeof *values);
    if (!values)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for tensor '%s' of %zu values", p->name,
                         p->count);
    st = kvsi_weights_values(values, p, t, err);
    if (st == KVS_OK)
        st = kvsi_model_set(m, p, values, err);
    kvsi_free(values);
    return st;
}

kvs_status kvsi_model_set_weights(kvs_model *m, const kvsi_weights *weights, kvs_err *err)
{
    TRY(kvsi_weights_fit(&m->layout, weights, err));
    for (size_t i = 0; i < m->layout.count; i++) {
        const kvsi_parameter *p = &m->layout.list[i];

        if (m->values[i] || m->shards)
            TRY(set_tensor(m, p, kvsi_weights_find(weights, p->name), err));
    }
    return KVS_OK;
}

static const kvs_load_options defaults = {.size = sizeof defaults};

void kvs_load_options_init(kvs_load_options *options, size_t size)
{
    kvsi_sized_init(options, size, &defaults, sizeof defaults);
}

kvs_status kvs_model_load(kvs_model **out, kvs_runtime *rt, const char *path,
                          const kvs_load_options *options, kvs_err *err)
{
    kvs_load_options o = defaults;
    kvsi_weights *weights = NULL;
    kvs_model *m = NULL;
    kvs_status st;

    NEED(out);
    *out = NULL;
    NEED(rt);
    NEED(path);
    TRY(kvsi_sized_read(&o, sizeof o, options, "kvs_load_options", err));
    if (o.mapped)
        return kvsi_model_map(out, rt, path, err);
    TRY_OUT(kvsi_weights_open(&weights, path, err));
    TRY_OUT(kvsi_weights_check(weights, err));
    TRY_OUT(kvsi_model_allocate(&m, rt, kvsi_weights_config(weights), err));
    TRY_OUT(kvsi_model_set_weights(m, weights, err));
    m->ids = *kvsi_weights_token_ids(weights);
    *out = m;
    m = NULL;
out:
    kvs_model_free(m);
    kvsi_weights_close(weights);
    return st;
}
