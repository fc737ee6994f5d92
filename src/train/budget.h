/* train/budget.h - how large the passes of a training run are planned. */
#ifndef KVSI_TRAIN_BUDGET_H
#define KVSI_TRAIN_BUDGET_H

#include "data/task.h"
#include "model/pass.h"

/* Room for a micro-batch of ordinary luck; the longest single sequence always fits. */
static inline kvsi_pass_limits kvsi_training_limits(const kvs_task *task, const kvs_train_config *c)
{
    const size_t sequences = c->batch / c->accumulate, worst = sequences * task->max_tokens;
    const double usual = 1.2 * task->mean_tokens * (double)sequences;
    const size_t budget = (size_t)usual + task->max_tokens;
    const size_t tokens = budget < worst ? budget : worst;

    return (kvsi_pass_limits){.tokens = tokens,
                              .sequences = sequences,
                              .head_rows = tokens,
                              .training = 1,
                              .recompute = c->recompute};
}

#endif
