/* train/optimizer.h - the global gradient norm, and AdamW on the parameters that this rank updates:
 * all of them, or its shards. */
#ifndef KVSI_TRAIN_OPTIMIZER_H
#define KVSI_TRAIN_OPTIMIZER_H

#include "train/rates.h"
#include "train/reducer.h"

typedef struct kvsi_optimizer {
    kvsi_reducer *reducer; /* borrowed */
    real *mean, *square;   /* moments of the parameters that this rank updates: whole or sharded */
    double *sum, *scale;   /* backend memory: sum of squares, and factor of the gradients */
    kvsi_rates rates;
    double *sums; /* [1 + ranks, buckets, chunks per rank] */
} kvsi_optimizer;

kvs_status kvsi_optimizer_init(kvsi_optimizer *o, kvsi_reducer *reducer, kvs_err *err);
void kvsi_optimizer_release(kvsi_optimizer *o);
/* Values per moment, and the index of the first one in the storage of all parameters
 * (kvsi_bucket_index): parameters before `trained_from` have none. */
size_t kvsi_moment_count(const kvsi_shard_layout *layout, kvsi_shard_stage shard,
                         size_t trained_from);
size_t kvsi_moment_start(const kvsi_shard_layout *layout, int sharded, size_t trained_from);

/* *norm = |mean * g|, g being the gradients that are trained, summed over all ranks.  Sets the
 * factor of the gradients in the update that follows: mean, and clipping to `limit`. */
kvs_status kvsi_optimizer_clip(kvsi_optimizer *o, double mean, double limit, double *norm,
                               kvs_err *err);
/* AdamW; steps count from 1. */
void kvsi_optimizer_update(kvsi_optimizer *o, const kvs_train_config *config, uint64_t step);

#endif
