/* What a run will need, before anything is allocated: memory, operations, bytes between ranks. */
#include "kernels/runtime.h"
#include "model/pass.h"
#include "train/budget.h"
#include "train/optimizer.h"
#include "train/zero/all_gather.h"
#include "train/zero/gradient_sizes.h"

#include <math.h>

/* 6 operations per token and matrix weight: 2 forward, 4 backward, except for embeddings, which are
 * looked up; plus attention, which grows with the length.  Norms and taps are not counted. */
static double flops_per_token(const kvs_model_config *c, const kvsi_layout *layout, double length)
{
    double weights = 0;

    for (size_t i = 0; i < layout->count; i++) {
        const kvsi_parameter *p = &layout->list[i];
        const int looked_up = p->role == KVSI_POSITION || (p->role == KVSI_EMBEDDING && !c->tied);

        const int multiplies = kvsi_group_of(p->role) == KVSI_MATRICES || p->role == KVSI_GATE;

        weights += multiplies && !looked_up ? (double)p->count : 0;
    }
    return 6 * weights + 6 * (double)(c->layers * c->dim) * length;
}

/* ---- one rank ---- */

/* A run that is planned, but not created. */
typedef struct planned {
    kvs_model model; /* configuration, layout and context only */
    kvsi_shard_layout shards;
    const kvs_train_config *train;
} planned;

/* Parameters that stage 3 gathers in a pass: see train/zero/all_gather.c.  When the backward pass
 * starts, the last layer is still in its slot. */
static double gathered_params(const planned *m)
{
    const size_t layers = m->model.config.layers;
    double params = 0;

    for (size_t block = 0; block < m->shards.blocks; block++)
        params += (double)m->shards.block[block].count;
    for (size_t l = 0; l + 1 < layers; l++)
        params += (double)m->shards.block[kvsi_block_of_layer(l)].count;
    if (m->model.config.tied && layers > 1)
        params += (double)m->shards.block[KVSI_BLOCK_EMBEDDING].count;
    return params;
}

/* In a reduce-scatter a rank sends every shard but its own; in an all-gather it sends its own shard
 * to every other rank.  Both are (ranks - 1) / ranks of the data. */
static void count_bytes(kvs_plan *out, const planned *m)
{
    const kvsi_shard_layout *shards = &m->shards;
    const double each = (double)sizeof(real) * (double)(shards->ranks - 1) / (double)shards->ranks;
    const double small = each * (double)(shards->total - shards->matrices);
    const double matrices = m->train->only_shift ? 0 : each * (double)shards->small_from;
    const double passes = (double)out->passes;

    out->gradients_sent = 2 * small + matrices;
    switch (m->train->shard) {
    case KVSI_SHARD_NONE:
        out->gradients_sent += matrices;
        return;
    case KVSI_SHARD_OPTIMIZER:
        out->weights_sent = matrices;
        return;
    case KVSI_SHARD_GRADIENTS:
        out->gradients_sent += (passes - 1) * matrices;
        out->weights_sent = matrices;
        return;
    case KVSI_SHARD_PARAMETERS:
        out->gradients_sent += (passes - 1) * matrices;
        out->weights_sent = passes * each * gathered_params(m);
        return;
    }
}

static void fill_plan(kvs_plan *out, const planned *m, const kvs_data *data)
{
    const kvs_train_config *train = m->train;
    const kvsi_shard_layout *shards = &m->shards;
    const kvsi_pass_limits limits = kvsi_training_limits(data, train, shards->ranks);
    const size_t all = kvsi_layout_total(&m->model.layout);
    const int sharded = train->shard == KVSI_SHARD_PARAMETERS;
    const kvsi_gradient_sizes gradients = kvsi_gradient_sizes_of(shards, &m->model.config, train);

    *out = (kvs_plan){
        .ranks = shards->ranks,
        .parameters = all,
        .weight_bytes = (sharded ? shards->total : all) * sizeof(real),
        .gradient_bytes = kvsi_gradient_bytes(&gradients),
        .moment_bytes = 2 * kvsi_moment_count(shards, train->shard) * sizeof(real),
        .exchange_bytes =
            kvsi_gradient_buffer_bytes(&gradients) + kvsi_all_gather_bytes(shards, train->shard),
        .pass_bytes = kvsi_pass_bytes(&m->model, &limits),
        .passes = kvsi_passes_of_step(train, shards->ranks),
        .tokens_per_step = data->mean_tokens * (double)train->batch,
        .flops_per_token = flops_per_token(&m->model.config, &m->model.layout, data->mean_tokens),
    };
    out->total_bytes = out->weight_bytes + out->gradient_bytes + out->moment_bytes +
                       out->exchange_bytes + out->pass_bytes;
    count_bytes(out, m);
}

static kvs_status plan_ranks(kvs_plan *out, const kvs_runtime *rt, const kvs_model_config *config,
                             const kvs_data *data, const kvs_train_config *train, size_t ranks,
                             kvs_err *err)
{
    planned m = {.model = {.config = *config, .context = kvsi_runtime_context(rt)}, .train = train};
    const kvs_data windows = {.max_tokens = config->context,
                              .mean_tokens = (double)config->context};
    kvs_status st;

    TRY_OUT(kvs_train_config_check(train, err));
    TRY_OUT(kvsi_reducer_check_ranks(train, ranks, err));
    TRY_OUT(kvs_model_config_finish(&m.model.config, err));
    TRY_OUT(kvsi_layout_init(&m.model.layout, &m.model.config, err));
    TRY_OUT(
        kvsi_shard_layout_init(&m.shards, &m.model.layout, m.model.config.layers, ranks, 0, err));
    fill_plan(out, &m, data ? data : &windows);
out:
    kvsi_layout_release(&m.model.layout);
    kvsi_shard_layout_release(&m.shards);
    return st;
}

kvs_status kvs_train_plan(kvs_plan *out, const kvs_runtime *rt, const kvs_model_config *config,
                          const kvs_data *data, const kvs_train_config *train, kvs_err *err)
{
    NEED(out);
    NEED(rt);
    NEED(config);
    NEED(train);
    return plan_ranks(out, rt, config, data, train, rt->comm->size, err);
}

/* ---- many machines ---- */

/* AdamW reads 4 values per parameter and writes 3; summing received gradients reads 2, writes 1. */
static double update_bytes(const kvs_plan *p, kvsi_shard_stage shard)
{
    const double updated = (double)p->moment_bytes / 2;
    const double added = shard == KVSI_SHARD_NONE ? p->gradients_sent / 2 : p->gradients_sent;

    return 7 * updated + 3 * added;
}

/* Stages 0 and 1 send gradients during the last backward pass only, stages 2 and 3 during every
 * one. Stages 1 and 2 need the updated parameters in the first forward pass of the next step. */
static double overlapped(const kvs_cluster_plan *c, const kvs_train_config *train, double gradients,
                         double weights)
{
    const double pass = c->compute_seconds / (double)c->plan.passes;
    const int every = train->shard >= KVSI_SHARD_GRADIENTS;
    const double backward = 2 * pass / 3, forward = pass / 3;
    const double n = (double)c->plan.passes;

    if (train->shard == KVSI_SHARD_PARAMETERS) /* both, during all of every pass */
        return fmax(c->compute_seconds, gradients + weights);
    return c->compute_seconds - (every ? n : 1) * backward - forward +
           (every ? n * fmax(backward, gradients / n) : fmax(backward, gradients)) +
           fmax(forward, weights);
}

kvs_status kvs_train_plan_cluster(kvs_cluster_plan *out, const kvs_runtime *rt,
                                  const kvs_model_config *config, const kvs_data *data,
                                  const kvs_train_config *train, const kvs_cluster *cluster,
                                  kvs_err *err)
{
    kvs_cluster_plan c = {.step_seconds = 0};
    double gradients, weights, tokens;

    NEED(out);
    NEED(rt);
    NEED(config);
    NEED(train);
    NEED(cluster);
    if (cluster->ranks < 1)
        return kvsi_fail(err, KVS_E_INVALID, "a cluster has 0 ranks, expected at least 1");
    if (!(cluster->flops > 0) || !(cluster->link_bytes > 0) || !(cluster->memory_bytes > 0))
        return kvsi_fail(err, KVS_E_INVALID, "a cluster's speeds must be above 0");
    TRY(plan_ranks(&c.plan, rt, config, data, train, cluster->ranks, err));
    tokens = c.plan.tokens_per_step / (double)cluster->ranks;
    gradients = c.plan.gradients_sent / cluster->link_bytes;
    weights = c.plan.weights_sent / cluster->link_bytes;
    c.compute_seconds =
        tokens * c.plan.flops_per_token * (train->recompute ? 4.0 / 3 : 1) / cluster->flops;
    c.update_seconds = update_bytes(&c.plan, train->shard) / cluster->memory_bytes;
    c.transfer_seconds = gradients + weights;
    c.step_seconds = c.compute_seconds + c.update_seconds + c.transfer_seconds;
    c.overlapped_step_seconds = c.update_seconds + overlapped(&c, train, gradients, weights);
    *out = c;
    return KVS_OK;
}
