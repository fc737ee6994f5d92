#include "repro/heads.h"

#include "base/files.h"
#include "base/folders.h"
#include "base/memory.h"

#include <math.h>
#include <stdlib.h>

/* ---- looking at models ----------------------------------------------------------------------- */

static kvs_status read_head(json_t *heads, const kvs_model *model, size_t layer, size_t head,
                            kvs_err *err)
{
    double keys[KVS_SHIFT_WINDOW_MAX + 1], values[KVS_SHIFT_WINDOW_MAX + 1];
    kvs_status st;

    KVS_TRY(kvs_model_taps(model, layer, KVS_SHIFT_K, head, keys, NULL, err));
    KVS_TRY(kvs_model_taps(model, layer, KVS_SHIFT_V, head, values, NULL, err));
    json_array_append_new(heads, json_pack("[f, f, f, f]", keys[1], keys[0], values[1], values[0]));
out:
    return st;
}

/* All heads of a model as [a1, a2, b1, b2], layer after layer. */
static kvs_status read_model(json_t *steps, uint64_t step, const kvs_model *model, kvs_err *err)
{
    const kvs_model_config *config = kvs_model_get_config(model);
    json_t *heads = json_array();
    kvs_status st = KVS_OK;

    for (size_t l = 0; l < config->layers; l++)
        for (size_t h = 0; h < kvs_model_config_kv_heads(config, l); h++)
            KVS_TRY(read_head(heads, model, l, h, err));
    json_array_append_new(steps, json_pack("{s:I, s:O}", "step", (json_int_t)step, "heads", heads));
out:
    json_decref(heads);
    return st;
}

static kvs_status read_first(json_t *steps, const kvsi_finished *run, kvs_err *err)
{
    kvs_model *model = NULL;
    kvs_status st;

    KVS_TRY(
        kvs_model_create(&model, run->rt, kvs_model_get_config(run->model), run->plan->seed, err));
    KVS_TRY(read_model(steps, 0, model, err));
out:
    kvs_model_free(model);
    return st;
}

static kvs_status read_checkpoint(json_t *steps, const kvsi_finished *run, const char *ckpt,
                                  const char *name, kvs_err *err)
{
    char *path = kvsi_path_join(ckpt, name);
    kvs_model *model = NULL;
    kvs_status st;

    if (!path)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", name);
    KVS_TRY(kvs_model_load(&model, run->rt, path, err));
    KVS_TRY(read_model(steps, strtoull(name + sizeof "step-" - 1, NULL, 10), model, err));
out:
    kvs_model_free(model);
    kvsi_free(path);
    return st;
}

kvs_status kvsi_heads_measure(json_t **out, const kvsi_finished *run, kvs_err *err)
{
    char *ckpt = kvsi_path_join(run->dir, "ckpt");
    json_t *steps = json_array();
    kvsi_name_list names = {0};
    kvs_status st;

    *out = NULL;
    if (!ckpt) {
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", run->dir);
        goto out;
    }
    KVS_TRY(read_first(steps, run, err));
    KVS_TRY(kvsi_dir_list(&names, ckpt, "step-", err));
    for (size_t i = 0; i < names.count; i++)
        KVS_TRY(read_checkpoint(steps, run, ckpt, names.names[i], err));
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

double kvsi_head_tap(const json_t *head, size_t index)
{
    return json_number_value(json_array_get(head, index));
}

static const json_t *look_at(const kvsi_trial_run *run, size_t look)
{
    return json_array_get(json_object_get(run->measured, "steps"), look);
}

size_t kvsi_heads_looks(const kvsi_trial_run *run)
{
    return json_array_size(json_object_get(run->measured, "steps"));
}

const json_t *kvsi_heads_at(const kvsi_trial_run *run, size_t look)
{
    return json_object_get(look_at(run, look), "heads");
}

kvsi_head_tally kvsi_heads_tally(const kvsi_trial_run *run, size_t look)
{
    const json_t *heads = kvsi_heads_at(run, look);
    const size_t n = json_array_size(heads);
    kvsi_head_tally t = {
        .step = (uint64_t)json_integer_value(json_object_get(look_at(run, look), "step")),
        .heads = n,
    };

    for (size_t i = 0; i < n; i++) {
        const json_t *head = json_array_get(heads, i);
        const double a1 = kvsi_head_tap(head, 0), a2 = kvsi_head_tap(head, 1),
                     b1 = kvsi_head_tap(head, 2), b2 = kvsi_head_tap(head, 3), each = 1 / (double)n;

        t.share[(a1 <= a2 ? KVSI_KEYS_BACK : 0) + (b1 <= b2 ? KVSI_VALUES_BACK : 0)] += 100 * each;
        t.key_sum += (a1 + a2) * each;
        t.value_sum += (b1 + b2) * each;
        t.away += (fabs(a1 + a2 - 1) + fabs(b1 + b2 - 1)) / 2 * each;
        t.negative += 25 * ((a1 < 0) + (a2 < 0) + (b1 < 0) + (b2 < 0)) * each;
    }
    return t;
}
