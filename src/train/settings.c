#include "train/settings.h"

#include "base/memory.h"
#include "config/config.h"
#include "data/data.h"
#include "formats/hf.h"
#include "model/model.h"
#include "run/checkpoint_files.h"

#include <stdlib.h>
#include <string.h>

static json_t *train_settings(const kvs_train_config *config)
{
    json_t *object = json_object();

    if (kvsi_settings_to_json(object, &kvsi_train_settings, config, KVSI_RESULT | KVSI_LOGGED)) {
        json_decref(object);
        return NULL;
    }
    return object;
}

json_t *kvsi_run_settings(const kvsi_train_job *job)
{
    const kvs_model *m = job->model;

    return json_pack(
        "{s:s, s:o, s:o, s:I, s:o, s:o, s:i, s:s, s:I, s:I, s:s, s:b}", "kvshift",
        kvs_build()->version, "command", kvsi_json_path(job->command), "model",
        kvsi_hf_config_to_json(&m->config), "parameters", (json_int_t)kvs_model_parameters(m),
        "task", job->data->ops->describe(job->data), "train", train_settings(&job->config),
        "threads", m->context.threads, "cpu_level", m->context.ops->name, "ranks",
        (json_int_t)m->comm->size, "sequences_per_rank",
        (json_int_t)(job->config.batch / m->comm->size), "shard",
        kvsi_shard_name(job->config.shard), "deterministic", job->config.deterministic);
}

json_t *kvsi_training_settings(const kvs_model *model, const kvs_data *data,
                               const kvs_train_config *config)
{
    return json_pack("{s:s, s:o, s:o, s:o}", "kvshift", kvs_build()->version, "model",
                     kvsi_hf_config_to_json(&model->config), "task",
                     data ? data->ops->describe(data) : json_pack("{s:s}", "name", "batches"),
                     "train", train_settings(config));
}

/* Settings as they are in a file, so that numbers compare as written. */
static kvs_status as_written(json_t **out, const json_t *settings, kvs_err *err)
{
    static const char what[] = "the settings of a run";
    char *text;
    kvs_status st;

    *out = NULL;
    TRY_OUT(kvsi_json_dump(&text, settings, JSON_REAL_PRECISION(15), what, err));
    TRY_OUT(kvsi_json_parse(out, text, strlen(text), what, err));
out:
    free(text);
    return st;
}

/* The value as JSON text, for messages; free() it. */
static char *value_text(const json_t *value)
{
    return value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15))
                 : json_dumps(json_null(), JSON_ENCODE_ANY);
}

/* Whether a resumed run may have another value of this setting. */
static int may_change(const char *key)
{
    char name[KVSI_SETTING_KEY];

    for (size_t i = 0; i < kvsi_train_settings.count; i++) {
        kvsi_setting_file_key(name, kvsi_train_settings.rows + i);
        if (strcmp(name, key) == 0)
            return (kvsi_train_settings.rows[i].use & KVSI_MAY_CHANGE) != 0;
    }
    return 0;
}

static kvs_status compare_value(const char *part, const char *key, const json_t *ours,
                                const json_t *theirs, const char *what, kvs_err *err)
{
    char *now = NULL, *then = NULL;
    kvs_status st;

    if (may_change(key) || (ours && theirs && json_equal(ours, theirs)))
        return KVS_OK;
    now = value_text(ours);
    then = value_text(theirs);
    st =
        kvsi_fail(err, KVS_E_INVALID, "%s setting '%s' is %.100s, but '%s' was trained with %.100s",
                  part, key, now ? now : "?", what, then ? then : "?");
    free(now);
    free(then);
    return st;
}

/* Compares the values of two objects, and of objects within them: a model's settings that only
 * kvshift has are an object within its config.json.  NULL is an object without values. */
static kvs_status compare_objects(const char *part, json_t *ours, json_t *theirs, const char *what,
                                  kvs_err *err)
{
    const char *key;
    json_t *value;

    json_object_foreach(ours, key, value) {
        json_t *other = json_object_get(theirs, key);

        TRY(json_is_object(value) && json_is_object(other)
                ? compare_objects(part, value, other, what, err)
                : compare_value(part, key, value, other, what, err));
    }
    json_object_foreach(theirs, key, value)
        if (!json_object_get(ours, key))
            TRY(compare_value(part, key, NULL, value, what, err));
    return KVS_OK;
}

kvs_status kvsi_run_settings_check(const json_t *settings, const json_t *before, const char *what,
                                   kvs_err *err)
{
    static const char *const parts[] = {"model", "task"};
    json_t *const train = json_copy(json_object_get(before, "train"));
    json_t *now = NULL;
    kvs_status st = KVS_OK;

    if (train && kvsi_train_settings_add_missing(train)) {
        st = kvsi_no_memory(err, "the settings of '%s'", what);
        goto out;
    }
    TRY_OUT(as_written(&now, settings, err));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        TRY_OUT(compare_objects(parts[i], json_object_get(now, parts[i]),
                                json_object_get(before, parts[i]), what, err));
    TRY_OUT(compare_objects("train", json_object_get(now, "train"), train, what, err));
out:
    json_decref(train);
    json_decref(now);
    return st;
}

kvs_status kvsi_run_settings_check_checkpoint(const json_t *settings, const char *path,
                                              kvs_err *err)
{
    json_t *before = NULL;
    kvs_status st;

    TRY_OUT(kvsi_checkpoint_read_run(&before, path, err));
    TRY_OUT(kvsi_run_settings_check(settings, json_object_get(before, "settings"), path, err));
out:
    json_decref(before);
    return st;
}
