#include "formats/families.h"

#include <stdio.h>
#include <string.h>

const char kvsi_own_type[] = "kvshift", kvsi_own_model[] = "KVShiftForCausalLM";

/* ---- the families ---------------------------------------------------------------------------- */

enum {
    OWN_LLAMA = 1 << 0,
    OWN_GPT2 = 1 << 1,
    LLAMA = 1 << 2,
    GPT2 = 1 << 3,
    MISTRAL = 1 << 4,
    QWEN2 = 1 << 5,
    SMOLLM3 = 1 << 6,
    PHI3 = 1 << 7,
    QWEN3 = 1 << 8,
    GRANITE = 1 << 9,
    OLMO2 = 1 << 10,
    GEMMA2 = 1 << 11,
    GEMMA3 = 1 << 12,
    INKLING = 1 << 13,
    GEMMA = GEMMA2 | GEMMA3,
    NEOX = 1 << 14,
    STABLELM = 1 << 15,
    OPT = 1 << 16,
    KIN = LLAMA | MISTRAL | QWEN2 | SMOLLM3 | PHI3 | QWEN3 | GRANITE | OLMO2 | GEMMA |
          INKLING, /* with the keys of Llama */
    LAYER_NORM = NEOX | STABLELM,
};

#define OF_LLAMA                                                                                   \
    .body = KVSI_BODY_LLAMA, .activation_key = "hidden_act", .activations = {"silu", "swish"}
#define OF_GEMMA                                                                                   \
    .body = KVSI_BODY_LLAMA, .activation_key = "hidden_activation",                                \
    .second_activation_key = "hidden_act", .activations = {"gelu_pytorch_tanh", "gelu_new"},       \
    .root_scale = 1
#define GELU_TANH "gelu_new", "gelu_pytorch_tanh", "gelu_fast", "gelu_python_tanh", "gelu_accurate"
#define OF_GPT2                                                                                    \
    .body = KVSI_BODY_GPT2, .activation_key = "activation_function", .activations = {GELU_TANH}
#define OF_OTHERS_GPT2                                                                             \
    .body = KVSI_BODY_GPT2, .activation_key = "activation_function",                               \
    .activations = {GELU_TANH, "gelu=gelu", "gelu_python=gelu", "relu=relu"}

#define OF_NEOX                                                                                    \
    .body = KVSI_BODY_LLAMA, .activation_key = "hidden_act",                                       \
    .activations = {"gelu", "gelu_python", "gelu_fast=gelu-tanh", "gelu_new=gelu-tanh",            \
                    "gelu_pytorch_tanh=gelu-tanh"}
#define OF_OPT                                                                                     \
    .body = KVSI_BODY_LLAMA, .activation_key = "activation_function",                              \
    .activations = {"relu", "gelu=gelu", "gelu_new=gelu-tanh"}

/* Values for missing keys that Llama's files and ours share. */
#define LLAMA_DEFAULTS "context=2048 norm-eps=1e-6 rope-base=10000"
#define GEMMA_DEFAULTS                                                                             \
    "norm-eps=1e-6 head-size=256 kv-heads=4 tied=yes norm-place=both gain-offset=yes "             \
    "activation=gelu-tanh score-scale=0.0625 sliding-window=4096 "
#define GPT2_DEFAULTS                                                                              \
    "context=1024 norm-eps=1e-5 tied=yes dropout-embedding=0.1 dropout-attention=0.1 "             \
    "dropout-residual=0.1"

static const kvsi_packed_rows phi3_rows[] = {
    {.name = "qkv_proj.weight", .parts = {"q_proj.weight", "k_proj.weight", "v_proj.weight"}},
    {.name = "gate_up_proj.weight", .parts = {"gate_proj.weight", "up_proj.weight"}},
    {0},
};

static const kvsi_family_name neox_names[] = {
    {"gpt_neox.layers.", "model.layers.", KVSI_SHAPE_SAME},
    {"gpt_neox.embed_in.", "model.embed_tokens.", KVSI_SHAPE_SAME},
    {"gpt_neox.final_layer_norm.", "model.norm.", KVSI_SHAPE_SAME},
    {"embed_out.", "lm_head.", KVSI_SHAPE_SAME},
    {".attention.dense.", ".self_attn.o_proj.", KVSI_SHAPE_SAME},
    {".attention.", ".self_attn.", KVSI_SHAPE_SAME},
    {".dense_h_to_4h.", ".up_proj.", KVSI_SHAPE_SAME},
    {".dense_4h_to_h.", ".down_proj.", KVSI_SHAPE_SAME},
    {NULL, NULL, KVSI_SHAPE_SAME},
};

static const kvsi_packed_rows neox_rows[] = {
    {.name = "query_key_value.weight",
     .parts = {"q_proj.weight", "k_proj.weight", "v_proj.weight"},
     .by_head = 1},
    {.name = "query_key_value.bias",
     .parts = {"q_proj.bias", "k_proj.bias", "v_proj.bias"},
     .by_head = 1},
    {0},
};

static const kvsi_family_name opt_names[] = {
    {"model.decoder.final_layer_norm.", "model.norm.", KVSI_SHAPE_SAME},
    {"model.decoder.layers.", "model.layers.", KVSI_SHAPE_SAME},
    {"model.decoder.embed_", "model.embed_", KVSI_SHAPE_SAME},
    {".self_attn_layer_norm.", ".input_layernorm.", KVSI_SHAPE_SAME},
    {".final_layer_norm.", ".post_attention_layernorm.", KVSI_SHAPE_SAME},
    {".out_proj.", ".o_proj.", KVSI_SHAPE_SAME},
    {".fc1.", ".mlp.up_proj.", KVSI_SHAPE_SAME},
    {".fc2.", ".mlp.down_proj.", KVSI_SHAPE_SAME},
    {NULL, NULL, KVSI_SHAPE_SAME},
};

static const kvsi_packed_rows opt_rows[] = {
    {.name = "embed_positions.weight", .parts = {"embed_positions.weight"}, .unused = 2},
    {0},
};

static const kvsi_family_name inkling_names[] = {
    {"model.embed_tokens.embed_norm.", "model.embed_norm.", KVSI_SHAPE_SAME},
    {".self_attn.k_sconv.conv1d.weight", ".self_attn.k_shift", KVSI_SHAPE_SHIFT},
    {".self_attn.v_sconv.conv1d.weight", ".self_attn.v_shift", KVSI_SHAPE_SHIFT},
    {".self_attn.rel_logits_proj.proj", ".self_attn.r_table", KVSI_SHAPE_SAME},
    {".attn_sconv.conv1d.weight", ".self_attn.filter", KVSI_SHAPE_FILTER},
    {".mlp_sconv.conv1d.weight", ".mlp.filter", KVSI_SHAPE_FILTER},
    {".mlp.global_scale", ".mlp.factor", KVSI_SHAPE_SAME},
    {NULL, NULL, KVSI_SHAPE_SAME},
};

/* A model that was read from no family's files, and has no shift, is written as the first family
 * without packed rows that can have all of its settings. */
static const kvsi_family families[] = {
    {"llama", "LlamaForCausalLM", LLAMA, OF_LLAMA, .settings = LLAMA_DEFAULTS},
    {"gpt2", "GPT2LMHeadModel", GPT2, OF_OTHERS_GPT2, .settings = GPT2_DEFAULTS},
    {"mistral", "MistralForCausalLM", MISTRAL, OF_LLAMA,
     .settings = "context=131072 norm-eps=1e-6 rope-base=10000 sliding-window=4096",
     .windows = KVSI_WINDOWS_ALL},
    {"qwen2", "Qwen2ForCausalLM", QWEN2, OF_LLAMA,
     .settings = "context=32768 norm-eps=1e-6 rope-base=10000 qkv-bias=yes sliding-window=4096",
     .windows = KVSI_WINDOWS_ASKED},
    {"qwen3", "Qwen3ForCausalLM", QWEN3, OF_LLAMA,
     .settings = "context=32768 norm-eps=1e-6 rope-base=10000 qk-norm=head head-size=128 "
                 "sliding-window=4096",
     .windows = KVSI_WINDOWS_ASKED},
    {"granite", "GraniteForCausalLM", GRANITE, OF_LLAMA,
     .settings = "context=2048 norm-eps=1e-6 rope-base=10000 score-scale=1"},
    {"smollm3", "SmolLM3ForCausalLM", SMOLLM3, OF_LLAMA,
     .settings = "context=32768 norm-eps=1e-6 rope-base=10000 tied=yes",
     .windows = KVSI_WINDOWS_ASKED, .skips_rope = 1},
    {"phi3", "Phi3ForCausalLM", PHI3, OF_LLAMA,
     .settings = "context=4096 norm-eps=1e-5 rope-base=10000", .windows = KVSI_WINDOWS_ALL,
     .packed = phi3_rows},
    {"olmo2", "Olmo2ForCausalLM", OLMO2, OF_LLAMA,
     .settings = "context=2048 norm-eps=1e-5 rope-base=10000 norm-place=after qk-norm=full"},
    {"gemma2", "Gemma2ForCausalLM", GEMMA2, OF_GEMMA,
     .settings = GEMMA_DEFAULTS "context=8192 rope-base=10000 score-cap=50 logit-cap=30",
     .windows = KVSI_WINDOWS_ALTERNATE},
    {"gemma3_text", "Gemma3ForCausalLM", GEMMA3, OF_GEMMA,
     .settings = GEMMA_DEFAULTS "context=131072 rope-base=1e6 sliding-rope-base=10000 qk-norm=head",
     .windows = KVSI_WINDOWS_PATTERN, .local_rope = 1},
    {"gpt_neox", "GPTNeoXForCausalLM", NEOX, OF_NEOX,
     .settings = "context=2048 norm-eps=1e-5 rope-base=10000 rotary-fraction=0.25 norm-kind=layer "
                 "parallel=own activation=gelu plain-mlp=yes qkv-bias=yes o-bias=yes mlp-bias=yes",
     .names = neox_names, .packed = neox_rows},
    {"stablelm", "StableLmForCausalLM", STABLELM, OF_LLAMA,
     .settings = "context=4096 norm-eps=1e-5 rope-base=10000 rotary-fraction=0.25 norm-kind=layer "
                 "kv-heads=32"},
    {"opt", "OPTForCausalLM", OPT, OF_OPT,
     .settings = "context=2048 norm-eps=1e-5 norm-kind=layer positions=learned activation=relu "
                 "plain-mlp=yes qkv-bias=yes o-bias=yes mlp-bias=yes tied=yes dropout-residual=0.1",
     .names = opt_names, .packed = opt_rows},
    {"inkling_text", "InklingForCausalLM", INKLING, OF_LLAMA,
     .settings = "context=131072 norm-eps=1e-6 kv-heads=8 head-size=128 sliding-window=512 "
                 "sliding-heads=64 sliding-kv-heads=16 sliding-head-size=128 positions=relative "
                 "relative-size=16 relative-extent=1024 score-divisor=size qk-norm=head "
                 "embedding-norm=yes logit-divisor=24 shift=kv shift-form=residual shift-window=3 "
                 "shift-init=identity filters=branches filter-window=3 mlp-factor=yes",
     .windows = KVSI_WINDOWS_LISTED, .window = "sliding_window_size", .full_layer = "hybrid",
     .sliding_layer = "hybrid_sliding", .names = inkling_names, .dense_layers = "mlp_layer_types",
     .grows_scores = 1, .pads_vocabulary = 1},
};

static const kvsi_family own_llama = {kvsi_own_type, kvsi_own_model, OWN_LLAMA, OF_LLAMA,
                                      .settings = LLAMA_DEFAULTS};
static const kvsi_family own_gpt2 = {kvsi_own_type, kvsi_own_model, OWN_GPT2, OF_GPT2,
                                     .settings = GPT2_DEFAULTS};

const kvsi_family *kvsi_family_at(size_t index)
{
    return index < sizeof families / sizeof *families ? &families[index] : NULL;
}

const kvsi_family *kvsi_family_find(const char *type)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (strcmp(families[i].type, type) == 0)
            return &families[i];
    return NULL;
}

const kvsi_family *kvsi_family_own(kvsi_body body)
{
    return body == KVSI_BODY_GPT2 ? &own_gpt2 : &own_llama;
}

kvs_status kvsi_family_set(const kvsi_family *family, kvs_model_config *config, kvs_err *err)
{
    const char *at = family->settings;
    char name[32], value[32];
    int read = 0;

    for (; sscanf(at, " %31[^=]=%31s%n", name, value, &read) == 2; at += read)
        TRY(kvsi_setting_store(kvsi_settings_find(&kvsi_model_settings, name), config, family->type,
                               value, err));
    return KVS_OK;
}

/* ---- names of tensors ------------------------------------------------------------------------ */

/* Replaces the first `from` by `to`; returns 0 if the result does not fit.  *found = whether there
 * is one. */
static int replace(char *name, size_t size, const char *from, const char *to, int *found)
{
    char *at = strstr(name, from);
    const size_t old = strlen(from), new = strlen(to);

    *found = at != NULL;
    if (!at)
        return 1;
    if (strlen(name) - old + new >= size)
        return 0;
    memmove(at + new, at + old, strlen(at + old) + 1);
    for (size_t i = 0; i < new; i++)
        at[i] = to[i];
    return 1;
}

int kvsi_family_our_name(char *out, size_t size, kvsi_file_shape *shape, const kvsi_family *family,
                         const char *theirs)
{
    int fits = snprintf(out, size, "%s", theirs) < (int)size, found;

    *shape = KVSI_SHAPE_SAME;
    for (const kvsi_family_name *n = family->names; fits && n && n->theirs; n++) {
        fits = replace(out, size, n->theirs, n->ours, &found);
        *shape = found ? n->shape : *shape;
    }
    return fits;
}

int kvsi_family_their_name(char *out, size_t size, kvsi_file_shape *shape,
                           const kvsi_family *family, const char *ours)
{
    int fits = snprintf(out, size, "%s", ours) < (int)size, found;

    *shape = KVSI_SHAPE_SAME;
    for (const kvsi_family_name *n = family->names; fits && n && n->theirs; n++) {
        fits = replace(out, size, n->ours, n->theirs, &found);
        *shape = found ? n->shape : *shape;
    }
    return fits;
}

/* ---- models that are not supported ----------------------------------------------------------- */

static const struct {
    const char *part, *missing; /* a part of the type */
} unsupported[] = {
    {"moe", "mixtures of experts"},
    {"mixtral", "mixtures of experts"},
    {"deepseek", "latent attention and mixtures of experts"},
    {"gpt_oss", "mixtures of experts and attention sinks"},
    {"dbrx", "mixtures of experts"},
    {"jamba", "state-space layers and mixtures of experts"},
    {"mamba", "state-space layers"},
    {"rwkv", "recurrent layers"},
    {"lfm2", "convolution layers"},
    {"llama4", "mixtures of experts"},
    {"olmo3", "windows and scaled positions by layer, which are read from GGUF files only"},
    {"flex_olmo", "mixtures of experts"},
    {"olmo", "norms without gains"},
    {"arcee", "the square of ReLU"},
    {"nemotron_h", "state-space layers"},
    {"nemotron", "the square of ReLU"},
    {"apertus", "the activation xIELU"},
    {"glm", "rotary positions that turn channels side by side"},
    {"gptj", "rotary positions that turn channels side by side"},
    {"codegen", "rotary positions that turn channels side by side"},
    {"mpt", "slopes of positions in a body with LayerNorm"},
    {"bitnet", "ternary weights"},
    {"mllama", "an encoder of images"},
    {"llava", "an encoder of images"},
    {"_vl", "an encoder of images"},
    {"vision", "an encoder of images"},
    {"inkling", "encoders of images and audio"},
    {"qwen3_next", "linear attention and mixtures of experts"},
    {"gemma3n", "embeddings per layer, and an encoder of images"},
    {"gemma3", "an encoder of images"},
    {"paligemma", "an encoder of images"},
    {"recurrent_gemma", "recurrent layers"},
    {"gemma", "a form of GELU that not all of their files name"},
    {"phi", "LayerNorm with rotary positions and parallel residuals"},
    {"falcon", "parallel residuals"},
    {"bloom", "a norm of the embeddings"},
    {"cohere", "parallel residuals and scaled logits"},
    {"t5", "an encoder"},
    {"bert", "attention to later tokens"},
};

const char *kvsi_family_missing(const char *type)
{
    for (size_t i = 0; i < sizeof unsupported / sizeof *unsupported; i++)
        if (strstr(type, unsupported[i].part))
            return unsupported[i].missing;
    return NULL;
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* Positions and windows, which take more than one key, are in hf_positions.c. */
static const kvsi_family_key keys[] = {
    {"vocab_size", "vocab", KIN | LAYER_NORM | OPT | GPT2 | OWN_LLAMA | OWN_GPT2, 1},
    {"hidden_size", "dim", KIN | LAYER_NORM | OPT | OWN_LLAMA, 1},
    {"word_embed_proj_dim", "dim", OPT, KVSI_KEY_SAME},
    {"intermediate_size", "ffn", KIN | LAYER_NORM | OWN_LLAMA, 1},
    {"ffn_dim", "ffn", OPT, 1},
    {"num_hidden_layers", "layers", KIN | LAYER_NORM | OPT | OWN_LLAMA, 1},
    {"num_attention_heads", "heads", KIN | LAYER_NORM | OPT | OWN_LLAMA, 1},
    {"num_key_value_heads", "kv-heads", KIN | STABLELM | OWN_LLAMA, 0},
    {"max_position_embeddings", "context", KIN | LAYER_NORM | OPT | OWN_LLAMA, 0},
    {"rope_theta", "rope-base", (KIN & ~INKLING) | STABLELM | OWN_LLAMA, 0},
    {"rotary_emb_base", "rope-base", NEOX, 0},
    {"rms_norm_eps", "norm-eps", KIN | OWN_LLAMA, 0},
    {"layer_norm_eps", "norm-eps", LAYER_NORM, 0},
    {"n_embd", "dim", GPT2 | OWN_GPT2, 1},
    {"n_inner", "ffn", GPT2 | OWN_GPT2, 0},
    {"n_layer", "layers", GPT2 | OWN_GPT2, 1},
    {"n_head", "heads", GPT2 | OWN_GPT2, 1},
    {"n_positions", "context", GPT2 | OWN_GPT2, 0},
    {"layer_norm_epsilon", "norm-eps", GPT2 | OWN_GPT2, 0},
    {"embd_pdrop", "dropout-embedding", GPT2 | OWN_GPT2, 0},
    {"attn_pdrop", "dropout-attention", GPT2 | OWN_GPT2, 0},
    {"resid_pdrop", "dropout-residual", GPT2 | OWN_GPT2, 0},
    {"hidden_dropout", "dropout-embedding", NEOX, 0},
    {"hidden_dropout", "dropout-residual", NEOX, 0},
    {"dropout", "dropout-residual", OPT, 0},
    {"attention_dropout", "dropout-attention", NEOX | OPT, 0},
    {"initializer_range", "init-std", KIN | LAYER_NORM | GPT2 | OWN_LLAMA | OWN_GPT2, 0},
    {"init_std", "init-std", OPT, 0},
    {"tie_word_embeddings", "tied", KIN | LAYER_NORM | OPT | GPT2 | OWN_LLAMA | OWN_GPT2, 0},
    {"head_dim", "head-size", KIN, 0},
    {"attention_bias", "qkv-bias", LLAMA | SMOLLM3 | QWEN3 | GRANITE | OLMO2 | GEMMA | NEOX, 0},
    {"attention_bias", "o-bias", LLAMA | SMOLLM3 | QWEN3 | GRANITE | OLMO2 | GEMMA | NEOX, 0},
    {"use_qkv_bias", "qkv-bias", STABLELM, 0},
    {"enable_bias", "qkv-bias", OPT, 0},
    {"enable_bias", "o-bias", OPT, 0},
    {"enable_bias", "mlp-bias", OPT, 0},
    {"mlp_bias", "mlp-bias", LLAMA | SMOLLM3 | GRANITE, 0},
    {"embedding_multiplier", "embedding-scale", GRANITE, 0},
    {"residual_multiplier", "residual-scale", GRANITE, 0},
    {"attention_multiplier", "score-scale", GRANITE, 0},
    {"logits_scaling", "logit-divisor", GRANITE, 0},
    {"partial_rotary_factor", "rotary-fraction", PHI3 | STABLELM, 0},
    {"rotary_pct", "rotary-fraction", NEOX, 0},
    {"use_parallel_residual", "parallel=own", NEOX, KVSI_KEY_CHOICE},
    {"use_parallel_residual", "parallel=shared", STABLELM, KVSI_KEY_CHOICE},
    {"qk_layernorm", "qk-norm=layer", STABLELM, KVSI_KEY_CHOICE},
    {"query_pre_attn_scalar", "score-scale", GEMMA, KVSI_KEY_INVERSE_ROOT},
    {"attn_logit_softcapping", "score-cap", GEMMA2, KVSI_KEY_NULLABLE},
    {"final_logit_softcapping", "logit-cap", GEMMA, KVSI_KEY_NULLABLE},
    {"rope_local_base_freq", "sliding-rope-base", GEMMA3, 0},
    {"unpadded_vocab_size", "vocab", INKLING, KVSI_KEY_AT_MOST},
    {"swa_num_attention_heads", "sliding-heads", INKLING, 0},
    {"swa_num_key_value_heads", "sliding-kv-heads", INKLING, 0},
    {"swa_head_dim", "sliding-head-size", INKLING, 0},
    {"d_rel", "relative-size", INKLING, 0},
    {"rel_extent", "relative-extent", INKLING, 0},
    {"logits_mup_width_multiplier", "logit-divisor", INKLING, 0},
    {"conv_kernel_size", "shift-window", INKLING, KVSI_KEY_TAPS},
    {"conv_kernel_size", "filter-window", INKLING, KVSI_KEY_TAPS},
};

const kvsi_family_key *kvsi_family_key_at(size_t index)
{
    return index < sizeof keys / sizeof *keys ? &keys[index] : NULL;
}

static const kvsi_family_fixed fixed[] = {
    {"attention_bias", OWN_LLAMA, 0, KVSI_FIXED_FLAG,
     OWN_LLAMA | LLAMA | SMOLLM3 | QWEN3 | GRANITE | OLMO2 | GEMMA},
    {"mlp_bias", OWN_LLAMA, 0, KVSI_FIXED_FLAG, OWN_LLAMA | LLAMA | SMOLLM3 | GRANITE},
    {"partial_rotary_factor", (KIN & ~(PHI3 | INKLING)) | OWN_LLAMA, 1, KVSI_FIXED_NUMBER, 0},
    {"local_layer_ids", INKLING, 0, KVSI_FIXED_NULL, 0}, /* 'layer_types' has them */
    {"num_mtp_layers", INKLING, 0, KVSI_FIXED_NULL, 0},  /* layers that predict later tokens */
    {"attn_logit_softcapping", GEMMA3, 0, KVSI_FIXED_NULL, 0}, /* transformers leaves it out */
    {"use_bidirectional_attention", GEMMA, 0, KVSI_FIXED_FLAG, 0},
    {"do_layer_norm_before", OPT, 1, KVSI_FIXED_FLAG, 0},
    {"layer_norm_elementwise_affine", OPT, 1, KVSI_FIXED_FLAG, 0},
    {"_remove_final_layer_norm", OPT, 0, KVSI_FIXED_FLAG, 0},
    {"quantization_config", ~0u, 0, KVSI_FIXED_NULL, 0}, /* weights of other types */
    {"quantization", ~0u, 0, KVSI_FIXED_NULL, 0},
    {"scale_attn_weights", GPT2 | OWN_GPT2, 1, KVSI_FIXED_FLAG, 0},
    {"scale_attn_by_inverse_layer_idx", GPT2 | OWN_GPT2, 0, KVSI_FIXED_FLAG, 0},
    {"add_cross_attention", GPT2 | OWN_GPT2, 0, KVSI_FIXED_FLAG, 0},
};

const kvsi_family_fixed *kvsi_family_fixed_at(size_t index)
{
    return index < sizeof fixed / sizeof *fixed ? &fixed[index] : NULL;
}
