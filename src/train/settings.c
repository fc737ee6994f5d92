#include "train/settings.h"

#include "data/task.h"
#include "formats/hf.h"
#include "model/model.h"

#include <stdlib.h>
#include <string.h>

json_t *kvsi_train_settings(const kvs_train_config *c)
{
    return json_pack(
        "{s:I, s:I, s:I, s:I, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:b, s:b, s:b, s:f, "
        "s:I}",
        "steps", (json_int_t)c->steps, "batch", (json_int_t)c->batch, "accumulate",
        (json_int_t)c->accumulate, "warmup", (json_int_t)c->warmup, "schedule",
        kvs_schedule_name(c->schedule), "lr", c->lr, "lr_floor", c->lr_floor, "beta1", c->beta1,
        "beta2", c->beta2, "eps", c->eps, "weight_decay", c->weight_decay, "shift_lr", c->shift_lr,
        "shift_decay", c->shift_decay, "decay_all", c->decay_all, "only_shift", c->only_shift,
        "eval_dropout", c->eval_dropout, "clip", c->clip, "seed", (json_int_t)c->seed);
}

static json_t *job_settings(const kvs_train_job *job)
{
    json_t *settings = kvsi_train_settings(&job->config);

    if (settings &&
        (json_object_set_new(settings, "eval_every", json_integer((json_int_t)job->eval_every)) ||
         json_object_set_new(settings, "eval_sequences",
                             json_integer((json_int_t)job->eval_sequences)))) {
        json_decref(settings);
        return NULL;
    }
    return settings;
}

json_t *kvsi_run_settings(const kvs_train_job *job)
{
    const kvs_model *m = job->model;

    return json_pack(
        "{s:s, s:o, s:o, s:I, s:o, s:o, s:i, s:s, s:I, s:I, s:s, s:b}", "kvshift",
        kvs_build()->version, "command", kvsi_json_path(job->command), "model",
        kvsi_hf_config_to_json(&m->config), "parameters", (json_int_t)kvs_model_parameters(m),
        "task", job->task->ops->describe(job->task), "train", job_settings(job), "threads",
        m->context.threads, "cpu_level", m->context.ops->name, "ranks", (json_int_t)m->comm->size,
        "sequences_per_rank", (json_int_t)(job->config.batch / m->comm->size), "shard",
        kvs_shard_name(job->config.shard), "deterministic", job->config.deterministic);
}

/* Settings as a file has them, so that numbers compare as they were written. */
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

static int may_change(const char *key)
{
    static const char *const keys[] = {"steps", "eval_every", "eval_sequences"};

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(keys[i], key) == 0)
            return 1;
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

kvs_status kvsi_run_settings_check(const json_t *settings, const json_t *before, const char *what,
                                   kvs_err *err)
{
    static const char *const parts[] = {"model", "task", "train"};
    json_t *now;
    kvs_status st = as_written(&now, settings, err);

    for (size_t i = 0; st == KVS_OK && i < sizeof parts / sizeof *parts; i++) {
        json_t *ours = json_object_get(now, parts[i]), *theirs = json_object_get(before, parts[i]);
        const char *key;
        json_t *value;

        json_object_foreach(ours, key, value)
            if (st == KVS_OK)
                st = compare_value(parts[i], key, value, json_object_get(theirs, key), what, err);
        json_object_foreach(theirs, key, value)
            if (st == KVS_OK)
                st = compare_value(parts[i], key, json_object_get(ours, key), value, what, err);
    }
    json_decref(now);
    return st;
}
