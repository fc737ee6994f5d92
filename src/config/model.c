/* The settings of a model. */
#include "config/rows.h"

const char kvsi_group_model[] = "Model";

#define GROUP kvsi_group_model
#define FIELD(member) offsetof(kvs_model_config, member)

/* Limits that keep products of sizes within 64 bits, and the list of tensors small. */
enum { SIZE_LIMIT = 1 << 24, LAYERS_LIMIT = 1 << 12 };

#define IS_LIST(count, first) (FIELD(first) == FIELD(count) + offsetof(kvsi_number_list, numbers))

/* A KVSI_SETTING_REALS is a count followed by its array. */
_Static_assert(IS_LIST(slopes, slope) && (int)KVSI_SLOPES_MAX == (int)KVSI_LIST_MAX,
               "slopes have the layout of a kvsi_number_list");
_Static_assert(IS_LIST(rope.shorts, rope.short_factor) && IS_LIST(rope.longs, rope.long_factor),
               "factors have the layout of a kvsi_number_list");

/* clang-format off */
static const kvsi_setting rows[] = {
    {ENUM("body", body, GROUP, "architecture around the attention", kvsi_body_names),
     .value = "llama"},

    {ENUM("shift", shift.targets, GROUP, "what is mixed with the previous tokens",
          kvsi_shift_target_names),
     .aliases = kvsi_shift_aliases, .value = "none", .key = "targets"},
    {ENUM("shift-form", shift.form, GROUP, "how taps are computed from parameters",
          kvsi_shift_form_names),
     .value = "free", .key = "form"},
    {SIZE("shift-window", shift.window, GROUP, "number of previous tokens that are mixed in"),
     .low = 1, .high = KVSI_SHIFT_WINDOW_MAX, .value = "1", .key = "window"},
    {ENUM("shift-init", shift.init, GROUP, "initial taps", kvsi_shift_init_names),
     .value = "uniform", .key = "init"},

    {ENUM("filters", filters, GROUP,
          "outputs that are mixed with those of the previous tokens, channel by channel",
          kvsi_filters_names),
     .value = "none"},
    {SIZE("filter-window", filter_window, GROUP, "number of previous tokens that filters mix in"),
     .high = KVSI_SHIFT_WINDOW_MAX, .automatic = "1 with filters"},
    {FLAG("mlp-factor", mlp_factor, GROUP,
          "a learned factor of the MLP's output, which must have a filter")},

    {SIZE("layers", layers, GROUP, "number of layers"), .low = 1, .high = LAYERS_LIMIT,
     .value = "1"},
    {SIZE("dim", dim, GROUP, "width of the model"), .low = 1, .high = SIZE_LIMIT, .value = "128"},
    {SIZE("heads", heads, GROUP, "number of attention heads, which must divide --dim"), .low = 1,
     .high = SIZE_LIMIT, .value = "4"},
    {SIZE("kv-heads", kv_heads, GROUP, "key and value heads; must divide --heads"),
     .high = SIZE_LIMIT, .automatic = "as many as --heads"},
    {SIZE("head-size", head_size, GROUP, "channels of an attention head"), .high = 1 << 16,
     .automatic = "--dim divided by --heads"},
    {FLAG("qkv-bias", qkv_bias, GROUP, "biases of q, k and v; gpt2 always has them")},
    {FLAG("o-bias", o_bias, GROUP, "a bias of the output of attention; gpt2 always has it")},
    {FLAG("mlp-bias", mlp_bias, GROUP, "biases of the MLP; gpt2 always has them")},
    {ENUM("qk-norm", qk_norm, GROUP,
          "norm of the queries and keys, after the shift and before positions: RMSNorm of each "
          "head or of all, or LayerNorm of each head",
          kvsi_qk_norm_names),
     .value = "none"},
    {FLAG("embedding-norm", embedding_norm, GROUP,
          "a norm of the embeddings of tokens, after their scale")},
    {ENUM("norm-kind", norm_kind, GROUP, "kind of the norms; auto is rms, for gpt2 layer",
          kvsi_norm_kind_names),
     .value = "auto"},
    {ENUM("norm-place", norm_place, GROUP, "norms before attention and MLP, after them, or both",
          kvsi_norm_place_names),
     .value = "before"},
    {FLAG("gain-offset", gain_offset, GROUP, "norms multiply by 1 + gain")},
    {ENUM("parallel", parallel, GROUP,
          "attention and MLP read the same input, with norms of their own or one shared norm",
          kvsi_parallel_names),
     .value = "none"},
    {ENUM("activation", activation, GROUP,
          "function of the MLP; auto is silu, for gpt2 gelu-tanh", kvsi_activation_names),
     .value = "auto"},
    {FLAG("plain-mlp", plain_mlp, GROUP, "an MLP without a gate; gpt2 always has it")},
    {REAL("embedding-scale", embedding_scale, GROUP, "factor of the embeddings of tokens"),
     .high = 1e9, .automatic = "1"},
    {REAL("residual-scale", residual_scale, GROUP,
          "factor of what attention and MLP add to the residual stream"),
     .high = 1e9, .automatic = "1"},
    {REAL("logit-divisor", logit_divisor, GROUP, "what the logits are divided by"), .high = 1e9,
     .automatic = "1"},
    {REAL("logit-cap", logit_cap, GROUP, "logits become this times tanh(logit / this)"),
     .high = 1e9, .automatic = "none"},
    {SIZE("ffn", ffn, GROUP, "width of the MLP"), .high = SIZE_LIMIT,
     .automatic = "8/3 of --dim, rounded up to 16; gpt2: 4 times --dim"},
    {SIZE("context", context, GROUP, "longest sequence in tokens"), .high = SIZE_LIMIT,
     .automatic = "what the task needs", .value = "512"},
    {SIZE("vocab", vocab, GROUP,
          "number of different tokens, for task induction and .bin files; other data have "
          "their own"),
     .low = 1, .high = SIZE_LIMIT},

    {ENUM("positions", positions, GROUP, "positional encoding", kvsi_positions_names),
     .automatic = "rope; gpt2: learned", .value = "rope"},
    {ENUM("head", head, GROUP, "how the last hidden state becomes logits", kvsi_head_names),
     .value = "linear"},
    {FLAG("tied", tied, GROUP, "share the embedding table with the output head")},
    {REAL("rope-base", rope_base, GROUP, "base of the rotary frequencies"), .low = 1,
     .open_low = 1, .high = 1e30, .value = "1e5", .key = "rope_theta"},
    {REAL("rotary-fraction", rotary_fraction, GROUP, "fraction of a head's channels that rotate"),
     .high = 1, .value = "1"},
    {ENUM("rope-scaling", rope.scaling, GROUP,
          "change of the rotary frequencies for a longer context", kvsi_rope_scaling_names),
     .value = "none", .key = "rotary_scaling"},
    {REAL("rope-factor", rope.factor, GROUP, "scaling: how much longer the context is"),
     .high = 1e9, .automatic = "1"},
    {SIZE("rope-original-context", rope.original_context, GROUP,
          "scaling: the context before it became longer"),
     .high = SIZE_LIMIT},
    {REAL("rope-low-factor", rope.low_factor, GROUP,
          "llama3: longer waves than the original context divided by this are scaled"),
     .high = 1e9, .automatic = "1"},
    {REAL("rope-high-factor", rope.high_factor, GROUP,
          "llama3: shorter waves than the original context divided by this are not scaled"),
     .high = 1e9, .automatic = "4"},
    {REAL("rope-beta-fast", rope.beta_fast, GROUP,
          "yarn: pairs that turn more often within the original context are not scaled"),
     .high = 1e9, .automatic = "32"},
    {REAL("rope-beta-slow", rope.beta_slow, GROUP,
          "yarn: pairs that turn less often within the original context are scaled"),
     .high = 1e9, .automatic = "1"},
    {FLAG("rope-untruncated", rope.untruncated, GROUP,
          "yarn: these bounds are not rounded to whole channels")},
    {REAL("rope-vector-scale", rope.vector_scale, GROUP,
          "yarn and longrope: factor of rotated queries and keys"),
     .high = 1e9, .automatic = "follows from the factor"},
    {ROW("rope-short-factors", KVSI_SETTING_REALS, rope.shorts, GROUP, "X,...",
         "longrope: what the frequency of each rotary pair is divided by"),
     .automatic = "none"},
    {ROW("rope-long-factors", KVSI_SETTING_REALS, rope.longs, GROUP, "X,...",
         "longrope: the same beyond the original context, where it is not computed"),
     .automatic = "none"},
    {ROW("no-rope-layers", KVSI_SETTING_BITS, no_rope_layers, GROUP, "N,...",
         "layers without rotary positions; the first is 0"),
     .high = KVSI_LISTED_LAYERS_MAX - 1, .automatic = "none"},
    {REAL("sliding-rope-base", sliding_rope_base, GROUP,
          "base of the rotary frequencies in layers with a sliding window, without scaling"),
     .high = 1e30, .automatic = "as in the others"},
    {ROW("slopes", KVSI_SETTING_REALS, slopes, GROUP, "X,...",
         "slopes of alibi: one for all heads, or one per head"),
     .automatic = "2^-8i/heads for head i"},
    {SIZE("relative-size", relative_size, GROUP,
          "relative positions: numbers per head that a row computes for the terms of its scores"),
     .high = KVSI_RELATIVE_SIZE_MAX, .automatic = "16 with relative positions"},
    {SIZE("relative-extent", relative_extent, GROUP,
          "relative positions: distances with such a term, from 0 on; with a sliding window as "
          "many as it has tokens"),
     .high = SIZE_LIMIT, .automatic = "--context with relative positions"},
    {ENUM("score-divisor", score_divisor, GROUP,
          "what products of queries and keys are divided by: the root of the head size, or the "
          "head size",
          kvsi_score_divisor_names),
     .value = "root"},
    {REAL("score-scale", score_scale, GROUP, "factor of the attention scores"), .high = 1e30,
     .automatic = "1 / --score-divisor"},
    {REAL("score-growth", score_growth, GROUP,
          "scores at position i, without a sliding window, are multiplied by 1 + this times "
          "ln((i + 1) / --score-growth-start)"),
     .high = 1e9, .automatic = "they are not"},
    {REAL("score-growth-start", score_growth_start, GROUP,
          "number of tokens after which scores grow"),
     .high = 1e9, .automatic = "1 with --score-growth"},
    {REAL("score-cap", score_cap, GROUP,
          "scores become this times tanh(score / this), before the slopes of alibi"),
     .high = 1e9, .automatic = "none"},
    {SIZE("sliding-window", sliding_window, GROUP,
          "tokens that attention sees, the current one included"),
     .automatic = "all"},
    {ROW("sliding-layers", KVSI_SETTING_BITS, sliding_layers, GROUP, "N,...",
         "layers with the sliding window; the first is 0"),
     .high = KVSI_LISTED_LAYERS_MAX - 1, .automatic = "every layer"},
    {SIZE("sliding-heads", sliding_heads, GROUP, "attention heads of layers with that window"),
     .high = SIZE_LIMIT, .automatic = "as the others"},
    {SIZE("sliding-kv-heads", sliding_kv_heads, GROUP,
          "key and value heads of layers with that window"),
     .high = SIZE_LIMIT, .automatic = "as the others"},
    {SIZE("sliding-head-size", sliding_head_size, GROUP,
          "channels of an attention head of layers with that window"),
     .high = 1 << 16, .automatic = "as --head-size says"},

    {REAL("dropout-embedding", dropout_embedding, GROUP, "dropout of the embeddings"), .high = 1,
     .open_high = 1},
    {REAL("dropout-attention", dropout_attention, GROUP, "dropout of the attention weights"),
     .high = 1, .open_high = 1},
    {REAL("dropout-residual", dropout_residual, GROUP,
          "dropout of the outputs of attention and MLP"),
     .high = 1, .open_high = 1},
    {FLAG("no-residual", no_residual, GROUP, "layers replace their input instead of adding to it"),
     .key = "residual", .negated = 1},
    {FLAG("no-mlp", no_mlp, GROUP, "attention only"), .key = "mlp", .negated = 1},
    {FLAG("no-norm", no_norm, GROUP, "no norms"), .key = "norm", .negated = 1},
    {REAL("norm-eps", norm_eps, GROUP, "epsilon of the norms"), .high = 1, .open_high = 1,
     .value = "1e-5"},
    {REAL("init-std", init_std, GROUP, "standard deviation of initial weights"), .high = 1e30,
     .value = "0.02"},
    {FLAG("identity-projections", identity_projections, GROUP,
          "the matrices of attention start as identities")},
    {FLAG("unit-embeddings", unit_embeddings, GROUP, "embeddings start with length 1")},
};
/* clang-format on */

const kvsi_settings kvsi_model_settings = TABLE("model", rows);

void kvsi_model_config_init(kvs_model_config *config)
{
    kvsi_settings_init(&kvsi_model_settings, config, sizeof *config);
}

void kvsi_model_config_set_body(kvs_model_config *config, kvsi_body body)
{
    config->body = body;
    config->positions = body == KVSI_BODY_GPT2 ? KVSI_POSITIONS_LEARNED : KVSI_POSITIONS_ROPE;
}
