/* Writes llama2.c's .bin files. */
#include "config/config.h"
#include "formats/llama2c.h"
#include "formats/llama_layout.h"
#include "formats/tensor_writer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "llama2.c's data is little-endian");

enum { TABLE_CHUNK = 1 << 12 };

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
    return kvsi_fail(o->err, KVS_E_INVALID, "the model has no tensor '%s'", name);
}

static kvs_status write_table(const output *o, double (*wave)(double angle))
{
    const size_t half = o->config->dim / o->config->heads / 2, count = o->config->context * half;
    float chunk[TABLE_CHUNK];
    kvs_status st = KVS_OK;

    for (size_t at = 0; at < count && st == KVS_OK; at += TABLE_CHUNK) {
        const size_t n = count - at < TABLE_CHUNK ? count - at : TABLE_CHUNK;

        for (size_t i = 0; i < n; i++) {
            const size_t position = (at + i) / half, pair = (at + i) % half;
            const double frequency = pow(kvsi_llama2c_rope_base, -(double)pair / (double)half);

            chunk[i] = (float)wave((double)position * frequency);
        }
        st = kvsi_new_file_write(o->file, chunk, n * sizeof *chunk, o->err);
    }
    return st;
}

static kvs_status write_part(const output *o, const kvsi_llama2c_part *part)
{
    if (!part->name) {
        TRY(write_table(o, cos));
        return write_table(o, sin);
    }
    if (!part->in_layers)
        return write_tensor(o, part->name);
    for (size_t layer = 0; layer < o->config->layers; layer++) {
        char name[96];

        snprintf(name, sizeof name, "model.layers.%zu.%s", layer, part->name);
        TRY(write_tensor(o, name));
    }
    return KVS_OK;
}

/* ---- the file -------------------------------------------------------------------------------- */

static kvs_status write_header(const output *o, int v1)
{
    const kvs_model_config *c = o->config;
    const int32_t vocab = (int32_t)c->vocab;
    const int32_t numbers[KVSI_LLAMA2C_NUMBERS] = {
        (int32_t)c->dim,     (int32_t)c->ffn,      (int32_t)c->layers,
        (int32_t)c->heads,   (int32_t)c->kv_heads, v1 || c->tied ? vocab : -vocab,
        (int32_t)c->context,
    };
    const int32_t start[] = {KVSI_LLAMA2C_MAGIC, 1};
    unsigned char header[KVSI_LLAMA2C_V1_HEADER] = {0};

    if (!v1)
        return kvsi_new_file_write(o->file, numbers, sizeof numbers, o->err);
    memcpy(header, start, sizeof start);
    memcpy(header + sizeof start, numbers, sizeof numbers);
    header[sizeof start + sizeof numbers] = c->tied != 0;
    return kvsi_new_file_write(o->file, header, sizeof header, o->err);
}

static kvs_status check(const kvs_model_config *c, kvs_err *err)
{
    TRY(kvsi_check_plain_llama(c, "llama2c", err));
    /* Values from other formats may have been rounded to 32 bits. */
    if ((float)c->rope_base != (float)kvsi_llama2c_rope_base ||
        (float)c->norm_eps != (float)kvsi_llama2c_norm_eps)
        return kvsi_fail(
            err, KVS_E_UNSUPPORTED,
            "format llama2c cannot store rope base %g and norm eps %g, expected %g and %g",
            c->rope_base, c->norm_eps, kvsi_llama2c_rope_base, kvsi_llama2c_norm_eps);
    return KVS_OK;
}

kvs_status kvsi_llama2c_write(const char *path, const kvs_model_config *config, int v1,
                              const kvsi_tensor_source *source, kvs_err *err)
{
    const kvsi_interleaved turned = {source, config};
    const kvsi_tensor_source interleaved = kvsi_interleave(&turned);
    kvsi_llama2c_part parts[KVSI_LLAMA2C_PARTS_MAX];
    const size_t count = kvsi_llama2c_list(parts, config, v1);
    output o = {.config = config, .err = err};
    kvs_status st;

    TRY_OUT(check(config, err));
    TRY_OUT(kvsi_tensor_writer_init(&o.writer, &interleaved, err));
    TRY_OUT(kvsi_new_file_open(&o.file, path, err));
    TRY_OUT(write_header(&o, v1));
    for (size_t i = 0; i < count; i++)
        TRY_OUT(write_part(&o, &parts[i]));
    st = kvsi_new_file_commit(o.file, err);
    o.file = NULL; /* closed either way */
out:
    kvsi_new_file_abandon(o.file);
    kvsi_tensor_writer_release(&o.writer);
    return st;
}
