/* Writes a model as GGUF: settings as keys, tensors under GGUF's names. */
#include "base/memory.h"
#include "formats/family_tensors.h"
#include "formats/gguf_config.h"
#include "formats/gguf_names.h"
#include "formats/hf.h"
#include "formats/llama_layout.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- keys ------------------------------------------------------------------------------------ */

/* Our config.json, which is exact and complete. */
static kvs_status put_config(kvsi_gguf_keys *keys, const kvs_model_config *config, kvs_err *err)
{
    json_t *object = kvsi_hf_config_to_json(config);
    char *text;
    const kvs_status st = kvsi_json_dump(&text, object, JSON_COMPACT | JSON_REAL_PRECISION(15),
                                         "the configuration", err);

    if (st == KVS_OK)
        kvsi_gguf_put_text(keys, "kvshift.config", text);
    free(text);
    json_decref(object);
    return st;
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* A tensor of the file: `count` of the source's from `first` on, or the factors `index`. */
typedef struct written {
    size_t first, count, index;
    int is_stacked; /* the rows are vectors of the source */
    char name[KVSI_GGUF_NAME_SIZE];
} written;

/* The tensors with the names, types and values that the family's files have. */
typedef struct renamed {
    const kvsi_tensor_source *ours;
    const kvs_model_config *config;
    int plus_one; /* gains are written as 1 + gain */
    written *list;
    size_t count;
} renamed;

static kvsi_file_tensor describe_ours(const renamed *r, size_t index)
{
    kvsi_file_tensor tensor;

    r->ours->describe(r->ours->self, index, &tensor);
    return tensor;
}

/* Vectors are F32, as other programs expect; the norms of several heads are a matrix. */
static void describe(const void *self, size_t index, kvsi_file_tensor *out)
{
    const renamed *r = self;
    const written *w = &r->list[index];
    float values[KVSI_LIST_MAX];
    const char *name;

    if (w->count == 0) {
        *out = (kvsi_file_tensor){.name = w->name, .dtype = KVSI_F32, .rank = 1};
        out->shape[0] = kvsi_gguf_factors(&name, values, r->config, w->index);
        return;
    }
    *out = describe_ours(r, w->first);
    out->name = w->name;
    if (out->rank < 2)
        out->dtype = KVSI_F32;
    if (w->is_stacked) {
        out->rank = 2;
        out->shape[1] = out->shape[0];
        out->shape[0] = w->count;
    }
}

static kvs_status read_tensor(const void *self, size_t index, float *out, kvs_err *err)
{
    const renamed *r = self;
    const written *w = &r->list[index];
    const char *name;

    if (w->count == 0) {
        kvsi_gguf_factors(&name, out, r->config, w->index);
        return KVS_OK;
    }
    for (size_t i = w->first; i < w->first + w->count; i++) {
        const kvsi_file_tensor tensor = describe_ours(r, i);
        const size_t values = kvsi_file_tensor_count(&tensor);

        TRY(r->ours->read(r->ours->self, i, out, err));
        for (size_t k = 0; r->plus_one && kvsi_gguf_is_gain(&tensor) && k < values; k++)
            out[k] += 1;
        out += values;
    }
    return KVS_OK;
}

/* How many of the tensors from `first` on are the norms of the heads of one layer; 0 = it is
 * none. */
static size_t count_head_norms(const renamed *r, size_t first)
{
    const char *name = describe_ours(r, first).name, *number = strstr(name, ".norms.0.weight");
    size_t count = 0;

    while (number && first + count < r->ours->count &&
           strncmp(describe_ours(r, first + count).name, name, (size_t)(number - name)) == 0)
        count++;
    return count;
}

/* Our own files have all tensors apart. */
static kvs_status name_tensor(written *w, const renamed *r, size_t first,
                              const kvsi_gguf_family *family, kvs_err *err)
{
    const size_t norms = family == kvsi_gguf_family_own() ? 0 : count_head_norms(r, first);
    const char *name = describe_ours(r, first).name;
    const char *end = strstr(name, "_layernorm.norms.");
    char whole[KVSI_GGUF_NAME_SIZE];

    snprintf(whole, sizeof whole, "%s", name);
    if (norms > 0 && end) /* q_layernorm.norms.0 is one of the rows of q_norm */
        snprintf(whole, sizeof whole, "%.*s_norm.weight", (int)(end - name), name);
    *w = (written){.first = first, .count = norms > 0 ? norms : 1, .is_stacked = norms > 0};
    if (!kvsi_gguf_name_from_ours(w->name, whole, family))
        return kvsi_fail(err, KVS_E_UNSUPPORTED, "format gguf has no name for tensor '%s'", name);
    return KVS_OK;
}

static kvs_status name_tensors(renamed *r, const kvsi_gguf_family *family, kvs_err *err)
{
    const int is_own = family == kvsi_gguf_family_own();
    float values[KVSI_LIST_MAX];
    const char *name = NULL;

    r->list = kvsi_alloc(r->ours->count + KVSI_GGUF_FACTOR_TENSORS, sizeof *r->list);
    if (!r->list)
        return kvsi_no_memory(err, "%zu names", r->ours->count);
    for (size_t i = 0; !is_own && kvsi_gguf_factors(&name, values, r->config, i) > 0; i++) {
        written *w = &r->list[r->count++];

        *w = (written){.index = i};
        snprintf(w->name, sizeof w->name, "%s", name);
    }
    for (size_t i = 0; i < r->ours->count; i += r->list[r->count++].count)
        TRY(name_tensor(&r->list[r->count], r, i, family, err));
    return KVS_OK;
}

/* The value of "general.file_type" for a file whose main type is `dtype`. */
static uint32_t file_type(kvsi_dtype dtype)
{
    switch (dtype) {
    case KVSI_F16:
        return 1;
    case KVSI_Q4_0:
        return 2;
    case KVSI_Q8_0:
        return 7;
    case KVSI_BF16:
        return 32;
    default:
        return 0;
    }
}

static void put_types(kvsi_gguf_keys *keys, const kvsi_tensor_source *source)
{
    uint64_t counts[KVSI_DTYPES] = {0};
    int most = 0;

    for (size_t i = 0; i < source->count; i++) {
        kvsi_file_tensor tensor;

        source->describe(source->self, i, &tensor);
        counts[tensor.dtype] += kvsi_file_tensor_count(&tensor);
        most = counts[tensor.dtype] > counts[most] ? (int)tensor.dtype : most;
    }
    kvsi_gguf_put_whole(keys, "general.file_type", file_type((kvsi_dtype)most));
    if (kvsi_dtype_block((kvsi_dtype)most) > 1)
        kvsi_gguf_put_whole(keys, "general.quantization_version",
                            2); /* version of the quantized blocks' layout */
}

/* ---- the file -------------------------------------------------------------------------------- */

/* Programs that read such files need a vocabulary they know, or the explicit value "none". */
static kvs_status put_vocabulary(kvsi_gguf_keys *keys, const kvs_model_config *config,
                                 const kvsi_gguf_vocabulary *vocabulary,
                                 const kvsi_gguf_family *family, kvs_err *err)
{
    const int is_own = family == kvsi_gguf_family_own();

    if (!is_own && vocabulary && !vocabulary->model)
        return kvsi_fail(err, KVS_E_UNSUPPORTED,
                         "a %s file cannot hold the tokenizer because of %s; tokenizer 'none' "
                         "leaves it out",
                         family->architecture, vocabulary->reason);
    if (vocabulary)
        kvsi_gguf_put_vocabulary(keys, vocabulary, config->vocab);
    else if (!is_own)
        kvsi_gguf_put_text(keys, "tokenizer.ggml.model", "none");
    return KVS_OK;
}

/* The family that the model was read from if it fits, or the first one that does and has no packed
 * rows; ours if there is none. */
static const kvsi_gguf_family *find_family(const kvs_model_config *config)
{
    const kvsi_gguf_family *f = kvsi_gguf_family_of_type(config->family);

    if (f && kvsi_gguf_fits(f, config, NULL))
        return f;
    for (size_t i = 0; (f = kvsi_gguf_family_at(i)); i++)
        if (!f->packed && kvsi_gguf_fits(f, config, NULL))
            return f;
    return kvsi_gguf_family_own();
}

/* Names the setting that keeps the model from being one of llama.cpp's. */
static kvs_status fail_own(const kvs_model_config *config, kvs_err *err)
{
    const kvsi_gguf_family *family = kvsi_gguf_family_of_type(config->family);
    const kvsi_setting *reason = NULL;
    char value[KVSI_SETTING_VALUE];

    family = family ? family : kvsi_gguf_family_at(0);
    if (kvsi_gguf_fits(family, config, &reason) || !reason)
        return kvsi_fail(err, KVS_E_UNSUPPORTED, "format gguf-llama does not support the model");
    kvsi_setting_write(value, reason, config);
    return kvsi_fail(err, KVS_E_UNSUPPORTED,
                     "format gguf-llama does not support %s %.60s: architecture '%s' of llama.cpp "
                     "does not compute it",
                     reason->name, value, family->architecture);
}

static kvs_status put_keys(kvsi_gguf_keys *keys, const kvs_model_config *config,
                           const kvsi_gguf_family *family, const kvsi_gguf_extras *extras,
                           const kvsi_tensor_source *source, kvs_err *err)
{
    kvsi_gguf_put_text(keys, "general.architecture", family->architecture);
    put_types(keys, source);
    kvsi_gguf_put_config(keys, config, family);
    if (family == kvsi_gguf_family_own())
        TRY(put_config(keys, config, err));
    TRY(put_vocabulary(keys, config, extras->vocabulary, family, err));
    kvsi_gguf_put_token_ids(keys, extras);
    if (extras->chat_template)
        kvsi_gguf_put_text(keys, "tokenizer.chat_template", extras->chat_template);
    return KVS_OK;
}

kvs_status kvsi_gguf_write_model(const char *path, const kvs_model_config *config,
                                 kvsi_gguf_architecture architecture,
                                 const kvsi_gguf_extras *extras, const kvsi_tensor_source *source,
                                 kvs_err *err)
{
    const kvsi_gguf_family *family = find_family(config);
    const int is_own = family == kvsi_gguf_family_own();
    const kvsi_family packs = {.packed = family->packed};
    const kvsi_interleaved turned = {source, config};
    const kvsi_tensor_source interleaved = kvsi_interleave(&turned);
    kvsi_family_tensors packed = {0};
    kvsi_tensor_source together;
    renamed r = {.ours = &together, .config = config, .plus_one = !is_own && config->gain_offset};
    kvsi_tensor_source theirs = {0, describe, read_tensor, &r};
    kvsi_gguf_keys keys = {0};
    kvs_status st;

    if (config->body != KVSI_BODY_LLAMA)
        return kvsi_fail(err, KVS_E_UNSUPPORTED, "format gguf does not support GPT-2's body");
    if (is_own && architecture == KVSI_GGUF_LLAMA)
        return fail_own(config, err);
    TRY_OUT(put_keys(&keys, config, family, extras, source, err));
    TRY_OUT(kvsi_family_tensors_init(&packed, &packs, config->heads,
                                     family->interleaved ? &interleaved : source, err));
    together = kvsi_family_source(&packed);
    TRY_OUT(name_tensors(&r, family, err));
    theirs.count = r.count;
    TRY_OUT(kvsi_gguf_write(path, &keys, &theirs, err));
out:
    kvsi_gguf_keys_release(&keys);
    kvsi_family_tensors_release(&packed);
    kvsi_free(r.list);
    return st;
}
