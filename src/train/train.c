/* kvs_train: a run from its settings to its result.
 *
 *     prepare    trainer, settings, run folder, checkpoint to resume from
 *     each step  train, evaluate, log, score benchmarks, report progress, sample, save a checkpoint
 *     finish     final evaluation, model, result
 *
 * All ranks go through the same steps with the same weights.  Only rank 0 has the run folder and
 * calls `sample`, `benchmark` and `notice`. */
#include "base/clock.h"
#include "base/memory.h"
#include "base/sized.h"
#include "data/data.h"
#include "model/model.h"
#include "run/checkpoint_files.h"
#include "run/progress.h"
#include "run/run.h"
#include "train/settings.h"
#include "train/shift_means.h"
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>

enum { SHIFT_EVERY = 50 }; /* steps between records of the shift means, besides evaluations */

typedef struct run {
    const kvsi_train_job *job;
    kvs_comm *comm;
    int is_first; /* rank 0 */
    kvs_trainer *trainer;
    kvsi_run_writer *folder; /* NULL without job->out, and on other ranks */
    char *ckpt_dir;
    json_t *settings;
    kvs_train_result *result;
    kvsi_run_progress progress; /* seconds: before this process */
    double started;             /* clock seconds */
    int unproven;               /* no step has been made from the newest checkpoint yet */
    int *requests;              /* [ranks] what `progress` returned on each */
    kvsi_shift_means *layers;   /* [model layers] */
} run;

static void notice(const run *r, const char *line)
{
    if (r->job->notice && r->is_first)
        r->job->notice(r->job->user, line);
}

/* ---- prepare --------------------------------------------------------------------------------- */

static kvs_status create_trainer(run *r, kvs_err *err)
{
    const kvsi_train_job *job = r->job;

    TRY(kvsi_trainer_check_evaluation(job->config.eval_sequences, err));
    if (job->model->shards && job->sample && job->config.sample_every > 0)
        return kvsi_fail(err, KVS_E_UNSUPPORTED,
                         "cannot make samples with shard parameters: no rank has all weights");
    if (job->model->shards && job->benchmark && job->config.eval_tasks_every > 0)
        return kvsi_fail(err, KVS_E_UNSUPPORTED,
                         "cannot score benchmarks with shard parameters: no rank has all weights");
    if (job->data->no_evaluation && job->config.eval_every > 0)
        return kvsi_fail(err, KVS_E_INVALID,
                         "eval-every is %llu, but the data has nothing to evaluate",
                         (unsigned long long)job->config.eval_every);
    if ((job->config.patience > 0 || job->config.save_best) && job->config.eval_every == 0)
        return kvsi_fail(err, KVS_E_INVALID, "%s needs evaluations, but eval-every is 0",
                         job->config.save_best ? "save-best" : "patience");
    if (job->config.save_best && !job->out)
        return kvsi_fail(err, KVS_E_INVALID, "save-best needs a run folder, but out is NULL");
    TRY(kvs_trainer_create(&r->trainer, job->model, job->data, &job->config, err));
    kvsi_trainer_set_async_gather(r->trainer);
    r->settings = kvsi_run_settings(job);
    r->requests = kvsi_alloc(r->comm->size, sizeof *r->requests);
    r->layers = kvsi_alloc(job->model->config.layers, sizeof *r->layers);
    if (!r->settings || !r->requests || !r->layers)
        return kvsi_no_memory(err, "the settings of a run");
    return kvsi_run_path(&r->ckpt_dir, job->out ? job->out : "", KVSI_RUN_CHECKPOINTS, err);
}

/* Finds the newest complete checkpoint, in new memory; NULL = start at step 1. */
static kvs_status find_checkpoint(const run *r, char **path, kvs_err *err)
{
    const kvsi_train_job *job = r->job;
    size_t skipped = 0;
    kvs_err why = {0};

    if (job->resume == KVS_RESUME_NEVER)
        return KVS_OK;
    TRY(kvsi_checkpoint_newest(path, r->ckpt_dir, &skipped, &why, err));
    if (skipped > 0) {
        char line[sizeof why.message + 512];

        snprintf(line, sizeof line, "%zu damaged checkpoint%s skipped (%s); continuing from '%s'",
                 skipped, skipped == 1 ? "" : "s", why.message, *path ? *path : "the start");
        notice(r, line);
    }
    if (!*path && job->resume == KVS_RESUME_ALWAYS)
        return kvsi_fail(err, KVS_E_IO, "'%s' has no complete checkpoint to continue from",
                         job->out);
    return KVS_OK;
}

/* Collective; rank 0 has the path, other ranks NULL. */
static kvs_status resume_from(run *r, const char *path, kvs_err *err)
{
    const char *what = path ? path : r->job->out;
    kvsi_training_state state = kvsi_trainer_state(r->trainer);
    /* Settings are compared before any tensor is read, because their message is clearer. */
    kvs_status st = path ? kvsi_run_settings_check_checkpoint(r->settings, path, err) : KVS_OK;

    TRY_OUT(kvs_comm_agree(r->comm, st, err));
    TRY_OUT(kvsi_checkpoint_read(&state, path, err));
    TRY_OUT(kvsi_progress_from_json(&r->progress, state.run, what, err));
    kvsi_trainer_set_step(r->trainer, state.step);
    r->result->steps = state.step;
    r->unproven = 1;
out:
    json_decref(state.run);
    return st;
}

static kvs_status open_folder(run *r, int resumes, kvs_err *err)
{
    const kvsi_train_job *job = r->job;
    /* A run that was killed before its first checkpoint. */
    const int begun = job->resume == KVS_RESUME_AUTO && kvsi_run_has(job->out, KVSI_RUN_LOG) &&
                      !kvsi_run_has(job->out, KVSI_RUN_MODEL);

    return resumes || begun ? kvsi_run_continue(&r->folder, job, r->settings, r->result->steps, err)
                            : kvsi_run_create(&r->folder, job, r->settings, err);
}

static kvs_status prepare(run *r, kvs_err *err)
{
    char *checkpoint = NULL;
    int resumes = 0;
    kvs_status st = create_trainer(r, err);

    TRY_OUT(kvs_comm_agree(r->comm, st, err));
    TRY_OUT(kvsi_run_settings_agree(r->job, r->settings, err));
    if (!r->job->out)
        goto out;
    st = r->is_first ? find_checkpoint(r, &checkpoint, err) : KVS_OK;
    TRY_OUT(kvs_comm_agree(r->comm, st, err));
    resumes = checkpoint != NULL;
    TRY_OUT(kvsi_comm_broadcast(r->comm, &resumes, sizeof resumes, 0, err));
    if (resumes)
        TRY_OUT(resume_from(r, checkpoint, err));
    st = r->is_first ? open_folder(r, resumes, err) : KVS_OK;
    TRY_OUT(kvs_comm_agree(r->comm, st, err));
out:
    kvsi_free(checkpoint);
    return st;
}

/* ---- each step ------------------------------------------------------------------------------- */

/* Removes old checkpoints only after a step or an evaluation from the newest one has succeeded: if
 * the run diverges, an earlier checkpoint is always left. */
static kvs_status prune(run *r, kvs_err *err)
{
    if (!r->unproven || !r->is_first)
        return KVS_OK;
    r->unproven = 0;
    return kvsi_checkpoint_prune(r->ckpt_dir, r->job->config.keep, r->result->steps, err);
}

static kvs_status step(run *r, kvs_step_record *record, kvs_err *err)
{
    TRY(kvsi_trainer_step(r->trainer, record, err));
    r->result->steps = record->step;
    r->progress.tokens += record->tokens;
    if (kvsi_progress_add_accuracy(&r->progress, record->accuracy) >= 0.99 &&
        r->progress.step_at_99 == 0)
        r->progress.step_at_99 = record->step;
    return prune(r, err);
}

static kvs_status evaluate(run *r, kvs_step_record *record, kvs_err *err)
{
    const kvsi_train_job *job = r->job;
    kvs_evaluation now = {.size = sizeof(kvs_evaluation)};

    if (job->config.eval_every == 0 || record->step % job->config.eval_every != 0)
        return KVS_OK;
    TRY(kvs_trainer_evaluate(&now, r->trainer, job->config.eval_sequences, err));
    record->eval_loss = now.loss;
    record->eval_accuracy = now.accuracy;
    return KVS_OK;
}

static kvs_status log_step(run *r, kvs_step_record *record, kvs_err *err)
{
    const kvs_model *model = r->job->model;
    const size_t layers = model->config.layers;
    const int has_shift =
        !isnan(record->eval_loss) || record->step == 1 || record->step % SHIFT_EVERY == 0;
    kvsi_shift_means means;

    if (has_shift) { /* every rank has all parameters of the shift */
        TRY(kvsi_shift_means_of(&means, model, 0, layers, err));
        record->k_shift = means.k;
        record->v_shift = means.v;
        record->q_shift = means.q;
    }
    if (!r->folder)
        return KVS_OK;
    for (size_t l = 0; has_shift && l < layers; l++)
        TRY(kvsi_shift_means_of(&r->layers[l], model, l, l + 1, err));
    return kvsi_run_log_step(r->folder, record, has_shift ? r->layers : NULL, layers, err);
}

/* The same on all ranks, also if only some have the callback. */
static int is_benchmark_due(const run *r, uint64_t step)
{
    const uint64_t every = r->job->config.eval_tasks_every;

    return every > 0 && step > 0 && step % every == 0;
}

static kvs_status score_benchmarks(const run *r, uint64_t step, int *request, kvs_err *err)
{
    const kvsi_train_job *job = r->job;
    kvs_benchmark_scores made = {0};

    if (!job->benchmark)
        return KVS_OK;
    *request |= job->benchmark(job->user, job->model, step, &made);
    return made.count > 0 && r->folder ? kvsi_run_log_benchmarks(r->folder, step, &made, err)
                                       : KVS_OK;
}

/* Rank 0 scores; the other ranks wait for it in report_progress. */
static kvs_status benchmark(const run *r, uint64_t step, int *request, kvs_err *err)
{
    if (!is_benchmark_due(r, step))
        return KVS_OK;
    TRY(kvsi_trainer_wait(r->trainer, err));
    return r->is_first ? score_benchmarks(r, step, request, err) : KVS_OK;
}

/* What one rank requests, all do: *request is the union of the ranks' requests. */
static kvs_status share_request(const run *r, int *request, kvs_err *err)
{
    const int own = *request;

    TRY(kvsi_comm_all_gather(r->comm, r->requests, &own, sizeof own, err));
    for (size_t i = 0; i < r->comm->size; i++)
        *request |= r->requests[i];
    return KVS_OK;
}

/* A run that was stopped while it scored has a checkpoint of that step, but no scores.  If it is
 * stopped again, it must not go on to another step: the scores would be missing for good. */
static kvs_status benchmark_resumed(const run *r, int *request, kvs_err *err)
{
    const uint64_t step = r->result->steps;

    if (!is_benchmark_due(r, step))
        return KVS_OK;
    if (r->folder && kvsi_run_last_benchmarks(r->folder) < step)
        TRY(score_benchmarks(r, step, request, err));
    return share_request(r, request, err);
}

/* Calls `progress` on every rank. */
static kvs_status report_progress(const run *r, const kvs_step_record *record, int *request,
                                  kvs_err *err)
{
    const kvsi_train_job *job = r->job;

    if (job->progress)
        *request |= job->progress(job->user, record);
    return share_request(r, request, err);
}

static kvs_status sample(const run *r, uint64_t step, kvs_err *err)
{
    const kvsi_train_job *job = r->job;
    kvs_sample made = {0};

    if (!job->sample || job->config.sample_every == 0 || step % job->config.sample_every != 0)
        return KVS_OK;
    TRY(kvsi_trainer_wait(r->trainer, err));
    if (!r->is_first)
        return KVS_OK;
    job->sample(job->user, job->model, step, &made);
    return made.text && r->folder ? kvsi_run_log_sample(r->folder, step, &made, err) : KVS_OK;
}

static double seconds_so_far(const run *r)
{
    return r->progress.seconds + kvsi_clock_seconds() - r->started;
}

/* Counts the evaluations since the best one.  Returns whether the step has a new best one. */
static int note_evaluation(run *r, const kvs_step_record *record)
{
    const int is_best = record->eval_loss < r->progress.best_loss; /* NaN without an evaluation */

    if (is_best)
        r->progress.best_loss = record->eval_loss;
    if (!isnan(record->eval_loss))
        r->progress.stale = is_best ? 0 : r->progress.stale + 1;
    return is_best;
}

/* Whether the step had one evaluation too many without a lower loss. */
static int is_out_of_patience(const run *r, const kvs_step_record *record)
{
    const uint64_t patience = r->job->config.patience;
    char line[160];

    if (patience == 0 || isnan(record->eval_loss) || r->progress.stale < patience)
        return 0;
    snprintf(line, sizeof line, "ended after step %llu: %llu evaluations without a loss below %.4f",
             (unsigned long long)record->step, (unsigned long long)r->progress.stale,
             r->progress.best_loss);
    notice(r, line);
    return 1;
}

/* Saves a checkpoint if one is due or requested; also when the run is to stop. */
static kvs_status save(run *r, const kvs_step_record *record, int is_best, int request,
                       kvs_err *err)
{
    const kvsi_train_job *job = r->job;
    const uint64_t every = job->config.checkpoint_every, step = record->step;
    const int is_due = (is_best && job->config.save_best) ||
                       (every > 0 && (step % every == 0 || step == job->config.steps || is_best));
    kvsi_training_state state = kvsi_trainer_state(r->trainer);
    kvsi_run_progress progress;
    kvs_status st;

    if (!job->out || (!is_due && !request))
        return KVS_OK;
    progress = r->progress;
    progress.seconds = seconds_so_far(r);
    state.run = kvsi_progress_to_json(&progress, r->settings);
    state.tokenizer = job->tokenizer;
    TRY_OUT(kvsi_trainer_wait(r->trainer, err));
    st = state.run ? kvsi_checkpoint_write(r->ckpt_dir, &state, is_best, err)
                   : kvsi_no_memory(err, "a checkpoint");
    r->unproven = 1;
out:
    json_decref(state.run);
    return st;
}

/* ---- finish ---------------------------------------------------------------------------------- */

/* Replaces the weights by those of ckpt/best, if there are any.  Collective; rank 0 has the
 * folder. */
static kvs_status take_best(run *r, kvs_err *err)
{
    kvsi_training_state state = kvsi_trainer_state(r->trainer);
    char *path = NULL, line[160];
    kvs_status st = KVS_OK;

    if (!r->job->config.save_best || !(r->progress.best_loss < INFINITY))
        return KVS_OK;
    TRY_OUT(kvsi_trainer_wait(r->trainer, err));
    if (r->is_first)
        st = kvsi_run_path(&path, r->ckpt_dir, KVSI_CHECKPOINT_BEST, err);
    TRY_OUT(kvs_comm_agree(r->comm, st, err));
    TRY_OUT(kvsi_checkpoint_read(&state, path, err));
    if (state.step != r->result->steps) {
        kvsi_trainer_set_step(r->trainer, state.step);
        snprintf(line, sizeof line, "the model is that of step %llu, with the lowest loss",
                 (unsigned long long)state.step);
        notice(r, line);
    }
out:
    json_decref(state.run);
    kvsi_free(path);
    return st;
}

static kvs_status finish(run *r, kvs_err *err)
{
    const kvsi_train_job *job = r->job;
    kvs_train_result *result = r->result;

    TRY(take_best(r, err));
    if (job->data->no_evaluation)
        result->final.loss = result->final.accuracy = NAN;
    else
        TRY(kvs_trainer_evaluate(&result->final, r->trainer, job->config.eval_sequences, err));
    TRY(kvsi_trainer_wait(r->trainer, err));
    result->seconds = seconds_so_far(r);
    result->tokens = r->progress.tokens;
    result->step_at_99 = r->progress.step_at_99;
    if (r->folder)
        TRY(kvsi_run_finish(r->folder, result, job->model, job->tokenizer, err));
    else if (job->out && job->model->shards)
        TRY(kvs_model_save(job->model, job->out, err)); /* sends this rank's part to rank 0 */
    return prune(r, err);
}

/* The weights that led to divergence are useless: names the checkpoint before them. */
static void report_last_good(const run *r)
{
    char *path = r->folder ? kvsi_checkpoint_before(r->ckpt_dir, r->result->steps) : NULL;
    char line[640];

    if (!path)
        return;
    snprintf(line, sizeof line, "the last good checkpoint is '%s'", path);
    notice(r, line);
    kvsi_free(path);
}

kvs_status kvsi_train(const kvsi_train_job *job, kvs_train_result *result, kvs_err *err)
{
    run r = {.job = job,
             .comm = job->model->comm,
             .is_first = job->model->comm->rank == 0,
             .result = result,
             .progress = {.best_loss = INFINITY},
             .started = kvsi_clock_seconds()};
    int request = 0;
    kvs_status st;

    *result = (kvs_train_result){.size = sizeof *result, .final = {.size = sizeof result->final}};
    TRY_OUT(prepare(&r, err));
    TRY_OUT(benchmark_resumed(&r, &request, err));
    while (!(request & KVS_PROGRESS_STOP) && result->steps < job->config.steps) {
        kvs_step_record record;
        int is_best;

        request = 0;
        TRY_OUT(step(&r, &record, err));
        TRY_OUT(evaluate(&r, &record, err));
        TRY_OUT(log_step(&r, &record, err));
        TRY_OUT(benchmark(&r, record.step, &request, err));
        TRY_OUT(report_progress(&r, &record, &request, err));
        TRY_OUT(sample(&r, record.step, err));
        is_best = note_evaluation(&r, &record);
        if (is_out_of_patience(&r, &record))
            request |= KVS_PROGRESS_STOP;
        TRY_OUT(save(&r, &record, is_best, request, err));
    }
    TRY_OUT(finish(&r, err));
out:
    if (st == KVS_E_DIVERGED)
        report_last_good(&r);
    kvsi_run_writer_free(r.folder);
    kvs_trainer_free(r.trainer);
    json_decref(r.settings);
    kvsi_free(r.ckpt_dir);
    kvsi_free(r.requests);
    kvsi_free(r.layers);
    return st;
}

void kvs_train_options_init(kvs_train_options *options, size_t size)
{
    const kvs_train_options defaults = {.size = sizeof defaults};

    kvsi_sized_init(options, size, &defaults, sizeof defaults);
}

static kvs_status check_options(const kvs_train_options *o, kvs_err *err)
{
    if ((int)o->resume < KVS_RESUME_NEVER || (int)o->resume > KVS_RESUME_AUTO)
        return kvsi_fail(err, KVS_E_INVALID, "resume is %d, expected %d to %d", (int)o->resume,
                         (int)KVS_RESUME_NEVER, (int)KVS_RESUME_AUTO);
    if (o->resume == KVS_RESUME_ALWAYS && !o->out)
        return kvsi_fail(err, KVS_E_INVALID, "resume needs a run folder, but out is NULL");
    if (o->file_count > 0 && !o->files)
        return kvsi_fail(err, KVS_E_INVALID, "files is NULL, but file_count is %zu", o->file_count);
    for (size_t i = 0; i < o->file_count; i++)
        if (!o->files[i].name || !o->files[i].text)
            return kvsi_fail(err, KVS_E_INVALID, "%s of files[%zu] is NULL",
                             o->files[i].name ? "text" : "name", i);
    return KVS_OK;
}

kvs_status kvs_train(kvs_train_result *result, kvs_model *model, const kvs_data *data,
                     const kvs_train_config *config, const kvs_train_options *options, kvs_err *err)
{
    kvs_train_options o = {.size = sizeof o};
    kvs_train_result own;
    kvsi_train_job job;

    NEED(model);
    NEED(data);
    NEED(config);
    if (result)
        TRY(kvsi_sized_check(result, "kvs_train_result", err));
    TRY(kvsi_sized_read(&o, sizeof o, options, "kvs_train_options", err));
    TRY(check_options(&o, err));
    job = (kvsi_train_job){
        .model = model,
        .data = data,
        .config = *config,
        .out = o.out,
        .command = o.command,
        .files = o.files,
        .file_count = o.file_count,
        .tokenizer = o.tokenizer,
        .resume = o.resume,
        .progress = o.progress,
        .sample = o.sample,
        .benchmark = o.benchmark,
        .notice = o.notice,
        .user = o.user,
    };
    TRY(kvsi_train(&job, &own, err));
    if (result)
        kvsi_sized_write(result, &own, sizeof own);
    return KVS_OK;
}
