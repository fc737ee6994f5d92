/* The whole model in double precision: gradients against central differences of the loss, and the
 * golden results far below float rounding. */
#include "base/random.h"
#include "golden.h"

#include <math.h>

typedef struct variant {
    const char *name;
    kvs_model_config special;
} variant;

enum { K = KVS_SHIFT_K, KV = KVS_SHIFT_K | KVS_SHIFT_V, QKV = KV | KVS_SHIFT_Q };

#define SHIFT SUPPORT_SHIFT
#define ALIBI .positions = KVSI_POSITIONS_ALIBI
#define GPT2 .body = KVSI_BODY_GPT2, .positions = KVSI_POSITIONS_LEARNED
#define DROPOUT .dropout_embedding = 0.1, .dropout_attention = 0.2, .dropout_residual = 0.15
#define SECOND_LAYER_SLIDES                                                                        \
    .kv_heads = 2, .sliding_window = 3, .sliding_layers = 1 << 1, .sliding_heads = 2,              \
    .sliding_kv_heads = 1
#define BARE .no_residual = 1, .no_mlp = 1, .no_norm = 1

#define YARN                                                                                       \
    .rope = {.scaling = KVSI_ROPE_YARN, .factor = 4, .original_context = 16, .beta_fast = 4}
#define LLAMA3 .rope = {.scaling = KVSI_ROPE_LLAMA3, .factor = 8, .original_context = 16}
#define LINEAR .rope = {.scaling = KVSI_ROPE_LINEAR, .factor = 3}
#define DYNAMIC .rope = {.scaling = KVSI_ROPE_DYNAMIC, .factor = 2, .original_context = 8}
#define LONGROPE                                                                                   \
    .rope = {.scaling = KVSI_ROPE_LONGROPE,                                                        \
             .factor = 4,                                                                          \
             .original_context = 8,                                                                \
             .shorts = 2,                                                                          \
             .short_factor = {1.2, 1.7},                                                           \
             .longs = 2,                                                                           \
             .long_factor = {2, 3}}

#define QK_NORM(kind) .qk_norm = KVSI_QK_NORM_##kind
#define FILTERS(which, previous) .filters = (which), .filter_window = (previous)
#define BRANCHES (KVSI_FILTER_ATTENTION | KVSI_FILTER_MLP)
#define RELATIVE(size, extent)                                                                     \
    .positions = KVSI_POSITIONS_RELATIVE, .relative_size = (size), .relative_extent = (extent)
#define GROWTH .score_growth = 0.4, .score_growth_start = 2.5

#define ADAPTERS(names) .lora = {.rank = 3, .alpha = 0.7, .on = (names)}

static const variant variants[] = {
    {"none", {.kv_heads = 4}},
    {"kv", {SHIFT(KV, FREE, 1)}},
    {"kv grouped", {SHIFT(KV, FREE, 1), .kv_heads = 2}},
    {"kv one head", {SHIFT(KV, FREE, 1), .heads = 1}},
    {"qkv window 3", {SHIFT(QKV, FREE, 3), .kv_heads = 2}},
    {"gate", {SHIFT(KV, GATE, 1), .kv_heads = 2}},
    {"k gate", {SHIFT(K, GATE, 1), .kv_heads = 1}},
    {"clamp", {SHIFT(KV, CLAMP, 1), .kv_heads = 2}},
    {"qkv clamp window 2", {SHIFT(QKV, CLAMP, 2), .kv_heads = 2}},
    {"channel", {SHIFT(KV, CHANNEL, 1), .kv_heads = 2}},
    {"qkv channel window 3", {SHIFT(QKV, CHANNEL, 3), .kv_heads = 2}},
    {"data", {SHIFT(KV, DATA, 1), .kv_heads = 2}},
    {"qkv data", {SHIFT(QKV, DATA, 1), .kv_heads = 2}},
    {"qkv hard", {SHIFT(QKV, HARD, 1), .kv_heads = 2, .rotary_fraction = 0.5}},

    {"rotary half", {SHIFT(KV, FREE, 1), .rotary_fraction = 0.5}},
    {"alibi", {SHIFT(KV, FREE, 1), ALIBI}},
    {"alibi, own slopes", {SHIFT(KV, FREE, 1), ALIBI, .slopes = 4, .slope = {.1, .5, .02, .9}}},
    {"learned", {SHIFT(KV, FREE, 1), .positions = KVSI_POSITIONS_LEARNED}},
    {"no positions", {SHIFT(KV, FREE, 1), .positions = KVSI_POSITIONS_NONE}},
    {"score scale", {SHIFT(KV, FREE, 1), .score_scale = 0.7}},
    {"sliding", {SHIFT(KV, FREE, 2), .sliding_window = 3}},
    {"sliding layer", {SHIFT(QKV, CHANNEL, 1), SECOND_LAYER_SLIDES}},
    {"sliding layer, data", {SHIFT(QKV, DATA, 1), SECOND_LAYER_SLIDES, ALIBI}},

    {"tied", {SHIFT(KV, FREE, 1), .tied = 1}},
    {"normalised", {SHIFT(KV, FREE, 1), .head = KVSI_HEAD_NORMALISED}},
    {"normalised and tied", {SHIFT(KV, FREE, 1), .head = KVSI_HEAD_NORMALISED, .tied = 1}},
    {"no head", {SHIFT(KV, FREE, 1), .head = KVSI_HEAD_NONE}},
    {"no residual", {SHIFT(KV, FREE, 1), .no_residual = 1}},
    {"no mlp", {SHIFT(KV, FREE, 1), .no_mlp = 1}},
    {"no norm", {SHIFT(KV, FREE, 1), .no_norm = 1}},
    {"bare", {SHIFT(KV, FREE, 1), BARE}},
    {"bare, data", {SHIFT(KV, DATA, 1), BARE, ALIBI}},

    {"dropout", {SHIFT(KV, FREE, 1), DROPOUT}},
    {"dropout, sliding", {SHIFT(QKV, DATA, 1), DROPOUT, SECOND_LAYER_SLIDES}},
    {"dropout, multipliers", {SHIFT(KV, FREE, 1), DROPOUT, .residual_scale = 0.4}},
    {"dropout, no residual", {SHIFT(KV, FREE, 1), DROPOUT, .no_residual = 1}},

    {"head size", {SHIFT(KV, FREE, 1), .kv_heads = 2, .head_size = 6}},
    {"head size, data", {SHIFT(QKV, DATA, 1), SECOND_LAYER_SLIDES, .head_size = 6}},
    {"biases", {SHIFT(KV, FREE, 1), .kv_heads = 2, .qkv_bias = 1, .o_bias = 1, .mlp_bias = 1}},
    {"bias of q, k and v", {SHIFT(QKV, FREE, 2), .qkv_bias = 1}},
    {"yarn", {SHIFT(KV, FREE, 1), YARN}},
    {"norms of q and k", {SHIFT(KV, FREE, 1), .kv_heads = 2, QK_NORM(HEAD)}},
    {"norms of q and k, data", {SHIFT(QKV, DATA, 1), SECOND_LAYER_SLIDES, QK_NORM(HEAD)}},
    {"norms of q and k together", {SHIFT(KV, FREE, 1), .kv_heads = 2, QK_NORM(FULL)}},
    {"norms of q and k together, data",
     {SHIFT(QKV, DATA, 1), SECOND_LAYER_SLIDES, QK_NORM(FULL), .qkv_bias = 1}},
    {"LayerNorm of q and k", {SHIFT(KV, FREE, 1), .kv_heads = 2, QK_NORM(LAYER)}},
    {"LayerNorm of q and k, channel",
     {SHIFT(QKV, CHANNEL, 2), SECOND_LAYER_SLIDES, QK_NORM(LAYER), .rotary_fraction = 0.5}},
    {"capped scores", {SHIFT(KV, FREE, 1), .kv_heads = 2, .score_cap = 0.5}},
    {"capped scores, alibi", {SHIFT(QKV, DATA, 1), SECOND_LAYER_SLIDES, ALIBI, .score_cap = 0.5}},
    {"capped logits", {SHIFT(KV, FREE, 1), .logit_cap = 0.3, .logit_divisor = 0.45}},
    {"capped logits without a head", {SHIFT(KV, FREE, 1), .head = KVSI_HEAD_NONE, .logit_cap = 2}},
    {"multipliers",
     {SHIFT(KV, FREE, 1), .embedding_scale = 3, .residual_scale = 0.4, .logit_divisor = 0.45}},
    {"norm of the embeddings", {SHIFT(KV, FREE, 1), .embedding_norm = 1, .embedding_scale = 3}},
    {"norm of the embeddings, dropout, tied",
     {SHIFT(KV, FREE, 1), DROPOUT, .embedding_norm = 1, .tied = 1}},
    {"LayerNorm", {SHIFT(KV, FREE, 1), .norm_kind = KVSI_NORM_LAYER, .embedding_norm = 1}},
    {"norms after", {SHIFT(KV, FREE, 1), .kv_heads = 2, .norm_place = KVSI_NORM_AFTER}},
    {"norms after, no residual",
     {SHIFT(KV, FREE, 1), .norm_place = KVSI_NORM_AFTER, .no_residual = 1}},
    {"norms after, no MLP", {SHIFT(KV, FREE, 1), .norm_place = KVSI_NORM_AFTER, .no_mlp = 1}},
    {"norms before and after, 1 + gain",
     {SHIFT(KV, FREE, 1), .norm_place = KVSI_NORM_BOTH, .gain_offset = 1, QK_NORM(HEAD),
      .embedding_norm = 1}},
    {"norms before and after, dropout",
     {SHIFT(KV, DATA, 1), DROPOUT, .norm_place = KVSI_NORM_BOTH, .residual_scale = 0.7,
      .norm_kind = KVSI_NORM_LAYER, .gain_offset = 1}},
    {"parallel, GELU",
     {SHIFT(KV, FREE, 1), .parallel = KVSI_PARALLEL_OWN, .norm_kind = KVSI_NORM_LAYER,
      .activation = KVSI_ACTIVATION_GELU, .plain_mlp = 1, .mlp_bias = 1}},
    {"parallel, dropout, norms before and after",
     {SHIFT(KV, FREE, 1), DROPOUT, .parallel = KVSI_PARALLEL_OWN, .norm_place = KVSI_NORM_BOTH}},
    {"parallel without norms", {SHIFT(KV, FREE, 1), .parallel = KVSI_PARALLEL_OWN, .no_norm = 1}},
    {"parallel with one norm", {SHIFT(KV, DATA, 1), .parallel = KVSI_PARALLEL_SHARED}},
    {"gated GELU", {SHIFT(KV, FREE, 1), .activation = KVSI_ACTIVATION_GELU_TANH}},
    {"gated exact GELU", {SHIFT(KV, FREE, 1), .activation = KVSI_ACTIVATION_GELU}},
    {"plain SiLU", {SHIFT(KV, FREE, 1), .plain_mlp = 1}},
    {"plain ReLU, learned positions, biases",
     {SHIFT(KV, FREE, 1), .activation = KVSI_ACTIVATION_RELU, .plain_mlp = 1, .mlp_bias = 1,
      .positions = KVSI_POSITIONS_LEARNED, .norm_kind = KVSI_NORM_LAYER}},
    {"gated ReLU", {SHIFT(KV, FREE, 1), .activation = KVSI_ACTIVATION_RELU}},
    {"linear", {SHIFT(KV, FREE, 1), LINEAR}},
    {"llama3", {SHIFT(KV, FREE, 1), LLAMA3}},
    {"dynamic", {SHIFT(KV, FREE, 1), DYNAMIC}},
    {"longrope", {SHIFT(KV, FREE, 1), LONGROPE}},
    {"layers without rope", {SHIFT(KV, FREE, 1), .no_rope_layers = 1 << 1, LLAMA3}},
    {"own base of sliding layers",
     {SHIFT(KV, FREE, 1), SECOND_LAYER_SLIDES, .sliding_rope_base = 100, LINEAR}},

    {"qkv residual window 3", {SHIFT(QKV, RESIDUAL, 3), .kv_heads = 2}},
    {"filters", {SHIFT(KV, FREE, 1), FILTERS(BRANCHES, 3)}},
    {"filter of attention, no MLP", {FILTERS(KVSI_FILTER_ATTENTION, 1), .no_mlp = 1}},
    {"filter of the MLP with a factor, norms after",
     {FILTERS(KVSI_FILTER_MLP, 2), .mlp_factor = 1, .norm_place = KVSI_NORM_AFTER}},
    {"filters, norms before and after, dropout, multipliers",
     {SHIFT(KV, DATA, 1), DROPOUT, FILTERS(BRANCHES, 2), .mlp_factor = 1,
      .norm_place = KVSI_NORM_BOTH, .residual_scale = 0.7}},
    {"filters, dropout", {FILTERS(BRANCHES, 1), DROPOUT, .mlp_factor = 1}},
    {"filters, no residual", {FILTERS(BRANCHES, 3), .no_residual = 1}},
    {"filters, parallel", {FILTERS(BRANCHES, 3), .parallel = KVSI_PARALLEL_SHARED}},
    {"relative positions", {SHIFT(KV, FREE, 1), RELATIVE(3, 5), .kv_heads = 2}},
    {"relative positions of one token", {RELATIVE(2, 1)}},
    {"relative positions, sliding layer, capped scores, dropout",
     {SHIFT(QKV, DATA, 1), RELATIVE(5, 4), SECOND_LAYER_SLIDES, DROPOUT, .score_cap = 2}},
    {"growing scores", {SHIFT(KV, FREE, 1), GROWTH, .kv_heads = 2}},
    {"growing scores, sliding layer, alibi, norms of q and k together",
     {GROWTH, SECOND_LAYER_SLIDES, ALIBI, QK_NORM(FULL)}},
    {"scores divided by the head size",
     {SHIFT(KV, FREE, 1), .score_divisor = KVSI_SCORE_DIVISOR_SIZE}},
    {"own head size of sliding layers",
     {SHIFT(QKV, CHANNEL, 2), SECOND_LAYER_SLIDES, .sliding_head_size = 6, QK_NORM(HEAD)}},
    {"filters, relative positions, growing scores, norms of q and k",
     {SHIFT(KV, RESIDUAL, 3), FILTERS(BRANCHES, 3), .mlp_factor = 1, RELATIVE(3, 5), GROWTH,
      SECOND_LAYER_SLIDES, .sliding_head_size = 6, QK_NORM(HEAD), .embedding_norm = 1,
      .score_divisor = KVSI_SCORE_DIVISOR_SIZE}},
    {"adapters", {SHIFT(KV, FREE, 1), .kv_heads = 2, ADAPTERS("v_proj,o_proj,down_proj")}},
    {"adapters of all matrices",
     {SHIFT(QKV, DATA, 1), DROPOUT, SECOND_LAYER_SLIDES, .head_size = 6, .qkv_bias = 1,
      .norm_place = KVSI_NORM_BOTH, ADAPTERS("*_proj")}},
    {"adapters of one layer, parallel", {.parallel = KVSI_PARALLEL_OWN, ADAPTERS("layers.1.*")}},

    {"gpt2", {GPT2, .tied = 1}},
    {"gpt2 kv", {SHIFT(KV, FREE, 1), GPT2}},
    {"gpt2 grouped", {SHIFT(QKV, CHANNEL, 2), GPT2, .kv_heads = 2}},
    {"gpt2 data", {SHIFT(KV, DATA, 1), GPT2}},
    {"gpt2 no head", {SHIFT(KV, FREE, 1), GPT2, .head = KVSI_HEAD_NONE}},
    {"gpt2, RMSNorm, exact GELU",
     {SHIFT(KV, FREE, 1), GPT2, .norm_kind = KVSI_NORM_RMS, .gain_offset = 1,
      .activation = KVSI_ACTIVATION_GELU}},
    {"gpt2 with rope", {SHIFT(KV, FREE, 1), .body = KVSI_BODY_GPT2}},
    {"gpt2 adapters", {SHIFT(KV, FREE, 1), GPT2, ADAPTERS("c_attn,c_proj,c_fc")}},
    {"gpt2 dropout", {SHIFT(KV, FREE, 1), GPT2, DROPOUT}},
    {"gpt2 bare", {SHIFT(KV, FREE, 1), GPT2, BARE}},
};

static const size_t starts[] = {0, 1, 3, 10, 14}; /* lengths 1, 2, 7, 4 */
static const support_sizes sizes = {.vocab = 11, .dim = 16, .ffn = 20, .context = 8};
static const support_dropout dropout = {.seed = 3, .number = 5};
enum { SEQUENCES = sizeof starts / sizeof *starts - 1, TOKENS = 14, SAMPLES = 8 };

static double loss_of(kvsi_pass *pass)
{
    kvsi_loss loss;

    kvsi_pass_forward(pass);
    assert_int_equal(kvsi_pass_loss(pass, NULL, &loss, NULL), KVS_OK);
    return loss.sum;
}

/* The slope of ReLU jumps at 0.  Steps are so small there that no unit of these models passes it;
 * the differences are then rounded more. */
static int has_kinks(const kvs_model *model)
{
    return model->config.activation == KVSI_ACTIVATION_RELU;
}

/* The derivative of the loss by one parameter, from four points: the error is of fourth order in
 * the step, so that only rounding matters. */
static double slope(kvsi_pass *pass, const kvs_model *model, size_t at)
{
    static const double offsets[] = {-2, -1, 1, 2}, weights[] = {1, -8, 8, -1};
    const double step = has_kinks(model) ? 2e-6 : 2e-4;
    kvsi_context c = model->context;
    real value, moved;
    double sum = 0;

    c.ops->download(&c, &value, model->parameters + at, sizeof value);
    c.ops->sync(&c);
    for (size_t i = 0; i < 4; i++) {
        moved = value + (real)(offsets[i] * step);
        c.ops->upload(&c, model->parameters + at, &moved, sizeof moved);
        sum += weights[i] * loss_of(pass);
    }
    c.ops->upload(&c, model->parameters + at, &value, sizeof value);
    return sum / (12 * step);
}

static int is_shift(const kvsi_parameter *p)
{
    return p->role == KVSI_TAPS || p->role == KVSI_GATE || p->role == KVSI_FILTER;
}

/* All parameters of a shift, a sample of every other tensor. */
static void check_tensor(kvsi_pass *pass, const kvs_model *model, const kvsi_parameter *p,
                         const real *gradient, const char *name)
{
    const size_t count = is_shift(p) || p->count < SAMPLES ? p->count : SAMPLES;
    /* Errors of the differences: their part of the gradient, and what is left if that is 0. */
    const double relative = has_kinks(model) ? 1e-6 : 1e-8;
    const double rounding = has_kinks(model) ? 1e-8 : 1e-10;
    double largest = 0;
    kvsi_random random;

    for (size_t i = 0; i < p->count; i++)
        largest = fmax(largest, fabs((double)gradient[i]));
    kvsi_random_init(&random, 1, KVSI_RANDOM_DATA, kvsi_hash_text(p->name));
    for (size_t i = 0; i < count; i++) {
        const size_t at = count == p->count ? i : kvsi_random_below(&random, (uint32_t)p->count);
        const double expected = slope(pass, model, p->offset + at);

        if (!(fabs((double)gradient[at] - expected) <= relative * largest + rounding))
            fail_msg("%s: gradient of %s[%zu] is %.10g, differences give %.10g", name, p->name, at,
                     (double)gradient[at], expected);
    }
}

static void check_gradients(kvs_runtime *rt, const variant *v, const kvs_batch *batch)
{
    const kvs_model_config config = support_config(&v->special, &sizes);
    const int drops = config.dropout_embedding > 0;
    kvs_model *model = support_model(rt, &config, 7);
    kvsi_pass *pass = support_pass(model, TOKENS, SEQUENCES, 0);
    support_result result = support_train(model, batch, drops ? &dropout : NULL);

    if (drops)
        kvsi_pass_set_dropout(pass, 1, dropout.seed, dropout.number);
    assert_int_equal(kvsi_pass_load(pass, batch, NULL, NULL), KVS_OK);
    for (size_t t = 0; t < model->layout.count; t++) {
        const kvsi_parameter *p = &model->layout.list[t];

        check_tensor(pass, model, p, result.gradients + p->offset, v->name);
    }
    support_result_release(&result);
    kvsi_pass_free(pass);
    kvs_model_free(model);
}

static void gradients_match_differences(void **state)
{
    kvs_runtime *rt = support_runtime("reference");
    int32_t ids[TOKENS], targets[TOKENS];
    const kvs_batch batch = {
        .sequences = SEQUENCES, .starts = starts, .ids = ids, .targets = targets};

    (void)state;
    support_fill_ids(ids, TOKENS, 1, sizes.vocab);
    support_fill_ids(targets, TOKENS, 2, sizes.vocab);
    targets[2] = targets[6] = targets[TOKENS - 1] = -1;
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++)
        check_gradients(rt, &variants[i], &batch);
    kvs_runtime_free(rt);
}

static void matches_pytorch_closely(void **state)
{
    /* golden gradients and logits are stored as float32 */
    const golden_limits limits = {.loss = 1e-9, .gradient = 1e-7, .logit = 1e-7};
    kvs_runtime *rt = support_runtime("reference");

    (void)state;
    golden_expect_all(rt, &limits);
    kvs_runtime_free(rt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_match_differences),
        cmocka_unit_test(matches_pytorch_closely),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
