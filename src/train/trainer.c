/* The training step:
 *
 *     this rank's share of the batch: drawn from the data, or copied     draw_share, copy_share
 *     for each micro-batch: forward, loss, backward                      forward_backward
 *     sum the gradients over micro-batches and ranks                     train/reducer.h
 *     clip to the global norm, AdamW                                     train/optimizer.h
 *
 * A batch of the caller may be invalid, and a callback of the caller may stop.  All sequences of a
 * step are therefore drawn or copied before its first pass.  If that fails on one rank, the step
 * fails on all ranks, and the model is unchanged.
 *
 * Gradients are those of the SUM of the losses; the mean over all targets of the step is a factor
 * that is applied with the clipping.  So a batch can be divided anywhere: among ranks, into
 * micro-batches, and further if an unusually long draw does not fit the planned memory.
 *
 * Either all parameters are trained, or only those at the end of the layout: the shift alone, or
 * with the adapters of a model that has them.  The matrices of the others are frozen and have
 * neither gradients nor moments. */
#include "train/trainer.h"

#include "base/clock.h"
#include "base/math.h"
#include "base/memory.h"
#include "base/sized.h"
#include "data/batch.h"
#include "data/data.h"
#include "train/budget.h"
#include "train/diverged.h"
#include "train/optimizer.h"
#include "train/settings.h"
#include "train/totals.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct kvs_trainer {
    kvs_model *model;     /* borrowed */
    const kvs_data *data; /* borrowed; NULL = the caller passes batches */
    kvs_data sizes;       /* a copy of *data for its sizes; without data, see sizes_of_model */
    kvs_comm *comm;       /* the model's */
    kvs_train_config config;
    uint64_t step;           /* done so far */
    kvs_step_record record;  /* of the last step, for the caller */
    kvsi_batch_buffer batch; /* this rank's share of a batch */
    kvsi_pass *pass;
    kvsi_reducer *reducer;
    kvsi_optimizer optimizer;
    size_t slices;               /* number of slices of all ranks */
    kvsi_totals *totals;         /* [slices] */
    int *statuses;               /* [ranks], for agree() */
    double mean;                 /* 1 / targets, if gradients can be read; otherwise 0 */
    int async_gather;            /* a step does not wait for the updated parameters */
    char where[KVSI_WHERE_SIZE]; /* the first tensor on this rank that was not finite */
};

/* ---- creating ---- */

static kvs_status check_fit(const kvs_model *model, const kvs_data *data, kvs_err *err)
{
    const kvs_model_config *c = &model->config;

    if (c->vocab < data->vocab)
        return kvsi_fail(err, KVS_E_INVALID, "the model's vocabulary is %zu, the data needs %zu",
                         c->vocab, data->vocab);
    if (c->context < data->max_tokens)
        return kvsi_fail(err, KVS_E_INVALID, "the model's context is %zu, the data needs %zu",
                         c->context, data->max_tokens);
    return KVS_OK;
}

/* Returns the sizes of data whose sequences are as long as the model allows.  Passes of a trainer
 * without data are planned for them. */
static kvs_data sizes_of_model(const kvs_model *model)
{
    return (kvs_data){.vocab = model->config.vocab,
                      .max_tokens = model->config.context,
                      .mean_tokens = (double)model->config.context};
}

static kvs_status check_trained(const kvs_model *model, const kvs_train_config *config,
                                kvs_err *err)
{
    const kvsi_layout *layout = &model->layout;
    const kvsi_shift_config *shift = &model->config.shift;

    if (config->only_shift && model->config.lora.rank > 0)
        return kvsi_fail(err, KVS_E_INVALID,
                         "only the shift is to be trained, but the model has adapters of rank %zu, "
                         "which are trained too",
                         model->config.lora.rank);
    if (config->only_shift && layout->group_start[KVSI_SHIFTS] == kvsi_layout_total(layout))
        return kvsi_fail(err, KVS_E_INVALID,
                         "only the shift is to be trained, but shift '%s' of form '%s' has nothing "
                         "to learn",
                         kvsi_shift_targets_name(shift->targets),
                         kvsi_shift_form_name(shift->form));
    return KVS_OK;
}

/* Returns the first sequence of a slice in a batch of `sequences` sequences; `index` counts the
 * slices of all ranks.  Slices have equal sizes if the batch has config.batch sequences; otherwise
 * their sizes differ by at most 1. */
static size_t slice_start(const kvs_trainer *t, size_t sequences, size_t index)
{
    return sequences * index / t->slices;
}

kvs_status kvs_trainer_create(kvs_trainer **out, kvs_model *model, const kvs_data *data,
                              const kvs_train_config *config, kvs_err *err)
{
    kvs_status st = KVS_OK;
    kvs_trainer *t;
    kvsi_pass_limits limits;

    NEED(out);
    *out = NULL;
    NEED(model);
    NEED(config);
    t = kvsi_alloc(1, sizeof *t);
    if (!t)
        return kvsi_no_memory(err, "a trainer");
    *t = (kvs_trainer){.model = model,
                       .data = data,
                       .sizes = data ? *data : sizes_of_model(model),
                       .comm = model->comm,
                       .config = *config};
    TRY_OUT(kvs_train_config_check(config, err));
    TRY_OUT(check_fit(model, &t->sizes, err));
    TRY_OUT(check_trained(model, config, err));
    TRY_OUT(kvsi_reducer_create(&t->reducer, model, config,
                                kvsi_first_trained(&model->config, config), err));
    t->slices = t->comm->size * t->reducer->slices;
    TRY_OUT(kvsi_batch_buffer_init(&t->batch, &t->sizes, config->batch / t->comm->size, err));
    limits = kvsi_training_limits(&t->sizes, config, t->comm->size);
    TRY_OUT(kvsi_pass_create(&t->pass, model, &limits, err));
    t->pass->hooks = t->reducer->hooks;
    t->pass->trained_from = t->reducer->trained_from;
    TRY_OUT(kvsi_optimizer_init(&t->optimizer, t->reducer, err));
    t->totals = kvsi_alloc(t->slices, sizeof *t->totals);
    t->statuses = kvsi_alloc(t->comm->size, sizeof *t->statuses);
    if (!t->totals || !t->statuses) {
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
    kvsi_free(trainer->statuses);
    kvsi_free(trainer);
}

uint64_t kvs_trainer_steps(const kvs_trainer *trainer)
{
    return trainer ? trainer->step : 0;
}

/* ---- passes ---- */

/* What a pass does with a micro-batch. */
typedef struct micro_batch {
    uint64_t number; /* of its first sequence; dropout depends on it */
    int backward;
    size_t slice; /* of this rank, that its gradients are added to */
    int is_last;  /* of the step */
} micro_batch;

/* Returns sequences first .. first+count-1 of a batch. */
static kvs_batch part_of(const kvs_batch *all, size_t first, size_t count)
{
    kvs_batch part = *all;

    part.starts = all->starts + first;
    part.sequences = count;
    return part;
}

/* Returns as many sequences, from `first` on, as fit the pass. */
static kvs_batch next_part(const kvs_trainer *t, const kvs_batch *all, size_t first)
{
    size_t end = first + 1;

    while (end < all->sequences &&
           all->starts[end + 1] - all->starts[first] <= t->pass->limits.tokens)
        end++;
    return part_of(all, first, end - first);
}

/* Runs one pass, or several if the micro-batch does not fit one.  Adds to *sum unless it is
 * NULL. */
static kvs_status forward_backward(kvs_trainer *t, const kvs_batch *batch, const micro_batch *m,
                                   kvsi_totals *sum, kvs_err *err)
{
    const int dropout = m->backward || t->config.eval_dropout;
    kvs_batch part;

    for (size_t first = 0; first < batch->sequences; first += part.sequences) {
        real *gradients;
        kvsi_loss loss;

        part = next_part(t, batch, first);
        kvsi_pass_set_dropout(t->pass, dropout, t->config.seed, m->number + first);
        TRY(kvsi_pass_load(t->pass, &part, NULL, err));
        gradients =
            kvsi_reducer_begin_pass(t->reducer, m->backward, m->slice,
                                    m->is_last && first + part.sequences == batch->sequences);
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
            kvsi_totals_count(sum, t->pass, &loss, &t->sizes);
    }
    return KVS_OK;
}

/* *sum = own[slices] of all ranks, added in the order of the slices. */
static kvs_status sum_totals(kvs_trainer *t, const kvsi_totals *own, kvsi_totals *sum, kvs_err *err)
{
    TRY(kvsi_reducer_exchange(t->reducer, t->totals, own, t->reducer->slices * sizeof *own, err));
    *sum = (kvsi_totals){0};
    for (size_t i = 0; i < t->slices; i++)
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

/* ---- the sequences of a step ---- */

/* Collective.  Fails on all ranks if `st` is a failure on one of them.  After a failure no transfer
 * is in flight, so that the caller may free the trainer.  Allocates memory only after a failure. */
static kvs_status agree(kvs_trainer *t, kvs_status st, kvs_err *err)
{
    const int own = st;
    int failed = 0;

    if (t->comm->size == 1)
        return st;
    TRY(kvsi_reducer_exchange(t->reducer, t->statuses, &own, sizeof own, err));
    for (size_t r = 0; r < t->comm->size; r++)
        failed |= t->statuses[r] != KVS_OK;
    if (!failed)
        return KVS_OK;
    st = kvs_comm_agree(t->comm, st, err);
    kvsi_reducer_wait(t->reducer, NULL);
    return st;
}

/* Returns the first sequence of a rank's share in a batch of `sequences` sequences.  The share ends
 * where the share of rank + 1 starts. */
static size_t share_start(const kvs_trainer *t, size_t sequences, size_t rank)
{
    return slice_start(t, sequences, rank * t->reducer->slices);
}

/* Draws this rank's share of the next step's batch from the data. */
static kvs_status draw_share(kvs_trainer *t, kvs_err *err)
{
    const size_t batch = t->config.batch, first = share_start(t, batch, t->comm->rank);
    kvs_status st;

    if (!t->data)
        return kvsi_fail(err, KVS_E_INVALID, "the trainer has no data to take a step on");
    st = kvsi_batch_fill(&t->batch, t->data, t->config.seed, KVSI_RANDOM_DATA,
                         t->step * batch + first, share_start(t, batch, t->comm->rank + 1) - first,
                         err);
    return t->data->may_fail ? agree(t, st, err) : st;
}

/* Checks the caller's batch, of which every rank has a copy, and copies this rank's share.  Sets
 * *sequences to the size of the whole batch. */
static kvs_status copy_share(kvs_trainer *t, size_t *sequences, const kvs_batch *batch,
                             kvs_err *err)
{
    const kvsi_batch_limits limits = {.what = "batch",
                                      .vocab = t->model->config.vocab,
                                      .sequences = t->config.batch,
                                      .length = t->sizes.max_tokens};
    kvs_batch taken = {0};
    size_t first;

    TRY(agree(t, kvsi_batch_take(&taken, batch, &limits, err), err));
    first = share_start(t, taken.sequences, t->comm->rank);
    kvsi_batch_fill_from(&t->batch, &taken, first,
                         share_start(t, taken.sequences, t->comm->rank + 1) - first);
    *sequences = taken.sequences;
    return KVS_OK;
}

/* ---- the step ---- */

/* Returns the number of micro-batches of the largest slice.  Passes may be collective, so every
 * slice makes passes for that many micro-batches. */
static size_t rounds_of(const kvs_trainer *t, size_t sequences)
{
    return kvsi_div_up(kvsi_div_up(sequences, t->slices), t->pass->limits.sequences);
}

/* Runs the forward and backward passes of one of this rank's slices of a batch of `sequences`
 * sequences.  If the slice has fewer micro-batches than the largest one, each of the remaining
 * passes gets a token without a target, which adds 0 to every gradient. */
static kvs_status train_slice(kvs_trainer *t, size_t slice, size_t sequences, kvsi_totals *sum,
                              kvs_err *err)
{
    static const size_t one_token[] = {0, 1};
    static const int32_t id = 0, no_target = -1;
    static const kvs_batch nothing = {
        .sequences = 1, .starts = one_token, .ids = &id, .targets = &no_target};
    const size_t index = t->comm->rank * t->reducer->slices + slice;
    const size_t from = slice_start(t, sequences, index), to = slice_start(t, sequences, index + 1);
    const size_t share = share_start(t, sequences, t->comm->rank);
    const size_t rounds = rounds_of(t, sequences), most = t->pass->limits.sequences;

    for (size_t i = 0; i < rounds; i++) {
        const size_t at = from + i * most, left = at < to ? to - at : 0;
        const size_t now = kvsi_min(left, most);
        const kvs_batch part = now > 0 ? part_of(&t->batch.view, at - share, now) : nothing;
        const micro_batch m = {
            .number = t->step * t->config.batch + at,
            .backward = 1,
            .slice = slice,
            .is_last = slice + 1 == t->reducer->slices && i + 1 == rounds,
        };

        TRY(forward_backward(t, &part, &m, now > 0 ? sum : NULL, err));
    }
    return KVS_OK;
}

/* Computes the gradients of a batch of `sequences` sequences, whose share of this rank is in
 * t->batch, with their norm and the totals of the batch.  Fails if the batch has no target, or if
 * the loss or the norm is not finite. */
static kvs_status compute_gradients(kvs_trainer *t, size_t sequences, kvs_step_record *now,
                                    kvs_err *err)
{
    kvsi_totals own[KVSI_SLICES] = {{0}}, sum;
    double mean;

    t->where[0] = '\0';
    t->mean = 0;
    *now = (kvs_step_record){0};
    kvsi_reducer_begin_step(t->reducer);
    for (size_t i = 0; i < t->reducer->slices; i++)
        TRY(train_slice(t, i, sequences, &own[i], err));
    TRY(kvsi_reducer_finish(t->reducer, err));
    TRY(sum_totals(t, own, &sum, err));
    if (sum.targets == 0)
        return kvs_comm_agree(t->comm,
                              kvsi_fail(err, KVS_E_INVALID,
                                        "step %llu: none of its %zu sequences has a target",
                                        (unsigned long long)t->step + 1, sequences),
                              err);
    mean = 1 / (double)sum.targets;
    *now = kvsi_totals_record(&sum, t->step + 1);
    now->lr = kvs_learning_rate(&t->config, now->step);
    TRY(kvsi_optimizer_clip(&t->optimizer, mean, t->config.clip, &now->grad_norm, err));
    if (!isfinite(now->loss) || !isfinite(now->grad_norm))
        return fail_diverged(t, now, err);
    t->mean = mean;
    return KVS_OK;
}

/* Takes a step on a batch of `sequences` sequences, whose share of this rank is in t->batch. */
static kvs_status take_step(kvs_trainer *t, size_t sequences, double started,
                            kvs_step_record *record, kvs_err *err)
{
    kvs_step_record now;

    TRY(compute_gradients(t, sequences, &now, err));
    t->mean = 0; /* after the update the gradients are out of date */
    kvsi_optimizer_update(&t->optimizer, &t->config, now.step);
    if (!t->async_gather)
        TRY(kvsi_reducer_wait(t->reducer, err));
    t->step = now.step;
    now.seconds = kvsi_clock_seconds() - started;
    now.sending = t->reducer->sending;
    now.waiting = t->reducer->waiting;
    if (record)
        *record = now;
    return KVS_OK;
}

kvs_status kvsi_trainer_step(kvs_trainer *trainer, kvs_step_record *record, kvs_err *err)
{
    const double started = kvsi_clock_seconds();

    TRY(draw_share(trainer, err));
    return take_step(trainer, trainer->config.batch, started, record, err);
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

kvs_status kvs_trainer_step_batch(const kvs_step_record **record, kvs_trainer *trainer,
                                  const kvs_batch *batch, kvs_err *err)
{
    const double started = kvsi_clock_seconds();
    size_t sequences = 0;

    if (record)
        *record = NULL;
    NEED(trainer);
    NEED(batch);
    TRY(copy_share(trainer, &sequences, batch, err));
    TRY(take_step(trainer, sequences, started, &trainer->record, err));
    if (record)
        *record = &trainer->record;
    return KVS_OK;
}

/* ---- gradients for the caller ---- */

kvs_status kvs_trainer_gradients(double *loss, kvs_trainer *trainer, const kvs_batch *batch,
                                 kvs_err *err)
{
    kvs_trainer *t = trainer;
    size_t sequences = 0;
    kvs_step_record now;

    NEED(loss);
    NEED(trainer);
    NEED(batch);
    if (t->comm->size != 1)
        return kvsi_fail(err, KVS_E_UNSUPPORTED,
                         "gradients can be read from a model of one process, here are %zu ranks",
                         t->comm->size);
    TRY(copy_share(t, &sequences, batch, err));
    TRY(compute_gradients(t, sequences, &now, err));
    *loss = now.loss;
    return KVS_OK;
}

kvs_status kvs_trainer_read_gradient(float *out, size_t count, const kvs_trainer *trainer,
                                     const char *name, kvs_err *err)
{
    enum { CHUNK = 1024 };
    const kvs_trainer *t = trainer;
    const kvsi_parameter *p;
    kvsi_context c;
    size_t n;

    NEED(out);
    NEED(trainer);
    NEED(name);
    if (t->mean == 0)
        return kvsi_fail(err, KVS_E_INVALID,
                         "there are no gradients; call kvs_trainer_gradients() first");
    p = kvsi_layout_find(&t->model->layout, name);
    if (!p)
        return kvsi_fail(err, KVS_E_INVALID, "the model has no tensor '%s'", name);
    if (p->count != count)
        return kvsi_fail(err, KVS_E_INVALID, "tensor '%s' has %zu values, %zu were given", name,
                         p->count, count);
    if (kvsi_group_of(p->role) < t->reducer->first_group)
        return kvsi_fail(err, KVS_E_INVALID, "tensor '%s' has no gradient: only %s trained", name,
                         t->config.only_shift ? "the shift is" : "the adapters and the shift are");
    c = t->model->context;
    for (size_t at = 0; at < count; at += n) {
        const real *sums = kvsi_reducer_find_sum(t->reducer, p->offset + at, &n);
        real chunk[CHUNK];

        n = kvsi_min(kvsi_min(n, count - at), (size_t)CHUNK);
        c.ops->download(&c, chunk, sums, n * sizeof *chunk);
        TRY(kvsi_sync(&c, err));
        for (size_t i = 0; i < n; i++)
            out[kvsi_file_index(p, at + i)] = (float)(t->mean * (double)chunk[i]);
    }
    return KVS_OK;
}

/* ---- evaluation ---- */

kvs_status kvsi_trainer_check_evaluation(size_t sequences, kvs_err *err)
{
    const size_t most = (size_t)1 << 32; /* slice_start multiplies it by the number of slices */

    if (sequences < 1 || sequences > most)
        return kvsi_fail(err, KVS_E_INVALID, "eval sequences is %zu, expected 1 to %zu", sequences,
                         most);
    return KVS_OK;
}

/* Evaluates one of this rank's slices of `sequences` sequences.  If parameters are sharded, every
 * pass is collective and all ranks must make the same number of passes: a rank that has no
 * sequences left runs a pass on sequence 0 and ignores the result. */
static kvs_status evaluate_slice(kvs_trainer *t, size_t slice, size_t sequences, kvsi_totals *sum,
                                 kvs_err *err)
{
    const size_t index = t->comm->rank * t->reducer->slices + slice;
    const size_t from = slice_start(t, sequences, index), to = slice_start(t, sequences, index + 1);
    const size_t rounds = rounds_of(t, sequences), most = t->pass->limits.sequences;

    for (size_t i = 0; i < rounds; i++) {
        const size_t at = from + i * most, left = at < to ? to - at : 0;
        const size_t now = kvsi_min(left, most);
        const size_t drawn = now == 0 && t->model->shards ? 1 : now;
        const micro_batch m = {.number = now > 0 ? at : 0};
        const kvs_status st = kvsi_batch_fill(&t->batch, t->data, t->config.seed, KVSI_RANDOM_EVAL,
                                              m.number, drawn, err);

        TRY(t->data->may_fail ? agree(t, st, err) : st);
        if (drawn > 0)
            TRY(forward_backward(t, &t->batch.view, &m, now > 0 ? sum : NULL, err));
    }
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
    TRY(kvsi_trainer_check_evaluation(sequences, err));
    if (!t->data || t->data->no_evaluation)
        return kvsi_fail(err, KVS_E_INVALID, "the trainer has no data to evaluate");
    t->where[0] = '\0';
    for (size_t i = 0; i < t->reducer->slices; i++)
        TRY(evaluate_slice(t, i, sequences, &own[i], err));
    TRY(kvsi_reducer_wait(t->reducer, err));
    TRY(sum_totals(t, own, &sum, err));
    if (sum.targets == 0)
        return kvs_comm_agree(t->comm,
                              kvsi_fail(err, KVS_E_INVALID,
                                        "none of the %zu sequences to evaluate has a target",
                                        sequences),
                              err);
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
    found = kvsi_totals_evaluation(&sum, &t->sizes);
    kvsi_sized_write(out, &found, sizeof found);
    return KVS_OK;
}

/* ---- for kvsi_train and checkpoints ---- */

kvsi_training_state kvsi_trainer_state(kvs_trainer *trainer)
{
    return (kvsi_training_state){.model = trainer->model,
                                 .layout = trainer->reducer->layout,
                                 .moments_sharded = trainer->config.shard != KVSI_SHARD_NONE,
                                 .trained_from = trainer->reducer->trained_from,
                                 .mean = trainer->optimizer.mean,
                                 .square = trainer->optimizer.square,
                                 .step = trainer->step};
}

void kvsi_trainer_set_step(kvs_trainer *trainer, uint64_t step)
{
    trainer->step = step;
    trainer->mean = 0;
    kvsi_reducer_forget(trainer->reducer);
}

json_t *kvsi_trainer_settings(const kvs_trainer *trainer)
{
    return kvsi_training_settings(trainer->model, trainer->data, &trainer->config);
}

void kvsi_trainer_set_async_gather(kvs_trainer *trainer)
{
    trainer->async_gather = 1;
}

kvs_status kvsi_trainer_wait(kvs_trainer *trainer, kvs_err *err)
{
    return kvsi_reducer_wait(trainer->reducer, err);
}
