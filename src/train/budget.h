/* train/budget.h - how a batch is divided into slices and micro-batches, and the memory planned for
 * a pass. */
#ifndef KVSI_TRAIN_BUDGET_H
#define KVSI_TRAIN_BUDGET_H

#include "base/math.h"
#include "data/data.h"
#include "model/pass.h"

/* The first group that is trained; later ones are trained too. */
static inline kvsi_group kvsi_first_trained(const kvs_model_config *model,
                                            const kvs_train_config *c)
{
    return c->only_shift ? KVSI_SHIFTS : model->lora.rank > 0 ? KVSI_ADAPTERS : KVSI_MATRICES;
}

/* The first parameter that has a gradient and moments.  Where matrices are frozen, gains have them
 * too, because they are few; their moments stay 0. */
static inline size_t kvsi_trained_from(const kvsi_shard_layout *layout, kvsi_group first)
{
    return first == KVSI_MATRICES ? 0 : layout->small_from;
}

/* Sequences of a slice (train/reducer.h). */
static inline size_t kvsi_slice_sequences(const kvs_train_config *c, size_t ranks)
{
    return c->batch / (c->deterministic ? KVSI_SLICES : ranks);
}

/* Sequences of a micro-batch: batch / accumulate, but at most a slice. */
static inline size_t kvsi_micro_batch_sequences(const kvs_train_config *c, size_t ranks)
{
    const size_t part = c->batch / c->accumulate, slice = kvsi_slice_sequences(c, ranks);

    return kvsi_min(part, slice);
}

static inline int kvsi_slices_have_micro_batches(const kvs_train_config *c, size_t ranks)
{
    return kvsi_micro_batch_sequences(c, ranks) < kvsi_slice_sequences(c, ranks);
}

/* Whether all ranks must make the same passes: because every pass has transfers (ZeRO stages 2 and
 * 3), or because results must not depend on the number of ranks.  Then every micro-batch must fit
 * one pass. */
static inline int kvsi_passes_are_fixed(const kvs_train_config *c)
{
    return c->deterministic || c->shard >= KVSI_SHARD_GRADIENTS;
}

/* Passes of a step of one rank, unless a draw is unusually long. */
static inline size_t kvsi_passes_of_step(const kvs_train_config *c, size_t ranks)
{
    const size_t slice = kvsi_slice_sequences(c, ranks);

    return c->batch / ranks / slice * kvsi_div_up(slice, kvsi_micro_batch_sequences(c, ranks));
}

/* kvsi_pass_limits.packs for passes of `tokens` tokens.  With one pass per step there is little to
 * share, and --recompute asks for less memory. */
static inline size_t kvsi_packs_weights(const kvs_train_config *c, size_t ranks, size_t tokens)
{
    if (c->shard == KVSI_SHARD_PARAMETERS)
        return 0;
    if (c->pack_weights == KVSI_PACK_YES)
        return 1;
    return c->pack_weights == KVSI_PACK_AUTO && !c->recompute && kvsi_passes_of_step(c, ranks) > 1
               ? tokens
               : 0;
}

/* A pass is planned for a micro-batch of 1.2 times the mean length and one more sequence; a longer
 * draw takes several passes.  The longest single sequence always fits. */
static inline kvsi_pass_limits kvsi_training_limits(const kvs_data *data, const kvs_train_config *c,
                                                    size_t ranks)
{
    const size_t sequences = kvsi_micro_batch_sequences(c, ranks);
    const size_t worst = sequences * data->max_tokens;
    const double usual = 1.2 * data->mean_tokens * (double)sequences;
    const size_t budget = (size_t)usual + data->max_tokens;
    const size_t tokens = budget < worst && !kvsi_passes_are_fixed(c) ? budget : worst;

    return (kvsi_pass_limits){.tokens = tokens,
                              .sequences = sequences,
                              .head_rows = tokens,
                              .training = 1,
                              .recompute = c->recompute,
                              .packs = kvsi_packs_weights(c, ranks, tokens),
                              .precision = c->precision};
}

#endif
