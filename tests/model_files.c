#include "model_files.h"

#include "base/files.h"
#include "base/json.h"
#include "base/memory.h"
#include "formats/hf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- bytes ---- */

void put_bytes(kvsi_text *file, const void *data, size_t size)
{
    kvsi_text_add_bytes(file, data, size);
    assert_false(file->failed);
}

static void put_number(kvsi_text *file, uint64_t value, size_t size)
{
    for (; size > 0; size--, value >>= 8) {
        const char byte = (char)(value & 0xff);

        put_bytes(file, &byte, 1);
    }
}

void put_u32(kvsi_text *file, uint32_t value)
{
    put_number(file, value, 4);
}

void put_u64(kvsi_text *file, uint64_t value)
{
    put_number(file, value, 8);
}

static void put_float(kvsi_text *file, float value)
{
    put_bytes(file, &value, sizeof value);
}

static void align(kvsi_text *file, size_t alignment)
{
    while (file->length % alignment != 0)
        put_bytes(file, "", 1);
}

size_t find_bytes(const kvsi_text *file, const char *text)
{
    const size_t size = strlen(text);

    for (size_t at = 0; at + size <= file->length; at++)
        if (memcmp(file->data + at, text, size) == 0)
            return at;
    fail_msg("the file has no '%s'", text);
    return 0;
}

void patch(kvsi_text *file, size_t at, uint64_t value, size_t size)
{
    assert_true(at + size <= file->length);
    for (; size > 0; size--, at++, value >>= 8)
        file->data[at] = (char)(value & 0xff);
}

char *write_file(const char *dir, const char *name, const void *data, size_t size)
{
    char *path = kvsi_path_join(dir, name);
    FILE *stream = fopen(path, "wb");

    assert_non_null(stream);
    assert_int_equal(fwrite(data, 1, size, stream), size);
    assert_int_equal(fclose(stream), 0);
    return path;
}

/* ---- models ---- */

kvs_model *small_model(kvs_runtime *rt, int tied)
{
    kvs_model_config config;

    kvsi_model_config_init(&config);
    config.vocab = 11;
    config.dim = 16;
    config.layers = 2;
    config.heads = 4;
    config.kv_heads = 2;
    config.ffn = 12;
    config.context = 9;
    config.rope_base = 10000;
    config.tied = tied;
    assert_int_equal(kvs_model_config_finish(&config, NULL), KVS_OK);
    return support_model(rt, &config, 5);
}

static size_t rotary_heads(const kvs_model *model, const kvsi_parameter *p)
{
    if (strstr(p->name, ".q_proj."))
        return model->config.heads;
    return strstr(p->name, ".k_proj.") ? model->config.kv_heads : 0;
}

float *tensor_numbers(const kvs_model *model, const kvsi_parameter *p, int interleaved)
{
    const size_t heads = interleaved ? rotary_heads(model, p) : 0;
    float *ours = kvsi_alloc(p->count, sizeof *ours), *theirs;
    size_t half, width;

    assert_int_equal(kvs_model_read_tensor(ours, p->count, model, p->name, NULL), KVS_OK);
    if (heads == 0)
        return ours;
    theirs = kvsi_alloc(p->count, sizeof *theirs);
    half = p->shape[0] / heads / 2;
    width = p->shape[1];
    for (size_t head = 0; head < heads; head++)
        for (size_t pair = 0; pair < half; pair++)
            for (size_t side = 0; side < 2; side++)
                memcpy(theirs + (2 * (head * half + pair) + side) * width,
                       ours + (2 * head * half + side * half + pair) * width, width * sizeof *ours);
    kvsi_free(ours);
    return theirs;
}

/* ---- safetensors ---- */

void put_safetensors(kvsi_text *file, const kvsi_file_tensor *tensors, size_t count)
{
    kvsi_text header = {0};
    size_t at = 0;

    for (size_t i = 0; i < count; i++) {
        kvsi_text_format(&header, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", i > 0 ? "," : "{",
                         tensors[i].name, kvsi_dtype_name(tensors[i].dtype));
        for (size_t d = 0; d < tensors[i].rank; d++)
            kvsi_text_format(&header, "%s%zu", d > 0 ? "," : "", tensors[i].shape[d]);
        kvsi_text_format(&header, "],\"data_offsets\":[%zu,", at);
        at += kvsi_file_tensor_bytes(&tensors[i]);
        kvsi_text_format(&header, "%zu]}", at);
    }
    kvsi_text_add(&header, count > 0 ? "}" : "{}");
    put_u64(file, header.length);
    put_bytes(file, header.data, header.length);
    for (size_t i = 0; i < count; i++)
        put_bytes(file, tensors[i].data, kvsi_file_tensor_bytes(&tensors[i]));
    kvsi_text_release(&header);
}

void put_model_safetensors(kvsi_text *file, const kvs_model *model, kvsi_dtype dtype, size_t first,
                           size_t end)
{
    kvsi_file_tensor *tensors = kvsi_alloc(end - first, sizeof *tensors);

    for (size_t i = 0; i < end - first; i++) {
        const kvsi_parameter *p = &model->layout.list[first + i];
        float *numbers = tensor_numbers(model, p, 0);
        void *data = kvsi_alloc(p->count, kvsi_dtype_bytes(dtype, 1));

        kvsi_dtype_encode(data, dtype, numbers, p->count);
        tensors[i] =
            (kvsi_file_tensor){.name = p->name, .dtype = dtype, .rank = p->rank, .data = data};
        memcpy(tensors[i].shape, p->shape, p->rank * sizeof *p->shape);
        kvsi_free(numbers);
    }
    put_safetensors(file, tensors, end - first);
    for (size_t i = 0; i < end - first; i++)
        kvsi_free((void *)tensors[i].data);
    kvsi_free(tensors);
}

/* ---- llama2.c ---- */

/* All tensors whose name has this ending, layer by layer. */
static void put_kind(kvsi_text *file, const kvs_model *model, const char *ending)
{
    for (size_t i = 0; i < model->layout.count; i++) {
        const kvsi_parameter *p = &model->layout.list[i];
        float *numbers;

        if (!kvsi_ends_with(p->name, ending))
            continue;
        numbers = tensor_numbers(model, p, 1);
        put_bytes(file, numbers, p->count * sizeof *numbers);
        kvsi_free(numbers);
    }
}

static void put_kinds(kvsi_text *file, const kvs_model *model, const char *const *endings)
{
    for (; *endings; endings++)
        put_kind(file, model, *endings);
}

static void put_sizes(kvsi_text *file, const kvs_model_config *c, int version)
{
    const int32_t vocab = c->tied || version > 0 ? (int32_t)c->vocab : -(int32_t)c->vocab;

    put_u32(file, (uint32_t)c->dim);
    put_u32(file, (uint32_t)c->ffn);
    put_u32(file, (uint32_t)c->layers);
    put_u32(file, (uint32_t)c->heads);
    put_u32(file, (uint32_t)c->kv_heads);
    put_u32(file, (uint32_t)vocab);
    put_u32(file, (uint32_t)c->context);
}

void put_llama2c(kvsi_text *file, const kvs_model *model, int version)
{
    static const char *const legacy[] = {
        "embed_tokens.weight",
        "input_layernorm.weight",
        "q_proj.weight",
        "k_proj.weight",
        "v_proj.weight",
        "o_proj.weight",
        "post_attention_layernorm.weight",
        "gate_proj.weight",
        "down_proj.weight",
        "up_proj.weight",
        "model.norm.weight",
        NULL,
    };
    static const char *const version_1[] = {
        "input_layernorm.weight", "post_attention_layernorm.weight",
        "model.norm.weight",      "embed_tokens.weight",
        "q_proj.weight",          "k_proj.weight",
        "v_proj.weight",          "o_proj.weight",
        "gate_proj.weight",       "down_proj.weight",
        "up_proj.weight",         NULL,
    };
    const kvs_model_config *c = &model->config;

    if (version > 0) {
        put_u32(file, 0x616b3432);
        put_u32(file, (uint32_t)version);
    }
    put_sizes(file, c, version);
    if (version > 0) {
        put_bytes(file, c->tied ? "\1" : "\0", 1);
        align(file, 256);
    }
    put_kinds(file, model, version > 0 ? version_1 : legacy);
    for (size_t i = 0; version == 0 && i < c->context * (c->dim / c->heads); i++)
        put_float(file, 0.5F); /* unused tables of rotations */
    if (!c->tied)
        put_kind(file, model, "lm_head.weight");
}

/* ---- GGUF ---- */

static void put_text(kvsi_text *file, const char *text)
{
    put_u64(file, strlen(text));
    put_bytes(file, text, strlen(text));
}

static void put_key(kvsi_text *file, const char *architecture, const char *key, uint32_t type)
{
    char full[96];

    snprintf(full, sizeof full, "%s.%s", architecture, key);
    put_text(file, full);
    put_u32(file, type);
}

enum { GGUF_U32 = 4, GGUF_F32 = 6, GGUF_TEXT = 8, ALIGNMENT = 64 };

/* *count = the number of keys. */
static void put_keys(kvsi_text *file, const kvs_model_config *c, const char *architecture,
                     const char *config, uint64_t *count)
{
    const struct {
        const char *key;
        size_t value;
    } sizes[] = {
        {"context_length", c->context},
        {"embedding_length", c->dim},
        {"block_count", c->layers},
        {"feed_forward_length", c->ffn},
        {"attention.head_count", c->heads},
        {"attention.head_count_kv", c->kv_heads},
        {"rope.dimension_count", c->dim / c->heads},
    };

    put_key(file, "general", "architecture", GGUF_TEXT);
    put_text(file, architecture);
    put_key(file, "general", "alignment", GGUF_U32);
    put_u32(file, ALIGNMENT);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        put_key(file, architecture, sizes[i].key, GGUF_U32);
        put_u32(file, (uint32_t)sizes[i].value);
    }
    put_key(file, architecture, "attention.layer_norm_rms_epsilon", GGUF_F32);
    put_float(file, (float)c->norm_eps);
    put_key(file, architecture, "rope.freq_base", GGUF_F32);
    put_float(file, (float)c->rope_base);
    *count = 4 + sizeof sizes / sizeof *sizes;
    if (config) {
        put_key(file, architecture, "config", GGUF_TEXT);
        put_text(file, config);
        ++*count;
    }
}

/* Names as in other programs' files. */
static void gguf_name(char out[96], const kvsi_parameter *p)
{
    static const char *const names[][2] = {
        {"model.embed_tokens.weight", "token_embd.weight"},
        {"model.norm.weight", "output_norm.weight"},
        {"lm_head.weight", "output.weight"},
        {"input_layernorm.weight", "attn_norm.weight"},
        {"self_attn.q_proj.weight", "attn_q.weight"},
        {"self_attn.k_proj.weight", "attn_k.weight"},
        {"self_attn.v_proj.weight", "attn_v.weight"},
        {"self_attn.o_proj.weight", "attn_output.weight"},
        {"self_attn.q_shift", "attn_q_shift"},
        {"self_attn.k_shift", "attn_k_shift"},
        {"self_attn.v_shift", "attn_v_shift"},
        {"self_attn.r_proj.weight", "attn_r.weight"},
        {"self_attn.r_table", "attn_r_table"},
        {"self_attn.filter", "attn_filter"},
        {"mlp.filter", "ffn_filter"},
        {"mlp.factor", "ffn_factor"},
        {"post_attention_layernorm.weight", "ffn_norm.weight"},
        {"mlp.gate_proj.weight", "ffn_gate.weight"},
        {"mlp.up_proj.weight", "ffn_up.weight"},
        {"mlp.down_proj.weight", "ffn_down.weight"},
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (kvsi_ends_with(p->name, names[i][0])) {
            if (strncmp(p->name, "model.layers.", 13) == 0)
                snprintf(out, 96, "blk.%zu.%s", p->layer, names[i][1]);
            else
                snprintf(out, 96, "%s", names[i][1]);
            return;
        }
    fail_msg("no name for '%s'", p->name);
}

static kvsi_dtype dtype_of(uint32_t type, const kvsi_parameter *p)
{
    if (p->rank == 1 || kvsi_group_of(p->role) != KVSI_MATRICES)
        return KVSI_F32;
    switch (type) {
    case 0:
        return KVSI_F32;
    case 1:
        return KVSI_F16;
    case 2:
        return KVSI_Q4_0;
    case 8:
        return KVSI_Q8_0;
    default:
        return KVSI_BF16;
    }
}

static size_t padded(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static void put_descriptions(kvsi_text *file, const kvs_model *model, uint32_t type)
{
    size_t offset = 0;

    for (size_t i = 0; i < model->layout.count; i++) {
        const kvsi_parameter *p = &model->layout.list[i];
        const kvsi_dtype dtype = dtype_of(type, p);
        char name[96];

        gguf_name(name, p);
        put_text(file, name);
        put_u32(file, (uint32_t)p->rank);
        for (size_t d = p->rank; d-- > 0;)
            put_u64(file, p->shape[d]);
        put_u32(file, dtype == KVSI_F32 ? 0 : type);
        put_u64(file, offset);
        offset += padded(kvsi_dtype_bytes(dtype, p->count));
    }
}

void put_gguf(kvsi_text *file, const kvs_model *model, const char *architecture, const char *config,
              uint32_t type)
{
    uint64_t keys = 0;

    put_bytes(file, "GGUF", 4);
    put_u32(file, 3);
    put_u64(file, model->layout.count);
    put_u64(file, 0);
    put_keys(file, &model->config, architecture, config, &keys);
    patch(file, 16, keys, 8);
    put_descriptions(file, model, type);
    align(file, ALIGNMENT);
    for (size_t i = 0; i < model->layout.count; i++) {
        const kvsi_parameter *p = &model->layout.list[i];
        const kvsi_dtype dtype = dtype_of(type, p);
        float *numbers = tensor_numbers(model, p, strcmp(architecture, "llama") == 0);
        void *data = kvsi_alloc(kvsi_dtype_bytes(dtype, p->count), 1);

        kvsi_dtype_encode(data, dtype, numbers, p->count);
        put_bytes(file, data, kvsi_dtype_bytes(dtype, p->count));
        align(file, ALIGNMENT);
        kvsi_free(numbers);
        kvsi_free(data);
    }
}

/* A key that pads the header, so that tensors stay aligned. */
static void put_filler(kvsi_text *file, size_t size)
{
    static const char key[] = "general.filler";
    const size_t head = 8 + strlen(key) + 4 + 8;
    const size_t rest = (2 * ALIGNMENT - (size + head) % ALIGNMENT) % ALIGNMENT;

    put_text(file, key);
    put_u32(file, GGUF_TEXT);
    put_u64(file, rest);
    for (size_t i = 0; i < rest; i++)
        put_bytes(file, ".", 1);
}

void add_gguf_key(kvsi_text *file, const char *key, uint32_t type, const void *value, size_t size)
{
    enum { HEADER = 24, COUNT_AT = 16 };
    kvsi_text changed = {0};
    uint64_t keys;

    memcpy(&keys, file->data + COUNT_AT, sizeof keys);
    put_bytes(&changed, file->data, HEADER);
    put_text(&changed, key);
    put_u32(&changed, type);
    put_bytes(&changed, value, size);
    put_filler(&changed, changed.length - HEADER);
    put_bytes(&changed, file->data + HEADER, file->length - HEADER);
    patch(&changed, COUNT_AT, keys + 2, 8);
    kvsi_text_release(file);
    *file = changed;
}

void add_gguf_u32(kvsi_text *file, const char *key, uint32_t value)
{
    add_gguf_key(file, key, GGUF_U32, &value, sizeof value);
}

void add_gguf_float(kvsi_text *file, const char *key, float value)
{
    add_gguf_key(file, key, GGUF_F32, &value, sizeof value);
}

void add_gguf_text(kvsi_text *file, const char *key, const char *value)
{
    kvsi_text text = {0};

    put_text(&text, value);
    add_gguf_key(file, key, GGUF_TEXT, text.data, text.length);
    kvsi_text_release(&text);
}

kvs_model *open_as_gguf(kvs_runtime *rt, const kvs_model *model, uint32_t type, const char *dir)
{
    const int plain = model->config.shift.targets == 0 && model->config.sliding_window == 0;
    json_t *json = kvsi_hf_config_to_json(&model->config);
    char *config = json_dumps(json, JSON_COMPACT), *path;
    kvs_model *opened = NULL;
    kvsi_text file = {0};
    kvs_err err;

    put_gguf(&file, model, plain ? "llama" : "kvshift", plain ? NULL : config, type);
    path = write_file(dir, "model.gguf", file.data, file.length);
    if (kvs_model_load(&opened, rt, path,
                       &(kvs_load_options){.size = sizeof(kvs_load_options), .mapped = 1},
                       &err) != KVS_OK)
        fail_msg("%s", err.message);
    kvsi_text_release(&file);
    kvsi_free(path);
    free(config);
    json_decref(json);
    return opened;
}
