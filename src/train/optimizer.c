#include "train/optimizer.h"

#include "base/memory.h"

#include <math.h>

size_t kvsi_moment_count(const kvsi_share *share, kvs_shard shard)
{
    const size_t small = share->total - share->matrices;

    return shard == KVS_SHARD_NONE ? share->small_from + small : share->total;
}

kvs_status kvsi_optimizer_init(kvsi_optimizer *optimizer, kvsi_team *team, kvs_err *err)
{
    const kvsi_context *c = &team->context;
    const kvsi_share *share = team->share;
    const size_t bytes = kvsi_moment_count(share, team->shard) * sizeof(real);
    kvsi_optimizer *o = optimizer;

    *o = (kvsi_optimizer){
        .team = team,
        .mean = c->ops->alloc(c, bytes),
        .square = c->ops->alloc(c, bytes),
        .sum = c->ops->alloc(c, sizeof *o->sum),
        .scale = c->ops->alloc(c, sizeof *o->scale),
        .sums = kvsi_alloc((share->ranks + 1) * share->buckets * (share->grains / share->ranks),
                           sizeof *o->sums),
    };
    if (o->mean && o->square && o->sum && o->scale && o->sums)
        return KVS_OK;
    kvsi_optimizer_release(o);
    return kvsi_fail(err, KVS_E_NOMEM, "out of memory for moments of %zu MiB each", bytes >> 20);
}

void kvsi_optimizer_release(kvsi_optimizer *optimizer)
{
    const kvsi_context *c = optimizer->team ? &optimizer->team->context : NULL;

    if (!c)
        return;
    c->ops->release(c, optimizer->mean);
    c->ops->release(c, optimizer->square);
    c->ops->release(c, optimizer->sum);
    c->ops->release(c, optimizer->scale);
    kvsi_free(optimizer->sums);
    *optimizer = (kvsi_optimizer){0};
}

/* ---- the norm ---- */

/* Sums of squares of this rank's grains, bucket by bucket. */
static void sum_grains(kvsi_optimizer *o, const kvsi_gradients *g, double *sums)
{
    const kvsi_share *share = o->team->share;
    const size_t grains = share->grains / share->ranks;
    kvsi_context *c = &o->team->context;

    for (size_t b = 0; b < share->buckets; b++)
        for (size_t i = 0; i < grains; i++) {
            const kvsi_bucket *bucket = &share->bucket[b];
            const kvsi_range grain = kvsi_bucket_grain(bucket, share->rank * grains + i);

            sums[b * grains + i] = 0;
            if (!kvsi_team_trains(o->team, b) || grain.count == 0)
                continue;
            c->ops->sum_squares(c, o->sum, kvsi_gradients_sum(g, bucket, grain.from), grain.count);
            c->ops->download(c, &sums[b * grains + i], o->sum, sizeof *sums);
            c->ops->sync(c);
        }
}

/* Adds them in the order of the block, whoever has them. */
static double add_grains(const kvsi_share *share, const double *all)
{
    const size_t grains = share->grains / share->ranks, each = share->buckets * grains;
    double sum = 0;

    for (size_t b = 0; b < share->buckets; b++)
        for (size_t r = 0; r < share->ranks; r++)
            for (size_t i = 0; i < grains; i++)
                sum += all[r * each + b * grains + i];
    return sum;
}

kvs_status kvsi_optimizer_measure(kvsi_optimizer *optimizer, const kvsi_gradients *gradients,
                                  double mean, double limit, double *norm, kvs_err *err)
{
    const kvsi_share *share = optimizer->team->share;
    const size_t each = share->buckets * (share->grains / share->ranks);
    double *own = optimizer->sums, *all = own + each, sum;
    kvsi_context *c = &optimizer->team->context;

    sum_grains(optimizer, gradients, own);
    TRY(kvsi_team_gather(optimizer->team, all, own, each * sizeof *own, err));
    sum = add_grains(share, all);
    *norm = mean * sqrt(sum);
    c->ops->upload(c, optimizer->sum, &sum, sizeof sum);
    c->ops->clip_scale(c, optimizer->scale, optimizer->sum, mean, limit);
    return kvsi_sync(c, err);
}

/* ---- the update ---- */

/* What is done differently from group to group. */
typedef struct group_rates {
    double lr, decay;
} group_rates;

static group_rates rates_of(const kvs_train_config *c, kvsi_group group, uint64_t step)
{
    const double others = c->decay_all ? c->weight_decay : 0.0;

    switch (group) {
    case KVSI_SHIFTS:
        return (group_rates){kvs_shift_learning_rate(c, step),
                             c->shift_decay > 0 ? c->shift_decay : others};
    case KVSI_GAINS:
        return (group_rates){kvs_learning_rate(c, step), others};
    default:
        return (group_rates){kvs_learning_rate(c, step), c->weight_decay};
    }
}

/* A range of the block, of which this rank has to update all, in a bucket. */
typedef struct updated {
    const kvsi_bucket *bucket;
    kvsi_range range;
} updated;

static real *weights_of(const kvsi_team *t, const updated *u)
{
    if (u->bucket->group != KVSI_MATRICES)
        return kvsi_model_small(t->model, (ptrdiff_t)u->range.from);
    return t->model->parameters + (t->model->share ? u->bucket->at : u->range.from);
}

static void update_range(kvsi_optimizer *o, const kvsi_gradients *g, kvsi_adamw *h,
                         const kvs_train_config *config, uint64_t step, const updated *u)
{
    const group_rates rates = rates_of(config, u->bucket->group, step);
    const size_t at = o->team->shard == KVS_SHARD_NONE ? u->range.from : u->bucket->at;
    kvsi_context *c = &o->team->context;

    h->lr = rates.lr;
    h->decay = rates.decay;
    c->ops->adamw(c, weights_of(o->team, u), kvsi_gradients_sum(g, u->bucket, u->range.from),
                  o->mean + at, o->square + at, u->range.count, h, o->scale);
}

void kvsi_optimizer_update(kvsi_optimizer *optimizer, const kvsi_gradients *gradients,
                           kvsi_fetch *fetch, const kvs_train_config *config, uint64_t step)
{
    const kvsi_team *t = optimizer->team;
    kvsi_adamw h = {
        .beta1 = config->beta1,
        .beta2 = config->beta2,
        .eps = config->eps,
        .correction1 = 1.0 - pow(config->beta1, (double)step),
        .correction2 = 1.0 - pow(config->beta2, (double)step),
    };

    for (size_t b = 0; b < t->share->buckets; b++) {
        const kvsi_bucket *bucket = &t->share->bucket[b];
        const int is_mine_alone = t->shard != KVS_SHARD_NONE && bucket->group == KVSI_MATRICES;
        const updated u = {bucket,
                           is_mine_alone ? kvsi_bucket_piece(t->share, bucket) : bucket->all};

        if (!kvsi_team_trains(t, b))
            continue;
        update_range(optimizer, gradients, &h, config, step, &u);
        if (is_mine_alone)
            kvsi_fetch_updated(fetch, b);
    }
    optimizer->team->context.ops->sync(&optimizer->team->context);
}
