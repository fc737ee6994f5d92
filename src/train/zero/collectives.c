#include "train/zero/collectives.h"

#include "base/clock.h"
#include "base/memory.h"

kvs_status kvsi_collectives_init(kvsi_collectives *c, kvsi_reducer *reducer, kvs_err *err)
{
    const kvsi_shard_layout *layout = reducer->layout;

    *c = (kvsi_collectives){
        .reducer = reducer,
        .shards = kvsi_alloc(layout->buckets, sizeof *c->shards),
    };
    if (!c->shards)
        return kvsi_no_memory(err, "%zu buckets", layout->buckets);
    for (size_t i = 0; i < layout->buckets; i++) {
        const kvsi_bucket *b = &layout->bucket[i];
        const size_t shard = b->chunk * (layout->chunks / layout->ranks);

        TRY(kvsi_comm_shards_init(&c->shards[i], reducer->comm, b->all.count * sizeof(real),
                                  shard * sizeof(real), err));
    }
    return KVS_OK;
}

void kvsi_collectives_release(kvsi_collectives *c)
{
    for (size_t i = 0; c->shards && i < c->reducer->layout->buckets; i++)
        kvsi_comm_shards_release(&c->shards[i]);
    kvsi_free(c->shards);
}

/* ---- times ---- */

static void count_start(kvsi_collectives *c)
{
    if (c->in_flight++ == 0)
        c->since = kvsi_clock_seconds();
}

static void count_end(kvsi_collectives *c)
{
    if (--c->in_flight == 0)
        c->reducer->sending += kvsi_clock_seconds() - c->since;
}

void kvsi_collectives_begin_step(kvsi_collectives *c)
{
    c->reducer->sending = c->reducer->waiting = 0;
    c->since = kvsi_clock_seconds(); /* parameters of the last step may still be in flight */
}

/* ---- transfers ---- */

kvs_status kvsi_collectives_exchange(kvsi_collectives *c, void *all, const void *own, size_t bytes,
                                     kvs_err *err)
{
    const kvs_comm *comm = c->reducer->comm;
    const double started = kvsi_clock_seconds();
    kvs_status st;

    if (comm->size == 1)
        return kvsi_comm_all_gather(comm, all, own, bytes, err);
    count_start(c);
    st = kvsi_comm_all_gather(comm, all, own, bytes, err);
    count_end(c);
    c->reducer->waiting += kvsi_clock_seconds() - started;
    return st;
}

void kvsi_collectives_all_to_all(kvsi_collectives *c, kvsi_transfer *t, size_t bucket,
                                 real *received, const real *data)
{
    const kvs_comm *comm = c->reducer->comm;

    if (c->status == KVS_OK)
        c->status =
            comm->ops->all_to_all(comm->self, t, received, data, &c->shards[bucket], &c->failure);
    count_start(c);
}

void kvsi_collectives_all_gather(kvsi_collectives *c, kvsi_transfer *t, size_t bucket, real *data,
                                 const real *own)
{
    const kvs_comm *comm = c->reducer->comm;

    if (c->status == KVS_OK)
        c->status =
            comm->ops->all_gather_shards(comm->self, t, data, own, &c->shards[bucket], &c->failure);
    count_start(c);
}

int kvsi_collectives_test(kvsi_collectives *c, kvsi_transfer *t)
{
    const kvs_comm *comm = c->reducer->comm;
    int done = 1; /* after a failure nothing is waited for */

    if (c->status == KVS_OK)
        c->status = comm->ops->test(comm->self, t, &done, &c->failure);
    done |= c->status != KVS_OK;
    if (done)
        count_end(c);
    return done;
}

void kvsi_collectives_wait(kvsi_collectives *c, kvsi_transfer *t)
{
    const double started = kvsi_clock_seconds();

    if (c->status == KVS_OK)
        c->status = kvsi_comm_wait(c->reducer->comm, t, &c->failure);
    c->reducer->waiting += kvsi_clock_seconds() - started;
    count_end(c);
}

kvs_status kvsi_collectives_status(const kvsi_collectives *c, kvs_err *err)
{
    if (c->status != KVS_OK && err)
        *err = c->failure;
    return c->status;
}
