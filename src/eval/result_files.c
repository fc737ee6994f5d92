/* Result files in the format of lm-evaluation-harness: FOLDER/samples_TASK_DATE.jsonl, then
 * FOLDER/results_DATE.json.  Each appears only when complete. */
#include "base/files.h"
#include "base/memory.h"
#include "eval/evaluation.h"
#include "eval/hashes.h"
#include "eval/python_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { DATE_SIZE = 64 };

kvs_status kvsi_eval_model_folder(char **out, const char *dir, const char *model, kvs_err *err)
{
    static const char reserved[] = "\"<>:/|\\?*[]";
    kvsi_text text = {0};
    kvs_status st;

    kvsi_text_add(&text, dir);
    kvsi_text_add(&text, "/");
    for (const char *at = model; *at;) {
        const size_t run = strspn(at, reserved), plain = strcspn(at, reserved);

        if (run > 0)
            kvsi_text_add(&text, "__");
        else
            kvsi_text_add_bytes(&text, at, plain);
        at += run > 0 ? run : plain;
    }
    st = kvsi_text_check(&text, err);
    *out = st == KVS_OK ? text.data : NULL;
    if (st != KVS_OK)
        kvsi_text_release(&text);
    return st;
}

/* "2025-03-09T17-05-00.123456" */
static void print_date(char out[DATE_SIZE], double started)
{
    const time_t whole = (time_t)floor(started);
    const int micro = (int)((started - floor(started)) * 1e6);
    struct tm parts = {0};
    char second[32] = "";

    gmtime_r(&whole, &parts);
    strftime(second, sizeof second, "%Y-%m-%dT%H-%M-%S", &parts);
    snprintf(out, DATE_SIZE, "%s.%06d", second, micro);
}

/* ---- samples ---- */

static json_t *request_arguments(const kvsi_eval_request *r)
{
    json_t *second = r->continuation ? json_string(r->continuation)
                                     : json_pack("{s:[s], s:b, s:i}", "until",
                                                 "Problem:", "do_sample", 0, "temperature", 0);

    return json_pack("{s:s, s:o}", "arg_0", r->context, "arg_1", second);
}

/* ["-8.48", "False"] */
static json_t *response(const kvsi_eval_answer *a, size_t index)
{
    kvsi_text number = {0};
    json_t *pair;

    kvsi_python_float(&number, a->sums[index]);
    pair = json_pack("[s, s]", number.data ? number.data : "", a->greedy[index] ? "True" : "False");
    kvsi_text_release(&number);
    return pair;
}

static json_t *metric_value(const kvsi_eval_task *task, const char *metric, double value)
{
    if (task->kind == KVSI_EVAL_CHOICES || strcmp(metric, "perplexity") == 0)
        return json_real(value);
    return json_integer((json_int_t)value);
}

static kvs_status make_sample(json_t **out, const kvsi_eval_task *task, const kvsi_eval_document *d,
                              const kvsi_eval_answer *a, kvs_err *err)
{
    json_t *arguments = json_object(), *raw = json_array(), *filtered = json_array();
    json_t *metrics = json_array();
    kvsi_eval_hashes hashes;
    const char *metric;

    for (size_t i = 0; i < d->count; i++) {
        char key[40];

        snprintf(key, sizeof key, "gen_args_%zu", i);
        json_object_set_new(arguments, key, request_arguments(&d->requests[i]));
        if (a->text) {
            json_array_append_new(raw, json_pack("[s]", a->text));
            json_array_append_new(filtered, json_string(a->text));
        } else {
            json_array_append_new(raw, json_pack("[o]", response(a, i)));
            json_array_append_new(filtered, response(a, i));
        }
    }
    for (size_t i = 0; (metric = kvsi_eval_metric(task, i)); i++)
        json_array_append_new(metrics, json_string(metric));
    *out = json_pack("{s:I, s:O, s:s, s:o, s:o, s:o, s:s, s:o}", "doc_id", (json_int_t)d->id, "doc",
                     d->json, "target", d->target, "arguments", arguments, "resps", raw,
                     "filtered_resps", filtered, "filter", "none", "metrics", metrics);
    TRY(kvsi_json_check_made(*out, "a sample", err));
    TRY(kvsi_eval_document_hashes(&hashes, d, err));
    json_object_set_new(*out, "doc_hash", json_string(hashes.document));
    json_object_set_new(*out, "prompt_hash", json_string(hashes.prompt));
    json_object_set_new(*out, "target_hash", json_string(hashes.target));
    for (size_t i = 0; (metric = kvsi_eval_metric(task, i)); i++)
        json_object_set_new(*out, metric,
                            metric_value(task, metric, kvsi_eval_value(metric, d, a)));
    return KVS_OK;
}

static kvs_status write_sample(kvsi_new_file *file, const kvsi_eval_task *task,
                               const kvsi_eval_document *d, const kvsi_eval_answer *a, kvs_err *err)
{
    json_t *sample = NULL;
    char *line = NULL;
    kvs_status st;

    TRY_OUT(make_sample(&sample, task, d, a, err));
    TRY_OUT(kvsi_json_dump(&line, sample, JSON_REAL_PRECISION(17), "a sample", err));
    TRY_OUT(kvsi_new_file_write(file, line, strlen(line), err));
    st = kvsi_new_file_write(file, "\n", 1, err);
out:
    json_decref(sample);
    free(line);
    return st;
}

static kvs_status write_samples(const kvsi_eval_part *part, const char *folder, const char *date,
                                kvs_err *err)
{
    const kvsi_eval_task *t = part->task;
    kvsi_new_file *file = NULL;
    char name[256], *path;
    kvs_status st;

    snprintf(name, sizeof name, "samples_%.150s_%s.jsonl", t->name, date);
    path = kvsi_path_join(folder, name);
    if (!path)
        return kvsi_no_memory(err, "'%s'", name);
    TRY_OUT(kvsi_new_file_open(&file, path, err));
    for (size_t i = 0; i < t->count; i++)
        TRY_OUT(write_sample(file, t, &t->documents[i], &part->answers[i], err));
    st = kvsi_new_file_commit(file, err);
    file = NULL;
out:
    kvsi_new_file_abandon(file);
    kvsi_free(path);
    return st;
}

/* ---- results ---- */

static kvs_status write_results(char **path, const kvs_eval *e, size_t section, const char *folder,
                                const char *date, kvs_err *err)
{
    json_t *results = NULL;
    kvsi_text text = {0};
    char *json = NULL, name[DATE_SIZE + 32];
    kvs_status st;

    snprintf(name, sizeof name, "results_%s.json", date);
    *path = kvsi_path_join(folder, name);
    if (!*path)
        return kvsi_no_memory(err, "'%s'", name);
    TRY_OUT(kvsi_eval_section_results(&results, e, section, err));
    TRY_OUT(kvsi_json_dump(&json, results, JSON_INDENT(2) | JSON_REAL_PRECISION(17), "the results",
                           err));
    kvsi_text_add(&text, json);
    kvsi_text_add(&text, "\n");
    TRY_OUT(kvsi_text_check(&text, err));
    st = kvsi_file_write_text(*path, text.data, err);
out:
    free(json);
    kvsi_text_release(&text);
    json_decref(results);
    return st;
}

static kvs_status allocate_paths(kvs_eval *e, size_t count, kvs_err *err)
{
    e->paths = kvsi_alloc(count, sizeof *e->paths);
    return e->paths || count == 0 ? KVS_OK : kvsi_no_memory(err, "%zu paths", count);
}

static void forget_paths(kvs_eval *e)
{
    for (size_t i = 0; i < e->path_count; i++)
        kvsi_free(e->paths[i]);
    kvsi_free(e->paths);
    e->paths = NULL;
    e->path_count = 0;
}

/* ---- what is complete ---- */

/* Names the results files of the folder's newest complete evaluation, and its fingerprint. */
static const char completed[] = ".completed.json";
enum { COMPLETED_LIMIT = 16 << 20 }; /* bytes */

static kvs_status write_completed(const kvs_eval *e, const char *folder, const json_t *fingerprint,
                                  kvs_err *err)
{
    char *path = kvsi_path_join(folder, completed);
    json_t *names = json_array(), *json = NULL;
    kvs_status st;

    if (!path) {
        st = kvsi_no_memory(err, "'%s'", folder);
        goto out;
    }
    for (size_t i = 0; i < e->path_count; i++)
        json_array_append_new(names, kvsi_json_path(e->paths[i] + strlen(folder) + 1));
    json = json_pack("{s:O, s:O}", "fingerprint", (json_t *)fingerprint, "results", names);
    TRY_OUT(kvsi_json_check_made(json, "a fingerprint", err));
    st = kvsi_json_write(json, path, err);
out:
    json_decref(names);
    json_decref(json);
    kvsi_free(path);
    return st;
}

/* A file that is damaged counts as none. */
kvs_status kvsi_eval_find_files(kvs_eval *eval, const char *folder, const json_t *fingerprint,
                                kvs_err *err)
{
    char *path = kvsi_path_join(folder, completed);
    json_t *json = NULL;
    const json_t *names;
    kvs_status st = KVS_OK;

    if (!path)
        return kvsi_no_memory(err, "'%s'", folder);
    if (!kvsi_file_exists(path) || kvsi_json_read(&json, path, COMPLETED_LIMIT, NULL) != KVS_OK ||
        !json_equal(json_object_get(json, "fingerprint"), fingerprint))
        goto out;
    names = json_object_get(json, "results");
    TRY_OUT(allocate_paths(eval, json_array_size(names), err));
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = json_string_value(json_array_get(names, i));
        char *file = name ? kvsi_path_join(folder, name) : NULL;

        if (!file || !kvsi_file_exists(file)) {
            kvsi_free(file);
            forget_paths(eval);
            goto out;
        }
        eval->paths[eval->path_count++] = file;
    }
out:
    json_decref(json);
    kvsi_free(path);
    return st;
}

kvs_status kvsi_eval_write_files(kvs_eval *eval, const char *folder, const json_t *fingerprint,
                                 kvs_err *err)
{
    const size_t sections = eval->plan->section_count;
    char date[DATE_SIZE], *place = NULL;
    kvs_status st;

    TRY_OUT(allocate_paths(eval, sections, err));
    print_date(date, eval->started);
    for (size_t s = 0; s < sections; s++) {
        const char *title = eval->plan->sections[s].title;
        int made;

        kvsi_free(place);
        place = title ? kvsi_path_join(folder, title) : kvsi_strdup(folder);
        if (!place) {
            st = kvsi_no_memory(err, "'%s'", folder);
            goto out;
        }
        TRY_OUT(kvsi_dir_make(place, &made, err));
        for (size_t p = eval->section_starts[s]; p < eval->section_starts[s + 1]; p++)
            TRY_OUT(write_samples(&eval->parts[p], place, date, err));
        eval->path_count++;
        TRY_OUT(write_results(&eval->paths[s], eval, s, place, date, err));
    }
    st = write_completed(eval, folder, fingerprint, err);
out:
    kvsi_free(place);
    if (st != KVS_OK)
        forget_paths(eval);
    return st;
}
