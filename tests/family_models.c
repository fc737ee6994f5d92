#include "family_models.h"

#include "base/files.h"
#include "base/memory.h"
#include "config/config.h"
#include "convert/convert.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define GEMMA "norm-place=both gain-offset=yes activation=gelu-tanh sliding-window=8 "
#define NEOX                                                                                       \
    "norm-kind=layer activation=gelu plain-mlp=yes qkv-bias=yes o-bias=yes mlp-bias=yes "          \
    "kv-heads=2 "
#define LONG "rope-scaling=longrope rope-original-context=32 "
#define YARN "rope-scaling=yarn rope-factor=4 rope-original-context=8 "

static const family_model models[] = {
    {"llama", "llama", NULL, ""},
    {"llama", "llama", NULL, "qkv-bias=yes o-bias=yes mlp-bias=yes head-size=16 tied=yes"},
    {"llama", "llama", NULL, "rope-scaling=linear rope-factor=2"},
    {"llama", "llama", NULL, YARN "rope-vector-scale=1.5"},
    {"llama", "llama", NULL, LONG "rope-factor=2"},
    {"llama", "llama", NULL, "rope-scaling=dynamic rope-factor=2 rope-original-context=32"},
    {"llama", "llama", "mistral", ""},
    {"qwen2", "qwen2", "qwen2", "qkv-bias=yes tied=yes " YARN},
    {"qwen3", "qwen3", NULL, "qk-norm=head head-size=16"},
    {"granite", "granite", NULL,
     "score-scale=0.3 embedding-scale=3 residual-scale=0.4 logit-divisor=0.45 qkv-bias=yes "
     "o-bias=yes"},
    {"granite", "granite", "granite",
     "score-scale=1 embedding-scale=1 residual-scale=1 logit-divisor=1"},
    {"smollm3", "smollm3", NULL, "no-rope-layers=3 tied=yes"},
    {"phi3", "phi3", "phi3", "rotary-fraction=0.5"},
    {"phi3", "phi3", "phi3", LONG "rope-factor=4 rope-vector-scale=1.25"},
    {"olmo2", "olmo2", NULL, "norm-place=after qk-norm=full"},
    {"olmo2", "kvshift", NULL,
     "norm-place=after qk-norm=full sliding-window=8 sliding-layers=0,1,2 sliding-rope-base=10000 "
     "rope-scaling=linear rope-factor=4"},
    {"gemma2", "gemma2", NULL, GEMMA "sliding-layers=0,2 score-cap=40 logit-cap=25 tied=yes"},
    {"gemma3", "gemma3_text", NULL,
     GEMMA "qk-norm=head sliding-layers=0,1,3 sliding-rope-base=5000 head-size=8 tied=yes"},
    {"gemma3", "gemma3_text", NULL, GEMMA "qk-norm=head sliding-rope-base=10000 logit-cap=20"},
    {"gptneox", "gpt_neox", "gpt_neox", NEOX "parallel=own rotary-fraction=0.5"},
    {"gptneox", "gpt_neox", "gpt_neox", NEOX},
    {"stablelm", "stablelm", NULL, "norm-kind=layer rotary-fraction=0.5 qkv-bias=yes"},
    {"stablelm", "stablelm", NULL, "norm-kind=layer parallel=shared qk-norm=layer"},
    /* What llama.cpp does not compute, or not in this family. */
    {"kvshift", "kvshift", NULL, "shift=kv"},
    {"kvshift", "mistral", NULL, "sliding-window=8"},
    {"kvshift", "kvshift", NULL, "positions=alibi"},
    {"kvshift", "kvshift", NULL, "score-cap=20"},
    {"kvshift", "llama", NULL, YARN "rope-beta-fast=16"},
    {"kvshift", "smollm3", NULL, "no-rope-layers=1,3"},
    {"kvshift", "olmo2", NULL, "norm-place=after qk-norm=full tied=yes"},
    {"kvshift", "qwen3", NULL, "qk-norm=head qkv-bias=yes o-bias=yes"},
    {"kvshift", "kvshift", NULL, "rotary-fraction=0.5"},
    {"kvshift", "mistral", "phi3", "sliding-window=8"},
    {"kvshift", "gemma2", NULL, GEMMA "score-cap=40 logit-cap=25 tied=yes score-scale=0.3"},
    {"kvshift", "gemma2", NULL, GEMMA "score-cap=40 logit-cap=25"},
    {"kvshift", "gemma2", NULL, GEMMA "score-cap=40 tied=yes"},
    {"kvshift", "kvshift", "gpt_neox", NEOX "activation=gelu-tanh"},
};

const family_model *family_model_at(size_t index)
{
    return index < sizeof models / sizeof *models ? &models[index] : NULL;
}

static void set(kvs_model_config *config, const char *settings)
{
    char name[32], value[64];
    kvs_err err;
    int read = 0;

    for (; sscanf(settings, " %31[^=]=%63s%n", name, value, &read) == 2; settings += read) {
        const kvsi_setting *row = kvsi_settings_find(&kvsi_model_settings, name);

        if (!row || kvsi_setting_store(row, config, "test", value, &err) != KVS_OK)
            fail_msg("setting '%s' = '%s'", name, value);
    }
}

static void set_factors(kvsi_rope_config *rope, size_t pairs)
{
    rope->shorts = rope->longs = pairs;
    for (size_t i = 0; i < pairs; i++) {
        rope->short_factor[i] = 1 + 0.1 * (double)i;
        rope->long_factor[i] = 2 + 0.3 * (double)i;
    }
}

kvs_model_config family_config(const family_model *model, size_t dim)
{
    kvs_model_config config;
    size_t head;
    kvs_err err;

    kvsi_model_config_init(&config);
    set(&config, "vocab=11 layers=4 heads=2 kv-heads=1 context=32 rope-base=10000 init-std=0.3");
    config.dim = dim;
    config.ffn = dim / 2;
    set(&config, model->settings);
    head = config.head_size > 0 ? config.head_size : dim / config.heads;
    if (config.gain_offset) { /* Gemma */
        config.embedding_scale = sqrt((double)dim);
        if (config.score_scale == 0)
            config.score_scale = 1 / sqrt((double)head);
    }
    if (config.rope.scaling == KVSI_ROPE_LONGROPE)
        set_factors(&config.rope, (size_t)lround(config.rotary_fraction * (double)head) / 2);
    config.family = model->family;
    if (kvs_model_config_finish(&config, &err) != KVS_OK)
        fail_msg("%s: %s", model->settings, err.message);
    return config;
}

void put_family_gguf(kvsi_text *file, const char *dir, const family_model *model, size_t dim)
{
    const kvs_model_config config = family_config(model, dim);
    char *path = kvsi_path_join(dir, "family.gguf"), *data = NULL;
    kvsi_convert_request request;
    size_t size = 0;
    kvs_err err;

    kvsi_convert_request_init(&request);
    request.out = path;
    request.how.config = &config;
    request.how.format = KVS_FORMAT_GGUF;
    request.how.dtype = KVS_DTYPE_BF16;
    request.how.overwrite = 1;
    if (kvsi_convert(&request, &err) != KVS_OK)
        fail_msg("%s", err.message);
    assert_int_equal(kvsi_file_read(&data, &size, path, 1 << 20, NULL), KVS_OK);
    kvsi_text_add_bytes(file, data, size);
    assert_int_equal(unlink(path), 0);
    kvsi_free(data);
    kvsi_free(path);
}
