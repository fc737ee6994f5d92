/* A whole run: settings, steps, evaluation, samples, checkpoints, result.
 *
 * Of several ranks all go through the same steps with the same numbers; the first alone has the
 * folder, and speaks. */
#include "base/clock.h"
#include "base/files.h"
#include "base/memory.h"
#include "model/model.h"
#include "train/folder.h"
#include "train/settings.h"
#include "train/shift_means.h"
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>

enum {
    RECENT = 20,      /* batches whose accuracy is averaged to say when the task was learned */
    SHIFT_EVERY = 50, /* steps between looks at the shift, where no evaluation comes first */
};

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

/* ---- what a run remembers from one process to the next ---- */

typedef struct run {
    const kvs_train_job *job;
    kvs_comm *comm;
    int is_first; /* of the ranks */
    kvs_trainer *trainer;
    kvsi_folder *folder; /* NULL = nothing is kept, or the first rank does */
    char *checkpoints;   /* the folder's ckpt */
    json_t *settings;
    kvs_train_result *result;
    recent accuracy;
    double best_loss;               /* of all evaluations */
    int unproven;                   /* the newest checkpoint has not been trained on yet */
    double started, seconds_before; /* before it was resumed */
    int *wishes;                    /* [ranks] */
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

    TRY(kvsi_json_get_size(&tokens, memory, "tokens", what, err));
    TRY(kvsi_json_get_size(&step_at_99, memory, "step_at_99", what, err));
    TRY(kvsi_json_get_size(&count, memory, "recent_count", what, err));
    TRY(kvsi_json_get_real(&r->seconds_before, memory, "seconds", what, err));
    if (json_is_number(json_object_get(memory, "best_loss"))) /* null before the first evaluation */
        TRY(kvsi_json_get_real(&r->best_loss, memory, "best_loss", what, err));
    r->result->tokens = tokens;
    r->result->step_at_99 = step_at_99;
    r->accuracy.count = count;
    for (size_t i = 0; i < RECENT; i++) {
        const json_t *value = json_array_get(values, i);
        r->accuracy.values[i] = json_is_number(value) ? json_number_value(value) : NAN;
    }
    return KVS_OK;
}

/* ---- checkpoints ---- */

static kvs_status save(run *r, int is_best, kvs_err *err)
{
    kvsi_training_state state = kvsi_trainer_state(r->trainer);
    kvs_status st;

    state.run = memory_of(r);
    state.tokenizer = r->job->tokenizer;
    TRY_OUT(kvsi_trainer_wait(r->trainer, err));
    st = state.run ? kvsi_checkpoint_write(r->checkpoints, &state, is_best, err)
                   : kvsi_fail(err, KVS_E_NOMEM, "out of memory for a checkpoint");
    r->unproven = 1;
out:
    json_decref(state.run);
    return st;
}

/* Older checkpoints go only now that the weights of the newest have shown that they can go on: of a
 * run that diverges, one from before is always left. */
static kvs_status prune(run *r, kvs_err *err)
{
    if (!r->unproven || !r->is_first)
        return KVS_OK;
    r->unproven = 0;
    return kvsi_checkpoint_prune(r->checkpoints, r->job->keep, err);
}

static void notice(const run *r, const char *line)
{
    if (r->job->notice && r->is_first)
        r->job->notice(r->job->user, line);
}

/* Says from where a run that diverged can be tried again: the weights that led there are no use. */
static void tell_last_good(const run *r)
{
    char *path = r->folder ? kvsi_checkpoint_before(r->checkpoints, r->result->steps) : NULL;
    char line[640];

    if (!path)
        return;
    snprintf(line, sizeof line, "the last good checkpoint is '%s'", path);
    notice(r, line);
    kvsi_free(path);
}

/* Compares settings before any tensor is read: a difference in settings is the clearer message. */
static kvs_status check_settings(const run *r, const char *path, kvs_err *err)
{
    json_t *before = NULL;
    kvs_status st;

    TRY_OUT(kvsi_checkpoint_read_run(&before, path, err));
    TRY_OUT(kvsi_run_settings_check(r->settings, json_object_get(before, "settings"), path, err));
out:
    json_decref(before);
    return st;
}

/* From the checkpoint of which the first rank has the path. */
static kvs_status go_on_from(run *r, const char *path, kvs_err *err)
{
    const char *what = path ? path : r->job->out;
    kvsi_training_state state = kvsi_trainer_state(r->trainer);
    kvs_status st = path ? check_settings(r, path, err) : KVS_OK;

    TRY_OUT(kvs_comm_agree(r->comm, st, err));
    TRY_OUT(kvsi_checkpoint_read(&state, path, err));
    TRY_OUT(remember(r, state.run, what, err));
    kvsi_trainer_set_step(r->trainer, state.step);
    r->result->steps = state.step;
    r->unproven = 1;
out:
    json_decref(state.run);
    return st;
}

static void tell_skipped(const run *r, size_t skipped, const kvs_err *why, const char *path)
{
    char line[sizeof why->message + 512];

    if (skipped == 0)
        return;
    snprintf(line, sizeof line, "%zu damaged checkpoint%s passed over (%s); going on from '%s'",
             skipped, skipped == 1 ? "" : "s", why->message, path ? path : "the start");
    notice(r, line);
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

/* The newest checkpoint that a run may go on from, NULL if there is none. */
static kvs_status find_newest(const run *r, char **newest, kvs_err *err)
{
    const kvs_train_job *job = r->job;
    size_t skipped = 0;
    kvs_err why = {0};

    if (job->resume == KVS_RESUME_NEVER)
        return KVS_OK;
    TRY(kvsi_checkpoint_newest(newest, r->checkpoints, &skipped, &why, err));
    tell_skipped(r, skipped, &why, *newest);
    if (!*newest && job->resume == KVS_RESUME_ALWAYS)
        return kvsi_fail(err, KVS_E_IO, "'%s' has no whole checkpoint to go on from", job->out);
    return KVS_OK;
}

/* A new folder, or that of a run that goes on. */
static kvs_status open_files(run *r, int goes_on, kvs_err *err)
{
    const kvs_train_job *job = r->job;

    if (goes_on || (job->resume == KVS_RESUME_AUTO && started_before(job->out)))
        return kvsi_folder_reopen(&r->folder, job, r->settings, r->result->steps, err);
    return kvsi_folder_create(&r->folder, job, r->settings, err);
}

/* Opens the run's folder, on the first rank, and goes on from its newest checkpoint, on all. */
static kvs_status open_folder(run *r, kvs_err *err)
{
    char *newest = NULL;
    int goes_on = 0;
    kvs_status st = r->is_first ? find_newest(r, &newest, err) : KVS_OK;

    TRY_OUT(kvs_comm_agree(r->comm, st, err));
    goes_on = newest != NULL;
    TRY_OUT(kvsi_comm_broadcast(r->comm, &goes_on, sizeof goes_on, 0, err));
    if (goes_on)
        TRY_OUT(go_on_from(r, newest, err));
    st = r->is_first ? open_files(r, goes_on, err) : KVS_OK;
    st = kvs_comm_agree(r->comm, st, err);
out:
    kvsi_free(newest);
    return st;
}

/* ---- the run ---- */

/* Fills in what the shift has become. */
static kvs_status look_at_shift(const run *r, kvs_step_record *record, kvs_err *err)
{
    const kvs_model *m = r->job->model;
    kvs_status st = KVS_OK;

    for (size_t i = 0; st == KVS_OK && i < KVSI_SHIFT_TARGETS; i++) {
        const unsigned target = kvsi_shift_targets[i].target;

        st = kvsi_shift_mean_of(kvsi_record_shift(record, target), m, target, 0, m->config.layers,
                                err);
    }
    return st;
}

/* One step with its evaluation, if one is due, and its record. */
static kvs_status step(run *r, kvs_step_record *record, kvs_err *err)
{
    const kvs_train_job *job = r->job;
    int evaluates, looks;

    TRY(kvs_trainer_step(r->trainer, record, err));
    TRY(prune(r, err));
    r->result->steps = record->step;
    r->result->tokens += record->tokens;
    evaluates = job->eval_every > 0 && record->step % job->eval_every == 0;
    looks = evaluates || record->step == 1 || record->step % SHIFT_EVERY == 0;
    if (evaluates) {
        kvs_evaluation now;

        TRY(kvs_trainer_evaluate(r->trainer, job->eval_sequences, &now, err));
        record->eval_loss = now.loss;
        record->eval_accuracy = now.accuracy;
    }
    if (looks)
        TRY(look_at_shift(r, record, err)); /* every rank has all of the shift's numbers */
    if (r->folder)
        TRY(kvsi_folder_log(r->folder, record, looks ? job->model : NULL, err));
    if (recent_mean(&r->accuracy, record->accuracy) >= 0.99 && r->result->step_at_99 == 0)
        r->result->step_at_99 = record->step;
    return KVS_OK;
}

static kvs_status sample(const run *r, uint64_t step, kvs_err *err)
{
    const kvs_train_job *job = r->job;
    kvs_sample made = {0};
    kvs_status st;

    if (!job->sample || job->sample_every == 0 || step % job->sample_every != 0)
        return KVS_OK;
    st = kvsi_trainer_wait(r->trainer, err);
    if (st != KVS_OK || !r->is_first)
        return st;
    job->sample(job->user, job->model, step, &made);
    return made.text && r->folder ? kvsi_folder_log_sample(r->folder, step, &made, err) : KVS_OK;
}

/* What the callback of any rank wishes, all do. */
static kvs_status ask(const run *r, const kvs_step_record *record, int *wish, kvs_err *err)
{
    const kvs_train_job *job = r->job;
    const int own = job->progress ? job->progress(job->user, record) : 0;

    TRY(kvsi_comm_all_gather(r->comm, r->wishes, &own, sizeof own, err));
    *wish = 0;
    for (size_t i = 0; i < r->comm->size; i++)
        *wish |= r->wishes[i];
    return KVS_OK;
}

static kvs_status all_steps(run *r, kvs_err *err)
{
    const kvs_train_job *job = r->job;
    int wish = 0;

    while (!(wish & KVS_PROGRESS_STOP) && r->result->steps < job->config.steps) {
        const uint64_t every = job->checkpoint_every;
        kvs_step_record record;
        int due, best;

        TRY(step(r, &record, err));
        best = record.eval_loss < r->best_loss; /* no evaluation is NaN, and no better */
        r->best_loss = best ? record.eval_loss : r->best_loss;
        TRY(ask(r, &record, &wish, err));
        TRY(sample(r, record.step, err));
        due = every > 0 && (record.step % every == 0 || record.step == job->config.steps || best);
        if (job->out && (due || wish)) /* to stop is to save */
            TRY(save(r, best, err));
    }
    return KVS_OK;
}

static kvs_status make_ready(run *r, kvs_err *err)
{
    const kvs_train_job *job = r->job;
    kvs_status st = kvsi_trainer_check_evaluation(job->eval_sequences, err);

    if (st != KVS_OK)
        return st;
    if (job->model->shards && job->sample && job->sample_every > 0)
        return kvsi_fail(err, KVS_E_UNSUPPORTED,
                         "no rank has all weights to make samples with: shard is parameters");
    TRY_OUT(kvs_trainer_create(&r->trainer, job->model, job->task, &job->config, err));
    kvsi_trainer_set_async_gather(r->trainer);
    r->settings = kvsi_run_settings(job);
    r->checkpoints = kvsi_path_join(job->out ? job->out : "", "ckpt");
    r->wishes = kvsi_alloc(r->comm->size, sizeof *r->wishes);
    if (!r->settings || !r->checkpoints || !r->wishes)
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for the settings of a run");
out:
    return st;
}

static kvs_status prepare(run *r, kvs_err *err)
{
    kvs_status st = make_ready(r, err);

    TRY_OUT(kvs_comm_agree(r->comm, st, err));
    TRY_OUT(kvsi_run_settings_agree(r->job, r->settings, err));
    if (r->job->out)
        TRY_OUT(open_folder(r, err));
out:
    return st;
}

/* The last evaluation, and what is left of the run. */
static kvs_status finish(run *r, kvs_err *err)
{
    const kvs_train_job *job = r->job;

    TRY(kvs_trainer_evaluate(r->trainer, job->eval_sequences, &r->result->final, err));
    TRY(kvsi_trainer_wait(r->trainer, err));
    r->result->seconds = seconds_so_far(r);
    if (r->folder)
        TRY(kvsi_folder_finish(r->folder, r->result, job->model, job->tokenizer, err));
    else if (job->out && job->model->shards)
        TRY(kvs_model_save(job->model, job->out, err)); /* which the first rank writes */
    return prune(r, err);
}

kvs_status kvs_train(const kvs_train_job *job, kvs_train_result *result, kvs_err *err)
{
    run r = {.job = job,
             .comm = job->model->comm,
             .is_first = job->model->comm->rank == 0,
             .result = result,
             .best_loss = INFINITY,
             .started = kvsi_clock_seconds()};
    kvs_status st;

    *result = (kvs_train_result){0};
    TRY_OUT(prepare(&r, err));
    TRY_OUT(all_steps(&r, err));
    TRY_OUT(finish(&r, err));
out:
    if (st == KVS_E_DIVERGED)
        tell_last_good(&r);
    kvsi_folder_close(r.folder);
    kvs_trainer_free(r.trainer);
    json_decref(r.settings);
    kvsi_free(r.checkpoints);
    kvsi_free(r.wishes);
    return st;
}
