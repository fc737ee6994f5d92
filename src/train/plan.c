/* What a run will take, before anything is allocated: memory, work, bytes from rank to rank. */
#include "kernels/runtime.h"
#include "model/pass.h"
#include "train/budget.h"
#include "train/fetch.h"
#include "train/gradient_sizes.h"
#include "train/optimizer.h"

/* Every weight of a matrix takes part in one multiplication forward and two backward, but for the
 * embedding, which is looked up; attention's products grow with the length.  Norms and the shift's
 * taps are no matrices. */
static double flops_per_token(const kvs_model_config *c, const kvsi_layout *layout, double length)
{
    double weights = 0;

    for (size_t i = 0; i < layout->count; i++) {
        const kvsi_parameter *p = &layout->list[i];
        const int looked_up = p->role == KVSI_POSITION || (p->role == KVSI_EMBEDDING && !c->tied);

        weights += p->rank == 2 && p->role != KVSI_TAPS && !looked_up ? (double)p->count : 0;
    }
    return 6 * weights + 6 * (double)(c->layers * c->dim) * length;
}

/* ---- one rank ---- */

/* A run that is only measured. */
typedef struct measured {
    kvs_model model; /* its configuration and layout alone */
    kvsi_share share;
    const kvs_train_config *train;
} measured;

static size_t passes_of_step(const measured *m)
{
    const size_t ranks = m->share.ranks, slice = kvsi_slice_sequences(m->train, ranks);
    const size_t part = kvsi_part_sequences(m->train, ranks);

    return m->train->batch / ranks / slice * ((slice + part - 1) / part);
}

/* Numbers of the units that are fetched in a pass: see train/fetch.c.  Of the way back, the last
 * layer is still there. */
static double fetched_numbers(const measured *m)
{
    const size_t layers = m->model.config.layers;
    double numbers = 0;

    for (size_t unit = 0; unit < m->share.units; unit++)
        numbers += (double)m->share.unit[unit].count;
    for (size_t l = 0; l + 1 < layers; l++)
        numbers += (double)m->share.unit[kvsi_unit_of_layer(l)].count;
    if (m->model.config.tied && layers > 1)
        numbers += (double)m->share.unit[KVSI_UNIT_EMBEDDING].count;
    return numbers;
}

/* A rank sends all but its own piece of what goes to their owners, and its piece to all others of
 * what goes to everyone: as much. */
static void count_bytes(kvs_plan *out, const measured *m)
{
    const kvsi_share *share = &m->share;
    const double each = (double)sizeof(real) * (double)(share->ranks - 1) / (double)share->ranks;
    const double small = each * (double)(share->total - share->matrices);
    const double matrices = m->train->only_shift ? 0 : each * (double)share->small_from;
    const double passes = (double)out->passes;

    out->gradients_sent = 2 * small + matrices;
    switch (m->train->shard) {
    case KVS_SHARD_NONE:
        out->gradients_sent += matrices;
        return;
    case KVS_SHARD_OPTIMIZER:
        out->weights_sent = matrices;
        return;
    case KVS_SHARD_GRADIENTS:
        out->gradients_sent += (passes - 1) * matrices;
        out->weights_sent = matrices;
        return;
    case KVS_SHARD_PARAMETERS:
        out->gradients_sent += (passes - 1) * matrices;
        out->weights_sent = passes * each * fetched_numbers(m);
        return;
    }
}

static void fill_plan(kvs_plan *out, const measured *m, const kvs_task *task)
{
    const kvs_train_config *train = m->train;
    const kvsi_share *share = &m->share;
    const kvsi_pass_limits limits = kvsi_training_limits(task, train, share->ranks);
    const size_t all = kvsi_layout_total(&m->model.layout);
    const int spread = train->shard == KVS_SHARD_PARAMETERS;
    const kvsi_gradient_sizes gradients = kvsi_gradient_sizes_of(share, &m->model.config, train);

    *out = (kvs_plan){
        .ranks = share->ranks,
        .parameters = all,
        .weight_bytes = (spread ? share->total : all) * sizeof(real),
        .gradient_bytes = kvsi_gradient_bytes(&gradients),
        .moment_bytes = 2 * kvsi_moment_count(share, train->shard) * sizeof(real),
        .exchange_bytes =
            kvsi_gradient_buffer_bytes(&gradients) + kvsi_fetch_bytes(share, train->shard),
        .pass_bytes = kvsi_pass_bytes(&m->model, &limits),
        .passes = passes_of_step(m),
        .tokens_per_step = task->mean_tokens * (double)train->batch,
        .flops_per_token = flops_per_token(&m->model.config, &m->model.layout, task->mean_tokens),
    };
    out->total_bytes = out->weight_bytes + out->gradient_bytes + out->moment_bytes +
                       out->exchange_bytes + out->pass_bytes;
    count_bytes(out, m);
}

static kvs_status plan_ranks(kvs_plan *out, const kvs_runtime *rt, const kvs_model_config *config,
                             const kvs_task *task, const kvs_train_config *train, size_t ranks,
                             kvs_err *err)
{
    measured m = {.model = {.config = *config, .context = kvsi_runtime_context(rt)},
                  .train = train};
    const kvs_task windows = {.max_tokens = config->context,
                              .mean_tokens = (double)config->context};
    kvs_status st;

    TRY_OUT(kvs_train_config_check(train, err));
    TRY_OUT(kvsi_team_check_ranks(train, ranks, err));
    TRY_OUT(kvs_model_config_finish(&m.model.config, err));
    TRY_OUT(kvsi_layout_init(&m.model.layout, &m.model.config, err));
    TRY_OUT(kvsi_share_init(&m.share, &m.model.layout, m.model.config.layers, ranks, 0, err));
    fill_plan(out, &m, task ? task : &windows);
out:
    kvsi_layout_release(&m.model.layout);
    kvsi_share_release(&m.share);
    return st;
}

kvs_status kvs_train_plan(kvs_plan *out, const kvs_runtime *rt, const kvs_model_config *config,
                          const kvs_task *task, const kvs_train_config *train, kvs_err *err)
{
    return plan_ranks(out, rt, config, task, train, rt->comm->size, err);
}

/* ---- many machines ---- */

static double larger(double x, double y)
{
    return x > y ? x : y;
}

/* AdamW reads four numbers and writes three; adding up what others sent reads two, writes one. */
static double update_bytes(const kvs_plan *p, kvs_shard shard)
{
    const double updated = (double)p->moment_bytes / 2;
    const double added = shard == KVS_SHARD_NONE ? p->gradients_sent / 2 : p->gradients_sent;

    return 7 * updated + 3 * added;
}

/* Of a step's passes, gradients of whole blocks are sent during the last, and whole weights wanted
 * by the first; what is spread goes with every pass. */
static double overlapped(const kvs_cluster_plan *c, const kvs_train_config *train, double gradients,
                         double weights)
{
    const double pass = c->compute_seconds / (double)c->plan.passes;
    const int every = train->shard >= KVS_SHARD_GRADIENTS;
    const double backward = 2 * pass / 3, forward = pass / 3;
    const double n = (double)c->plan.passes;

    if (train->shard == KVS_SHARD_PARAMETERS) /* both in all parts of every pass */
        return larger(c->compute_seconds, gradients + weights);
    return c->compute_seconds - (every ? n : 1) * backward - forward +
           (every ? n * larger(backward, gradients / n) : larger(backward, gradients)) +
           larger(forward, weights);
}

kvs_status kvs_train_plan_cluster(kvs_cluster_plan *out, const kvs_runtime *rt,
                                  const kvs_model_config *config, const kvs_task *task,
                                  const kvs_train_config *train, const kvs_cluster *cluster,
                                  kvs_err *err)
{
    kvs_cluster_plan c = {.step_seconds = 0};
    double gradients, weights, tokens;

    if (!(cluster->flops > 0) || !(cluster->link_bytes > 0) || !(cluster->memory_bytes > 0))
        return kvsi_fail(err, KVS_E_INVALID, "a cluster's speeds must be above 0");
    TRY(plan_ranks(&c.plan, rt, config, task, train, cluster->ranks, err));
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
