/* Writes a model as GGUF: settings as keys, tensors under GGUF's names. */
#include "base/memory.h"
#include "formats/gguf_names.h"
#include "formats/gguf_write.h"
#include "formats/hf.h"
#include "formats/llama_layout.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- keys ------------------------------------------------------------------------------------ */

static size_t rotary_channels(const kvs_model_config *c)
{
    const size_t head_size = c->head_size > 0 ? c->head_size : c->dim / c->heads;
    const double turning = c->positions == KVSI_POSITIONS_ROPE ? c->rotary_fraction : 0;

    return (size_t)lround(turning * (double)head_size);
}

static void put_sizes(kvsi_gguf_keys *keys, const kvs_model_config *c, const char *architecture)
{
    const struct {
        const char *key;
        size_t value;
    } sizes[] = {
        {"vocab_size", c->vocab},
        {"context_length", c->context},
        {"embedding_length", c->dim},
        {"block_count", c->layers},
        {"feed_forward_length", c->ffn},
        {"attention.head_count", c->heads},
        {"attention.head_count_kv", c->kv_heads},
        {"rope.dimension_count", rotary_channels(c)},
    };
    char key[64];

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        snprintf(key, sizeof key, "%s.%s", architecture, sizes[i].key);
        kvsi_gguf_put_whole(keys, key, (uint32_t)sizes[i].value); /* all are below 2^24 */
    }
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", architecture);
    kvsi_gguf_put_real(keys, key, c->norm_eps);
    snprintf(key, sizeof key, "%s.rope.freq_base", architecture);
    kvsi_gguf_put_real(keys, key, c->rope_base);
}

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

/* Our tensors with GGUF's names and types. */
typedef struct renamed {
    const kvsi_tensor_source *ours;
    char (*names)[KVSI_GGUF_NAME_SIZE];
} renamed;

static void describe(const void *self, size_t index, kvsi_file_tensor *out)
{
    const renamed *r = self;

    r->ours->describe(r->ours->self, index, out);
    out->name = r->names[index];
    if (out->rank < 2) /* other programs expect vectors as F32 */
        out->dtype = KVSI_F32;
}

static kvs_status read_tensor(const void *self, size_t index, float *out, kvs_err *err)
{
    const renamed *r = self;

    return r->ours->read(r->ours->self, index, out, err);
}

static kvs_status name_tensors(renamed *r, kvs_err *err)
{
    r->names = kvsi_alloc(r->ours->count, sizeof *r->names);
    if (!r->names)
        return kvsi_no_memory(err, "%zu names", r->ours->count);
    for (size_t i = 0; i < r->ours->count; i++) {
        kvsi_file_tensor tensor;

        r->ours->describe(r->ours->self, i, &tensor);
        if (!kvsi_gguf_name_from_ours(r->names[i], tensor.name))
            return kvsi_fail(err, KVS_E_UNSUPPORTED, "format gguf has no name for tensor '%s'",
                             tensor.name);
    }
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

/* Programs that read llama files need a vocabulary they know, or the explicit value "none". */
static kvs_status put_vocabulary(kvsi_gguf_keys *keys, const kvs_model_config *config,
                                 const kvsi_gguf_vocabulary *vocabulary, int is_llama, kvs_err *err)
{
    if (is_llama && vocabulary && !vocabulary->model)
        return kvsi_fail(
            err, KVS_E_UNSUPPORTED,
            "a llama file cannot hold the tokenizer because of %s; tokenizer 'none' leaves it out",
            vocabulary->reason);
    if (vocabulary)
        kvsi_gguf_put_vocabulary(keys, vocabulary, config->vocab);
    else if (is_llama)
        kvsi_gguf_put_text(keys, "tokenizer.ggml.model", "none");
    return KVS_OK;
}

kvs_status kvsi_gguf_write_model(const char *path, const kvs_model_config *config,
                                 kvsi_gguf_architecture architecture,
                                 const kvsi_gguf_extras *extras, const kvsi_tensor_source *source,
                                 kvs_err *err)
{
    kvs_err reason;
    const int is_llama = kvsi_check_plain_llama(config, "gguf-llama", &reason) == KVS_OK;
    const char *name = is_llama ? "llama" : "kvshift";
    const kvsi_interleaved turned = {source, config};
    const kvsi_tensor_source interleaved = kvsi_interleave(&turned);
    renamed r = {.ours = is_llama ? &interleaved : source};
    const kvsi_tensor_source theirs = {source->count, describe, read_tensor, &r};
    kvsi_gguf_keys keys = {0};
    kvs_status st;

    if (!is_llama && architecture == KVSI_GGUF_LLAMA)
        return kvsi_fail(err, reason.status, "%s", reason.message);
    if (config->body != KVSI_BODY_LLAMA)
        return kvsi_fail(err, KVS_E_UNSUPPORTED, "format gguf does not support GPT-2's body");
    kvsi_gguf_put_text(&keys, "general.architecture", name);
    put_types(&keys, source);
    put_sizes(&keys, config, name);
    if (!is_llama)
        TRY_OUT(put_config(&keys, config, err));
    TRY_OUT(put_vocabulary(&keys, config, extras->vocabulary, is_llama, err));
    kvsi_gguf_put_token_ids(&keys, extras);
    if (extras->chat_template)
        kvsi_gguf_put_text(&keys, "tokenizer.chat_template", extras->chat_template);
    TRY_OUT(name_tensors(&r, err));
    TRY_OUT(kvsi_gguf_write(path, &keys, &theirs, err));
out:
    kvsi_gguf_keys_release(&keys);
    kvsi_free(r.names);
    return st;
}
