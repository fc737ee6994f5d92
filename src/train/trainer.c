/* One optimizer step after the other: draw sequences, add up their gradients, clip, AdamW.
 *
 * Gradients are of the SUM of the losses; the mean over all targets of the step comes in with the
 * clipping factor.  So a step's batch can be cut anywhere: into the micro-batches that were asked
 * for, and further where an unusually long draw would not fit the planned memory.
 *
 * What is trained is the end of the parameters' block: all of it, or the shift's numbers alone,
 * which come last.  Gradients of what stays as it is are computed too, but not looked at. */
#include "train/trainer.h"

#include "base/clock.h"
#include "base/memory.h"
#include "data/task.h"
#include "model/pass.h"
#include "train/budget.h"
#include "train/diverged.h"

#include <math.h>

struct kvs_trainer {
    kvs_model *model;     /* borrowed */
    const kvs_task *task; /* borrowed */
    kvs_train_config config;
    uint64_t step; /* done so far */
    kvsi_batch_buffer batch;
    kvsi_pass *pass;
    kvsi_group first_group;          /* that is trained; the ones after it are too */
    real *gradients, *mean, *square; /* blocks laid out like the parameters */
    double *sum, *scale;             /* on the backend's side */
};

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

/* Decides what is trained. */
static kvs_status choose_groups(kvs_trainer *t, kvs_err *err)
{
    const kvsi_layout *layout = &t->model->layout;
    const kvs_shift_config *shift = &t->model->config.shift;

    t->first_group = t->config.only_shift ? KVSI_SHIFTS : KVSI_MATRICES;
    if (t->config.only_shift && layout->group_start[KVSI_SHIFTS] == kvsi_layout_total(layout))
        return kvsi_fail(err, KVS_E_INVALID,
                         "only the shift is to be trained, but shift '%s' of form '%s' has nothing "
                         "to learn",
                         kvs_shift_targets_name(shift->targets), kvs_shift_form_name(shift->form));
    return KVS_OK;
}

static kvs_status allocate(kvs_trainer *t, kvs_err *err)
{
    const kvsi_ops *op = t->model->context.ops;
    const size_t bytes = kvsi_layout_total(&t->model->layout) * sizeof(real);
    const kvsi_pass_limits limits = kvsi_training_limits(t->task, &t->config);
    kvs_status st = kvsi_batch_buffer_init(&t->batch, t->task, limits.sequences, err);

    if (st == KVS_OK)
        st = kvsi_pass_create(&t->pass, t->model, &limits, err);
    if (st != KVS_OK)
        return st;
    t->gradients = op->alloc(bytes);
    t->mean = op->alloc(bytes);
    t->square = op->alloc(bytes);
    t->sum = op->alloc(sizeof *t->sum);
    t->scale = op->alloc(sizeof *t->scale);
    if (!t->gradients || !t->mean || !t->square || !t->sum || !t->scale)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for gradients and moments, %zu MiB each",
                         bytes >> 20);
    return KVS_OK;
}

kvs_status kvs_trainer_create(kvs_trainer **out, kvs_model *model, const kvs_task *task,
                              const kvs_train_config *config, kvs_err *err)
{
    kvs_status st = KVS_OK;
    kvs_trainer *t = kvsi_alloc(1, sizeof *t);

    *out = NULL;
    if (!t)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for a trainer");
    *t = (kvs_trainer){.model = model, .task = task, .config = *config};
    KVS_TRY(kvs_train_config_check(config, err));
    KVS_TRY(check_fit(model, task, err));
    KVS_TRY(choose_groups(t, err));
    KVS_TRY(allocate(t, err));
    *out = t;
    t = NULL;
out:
    kvs_trainer_free(t);
    return st;
}

void kvs_trainer_free(kvs_trainer *trainer)
{
    const kvsi_ops *op;

    if (!trainer)
        return;
    op = trainer->model->context.ops;
    kvsi_batch_buffer_release(&trainer->batch);
    kvsi_pass_free(trainer->pass);
    op->release(trainer->gradients);
    op->release(trainer->mean);
    op->release(trainer->square);
    op->release(trainer->sum);
    op->release(trainer->scale);
    kvsi_free(trainer);
}

/* ---- passes over drawn sequences ---- */

typedef struct totals {
    double loss;
    size_t targets, scored, right, tokens;
    size_t bucket_scored[KVS_LENGTH_BUCKETS_MAX], bucket_right[KVS_LENGTH_BUCKETS_MAX];
} totals;

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

/* The scored rows of the pass, each in the bucket of its sequence's length.  Rows come in order. */
static void count_by_length(const kvsi_pass *pass, const kvs_task *task, totals *sum)
{
    const kvsi_span *span = pass->spans;

    for (size_t r = 0; r < pass->head_rows; r++) {
        while ((size_t)pass->host_rows[r] >= span->start + span->len)
            span++;
        if (!pass->host_scored[r])
            continue;
        for (size_t b = 0; b < task->buckets; b++)
            if (span->len >= task->bucket[b].from && span->len <= task->bucket[b].to) {
                sum->bucket_scored[b]++;
                sum->bucket_right[b] += pass->host_guesses[r] == pass->host_targets[r];
            }
    }
}

/* Forward, and backward if `gradients`, over what is in the batch buffer.  `number` is that of its
 * first sequence: no two passes of training start with the same one, and every evaluation with the
 * same ones, so it serves to number dropout's masks.  A loss that is not finite ends it: the pass
 * is left as it was when that happened. */
static kvs_status run_batch(kvs_trainer *t, uint64_t number, real *gradients, totals *sum,
                            kvs_err *err)
{
    const int dropout = gradients || t->config.eval_dropout;

    for (size_t first = 0; first < t->batch.view.sequences && isfinite(sum->loss);) {
        const kvs_batch part = next_part(t, first);
        kvs_status st;
        kvsi_loss loss;

        kvsi_pass_set_dropout(t->pass, dropout, t->config.seed, number + first);
        st = kvsi_pass_load(t->pass, &part, NULL, err);
        if (st != KVS_OK)
            return st;
        kvsi_pass_forward(t->pass);
        loss = kvsi_pass_loss(t->pass, gradients);
        if (gradients)
            kvsi_pass_backward(t->pass, gradients);
        sum->loss += loss.sum;
        sum->targets += loss.rows;
        sum->scored += loss.scored;
        sum->right += loss.right;
        sum->tokens += t->pass->tokens;
        count_by_length(t->pass, t->task, sum);
        first += part.sequences;
    }
    return KVS_OK;
}

static double ratio(double part, size_t whole)
{
    return whole > 0 ? part / (double)whole : NAN;
}

/* ---- the step ---- */

/* What the optimizer does differently from group to group. */
typedef struct group_rates {
    double lr, decay;
} group_rates;

static group_rates rates_of(const kvs_train_config *c, kvsi_group group, uint64_t step)
{
    const double others = c->decay_all ? c->weight_decay : 0.0;

    switch (group) {
    case KVSI_SHIFTS:
        return (group_rates){kvs_shift_learning_rate(c, step),
                             c->shift_decay > 0 ? c->shift_decay : others};
    case KVSI_GAINS:
        return (group_rates){kvs_learning_rate(c, step), others};
    default:
        return (group_rates){kvs_learning_rate(c, step), c->weight_decay};
    }
}

static void update(kvs_trainer *t, uint64_t step)
{
    const kvs_train_config *c = &t->config;
    kvsi_adamw h = {
        .beta1 = c->beta1,
        .beta2 = c->beta2,
        .eps = c->eps,
        .correction1 = 1.0 - pow(c->beta1, (double)step),
        .correction2 = 1.0 - pow(c->beta2, (double)step),
    };
    kvsi_context *x = &t->pass->context;

    for (int group = (int)t->first_group; group < KVSI_GROUPS; group++) {
        const group_rates rates = rates_of(c, (kvsi_group)group, step);
        const size_t at = t->model->layout.group_start[group];

        h.lr = rates.lr;
        h.decay = rates.decay;
        x->ops->adamw(x, t->model->parameters + at, t->gradients + at, t->mean + at, t->square + at,
                      t->model->layout.group_start[group + 1] - at, &h, t->scale);
    }
    x->ops->sync(x);
}

/* The norm of the mean gradient of what is trained, with the clipping factor left in t->scale. */
static double measure_gradient(kvs_trainer *t, size_t targets)
{
    const double mean = 1.0 / (double)targets;
    const kvsi_layout *layout = &t->model->layout;
    const size_t from = layout->group_start[t->first_group];
    kvsi_context *x = &t->pass->context;
    double sum;

    x->ops->sum_squares(x, t->sum, t->gradients + from, kvsi_layout_total(layout) - from);
    x->ops->clip_scale(x, t->scale, t->sum, mean, t->config.clip);
    x->ops->download(x, &sum, t->sum, sizeof sum);
    x->ops->sync(x);
    return mean * sqrt(sum);
}

static kvs_status add_gradients(kvs_trainer *t, totals *sum, kvs_err *err)
{
    const size_t sequences = t->config.batch / t->config.accumulate;
    const uint64_t first = t->step * t->config.batch;
    kvsi_context *x = &t->pass->context;

    x->ops->zero(x, t->gradients, kvsi_layout_total(&t->model->layout) * sizeof(real));
    for (size_t i = 0; i < t->config.accumulate && isfinite(sum->loss); i++) {
        const uint64_t number = first + i * sequences;
        kvs_status st;

        kvsi_batch_fill(&t->batch, t->task, t->config.seed, KVSI_RANDOM_DATA, number, sequences);
        st = run_batch(t, number, t->gradients, sum, err);
        if (st != KVS_OK)
            return st;
    }
    return KVS_OK;
}

static kvs_status fail_diverged(kvs_trainer *t, uint64_t step, double loss, double norm, double lr,
                                kvs_err *err)
{
    char where[KVSI_WHERE_SIZE];

    kvsi_find_not_finite(where, t->pass, isfinite(loss) ? t->gradients : NULL);
    return kvsi_fail(err, KVS_E_DIVERGED,
                     "step %llu diverged: loss %g, gradient norm %g, first in %s; a lower learning "
                     "rate (now %g) may help",
                     (unsigned long long)step, loss, norm, where, lr);
}

kvs_status kvs_trainer_step(kvs_trainer *trainer, kvs_step_record *record, kvs_err *err)
{
    const uint64_t step = trainer->step + 1;
    const double started = kvsi_clock_seconds(), lr = kvs_learning_rate(&trainer->config, step);
    totals sum = {0};
    double loss, norm;
    const kvs_status st = add_gradients(trainer, &sum, err);

    if (st != KVS_OK)
        return st;
    loss = ratio(sum.loss, sum.targets);
    norm = measure_gradient(trainer, sum.targets);
    if (!isfinite(loss) || !isfinite(norm))
        return fail_diverged(trainer, step, loss, norm, lr, err);
    update(trainer, step);
    trainer->step = step;
    if (record)
        *record = (kvs_step_record){
            .step = step,
            .loss = loss,
            .accuracy = ratio((double)sum.right, sum.scored),
            .lr = lr,
            .grad_norm = norm,
            .eval_loss = NAN,
            .eval_accuracy = NAN,
            .k_shift = {NAN, NAN},
            .v_shift = {NAN, NAN},
            .q_shift = {NAN, NAN},
            .tokens = sum.tokens,
            .seconds = kvsi_clock_seconds() - started,
        };
    return KVS_OK;
}

static kvs_evaluation evaluation_of(const totals *sum, const kvs_task *task)
{
    kvs_evaluation out = {
        .loss = ratio(sum->loss, sum->targets),
        .accuracy = ratio((double)sum->right, sum->scored),
        .buckets = task->buckets,
    };

    for (size_t b = 0; b < task->buckets; b++) {
        out.bucket[b] = task->bucket[b];
        out.bucket[b].scored = sum->bucket_scored[b];
        out.bucket[b].accuracy = ratio((double)sum->bucket_right[b], sum->bucket_scored[b]);
    }
    return out;
}

kvs_status kvs_trainer_evaluate(kvs_trainer *trainer, size_t sequences, kvs_evaluation *out,
                                kvs_err *err)
{
    totals sum = {0};

    for (size_t done = 0; done < sequences && isfinite(sum.loss);) {
        const size_t most = trainer->batch.max_sequences;
        const size_t now = sequences - done < most ? sequences - done : most;
        kvs_status st;

        kvsi_batch_fill(&trainer->batch, trainer->task, trainer->config.seed, KVSI_RANDOM_EVAL,
                        done, now);
        st = run_batch(trainer, done, NULL, &sum, err);
        if (st != KVS_OK)
            return st;
        done += now;
    }
    if (!isfinite(sum.loss)) {
        char where[KVSI_WHERE_SIZE];

        kvsi_find_not_finite(where, trainer->pass, NULL);
        return kvsi_fail(err, KVS_E_DIVERGED,
                         "the model of step %llu has diverged: evaluation loss %g, first in %s; a "
                         "lower learning rate may help",
                         (unsigned long long)trainer->step, sum.loss, where);
    }
    *out = evaluation_of(&sum, trainer->task);
    return KVS_OK;
}

/* ---- checkpoints ---- */

kvsi_training_state kvsi_trainer_state(kvs_trainer *trainer)
{
    return (kvsi_training_state){.model = trainer->model,
                                 .mean = trainer->mean,
                                 .square = trainer->square,
                                 .step = trainer->step};
}

void kvsi_trainer_set_step(kvs_trainer *trainer, uint64_t step)
{
    trainer->step = step;
}
