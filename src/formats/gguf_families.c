#include "formats/gguf_families.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the families ---------------------------------------------------------------------------- */

enum {
    OWN = 1 << 0,
    LLAMA = 1 << 1,
    QWEN2 = 1 << 2,
    QWEN3 = 1 << 3,
    OLMO2 = 1 << 4,
    SMOLLM3 = 1 << 5,
    PHI3 = 1 << 6,
    GEMMA2 = 1 << 7,
    GEMMA3 = 1 << 8,
    GRANITE = 1 << 9,
    NEOX = 1 << 10,
    STABLELM = 1 << 11,
    ALL = (1 << 12) - 1,
    FOREIGN = ALL & ~OWN,
    GEMMA = GEMMA2 | GEMMA3,
    LAYER_NORM = NEOX | STABLELM,
    RMS_NORM = ALL & ~LAYER_NORM,
    PARTIAL = PHI3 | NEOX | STABLELM,                     /* part of a head rotates */
    OF_HEADS = LLAMA | QWEN3 | SMOLLM3 | GEMMA | GRANITE, /* heads have their own size */
    MAY_BE_TIED = LLAMA | QWEN2 | QWEN3 | SMOLLM3 | PHI3 | GEMMA3 | GRANITE,
    MAY_HAVE_BIASES = LLAMA | GRANITE, /* everywhere */
    MAY_HAVE_QKV_BIAS = LLAMA | QWEN2 | QWEN3 | SMOLLM3 | GEMMA | GRANITE | STABLELM,
};

enum {
    USUAL =
        1 << KVSI_ROPE_PLAIN | 1 << KVSI_ROPE_DYNAMIC | 1 << KVSI_ROPE_LINEAR | 1 << KVSI_ROPE_YARN,
    LONG = 1 << KVSI_ROPE_LONGROPE,
    FACTORS = 1 << KVSI_ROPE_LLAMA3 | LONG, /* a tensor of factors */
};

#define GEMMA_SETTINGS "norm-place=both gain-offset=yes activation=gelu-tanh "

const kvsi_packed_rows kvsi_gguf_packed[] = {
    {"qkv_proj.weight", {"q_proj.weight", "k_proj.weight", "v_proj.weight"}, .by_head = 0},
    {"qkv_proj.bias", {"q_proj.bias", "k_proj.bias", "v_proj.bias"}, .by_head = 0},
    {"gate_up_proj.weight", {"gate_proj.weight", "up_proj.weight"}, .by_head = 0},
    {0},
};

/* A model that was read from no family's files is written as the first one without packed rows
 * that can have all of its settings. */
static const kvsi_gguf_family families[] = {
    {"llama", "llama", "", .bit = LLAMA, .interleaved = 1, .scalings = USUAL | FACTORS,
     .windows = KVSI_GGUF_WINDOWS_IGNORED},
    {"qwen2", "qwen2", "", .bit = QWEN2, .scalings = USUAL},
    {"qwen3", "qwen3", "qk-norm=head", .bit = QWEN3, .scalings = USUAL},
    {"granite", "granite", "", .bit = GRANITE, .interleaved = 1, .scalings = USUAL | FACTORS},
    {"smollm3", "smollm3", "", .bit = SMOLLM3, .interleaved = 1, .scalings = USUAL,
     .rope_period = 4},
    {"phi3", "phi3", "", .bit = PHI3, .gate_up = 1, .scalings = USUAL | LONG,
     .windows = KVSI_GGUF_WINDOWS_IGNORED, .packed = kvsi_gguf_packed},
    {"olmo2", "olmo2", "norm-place=after qk-norm=full", .bit = OLMO2, .norms_after = 1,
     .scalings = USUAL, .windows = KVSI_GGUF_WINDOWS_PERIOD, .window_period = 4,
     .unscaled_windows = 1},
    {"gemma2", "gemma2", GEMMA_SETTINGS "tied=yes score-cap=50 logit-cap=30 sliding-window=4096",
     .bit = GEMMA2, .norms_after = 1, .scalings = USUAL, .windows = KVSI_GGUF_WINDOWS_ALWAYS,
     .window_period = 2, .is_gemma = 1, .wide_scores = 46},
    {"gemma3", "gemma3_text", GEMMA_SETTINGS "qk-norm=head sliding-rope-base=10000", .bit = GEMMA3,
     .norms_after = 1, .scalings = USUAL & ~(1 << KVSI_ROPE_YARN),
     .windows = KVSI_GGUF_WINDOWS_PERIOD, .window_period = 6, .unscaled_windows = 1, .is_gemma = 1,
     .wide_scores = 62},
    {"gptneox", "gpt_neox",
     "norm-kind=layer activation=gelu plain-mlp=yes qkv-bias=yes o-bias=yes mlp-bias=yes",
     .bit = NEOX, .scalings = USUAL, .packed = kvsi_gguf_packed},
    {"stablelm", "stablelm", "norm-kind=layer", .bit = STABLELM, .scalings = USUAL},
};

static const kvsi_gguf_family own = {.architecture = "kvshift", .bit = OWN, .settings = ""};

const kvsi_gguf_family *kvsi_gguf_family_at(size_t index)
{
    return index < sizeof families / sizeof *families ? &families[index] : NULL;
}

const kvsi_gguf_family *kvsi_gguf_family_own(void)
{
    return &own;
}

const kvsi_gguf_family *kvsi_gguf_family_find(const char *name, size_t size)
{
    const kvsi_gguf_family *f;

    for (size_t i = 0; (f = kvsi_gguf_family_at(i)); i++)
        if (strlen(f->architecture) == size && memcmp(f->architecture, name, size) == 0)
            return f;
    return strlen(own.architecture) == size && memcmp(own.architecture, name, size) == 0 ? &own
                                                                                         : NULL;
}

const kvsi_gguf_family *kvsi_gguf_family_of_type(const char *type)
{
    const kvsi_gguf_family *f;

    for (size_t i = 0; type && (f = kvsi_gguf_family_at(i)); i++)
        if (strcmp(f->type, type) == 0)
            return f;
    return NULL;
}

kvs_status kvsi_gguf_family_set(const kvsi_gguf_family *family, kvs_model_config *config,
                                kvs_err *err)
{
    const kvsi_family settings = {.type = family->architecture, .settings = family->settings};

    return kvsi_family_set(&settings, config, err);
}

/* llama.cpp has the scale of Gemma's scores from the head size, but for the largest of each
 * generation, which it knows by their layers. */
void kvsi_gguf_family_derive(const kvsi_gguf_family *family, kvs_model_config *config)
{
    const size_t wide = config->dim / config->heads;
    const size_t head = config->head_size > 0 ? config->head_size : wide;

    if (family->is_gemma && head > 0) { /* which is checked later */
        config->embedding_scale = sqrt((double)config->dim);
        config->score_scale =
            1 / sqrt((double)(config->layers == family->wide_scores ? wide : head));
    }
    for (size_t l = 0; family->rope_period > 0 && l < config->layers; l++)
        if ((l + 1) % family->rope_period == 0 && l < KVSI_LISTED_LAYERS_MAX)
            config->no_rope_layers |= (uint64_t)1 << l;
    if (config->sliding_window == 0)
        config->sliding_rope_base = 0;
    else if (family->unscaled_windows && config->sliding_rope_base == 0)
        config->sliding_rope_base = config->rope_base;
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* In the order in which they are written.  Scaled positions and windows are in gguf_positions.c. */
static const kvsi_gguf_key keys[] = {
    {"vocab_size", "vocab", ALL, ALL, KVSI_GGUF_OPTIONAL},
    {"context_length", "context", ALL, ALL, KVSI_GGUF_REQUIRED},
    {"embedding_length", "dim", ALL, ALL, KVSI_GGUF_REQUIRED},
    {"block_count", "layers", ALL, ALL, KVSI_GGUF_REQUIRED},
    {"feed_forward_length", "ffn", ALL, ALL, KVSI_GGUF_REQUIRED},
    {"attention.head_count", "heads", ALL, ALL, KVSI_GGUF_REQUIRED},
    {"attention.head_count_kv", "kv-heads", ALL, ALL, KVSI_GGUF_OPTIONAL},
    {"attention.key_length", "head-size", ALL, OF_HEADS, KVSI_GGUF_OPTIONAL},
    {"attention.value_length", "head-size", 0, OF_HEADS, KVSI_GGUF_OPTIONAL},
    {"rope.dimension_count", "rotary-fraction", PARTIAL, ALL, KVSI_GGUF_ROTARY},
    {"attention.layer_norm_rms_epsilon", "norm-eps", RMS_NORM, RMS_NORM, KVSI_GGUF_REQUIRED},
    {"attention.layer_norm_epsilon", "norm-eps", LAYER_NORM, LAYER_NORM, KVSI_GGUF_REQUIRED},
    {"rope.freq_base", "rope-base", ALL, ALL, KVSI_GGUF_OPTIONAL},
    {"rope.freq_base_swa", "sliding-rope-base", GEMMA3, GEMMA3, KVSI_GGUF_OPTIONAL},
    {"attention.scale", "score-scale", GRANITE, GRANITE, KVSI_GGUF_OPTIONAL},
    {"embedding_scale", "embedding-scale", GRANITE, GRANITE, KVSI_GGUF_OPTIONAL},
    {"residual_scale", "residual-scale", GRANITE, GRANITE, KVSI_GGUF_OPTIONAL},
    {"logit_scale", "logit-divisor", GRANITE, GRANITE, KVSI_GGUF_REQUIRED},
    {"attn_logit_softcapping", "score-cap", GEMMA2, GEMMA2, KVSI_GGUF_POSITIVE},
    {"final_logit_softcapping", "logit-cap", GEMMA2, GEMMA2, KVSI_GGUF_POSITIVE},
    {"final_logit_softcapping", "logit-cap", GEMMA3, GEMMA3, KVSI_GGUF_OPTIONAL},
    {"use_parallel_residual", "parallel=own", NEOX, NEOX, KVSI_GGUF_CHOICE},
};

const kvsi_gguf_key *kvsi_gguf_key_at(size_t index)
{
    return index < sizeof keys / sizeof *keys ? &keys[index] : NULL;
}

/* The row of "NAME" or "NAME=VALUE". */
static const kvsi_setting *setting_of(const char *text)
{
    char name[KVSI_SETTING_KEY];

    snprintf(name, sizeof name, "%.*s", (int)strcspn(text, "="), text);
    return kvsi_settings_find(&kvsi_model_settings, name);
}

const kvsi_setting *kvsi_gguf_key_setting(const kvsi_gguf_key *key)
{
    return setting_of(key->setting);
}

/* ---- what tensors say ------------------------------------------------------------------------ */

static const kvsi_gguf_fact facts[] = {
    {"output.weight", "tied=yes", 1, ALL, MAY_BE_TIED},
    {"blk.0.attn_q.bias", "qkv-bias=yes", 0, ALL, MAY_HAVE_QKV_BIAS},
    {"blk.0.attn_qkv.bias", "qkv-bias=yes", 0, ALL, MAY_HAVE_QKV_BIAS},
    {"blk.0.attn_output.bias", "o-bias=yes", 0, ALL, MAY_HAVE_BIASES},
    {"blk.0.ffn_down.bias", "mlp-bias=yes", 0, ALL, MAY_HAVE_BIASES},
    {"blk.0.attn_q_norm.weight", "qk-norm=layer", 0, STABLELM, STABLELM},
    {"blk.0.ffn_norm.weight", "parallel=shared", 1, STABLELM, STABLELM},
};

const kvsi_gguf_fact *kvsi_gguf_fact_at(size_t index)
{
    return index < sizeof facts / sizeof *facts ? &facts[index] : NULL;
}

const kvsi_setting *kvsi_gguf_fact_setting(const kvsi_gguf_fact *fact)
{
    return setting_of(fact->setting);
}

/* ---- keys that change nothing ---------------------------------------------------------------- */

static const struct {
    const char *key;
    unsigned families;
} harmless[] = {
    {"attention.layer_norm_rms_epsilon", LAYER_NORM},
    {"attention.layer_norm_epsilon", RMS_NORM},
    {"use_parallel_residual", STABLELM}, /* converters write it whatever the tensors say */
    {"rope.scaling.finetuned", ALL & ~GRANITE},
    {"tensor_data_layout", ALL},
    {"pooling_type", ALL},
};

int kvsi_gguf_is_harmless(const char *key, size_t size, unsigned family)
{
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
        if (harmless[i].families & family && strlen(harmless[i].key) == size &&
            memcmp(harmless[i].key, key, size) == 0)
            return 1;
    return 0;
}
