/* One optimizer step after the other: draw sequences, add up their gradients, clip, AdamW.
 *
 * Gradients are of the SUM of the losses; the mean over all targets of the step comes in with the
 * clipping factor.  So a step's batch can be cut anywhere: over ranks, into the parts that were
 * asked for, and further where an unusually long draw would not fit the planned memory.
 *
 * What is trained is the end of the parameters' block: all of it, or the shift's numbers alone,
 * which come last.  Gradients of what stays as it is are computed too, but not looked at. */
#include "train/trainer.h"

#include "base/clock.h"
#include "base/memory.h"
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
    const kvs_task *task; /* borrowed */
    kvs_train_config config;
    uint64_t step; /* done so far */
    kvsi_batch_buffer batch;
    kvsi_pass *pass;
    kvsi_supply supply; /* hooks of the pass */
    kvsi_team team;
    kvsi_gradients *gradients;
    kvsi_fetch *fetch;
    kvsi_optimizer optimizer;
    kvsi_totals *slices;         /* [all slices of a batch] what each of them came to */
    int is_lazy;                 /* weights are waited for by the next pass, not by the step */
    char where[KVSI_WHERE_SIZE]; /* this rank's numbers first stopped being numbers */
};

/* ---- hooks of the pass ---- */

static void want_weights(void *user, size_t unit)
{
    kvs_trainer *t = user;

    kvsi_gradients_move(t->gradients);
    kvsi_fetch_want(t->fetch, unit);
}

static void want_gradients(void *user, size_t unit)
{
    kvs_trainer *t = user;

    kvsi_gradients_want(t->gradients, unit);
}

static real *gradient_at(void *user, size_t offset)
{
    kvs_trainer *t = user;

    return kvsi_gradients_at(t->gradients, offset);
}

static void complete(void *user, size_t unit)
{
    kvs_trainer *t = user;

    kvsi_gradients_complete(t->gradients, unit);
}

/* A process alone with everything in its memory needs none. */
static void hook_up(kvs_trainer *t)
{
    t->supply = (kvsi_supply){
        .user = t,
        .weights = want_weights,
        .gradients = want_gradients,
        .gradient = kvsi_gradients_are_spread(t->gradients) ? gradient_at : NULL,
        .complete = complete,
    };
    if (t->model->comm->size > 1 || t->supply.gradient)
        t->pass->supply = &t->supply;
}

/* ---- making ---- */

static kvs_status check_fit(const kvs_model *model, const kvs_task *task, kvs_err *err)
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

/* The first group that is trained; the ones after it are too. */
static kvs_status choose_groups(kvsi_group *first, const kvs_model *model,
                                const kvs_train_config *config, kvs_err *err)
{
    const kvsi_layout *layout = &model->layout;
    const kvs_shift_config *shift = &model->config.shift;

    *first = config->only_shift ? KVSI_SHIFTS : KVSI_MATRICES;
    if (config->only_shift && layout->group_start[KVSI_SHIFTS] == kvsi_layout_total(layout))
        return kvsi_fail(err, KVS_E_INVALID,
                         "only the shift is to be trained, but shift '%s' of form '%s' has nothing "
                         "to learn",
                         kvs_shift_targets_name(shift->targets), kvs_shift_form_name(shift->form));
    return KVS_OK;
}

static kvs_status allocate(kvs_trainer *t, kvs_err *err)
{
    const kvsi_pass_limits limits = kvsi_training_limits(t->task, &t->config, t->model->comm->size);

    TRY(kvsi_batch_buffer_init(&t->batch, t->task, limits.sequences, err));
    TRY(kvsi_pass_create(&t->pass, t->model, &limits, err));
    TRY(kvsi_gradients_create(&t->gradients, &t->team, err));
    TRY(kvsi_fetch_create(&t->fetch, &t->team, err));
    TRY(kvsi_optimizer_init(&t->optimizer, &t->team, err));
    t->slices = kvsi_alloc(kvsi_team_slices(&t->team), sizeof *t->slices);
    if (!t->slices)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for a trainer");
    return KVS_OK;
}

kvs_status kvs_trainer_create(kvs_trainer **out, kvs_model *model, const kvs_task *task,
                              const kvs_train_config *config, kvs_err *err)
{
    kvs_status st = KVS_OK;
    kvs_trainer *t = kvsi_alloc(1, sizeof *t);
    kvsi_group first_group;

    *out = NULL;
    if (!t)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for a trainer");
    *t = (kvs_trainer){.model = model, .task = task, .config = *config};
    TRY_OUT(kvs_train_config_check(config, err));
    TRY_OUT(check_fit(model, task, err));
    TRY_OUT(choose_groups(&first_group, model, config, err));
    TRY_OUT(kvsi_team_init(&t->team, model, config, first_group, err));
    TRY_OUT(allocate(t, err));
    hook_up(t);
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
    kvsi_gradients_free(trainer->gradients);
    kvsi_fetch_free(trainer->fetch);
    kvsi_optimizer_release(&trainer->optimizer);
    kvsi_team_release(&trainer->team);
    kvsi_free(trainer->slices);
    kvsi_free(trainer);
}

/* ---- passes over drawn sequences ---- */

/* As many sequences from `first` on as fit the pass. */
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

/* The passes over a batch. */
typedef struct errand {
    uint64_t number;  /* of the first sequence; dropout counts them too */
    int trains;       /* backward too */
    size_t slice;     /* of the rank's */
    int is_last;      /* of the step */
    kvsi_totals *sum; /* NULL = nobody wants to know */
} errand;

/* Remembers where, the first time that a loss is not finite, while the pass still has the numbers.
 * A rank goes on: others wait for what it has to send. */
static void watch_loss(kvs_trainer *t, double loss)
{
    if (!isfinite(loss) && t->where[0] == '\0')
        kvsi_find_not_finite(t->where, t->pass, NULL);
}

/* Over what is in the batch buffer. */
static kvs_status run_batch(kvs_trainer *t, const errand *e, kvs_err *err)
{
    const int dropout = e->trains || t->config.eval_dropout;
    const size_t sequences = t->batch.view.sequences;
    kvs_batch part;

    for (size_t first = 0; first < sequences; first += part.sequences) {
        real *gradients = NULL;
        kvsi_loss loss;
        kvs_status st;

        part = next_part(t, first);
        kvsi_pass_set_dropout(t->pass, dropout, t->config.seed, e->number + first);
        st = kvsi_pass_load(t->pass, &part, NULL, err);
        if (st != KVS_OK)
            return st;
        kvsi_fetch_pass(t->fetch, e->trains);
        if (e->trains) {
            kvsi_gradients_pass(t->gradients, e->slice,
                                e->is_last && first + part.sequences == sequences);
            gradients = kvsi_gradients_block(t->gradients);
        }
        kvsi_pass_forward(t->pass);
        TRY(kvsi_pass_loss(t->pass, gradients, &loss, err));
        watch_loss(t, loss.sum);
        if (e->trains) {
            kvsi_pass_backward(t->pass, gradients);
            kvsi_gradients_passed(t->gradients);
        }
        if (e->sum)
            kvsi_totals_count(e->sum, t->pass, &loss, t->task);
    }
    return KVS_OK;
}

/* The sum of what all slices of all ranks came to, added in their order. */
static kvs_status add_slices(kvs_trainer *t, const kvsi_totals *own, kvsi_totals *sum, kvs_err *err)
{
    const kvs_status st =
        kvsi_team_gather(&t->team, t->slices, own, t->team.slices * sizeof *own, err);

    *sum = (kvsi_totals){0};
    for (size_t i = 0; st == KVS_OK && i < kvsi_team_slices(&t->team); i++)
        kvsi_totals_add(sum, &t->slices[i]);
    return st;
}

/* ---- the step ---- */

/* One of the rank's slices, part by part. */
static kvs_status run_slice(kvs_trainer *t, size_t slice, kvsi_totals *sum, kvs_err *err)
{
    const size_t sequences = kvsi_slice_sequences(&t->config, t->team.comm->size);
    const size_t index = t->team.comm->rank * t->team.slices + slice;
    const uint64_t first = t->step * t->config.batch + index * sequences;
    size_t now;

    for (size_t done = 0; done < sequences; done += now) {
        const size_t left = sequences - done, most = t->batch.max_sequences;
        errand e = {.number = first + done, .trains = 1, .slice = slice, .sum = sum};
        kvs_status st;

        now = left < most ? left : most;
        e.is_last = slice + 1 == t->team.slices && now == left;
        kvsi_batch_fill(&t->batch, t->task, t->config.seed, KVSI_RANDOM_DATA, e.number, now);
        st = run_batch(t, &e, err);
        if (st != KVS_OK)
            return st;
    }
    return KVS_OK;
}

static kvs_status add_gradients(kvs_trainer *t, kvsi_totals *sum, kvs_err *err)
{
    kvsi_totals own[KVSI_SLICES] = {{0}};

    t->where[0] = '\0';
    kvsi_team_begin(&t->team);
    kvsi_gradients_begin(t->gradients);
    for (size_t i = 0; i < t->team.slices; i++)
        TRY(run_slice(t, i, &own[i], err));
    TRY(kvsi_gradients_end(t->gradients, err));
    return add_slices(t, own, sum, err);
}

/* Where numbers stopped being numbers, on the first rank that saw it. */
static kvs_status tell_where(kvs_trainer *t, size_t *rank, kvs_err *err)
{
    const kvs_comm *comm = t->team.comm;
    char *all = kvsi_alloc(comm->size, sizeof t->where);
    kvs_status st;

    *rank = 0;
    if (!all)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for %zu ranks", comm->size);
    TRY_OUT(kvsi_comm_gather(comm, all, t->where, sizeof t->where, err));
    while (*rank + 1 < comm->size && all[*rank * sizeof t->where] == '\0')
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
    kvs_status st;

    if (isfinite(now->loss) && !kvsi_find_not_finite(t->where, t->pass, t->gradients) &&
        t->team.comm->rank + 1 < t->team.comm->size)
        t->where[0] = '\0'; /* another rank may know better */
    TRY_OUT(tell_where(t, &rank, err));
    if (t->team.comm->size > 1)
        snprintf(who, sizeof who, " on rank %zu", rank);
    st =
        kvsi_fail(err, KVS_E_DIVERGED,
                  "step %llu diverged%s: loss %g, gradient norm %g, first in %s; a lower "
                  "learning rate (now %g) may help",
                  (unsigned long long)now->step, who, now->loss, now->grad_norm, t->where, now->lr);
    st = kvs_comm_agree(t->team.comm, st, err);
out:
    return st;
}

kvs_status kvs_trainer_step(kvs_trainer *trainer, kvs_step_record *record, kvs_err *err)
{
    kvs_trainer *t = trainer;
    const uint64_t step = t->step + 1;
    const double started = kvsi_clock_seconds();
    kvs_step_record now;
    kvsi_totals sum;

    TRY(add_gradients(t, &sum, err));
    now = kvsi_totals_record(&sum, step);
    now.lr = kvs_learning_rate(&t->config, step);
    TRY(kvsi_optimizer_measure(&t->optimizer, t->gradients, 1.0 / (double)sum.targets,
                               t->config.clip, &now.grad_norm, err));
    if (!isfinite(now.loss) || !isfinite(now.grad_norm))
        return fail_diverged(t, &now, err);
    kvsi_optimizer_update(&t->optimizer, t->gradients, t->fetch, &t->config, step);
    if (!t->is_lazy)
        TRY(kvsi_fetch_settle(t->fetch, err));
    t->step = step;
    now.seconds = kvsi_clock_seconds() - started;
    now.sending = t->team.busy;
    now.waiting = t->team.waited;
    if (record)
        *record = now;
    return KVS_OK;
}

/* ---- evaluation ---- */

kvs_status kvsi_trainer_check_evaluation(size_t sequences, kvs_err *err)
{
    const size_t most = (size_t)1 << 32; /* the work is cut by products of it */

    if (sequences < 1 || sequences > most)
        return kvsi_fail(err, KVS_E_INVALID, "eval sequences is %zu, expected 1 to %zu", sequences,
                         most);
    return KVS_OK;
}

/* One slice of `sequences`; all slices take as many rounds, because weights that are spread over
 * ranks come to all of them together: one that has nothing left to do runs any sequence. */
static kvs_status evaluate_slice(kvs_trainer *t, size_t slice, size_t sequences, kvsi_totals *sum,
                                 kvs_err *err)
{
    const size_t slices = kvsi_team_slices(&t->team), most = t->batch.max_sequences;
    const size_t index = t->team.comm->rank * t->team.slices + slice;
    const size_t from = sequences * index / slices, to = sequences * (index + 1) / slices;
    const size_t rounds = ((sequences + slices - 1) / slices + most - 1) / most;
    kvs_status st = KVS_OK;

    for (size_t i = 0; st == KVS_OK && i < rounds; i++) {
        const size_t at = from + i * most, left = at < to ? to - at : 0;
        const size_t now = left < most ? left : most;
        const errand e = {.number = now > 0 ? at : 0, .sum = now > 0 ? sum : NULL};

        if (now == 0 && !t->model->share)
            break;
        kvsi_batch_fill(&t->batch, t->task, t->config.seed, KVSI_RANDOM_EVAL, e.number,
                        now > 0 ? now : 1);
        st = run_batch(t, &e, err);
    }
    return st;
}

kvs_status kvs_trainer_evaluate(kvs_trainer *trainer, size_t sequences, kvs_evaluation *out,
                                kvs_err *err)
{
    kvs_trainer *t = trainer;
    kvsi_totals own[KVSI_SLICES] = {{0}}, sum;
    size_t rank;
    kvs_status st = KVS_OK;

    t->where[0] = '\0';
    TRY_OUT(kvsi_trainer_check_evaluation(sequences, err));
    for (size_t i = 0; i < t->team.slices; i++)
        TRY_OUT(evaluate_slice(t, i, sequences, &own[i], err));
    TRY_OUT(kvsi_team_check(&t->team, err));
    TRY_OUT(add_slices(t, own, &sum, err));
    if (!isfinite(sum.loss)) {
        TRY_OUT(tell_where(t, &rank, err));
        st = kvsi_fail(err, KVS_E_DIVERGED,
                       "the model of step %llu has diverged: evaluation loss %g, first in %s; a "
                       "lower learning rate may help",
                       (unsigned long long)t->step, sum.loss, t->where);
        return kvs_comm_agree(t->team.comm, st, err);
    }
    *out = kvsi_totals_evaluation(&sum, t->task);
out:
    return st;
}

/* ---- checkpoints ---- */

kvsi_training_state kvsi_trainer_state(kvs_trainer *trainer)
{
    return (kvsi_training_state){.model = trainer->model,
                                 .mean = trainer->optimizer.mean,
                                 .square = trainer->optimizer.square,
                                 .team = &trainer->team,
                                 .step = trainer->step};
}

void kvsi_trainer_set_step(kvs_trainer *trainer, uint64_t step)
{
    trainer->step = step;
}

void kvsi_trainer_be_lazy(kvs_trainer *trainer)
{
    trainer->is_lazy = 1;
}

kvs_status kvsi_trainer_settle(kvs_trainer *trainer, kvs_err *err)
{
    return kvsi_fetch_settle(trainer->fetch, err);
}
