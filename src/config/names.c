/* The names of enum values, as commands and files have them. */
#include "config/config.h"
#include "kvshift/kvshift_files.h"

const kvsi_name kvsi_body_names[] = {{"llama", KVSI_BODY_LLAMA}, {"gpt2", KVSI_BODY_GPT2}, {0}};

const kvsi_name kvsi_qk_norm_names[] = {
    {"none", KVSI_QK_NORM_NONE},
    {"head", KVSI_QK_NORM_HEAD},
    {"full", KVSI_QK_NORM_FULL},
    {"layer", KVSI_QK_NORM_LAYER},
    {0},
};

const kvsi_name kvsi_norm_kind_names[] = {
    {"auto", KVSI_NORM_AUTO}, {"layer", KVSI_NORM_LAYER}, {"rms", KVSI_NORM_RMS}, {0}};

const kvsi_name kvsi_norm_place_names[] = {
    {"before", KVSI_NORM_BEFORE}, {"after", KVSI_NORM_AFTER}, {"both", KVSI_NORM_BOTH}, {0}};

const kvsi_name kvsi_parallel_names[] = {{"none", KVSI_PARALLEL_NONE},
                                         {"own", KVSI_PARALLEL_OWN},
                                         {"shared", KVSI_PARALLEL_SHARED},
                                         {0}};

const kvsi_name kvsi_activation_names[] = {
    {"auto", KVSI_ACTIVATION_AUTO},           {"gelu", KVSI_ACTIVATION_GELU},
    {"gelu-tanh", KVSI_ACTIVATION_GELU_TANH}, {"relu", KVSI_ACTIVATION_RELU},
    {"silu", KVSI_ACTIVATION_SILU},           {0},
};

const kvsi_name kvsi_shift_target_names[] = {
    {"none", 0},
    {"k", KVS_SHIFT_K},
    {"v", KVS_SHIFT_V},
    {"kv", KVS_SHIFT_K | KVS_SHIFT_V},
    {"qkv", KVS_SHIFT_Q | KVS_SHIFT_K | KVS_SHIFT_V},
    {0},
};

const kvsi_alias kvsi_shift_aliases[] = {
    {"gate", "shift-form", KVS_SHIFT_K | KVS_SHIFT_V, KVSI_SHIFT_GATE},
    {"clamp", "shift-form", KVS_SHIFT_K | KVS_SHIFT_V, KVSI_SHIFT_CLAMP},
    {"smear", "shift-form", KVS_SHIFT_K, KVSI_SHIFT_GATE},
    {0},
};

/* The arithmetic of each form is a row in kernels/forms.c. */
const kvsi_name kvsi_shift_form_names[] = {
    {"free", KVSI_SHIFT_FREE},         {"gate", KVSI_SHIFT_GATE},
    {"clamp", KVSI_SHIFT_CLAMP},       {"channel", KVSI_SHIFT_CHANNEL},
    {"data", KVSI_SHIFT_DATA},         {"hard", KVSI_SHIFT_HARD},
    {"residual", KVSI_SHIFT_RESIDUAL}, {0},
};

const kvsi_name kvsi_shift_init_names[] = {
    {"uniform", KVSI_SHIFT_INIT_UNIFORM},
    {"softmax", KVSI_SHIFT_INIT_SOFTMAX},
    {"identity", KVSI_SHIFT_INIT_IDENTITY},
    {0},
};

const kvsi_name kvsi_positions_names[] = {
    {"rope", KVSI_POSITIONS_ROPE},         {"alibi", KVSI_POSITIONS_ALIBI},
    {"learned", KVSI_POSITIONS_LEARNED},   {"none", KVSI_POSITIONS_NONE},
    {"relative", KVSI_POSITIONS_RELATIVE}, {0},
};

const kvsi_name kvsi_filters_names[] = {
    {"none", 0},
    {"attention", KVSI_FILTER_ATTENTION},
    {"mlp", KVSI_FILTER_MLP},
    {"branches", KVSI_FILTER_ATTENTION | KVSI_FILTER_MLP},
    {0},
};

const kvsi_name kvsi_score_divisor_names[] = {
    {"root", KVSI_SCORE_DIVISOR_ROOT}, {"size", KVSI_SCORE_DIVISOR_SIZE}, {0}};

const kvsi_name kvsi_rope_scaling_names[] = {
    {"none", KVSI_ROPE_PLAIN},
    {"linear", KVSI_ROPE_LINEAR},
    {"llama3", KVSI_ROPE_LLAMA3},
    {"yarn", KVSI_ROPE_YARN},
    {"dynamic", KVSI_ROPE_DYNAMIC},
    {"longrope", KVSI_ROPE_LONGROPE},
    {0},
};

const kvsi_name kvsi_head_names[] = {
    {"linear", KVSI_HEAD_LINEAR},
    {"normalised", KVSI_HEAD_NORMALISED},
    {"none", KVSI_HEAD_NONE},
    {0},
};

const kvsi_name kvsi_schedule_names[] = {
    {"constant", KVSI_SCHEDULE_CONSTANT},
    {"linear", KVSI_SCHEDULE_LINEAR},
    {"cosine", KVSI_SCHEDULE_COSINE},
    {0},
};

const kvsi_name kvsi_precision_names[] = {
    {"f32", KVSI_PRECISION_F32}, {"bf16", KVSI_PRECISION_BF16}, {0}};

const kvsi_name kvsi_pack_weights_names[] = {
    {"auto", KVSI_PACK_AUTO}, {"yes", KVSI_PACK_YES}, {"no", KVSI_PACK_NO}, {0}};

const kvsi_name kvsi_shard_names[] = {
    {"none", KVSI_SHARD_NONE},
    {"optimizer", KVSI_SHARD_OPTIMIZER},
    {"gradients", KVSI_SHARD_GRADIENTS},
    {"parameters", KVSI_SHARD_PARAMETERS},
    {0},
};

const kvsi_name kvsi_loss_names[] = {{"answer", KVSI_LOSS_ANSWER}, {"all", KVSI_LOSS_ALL}, {0}};

const kvsi_name kvsi_sampler_names[] = {
    {"direct", KVSI_INDUCTION_DIRECT}, {"paper", KVSI_INDUCTION_PAPER}, {0}};

const kvsi_name kvsi_igsm_mode_names[] = {
    {"paper", KVSI_IGSM_PAPER}, {"official", KVSI_IGSM_OFFICIAL}, {0}};

const kvsi_name kvsi_igsm_wording_names[] = {
    {"full", KVSI_IGSM_FULL}, {"compact", KVSI_IGSM_COMPACT}, {0}};

const kvsi_name kvsi_format_names[] = {
    {"auto", KVS_FORMAT_AUTO},
    {"hf", KVS_FORMAT_HF},
    {"gguf", KVS_FORMAT_GGUF},
    {"gguf-llama", KVS_FORMAT_GGUF_LLAMA},
    {"llama2c", KVS_FORMAT_LLAMA2C},
    {"llama2c-v1", KVS_FORMAT_LLAMA2C_V1},
    {0},
};

const kvsi_name kvsi_dtype_names[] = {
    {"keep", KVS_DTYPE_KEEP},
    {"f32", KVS_DTYPE_F32},
    {"f16", KVS_DTYPE_F16},
    {"bf16", KVS_DTYPE_BF16},
    {"q8_0", KVS_DTYPE_Q8_0},
    {"q4_0", KVS_DTYPE_Q4_0},
    {0},
};

/* ---- conversion ------------------------------------------------------------------------------ */

/* Defines PREFIX_X_name. */
#define NAME_CALL(prefix, x, type, names)                                                          \
    const char *prefix##_##x##_name(type value)                                                    \
    {                                                                                              \
        return kvsi_name_of(names, (int)value);                                                    \
    }
/* Defines PREFIX_X_parse. */
#define PARSE_CALL(prefix, x, type, names)                                                         \
    kvs_status prefix##_##x##_parse(type *out, const char *name, kvs_err *err)                     \
    {                                                                                              \
        int value = 0;                                                                             \
                                                                                                   \
        NEED(out);                                                                                 \
        NEED(name);                                                                                \
        TRY(kvsi_name_parse(&value, names, #x, name, err));                                        \
        *out = (type)value;                                                                        \
        return KVS_OK;                                                                             \
    }

NAME_CALL(kvsi, shift_targets, unsigned, kvsi_shift_target_names)
NAME_CALL(kvsi, shift_form, kvsi_shift_form, kvsi_shift_form_names)
NAME_CALL(kvsi, shift_init, kvsi_shift_init, kvsi_shift_init_names)
NAME_CALL(kvsi, body, kvsi_body, kvsi_body_names)
NAME_CALL(kvsi, positions, kvsi_positions, kvsi_positions_names)
NAME_CALL(kvsi, rope_scaling, kvsi_rope_scaling, kvsi_rope_scaling_names)
NAME_CALL(kvsi, precision, kvsi_precision, kvsi_precision_names)
NAME_CALL(kvsi, shard, kvsi_shard_stage, kvsi_shard_names)
NAME_CALL(kvs, format, kvs_format, kvsi_format_names)
NAME_CALL(kvs, dtype, kvs_dtype, kvsi_dtype_names)
PARSE_CALL(kvsi, body, kvsi_body, kvsi_body_names)
PARSE_CALL(kvs, format, kvs_format, kvsi_format_names)
PARSE_CALL(kvs, dtype, kvs_dtype, kvsi_dtype_names)
