#include "report/run.h"

#include "base/files.h"
#include "base/memory.h"
#include "formats/hf.h"

#include <math.h>
#include <string.h>

static const size_t LOG_LIMIT = (size_t)1 << 30, RESULT_LIMIT = (size_t)1 << 20;

/* ---- small things ---------------------------------------------------------------------------- */

static kvs_status fail_memory(const char *path, kvs_err *err)
{
    return kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", path);
}

/* The last part of the path, without slashes at its end. */
static void set_name(kvs_run_summary *summary, const char *dir)
{
    size_t end = strlen(dir), start;

    while (end > 1 && dir[end - 1] == '/')
        end--;
    for (start = end; start > 0 && dir[start - 1] != '/';)
        start--;
    snprintf(summary->name, sizeof summary->name, "%.*s", (int)(end - start), dir + start);
}

/* A number that must be there; null, which stands for "none", gives NaN. */
static kvs_status get_number(double *out, const json_t *object, const char *key, const char *what,
                             kvs_err *err)
{
    kvs_status st;

    KVS_TRY(kvsi_json_require(object, key, what, err));
    *out = NAN;
    if (!json_is_null(json_object_get(object, key)))
        KVS_TRY(kvsi_json_get_real(out, object, key, what, err));
out:
    return st;
}

static kvs_status get_count(uint64_t *out, const json_t *object, const char *key, const char *what,
                            kvs_err *err)
{
    size_t count = 0;
    kvs_status st;

    KVS_TRY(kvsi_json_require(object, key, what, err));
    KVS_TRY(kvsi_json_get_size(&count, object, key, what, err));
    *out = count;
out:
    return st;
}

/* ---- the settings ---------------------------------------------------------------------------- */

/* "none", "kv", "k gate", "kv window 2 init softmax": what differs from the plain form is said. */
static void describe_shift(char *out, size_t size, const kvs_shift_config *shift)
{
    char form[16] = "", window[32] = "", init[24] = "";

    if (shift->targets != 0 && shift->form != KVS_SHIFT_FREE)
        snprintf(form, sizeof form, " %s", kvs_shift_form_name(shift->form));
    if (shift->targets != 0 && shift->window > 1)
        snprintf(window, sizeof window, " window %zu", shift->window);
    if (shift->targets != 0 && shift->init != KVS_SHIFT_INIT_UNIFORM)
        snprintf(init, sizeof init, " init %s", kvs_shift_init_name(shift->init));
    snprintf(out, size, "%s%s%s%s", kvs_shift_targets_name(shift->targets), form, window, init);
}

static kvs_status read_model(kvs_run_summary *summary, const json_t *settings, const char *what,
                             kvs_err *err)
{
    kvs_model_config config;
    kvs_status st;

    KVS_TRY(kvsi_json_require(settings, "model", what, err));
    KVS_TRY(kvsi_hf_config_from_json(&config, json_object_get(settings, "model"), what, err));
    summary->layers = config.layers;
    summary->dim = config.dim;
    summary->heads = config.heads;
    describe_shift(summary->shift, sizeof summary->shift, &config.shift);
out:
    return st;
}

static kvs_status read_settings(kvsi_run *run, const json_t *settings, const char *what,
                                kvs_err *err)
{
    const char *command = "", *version = "", *cpu_level = "";
    kvs_status st;

    KVS_TRY(kvsi_json_require(settings, "kvshift", what, err));
    KVS_TRY(kvsi_json_get_text(&version, settings, "kvshift", what, err));
    if (!json_is_null(json_object_get(settings, "command")))
        KVS_TRY(kvsi_json_get_text(&command, settings, "command", what, err));
    KVS_TRY(kvsi_json_get_text(&cpu_level, settings, "cpu_level", what, err));
    KVS_TRY(kvsi_json_get_size(&run->threads, settings, "threads", what, err));
    KVS_TRY(get_count(&run->summary.parameters, settings, "parameters", what, err));
    KVS_TRY(read_model(&run->summary, settings, what, err));
    snprintf(run->version, sizeof run->version, "%s", version);
    snprintf(run->cpu_level, sizeof run->cpu_level, "%s", cpu_level);
    run->command = kvsi_strdup(command);
    if (!run->command)
        st = fail_memory(what, err);
out:
    return st;
}

/* ---- the log --------------------------------------------------------------------------------- */

static kvs_status read_point(kvsi_run *run, const json_t *record, const char *what, kvs_err *err)
{
    kvsi_run_point *point = run->points + run->point_count;
    const uint64_t before = run->point_count ? point[-1].step : 0;
    kvs_status st;

    KVS_TRY(get_count(&point->step, record, "step", what, err));
    if (point->step <= before) {
        st = kvsi_fail(err, KVS_E_FORMAT, "'%s': step %zu follows step %zu, expected a later one",
                       what, (size_t)point->step, (size_t)before);
        goto out;
    }
    point->accuracy = NAN;
    if (json_object_get(record, "accuracy"))
        KVS_TRY(get_number(&point->accuracy, record, "accuracy", what, err));
    run->point_count++;
out:
    return st;
}

static kvs_status read_line(kvsi_run *run, size_t number, const char *line, size_t length,
                            const char *path, kvs_err *err)
{
    json_t *object = NULL;
    char what[512];
    kvs_status st;

    snprintf(what, sizeof what, "%s line %zu", path, number);
    KVS_TRY(kvsi_json_parse(&object, line, length, what, err));
    if (number == 1)
        KVS_TRY(read_settings(run, object, what, err));
    else
        KVS_TRY(read_point(run, object, what, err));
out:
    json_decref(object);
    return st;
}

static size_t count_lines(const char *text)
{
    size_t lines = 0;

    for (; *text; text++)
        lines += *text == '\n';
    return lines + 1;
}

static kvs_status read_log(kvsi_run *run, const char *path, kvs_err *err)
{
    char *log = NULL;
    size_t size = 0, number = 0;
    kvs_status st;

    KVS_TRY(kvsi_file_read(&log, &size, path, LOG_LIMIT, err));
    run->points = kvsi_alloc(count_lines(log), sizeof *run->points);
    if (!run->points) {
        st = fail_memory(path, err);
        goto out;
    }
    for (const char *line = log; line < log + size;) {
        const char *end = memchr(line, '\n', (size_t)(log + size - line));
        const size_t length = end ? (size_t)(end - line) : (size_t)(log + size - line);

        KVS_TRY(read_line(run, ++number, line, length, path, err));
        line += length + 1;
    }
    if (run->point_count == 0)
        st = kvsi_fail(err, KVS_E_FORMAT, "'%s': expected settings and steps, found %zu lines",
                       path, number);
out:
    kvsi_free(log);
    return st;
}

/* ---- the result ------------------------------------------------------------------------------ */

static kvs_status read_result(kvs_run_summary *summary, const char *path, kvs_err *err)
{
    json_t *object = NULL;
    kvs_status st;

    if (!kvsi_file_exists(path))
        return kvsi_fail(err, KVS_E_IO, "cannot open '%s': the run has not ended", path);
    KVS_TRY(kvsi_json_read(&object, path, RESULT_LIMIT, err));
    KVS_TRY(get_count(&summary->steps, object, "steps", path, err));
    KVS_TRY(get_number(&summary->final_loss, object, "final_loss", path, err));
    KVS_TRY(get_number(&summary->final_accuracy, object, "final_accuracy", path, err));
    KVS_TRY(get_number(&summary->seconds, object, "seconds", path, err));
    summary->step_at_99 = 0;
    if (!json_is_null(json_object_get(object, "step_at_99")))
        KVS_TRY(get_count(&summary->step_at_99, object, "step_at_99", path, err));
out:
    json_decref(object);
    return st;
}

kvs_status kvsi_run_open(kvsi_run *run, const char *dir, kvs_err *err)
{
    char *log = kvsi_path_join(dir, "train.jsonl"), *result = kvsi_path_join(dir, "result.json");
    kvs_status st;

    *run = (kvsi_run){0};
    if (!log || !result) {
        st = fail_memory(dir, err);
        goto out;
    }
    set_name(&run->summary, dir);
    KVS_TRY(read_log(run, log, err));
    KVS_TRY(read_result(&run->summary, result, err));
out:
    if (st != KVS_OK)
        kvsi_run_close(run);
    kvsi_free(log);
    kvsi_free(result);
    return st;
}

void kvsi_run_close(kvsi_run *run)
{
    kvsi_free(run->command);
    kvsi_free(run->points);
    *run = (kvsi_run){0};
}

kvs_status kvs_run_summarise(kvs_run_summary *out, const char *dir, kvs_err *err)
{
    kvsi_run run;
    const kvs_status st = kvsi_run_open(&run, dir, err);

    if (st != KVS_OK)
        return st;
    *out = run.summary;
    kvsi_run_close(&run);
    return KVS_OK;
}
