/* train/zero/collectives.h - the transfers of buckets between ranks: timed, and with one failure
 * kept.
 *
 * Transfers are started in hooks of a pass, which cannot fail.  The first failure is kept here;
 * after it, transfers do nothing, until kvsi_collectives_status reports it. */
#ifndef KVSI_TRAIN_ZERO_COLLECTIVES_H
#define KVSI_TRAIN_ZERO_COLLECTIVES_H

#include "train/reducer.h"

typedef struct kvsi_collectives {
    kvsi_reducer *reducer;    /* borrowed; its times are counted here */
    kvsi_comm_shards *shards; /* [layout.buckets] */
    kvs_status status;
    kvs_err failure;
    size_t in_flight;
    double since; /* when in_flight became positive, or the step began */
} kvsi_collectives;

kvs_status kvsi_collectives_init(kvsi_collectives *c, kvsi_reducer *reducer, kvs_err *err);
void kvsi_collectives_release(kvsi_collectives *c);

/* Times of the step are counted from here. */
void kvsi_collectives_begin_step(kvsi_collectives *c);
/* kvsi_comm_all_gather, timed. */
kvs_status kvsi_collectives_exchange(kvsi_collectives *c, void *all, const void *own, size_t bytes,
                                     kvs_err *err);

/* received[ranks][shard] = this rank's shard of the bucket from every rank, whose `data` is the
 * whole bucket. */
void kvsi_collectives_all_to_all(kvsi_collectives *c, kvsi_transfer *t, size_t bucket,
                                 real *received, const real *data);
/* data = the whole bucket; own NULL = this rank's shard is in its place. */
void kvsi_collectives_all_gather(kvsi_collectives *c, kvsi_transfer *t, size_t bucket, real *data,
                                 const real *own);
/* Whether a transfer is complete, without blocking. */
int kvsi_collectives_test(kvsi_collectives *c, kvsi_transfer *t);
void kvsi_collectives_wait(kvsi_collectives *c, kvsi_transfer *t);
kvs_status kvsi_collectives_status(const kvsi_collectives *c, kvs_err *err);

#endif
