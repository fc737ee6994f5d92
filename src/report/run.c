#include "report/run.h"

#include "base/memory.h"
#include "formats/hf.h"
#include "kvshift/kvshift_files.h"
#include "kvshift/kvshift_lab.h"
#include "report/settings.h"
#include "run/progress.h"
#include "run/result.h"
#include "run/run_read.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static kvs_status fail_memory(const char *path, kvs_err *err)
{
    return kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", path);
}

/* The last part of the path, without trailing slashes. */
static void set_name(kvs_run_summary *summary, const char *dir)
{
    size_t end = strlen(dir), start;

    while (end > 1 && dir[end - 1] == '/')
        end--;
    for (start = end; start > 0 && dir[start - 1] != '/';)
        start--;
    snprintf(summary->name, sizeof summary->name, "%.*s", (int)(end - start), dir + start);
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

static kvs_status read_train_and_task(kvsi_run *run, const json_t *settings, const char *what,
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
    run->is_text = strcmp(name, "corpus") == 0 || strcmp(name, "records") == 0;
    return KVS_OK;
}

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

/* A resumed run may have been given more steps than its first line has. */
static kvs_status read_settings(kvsi_run *run, const json_t *settings, const char *what,
                                kvs_err *err)
{
    kvs_run_summary *summary = &run->summary;
    const uint64_t steps = run->points[run->point_count - 1].step;
    kvs_model_config config;

    TRY(read_origin(run, settings, what, err));
    TRY(get_count(&summary->parameters, settings, "parameters", what, err));
    TRY(read_model(&config, summary, settings, what, err));
    TRY(read_train_and_task(run, settings, what, err));
    if (summary->planned_steps < steps)
        summary->planned_steps = steps;
    run->settings = kvsi_settings_list(settings, &config, summary->planned_steps);
    if (!run->settings)
        return fail_memory(what, err);
    return KVS_OK;
}

/* ---- the log --------------------------------------------------------------------------------- */

static void add_record(kvsi_run *run, const kvs_step_record *record)
{
    kvs_run_summary *summary = &run->summary;

    summary->steps = record->step;
    summary->tokens += record->tokens;
    summary->seconds += isnan(record->seconds) ? 0 : record->seconds;
    run->points[run->point_count++] = (kvsi_run_point){.step = record->step,
                                                       .tokens = summary->tokens,
                                                       .loss = record->loss,
                                                       .accuracy = record->accuracy,
                                                       .lr = record->lr,
                                                       .grad_norm = record->grad_norm,
                                                       .seconds = summary->seconds,
                                                       .k = record->k_shift,
                                                       .v = record->v_shift};
    if (!isnan(record->eval_loss))
        run->evaluations[run->evaluation_count++] =
            (kvsi_run_evaluation){.step = record->step, .loss = record->eval_loss};
}

static kvs_status read_log(kvsi_run *run, const char *dir, kvs_err *err)
{
    kvsi_run_log log;
    char what[512];
    kvs_status st;

    TRY_OUT(kvsi_run_log_open(&log, dir, err));
    run->points = kvsi_alloc(log.lines, sizeof *run->points);
    run->evaluations = kvsi_alloc(log.lines, sizeof *run->evaluations);
    if (!run->points || !run->evaluations) {
        st = fail_memory(log.path, err);
        goto out;
    }
    for (;;) {
        kvs_step_record record;
        int found;

        TRY_OUT(kvsi_run_log_next(&log, &record, &found, err));
        if (!found)
            break;
        add_record(run, &record);
    }
    if (run->point_count == 0) {
        st = kvsi_fail(err, KVS_E_FORMAT, "'%s': expected settings and steps, found %zu lines",
                       log.path, log.lines);
        goto out;
    }
    snprintf(what, sizeof what, "%s line 1", log.path);
    TRY_OUT(read_settings(run, log.settings, what, err));
out:
    kvsi_run_log_close(&log);
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

/* A result with another number of steps than the log is from an earlier end, after which the run
 * was resumed. */
static kvs_status read_result(kvsi_run *run, const char *dir, kvs_err *err)
{
    kvs_run_summary *summary = &run->summary;
    kvs_train_result result = {.size = sizeof(kvs_train_result)};
    int found;

    TRY(kvsi_result_read(&result, &found, dir, err));
    if (!found || result.steps != summary->steps)
        return KVS_OK;
    summary->ended = 1;
    summary->final_loss = result.final.loss;
    summary->final_accuracy = result.final.accuracy;
    summary->seconds = result.seconds;
    summary->step_at_99 = result.step_at_99;
    add_final_evaluation(run);
    return KVS_OK;
}

/* ---- the run --------------------------------------------------------------------------------- */

kvs_status kvsi_run_open(kvsi_run *run, const char *dir, kvs_err *err)
{
    kvs_status st;

    *run = (kvsi_run){.summary = {.final_accuracy = NAN, .final_loss = NAN}};
    set_name(&run->summary, dir);
    run->dir = kvsi_strdup(dir);
    if (!run->dir)
        return fail_memory(dir, err);
    TRY_OUT(read_log(run, dir, err));
    TRY_OUT(read_result(run, dir, err));
    TRY_OUT(kvsi_benchmarks_read(&run->benchmarks, &run->benchmark_count, dir, err));
out:
    if (st != KVS_OK)
        kvsi_run_close(run);
    return st;
}

void kvsi_run_close(kvsi_run *run)
{
    json_decref(run->settings);
    kvsi_run_extras_release(&run->extras);
    kvsi_free(run->dir);
    kvsi_free(run->command);
    kvsi_free(run->points);
    kvsi_free(run->evaluations);
    kvsi_benchmarks_free(run->benchmarks, run->benchmark_count);
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
    const size_t first = last + 1 > KVSI_RECENT_BATCHES ? last + 1 - KVSI_RECENT_BATCHES : 0;
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
