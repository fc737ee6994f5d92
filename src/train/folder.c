#include "train/folder.h"

#include "base/files.h"
#include "base/memory.h"
#include "train/table.h"
#include "train/tensorboard.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

struct kvsi_folder {
    char *dir, *log_path;
    FILE *log;
    kvsi_events *events;
};

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

static kvs_status write_line(kvsi_folder *folder, const json_t *record, kvs_err *err)
{
    const int failed =
        json_dumpf(record, folder->log, JSON_COMPACT | JSON_REAL_PRECISION(9)) != 0 ||
        fputc('\n', folder->log) == EOF || fflush(folder->log) != 0;

    if (failed)
        return kvsi_fail(err, KVS_E_IO, "cannot write '%s': %s", folder->log_path, strerror(errno));
    return KVS_OK;
}

static kvs_status lock(const kvsi_folder *folder, kvs_err *err)
{
    if (flock(fileno(folder->log), LOCK_EX | LOCK_NB) != 0)
        return kvsi_fail(err, KVS_E_IO, "'%s' is in use by another process", folder->dir);
    return KVS_OK;
}

static kvs_status name_folder(kvsi_folder **out, const char *dir, kvs_err *err)
{
    kvsi_folder *folder = kvsi_alloc(1, sizeof *folder);

    *out = folder;
    if (!folder || !(folder->dir = kvsi_strdup(dir)) ||
        !(folder->log_path = kvsi_path_join(dir, "train.jsonl")))
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
    kvs_status st;
    int made = 0;
    kvsi_folder *folder = NULL;

    *out = NULL;
    KVS_TRY(name_folder(&folder, dir, err));
    KVS_TRY(refuse_used(dir, "train.jsonl", err));
    KVS_TRY(refuse_used(dir, "model.safetensors", err));
    KVS_TRY(kvsi_dir_make(dir, &made, err));
    folder->log = fopen(folder->log_path, "wx");
    if (!folder->log) {
        st = kvsi_fail(err, KVS_E_IO, "cannot write '%s': %s", folder->log_path, strerror(errno));
        goto out;
    }
    KVS_TRY(lock(folder, err));
    st = write_files(job, err);
    if (st == KVS_OK)
        st = write_line(folder, settings, err);
    if (st != KVS_OK) {
        unlink(folder->log_path);
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
    return st;
}

/* Is this a whole record of a step up to `last`? */
static int is_kept(const char *line, size_t size, uint64_t last)
{
    json_t *record = size > 0 && line[size - 1] == '\n' ? json_loadb(line, size, 0, NULL) : NULL;
    const json_t *step = json_object_get(record, "step");
    const int kept = json_is_integer(step) && (uint64_t)json_integer_value(step) <= last;

    json_decref(record);
    return kept;
}

/* Cuts the log behind the last record that is kept; the first line, the settings, always is. */
static kvs_status cut_log(kvsi_folder *folder, uint64_t step, kvs_err *err)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t size = getline(&line, &room, folder->log);
    off_t end = ftello(folder->log);

    if (size <= 0 || line[size - 1] != '\n') {
        free(line);
        return kvsi_fail(err, KVS_E_FORMAT, "'%s' does not start with a run's settings",
                         folder->log_path);
    }
    while ((size = getline(&line, &room, folder->log)) > 0 && is_kept(line, (size_t)size, step))
        end = ftello(folder->log);
    free(line);
    if (ftruncate(fileno(folder->log), end) != 0 || fseeko(folder->log, end, SEEK_SET) != 0)
        return kvsi_fail_errno(err, "cut", folder->log_path);
    return KVS_OK;
}

kvs_status kvsi_folder_reopen(kvsi_folder **out, const kvs_train_job *job, uint64_t step,
                              kvs_err *err)
{
    kvs_status st;
    kvsi_folder *folder = NULL;

    *out = NULL;
    KVS_TRY(name_folder(&folder, job->out, err));
    folder->log = fopen(folder->log_path, "r+");
    if (!folder->log) {
        st = kvsi_fail_errno(err, "open", folder->log_path);
        goto out;
    }
    KVS_TRY(lock(folder, err));
    KVS_TRY(cut_log(folder, step, err));
    KVS_TRY(write_files(job, err));
    *out = folder;
    folder = NULL;
out:
    kvsi_folder_close(folder);
    return st;
}

void kvsi_folder_close(kvsi_folder *folder)
{
    if (!folder)
        return;
    if (folder->log)
        fclose(folder->log);
    kvsi_events_close(folder->events);
    kvsi_free(folder->dir);
    kvsi_free(folder->log_path);
    kvsi_free(folder);
}

static kvs_status open_events(kvsi_folder *folder, kvs_err *err)
{
    char *dir = kvsi_path_join(folder->dir, "tb");
    const kvs_status st =
        dir ? kvsi_events_open(&folder->events, dir, err)
            : kvsi_fail(err, KVS_E_NOMEM, "out of memory for the run '%s'", folder->dir);

    kvsi_free(dir);
    return st;
}

static kvs_status log_events(kvsi_folder *folder, const kvs_step_record *r, kvs_err *err)
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
    return st;
}

static void set_if_finite(json_t *object, const char *key, double value)
{
    if (isfinite(value))
        json_object_set_new(object, key, json_real(value));
}

kvs_status kvsi_folder_log(kvsi_folder *folder, const kvs_step_record *record, kvs_err *err)
{
    json_t *line = json_object();
    kvs_status st;

    json_object_set_new(line, "step", json_integer((json_int_t)record->step));
    json_object_set_new(line, "loss", kvsi_json_number(record->loss));
    json_object_set_new(line, "lr", kvsi_json_number(record->lr));
    set_if_finite(line, "accuracy", record->accuracy);
    json_object_set_new(line, "grad_norm", kvsi_json_number(record->grad_norm));
    json_object_set_new(line, "tokens", json_integer((json_int_t)record->tokens));
    json_object_set_new(line, "seconds", kvsi_json_number(record->seconds));
    set_if_finite(line, "eval_loss", record->eval_loss);
    set_if_finite(line, "eval_accuracy", record->eval_accuracy);
    st = write_line(folder, line, err);
    json_decref(line);
    return st == KVS_OK ? log_events(folder, record, err) : st;
}

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
                              const kvs_model *model, kvs_err *err)
{
    kvs_status st = KVS_OK;
    char *path = kvsi_path_join(folder->dir, "result.json");
    json_t *json = result_json(result);

    if (!path || !json) {
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for the result of '%s'", folder->dir);
        goto out;
    }
    KVS_TRY(kvsi_table_write(folder->dir, err));
    KVS_TRY(kvs_model_save(model, folder->dir, err));
    KVS_TRY(kvsi_json_write(json, path, err));
out:
    json_decref(json);
    kvsi_free(path);
    return st;
}
