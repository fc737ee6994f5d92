#include "train/settings.h"

#include "data/task.h"
#include "formats/hf.h"
#include "model/model.h"

#include <stdlib.h>

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
        "{s:s, s:s?, s:o, s:I, s:o, s:o, s:i, s:s, s:I, s:I, s:s, s:b}", "kvshift",
        kvs_build()->version, "command", job->command, "model", kvsi_hf_config_to_json(&m->config),
        "parameters", (json_int_t)kvs_model_parameters(m), "task",
        job->task->ops->describe(job->task), "train", job_settings(job), "threads",
        m->context.threads, "cpu_level", m->context.ops->name, "ranks", (json_int_t)m->comm->size,
        "sequences_per_rank", (json_int_t)(job->config.batch / m->comm->size), "shard",
        kvs_shard_name(job->config.shard), "deterministic", job->config.deterministic);
}

/* Settings as a file has them, so that numbers compare as they were written. */
static json_t *as_written(const json_t *settings)
{
    char *text = json_dumps(settings, JSON_REAL_PRECISION(15));
    json_t *copy = text ? json_loads(text, 0, NULL) : NULL;

    free(text);
    return copy;
}

kvs_status kvsi_run_settings_check(const json_t *settings, const json_t *before, const char *what,
                                   kvs_err *err)
{
    static const char *const parts[] = {"model", "task", "train"};
    static const char *const free_keys[] = {"steps", "eval_every", "eval_sequences"};
    json_t *now = as_written(settings);
    kvs_status st = KVS_OK;

    for (size_t i = 0; st == KVS_OK && i < sizeof parts / sizeof *parts; i++) {
        json_t *ours = json_object_get(now, parts[i]), *theirs = json_object_get(before, parts[i]);
        const char *key;
        json_t *value;

        for (size_t k = 0; k < sizeof free_keys / sizeof *free_keys; k++)
            json_object_del(ours, free_keys[k]);
        json_object_foreach(ours, key, value)
            if (st == KVS_OK && !json_equal(value, json_object_get(theirs, key)))
                st = kvsi_fail(err, KVS_E_INVALID,
                               "'%s' was trained with another %s setting '%s'; give the same "
                               "options to go on",
                               what, parts[i], key);
    }
    json_decref(now);
    return st;
}
