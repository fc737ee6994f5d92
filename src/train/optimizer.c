#include "train/optimizer.h"

#include "base/memory.h"

#include <math.h>

size_t kvsi_moment_start(const kvsi_shard_layout *layout, int sharded, size_t trained_from)
{
    return sharded && trained_from > 0 ? layout->matrices : trained_from;
}

size_t kvsi_moment_count(const kvsi_shard_layout *layout, kvsi_shard_stage shard,
                         size_t trained_from)
{
    const size_t small = layout->total - layout->matrices;
    const int sharded = shard != KVSI_SHARD_NONE;

    return (sharded ? layout->matrices : layout->small_from) + small -
           kvsi_moment_start(layout, sharded, trained_from);
}

kvs_status kvsi_optimizer_init(kvsi_optimizer *o, kvsi_reducer *reducer, kvs_err *err)
{
    const kvsi_context *c = &reducer->context;
    const kvsi_shard_layout *layout = reducer->layout;
    const size_t bytes =
        kvsi_moment_count(layout, reducer->config.shard, reducer->trained_from) * sizeof(real);
    kvs_status st = KVS_OK;

    *o = (kvsi_optimizer){
        .reducer = reducer,
        .mean = c->ops->alloc(c, bytes),
        .square = c->ops->alloc(c, bytes),
        .sum = c->ops->alloc(c, sizeof *o->sum),
        .scale = c->ops->alloc(c, sizeof *o->scale),
        .sums = kvsi_alloc((layout->ranks + 1) * layout->buckets * (layout->chunks / layout->ranks),
                           sizeof *o->sums),
    };
    if (!o->mean || !o->square || !o->sum || !o->scale || !o->sums)
        st = kvsi_no_memory(err, "moments of %zu MiB each", bytes >> 20);
    if (st == KVS_OK)
        st = kvsi_rates_init(&o->rates, reducer->config.rates, &reducer->model->layout,
                             reducer->trained_from, err);
    if (st != KVS_OK)
        kvsi_optimizer_release(o);
    return st;
}

void kvsi_optimizer_release(kvsi_optimizer *o)
{
    const kvsi_context *c = o->reducer ? &o->reducer->context : NULL;

    if (!c)
        return;
    c->ops->release(c, o->mean);
    c->ops->release(c, o->square);
    c->ops->release(c, o->sum);
    c->ops->release(c, o->scale);
    kvsi_rates_release(&o->rates);
    kvsi_free(o->sums);
    *o = (kvsi_optimizer){0};
}

/* ---- the norm: sums of squares of chunks, added in the order of the layout ---- */

/* The sum of squares of a range, without frozen tensors. */
static double sum_range(const kvsi_optimizer *o, const kvsi_bucket *bucket, kvsi_range range)
{
    kvsi_context *c = &o->reducer->context;
    double sum = 0;

    for (size_t done = 0, count; done < range.count; done += count) {
        double part;

        count = range.count - done;
        if (kvsi_rates_at(&o->rates, range.from + done, &count) <= 0)
            continue;
        c->ops->sum_squares(c, o->sum, kvsi_reducer_sum(o->reducer, bucket, range.from + done),
                            count);
        c->ops->download(c, &part, o->sum, sizeof part);
        c->ops->sync(c);
        sum += part;
    }
    return sum;
}

/* sums[buckets, chunks per rank] = those of this rank's chunks. */
static void sum_chunks(kvsi_optimizer *o, double *sums)
{
    const kvsi_reducer *r = o->reducer;
    const kvsi_shard_layout *layout = r->layout;
    const size_t chunks = layout->chunks / layout->ranks;

    for (size_t b = 0; b < layout->buckets; b++)
        for (size_t i = 0; i < chunks; i++) {
            const kvsi_bucket *bucket = &layout->bucket[b];
            const kvsi_range chunk = kvsi_bucket_chunk(bucket, layout->rank * chunks + i);

            sums[b * chunks + i] = kvsi_reducer_trains(r, bucket) ? sum_range(o, bucket, chunk) : 0;
        }
}

kvs_status kvsi_optimizer_clip(kvsi_optimizer *o, double mean, double limit, double *norm,
                               kvs_err *err)
{
    const kvsi_shard_layout *layout = o->reducer->layout;
    const size_t chunks = layout->chunks / layout->ranks, each = layout->buckets * chunks;
    double *own = o->sums, *all = own + each, sum = 0;
    kvsi_context *c = &o->reducer->context;

    sum_chunks(o, own);
    TRY(kvsi_reducer_exchange(o->reducer, all, own, each * sizeof *own, err));
    for (size_t b = 0; b < layout->buckets; b++)
        for (size_t r = 0; r < layout->ranks; r++)
            for (size_t i = 0; i < chunks; i++)
                sum += all[r * each + b * chunks + i];
    *norm = mean * sqrt(sum);
    c->ops->upload(c, o->sum, &sum, sizeof sum);
    c->ops->clip_scale(c, o->scale, o->sum, mean, limit);
    return kvsi_sync(c, err);
}

/* ---- the update ---- */

/* Learning rate and weight decay of a group. */
typedef struct group_rates {
    double lr, decay;
} group_rates;

static group_rates rates_of(const kvs_train_config *c, kvsi_group group, uint64_t step)
{
    const double others = c->decay_all ? c->weight_decay : 0.0;

    switch (group) {
    case KVSI_SHIFTS:
        return (group_rates){kvsi_shift_learning_rate(c, step),
                             c->shift_decay > 0 ? c->shift_decay : others};
    case KVSI_GAINS:
        return (group_rates){kvs_learning_rate(c, step), others};
    default:
        return (group_rates){kvs_learning_rate(c, step), c->weight_decay};
    }
}

void kvsi_optimizer_update(kvsi_optimizer *o, const kvs_train_config *config, uint64_t step)
{
    const kvsi_reducer *r = o->reducer;
    const kvsi_shard_layout *layout = r->layout;
    const int moments_sharded = config->shard != KVSI_SHARD_NONE;
    const size_t first_moment = kvsi_moment_start(layout, moments_sharded, r->trained_from);
    kvsi_context *c = &o->reducer->context;
    kvsi_adamw h = {
        .beta1 = config->beta1,
        .beta2 = config->beta2,
        .eps = config->eps,
        .correction1 = 1.0 - pow(config->beta1, (double)step),
        .correction2 = 1.0 - pow(config->beta2, (double)step),
    };

    for (size_t b = 0; b < layout->buckets; b++) {
        const kvsi_bucket *bucket = &layout->bucket[b];
        const kvsi_range range = kvsi_reducer_updated_range(r, bucket);
        const group_rates rates = rates_of(config, bucket->group, step);
        const size_t param =
            kvsi_bucket_index(layout, bucket, r->model->shards != NULL, range.from);
        size_t moment;

        if (!kvsi_reducer_trains(r, bucket))
            continue;
        moment = kvsi_bucket_index(layout, bucket, moments_sharded, range.from) - first_moment;
        h.decay = rates.decay;
        for (size_t done = 0, count; done < range.count; done += count) {
            count = range.count - done;
            h.lr = rates.lr * kvsi_rates_at(&o->rates, range.from + done, &count);
            if (h.lr > 0)
                c->ops->adamw(c, r->model->parameters + param + done,
                              kvsi_reducer_sum(r, bucket, range.from + done),
                              o->mean + moment + done, o->square + moment + done, count, &h,
                              o->scale);
        }
        kvsi_reducer_gather(o->reducer, b);
    }
    r->model->version += r->first_group == KVSI_MATRICES;
    c->ops->sync(c);
}
