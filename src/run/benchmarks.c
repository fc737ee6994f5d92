#include "run/benchmarks.h"

#include "base/array.h"
#include "base/files.h"
#include "base/memory.h"

#include <math.h>
#include <string.h>

enum { NAME_SIZE = 512 };
static const size_t FILE_LIMIT = (size_t)1 << 28; /* bytes */

json_t *kvsi_benchmarks_to_json(uint64_t step, const kvs_benchmark_scores *scores)
{
    json_t *list = json_array();

    for (size_t i = 0; i < scores->count; i++) {
        const kvs_benchmark_score *s = &scores->scores[i];

        json_array_append_new(
            list, json_pack("{s:s, s:s, s:o, s:o, s:I}", "task", s->task, "metric", s->metric,
                            "value", kvsi_json_number(s->value), "error",
                            kvsi_json_number(s->error), "documents", (json_int_t)s->documents));
    }
    return json_pack("{s:I, s:o}", "step", (json_int_t)step, "scores", list);
}

/* A finite number; NaN if it is null. */
static kvs_status get_score(double *out, const json_t *object, const char *key, const char *what,
                            kvs_err *err)
{
    *out = NAN;
    return json_is_null(json_object_get(object, key))
               ? KVS_OK
               : kvsi_json_get_number(out, object, key, what, err);
}

static kvs_status read_score(kvsi_benchmark *out, const json_t *json, const char *what,
                             kvs_err *err)
{
    const char *task = NULL, *metric = NULL;

    TRY(kvsi_json_require(json, "task", what, err));
    TRY(kvsi_json_require(json, "metric", what, err));
    TRY(kvsi_json_get_text(&task, json, "task", what, err));
    TRY(kvsi_json_get_text(&metric, json, "metric", what, err));
    TRY(get_score(&out->value, json, "value", what, err));
    TRY(get_score(&out->error, json, "error", what, err));
    TRY(kvsi_json_get_size(&out->documents, json, "documents", what, err));
    out->task = kvsi_strdup(task);
    out->metric = kvsi_strdup(metric);
    return out->task && out->metric ? KVS_OK : kvsi_no_memory(err, "'%s'", what);
}

typedef struct list {
    kvsi_benchmark *scores;
    size_t count, capacity;
} list;

static kvs_status read_line(list *l, const json_t *json, const char *what, kvs_err *err)
{
    const uint64_t before = l->count > 0 ? l->scores[l->count - 1].step : 0;
    const json_t *scores = json_object_get(json, "scores"), *score;
    size_t step = 0, i;

    TRY(kvsi_json_require(json, "step", what, err));
    TRY(kvsi_json_get_size(&step, json, "step", what, err));
    if (step <= before)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s': step %zu follows step %zu, expected a later one",
                         what, step, (size_t)before);
    if (!json_is_array(scores))
        return kvsi_fail(err, KVS_E_FORMAT, "'%s': expected an array 'scores'", what);
    json_array_foreach((json_t *)scores, i, score) {
        TRY(kvsi_array_reserve(&l->scores, &l->capacity, l->count + 1, sizeof *l->scores, err));
        l->scores[l->count] = (kvsi_benchmark){.step = step};
        TRY(read_score(&l->scores[l->count++], score, what, err));
    }
    return KVS_OK;
}

kvs_status kvsi_benchmarks_read(kvsi_benchmark **out, size_t *count, const char *dir, kvs_err *err)
{
    char *path = NULL, *text = NULL, what[NAME_SIZE];
    const char *line, *end;
    size_t size = 0, number = 0;
    list l = {0};
    json_t *json = NULL;
    kvs_status st;

    *out = NULL;
    *count = 0;
    TRY_OUT(kvsi_run_path(&path, dir, KVSI_RUN_BENCHMARKS, err));
    if (!kvsi_file_exists(path))
        goto out;
    TRY_OUT(kvsi_file_read(&text, &size, path, FILE_LIMIT, err));
    for (line = text; (end = memchr(line, '\n', size - (size_t)(line - text))); line = end + 1) {
        snprintf(what, sizeof what, "%s line %zu", path, ++number);
        TRY_OUT(kvsi_json_parse(&json, line, (size_t)(end - line), what, err));
        TRY_OUT(read_line(&l, json, what, err));
        json_decref(json);
        json = NULL;
    }
    *out = l.scores;
    *count = l.count;
    l = (list){0};
out:
    json_decref(json);
    kvsi_benchmarks_free(l.scores, l.count);
    kvsi_free(text);
    kvsi_free(path);
    return st;
}

void kvsi_benchmarks_free(kvsi_benchmark *scores, size_t count)
{
    for (size_t i = 0; scores && i < count; i++) {
        kvsi_free(scores[i].task);
        kvsi_free(scores[i].metric);
    }
    kvsi_free(scores);
}
