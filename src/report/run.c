#include "report/run.h"

#include "base/files.h"
#include "base/memory.h"
#include "formats/hf.h"
#include "report/settings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RECENT_BATCHES = 20 };

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
    TRY(kvsi_json_require(object, key, what, err));
    *out = NAN;
    if (!json_is_null(json_object_get(object, key)))
        TRY(kvsi_json_get_real(out, object, key, what, err));
    return KVS_OK;
}

static kvs_status get_count(uint64_t *out, const json_t *object, const char *key, const char *what,
                            kvs_err *err)
{
    size_t count = 0;

    TRY(kvsi_json_require(object, key, what, err));
    TRY(kvsi_json_get_size(&count, object, key, what, err));
    *out = count;
    return KVS_OK;
}

/* The same where it may be left out too. */
static kvs_status get_number_if_any(double *out, const json_t *object, const char *key,
                                    const char *what, kvs_err *err)
{
    *out = NAN;
    return json_object_get(object, key) ? get_number(out, object, key, what, err) : KVS_OK;
}

/* ---- the settings ---------------------------------------------------------------------------- */

static kvs_status read_model(kvs_model_config *config, kvs_run_summary *summary,
                             const json_t *settings, const char *what, kvs_err *err)
{
    TRY(kvsi_json_require(settings, "model", what, err));
    TRY(kvsi_hf_config_from_json(config, json_object_get(settings, "model"), what, err));
    summary->layers = config->layers;
    summary->dim = config->dim;
    summary->heads = config->heads;
    kvsi_describe_shift(summary->shift, sizeof summary->shift, &config->shift);
    return KVS_OK;
}

/* How it was to be trained, and on what. */
static kvs_status read_purpose(kvsi_run *run, const json_t *settings, const char *what,
                               kvs_err *err)
{
    const json_t *train = json_object_get(settings, "train"),
                 *task = json_object_get(settings, "task");
    const char *name = "";

    TRY(kvsi_json_require(settings, "train", what, err));
    TRY(kvsi_json_require(settings, "task", what, err));
    TRY(get_count(&run->summary.seed, train, "seed", what, err));
    TRY(get_count(&run->summary.planned_steps, train, "steps", what, err));
    TRY(kvsi_json_require(task, "name", what, err));
    TRY(kvsi_json_get_text(&name, task, "name", what, err));
    run->is_text = strcmp(name, "corpus") == 0;
    return KVS_OK;
}

/* The program and the machine. */
static kvs_status read_origin(kvsi_run *run, const json_t *settings, const char *what, kvs_err *err)
{
    const char *command = "", *version = "", *cpu_level = "";

    TRY(kvsi_json_require(settings, "kvshift", what, err));
    TRY(kvsi_json_get_text(&version, settings, "kvshift", what, err));
    if (!json_is_null(json_object_get(settings, "command")))
        TRY(kvsi_json_get_text(&command, settings, "command", what, err));
    TRY(kvsi_json_get_text(&cpu_level, settings, "cpu_level", what, err));
    TRY(kvsi_json_get_size(&run->threads, settings, "threads", what, err));
    snprintf(run->version, sizeof run->version, "%s", version);
    snprintf(run->cpu_level, sizeof run->cpu_level, "%s", cpu_level);
    run->command = kvsi_strdup(command);
    if (!run->command)
        return fail_memory(what, err);
    return KVS_OK;
}

/* A run that went on for longer than its first line says was given more steps later. */
static kvs_status read_settings(kvsi_run *run, const json_t *settings, const char *what,
                                kvs_err *err)
{
    kvs_run_summary *summary = &run->summary;
    const uint64_t steps = run->points[run->point_count - 1].step;
    kvs_model_config config;

    TRY(read_origin(run, settings, what, err));
    TRY(get_count(&summary->parameters, settings, "parameters", what, err));
    TRY(read_model(&config, summary, settings, what, err));
    TRY(read_purpose(run, settings, what, err));
    if (summary->planned_steps < steps)
        summary->planned_steps = steps;
    run->settings = kvsi_settings_list(settings, &config, summary->planned_steps);
    if (!run->settings)
        return fail_memory(what, err);
    return KVS_OK;
}

/* ---- the log --------------------------------------------------------------------------------- */

/* What one record adds to the sums over the run. */
static kvs_status read_amounts(kvsi_run *run, kvsi_run_point *point, const json_t *record,
                               const char *what, kvs_err *err)
{
    size_t tokens = 0;
    double seconds = 0;

    TRY(kvsi_json_get_size(&tokens, record, "tokens", what, err));
    TRY(get_number_if_any(&seconds, record, "seconds", what, err));
    run->summary.tokens += tokens;
    run->summary.seconds += isnan(seconds) ? 0 : seconds;
    point->tokens = run->summary.tokens;
    return KVS_OK;
}

static kvs_status read_point(kvsi_run *run, const json_t *record, const char *what, kvs_err *err)
{
    kvsi_run_point *point = run->points + run->point_count;
    const uint64_t before = run->point_count ? point[-1].step : 0;
    double evaluated;

    TRY(get_count(&point->step, record, "step", what, err));
    if (point->step <= before)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s': step %zu follows step %zu, expected a later one",
                         what, (size_t)point->step, (size_t)before);
    TRY(read_amounts(run, point, record, what, err));
    TRY(get_number_if_any(&point->loss, record, "loss", what, err));
    TRY(get_number_if_any(&point->accuracy, record, "accuracy", what, err));
    TRY(get_number_if_any(&evaluated, record, "eval_loss", what, err));
    if (!isnan(evaluated))
        run->evaluations[run->evaluation_count++] =
            (kvsi_run_evaluation){.step = point->step, .loss = evaluated};
    run->point_count++;
    run->summary.steps = point->step;
    return KVS_OK;
}

/* The settings, on line 1, are kept until the last step is known. */
static kvs_status read_line(kvsi_run *run, json_t **settings, size_t number, const char *line,
                            size_t length, const char *path, kvs_err *err)
{
    json_t *object = NULL;
    char what[512];
    kvs_status st;

    snprintf(what, sizeof what, "%s line %zu", path, number);
    TRY_OUT(kvsi_json_parse(&object, line, length, what, err));
    if (number == 1)
        *settings = json_incref(object);
    else
        TRY_OUT(read_point(run, object, what, err));
out:
    json_decref(object);
    return st;
}

static size_t count_lines(const char *text, size_t size)
{
    size_t lines = 0;

    for (size_t i = 0; i < size; i++)
        lines += text[i] == '\n';
    return lines;
}

/* A line without an end is one that is being written. */
static kvs_status read_lines(kvsi_run *run, json_t **settings, const char *log, size_t size,
                             const char *path, kvs_err *err)
{
    size_t number = 0;

    for (const char *line = log, *end; (end = memchr(line, '\n', (size_t)(log + size - line)));
         line = end + 1)
        TRY(read_line(run, settings, ++number, line, (size_t)(end - line), path, err));
    if (run->point_count == 0)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s': expected settings and steps, found %zu lines",
                         path, number);
    return KVS_OK;
}

static kvs_status read_log(kvsi_run *run, const char *path, kvs_err *err)
{
    char *log = NULL, what[512];
    size_t size = 0, lines;
    json_t *settings = NULL;
    kvs_status st;

    snprintf(what, sizeof what, "%s line 1", path);
    TRY_OUT(kvsi_file_read(&log, &size, path, LOG_LIMIT, err));
    lines = count_lines(log, size);
    run->points = kvsi_alloc(lines, sizeof *run->points);
    run->evaluations = kvsi_alloc(lines, sizeof *run->evaluations);
    if (!run->points || !run->evaluations) {
        st = fail_memory(path, err);
        goto out;
    }
    TRY_OUT(read_lines(run, &settings, log, size, path, err));
    TRY_OUT(read_settings(run, settings, what, err));
out:
    json_decref(settings);
    kvsi_free(log);
    return st;
}

/* ---- the result ------------------------------------------------------------------------------ */

/* The final loss is an evaluation like the others, and may be one of them. */
static void add_final_evaluation(kvsi_run *run)
{
    const kvs_run_summary *s = &run->summary;
    const size_t count = run->evaluation_count;

    if (isnan(s->final_loss))
        return;
    if (count == 0 || run->evaluations[count - 1].step < s->steps)
        run->evaluation_count++;
    run->evaluations[run->evaluation_count - 1] =
        (kvsi_run_evaluation){.step = s->steps, .loss = s->final_loss};
}

/* A result of fewer or more steps than are logged is that of an earlier end, after which the run
 * was resumed. */
static kvs_status read_result(kvsi_run *run, const char *path, kvs_err *err)
{
    kvs_run_summary *summary = &run->summary, end = *summary;
    json_t *object = NULL;
    kvs_status st;

    TRY_OUT(kvsi_json_read(&object, path, RESULT_LIMIT, err));
    TRY_OUT(get_count(&end.steps, object, "steps", path, err));
    TRY_OUT(get_number(&end.final_loss, object, "final_loss", path, err));
    TRY_OUT(get_number(&end.final_accuracy, object, "final_accuracy", path, err));
    TRY_OUT(get_number(&end.seconds, object, "seconds", path, err));
    if (!json_is_null(json_object_get(object, "step_at_99")))
        TRY_OUT(get_count(&end.step_at_99, object, "step_at_99", path, err));
    if (end.steps == summary->steps) {
        end.ended = 1;
        *summary = end;
        add_final_evaluation(run);
    }
out:
    json_decref(object);
    return st;
}

/* ---- the run --------------------------------------------------------------------------------- */

kvs_status kvsi_run_open(kvsi_run *run, const char *dir, kvs_err *err)
{
    char *log = kvsi_path_join(dir, "train.jsonl"), *result = kvsi_path_join(dir, "result.json");
    kvs_status st;

    *run = (kvsi_run){.summary = {.final_accuracy = NAN, .final_loss = NAN}};
    if (!log || !result) {
        st = fail_memory(dir, err);
        goto out;
    }
    set_name(&run->summary, dir);
    TRY_OUT(read_log(run, log, err));
    if (kvsi_file_exists(result))
        TRY_OUT(read_result(run, result, err));
out:
    if (st != KVS_OK)
        kvsi_run_close(run);
    kvsi_free(log);
    kvsi_free(result);
    return st;
}

void kvsi_run_close(kvsi_run *run)
{
    json_decref(run->settings);
    kvsi_free(run->command);
    kvsi_free(run->points);
    kvsi_free(run->evaluations);
    *run = (kvsi_run){0};
}

int kvsi_run_is_complete(const kvsi_run *run)
{
    const kvs_run_summary *s = &run->summary;

    return s->ended && s->steps == s->planned_steps && !isnan(s->final_loss);
}

static int compare_steps(const void *a, const void *b)
{
    const uint64_t x = ((const kvsi_run_evaluation *)a)->step,
                   y = ((const kvsi_run_evaluation *)b)->step;

    return (x > y) - (x < y);
}

double kvsi_run_loss_at(const kvsi_run *run, uint64_t step)
{
    const kvsi_run_evaluation key = {.step = step},
                              *found = bsearch(&key, run->evaluations, run->evaluation_count,
                                               sizeof key, compare_steps);

    return found ? found->loss : NAN;
}

double kvsi_run_recent_accuracy(const kvsi_run *run, size_t last)
{
    const size_t first = last + 1 > RECENT_BATCHES ? last + 1 - RECENT_BATCHES : 0;
    double sum = 0;
    size_t count = 0;

    for (size_t i = first; i <= last; i++) {
        if (isnan(run->points[i].accuracy))
            continue;
        sum += run->points[i].accuracy;
        count++;
    }
    return count ? sum / (double)count : NAN;
}
