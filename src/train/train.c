/* A whole run: settings, steps, evaluation, result. */
#include "base/clock.h"
#include "base/files.h"
#include "base/memory.h"
#include "data/task.h"
#include "formats/hf.h"
#include "model/model.h"
#include "train/folder.h"
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

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

/* ---- what a run remembers from one process to the next ---- */

typedef struct run {
    const kvs_train_job *job;
    kvs_trainer *trainer;
    kvsi_folder *folder; /* NULL = nothing is kept */
    char *checkpoints;   /* the folder's ckpt */
    json_t *settings;
    kvs_train_result *result;
    recent accuracy;
    double best_loss;               /* of all evaluations */
    double started, seconds_before; /* before it was resumed */
} run;

static double seconds_so_far(const run *r)
{
    return r->seconds_before + kvsi_clock_seconds() - r->started;
}

static json_t *memory_of(const run *r)
{
    json_t *values = json_array();

    for (size_t i = 0; i < RECENT; i++)
        json_array_append_new(values, kvsi_json_number(r->accuracy.values[i]));
    return json_pack("{s:O, s:I, s:I, s:f, s:o, s:I, s:o}", "settings", r->settings, "tokens",
                     (json_int_t)r->result->tokens, "step_at_99", (json_int_t)r->result->step_at_99,
                     "seconds", seconds_so_far(r), "best_loss", kvsi_json_number(r->best_loss),
                     "recent_count", (json_int_t)r->accuracy.count, "recent", values);
}

static kvs_status remember(run *r, const json_t *memory, const char *what, kvs_err *err)
{
    const json_t *values = json_object_get(memory, "recent");
    size_t tokens = 0, step_at_99 = 0, count = 0;
    kvs_status st;

    KVS_TRY(kvsi_json_get_size(&tokens, memory, "tokens", what, err));
    KVS_TRY(kvsi_json_get_size(&step_at_99, memory, "step_at_99", what, err));
    KVS_TRY(kvsi_json_get_size(&count, memory, "recent_count", what, err));
    KVS_TRY(kvsi_json_get_real(&r->seconds_before, memory, "seconds", what, err));
    if (json_is_number(json_object_get(memory, "best_loss"))) /* null before the first evaluation */
        KVS_TRY(kvsi_json_get_real(&r->best_loss, memory, "best_loss", what, err));
    r->result->tokens = tokens;
    r->result->step_at_99 = step_at_99;
    r->accuracy.count = count;
    for (size_t i = 0; i < RECENT; i++) {
        const json_t *value = json_array_get(values, i);
        r->accuracy.values[i] = json_is_number(value) ? json_number_value(value) : NAN;
    }
out:
    return st;
}

/* ---- checkpoints ---- */

static kvs_status save(run *r, int is_best, kvs_err *err)
{
    kvsi_training_state state = kvsi_trainer_state(r->trainer);
    kvs_status st;

    state.run = memory_of(r);
    st = state.run ? kvsi_checkpoint_write(r->checkpoints, &state, r->job->keep, is_best, err)
                   : kvsi_fail(err, KVS_E_NOMEM, "out of memory for a checkpoint");
    json_decref(state.run);
    return st;
}

/* Settings as a file has them, so that numbers compare as they were written. */
static json_t *as_written(const json_t *settings)
{
    char *text = json_dumps(settings, JSON_REAL_PRECISION(15));
    json_t *copy = text ? json_loads(text, 0, NULL) : NULL;

    free(text);
    return copy;
}

/* A run goes on with the settings it had: model, task and training, but for how long it goes. */
static kvs_status check_settings(const run *r, const json_t *before, const char *what, kvs_err *err)
{
    static const char *const parts[] = {"model", "task", "train"};
    static const char *const free_keys[] = {"steps", "eval_every", "eval_sequences"};
    json_t *now = as_written(r->settings);
    kvs_status st = KVS_OK;

    for (size_t i = 0; st == KVS_OK && i < sizeof parts / sizeof *parts; i++) {
        json_t *ours = json_object_get(now, parts[i]), *theirs = json_object_get(before, parts[i]);
        const char *key;
        json_t *value;

        for (size_t k = 0; k < sizeof free_keys / sizeof *free_keys; k++)
            json_object_del(ours, free_keys[k]);
        json_object_foreach(ours, key, value)
            if (st == KVS_OK && !json_equal(value, json_object_get(theirs, key)))
                st = kvsi_fail(err, KVS_E_INVALID,
                               "'%s' was trained with another %s setting '%s'; give the same "
                               "options to go on",
                               what, parts[i], key);
    }
    json_decref(now);
    return st;
}

static kvs_status go_on_from(run *r, const char *path, kvs_err *err)
{
    kvsi_training_state state = kvsi_trainer_state(r->trainer);
    kvs_status st;

    KVS_TRY(kvsi_checkpoint_read(&state, path, err));
    KVS_TRY(check_settings(r, json_object_get(state.run, "settings"), path, err));
    KVS_TRY(remember(r, state.run, path, err));
    kvsi_trainer_set_step(r->trainer, state.step);
    r->result->steps = state.step;
    KVS_TRY(kvsi_folder_reopen(&r->folder, r->job, state.step, err));
out:
    json_decref(state.run);
    return st;
}

static void tell_skipped(const run *r, size_t skipped, const kvs_err *why, const char *path)
{
    char line[640];

    snprintf(line, sizeof line, "%zu damaged checkpoint%s passed over (%s); going on from '%s'",
             skipped, skipped == 1 ? "" : "s", why->message, path ? path : "the start");
    if (skipped > 0 && r->job->notice)
        r->job->notice(r->job->user, line);
}

/* Was a run begun here that did not live to its first checkpoint? */
static int started_before(const char *dir)
{
    char *log = kvsi_path_join(dir, "train.jsonl"),
         *model = kvsi_path_join(dir, "model.safetensors");
    const int started = log && model && kvsi_file_exists(log) && !kvsi_file_exists(model);

    kvsi_free(log);
    kvsi_free(model);
    return started;
}

/* Opens the run's folder: a new one, or that of a run that goes on. */
static kvs_status open_folder(run *r, kvs_err *err)
{
    const kvs_train_job *job = r->job;
    char *newest = NULL;
    size_t skipped = 0;
    kvs_err why;
    kvs_status st = KVS_OK;

    if (job->resume != KVS_RESUME_NEVER) {
        KVS_TRY(kvsi_checkpoint_newest(&newest, r->checkpoints, &skipped, &why, err));
        tell_skipped(r, skipped, &why, newest);
    }
    if (newest)
        st = go_on_from(r, newest, err);
    else if (job->resume == KVS_RESUME_ALWAYS)
        st = kvsi_fail(err, KVS_E_IO, "'%s' has no whole checkpoint to go on from", job->out);
    else if (job->resume == KVS_RESUME_AUTO && started_before(job->out))
        st = kvsi_folder_reopen(&r->folder, job, 0, err);
    else
        st = kvsi_folder_create(&r->folder, job, r->settings, err);
out:
    kvsi_free(newest);
    return st;
}

/* ---- the run ---- */

/* One step with its evaluation, if one is due, and its record. */
static kvs_status step(run *r, kvs_step_record *record, kvs_err *err)
{
    const kvs_train_job *job = r->job;
    kvs_status st;

    KVS_TRY(kvs_trainer_step(r->trainer, record, err));
    if (job->eval_every > 0 && record->step % job->eval_every == 0) {
        kvs_evaluation now;

        KVS_TRY(kvs_trainer_evaluate(r->trainer, job->eval_sequences, &now, err));
        record->eval_loss = now.loss;
        record->eval_accuracy = now.accuracy;
    }
    if (r->folder)
        KVS_TRY(kvsi_folder_log(r->folder, record, err));
    r->result->steps = record->step;
    r->result->tokens += record->tokens;
    if (recent_mean(&r->accuracy, record->accuracy) >= 0.99 && r->result->step_at_99 == 0)
        r->result->step_at_99 = record->step;
out:
    return st;
}

static kvs_status all_steps(run *r, kvs_err *err)
{
    const kvs_train_job *job = r->job;
    int wish = 0;
    kvs_status st = KVS_OK;

    while (!(wish & KVS_PROGRESS_STOP) && r->result->steps < job->config.steps) {
        const uint64_t every = job->checkpoint_every;
        kvs_step_record record;
        int due, best;

        KVS_TRY(step(r, &record, err));
        best = record.eval_loss < r->best_loss; /* no evaluation is NaN, and no better */
        r->best_loss = best ? record.eval_loss : r->best_loss;
        wish = job->progress ? job->progress(job->user, &record) : 0;
        due = every > 0 && (record.step % every == 0 || record.step == job->config.steps ||
                            (wish & KVS_PROGRESS_STOP) || best);
        if (r->folder && (due || (wish & KVS_PROGRESS_SAVE)))
            KVS_TRY(save(r, best, err));
    }
out:
    return st;
}

static kvs_status prepare(run *r, kvs_err *err)
{
    const kvs_train_job *job = r->job;
    kvs_status st;

    if (job->eval_sequences < 1)
        return kvsi_fail(err, KVS_E_INVALID, "eval sequences is 0, expected at least 1");
    KVS_TRY(kvs_trainer_create(&r->trainer, job->model, job->task, &job->config, err));
    if (!job->out)
        return KVS_OK;
    r->settings = settings_of(job);
    r->checkpoints = kvsi_path_join(job->out, "ckpt");
    if (!r->settings || !r->checkpoints)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for the settings of '%s'", job->out);
    KVS_TRY(open_folder(r, err));
out:
    return st;
}

kvs_status kvs_train(const kvs_train_job *job, kvs_train_result *result, kvs_err *err)
{
    run r = {.job = job, .result = result, .best_loss = INFINITY, .started = kvsi_clock_seconds()};
    kvs_status st;

    *result = (kvs_train_result){0};
    KVS_TRY(prepare(&r, err));
    KVS_TRY(all_steps(&r, err));
    KVS_TRY(kvs_trainer_evaluate(r.trainer, job->eval_sequences, &result->final, err));
    result->seconds = seconds_so_far(&r);
    if (r.folder)
        KVS_TRY(kvsi_folder_finish(r.folder, result, job->model, err));
out:
    kvsi_folder_close(r.folder);
    kvs_trainer_free(r.trainer);
    json_decref(r.settings);
    kvsi_free(r.checkpoints);
    return st;
}
