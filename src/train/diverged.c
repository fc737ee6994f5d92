#include "train/diverged.h"

#include <math.h>
#include <stdio.h>

enum { CHUNK = 4096 }; /* values downloaded at once */

static int is_finite(kvsi_pass *p, const real *tensor, size_t count)
{
    kvsi_context *k = &p->context;
    real chunk[CHUNK];

    for (size_t from = 0; from < count; from += CHUNK) {
        const size_t now = count - from < CHUNK ? count - from : CHUNK;

        k->ops->download(k, chunk, tensor + from, now * sizeof *chunk);
        k->ops->sync(k);
        for (size_t i = 0; i < now; i++)
            if (!isfinite(chunk[i]))
                return 0;
    }
    return 1;
}

/* Checks the part of a tensor in this rank's shards, which start at `values`. */
static int shards_are_finite(kvsi_pass *p, const kvsi_shard_layout *shards,
                             const kvsi_parameter *tensor, const real *values)
{
    const kvsi_range range = {tensor->offset, tensor->count};

    for (size_t b = 0; b < shards->buckets; b++) {
        const kvsi_overlap own = kvsi_shard_overlap(shards, &shards->bucket[b], range);

        if (own.count > 0 && !is_finite(p, values + own.at, own.count))
            return 0;
    }
    return 1;
}

static int find_weight(char *where, kvsi_pass *p)
{
    const kvs_model *m = p->model;

    for (size_t i = 0; i < m->layout.count; i++) {
        const kvsi_parameter *tensor = &m->layout.list[i];
        const int finite = m->shards ? shards_are_finite(p, m->shards, tensor, m->parameters)
                                     : is_finite(p, m->values[i], tensor->count);

        if (!finite) {
            snprintf(where, KVSI_WHERE_SIZE, "weight '%s'", tensor->name);
            return 1;
        }
    }
    return 0;
}

/* The results of a layer in order.  A training pass keeps all of them; with recomputation only the
 * inputs. */
static int find_in_layer(char *where, kvsi_pass *p, size_t layer)
{
    const kvs_model_config *c = &p->model->config;
    const kvsi_layer_memory *m = &p->layers[layer];
    const kvsi_layer_shape shape = kvsi_layer_shape_of(c, layer);
    const size_t n = p->tokens, qkv = shape.qkv_width;
    const size_t kept = p->limits.recompute ? 0 : n; /* rows */
    const struct {
        const char *name;
        const real *values;
        size_t count;
    } steps[] = {
        {"the input", m->x, n * c->dim},
        {"queries, keys and values", m->qkv, kept * qkv},
        {"attention", m->mixed, kept * shape.q_width},
        {"the sum with attention", m->middle, kept * c->dim},
        {"the feed-forward part", m->up, kept * kvsi_up_width(c)},
    };

    kvsi_pass_widen_layer(p, layer);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (!is_finite(p, steps[i].values, steps[i].count)) {
            snprintf(where, KVSI_WHERE_SIZE, "%s of layer %zu", steps[i].name, layer);
            return 1;
        }
    return 0;
}

static int find_activation(char *where, kvsi_pass *p)
{
    const kvs_model_config *c = &p->model->config;

    for (size_t l = 0; l < c->layers; l++)
        if (find_in_layer(where, p, l))
            return 1;
    if (is_finite(p, p->last, p->tokens * c->dim))
        return 0;
    snprintf(where, KVSI_WHERE_SIZE, "the output of the last layer");
    return 1;
}

static int find_gradient(char *where, kvsi_pass *p, const kvsi_reducer *gradients)
{
    const kvsi_layout *layout = &p->model->layout;

    for (size_t i = layout->count; i-- > 0;) {
        const kvsi_parameter *tensor = &layout->list[i];
        size_t count;

        for (size_t at = 0; at < tensor->count; at += count) {
            const real *values = kvsi_reducer_find_sum(gradients, tensor->offset + at, &count);

            count = count < tensor->count - at ? count : tensor->count - at;
            if (values && !is_finite(p, values, count)) {
                snprintf(where, KVSI_WHERE_SIZE, "the gradient of '%s'", tensor->name);
                return 1;
            }
        }
    }
    return 0;
}

int kvsi_find_not_finite(char where[KVSI_WHERE_SIZE], kvsi_pass *pass,
                         const kvsi_reducer *gradients)
{
    if (find_weight(where, pass))
        return 1;
    if (!gradients && find_activation(where, pass))
        return 1;
    if (gradients && find_gradient(where, pass, gradients))
        return 1;
    snprintf(where, KVSI_WHERE_SIZE, gradients ? "the gradient norm" : "the loss");
    return 0;
}
