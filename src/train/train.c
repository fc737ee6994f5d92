/* A whole run: settings, steps, evaluation, result. */
#include "base/clock.h"
#include "data/task.h"
#include "formats/hf.h"
#include "model/model.h"
#include "train/folder.h"

#include <math.h>

enum { RECENT = 20 }; /* batches whose accuracy is averaged to say when the task was learned */

/* Mean accuracy of the last RECENT batches. */
typedef struct recent {
    double values[RECENT];
    size_t count;
} recent;

static double recent_mean(recent *r, double value)
{
    double sum = 0;

    r->values[r->count++ % RECENT] = value;
    for (size_t i = 0; i < RECENT; i++)
        sum += r->values[i];
    return r->count < RECENT ? NAN : sum / RECENT;
}

/* ---- settings ---- */

static json_t *train_settings(const kvs_train_job *job)
{
    const kvs_train_config *c = &job->config;

    return json_pack(
        "{s:I, s:I, s:I, s:I, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:b, s:b, s:b, s:b, s:f, s:I, "
        "s:I, s:I}",
        "steps", (json_int_t)c->steps, "batch", (json_int_t)c->batch, "accumulate",
        (json_int_t)c->accumulate, "warmup", (json_int_t)c->warmup, "schedule",
        kvs_schedule_name(c->schedule), "lr", c->lr, "lr_floor", c->lr_floor, "beta1", c->beta1,
        "beta2", c->beta2, "eps", c->eps, "weight_decay", c->weight_decay, "shift_decay",
        c->shift_decay, "decay_all", c->decay_all, "only_shift", c->only_shift, "eval_dropout",
        c->eval_dropout, "clip", c->clip, "seed", (json_int_t)c->seed, "eval_every",
        (json_int_t)job->eval_every, "eval_sequences", (json_int_t)job->eval_sequences);
}

static json_t *settings_of(const kvs_train_job *job)
{
    const kvs_model *m = job->model;

    return json_pack("{s:s, s:s?, s:o, s:I, s:o, s:o, s:i, s:s}", "kvshift", kvs_build()->version,
                     "command", job->command, "model", kvsi_hf_config_to_json(&m->config),
                     "parameters", (json_int_t)kvs_model_parameters(m), "task",
                     job->task->ops->describe(job->task), "train", train_settings(job), "threads",
                     m->context.threads, "cpu_level", m->context.ops->name);
}

static kvs_status open_run(kvsi_folder **out, const kvs_train_job *job, kvs_err *err)
{
    json_t *settings;
    kvs_status st;

    if (!job->out)
        return KVS_OK;
    settings = settings_of(job);
    if (!settings)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for the settings of '%s'", job->out);
    st = kvsi_folder_create(out, job->out, settings, err);
    json_decref(settings);
    return st;
}

/* ---- the run ---- */

/* One step with its evaluation, if one is due, and its record. */
static kvs_status step(kvs_trainer *trainer, const kvs_train_job *job, kvsi_folder *folder,
                       kvs_step_record *record, kvs_err *err)
{
    kvs_status st;

    KVS_TRY(kvs_trainer_step(trainer, record, err));
    if (job->eval_every > 0 && record->step % job->eval_every == 0) {
        kvs_evaluation now;

        KVS_TRY(kvs_trainer_evaluate(trainer, job->eval_sequences, &now, err));
        record->eval_loss = now.loss;
        record->eval_accuracy = now.accuracy;
    }
    if (folder)
        KVS_TRY(kvsi_folder_log(folder, record, err));
out:
    return st;
}

static kvs_status all_steps(kvs_trainer *trainer, const kvs_train_job *job, kvsi_folder *folder,
                            kvs_train_result *result, kvs_err *err)
{
    recent accuracy = {.count = 0};
    int stop = 0;

    while (!stop && result->steps < job->config.steps) {
        kvs_step_record record;
        const kvs_status st = step(trainer, job, folder, &record, err);

        if (st != KVS_OK)
            return st;
        result->steps = record.step;
        result->tokens += record.tokens;
        if (recent_mean(&accuracy, record.accuracy) >= 0.99 && result->step_at_99 == 0)
            result->step_at_99 = record.step;
        stop = job->progress && job->progress(job->user, &record);
    }
    return KVS_OK;
}

kvs_status kvs_train(const kvs_train_job *job, kvs_train_result *result, kvs_err *err)
{
    const double started = kvsi_clock_seconds();
    kvs_status st;
    kvs_trainer *trainer = NULL;
    kvsi_folder *folder = NULL;

    *result = (kvs_train_result){0};
    if (job->eval_sequences < 1)
        return kvsi_fail(err, KVS_E_INVALID, "eval sequences is 0, expected at least 1");
    KVS_TRY(kvs_trainer_create(&trainer, job->model, job->task, &job->config, err));
    KVS_TRY(open_run(&folder, job, err));
    KVS_TRY(all_steps(trainer, job, folder, result, err));
    KVS_TRY(kvs_trainer_evaluate(trainer, job->eval_sequences, &result->final, err));
    result->seconds = kvsi_clock_seconds() - started;
    if (folder)
        KVS_TRY(kvsi_folder_finish(folder, result, job->model, err));
out:
    kvsi_folder_close(folder);
    kvs_trainer_free(trainer);
    return st;
}
