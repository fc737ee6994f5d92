#include "family.h"

#include "kernels/forms.h"

#include <math.h>
#include <stdio.h>

enum {
    K = KVS_SHIFT_K,
    V = KVS_SHIFT_V,
    KV = KVS_SHIFT_K | KVS_SHIFT_V,
    QKV = KVS_SHIFT_K | KVS_SHIFT_V | KVS_SHIFT_Q
};

typedef struct variant {
    const char *name;
    kvs_model_config special;
} variant;

#define SHIFT SUPPORT_SHIFT
#define ALIBI .positions = KVSI_POSITIONS_ALIBI
#define GPT2 .body = KVSI_BODY_GPT2, .positions = KVSI_POSITIONS_LEARNED
#define SECOND_LAYER_SLIDES                                                                        \
    .kv_heads = 2, .sliding_window = 9, .sliding_layers = 1 << 1, .sliding_heads = 2,              \
    .sliding_kv_heads = 1

#define YARN                                                                                       \
    .rope = {.scaling = KVSI_ROPE_YARN, .factor = 4, .original_context = 16, .beta_fast = 4}
#define LLAMA3 .rope = {.scaling = KVSI_ROPE_LLAMA3, .factor = 8, .original_context = 16}
#define LINEAR .rope = {.scaling = KVSI_ROPE_LINEAR, .factor = 3}
#define LONGROPE                                                                                   \
    .head_size = 8, .rope = {.scaling = KVSI_ROPE_LONGROPE,                                        \
                             .factor = 4,                                                          \
                             .original_context = 4096,                                             \
                             .shorts = 4,                                                          \
                             .short_factor = {1, 1.2, 1.7, 2},                                     \
                             .longs = 4,                                                           \
                             .long_factor = {2, 3, 4, 5}}

#define QK_NORM(kind) .qk_norm = KVSI_QK_NORM_##kind
#define FILTERS(which, previous) .filters = (which), .filter_window = (previous)
#define BRANCHES (KVSI_FILTER_ATTENTION | KVSI_FILTER_MLP)
#define RELATIVE(size, extent)                                                                     \
    .positions = KVSI_POSITIONS_RELATIVE, .relative_size = (size), .relative_extent = (extent)
#define GROWTH .score_growth = 0.4, .score_growth_start = 2.5

#define ADAPTERS(names) .lora = {.rank = 3, .alpha = 1.5, .on = (names)}

static const variant variants[] = {
    {"none", {.kv_heads = 2}},
    {"kv", {SHIFT(KV, FREE, 1), .kv_heads = 4}},
    {"kv, one kv head of 12", {SHIFT(KV, FREE, 1), .heads = 2, .kv_heads = 1}},
    {"kv one head", {SHIFT(KV, FREE, 1), .heads = 1}},
    {"qkv window 3", {SHIFT(QKV, FREE, 3), .kv_heads = 2}},
    {"gate", {SHIFT(KV, GATE, 1), .kv_heads = 2}},
    {"qkv channel window 2", {SHIFT(QKV, CHANNEL, 2), .kv_heads = 2}},
    {"qkv data", {SHIFT(QKV, DATA, 1), .kv_heads = 2}},
    {"kv hard", {SHIFT(KV, HARD, 1), .kv_heads = 2, .rotary_fraction = 1.0 / 3}},
    {"rotary third", {SHIFT(KV, FREE, 1), .rotary_fraction = 1.0 / 3}},
    {"alibi", {SHIFT(KV, FREE, 1), ALIBI, .kv_heads = 2}},
    {"alibi, own slopes", {SHIFT(KV, FREE, 1), ALIBI, .slopes = 4, .slope = {.1, .5, .02, .9}}},
    {"learned", {SHIFT(KV, FREE, 1), .positions = KVSI_POSITIONS_LEARNED}},
    {"no positions", {SHIFT(KV, FREE, 1), .positions = KVSI_POSITIONS_NONE}},
    {"sliding", {SHIFT(KV, FREE, 2), .kv_heads = 2, .sliding_window = 5}},
    {"sliding by 2", {SHIFT(KV, FREE, 1), .sliding_window = 2}},
    {"sliding by 70", {SHIFT(QKV, DATA, 1), .sliding_window = 70}},
    {"sliding layer", {SHIFT(QKV, CHANNEL, 3), SECOND_LAYER_SLIDES}},
    {"sliding layer, data", {SHIFT(QKV, DATA, 1), ALIBI, SECOND_LAYER_SLIDES}},
    {"bare", {SHIFT(KV, FREE, 1), ALIBI, .no_residual = 1, .no_mlp = 1, .no_norm = 1}},
    {"head size", {SHIFT(KV, FREE, 1), .kv_heads = 2, .head_size = 20}},
    {"head size, data", {SHIFT(QKV, DATA, 1), SECOND_LAYER_SLIDES, .head_size = 20}},
    {"biases", {SHIFT(KV, FREE, 1), .kv_heads = 2, .qkv_bias = 1, .o_bias = 1, .mlp_bias = 1}},
    {"bias of q, k and v", {SHIFT(QKV, FREE, 2), .qkv_bias = 1}},
    {"yarn", {SHIFT(KV, FREE, 1), YARN}},
    {"longrope", {SHIFT(KV, FREE, 1), LONGROPE}},
    {"norms of q and k", {SHIFT(KV, FREE, 1), .kv_heads = 2, QK_NORM(HEAD)}},
    {"norms of q and k, data", {SHIFT(QKV, DATA, 1), SECOND_LAYER_SLIDES, QK_NORM(HEAD)}},
    {"norms of q and k together", {SHIFT(KV, FREE, 1), .kv_heads = 2, QK_NORM(FULL)}},
    {"norms of q and k together, data", {SHIFT(QKV, DATA, 1), SECOND_LAYER_SLIDES, QK_NORM(FULL)}},
    {"LayerNorm of q and k",
     {SHIFT(QKV, FREE, 2), .kv_heads = 2, QK_NORM(LAYER), .rotary_fraction = 1.0 / 3}},
    {"capped scores", {SHIFT(KV, FREE, 1), .kv_heads = 2, .score_cap = 0.5}},
    {"capped scores, alibi", {SHIFT(KV, FREE, 1), ALIBI, SECOND_LAYER_SLIDES, .score_cap = 2}},
    {"capped logits", {SHIFT(KV, FREE, 1), .logit_cap = 3, .logit_divisor = 0.45}},
    {"multipliers",
     {SHIFT(KV, FREE, 1), .embedding_scale = 3, .residual_scale = 0.4, .logit_divisor = 0.45}},
    {"norm of the embeddings", {SHIFT(KV, FREE, 1), .embedding_norm = 1, .embedding_scale = 3}},
    {"LayerNorm", {SHIFT(KV, FREE, 1), .norm_kind = KVSI_NORM_LAYER, .embedding_norm = 1}},
    {"norms after", {SHIFT(KV, FREE, 1), .kv_heads = 2, .norm_place = KVSI_NORM_AFTER}},
    {"norms before and after, 1 + gain",
     {SHIFT(KV, FREE, 1), .norm_place = KVSI_NORM_BOTH, .gain_offset = 1, .residual_scale = 0.7}},
    {"LayerNorm after, data",
     {SHIFT(QKV, DATA, 1), .norm_place = KVSI_NORM_AFTER, .norm_kind = KVSI_NORM_LAYER}},
    {"parallel, GELU",
     {SHIFT(KV, FREE, 1), .parallel = KVSI_PARALLEL_OWN, .norm_kind = KVSI_NORM_LAYER,
      .activation = KVSI_ACTIVATION_GELU, .plain_mlp = 1, .mlp_bias = 1}},
    {"parallel with one norm, ReLU",
     {SHIFT(KV, CHANNEL, 1), .parallel = KVSI_PARALLEL_SHARED, .activation = KVSI_ACTIVATION_RELU}},
    {"gated GELU", {SHIFT(KV, FREE, 1), .activation = KVSI_ACTIVATION_GELU_TANH}},
    {"layers without rope", {SHIFT(KV, FREE, 1), .no_rope_layers = 1 << 1, LLAMA3}},
    {"own base of sliding layers",
     {SHIFT(KV, FREE, 1), SECOND_LAYER_SLIDES, .sliding_rope_base = 100, LINEAR}},
    {"filters", {SHIFT(KV, FREE, 1), FILTERS(BRANCHES, 3)}},
    {"filters without a shift", {FILTERS(BRANCHES, 2), .mlp_factor = 1, .kv_heads = 2}},
    {"filter of the MLP, norms after",
     {SHIFT(QKV, DATA, 1), FILTERS(KVSI_FILTER_MLP, 1), .norm_place = KVSI_NORM_AFTER}},
    {"filter of attention, no MLP", {FILTERS(KVSI_FILTER_ATTENTION, 3), .no_mlp = 1}},
    {"relative positions", {SHIFT(KV, FREE, 1), RELATIVE(3, 70), .kv_heads = 2}},
    {"relative positions, sliding layer, capped scores",
     {SHIFT(QKV, DATA, 1), RELATIVE(5, 300), SECOND_LAYER_SLIDES, .score_cap = 2}},
    {"growing scores, alibi", {SHIFT(KV, FREE, 1), GROWTH, ALIBI, SECOND_LAYER_SLIDES}},
    {"growing scores, rotary", {SHIFT(KV, FREE, 1), GROWTH, .kv_heads = 2}},
    {"filters, relative positions, growing scores, norms of q and k",
     {SHIFT(KV, RESIDUAL, 3), FILTERS(BRANCHES, 3), .mlp_factor = 1, RELATIVE(3, 20), GROWTH,
      SECOND_LAYER_SLIDES, .sliding_head_size = 8, QK_NORM(HEAD), .embedding_norm = 1,
      .score_divisor = KVSI_SCORE_DIVISOR_SIZE}},
    {"adapters", {SHIFT(KV, FREE, 1), .kv_heads = 2, ADAPTERS("q_proj,v_proj,o_proj,mlp.*")}},
    {"adapters, data, sliding",
     {SHIFT(QKV, DATA, 1), SECOND_LAYER_SLIDES, .norm_place = KVSI_NORM_AFTER, ADAPTERS("*_proj")}},
    {"gpt2", {GPT2, .tied = 1}},
    {"gpt2 kv", {SHIFT(KV, FREE, 1), GPT2}},
    {"gpt2 qkv channel", {SHIFT(QKV, CHANNEL, 2), GPT2, .kv_heads = 2}},
    {"gpt2, RMSNorm, ReLU",
     {SHIFT(KV, FREE, 1), GPT2, .norm_kind = KVSI_NORM_RMS, .gain_offset = 1,
      .activation = KVSI_ACTIVATION_RELU}},
    {"gpt2 adapters", {SHIFT(KV, FREE, 1), GPT2, ADAPTERS("c_attn,mlp.c_proj")}},
    {"gpt2 data", {SHIFT(KV, DATA, 1), GPT2, .kv_heads = 2}},
    {"gpt2 sliding, rope", {SHIFT(KV, FREE, 1), .body = KVSI_BODY_GPT2, SECOND_LAYER_SLIDES}},
};

static void run_check(kvs_runtime *rt, const support_sizes *sizes, family_check *check,
                      const kvs_model_config *special, const char *name)
{
    const kvs_model_config config = support_config(special, sizes);
    kvs_model *model = support_model(rt, &config, 11);
    char whole_name[128];

    snprintf(whole_name, sizeof whole_name, "%s, %s", kvs_runtime_cpu_level(rt), name);
    check(model, whole_name);
    kvs_model_free(model);
}

/* The runtime of the next CPU level; NULL past the last. */
static kvs_runtime *next_level(const family_scope *scope, size_t index)
{
    if ((scope->levels > 0 && index >= scope->levels) || !support_level(index))
        return NULL;
    return support_runtime(support_level(index));
}

void family_each_model(const family_scope *scope, family_check *check)
{
    kvs_runtime *rt;

    for (size_t l = 0; (rt = next_level(scope, l)); l++) {
        for (size_t i = 0; i < sizeof variants / sizeof *variants; i++)
            run_check(rt, &scope->sizes, check, &variants[i].special, variants[i].name);
        kvs_runtime_free(rt);
    }
}

/* One form with every target and window that it takes. */
static void check_form(kvs_runtime *rt, const support_sizes *sizes, family_check *check,
                       kvsi_shift_form form)
{
    static const unsigned targets[] = {K, V, KV, QKV};

    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
        for (size_t window = 1; window <= kvsi_form_get(form)->window_max; window++) {
            const kvs_model_config special = {
                .kv_heads = 2,
                .shift = {.targets = targets[i], .form = form, .window = window},
                .rotary_fraction = form == KVSI_SHIFT_HARD ? 1.0 / 3 : 1.0,
            };
            char name[64];

            snprintf(name, sizeof name, "%s %s window %zu", kvsi_shift_targets_name(targets[i]),
                     kvsi_shift_form_name(form), window);
            run_check(rt, sizes, check, &special, name);
        }
}

void family_each_shift(const family_scope *scope, family_check *check)
{
    kvs_runtime *rt;

    for (size_t l = 0; (rt = next_level(scope, l)); l++) {
        for (int form = 0; kvsi_form_get((kvsi_shift_form)form); form++)
            check_form(rt, &scope->sizes, check, (kvsi_shift_form)form);
        kvs_runtime_free(rt);
    }
}

double family_rotation_scale(const kvs_model_config *config)
{
    if (config->rope.scaling == KVSI_ROPE_YARN)
        return 0.1 * log(config->rope.factor) + 1;
    if (config->rope.scaling == KVSI_ROPE_LONGROPE)
        return sqrt(1 + log(config->rope.factor) / log((double)config->rope.original_context));
    return 1;
}
