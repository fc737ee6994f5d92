#include "report/run_extras.h"

#include "base/files.h"
#include "base/json.h"
#include "base/memory.h"
#include "kvshift/kvshift.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { FILE_LIMIT = 64 << 20, TAPS_MAX = 4 };

/* ---- the machine ----------------------------------------------------------------------------- */

static void copy_text(char *out, size_t size, const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    snprintf(out, size, "%s", text ? text : "");
}

static void read_machine(kvsi_run_extras *out, const char *dir)
{
    char *path = kvsi_path_join(dir, "env.json");
    json_t *facts = NULL;

    if (path && kvsi_json_read(&facts, path, FILE_LIMIT, NULL) == KVS_OK) {
        copy_text(out->processor, sizeof out->processor, facts, "processor");
        copy_text(out->started, sizeof out->started, facts, "started");
    }
    json_decref(facts);
    kvsi_free(path);
}

/* ---- samples --------------------------------------------------------------------------------- */

static void free_sample(kvsi_run_sample *sample)
{
    kvsi_free(sample->prompt);
    kvsi_free(sample->text);
}

/* Adds a line of samples.jsonl; the oldest sample makes room. */
static kvs_status add_sample(kvsi_run_extras *out, const char *line, size_t size, kvs_err *err)
{
    json_t *object = json_loadb(line, size, 0, NULL);
    const char *prompt = json_string_value(json_object_get(object, "prompt"));
    const char *text = json_string_value(json_object_get(object, "text"));
    kvsi_run_sample sample = {0};
    kvs_status st = KVS_OK;

    if (!prompt || !text)
        goto out;
    sample =
        (kvsi_run_sample){.step = (uint64_t)json_integer_value(json_object_get(object, "step")),
                          .prompt = kvsi_strdup(prompt),
                          .text = kvsi_strdup(text)};
    if (!sample.prompt || !sample.text) {
        free_sample(&sample);
        st = kvsi_no_memory(err, "the samples of a run");
        goto out;
    }
    if (out->sample_count == KVSI_SAMPLES_SHOWN) {
        free_sample(&out->samples[0]);
        memmove(out->samples, out->samples + 1, (KVSI_SAMPLES_SHOWN - 1) * sizeof *out->samples);
        out->sample_count--;
    }
    out->samples[out->sample_count++] = sample;
out:
    json_decref(object);
    return st;
}

static kvs_status read_samples(kvsi_run_extras *out, const char *dir, kvs_err *err)
{
    char *path = kvsi_path_join(dir, "samples.jsonl"), *text = NULL;
    size_t size = 0;
    kvs_status st = KVS_OK;

    if (!path)
        return kvsi_no_memory(err, "'%s'", dir);
    if (kvsi_file_exists(path) && kvsi_file_read(&text, &size, path, FILE_LIMIT, NULL) == KVS_OK)
        for (const char *line = text, *end; st == KVS_OK && *line; line = end + (*end == '\n')) {
            end = line + strcspn(line, "\n");
            st = add_sample(out, line, (size_t)(end - line), err);
        }
    kvsi_free(text);
    kvsi_free(path);
    return st;
}

/* ---- the shift of the final model ------------------------------------------------------------ */

static double share_of(const kvs_model *model, size_t layer, unsigned target, size_t head,
                       size_t taps)
{
    double values[TAPS_MAX], spread[TAPS_MAX], sum = 0;

    if (kvs_model_taps(values, spread, model, layer, target, head, NULL) != KVS_OK)
        return NAN;
    for (size_t i = 0; i < taps; i++)
        sum += fabs(values[i]);
    return sum > 0 ? 1 - fabs(values[taps - 1]) / sum : NAN;
}

static kvs_status read_heads(kvsi_run_extras *out, const kvs_model *model, kvs_err *err)
{
    const kvs_model_config *config = kvs_model_get_config(model);
    const size_t layers = (size_t)kvs_model_config_number(config, "layers"),
                 heads = (size_t)kvs_model_config_number(config, "kv-heads"),
                 taps = (size_t)kvs_model_config_number(config, "shift-window") + 1;

    if (taps > TAPS_MAX || heads == 0)
        return KVS_OK;
    out->heads = kvsi_alloc(layers * heads, sizeof *out->heads);
    if (!out->heads)
        return kvsi_no_memory(err, "the heads of a run");
    for (size_t i = 0; i < layers * heads; i++) {
        const kvsi_head_share share = {
            .layer = i / heads,
            .k = share_of(model, i / heads, KVS_SHIFT_K, i % heads, taps),
            .v = share_of(model, i / heads, KVS_SHIFT_V, i % heads, taps)};

        if (!isnan(share.k) || !isnan(share.v))
            out->heads[out->head_count++] = share;
    }
    return KVS_OK;
}

static kvs_status read_model(kvsi_run_extras *out, const char *dir, kvs_err *err)
{
    static const kvs_load_options mapped = {.size = sizeof mapped, .mapped = 1};
    char *path = kvsi_path_join(dir, "model.safetensors");
    kvs_runtime *rt = NULL;
    kvs_model *model = NULL;
    kvs_status st = KVS_OK;

    if (!path)
        return kvsi_no_memory(err, "'%s'", dir);
    if (kvsi_file_exists(path) && kvs_runtime_create(&rt, NULL, NULL) == KVS_OK &&
        kvs_model_load(&model, rt, dir, &mapped, NULL) == KVS_OK)
        st = read_heads(out, model, err);
    kvs_model_free(model);
    kvs_runtime_free(rt);
    kvsi_free(path);
    return st;
}

kvs_status kvsi_run_extras_read(kvsi_run_extras *out, const char *dir, kvs_err *err)
{
    kvs_status st;

    *out = (kvsi_run_extras){0};
    read_machine(out, dir);
    TRY_OUT(read_samples(out, dir, err));
    TRY_OUT(read_model(out, dir, err));
out:
    if (st != KVS_OK)
        kvsi_run_extras_release(out);
    return st;
}

void kvsi_run_extras_release(kvsi_run_extras *extras)
{
    for (size_t i = 0; i < extras->sample_count; i++)
        free_sample(&extras->samples[i]);
    kvsi_free(extras->heads);
    *extras = (kvsi_run_extras){0};
}
