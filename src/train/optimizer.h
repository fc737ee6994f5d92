/* train/optimizer.h - the gradient's norm, and AdamW on what this rank has to update: everything,
 * or its share. */
#ifndef KVSI_TRAIN_OPTIMIZER_H
#define KVSI_TRAIN_OPTIMIZER_H

#include "train/zero/all_gather.h"
#include "train/zero/reduce_scatter.h"

typedef struct kvsi_optimizer {
    kvsi_team *team;     /* borrowed */
    real *mean, *square; /* laid out as the block, or as a share */
    double *sum, *scale; /* on the backend's side */
    double *sums;        /* [ranks, buckets, grains a rank] */
} kvsi_optimizer;

kvs_status kvsi_optimizer_init(kvsi_optimizer *optimizer, kvsi_team *team, kvs_err *err);
void kvsi_optimizer_release(kvsi_optimizer *optimizer);
/* Numbers of each moment. */
size_t kvsi_moment_count(const kvsi_share *share, kvs_shard shard);

/* The norm of what is trained of `mean` times the gradients; updates that follow are with this
 * mean, clipped. */
kvs_status kvsi_optimizer_measure(kvsi_optimizer *optimizer, const kvsi_gradients *gradients,
                                  double mean, double limit, double *norm, kvs_err *err);
/* Step 1, 2, ... */
void kvsi_optimizer_update(kvsi_optimizer *optimizer, const kvsi_gradients *gradients,
                           kvsi_fetch *fetch, const kvs_train_config *config, uint64_t step);

#endif
