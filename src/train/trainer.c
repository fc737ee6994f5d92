/* The training step:
 *
 *     for each micro-batch: fill batch, forward, loss, backward     forward_backward
 *     sum the gradients over micro-batches and ranks                train/reducer.h
 *     clip to the global norm, AdamW                                train/optimizer.h
 *
 * Gradients are those of the SUM of the losses; the mean over all targets of the step is a factor
 * that is applied with the clipping.  So a batch can be divided anywhere: among ranks, into
 * micro-batches, and further if an unusually long draw does not fit the planned memory.
 *
 * The trained parameters are all of them, or only the shift's, which come last in the
 * layout.  Gradients of the others are computed too, and ignored. */
#include "train/trainer.h"

#include "base/clock.h"
#include "base/math.h"
#include "base/memory.h"
#include "base/sized.h"
#include "data/task.h"
#include "train/budget.h"
#include "train/diverged.h"
#include "train/optimizer.h"
#include "train/totals.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct kvs_trainer {
    kvs_model *model;     /* borrowed */
    const kvs_data *task; /* borrowed */
    kvs_comm *comm;       /* the model's */
    kvs_train_config config;
    uint64_t step;          /* done so far */
    kvs_step_record record; /* of the last step, for the caller */
    kvsi_batch_buffer batch;
    kvsi_pass *pass;
    kvsi_reducer *reducer;
    kvsi_optimizer optimizer;
    kvsi_totals *totals;         /* [ranks * slices] */
    int async_gather;            /* a step does not wait for the updated parameters */
    char where[KVSI_WHERE_SIZE]; /* the first tensor on this rank that was not finite */
};

/* ---- creating ---- */

static kvs_status check_fit(const kvs_model *model, const kvs_data *task, kvs_err *err)
{
    const kvs_model_config *c = &model->config;

    if (c->vocab < task->vocab)
        return kvsi_fail(err, KVS_E_INVALID, "the model's vocabulary is %zu, the task needs %zu",
                         c->vocab, task->vocab);
    if (c->context < task->max_tokens)
        return kvsi_fail(err, KVS_E_INVALID, "the model's context is %zu, the task needs %zu",
                         c->context, task->max_tokens);
    return KVS_OK;
}

/* The first group that is trained; later groups are trained too. */
static kvs_status choose_groups(kvsi_group *first, const kvs_model *model,
                                const kvs_train_config *config, kvs_err *err)
{
    const kvsi_layout *layout = &model->layout;
    const kvsi_shift_config *shift = &model->config.shift;

    *first = config->only_shift ? KVSI_SHIFTS : KVSI_MATRICES;
    if (config->only_shift && layout->group_start[KVSI_SHIFTS] == kvsi_layout_total(layout))
        return kvsi_fail(err, KVS_E_INVALID,
                         "only the shift is to be trained, but shift '%s' of form '%s' has nothing "
                         "to learn",
                         kvsi_shift_targets_name(shift->targets),
                         kvsi_shift_form_name(shift->form));
    return KVS_OK;
}

static size_t all_slices(const kvs_trainer *t)
{
    return t->comm->size * t->reducer->slices;
}

kvs_status kvs_trainer_create(kvs_trainer **out, kvs_model *model, const kvs_data *task,
                              const kvs_train_config *config, kvs_err *err)
{
    kvs_status st = KVS_OK;
    kvs_trainer *t = kvsi_alloc(1, sizeof *t);
    kvsi_pass_limits limits;
    kvsi_group first_group;

    *out = NULL;
    if (!t)
        return kvsi_no_memory(err, "a trainer");
    *t = (kvs_trainer){.model = model, .task = task, .comm = model->comm, .config = *config};
    TRY_OUT(kvs_train_config_check(config, err));
    TRY_OUT(check_fit(model, task, err));
    TRY_OUT(choose_groups(&first_group, model, config, err));
    TRY_OUT(kvsi_reducer_create(&t->reducer, model, config, first_group, err));
    limits = kvsi_training_limits(task, config, t->comm->size);
    TRY_OUT(kvsi_batch_buffer_init(&t->batch, task, limits.sequences, err));
    TRY_OUT(kvsi_pass_create(&t->pass, model, &limits, err));
    t->pass->hooks = t->reducer->hooks;
    TRY_OUT(kvsi_optimizer_init(&t->optimizer, t->reducer, err));
    t->totals = kvsi_alloc(all_slices(t), sizeof *t->totals);
    if (!t->totals) {
        st = kvsi_no_memory(err, "a trainer");
        goto out;
    }
    *out = t;
    t = NULL;
out:
    kvs_trainer_free(t);
    return st;
}

void kvs_trainer_free(kvs_trainer *trainer)
{
    if (!trainer)
        return;
    kvsi_batch_buffer_release(&trainer->batch);
    kvsi_pass_free(trainer->pass);
    kvsi_optimizer_release(&trainer->optimizer);
    kvsi_reducer_free(trainer->reducer);
    kvsi_free(trainer->totals);
    kvsi_free(trainer);
}

/* ---- passes ---- */

/* A micro-batch that has been drawn into the batch buffer. */
typedef struct micro_batch {
    uint64_t number; /* of its first sequence; dropout depends on it */
    int backward;
    size_t slice; /* of this rank, that its gradients are added to */
    int is_last;  /* of the step */
} micro_batch;

/* As many sequences of the batch buffer, from `first` on, as fit the pass. */
static kvs_batch next_part(const kvs_trainer *t, size_t first)
{
    const kvs_batch *all = &t->batch.view;
    kvs_batch part = *all;
    size_t end = first + 1;

    while (end < all->sequences &&
           all->starts[end + 1] - all->starts[first] <= t->pass->limits.tokens)
        end++;
    part.starts = all->starts + first;
    part.sequences = end - first;
    return part;
}

/* One pass, or several if the batch buffer does not fit one.  Adds to *sum unless it is NULL. */
static kvs_status forward_backward(kvs_trainer *t, const micro_batch *m, kvsi_totals *sum,
                                   kvs_err *err)
{
    const int dropout = m->backward || t->config.eval_dropout;
    const size_t sequences = t->batch.view.sequences;
    kvs_batch part;

    for (size_t first = 0; first < sequences; first += part.sequences) {
        real *gradients;
        kvsi_loss loss;

        part = next_part(t, first);
        kvsi_pass_set_dropout(t->pass, dropout, t->config.seed, m->number + first);
        TRY(kvsi_pass_load(t->pass, &part, NULL, err));
        gradients = kvsi_reducer_begin_pass(t->reducer, m->backward, m->slice,
                                            m->is_last && first + part.sequences == sequences);
        kvsi_pass_forward(t->pass);
        TRY(kvsi_pass_loss(t->pass, gradients, &loss, err));
        /* Found now, while the pass has its activations.  Training continues until the end of the
         * step: other ranks wait for what this one sends. */
        if (!isfinite(loss.sum) && t->where[0] == '\0')
            kvsi_find_not_finite(t->where, t->pass, NULL);
        if (m->backward) {
            kvsi_pass_backward(t->pass, gradients);
            kvsi_reducer_end_pass(t->reducer);
        }
        if (sum)
            kvsi_totals_count(sum, t->pass, &loss, t->task);
    }
    return KVS_OK;
}

/* *sum = own[slices] of all ranks, added in the order of the slices. */
static kvs_status sum_totals(kvs_trainer *t, const kvsi_totals *own, kvsi_totals *sum, kvs_err *err)
{
    TRY(kvsi_reducer_exchange(t->reducer, t->totals, own, t->reducer->slices * sizeof *own, err));
    *sum = (kvsi_totals){0};
    for (size_t i = 0; i < all_slices(t); i++)
        kvsi_totals_add(sum, &t->totals[i]);
    return KVS_OK;
}

/* ---- divergence ---- */

/* t->where of the first rank that has found a tensor that is not finite. */
static kvs_status find_rank(kvs_trainer *t, size_t *rank, kvs_err *err)
{
    char *all = kvsi_alloc(t->comm->size, sizeof t->where);
    kvs_status st;

    *rank = 0;
    if (!all)
        return kvsi_no_memory(err, "%zu ranks", t->comm->size);
    TRY_OUT(kvsi_comm_all_gather(t->comm, all, t->where, sizeof t->where, err));
    while (*rank + 1 < t->comm->size && all[*rank * sizeof t->where] == '\0')
        ++*rank;
    memcpy(t->where, all + *rank * sizeof t->where, sizeof t->where);
out:
    kvsi_free(all);
    return st;
}

static kvs_status fail_diverged(kvs_trainer *t, const kvs_step_record *now, kvs_err *err)
{
    char who[32] = "";
    size_t rank;

    if (isfinite(now->loss) && !kvsi_find_not_finite(t->where, t->pass, t->reducer) &&
        t->comm->rank + 1 < t->comm->size)
        t->where[0] = '\0'; /* a later rank may have found a tensor */
    TRY(find_rank(t, &rank, err));
    if (t->comm->size > 1)
        snprintf(who, sizeof who, " on rank %zu", rank);
    return kvs_comm_agree(
        t->comm,
        kvsi_fail(err, KVS_E_DIVERGED,
                  "step %llu diverged%s: loss %g, gradient norm %g, first in %s; a lower "
                  "learning rate (now %g) may help",
                  (unsigned long long)now->step, who, now->loss, now->grad_norm, t->where, now->lr),
        err);
}

/* ---- the step ---- */

/* Forward and backward on one of this rank's slices, micro-batch by micro-batch. */
static kvs_status train_slice(kvs_trainer *t, size_t slice, kvsi_totals *sum, kvs_err *err)
{
    const size_t sequences = kvsi_slice_sequences(&t->config, t->comm->size);
    const size_t index = t->comm->rank * t->reducer->slices + slice;
    const uint64_t first = t->step * t->config.batch + index * sequences;
    const size_t most = t->batch.max_sequences;

    for (size_t done = 0; done < sequences; done += most) {
        const size_t left = sequences - done, now = kvsi_min(left, most);
        const micro_batch m = {
            .number = first + done,
            .backward = 1,
            .slice = slice,
            .is_last = slice + 1 == t->reducer->slices && now == left,
        };

        kvsi_batch_fill(&t->batch, t->task, t->config.seed, KVSI_RANDOM_DATA, m.number, now);
        TRY(forward_backward(t, &m, sum, err));
    }
    return KVS_OK;
}

kvs_status kvsi_trainer_step(kvs_trainer *trainer, kvs_step_record *record, kvs_err *err)
{
    kvs_trainer *t = trainer;
    const uint64_t step = t->step + 1;
    const double started = kvsi_clock_seconds();
    kvsi_totals own[KVSI_SLICES] = {{0}}, sum;
    kvs_step_record now;

    t->where[0] = '\0';
    kvsi_reducer_begin_step(t->reducer);
    for (size_t i = 0; i < t->reducer->slices; i++)
        TRY(train_slice(t, i, &own[i], err));
    TRY(kvsi_reducer_finish(t->reducer, err));
    TRY(sum_totals(t, own, &sum, err));
    now = kvsi_totals_record(&sum, step);
    now.lr = kvs_learning_rate(&t->config, step);
    TRY(kvsi_optimizer_clip(&t->optimizer, 1.0 / (double)sum.targets, t->config.clip,
                            &now.grad_norm, err));
    if (!isfinite(now.loss) || !isfinite(now.grad_norm))
        return fail_diverged(t, &now, err);
    kvsi_optimizer_update(&t->optimizer, &t->config, step);
    if (!t->async_gather)
        TRY(kvsi_reducer_wait(t->reducer, err));
    t->step = step;
    now.seconds = kvsi_clock_seconds() - started;
    now.sending = t->reducer->sending;
    now.waiting = t->reducer->waiting;
    if (record)
        *record = now;
    return KVS_OK;
}

/* ---- evaluation ---- */

kvs_status kvsi_trainer_check_evaluation(size_t sequences, kvs_err *err)
{
    const size_t most = (size_t)1 << 32; /* evaluate_slice multiplies it by the number of slices */

    if (sequences < 1 || sequences > most)
        return kvsi_fail(err, KVS_E_INVALID, "eval sequences is %zu, expected 1 to %zu", sequences,
                         most);
    return KVS_OK;
}

/* One of this rank's slices of `sequences`.  Where parameters are sharded, every pass is
 * collective: all ranks make the same number of passes, and one without sequences left runs any and
 * ignores the result. */
static kvs_status evaluate_slice(kvs_trainer *t, size_t slice, size_t sequences, kvsi_totals *sum,
                                 kvs_err *err)
{
    const size_t slices = all_slices(t), most = t->batch.max_sequences;
    const size_t index = t->comm->rank * t->reducer->slices + slice;
    const size_t from = sequences * index / slices, to = sequences * (index + 1) / slices;
    const size_t rounds = ((sequences + slices - 1) / slices + most - 1) / most;

    for (size_t i = 0; i < rounds; i++) {
        const size_t at = from + i * most, left = at < to ? to - at : 0;
        const size_t now = kvsi_min(left, most);
        const micro_batch m = {.number = now > 0 ? at : 0};

        if (now == 0 && !t->model->shards)
            break;
        kvsi_batch_fill(&t->batch, t->task, t->config.seed, KVSI_RANDOM_EVAL, m.number,
                        now > 0 ? now : 1);
        TRY(forward_backward(t, &m, now > 0 ? sum : NULL, err));
    }
    return KVS_OK;
}

kvs_status kvs_trainer_step(const kvs_step_record **record, kvs_trainer *trainer, kvs_err *err)
{
    if (record)
        *record = NULL;
    NEED(trainer);
    TRY(kvsi_trainer_step(trainer, &trainer->record, err));
    if (record)
        *record = &trainer->record;
    return KVS_OK;
}

kvs_status kvs_trainer_evaluate(kvs_evaluation *out, kvs_trainer *trainer, size_t sequences,
                                kvs_err *err)
{
    kvs_trainer *t = trainer;
    kvsi_totals own[KVSI_SLICES] = {{0}}, sum;
    kvs_evaluation found;
    size_t rank;

    NEED(out);
    NEED(trainer);
    TRY(kvsi_sized_check(out, "kvs_evaluation", err));
    t->where[0] = '\0';
    TRY(kvsi_trainer_check_evaluation(sequences, err));
    for (size_t i = 0; i < t->reducer->slices; i++)
        TRY(evaluate_slice(t, i, sequences, &own[i], err));
    TRY(kvsi_reducer_wait(t->reducer, err));
    TRY(sum_totals(t, own, &sum, err));
    if (!isfinite(sum.loss)) {
        TRY(find_rank(t, &rank, err));
        return kvs_comm_agree(
            t->comm,
            kvsi_fail(err, KVS_E_DIVERGED,
                      "the model of step %llu has diverged: evaluation loss %g, first in %s; a "
                      "lower learning rate may help",
                      (unsigned long long)t->step, sum.loss, t->where),
            err);
    }
    found = kvsi_totals_evaluation(&sum, t->task);
    kvsi_sized_write(out, &found, sizeof found);
    return KVS_OK;
}

/* ---- for kvsi_train and checkpoints ---- */

kvsi_training_state kvsi_trainer_state(kvs_trainer *trainer)
{
    return (kvsi_training_state){.model = trainer->model,
                                 .layout = trainer->reducer->layout,
                                 .moments_sharded = trainer->config.shard != KVSI_SHARD_NONE,
                                 .mean = trainer->optimizer.mean,
                                 .square = trainer->optimizer.square,
                                 .step = trainer->step};
}

void kvsi_trainer_set_step(kvs_trainer *trainer, uint64_t step)
{
    trainer->step = step;
}

void kvsi_trainer_set_async_gather(kvs_trainer *trainer)
{
    trainer->async_gather = 1;
}

kvs_status kvsi_trainer_wait(kvs_trainer *trainer, kvs_err *err)
{
    return kvsi_reducer_wait(trainer->reducer, err);
}
