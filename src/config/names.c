/* The names of enum values, as commands and files have them. */
#include "config/config.h"

#include <string.h>

const kvsi_name kvsi_body_names[] = {{"llama", KVS_BODY_LLAMA}, {"gpt2", KVS_BODY_GPT2}, {0}};

const kvsi_name kvsi_shift_target_names[] = {
    {"none", 0},
    {"k", KVS_SHIFT_K},
    {"v", KVS_SHIFT_V},
    {"kv", KVS_SHIFT_K | KVS_SHIFT_V},
    {"qkv", KVS_SHIFT_Q | KVS_SHIFT_K | KVS_SHIFT_V},
    {0},
};

const kvsi_alias kvsi_shift_aliases[] = {
    {"gate", "shift-form", KVS_SHIFT_K | KVS_SHIFT_V, KVS_SHIFT_GATE},
    {"clamp", "shift-form", KVS_SHIFT_K | KVS_SHIFT_V, KVS_SHIFT_CLAMP},
    {"smear", "shift-form", KVS_SHIFT_K, KVS_SHIFT_GATE},
    {0},
};

/* The arithmetic of each form is a row in kernels/forms.c. */
const kvsi_name kvsi_shift_form_names[] = {
    {"free", KVS_SHIFT_FREE},
    {"gate", KVS_SHIFT_GATE},
    {"clamp", KVS_SHIFT_CLAMP},
    {"channel", KVS_SHIFT_CHANNEL},
    {"data", KVS_SHIFT_DATA},
    {"hard", KVS_SHIFT_HARD},
    {0},
};

const kvsi_name kvsi_shift_init_names[] = {
    {"uniform", KVS_SHIFT_INIT_UNIFORM},
    {"softmax", KVS_SHIFT_INIT_SOFTMAX},
    {"identity", KVS_SHIFT_INIT_IDENTITY},
    {0},
};

const kvsi_name kvsi_positions_names[] = {
    {"rope", KVS_POSITIONS_ROPE},
    {"alibi", KVS_POSITIONS_ALIBI},
    {"learned", KVS_POSITIONS_LEARNED},
    {"none", KVS_POSITIONS_NONE},
    {0},
};

const kvsi_name kvsi_head_names[] = {
    {"linear", KVS_HEAD_LINEAR},
    {"normalised", KVS_HEAD_NORMALISED},
    {"none", KVS_HEAD_NONE},
    {0},
};

const kvsi_name kvsi_schedule_names[] = {
    {"constant", KVS_SCHEDULE_CONSTANT},
    {"linear", KVS_SCHEDULE_LINEAR},
    {"cosine", KVS_SCHEDULE_COSINE},
    {0},
};

const kvsi_name kvsi_shard_names[] = {
    {"none", KVS_SHARD_NONE},
    {"optimizer", KVS_SHARD_OPTIMIZER},
    {"gradients", KVS_SHARD_GRADIENTS},
    {"parameters", KVS_SHARD_PARAMETERS},
    {0},
};

const kvsi_name kvsi_loss_names[] = {{"answer", KVS_LOSS_ANSWER}, {"all", KVS_LOSS_ALL}, {0}};

const kvsi_name kvsi_sampler_names[] = {
    {"direct", KVS_INDUCTION_DIRECT}, {"paper", KVS_INDUCTION_PAPER}, {0}};

const kvsi_name kvsi_igsm_mode_names[] = {
    {"paper", KVS_IGSM_PAPER}, {"official", KVS_IGSM_OFFICIAL}, {0}};

const kvsi_name kvsi_igsm_wording_names[] = {
    {"full", KVS_IGSM_FULL}, {"compact", KVS_IGSM_COMPACT}, {0}};

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

/* ---- the public calls ------------------------------------------------------------------------ */

/* Defines kvs_X_name and kvs_X_parse. */
#define NAME_CALLS(x, type, names, what)                                                           \
    const char *kvs_##x##_name(type value)                                                         \
    {                                                                                              \
        return kvsi_name_of(names, (int)value);                                                    \
    }                                                                                              \
    kvs_status kvs_##x##_parse(type *out, const char *name, kvs_err *err)                          \
    {                                                                                              \
        int value = 0;                                                                             \
                                                                                                   \
        TRY(kvsi_name_parse(&value, names, what, name, err));                                      \
        *out = (type)value;                                                                        \
        return KVS_OK;                                                                             \
    }

NAME_CALLS(shift_targets, unsigned, kvsi_shift_target_names, "shift")
NAME_CALLS(shift_form, kvs_shift_form, kvsi_shift_form_names, "shift form")
NAME_CALLS(shift_init, kvs_shift_init, kvsi_shift_init_names, "shift init")
NAME_CALLS(body, kvs_body, kvsi_body_names, "body")
NAME_CALLS(positions, kvs_positions, kvsi_positions_names, "positions")
NAME_CALLS(head, kvs_head, kvsi_head_names, "head")
NAME_CALLS(schedule, kvs_schedule, kvsi_schedule_names, "schedule")
NAME_CALLS(shard, kvs_shard, kvsi_shard_names, "shard")
NAME_CALLS(format, kvs_format, kvsi_format_names, "format")
NAME_CALLS(dtype, kvs_dtype, kvsi_dtype_names, "dtype")

kvs_status kvs_shift_parse(kvs_shift_config *out, int *form_said, const char *name, kvs_err *err)
{
    const kvsi_setting shift = {.aliases = kvsi_shift_aliases};
    const kvsi_alias *alias = kvsi_setting_alias(&shift, name);

    *form_said = alias != NULL;
    if (!alias)
        return kvs_shift_targets_parse(&out->targets, name, err);
    out->targets = (unsigned)alias->value;
    out->form = (kvs_shift_form)alias->also_value;
    return KVS_OK;
}
