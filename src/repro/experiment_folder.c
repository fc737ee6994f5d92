#include "repro/experiment_folder.h"

#include "base/files.h"
#include "base/folders.h"
#include "base/machine.h"
#include "base/memory.h"
#include "repro/texts.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char PLAN[] = "plan.json", EXPERIMENT[] = "experiment.json",
                  RESULTS[] = "results.json";

enum { FILE_LIMIT = 1 << 24 };

static kvs_status fail_memory(const char *dir, kvs_err *err)
{
    return kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", dir);
}

/* Writes DIR/NAME; steals the reference of `value`. */
static kvs_status write_json(const char *dir, const char *name, json_t *value, kvs_err *err)
{
    char *path = kvsi_path_join(dir, name);
    const kvs_status st = path && value ? kvsi_json_write(value, path, err) : fail_memory(dir, err);

    json_decref(value);
    kvsi_free(path);
    return st;
}

static kvs_status write_text(const char *dir, const char *name, const kvsi_text *text, kvs_err *err)
{
    char *path = kvsi_path_join(dir, name);
    kvs_status st;

    if (!path)
        return fail_memory(dir, err);
    TRY_OUT(kvsi_text_check(text, err));
    TRY_OUT(kvsi_file_write_text(path, text->data, err));
out:
    kvsi_free(path);
    return st;
}

/* ---- the beginning --------------------------------------------------------------------------- */

static kvs_status describe(json_t **out, const kvsi_experiment *experiment,
                           const kvs_repro_options *options, kvs_err *err)
{
    json_t *texts = NULL;
    kvs_status st;

    *out = NULL;
    TRY_OUT(kvsi_texts_describe(&texts, options, err));
    *out = json_pack("{s:s, s:s, s:O, s:s?, s:f}", "experiment", experiment->about.name, "scale",
                     kvs_scale_name(options->scale), "texts", texts, "model", options->model,
                     "dropout", options->dropout);
    if (!*out)
        st = fail_memory(options->out, err);
out:
    json_decref(texts);
    return st;
}

/* Reports the first difference. */
static kvs_status compare(const json_t *before, const json_t *now, const char *path, kvs_err *err)
{
    static const char *const keys[] = {"experiment", "scale", "texts", "model", "dropout"};

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json_t *old = json_object_get(before, keys[i]), *new = json_object_get(now, keys[i]);

        if (json_equal(old, new))
            continue;
        if (json_is_string(old) && json_is_string(new))
            return kvsi_fail(err, KVS_E_INVALID,
                             "'%s' is for %s '%s', expected '%s'; choose another folder", path,
                             keys[i], json_string_value(old), json_string_value(new));
        return kvsi_fail(err, KVS_E_INVALID, "'%s' is for other %s; choose another folder", path,
                         keys[i]);
    }
    return KVS_OK;
}

static kvs_status refuse_used(const char *dir, kvs_err *err)
{
    kvsi_name_list names = {0};
    kvs_status st;

    TRY_OUT(kvsi_dir_list(&names, dir, "", err));
    if (names.count > 0)
        st = kvsi_fail(err, KVS_E_IO, "the folder '%s' is not empty ('%s'), and not an experiment",
                       dir, names.names[0]);
out:
    kvsi_name_list_release(&names);
    return st;
}

/* *found: the folder holds an experiment, which must be this one.  *now: contents of plan.json, a
 * new reference. */
static kvs_status find_plan(int *found, json_t **now, const char *path,
                            const kvsi_experiment *experiment, const kvs_repro_options *options,
                            kvs_err *err)
{
    json_t *before = NULL;
    kvs_status st;

    *now = NULL;
    if (!path)
        return fail_memory(options->out, err);
    TRY_OUT(describe(now, experiment, options, err));
    *found = kvsi_file_exists(path);
    if (!*found)
        goto out;
    TRY_OUT(kvsi_json_read(&before, path, FILE_LIMIT, err));
    TRY_OUT(compare(before, *now, path, err));
out:
    json_decref(before);
    return st;
}

kvs_status kvsi_experiment_begin(const kvsi_experiment *experiment,
                                 const kvs_repro_options *options, kvs_err *err)
{
    char *path = kvsi_path_join(options->out, PLAN);
    json_t *now;
    kvs_status st;
    int found, made;

    TRY_OUT(find_plan(&found, &now, path, experiment, options, err));
    if (!found) {
        TRY_OUT(refuse_used(options->out, err));
        TRY_OUT(kvsi_dir_make(options->out, &made, err));
        TRY_OUT(kvsi_json_write(now, path, err));
    } else if (!options->resume) {
        st = kvsi_fail(err, KVS_E_IO,
                       "'%s' already holds this experiment; resume it or choose another folder",
                       options->out);
    }
out:
    json_decref(now);
    kvsi_free(path);
    return st;
}

kvs_status kvsi_experiment_join(const kvsi_experiment *experiment, const kvs_repro_options *options,
                                kvs_err *err)
{
    char *path = kvsi_path_join(options->out, PLAN);
    json_t *now;
    int found;
    kvs_status st = find_plan(&found, &now, path, experiment, options, err);

    if (st == KVS_OK && !found)
        st = kvsi_fail(err, KVS_E_IO,
                       "'%s' is missing on this rank: all ranks need a shared folder", path);
    json_decref(now);
    kvsi_free(path);
    return st;
}

int kvsi_experiment_has_texts(const char *dir, const json_t *texts)
{
    char *path = kvsi_path_join(dir, PLAN);
    json_t *plan = NULL;
    int has =
        path && kvsi_file_exists(path) && kvsi_json_read(&plan, path, FILE_LIMIT, NULL) == KVS_OK;

    if (has && texts)
        has = json_equal(json_object_get(plan, "texts"), texts);
    json_decref(plan);
    kvsi_free(path);
    return has;
}

/* ---- the end --------------------------------------------------------------------------------- */

static json_t *machine(const kvs_runtime *rt)
{
    char processor[128];

    kvsi_machine_processor(processor, sizeof processor);
    return json_pack("{s:s, s:i, s:s, s:s, s:s}", "processor", processor, "threads",
                     kvs_runtime_threads(rt), "cpu_level", kvs_runtime_cpu_level(rt), "kvshift",
                     kvs_build()->version, "commit", kvs_build()->commit);
}

static double all_seconds(const kvsi_results *results)
{
    double seconds = 0;

    for (size_t i = 0; i < results->count; i++)
        seconds += results->runs[i].log.summary.seconds;
    return seconds;
}

static json_t *summary(const kvsi_experiment *experiment, const kvsi_results *results,
                       const kvsi_claims *claims, double seconds)
{
    const kvs_experiment *about = &experiment->about;
    const kvs_repro_options *options = results->options;
    char now[32];

    kvsi_machine_time(now, sizeof now);
    /* clang-format off */
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:s, s:o, s:f, s:s, s:O, s:O, s:O}",
                     "experiment", about->name,
                     "figure", about->figure,
                     "claim", about->claim,
                     "scale", kvs_scale_name(options->scale),
                     "settings", about->settings[options->scale],
                     "seeds", (json_int_t)results->plan->seeds,
                     "runs", (json_int_t)results->count,
                     "command", options->command ? options->command : "",
                     "machine", machine(results->rt),
                     "seconds", seconds + all_seconds(results),
                     "finished", now,
                     "figures", claims->figures,
                     "tables", claims->tables,
                     "remarks", claims->remarks);
    /* clang-format on */
}

static void add_number(kvsi_text *text, double number)
{
    kvsi_text_add(text, ",");
    if (isfinite(number))
        kvsi_text_format(text, "%.8g", number);
}

static void runs_to_csv(kvsi_text *text, const kvsi_results *results)
{
    kvsi_text_add(text, "run,arm,seed,parameters,steps,tokens,state,final_loss,final_accuracy,"
                        "step_at_99,seconds\n");
    for (size_t i = 0; i < results->count; i++) {
        const kvsi_run_result *run = results->runs + i;
        const kvs_run_summary *s = &run->log.summary;

        kvsi_text_format(text, "%s,\"%s\",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%s",
                         run->plan->name, run->plan->arm, run->plan->seed,
                         run->plan->view.parameters, s->steps, s->tokens,
                         run->diverged ? "diverged" : "done");
        add_number(text, kvsi_final_loss(run));
        add_number(text, s->final_accuracy);
        add_number(text, kvsi_step_at_99(run));
        add_number(text, s->seconds);
        kvsi_text_add(text, "\n");
    }
}

static kvs_status write_runs(const kvsi_results *results, kvs_err *err)
{
    kvsi_text text = {0};
    kvs_status st = KVS_OK;

    if (results->count > 0) {
        runs_to_csv(&text, results);
        st = write_text(results->options->out, "runs.csv", &text, err);
    }
    kvsi_text_release(&text);
    return st;
}

static kvs_status write_page(const kvsi_saved *saved, const char *name, int markdown, kvs_err *err)
{
    char *path = kvsi_path_join(saved->dir, name);
    kvsi_page page = {.markdown = markdown};
    kvs_status st;

    if (!path)
        return fail_memory(saved->dir, err);
    TRY_OUT(kvsi_saved_page(&page, saved, err));
    TRY_OUT(kvsi_page_write(&page, path, err));
out:
    kvsi_page_release(&page);
    kvsi_free(path);
    return st;
}

static kvs_status write_pages(const char *dir, kvs_err *err)
{
    kvsi_saved saved = {0};
    kvs_status st;

    TRY_OUT(kvsi_saved_open(&saved, dir, err));
    TRY_OUT(write_page(&saved, "page.html", 0, err));
    TRY_OUT(write_page(&saved, "page.md", 1, err));
out:
    kvsi_saved_close(&saved);
    return st;
}

/* experiment.json marks the experiment as finished, so it comes after the files it names. */
kvs_status kvsi_experiment_finish(const kvsi_experiment *experiment, const kvsi_results *results,
                                  const kvsi_claims *claims, double seconds, kvs_err *err)
{
    const char *dir = results->options->out;

    TRY(write_runs(results, err));
    TRY(write_json(dir, RESULTS, json_incref(claims->claims), err));
    TRY(write_json(dir, EXPERIMENT, summary(experiment, results, claims, seconds), err));
    return write_pages(dir, err);
}

/* ---- reading back ---------------------------------------------------------------------------- */

int kvsi_saved_exists(const char *dir)
{
    char *path = kvsi_path_join(dir, EXPERIMENT);
    const int exists = path && kvsi_file_exists(path);

    kvsi_free(path);
    return exists;
}

/* All rows of a table must have as many cells as the first. */
static kvs_status check_tables(const json_t *tables, const char *what, kvs_err *err)
{
    for (size_t t = 0; t < json_array_size(tables); t++) {
        const json_t *rows = json_object_get(json_array_get(tables, t), "rows");
        const size_t columns = json_array_size(json_array_get(rows, 0));

        for (size_t r = 0; r < json_array_size(rows); r++)
            if (json_array_size(json_array_get(rows, r)) != columns)
                return kvsi_fail(err, KVS_E_FORMAT,
                                 "'%s': table %zu, row %zu: expected %zu cells, found %zu", what, t,
                                 r, columns, json_array_size(json_array_get(rows, r)));
    }
    return KVS_OK;
}

/* Checks what pages rely on. */
static kvs_status check(const kvsi_saved *saved, const char *what, kvs_err *err)
{
    static const char *const texts[] = {"experiment", "figure",  "claim",   "scale",
                                        "settings",   "command", "finished"};
    static const char *const lists[] = {"figures", "tables", "remarks"};
    const char *text;
    double seconds;

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        TRY(kvsi_json_require(saved->experiment, texts[i], what, err));
        TRY(kvsi_json_get_text(&text, saved->experiment, texts[i], what, err));
    }
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (!json_is_array(json_object_get(saved->experiment, lists[i])))
            return kvsi_fail(err, KVS_E_FORMAT, "'%s': key '%s': expected an array", what,
                             lists[i]);
    TRY(kvsi_json_require(saved->experiment, "seconds", what, err));
    TRY(kvsi_json_get_real(&seconds, saved->experiment, "seconds", what, err));
    return check_tables(json_object_get(saved->experiment, "tables"), what, err);
}

kvs_status kvsi_saved_open(kvsi_saved *saved, const char *dir, kvs_err *err)
{
    char *experiment = kvsi_path_join(dir, EXPERIMENT), *results = kvsi_path_join(dir, RESULTS);
    kvs_status st;

    *saved = (kvsi_saved){.dir = kvsi_strdup(dir)};
    if (!experiment || !results || !saved->dir) {
        st = fail_memory(dir, err);
        goto out;
    }
    TRY_OUT(kvsi_json_read(&saved->experiment, experiment, FILE_LIMIT, err));
    TRY_OUT(check(saved, experiment, err));
    TRY_OUT(kvsi_json_read_list(&saved->claims, results, FILE_LIMIT, err));
out:
    if (st != KVS_OK)
        kvsi_saved_close(saved);
    kvsi_free(experiment);
    kvsi_free(results);
    return st;
}

void kvsi_saved_close(kvsi_saved *saved)
{
    kvsi_free(saved->dir);
    json_decref(saved->experiment);
    json_decref(saved->claims);
    *saved = (kvsi_saved){0};
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

static double number_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    return json_is_number(value) ? json_number_value(value) : NAN;
}

static kvs_verdict verdict_of(const json_t *claim)
{
    const char *name = text_of(claim, "verdict");

    for (int v = KVS_VERDICT_REPRODUCED; v < KVS_VERDICT_TOO_SMALL; v++)
        if (strcmp(name, kvs_verdict_name((kvs_verdict)v)) == 0)
            return (kvs_verdict)v;
    return KVS_VERDICT_TOO_SMALL;
}

size_t kvsi_saved_claims(kvs_claim *out, size_t capacity, const json_t *claims)
{
    size_t count = 0;

    for (; count < capacity && count < json_array_size(claims); count++) {
        const json_t *claim = json_array_get(claims, count);
        const json_int_t seeds = json_integer_value(json_object_get(claim, "seeds"));

        out[count] = (kvs_claim){
            .claim = text_of(claim, "claim"),
            .paper = text_of(claim, "paper"),
            .ours = number_of(claim, "ours"),
            .error = number_of(claim, "stderr"),
            .unit = text_of(claim, "unit"),
            .seeds = seeds > 0 ? (size_t)seeds : 0,
            .verdict = verdict_of(claim),
            .detail = text_of(claim, "detail"),
        };
    }
    return count;
}
