#include "run/run_write.h"

#include "base/files.h"
#include "base/memory.h"
#include "run/benchmarks.h"
#include "run/csv.h"
#include "run/jsonl.h"
#include "run/record.h"
#include "run/result.h"
#include "run/run.h"
#include "run/tensorboard.h"

#include <stdio.h>
#include <unistd.h>

struct kvsi_run_writer {
    char *dir;
    kvsi_jsonl *log, *samples, *benchmarks; /* samples, benchmarks: NULL until the first one */
    kvsi_events *events;                    /* NULL until the first record */
};

static kvs_status make_writer(kvsi_run_writer **out, const char *dir, kvs_err *err)
{
    kvsi_run_writer *run = kvsi_alloc(1, sizeof *run);

    *out = run;
    if (!run || !(run->dir = kvsi_strdup(dir)))
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for the run '%s'", dir);
    return KVS_OK;
}

void kvsi_run_writer_free(kvsi_run_writer *run)
{
    if (!run)
        return;
    kvsi_jsonl_close(run->log);
    kvsi_jsonl_close(run->samples);
    kvsi_jsonl_close(run->benchmarks);
    kvsi_events_close(run->events);
    kvsi_free(run->dir);
    kvsi_free(run);
}

/* ---- the caller's files ---------------------------------------------------------------------- */

static kvs_status append_text(const char *path, const char *text, kvs_err *err)
{
    FILE *file = fopen(path, "a");
    kvs_status st = KVS_OK;

    if (!file)
        return kvsi_fail_errno(err, "open", path);
    if (fputs(text, file) == EOF || fflush(file) != 0)
        st = kvsi_fail_errno(err, "write", path);
    if (fclose(file) != 0 && st == KVS_OK)
        st = kvsi_fail_errno(err, "write", path);
    return st;
}

static kvs_status write_files(const kvsi_train_job *job, kvs_err *err)
{
    kvs_status st = KVS_OK;

    for (size_t i = 0; st == KVS_OK && i < job->file_count; i++) {
        const kvs_run_file *file = &job->files[i];
        char *path;

        TRY(kvsi_run_path(&path, job->out, file->name, err));
        st = file->append ? append_text(path, file->text, err)
                          : kvsi_file_write_text(path, file->text, err);
        kvsi_free(path);
    }
    return st;
}

static void remove_files(const kvsi_train_job *job)
{
    for (size_t i = 0; i < job->file_count; i++) {
        char *path = kvsi_path_join(job->out, job->files[i].name);

        if (path)
            unlink(path);
        kvsi_free(path);
    }
}

/* ---- a new run ------------------------------------------------------------------------------- */

kvs_status kvsi_run_create(kvsi_run_writer **out, const kvsi_train_job *job, const json_t *settings,
                           kvs_err *err)
{
    const char *const dir = job->out, *found;
    char *log = NULL;
    int made = 0;
    kvsi_run_writer *run = NULL;
    kvs_status st;

    *out = NULL;
    TRY_OUT(make_writer(&run, dir, err));
    TRY_OUT(kvsi_run_path(&log, dir, KVSI_RUN_LOG, err));
    TRY_OUT(kvs_run_find(&found, dir, err));
    if (found) {
        st = kvsi_fail(err, KVS_E_EXISTS, "'%s' already holds a run ('%s'); choose another folder",
                       dir, found);
        goto out;
    }
    TRY_OUT(kvsi_dir_make(dir, &made, err));
    TRY_OUT(kvsi_jsonl_create(&run->log, log, err));
    st = write_files(job, err);
    if (st == KVS_OK)
        st = kvsi_jsonl_add(run->log, settings, err);
    if (st != KVS_OK) {
        unlink(log);
        goto out;
    }
    *out = run;
    run = NULL;
out:
    kvsi_run_writer_free(run);
    if (st != KVS_OK && made) {
        remove_files(job);
        rmdir(dir);
    }
    kvsi_free(log);
    return st;
}

/* ---- a run that is resumed ------------------------------------------------------------------- */

/* A resumed run must have no final model until it ends again, or users would run the old weights.
 * Removes the model if the checkpoint of `step` has the same weights.  If the run resumes from an
 * older checkpoint, the model is the only copy of its weights and is renamed instead. */
static kvs_status retire_model(const char *dir, uint64_t step, kvs_err *err)
{
    char *model = NULL, *kept = NULL, *result = NULL, *adapters = NULL;
    kvs_status st;

    TRY_OUT(kvsi_run_path(&adapters, dir, KVSI_RUN_ADAPTERS, err));
    TRY_OUT(kvsi_run_path(&model, dir, KVSI_RUN_MODEL, err));
    TRY_OUT(kvsi_run_path(&kept, dir, KVSI_RUN_OLD_MODEL, err));
    TRY_OUT(kvsi_run_path(&result, dir, KVSI_RUN_RESULT, err));
    if (kvsi_file_exists(model) && kvsi_result_steps(dir) == step && unlink(model) != 0)
        st = kvsi_fail_errno(err, "remove", model);
    else if (kvsi_file_exists(model) && rename(model, kept) != 0)
        st = kvsi_fail_errno(err, "rename", model);
    if (st == KVS_OK && kvsi_file_exists(result) && unlink(result) != 0)
        st = kvsi_fail_errno(err, "remove", result);
    if (st == KVS_OK && kvsi_file_exists(adapters) && unlink(adapters) != 0)
        st = kvsi_fail_errno(err, "remove", adapters); /* the model contains them */
out:
    kvsi_free(model);
    kvsi_free(kept);
    kvsi_free(result);
    kvsi_free(adapters);
    return st;
}

kvs_status kvsi_run_continue(kvsi_run_writer **out, const kvsi_train_job *job,
                             const json_t *settings, uint64_t step, kvs_err *err)
{
    char *log = NULL, *samples = NULL, *benchmarks = NULL;
    kvsi_run_writer *run = NULL;
    kvs_status st;

    *out = NULL;
    TRY_OUT(make_writer(&run, job->out, err));
    TRY_OUT(kvsi_run_path(&log, job->out, KVSI_RUN_LOG, err));
    TRY_OUT(kvsi_run_path(&samples, job->out, KVSI_RUN_SAMPLES, err));
    TRY_OUT(kvsi_run_path(&benchmarks, job->out, KVSI_RUN_BENCHMARKS, err));
    TRY_OUT(kvsi_jsonl_reopen(&run->log, log, 1, step, err));
    if (kvsi_jsonl_is_empty(run->log))
        TRY_OUT(kvsi_jsonl_add(run->log, settings, err));
    if (kvsi_file_exists(samples))
        TRY_OUT(kvsi_jsonl_reopen(&run->samples, samples, 0, step, err));
    if (kvsi_file_exists(benchmarks))
        TRY_OUT(kvsi_jsonl_reopen(&run->benchmarks, benchmarks, 0, step, err));
    TRY_OUT(retire_model(job->out, step, err));
    TRY_OUT(write_files(job, err));
    *out = run;
    run = NULL;
out:
    kvsi_run_writer_free(run);
    kvsi_free(log);
    kvsi_free(samples);
    kvsi_free(benchmarks);
    return st;
}

/* ---- records --------------------------------------------------------------------------------- */

/* The events SECTION/k_sum, k_current and k_previous, which is all taps but the current one. */
static kvs_status add_shift_events(kvsi_events *events, uint64_t step, const char *section,
                                   char letter, const kvs_shift_mean *mean, kvs_err *err)
{
    const struct {
        const char *name;
        double value;
    } values[] = {
        {"sum", mean->sum}, {"current", mean->current}, {"previous", mean->sum - mean->current}};

    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        char tag[64];

        snprintf(tag, sizeof tag, "%.40s/%c_%s", section, letter, values[i].name);
        TRY(kvsi_events_add(events, step, tag, values[i].value, err));
    }
    return KVS_OK;
}

static kvs_status add_events(kvsi_events *events, const kvs_step_record *r, kvs_err *err)
{
    for (size_t i = 0; i < KVSI_RECORD_FIELDS; i++) {
        const kvsi_record_field *f = &kvsi_record_fields[i];

        if (f->tag)
            TRY(kvsi_events_add(events, r->step, f->tag, kvsi_record_value(r, f), err));
    }
    TRY(kvsi_events_add(events, r->step, "speed/tokens_per_s", (double)r->tokens / r->seconds,
                        err));
    TRY(add_shift_events(events, r->step, "shift", 'k', &r->k_shift, err));
    TRY(add_shift_events(events, r->step, "shift", 'v', &r->v_shift, err));
    return add_shift_events(events, r->step, "shift", 'q', &r->q_shift, err);
}

/* Layers are in TensorBoard only: in the log a record would grow with the model. */
static kvs_status add_layer_events(kvsi_events *events, uint64_t step,
                                   const kvsi_shift_means *layers, size_t count, kvs_err *err)
{
    for (size_t l = 0; l < count; l++) {
        char section[40];

        snprintf(section, sizeof section, "shift_layer_%03zu", l);
        TRY(add_shift_events(events, step, section, 'k', &layers[l].k, err));
        TRY(add_shift_events(events, step, section, 'v', &layers[l].v, err));
        TRY(add_shift_events(events, step, section, 'q', &layers[l].q, err));
    }
    return KVS_OK;
}

static kvs_status open_events(kvsi_run_writer *run, kvs_err *err)
{
    char *dir = NULL;
    kvs_status st;

    if (run->events)
        return KVS_OK;
    st = kvsi_run_path(&dir, run->dir, KVSI_RUN_TENSORBOARD, err);
    if (st == KVS_OK)
        st = kvsi_events_open(&run->events, dir, err);
    kvsi_free(dir);
    return st;
}

kvs_status kvsi_run_log_step(kvsi_run_writer *run, const kvs_step_record *record,
                             const kvsi_shift_means *layers, size_t layer_count, kvs_err *err)
{
    json_t *line = kvsi_record_to_json(record);
    kvs_status st;

    TRY_OUT(kvsi_jsonl_add(run->log, line, err));
    TRY_OUT(open_events(run, err));
    TRY_OUT(add_events(run->events, record, err));
    if (layers)
        TRY_OUT(add_layer_events(run->events, record->step, layers, layer_count, err));
out:
    json_decref(line);
    return st;
}

kvs_status kvsi_run_log_sample(kvsi_run_writer *run, uint64_t step, const kvs_sample *sample,
                               kvs_err *err)
{
    json_t *line = NULL;
    char *path = NULL;
    kvs_status st = KVS_OK;

    if (!run->samples) {
        TRY_OUT(kvsi_run_path(&path, run->dir, KVSI_RUN_SAMPLES, err));
        TRY_OUT(kvsi_jsonl_create(&run->samples, path, err));
    }
    line = json_pack("{s:I, s:o, s:o}", "step", (json_int_t)step, "prompt",
                     kvsi_json_text(sample->prompt, sample->prompt_size), "text",
                     kvsi_json_text(sample->text, sample->text_size));
    TRY_OUT(kvsi_jsonl_add(run->samples, line, err));
out:
    json_decref(line);
    kvsi_free(path);
    return st;
}

kvs_status kvsi_run_log_benchmarks(kvsi_run_writer *run, uint64_t step,
                                   const kvs_benchmark_scores *scores, kvs_err *err)
{
    json_t *line = NULL;
    char *path = NULL;
    kvs_status st;

    if (!run->benchmarks) {
        TRY_OUT(kvsi_run_path(&path, run->dir, KVSI_RUN_BENCHMARKS, err));
        TRY_OUT(kvsi_jsonl_create(&run->benchmarks, path, err));
    }
    line = kvsi_benchmarks_to_json(step, scores);
    TRY_OUT(kvsi_jsonl_add(run->benchmarks, line, err));
    TRY_OUT(open_events(run, err));
    for (size_t i = 0; i < scores->count; i++) {
        char tag[160];

        snprintf(tag, sizeof tag, "benchmarks/%.100s_%.40s", scores->scores[i].task,
                 scores->scores[i].metric);
        TRY_OUT(kvsi_events_add(run->events, step, tag, scores->scores[i].value, err));
    }
out:
    json_decref(line);
    kvsi_free(path);
    return st;
}

uint64_t kvsi_run_last_benchmarks(const kvsi_run_writer *run)
{
    return run->benchmarks ? kvsi_jsonl_last_step(run->benchmarks) : 0;
}

/* ---- the end --------------------------------------------------------------------------------- */

kvs_status kvsi_run_finish(kvsi_run_writer *run, const kvs_train_result *result,
                           const kvs_model *model, const kvs_tokenizer *tokenizer, kvs_err *err)
{
    /* The model comes first because it cannot be made again; the table can be made from the log. */
    TRY(kvsi_run_save_model(run->dir, model, tokenizer, err));
    TRY(kvsi_result_write(run->dir, result, err));
    return kvsi_csv_write(run->dir, err);
}
