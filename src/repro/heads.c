#include "repro/heads.h"

#include "base/files.h"
#include "base/folders.h"
#include "base/memory.h"
#include "run/checkpoint_files.h"
#include "run/run.h"

#include <math.h>
#include <stdlib.h>

/* ---- measuring models ------------------------------------------------------------------------ */

static kvs_status read_head(json_t *heads, const kvs_model *model, size_t layer, size_t head,
                            kvs_err *err)
{
    kvs_coefficients c;

    TRY(kvs_head_coefficients(&c, model, layer, head, err));
    json_array_append_new(heads, json_pack("[f, f, f, f]", c.alpha1, c.alpha2, c.beta1, c.beta2));
    return KVS_OK;
}

/* All heads of a model, layer by layer. */
static kvs_status read_model(json_t *steps, uint64_t step, const kvs_model *model, kvs_err *err)
{
    const kvs_model_config *config = kvs_model_get_config(model);
    json_t *heads = json_array();
    kvs_status st = KVS_OK;

    for (size_t l = 0; l < config->layers; l++)
        for (size_t h = 0; h < kvsi_model_config_kv_heads(config, l); h++)
            TRY_OUT(read_head(heads, model, l, h, err));
    json_array_append_new(steps, json_pack("{s:I, s:O}", "step", (json_int_t)step, "heads", heads));
out:
    json_decref(heads);
    return st;
}

static kvs_status read_first(json_t *steps, const kvsi_finished *run, kvs_err *err)
{
    kvs_model *model = NULL;
    kvs_status st;

    TRY_OUT(
        kvs_model_create(&model, run->rt, kvs_model_get_config(run->model), run->plan->seed, err));
    TRY_OUT(read_model(steps, 0, model, err));
out:
    kvs_model_free(model);
    return st;
}

/* A run that was interrupted has an additional checkpoint, which is ignored. */
static int is_planned(const kvsi_planned *run, uint64_t step)
{
    return step == run->train.steps || (run->eval_every > 0 && step % run->eval_every == 0);
}

static kvs_status read_checkpoint(json_t *steps, const kvsi_finished *run, const char *ckpt,
                                  const char *name, kvs_err *err)
{
    const uint64_t step = strtoull(name + sizeof "step-" - 1, NULL, 10);
    char *path = kvsi_path_join(ckpt, name);
    kvs_model *model = NULL;
    kvs_status st = KVS_OK;

    if (!path)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", name);
    if (!is_planned(run->plan, step))
        goto out;
    TRY_OUT(kvs_model_load(&model, run->rt, path, NULL, err));
    TRY_OUT(read_model(steps, step, model, err));
out:
    kvs_model_free(model);
    kvsi_free(path);
    return st;
}

kvs_status kvsi_heads_measure(json_t **out, const kvsi_finished *run, kvs_err *err)
{
    char *ckpt = kvsi_path_join(run->dir, KVSI_RUN_CHECKPOINTS);
    json_t *steps = json_array();
    kvsi_name_list names = {0};
    kvs_status st;

    *out = NULL;
    if (!ckpt) {
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", run->dir);
        goto out;
    }
    TRY_OUT(read_first(steps, run, err));
    TRY_OUT(kvsi_dir_list(&names, ckpt, KVSI_CHECKPOINT_PREFIX, err));
    for (size_t i = 0; i < names.count; i++)
        TRY_OUT(read_checkpoint(steps, run, ckpt, names.names[i], err));
    *out = json_pack("{s:O}", "steps", steps);
    if (!*out)
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", run->dir);
out:
    kvsi_name_list_release(&names);
    json_decref(steps);
    kvsi_free(ckpt);
    return st;
}

/* ---- counting -------------------------------------------------------------------------------- */

static double number_at(const json_t *head, size_t index)
{
    return json_number_value(json_array_get(head, index));
}

kvs_coefficients kvsi_head_coefficients(const json_t *head)
{
    return (kvs_coefficients){
        .alpha1 = number_at(head, 0),
        .alpha2 = number_at(head, 1),
        .beta1 = number_at(head, 2),
        .beta2 = number_at(head, 3),
    };
}

static const json_t *look_at(const kvsi_run_result *run, size_t look)
{
    return json_array_get(json_object_get(run->measured, "steps"), look);
}

size_t kvsi_heads_looks(const kvsi_run_result *run)
{
    return json_array_size(json_object_get(run->measured, "steps"));
}

const json_t *kvsi_heads_at(const kvsi_run_result *run, size_t look)
{
    return json_object_get(look_at(run, look), "heads");
}

kvsi_head_tally kvsi_heads_tally(const kvsi_run_result *run, size_t look)
{
    const json_t *heads = kvsi_heads_at(run, look);
    const size_t n = json_array_size(heads);
    kvsi_head_tally t = {
        .step = (uint64_t)json_integer_value(json_object_get(look_at(run, look), "step")),
        .heads = n,
    };

    for (size_t i = 0; i < n; i++) {
        const kvs_coefficients c = kvsi_head_coefficients(json_array_get(heads, i));
        const double keys = c.alpha1 + c.alpha2, values = c.beta1 + c.beta2, each = 1 / (double)n;

        t.share[kvs_head_kind_of(&c)] += 100 * each;
        t.key_sum += keys * each;
        t.value_sum += values * each;
        t.away += (fabs(keys - 1) + fabs(values - 1)) / 2 * each;
        t.negative += 25 * ((c.alpha1 < 0) + (c.alpha2 < 0) + (c.beta1 < 0) + (c.beta2 < 0)) * each;
    }
    return t;
}
