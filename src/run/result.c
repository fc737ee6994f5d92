#include "run/result.h"

#include "base/files.h"
#include "base/json.h"
#include "base/memory.h"
#include "run/run.h"

enum { RESULT_LIMIT = 1 << 20 }; /* bytes */

/* ---- writing --------------------------------------------------------------------------------- */

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

kvs_status kvsi_result_write(const char *dir, const kvs_train_result *result, kvs_err *err)
{
    const kvs_evaluation *const final = &result->final;
    json_t *const step_at_99 =
        result->step_at_99 > 0 ? json_integer((json_int_t)result->step_at_99) : json_null();
    /* clang-format off */
    json_t *const json =
        json_pack("{s:I, s:o, s:o, s:o*, s:o, s:o, s:I}",
                  "steps", (json_int_t)result->steps,
                  "final_loss", kvsi_json_number(final->loss),
                  "final_accuracy", kvsi_json_number(final->accuracy),
                  "accuracy_by_length", lengths_json(final),
                  "step_at_99", step_at_99,
                  "seconds", kvsi_json_number(result->seconds),
                  "tokens", (json_int_t)result->tokens);
    /* clang-format on */
    char *path;
    kvs_status st;

    TRY_OUT(kvsi_run_path(&path, dir, KVSI_RUN_RESULT, err));
    TRY_OUT(kvsi_json_write(json, path, err));
out:
    json_decref(json);
    kvsi_free(path);
    return st;
}

/* ---- reading --------------------------------------------------------------------------------- */

static kvs_status read_fields(kvs_train_result *out, const json_t *json, const char *path,
                              kvs_err *err)
{
    const struct {
        const char *key;
        double *value;
    } numbers[] = {{"final_loss", &out->final.loss},
                   {"final_accuracy", &out->final.accuracy},
                   {"seconds", &out->seconds}};
    size_t steps = 0, step_at_99 = 0;

    TRY(kvsi_json_require(json, "steps", path, err));
    TRY(kvsi_json_get_size(&steps, json, "steps", path, err));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        TRY(kvsi_json_require(json, numbers[i].key, path, err));
        TRY(kvsi_json_get_number(numbers[i].value, json, numbers[i].key, path, err));
    }
    TRY(kvsi_json_require(json, "step_at_99", path, err));
    if (!json_is_null(json_object_get(json, "step_at_99")))
        TRY(kvsi_json_get_size(&step_at_99, json, "step_at_99", path, err));
    out->steps = steps;
    out->step_at_99 = step_at_99;
    return KVS_OK;
}

kvs_status kvsi_result_read(kvs_train_result *out, int *found, const char *dir, kvs_err *err)
{
    json_t *json = NULL;
    char *path;
    kvs_status st;

    *out = (kvs_train_result){0};
    *found = 0;
    TRY_OUT(kvsi_run_path(&path, dir, KVSI_RUN_RESULT, err));
    if (!kvsi_file_exists(path))
        goto out;
    TRY_OUT(kvsi_json_read(&json, path, RESULT_LIMIT, err));
    TRY_OUT(read_fields(out, json, path, err));
    *found = 1;
out:
    json_decref(json);
    kvsi_free(path);
    return st;
}

uint64_t kvsi_result_steps(const char *dir)
{
    char *path = kvsi_path_join(dir, KVSI_RUN_RESULT);
    json_t *json = NULL;
    size_t steps = 0;

    if (path && kvsi_json_read(&json, path, RESULT_LIMIT, NULL) == KVS_OK &&
        kvsi_json_get_size(&steps, json, "steps", path, NULL) != KVS_OK)
        steps = 0;
    json_decref(json);
    kvsi_free(path);
    return steps;
}
