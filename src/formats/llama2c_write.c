#include "formats/llama2c_write.h"

#include "formats/llama.h"
#include "formats/tensor_writer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "llama2.c's data is little-endian");

enum { V1_MAGIC = 0x616b3432, V1_HEADER = 256, SIZES = 7, TABLE_CHUNK = 1 << 12 };

static const double ROPE_BASE = 10000, NORM_EPS = 1e-5; /* what llama2.c computes with */

/* What comes one behind the other; %zu stands for every layer in turn. */
static const char EMBEDDING[] = "model.embed_tokens.weight", HEAD[] = "lm_head.weight",
                  ROTATIONS[] = "rotations"; /* the tables, which are no tensor */

static const char *const legacy_order[] = {
    EMBEDDING,
    "model.layers.%zu.input_layernorm.weight",
    "model.layers.%zu.self_attn.q_proj.weight",
    "model.layers.%zu.self_attn.k_proj.weight",
    "model.layers.%zu.self_attn.v_proj.weight",
    "model.layers.%zu.self_attn.o_proj.weight",
    "model.layers.%zu.post_attention_layernorm.weight",
    "model.layers.%zu.mlp.gate_proj.weight",
    "model.layers.%zu.mlp.down_proj.weight",
    "model.layers.%zu.mlp.up_proj.weight",
    "model.norm.weight",
    ROTATIONS,
    HEAD,
    NULL,
};

static const char *const v1_order[] = {
    "model.layers.%zu.input_layernorm.weight",
    "model.layers.%zu.post_attention_layernorm.weight",
    "model.norm.weight",
    EMBEDDING,
    "model.layers.%zu.self_attn.q_proj.weight",
    "model.layers.%zu.self_attn.k_proj.weight",
    "model.layers.%zu.self_attn.v_proj.weight",
    "model.layers.%zu.self_attn.o_proj.weight",
    "model.layers.%zu.mlp.gate_proj.weight",
    "model.layers.%zu.mlp.down_proj.weight",
    "model.layers.%zu.mlp.up_proj.weight",
    HEAD,
    NULL,
};

/* A file being written. */
typedef struct output {
    const kvs_model_config *config;
    kvsi_tensor_writer writer;
    kvsi_new_file *file;
    kvs_err *err;
} output;

/* ---- tensors --------------------------------------------------------------------------------- */

static kvs_status write_tensor(const output *o, const char *name)
{
    const kvsi_tensor_source *source = o->writer.source;

    for (size_t i = 0; i < source->count; i++) {
        kvsi_file_tensor tensor;

        source->describe(source->self, i, &tensor);
        if (strcmp(tensor.name, name) == 0)
            return kvsi_tensor_writer_put(&o->writer, i, o->file, o->err);
    }
    return kvsi_fail(o->err, KVS_E_INVALID, "there is no tensor '%s' to write", name);
}

static kvs_status write_table(const output *o, double (*wave)(double angle))
{
    const size_t half = o->config->dim / o->config->heads / 2, count = o->config->context * half;
    float chunk[TABLE_CHUNK];
    kvs_status st = KVS_OK;

    for (size_t at = 0; at < count && st == KVS_OK; at += TABLE_CHUNK) {
        const size_t n = count - at < TABLE_CHUNK ? count - at : TABLE_CHUNK;

        for (size_t i = 0; i < n; i++) {
            const double pair = (double)((at + i) % half), position = (double)((at + i) / half);

            chunk[i] = (float)wave(position * pow(ROPE_BASE, -pair / (double)half));
        }
        st = kvsi_new_file_write(o->file, chunk, n * sizeof *chunk, o->err);
    }
    return st;
}

static kvs_status write_kind(const output *o, const char *kind)
{
    const size_t layers = strstr(kind, "%zu") ? o->config->layers : 1;
    kvs_status st = KVS_OK;

    if (kind == HEAD && o->config->tied)
        return KVS_OK;
    if (kind == ROTATIONS) {
        KVS_TRY(write_table(o, cos));
        return write_table(o, sin);
    }
    for (size_t layer = 0; layer < layers; layer++) {
        const char *number = strstr(kind, "%zu");
        char name[128];

        if (number)
            snprintf(name, sizeof name, "%.*s%zu%s", (int)(number - kind), kind, layer, number + 3);
        else
            snprintf(name, sizeof name, "%s", kind);
        KVS_TRY(write_tensor(o, name));
    }
out:
    return st;
}

/* ---- the file -------------------------------------------------------------------------------- */

static kvs_status write_header(const output *o, kvsi_llama2c_version version)
{
    const kvs_model_config *c = o->config;
    const int32_t vocab = (int32_t)c->vocab;
    const int32_t sizes[SIZES] = {
        (int32_t)c->dim,      (int32_t)c->ffn,
        (int32_t)c->layers,   (int32_t)c->heads,
        (int32_t)c->kv_heads, version == KVSI_LLAMA2C_V1 || c->tied ? vocab : -vocab,
        (int32_t)c->context,
    };
    const int32_t start[] = {V1_MAGIC, 1};
    unsigned char header[V1_HEADER] = {0};

    if (version == KVSI_LLAMA2C_LEGACY)
        return kvsi_new_file_write(o->file, sizes, sizeof sizes, o->err);
    memcpy(header, start, sizeof start);
    memcpy(header + sizeof start, sizes, sizeof sizes);
    header[sizeof start + sizeof sizes] = c->tied != 0;
    return kvsi_new_file_write(o->file, header, sizeof header, o->err);
}

static kvs_status check(const kvs_model_config *c, kvs_err *err)
{
    const kvs_status st = kvsi_check_plain_llama(c, "llama2c", err);

    if (st != KVS_OK)
        return st;
    /* Files that come from other formats may have the numbers with 32 bits. */
    if ((float)c->rope_base != (float)ROPE_BASE || (float)c->norm_eps != (float)NORM_EPS)
        return kvsi_fail(err, KVS_E_UNSUPPORTED,
                         "format llama2c has no place for rope base %g and norm eps %g, expected "
                         "%g and %g",
                         c->rope_base, c->norm_eps, ROPE_BASE, NORM_EPS);
    return KVS_OK;
}

kvs_status kvsi_llama2c_write(const char *path, const kvs_model_config *config,
                              kvsi_llama2c_version version, const kvsi_tensor_source *source,
                              kvs_err *err)
{
    const kvsi_interleaved turned = {source, config};
    const kvsi_tensor_source interleaved = kvsi_interleave(&turned);
    output o = {.config = config, .err = err};
    kvs_status st;

    KVS_TRY(check(config, err));
    KVS_TRY(kvsi_tensor_writer_init(&o.writer, &interleaved, err));
    KVS_TRY(kvsi_new_file_open(&o.file, path, err));
    KVS_TRY(write_header(&o, version));
    for (const char *const *kind = version == KVSI_LLAMA2C_V1 ? v1_order : legacy_order; *kind;
         kind++)
        KVS_TRY(write_kind(&o, *kind));
    st = kvsi_new_file_commit(o.file, err);
    o.file = NULL; /* ended either way */
out:
    kvsi_new_file_abandon(o.file);
    kvsi_tensor_writer_release(&o.writer);
    return st;
}
