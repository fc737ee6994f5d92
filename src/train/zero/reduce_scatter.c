#include "train/zero/reduce_scatter.h"

#include "base/memory.h"
#include "train/zero/gradient_sizes.h"

enum { NONE = -1 };

/* Sharded: the gradients of a block while a pass adds to them, and until they are sent. */
typedef struct block_slot {
    real *values;
    ptrdiff_t block; /* NONE = free */
    size_t unsent;   /* buckets whose all-to-all is not complete; 0 = a pass adds to it */
} block_slot;

/* The reduction of one bucket. */
typedef struct reduction {
    size_t bucket, slice;
    const real *from;
    ptrdiff_t slot; /* that `from` is in, or NONE */
    int all_gather; /* every rank needs all of the sum */
    kvsi_transfer gathering;
} reduction;

struct kvsi_reduce_scatter {
    kvsi_collectives *collectives; /* borrowed */
    kvsi_reducer *reducer;
    kvsi_gradient_sizes sizes;
    real *slices[KVSI_SLICES];     /* [slices] sums; sharded: small tensors only */
    real *shard_sums[KVSI_SLICES]; /* sharded: of matrices; one, or one per slice of the batch */
    real *pass; /* like a slice: the pass adds to it, and it is added to the slice; or NULL */
    block_slot slots[KVSI_SLOTS_MAX];
    real **rows; /* [ranks] workspace of sum_shards */

    size_t slice; /* of the pass */
    int is_last;

    /* A ring of reductions in the order in which they were queued.  The counters only grow:
     * done <= reduced <= sent <= queued. */
    reduction *reductions;
    size_t capacity, queued, sent, reduced, done;
    real *receives[KVSI_RECEIVES_MAX]; /* reduction i uses i % sizes.receives */
    kvsi_transfer receiving[KVSI_RECEIVES_MAX];
};

/* ---- memory ---- */

/* 0 = out of memory. */
static int allocate_buffers(real **buffers, size_t count, size_t size, const kvsi_context *c)
{
    for (size_t i = 0; i < count; i++) {
        buffers[i] = c->ops->alloc(c, size * sizeof **buffers);
        if (!buffers[i])
            return 0;
    }
    return 1;
}

static int allocate(kvsi_reduce_scatter *g)
{
    const kvsi_gradient_sizes *s = &g->sizes;
    const kvsi_context *c = &g->reducer->context;
    int ok = allocate_buffers(g->slices, s->slices, s->slice, c) &&
             allocate_buffers(g->shard_sums, s->shard_sums, s->shard, c) &&
             allocate_buffers(&g->pass, s->pass > 0, s->pass, c) &&
             allocate_buffers(g->receives, s->receives, s->receive, c);

    for (size_t i = 0; ok && i < s->slots; i++) {
        g->slots[i].block = NONE;
        ok = allocate_buffers(&g->slots[i].values, 1, s->slot, c);
    }
    g->reductions = kvsi_alloc(g->capacity, sizeof *g->reductions);
    g->rows = kvsi_alloc(g->reducer->comm->size, sizeof *g->rows);
    return ok && g->reductions && g->rows;
}

kvs_status kvsi_reduce_scatter_create(kvsi_reduce_scatter **out, kvsi_collectives *collectives,
                                      kvs_err *err)
{
    kvsi_reducer *r = collectives->reducer;
    kvsi_reduce_scatter *g = kvsi_alloc(1, sizeof *g);

    *out = NULL;
    if (!g)
        return kvsi_no_memory(err, "gradients");
    *g = (kvsi_reduce_scatter){
        .collectives = collectives,
        .reducer = r,
        .sizes = kvsi_gradient_sizes_of(r->layout, &r->model->config, &r->config),
        .capacity = r->layout->buckets,
    };
    if (!allocate(g)) {
        const uint64_t bytes = kvsi_gradient_bytes(&g->sizes);

        kvsi_reduce_scatter_free(g);
        return kvsi_no_memory(err, "gradients of %zu MiB", (size_t)(bytes >> 20));
    }
    r->matrix_sums = r->gradients_sharded ? g->shard_sums[0] : g->slices[0];
    r->small_sums =
        g->slices[0] + (r->gradients_sharded ? 0 : r->layout->small_from - r->trained_from);
    *out = g;
    return KVS_OK;
}

void kvsi_reduce_scatter_free(kvsi_reduce_scatter *g)
{
    const kvsi_context *c;

    if (!g)
        return;
    c = &g->reducer->context;
    for (size_t i = 0; i < KVSI_SLICES; i++) {
        c->ops->release(c, g->slices[i]);
        c->ops->release(c, g->shard_sums[i]);
    }
    c->ops->release(c, g->pass);
    for (size_t i = 0; i < KVSI_RECEIVES_MAX; i++)
        c->ops->release(c, g->receives[i]);
    for (size_t i = 0; i < KVSI_SLOTS_MAX; i++)
        c->ops->release(c, g->slots[i].values);
    kvsi_free(g->reductions);
    kvsi_free(g->rows);
    kvsi_free(g);
}

/* ---- sums ---- */

/* rows[0] = ((0 + 1) + (2 + 3)) + ...; overwrites the other rows. */
static void add_tree(kvsi_context *c, real **rows, size_t count, size_t values)
{
    for (size_t step = 1; step < count; step *= 2)
        for (size_t i = 0; i + step < count; i += 2 * step)
            c->ops->add(c, rows[i], rows[i + step], values);
}

/* Adds what was received from every rank to the sums of this rank's shard. */
static void sum_shards(kvsi_reduce_scatter *g, const reduction *n, real *received)
{
    const kvsi_reducer *r = g->reducer;
    const kvsi_bucket *b = &r->layout->bucket[n->bucket];
    const kvsi_range shard = kvsi_bucket_shard(r->layout, b);
    const size_t ranks = r->comm->size;
    const int accumulates = r->gradients_sharded && b->group == KVSI_MATRICES;
    kvsi_context *c = &g->reducer->context;

    for (size_t i = 0; i < ranks; i++)
        g->rows[i] = received + i * shard.count;
    if (accumulates && r->config.deterministic) {
        for (size_t i = 0; i < ranks; i++)
            c->ops->add(c, g->shard_sums[i * r->slices + n->slice] + b->at, g->rows[i],
                        shard.count);
        return;
    }
    add_tree(c, g->rows, ranks, shard.count);
    if (accumulates)
        c->ops->add(c, g->shard_sums[0] + b->at, received, shard.count);
    else
        c->ops->copy(c, kvsi_reducer_sum(r, b, shard.from), received,
                     shard.count * sizeof *received);
}

/* ---- reductions ---- */

static void send_next(kvsi_reduce_scatter *g)
{
    const reduction *n = &g->reductions[g->sent % g->capacity];
    const size_t at = g->sent++ % g->sizes.receives;

    kvsi_collectives_all_to_all(g->collectives, &g->receiving[at], n->bucket, g->receives[at],
                                n->from);
}

/* The all-to-all of the oldest reduction in flight is complete. */
static void reduce_next(kvsi_reduce_scatter *g)
{
    reduction *n = &g->reductions[g->reduced % g->capacity];
    const kvsi_bucket *b = &g->reducer->layout->bucket[n->bucket];

    sum_shards(g, n, g->receives[g->reduced++ % g->sizes.receives]);
    if (n->slot != NONE && --g->slots[n->slot].unsent == 0)
        g->slots[n->slot].block = NONE;
    if (n->all_gather)
        kvsi_collectives_all_gather(g->collectives, &n->gathering, n->bucket,
                                    kvsi_reducer_sum(g->reducer, b, b->all.from), NULL);
}

void kvsi_reduce_scatter_progress(kvsi_reduce_scatter *g)
{
    int progressed = 1;

    while (progressed) {
        progressed = 0;
        while (g->sent < g->queued && g->sent - g->reduced < g->sizes.receives)
            send_next(g);
        if (g->reduced < g->sent &&
            kvsi_collectives_test(g->collectives, &g->receiving[g->reduced % g->sizes.receives])) {
            reduce_next(g);
            progressed = 1;
        }
    }
    while (g->done < g->reduced) {
        reduction *n = &g->reductions[g->done % g->capacity];

        if (n->all_gather && !kvsi_collectives_test(g->collectives, &n->gathering))
            break;
        g->done++;
    }
}

/* Waits until at least one transfer completes.  It must not block if one already has: the caller
 * may then be able to continue, and other ranks may wait for what the caller does next. */
static void wait_for_oldest(kvsi_reduce_scatter *g)
{
    const size_t before = g->reduced + g->done;

    kvsi_reduce_scatter_progress(g);
    if (g->reduced + g->done != before)
        return;
    if (g->reduced < g->sent) {
        kvsi_collectives_wait(g->collectives, &g->receiving[g->reduced % g->sizes.receives]);
        reduce_next(g);
    } else if (g->done < g->reduced) {
        kvsi_collectives_wait(g->collectives, &g->reductions[g->done++ % g->capacity].gathering);
    }
}

static void queue_bucket(kvsi_reduce_scatter *g, size_t bucket, const real *from, ptrdiff_t slot)
{
    const kvsi_reducer *r = g->reducer;

    while (g->queued - g->done == g->capacity)
        wait_for_oldest(g);
    g->reductions[g->queued++ % g->capacity] = (reduction){
        .bucket = bucket,
        .slice = g->slice,
        .from = from,
        .slot = slot,
        .all_gather =
            r->layout->bucket[bucket].group != KVSI_MATRICES || r->config.shard == KVSI_SHARD_NONE,
    };
}

/* ---- passes ---- */

/* What the pass adds to. */
static real *pass_buffer(const kvsi_reduce_scatter *g)
{
    return g->pass ? g->pass : g->slices[g->slice];
}

real *kvsi_reduce_scatter_begin_pass(kvsi_reduce_scatter *g, size_t slice, int is_last)
{
    kvsi_context *c = &g->reducer->context;

    g->slice = slice;
    g->is_last = is_last;
    if (g->pass)
        c->ops->zero(c, g->pass, g->sizes.slice * sizeof(real));
    return pass_buffer(g);
}

void kvsi_reduce_scatter_end_pass(kvsi_reduce_scatter *g)
{
    kvsi_context *c = &g->reducer->context;

    if (g->pass)
        c->ops->add(c, g->slices[g->slice], g->pass, g->sizes.slice);
}

/* The slot of a block that a pass adds to, or a free one for `block` NONE. */
static ptrdiff_t find_slot(const kvsi_reduce_scatter *g, ptrdiff_t block)
{
    for (size_t i = 0; i < g->sizes.slots; i++)
        if (g->slots[i].block == block && g->slots[i].unsent == 0)
            return (ptrdiff_t)i;
    return NONE;
}

void kvsi_reduce_scatter_need(kvsi_reduce_scatter *g, size_t block)
{
    kvsi_context *c = &g->reducer->context;
    ptrdiff_t free_slot;

    if (!g->reducer->gradients_sharded || g->sizes.slots == 0 ||
        find_slot(g, (ptrdiff_t)block) != NONE)
        return;
    while ((free_slot = find_slot(g, NONE)) == NONE)
        wait_for_oldest(g);
    g->slots[free_slot].block = (ptrdiff_t)block;
    c->ops->zero(c, g->slots[free_slot].values,
                 g->reducer->layout->block[block].count * sizeof(real));
}

real *kvsi_reduce_scatter_at(kvsi_reduce_scatter *g, size_t offset)
{
    const kvsi_shard_layout *layout = g->reducer->layout;
    size_t block;

    if (offset >= layout->small_from)
        return pass_buffer(g) + (offset - layout->small_from);
    block = kvsi_block_at(layout, offset);
    return g->slots[find_slot(g, (ptrdiff_t)block)].values + (offset - layout->block[block].from);
}

void kvsi_reduce_scatter_ready(kvsi_reduce_scatter *g, size_t block)
{
    const kvsi_reducer *r = g->reducer;
    const kvsi_shard_layout *layout = r->layout;
    const int sharded = r->gradients_sharded;
    const ptrdiff_t slot = sharded ? find_slot(g, (ptrdiff_t)block) : NONE;
    const int sends = sharded || (g->is_last && !r->config.deterministic && r->comm->size > 1);

    if (r->first_group != KVSI_MATRICES) /* matrices are not trained */
        return;
    if (slot != NONE)
        g->slots[slot].unsent = layout->first_bucket[block + 1] - layout->first_bucket[block];
    for (size_t b = layout->first_bucket[block]; sends && b < layout->first_bucket[block + 1];
         b++) {
        const size_t from = layout->bucket[b].all.from;

        queue_bucket(g, b,
                     sharded ? g->slots[slot].values + (from - layout->block[block].from)
                             : g->slices[0] + from,
                     slot);
    }
    kvsi_reduce_scatter_progress(g);
}

/* ---- the step ---- */

void kvsi_reduce_scatter_begin_step(kvsi_reduce_scatter *g)
{
    kvsi_context *c = &g->reducer->context;

    for (size_t i = 0; i < g->sizes.slices; i++)
        c->ops->zero(c, g->slices[i], g->sizes.slice * sizeof(real));
    for (size_t i = 0; i < g->sizes.shard_sums; i++)
        c->ops->zero(c, g->shard_sums[i], g->sizes.shard * sizeof(real));
}

/* Queues the buckets that passes could not: small tensors, and matrices in slices. */
static void queue_rest(kvsi_reduce_scatter *g)
{
    const kvsi_reducer *r = g->reducer;
    const kvsi_shard_layout *layout = r->layout;
    const int matrices = r->config.deterministic && !r->gradients_sharded;

    if (r->comm->size == 1)
        return;
    for (size_t b = matrices ? 0 : layout->first_bucket[layout->blocks]; b < layout->buckets; b++) {
        const kvsi_bucket *bucket = &layout->bucket[b];

        if (kvsi_reducer_trains(r, bucket))
            queue_bucket(g, b, kvsi_reducer_sum(r, bucket, bucket->all.from), NONE);
    }
}

kvs_status kvsi_reduce_scatter_finish(kvsi_reduce_scatter *g, kvs_err *err)
{
    kvsi_context *c = &g->reducer->context;

    add_tree(c, g->slices, g->sizes.slices, g->sizes.slice);
    queue_rest(g);
    while (g->done < g->queued)
        wait_for_oldest(g);
    add_tree(c, g->shard_sums, g->sizes.shard_sums, g->sizes.shard);
    return kvsi_collectives_status(g->collectives, err);
}
