/* train/reducer.h - sums the gradients of a step over micro-batches and ranks, and brings updated
 * parameters back to every rank.
 *
 * One step, as the trainer and the optimizer make it:
 *
 *     kvsi_reducer_begin_step(r)                           gradients = 0
 *     for each backward pass
 *         g = kvsi_reducer_begin_pass(r, 1, slice, last)   the buffer that the pass adds to
 *         forward, loss(g), backward(g)
 *         kvsi_reducer_end_pass(r)
 *     kvsi_reducer_finish(r)                               the sums over all ranks are complete
 *     for each bucket that is trained
 *         AdamW on kvsi_reducer_updated_range(r, bucket), with kvsi_reducer_sum(r, bucket, ...)
 *         kvsi_reducer_gather(r, bucket)                   starts to bring it to every rank
 *     kvsi_reducer_wait(r)                                 every rank has the new parameters
 *
 * There are two implementations.  One process alone (reducer.c) has one buffer of gradients: it is
 * zeroed, passes add to it, and nothing else happens.  With several ranks, sharding or
 * --deterministic, train/zero/ implements ZeRO: passes call its hooks (kvsi_pass_hooks), and the
 * transfers overlap with them.
 *
 * A slice is the part of a batch whose gradients are summed on their own: one per rank, or always
 * KVSI_SLICES in a deterministic run, in which a rank may have several. */
#ifndef KVSI_TRAIN_REDUCER_H
#define KVSI_TRAIN_REDUCER_H

#include "model/pass.h"

typedef struct kvsi_reducer kvsi_reducer;

/* begin_step, begin_pass and free are required.  For the others, NULL = nothing to do, and for
 * exchange, kvsi_comm_all_gather. */
typedef struct kvsi_reducer_ops {
    void (*begin_step)(kvsi_reducer *r);
    real *(*begin_pass)(kvsi_reducer *r, int backward, size_t slice, int is_last);
    void (*end_pass)(kvsi_reducer *r);
    kvs_status (*finish)(kvsi_reducer *r, kvs_err *err);
    void (*gather)(kvsi_reducer *r, size_t bucket);
    kvs_status (*wait)(kvsi_reducer *r, kvs_err *err);
    void (*forget)(kvsi_reducer *r);
    kvs_status (*exchange)(kvsi_reducer *r, void *all, const void *own, size_t bytes, kvs_err *err);
    void (*free)(kvsi_reducer *r);
} kvsi_reducer_ops;

struct kvsi_reducer {
    const kvsi_reducer_ops *ops;
    const kvsi_pass_hooks *hooks; /* for the pass; NULL = none */
    kvs_model *model;             /* borrowed */
    kvs_comm *comm;               /* the model's */
    kvsi_context context;         /* the model's */
    kvs_train_config config;
    kvsi_group first_group; /* that is trained; later groups are trained too */
    size_t trained_from; /* parameters before it have no gradients: frozen matrices.  Those of gains
                            are computed in any case, because they are few */
    size_t slices;       /* of this rank */

    /* Buckets, shards and chunks; one rank has all of every bucket. */
    const kvsi_shard_layout *layout;
    kvsi_shard_layout own_layout; /* unused if the model has one */

    /* Sums after kvsi_reducer_finish: of matrices, whole or sharded, and of small tensors. */
    int gradients_sharded;
    real *matrix_sums, *small_sums;

    /* Seconds of this step with transfers in flight, and seconds spent waiting for them. */
    double sending, waiting;
};

/* Trains `first_group` and later groups of the model's parameters. */
kvs_status kvsi_reducer_create(kvsi_reducer **out, kvs_model *model, const kvs_train_config *config,
                               kvsi_group first_group, kvs_err *err);
void kvsi_reducer_free(kvsi_reducer *r);

/* Fails if a batch cannot be divided among that many ranks. */
kvs_status kvsi_reducer_check_ranks(const kvs_train_config *config, size_t ranks, kvs_err *err);

/* ---- a step ---- */

static inline void kvsi_reducer_begin_step(kvsi_reducer *r)
{
    r->ops->begin_step(r);
}

/* Before every pass, evaluation too (backward 0, returns NULL).  `slice` is one of this rank's;
 * `is_last` marks the last backward pass of the step. */
static inline real *kvsi_reducer_begin_pass(kvsi_reducer *r, int backward, size_t slice,
                                            int is_last)
{
    return r->ops->begin_pass(r, backward, slice, is_last);
}

/* After every backward pass. */
static inline void kvsi_reducer_end_pass(kvsi_reducer *r)
{
    if (r->ops->end_pass)
        r->ops->end_pass(r);
}

static inline kvs_status kvsi_reducer_finish(kvsi_reducer *r, kvs_err *err)
{
    return r->ops->finish ? r->ops->finish(r, err) : KVS_OK;
}

/* This rank has updated its range of a bucket.  Returns at once; the next pass waits for what it
 * needs (asynchronous all-gather), and kvsi_reducer_wait for all. */
static inline void kvsi_reducer_gather(kvsi_reducer *r, size_t bucket)
{
    if (r->ops->gather)
        r->ops->gather(r, bucket);
}

static inline kvs_status kvsi_reducer_wait(kvsi_reducer *r, kvs_err *err)
{
    return r->ops->wait ? r->ops->wait(r, err) : KVS_OK;
}

/* Discards copies of the parameters, after the parameters were replaced.  No transfer may be in
 * flight. */
static inline void kvsi_reducer_forget(kvsi_reducer *r)
{
    if (r->ops->forget)
        r->ops->forget(r);
}

/* Blocking all-gather of host memory: all[ranks][bytes] = own[bytes] of each rank. */
static inline kvs_status kvsi_reducer_exchange(kvsi_reducer *r, void *all, const void *own,
                                               size_t bytes, kvs_err *err)
{
    if (r->ops->exchange)
        return r->ops->exchange(r, all, own, bytes, err);
    return kvsi_comm_all_gather(r->comm, all, own, bytes, err);
}

/* ---- what this rank has ---- */

static inline int kvsi_reducer_trains(const kvsi_reducer *r, const kvsi_bucket *bucket)
{
    return bucket->group >= r->first_group;
}

/* The range of a bucket whose parameters this rank updates: all of it, or its shard. */
kvsi_range kvsi_reducer_updated_range(const kvsi_reducer *r, const kvsi_bucket *bucket);

/* Address of the summed gradient of a parameter of the bucket.  This rank has it for the range that
 * it updates, and for its chunks. */
real *kvsi_reducer_sum(const kvsi_reducer *r, const kvsi_bucket *bucket, size_t offset);

/* Address of the summed gradients from `offset` on, *count of them in sequence; or NULL if another
 * rank has the next *count. */
const real *kvsi_reducer_find_sum(const kvsi_reducer *r, size_t offset, size_t *count);

/* ---- for implementations ---- */

/* Sets everything but ops and sums. */
kvs_status kvsi_reducer_init(kvsi_reducer *r, kvs_model *model, const kvs_train_config *config,
                             kvsi_group first_group, kvs_err *err);
void kvsi_reducer_release(kvsi_reducer *r);

#endif
