/* train/zero/zero.h - the reducer of several ranks: the stages of ZeRO.
 *
 *     --shard      stage   a rank has whole                    and its shards of
 *     none         0       parameters, gradients, moments      nothing (data parallel)
 *     optimizer    1       parameters, gradients               moments
 *     gradients    2       parameters                          gradients, moments
 *     parameters   3       nothing (FSDP)                      parameters, gradients, moments
 *
 * Gradients are summed bucket by bucket with a reduce-scatter that overlaps with the backward pass
 * (reduce_scatter.h); stage 0 adds an all-gather of the sums, which makes an all-reduce.  Updated
 * parameters come back with an all-gather that overlaps with the next forward pass (all_gather.h).
 *
 * One rank takes this path too for --deterministic, and for stages 2 and 3. */
#ifndef KVSI_TRAIN_ZERO_ZERO_H
#define KVSI_TRAIN_ZERO_ZERO_H

#include "train/reducer.h"

kvs_status kvsi_zero_create(kvsi_reducer **out, kvs_model *model, const kvs_train_config *config,
                            kvsi_group first_group, kvs_err *err);

#endif
