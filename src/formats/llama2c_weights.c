/* Reads llama2.c's .bin files.  They have no offsets: everything follows from the header, and the
 * file must have exactly the resulting size. */
#include "base/memory.h"
#include "formats/llama2c.h"
#include "formats/weights_open.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "llama2.c's files are little-endian");

enum {
    MAGIC = KVSI_LLAMA2C_MAGIC,
    NUMBERS = KVSI_LLAMA2C_NUMBERS,
    LEGACY_HEADER = NUMBERS * 4,
    V1_HEADER = KVSI_LLAMA2C_V1_HEADER,
    V1_NUMBERS_AT = 8,
    V1_SHARED_AT = V1_NUMBERS_AT + NUMBERS * 4,
};

typedef enum number { DIM, HIDDEN, LAYERS, HEADS, KV_HEADS, VOCAB, CONTEXT } number;

static const char *const number_names[NUMBERS] = {"dim",      "hidden_dim", "layers", "heads",
                                                  "kv_heads", "vocabulary", "context"};

/* ---- the header ------------------------------------------------------------------------------ */

static kvs_status read_numbers(int32_t numbers[NUMBERS], const unsigned char *from, int may_negate,
                               kvs_err *err)
{
    memcpy(numbers, from, NUMBERS * sizeof *numbers);
    for (size_t i = 0; i < NUMBERS; i++) {
        const int negates = may_negate && i == VOCAB && numbers[i] < 0 && numbers[i] > INT32_MIN;

        if (numbers[i] < 1 && !negates)
            return kvsi_fail(err, KVS_E_FORMAT, "%s is %" PRId32 ", expected at least 1",
                             number_names[i], numbers[i]);
    }
    return KVS_OK;
}

static kvs_status set_config(kvs_model_config *config, const unsigned char *from, int is_v1,
                             kvs_err *err)
{
    int32_t numbers[NUMBERS];

    TRY(read_numbers(numbers, from, !is_v1, err));
    kvsi_model_config_init(config);
    config->dim = (size_t)numbers[DIM];
    config->ffn = (size_t)numbers[HIDDEN];
    config->layers = (size_t)numbers[LAYERS];
    config->heads = (size_t)numbers[HEADS];
    config->kv_heads = (size_t)numbers[KV_HEADS];
    config->vocab = (size_t)(numbers[VOCAB] < 0 ? -numbers[VOCAB] : numbers[VOCAB]);
    config->context = (size_t)numbers[CONTEXT];
    config->rope_base = kvsi_llama2c_rope_base;
    config->norm_eps = kvsi_llama2c_norm_eps;
    config->tied = numbers[VOCAB] > 0;
    return kvs_model_config_finish(config, err);
}

static kvs_status read_v1_header(kvsi_weights *w, uint32_t version, kvs_err *err)
{
    const unsigned char *data = w->map.data;
    kvs_err inner;

    w->format = KVSI_FORMAT_LLAMA2C_V1;
    if (version != 1)
        return kvsi_fail(err, KVS_E_UNSUPPORTED,
                         "'%s' is of llama2.c's version %" PRIu32 ", expected 1", w->file, version);
    if (w->map.size < V1_HEADER)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s' has %zu bytes, expected a header of %d", w->file,
                         w->map.size, V1_HEADER);
    if (data[V1_SHARED_AT] > 1)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s' has %u for a shared head, expected 0 or 1",
                         w->file, (unsigned)data[V1_SHARED_AT]);
    if (set_config(&w->config, data + V1_NUMBERS_AT, 1, &inner) != KVS_OK)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s': %s", w->file, inner.message);
    w->config.tied = data[V1_SHARED_AT];
    return KVS_OK;
}

/* *start = the offset of the matrices. */
static kvs_status read_header(kvsi_weights *w, size_t *start, kvs_err *err)
{
    uint32_t mark[2] = {0};
    kvs_err inner;

    if (w->map.size < LEGACY_HEADER)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s' has %zu bytes, too few for any model", w->file,
                         w->map.size);
    memcpy(mark, w->map.data, sizeof mark);
    *start = mark[0] == MAGIC ? V1_HEADER : LEGACY_HEADER;
    if (mark[0] == MAGIC)
        return read_v1_header(w, mark[1], err);
    w->format = KVSI_FORMAT_LLAMA2C;
    if (set_config(&w->config, w->map.data, 0, &inner) !=
        KVS_OK) /* other files reach this reader too */
        return kvsi_fail(err, KVS_E_FORMAT,
                         "'%s' is neither safetensors nor GGUF nor a llama2.c model: %s", w->file,
                         inner.message);
    return KVS_OK;
}

/* ---- the matrices ---------------------------------------------------------------------------- */

/* Checks that the file has the size of the header and all parts. */
static kvs_status check_length(const kvsi_weights *w, size_t start, const kvsi_llama2c_part *parts,
                               size_t count, kvs_err *err)
{
    size_t expected = start;

    for (size_t i = 0; i < count; i++) {
        size_t bytes;

        if (__builtin_mul_overflow(kvsi_llama2c_part_bytes(&parts[i]),
                                   parts[i].in_layers ? w->config.layers : 1, &bytes) ||
            __builtin_add_overflow(expected, bytes, &expected))
            return kvsi_fail(err, KVS_E_FORMAT, "'%s': the sizes in its header overflow", w->file);
    }
    if (expected != w->map.size)
        return kvsi_fail(err, KVS_E_FORMAT,
                         "'%s' has %zu bytes, the sizes in its header (dim %zu, layers %zu, "
                         "vocabulary %zu, ...) need %zu",
                         w->file, w->map.size, w->config.dim, w->config.layers, w->config.vocab,
                         expected);
    return KVS_OK;
}

static kvs_status add_part(kvsi_weights *w, const kvsi_llama2c_part *p, const unsigned char *data,
                           kvs_err *err)
{
    kvsi_file_tensor view = {
        .dtype = KVSI_F32, .rank = p->width ? 2 : 1, .shape = {p->rows, p->width}, .data = data};

    if (!p->in_layers)
        return kvsi_weights_add(w, p->name, &view, p->interleaved_heads, w->file, err);
    for (size_t l = 0; l < w->config.layers; l++) {
        char name[96];

        snprintf(name, sizeof name, "model.layers.%zu.%s", l, p->name);
        view.data = data + l * kvsi_llama2c_part_bytes(p);
        TRY(kvsi_weights_add(w, name, &view, p->interleaved_heads, w->file, err));
    }
    return KVS_OK;
}

kvs_status kvsi_weights_open_llama2c(kvsi_weights *w, const char *path, kvs_err *err)
{
    kvsi_llama2c_part parts[KVSI_LLAMA2C_PARTS_MAX];
    size_t count, at = 0;

    w->file = kvsi_strdup(path);
    if (!w->file)
        return kvsi_no_memory(err, "'%s'", path);
    TRY(kvsi_mapping_open(&w->map, path, err));
    TRY(read_header(w, &at, err));
    count = kvsi_llama2c_list(parts, &w->config, w->format == KVSI_FORMAT_LLAMA2C_V1);
    TRY(check_length(w, at, parts, count, err));
    for (size_t i = 0; i < count; i++) {
        if (parts[i].name)
            TRY(add_part(w, &parts[i], w->map.data + at, err));
        at += kvsi_llama2c_part_bytes(&parts[i]) * (parts[i].in_layers ? w->config.layers : 1);
    }
    return KVS_OK;
}
