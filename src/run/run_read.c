#include "run/run_read.h"

#include "base/files.h"
#include "base/memory.h"
#include "run/record.h"
#include "run/run.h"

#include <string.h>

enum { WHAT_SIZE = 512 };
static const size_t LOG_LIMIT = (size_t)1 << 30; /* bytes */

/* The next complete line as a JSON object, a new reference; NULL at the end.  `what` names the line
 * in messages. */
static kvs_status next_line(kvsi_run_log *log, json_t **out, char what[WHAT_SIZE], kvs_err *err)
{
    const char *const line = log->text + log->at;
    const char *const end = memchr(line, '\n', log->size - log->at);

    *out = NULL;
    if (!end)
        return KVS_OK;
    log->at += (size_t)(end - line) + 1;
    log->number++;
    snprintf(what, WHAT_SIZE, "%s line %zu", log->path, log->number);
    return kvsi_json_parse(out, line, (size_t)(end - line), what, err);
}

kvs_status kvsi_run_log_open(kvsi_run_log *log, const char *dir, kvs_err *err)
{
    char what[WHAT_SIZE];

    *log = (kvsi_run_log){0};
    TRY(kvsi_run_path(&log->path, dir, KVSI_RUN_LOG, err));
    TRY(kvsi_file_read(&log->text, &log->size, log->path, LOG_LIMIT, err));
    for (size_t i = 0; i < log->size; i++)
        log->lines += log->text[i] == '\n';
    return next_line(log, &log->settings, what, err);
}

kvs_status kvsi_run_log_next(kvsi_run_log *log, kvs_step_record *record, int *found, kvs_err *err)
{
    char what[WHAT_SIZE];
    json_t *json;
    kvs_status st;

    *found = 0;
    TRY_OUT(next_line(log, &json, what, err));
    if (!json)
        goto out;
    TRY_OUT(kvsi_record_from_json(record, json, what, err));
    if (record->step <= log->step) {
        st = kvsi_fail(err, KVS_E_FORMAT, "'%s': step %zu follows step %zu, expected a later one",
                       what, (size_t)record->step, (size_t)log->step);
        goto out;
    }
    log->step = record->step;
    *found = 1;
out:
    json_decref(json);
    return st;
}

void kvsi_run_log_close(kvsi_run_log *log)
{
    json_decref(log->settings);
    kvsi_free(log->path);
    kvsi_free(log->text);
    *log = (kvsi_run_log){0};
}
