#include "train/folder.h"

#include "base/files.h"
#include "base/memory.h"
#include "run/csv.h"
#include "run/jsonl.h"
#include "run/tensorboard.h"
#include "train/checkpoint.h"
#include "train/shift_means.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

static const char LOG[] = "train.jsonl", SAMPLES[] = "samples.jsonl";

struct kvsi_folder {
    char *dir;
    kvsi_jsonl *log, *samples; /* samples: NULL until there are any */
    kvsi_events *events;
};

/* ---- opening --------------------------------------------------------------------------------- */

static kvs_status fail_memory(const kvsi_folder *folder, kvs_err *err)
{
    return kvsi_fail(err, KVS_E_NOMEM, "out of memory for the run '%s'", folder->dir);
}

static kvs_status refuse_used(const char *dir, const char *name, kvs_err *err)
{
    char *path = kvsi_path_join(dir, name);
    kvs_status st = KVS_OK;

    if (!path)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", dir);
    if (kvsi_file_exists(path))
        st = kvsi_fail(err, KVS_E_IO, "'%s' already holds a run ('%s'); choose another folder", dir,
                       name);
    kvsi_free(path);
    return st;
}

static kvs_status name_folder(kvsi_folder **out, const char *dir, kvs_err *err)
{
    kvsi_folder *folder = kvsi_alloc(1, sizeof *folder);

    *out = folder;
    if (!folder || !(folder->dir = kvsi_strdup(dir)))
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for the run '%s'", dir);
    return KVS_OK;
}

/* ---- the job's own files ---- */

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

static kvs_status write_files(const kvs_train_job *job, kvs_err *err)
{
    kvs_status st = KVS_OK;

    for (size_t i = 0; st == KVS_OK && i < job->file_count; i++) {
        const kvs_run_file *file = &job->files[i];
        char *path = kvsi_path_join(job->out, file->name);

        if (!path)
            return kvsi_fail(err, KVS_E_NOMEM, "out of memory for the run '%s'", job->out);
        st = file->append ? append_text(path, file->text, err)
                          : kvsi_file_write_text(path, file->text, err);
        kvsi_free(path);
    }
    return st;
}

static void remove_files(const kvs_train_job *job)
{
    for (size_t i = 0; i < job->file_count; i++) {
        char *path = kvsi_path_join(job->out, job->files[i].name);

        if (path)
            unlink(path);
        kvsi_free(path);
    }
}

/* ---- opening ---- */

kvs_status kvsi_folder_create(kvsi_folder **out, const kvs_train_job *job, const json_t *settings,
                              kvs_err *err)
{
    const char *const dir = job->out;
    char *path = kvsi_path_join(dir, LOG);
    kvs_status st;
    int made = 0;
    kvsi_folder *folder = NULL;

    *out = NULL;
    TRY_OUT(name_folder(&folder, dir, err));
    if (!path) {
        st = fail_memory(folder, err);
        goto out;
    }
    TRY_OUT(refuse_used(dir, LOG, err));
    TRY_OUT(refuse_used(dir, "model.safetensors", err));
    TRY_OUT(kvsi_dir_make(dir, &made, err));
    TRY_OUT(kvsi_jsonl_create(&folder->log, path, err));
    st = write_files(job, err);
    if (st == KVS_OK)
        st = kvsi_jsonl_add(folder->log, settings, err);
    if (st != KVS_OK) {
        unlink(path);
        goto out;
    }
    *out = folder;
    folder = NULL;
out:
    kvsi_folder_close(folder);
    if (st != KVS_OK && made) {
        remove_files(job);
        rmdir(dir);
    }
    kvsi_free(path);
    return st;
}

/* The step of the final model, from result.json; 0 = not known. */
static size_t final_step(const char *path)
{
    enum { RESULT_LIMIT = 1 << 20 }; /* bytes */
    json_t *result = NULL;
    size_t step = 0;

    if (kvsi_json_read(&result, path, RESULT_LIMIT, NULL) != KVS_OK ||
        kvsi_json_get_size(&step, result, "steps", path, NULL) != KVS_OK)
        step = 0;
    json_decref(result);
    return step;
}

/* A resumed run must have no final model until it ends again, or users would run the old weights.
 * Removes the model if the checkpoint has the same weights.  If the run resumes from an older
 * checkpoint, the model is the only copy of its weights and is renamed instead. */
static kvs_status retire_model(const char *dir, uint64_t step, kvs_err *err)
{
    char *model = kvsi_path_join(dir, "model.safetensors");
    char *kept = kvsi_path_join(dir, "model.before-resume.safetensors");
    char *result = kvsi_path_join(dir, "result.json");
    kvs_status st = KVS_OK;

    if (!model || !kept || !result)
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for the run '%s'", dir);
    else if (kvsi_file_exists(model) && final_step(result) == step && unlink(model) != 0)
        st = kvsi_fail_errno(err, "remove", model);
    else if (kvsi_file_exists(model) && rename(model, kept) != 0)
        st = kvsi_fail_errno(err, "rename", model);
    if (st == KVS_OK && kvsi_file_exists(result) && unlink(result) != 0)
        st = kvsi_fail_errno(err, "remove", result);
    kvsi_free(model);
    kvsi_free(kept);
    kvsi_free(result);
    return st;
}

kvs_status kvsi_folder_reopen(kvsi_folder **out, const kvs_train_job *job, const json_t *settings,
                              uint64_t step, kvs_err *err)
{
    char *log = kvsi_path_join(job->out, LOG), *samples = kvsi_path_join(job->out, SAMPLES);
    kvs_status st;
    kvsi_folder *folder = NULL;

    *out = NULL;
    TRY_OUT(name_folder(&folder, job->out, err));
    if (!log || !samples) {
        st = fail_memory(folder, err);
        goto out;
    }
    TRY_OUT(kvsi_jsonl_reopen(&folder->log, log, 1, step, err));
    if (kvsi_jsonl_is_empty(folder->log))
        TRY_OUT(kvsi_jsonl_add(folder->log, settings, err));
    if (kvsi_file_exists(samples))
        TRY_OUT(kvsi_jsonl_reopen(&folder->samples, samples, 0, step, err));
    TRY_OUT(retire_model(job->out, step, err));
    TRY_OUT(write_files(job, err));
    *out = folder;
    folder = NULL;
out:
    kvsi_folder_close(folder);
    kvsi_free(log);
    kvsi_free(samples);
    return st;
}

void kvsi_folder_close(kvsi_folder *folder)
{
    if (!folder)
        return;
    kvsi_jsonl_close(folder->log);
    kvsi_jsonl_close(folder->samples);
    kvsi_events_close(folder->events);
    kvsi_free(folder->dir);
    kvsi_free(folder);
}

/* ---- records --------------------------------------------------------------------------------- */

static kvs_status open_events(kvsi_folder *folder, kvs_err *err)
{
    char *dir = kvsi_path_join(folder->dir, "tb");
    const kvs_status st =
        dir ? kvsi_events_open(&folder->events, dir, err) : fail_memory(folder, err);

    kvsi_free(dir);
    return st;
}

/* The events SECTION/k_sum, k_current and k_previous, which is all taps but the current one. */
static kvs_status log_shift_events(kvsi_folder *folder, uint64_t step, const char *section,
                                   char letter, const kvs_shift_mean *mean, kvs_err *err)
{
    const struct {
        const char *name;
        double value;
    } numbers[] = {
        {"sum", mean->sum}, {"current", mean->current}, {"previous", mean->sum - mean->current}};
    kvs_status st = KVS_OK;

    for (size_t i = 0; st == KVS_OK && i < sizeof numbers / sizeof *numbers; i++) {
        char tag[64];

        snprintf(tag, sizeof tag, "%.40s/%c_%s", section, letter, numbers[i].name);
        st = kvsi_events_add(folder->events, step, tag, numbers[i].value, err);
    }
    return st;
}

static kvs_status log_events(kvsi_folder *folder, kvs_step_record *r, kvs_err *err)
{
    const struct {
        const char *tag;
        double value;
    } numbers[] = {{"train/loss", r->loss},
                   {"train/accuracy", r->accuracy},
                   {"train/lr", r->lr},
                   {"train/grad_norm", r->grad_norm},
                   {"eval/loss", r->eval_loss},
                   {"eval/accuracy", r->eval_accuracy},
                   {"speed/tokens_per_s", (double)r->tokens / r->seconds}};
    kvs_status st = folder->events ? KVS_OK : open_events(folder, err);

    for (size_t i = 0; st == KVS_OK && i < sizeof numbers / sizeof *numbers; i++)
        st = kvsi_events_add(folder->events, r->step, numbers[i].tag, numbers[i].value, err);
    for (size_t i = 0; st == KVS_OK && i < KVSI_SHIFT_TARGETS; i++)
        st = log_shift_events(folder, r->step, "shift", kvsi_shift_targets[i].letter,
                              kvsi_record_shift(r, kvsi_shift_targets[i].target), err);
    return st;
}

/* Layer by layer for TensorBoard alone: a record would grow with the model. */
static kvs_status log_layers(kvsi_folder *folder, uint64_t step, const kvs_model *model,
                             kvs_err *err)
{
    kvs_status st = KVS_OK;

    for (size_t l = 0; st == KVS_OK && l < model->config.layers; l++) {
        char section[40];

        snprintf(section, sizeof section, "shift_layer_%03zu", l);
        for (size_t i = 0; st == KVS_OK && i < KVSI_SHIFT_TARGETS; i++) {
            kvs_shift_mean mean;

            st = kvsi_shift_mean_of(&mean, model, kvsi_shift_targets[i].target, l, l + 1, err);
            if (st == KVS_OK)
                st = log_shift_events(folder, step, section, kvsi_shift_targets[i].letter, &mean,
                                      err);
        }
    }
    return st;
}

static void set_if_finite(json_t *object, const char *key, double value)
{
    if (isfinite(value))
        json_object_set_new(object, key, json_real(value));
}

static void set_shift(json_t *object, char letter, const kvs_shift_mean *mean)
{
    char key[32];

    snprintf(key, sizeof key, "%c_shift_sum", letter);
    set_if_finite(object, key, mean->sum);
    snprintf(key, sizeof key, "%c_shift_current", letter);
    set_if_finite(object, key, mean->current);
}

static json_t *record_json(kvs_step_record *record)
{
    json_t *line = json_object();

    json_object_set_new(line, "step", json_integer((json_int_t)record->step));
    json_object_set_new(line, "loss", kvsi_json_number(record->loss));
    json_object_set_new(line, "lr", kvsi_json_number(record->lr));
    set_if_finite(line, "accuracy", record->accuracy);
    json_object_set_new(line, "grad_norm", kvsi_json_number(record->grad_norm));
    json_object_set_new(line, "tokens", json_integer((json_int_t)record->tokens));
    json_object_set_new(line, "seconds", kvsi_json_number(record->seconds));
    set_if_finite(line, "eval_loss", record->eval_loss);
    set_if_finite(line, "eval_accuracy", record->eval_accuracy);
    for (size_t i = 0; i < KVSI_SHIFT_TARGETS; i++)
        set_shift(line, kvsi_shift_targets[i].letter,
                  kvsi_record_shift(record, kvsi_shift_targets[i].target));
    return line;
}

kvs_status kvsi_folder_log(kvsi_folder *folder, const kvs_step_record *record,
                           const kvs_model *model, kvs_err *err)
{
    kvs_step_record copy = *record;
    json_t *line = record_json(&copy);
    kvs_status st;

    TRY_OUT(kvsi_jsonl_add(folder->log, line, err));
    TRY_OUT(log_events(folder, &copy, err));
    if (model)
        TRY_OUT(log_layers(folder, copy.step, model, err));
out:
    json_decref(line);
    return st;
}

/* ---- samples --------------------------------------------------------------------------------- */

static kvs_status open_samples(kvsi_folder *folder, kvs_err *err)
{
    char *path = kvsi_path_join(folder->dir, SAMPLES);
    const kvs_status st =
        path ? kvsi_jsonl_create(&folder->samples, path, err) : fail_memory(folder, err);

    kvsi_free(path);
    return st;
}

kvs_status kvsi_folder_log_sample(kvsi_folder *folder, uint64_t step, const kvs_sample *sample,
                                  kvs_err *err)
{
    kvs_status st = folder->samples ? KVS_OK : open_samples(folder, err);
    json_t *line;

    if (st != KVS_OK)
        return st;
    line = json_pack("{s:I, s:o, s:o}", "step", (json_int_t)step, "prompt",
                     kvsi_json_text(sample->prompt, sample->prompt_size), "text",
                     kvsi_json_text(sample->text, sample->text_size));
    st = kvsi_jsonl_add(folder->samples, line, err);
    json_decref(line);
    return st;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* NULL, which leaves the key out, if the task has no buckets. */
static json_t *lengths_json(const kvs_evaluation *evaluation)
{
    json_t *list = evaluation->buckets > 0 ? json_array() : NULL;

    for (size_t i = 0; i < evaluation->buckets; i++) {
        const kvs_length_bucket *b = &evaluation->bucket[i];

        json_array_append_new(list,
                              json_pack("{s:I, s:I, s:I, s:o}", "from", (json_int_t)b->from, "to",
                                        (json_int_t)b->to, "scored", (json_int_t)b->scored,
                                        "accuracy", kvsi_json_number(b->accuracy)));
    }
    return list;
}

static json_t *result_json(const kvs_train_result *result)
{
    return json_pack(
        "{s:I, s:o, s:o, s:o*, s:o, s:o, s:I}", "steps", (json_int_t)result->steps, "final_loss",
        kvsi_json_number(result->final.loss), "final_accuracy",
        kvsi_json_number(result->final.accuracy), "accuracy_by_length",
        lengths_json(&result->final), "step_at_99",
        result->step_at_99 > 0 ? json_integer((json_int_t)result->step_at_99) : json_null(),
        "seconds", kvsi_json_number(result->seconds), "tokens", (json_int_t)result->tokens);
}

kvs_status kvsi_folder_finish(kvsi_folder *folder, const kvs_train_result *result,
                              const kvs_model *model, const kvs_tokenizer *tokenizer, kvs_err *err)
{
    kvs_status st;
    char *path = NULL;
    json_t *json = NULL;

    /* The model comes first because it cannot be made again; the table can be made from the log. */
    TRY_OUT(kvsi_save_with_tokenizer(model, tokenizer, folder->dir, err));
    json = result_json(result);
    path = kvsi_path_join(folder->dir, "result.json");
    if (!path) {
        st = fail_memory(folder, err);
        goto out;
    }
    TRY_OUT(kvsi_json_write(json, path, err));
    TRY_OUT(kvsi_csv_write(folder->dir, err));
out:
    json_decref(json);
    kvsi_free(path);
    return st;
}
