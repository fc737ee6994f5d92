/* train/budget.h - how the work of a step is cut, and how large its passes are planned. */
#ifndef KVSI_TRAIN_BUDGET_H
#define KVSI_TRAIN_BUDGET_H

#include "data/task.h"
#include "model/pass.h"

/* Sequences of a slice of a batch: that of a rank, or of the slices that all numbers of ranks have
 * in common. */
static inline size_t kvsi_slice_sequences(const kvs_train_config *c, size_t ranks)
{
    return c->batch / (c->deterministic ? KVSI_SLICES : ranks);
}

/* Sequences that are computed at once: a part of the batch, or of a slice if that is smaller. */
static inline size_t kvsi_part_sequences(const kvs_train_config *c, size_t ranks)
{
    const size_t part = c->batch / c->accumulate, slice = kvsi_slice_sequences(c, ranks);

    return part < slice ? part : slice;
}

/* Whether a slice takes more than one pass. */
static inline int kvsi_slices_have_parts(const kvs_train_config *c, size_t ranks)
{
    return kvsi_part_sequences(c, ranks) < kvsi_slice_sequences(c, ranks);
}

/* Ranks that exchange something in every pass, and bits that do not depend on their number, need
 * the same passes everywhere: then nothing may be too long for one. */
static inline int kvsi_passes_are_fixed(const kvs_train_config *c)
{
    return c->deterministic || c->shard >= KVS_SHARD_GRADIENTS;
}

/* Room for a part of ordinary luck; the longest single sequence always fits. */
static inline kvsi_pass_limits kvsi_training_limits(const kvs_task *task, const kvs_train_config *c,
                                                    size_t ranks)
{
    const size_t sequences = kvsi_part_sequences(c, ranks), worst = sequences * task->max_tokens;
    const double usual = 1.2 * task->mean_tokens * (double)sequences;
    const size_t budget = (size_t)usual + task->max_tokens;
    const size_t tokens = budget < worst && !kvsi_passes_are_fixed(c) ? budget : worst;

    return (kvsi_pass_limits){.tokens = tokens,
                              .sequences = sequences,
                              .head_rows = tokens,
                              .training = 1,
                              .recompute = c->recompute};
}

#endif
