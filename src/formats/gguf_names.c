#include "formats/gguf_names.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

/* A name that only files of some families have; 0 = all. */
enum {
    OWN = 1 << 0,
    FOREIGN = 1 << 1,
    NORMS_BEFORE = 1 << 2,
    NORMS_AFTER = 1 << 3, /* beside those before, or instead */
    APART = 1 << 4,
    GATE_UP = 1 << 5, /* in one tensor */
};

typedef struct pair {
    const char *theirs, *ours;
    unsigned where;
} pair;

static const pair layer_prefix = {"blk.", "model.layers.", 0};

static const pair outside_layers[] = {
    {"token_embd.weight", "model.embed_tokens.weight", 0},
    {"token_embd_norm.weight", "model.embed_norm.weight", OWN},
    {"position_embd.weight", "model.embed_positions.weight", OWN},
    {"token_embd_norm.bias", "model.embed_norm.bias", OWN},
    {"output_norm.weight", "model.norm.weight", 0},
    {"output_norm.bias", "model.norm.bias", 0},
    {"output.weight", "lm_head.weight", 0},
    {NULL, NULL, 0},
};

/* '#' stands for a number. */
static const pair inside_layers[] = {
    {"attn_norm.weight", "input_layernorm.weight", 0},
    {"attn_q.weight", "self_attn.q_proj.weight", 0},
    {"attn_k.weight", "self_attn.k_proj.weight", 0},
    {"attn_v.weight", "self_attn.v_proj.weight", 0},
    {"attn_output.weight", "self_attn.o_proj.weight", 0},
    {"attn_q_norm.weight", "self_attn.q_norm.weight", 0},
    {"attn_k_norm.weight", "self_attn.k_norm.weight", 0},
    {"attn_q_norm.#.weight", "self_attn.q_layernorm.norms.#.weight", OWN},
    {"attn_k_norm.#.weight", "self_attn.k_layernorm.norms.#.weight", OWN},
    {"attn_q.bias", "self_attn.q_proj.bias", 0},
    {"attn_k.bias", "self_attn.k_proj.bias", 0},
    {"attn_v.bias", "self_attn.v_proj.bias", 0},
    {"attn_output.bias", "self_attn.o_proj.bias", 0},
    {"attn_q_shift", "self_attn.q_shift", OWN},
    {"attn_k_shift", "self_attn.k_shift", OWN},
    {"attn_v_shift", "self_attn.v_shift", OWN},
    {"attn_r.weight", "self_attn.r_proj.weight", OWN},
    {"attn_r_table", "self_attn.r_table", OWN},
    {"attn_filter", "self_attn.filter", OWN},
    {"ffn_filter", "mlp.filter", OWN},
    {"ffn_factor", "mlp.factor", OWN},
    {"attn_norm.bias", "input_layernorm.bias", 0},
    {"ffn_norm.weight", "post_attention_layernorm.weight", NORMS_BEFORE},
    {"ffn_norm.bias", "post_attention_layernorm.bias", NORMS_BEFORE},
    {"pre_ffw_norm.weight", "pre_feedforward_layernorm.weight", OWN},
    {"pre_ffw_norm.bias", "pre_feedforward_layernorm.bias", OWN},
    {"post_ffw_norm.weight", "post_feedforward_layernorm.weight", 0},
    {"post_ffw_norm.bias", "post_feedforward_layernorm.bias", 0},
    {"ffn_norm.weight", "pre_feedforward_layernorm.weight", NORMS_AFTER},
    {"post_attention_norm.weight", "post_attention_layernorm.weight", NORMS_AFTER},
    {"attn_qkv.weight", "self_attn.qkv_proj.weight", FOREIGN},
    {"attn_qkv.bias", "self_attn.qkv_proj.bias", FOREIGN},
    {"ffn_up.weight", "mlp.gate_up_proj.weight", GATE_UP},
    {"ffn_gate.weight", "mlp.gate_proj.weight", 0},
    {"ffn_up.weight", "mlp.up_proj.weight", APART},
    {"ffn_down.weight", "mlp.down_proj.weight", 0},
    {"ffn_gate.bias", "mlp.gate_proj.bias", 0},
    {"ffn_up.bias", "mlp.up_proj.bias", 0},
    {"ffn_down.bias", "mlp.down_proj.bias", 0},
    {NULL, NULL, 0},
};

enum { DIGITS_MAX = 10 };

static const char *side(const pair *p, int ours)
{
    return ours ? p->ours : p->theirs;
}

/* A name that matched a pattern: the digits of its number, if it has one. */
typedef struct match {
    const pair *found; /* NULL = none */
    int digits;
    const char *number;
} match;

static int matches(match *m, const char *pattern, const char *name)
{
    const size_t fixed = strcspn(pattern, "#");

    m->number = name;
    m->digits = 0;
    if (pattern[fixed] == '\0')
        return strcmp(pattern, name) == 0;
    if (strncmp(pattern, name, fixed) != 0)
        return 0;
    m->number = name + fixed;
    m->digits = (int)strspn(m->number, "0123456789");
    return m->digits > 0 && m->digits <= DIGITS_MAX &&
           strcmp(pattern + fixed + 1, m->number + m->digits) == 0;
}

/* The kinds of names that files of the family have. */
static unsigned names_of(const kvsi_gguf_family *family)
{
    return (family == kvsi_gguf_family_own() ? OWN : FOREIGN) |
           (family->norms_after ? NORMS_AFTER : NORMS_BEFORE) | (family->gate_up ? GATE_UP : APART);
}

/* The pair with this name on one side. */
static match find(const pair *list, const char *name, int ours, const kvsi_gguf_family *family)
{
    const unsigned names = names_of(family);
    match m = {0};

    for (; list->theirs; list++)
        if ((list->where == 0 || list->where & names) && matches(&m, side(list, ours), name)) {
            m.found = list;
            break;
        }
    return m;
}

static int translate(char *out, const char *name, int from_ours, const kvsi_gguf_family *family)
{
    const char *prefix = side(&layer_prefix, from_ours);
    const size_t length = strlen(prefix);
    const char *number = name + length, *to;
    match m = find(outside_layers, name, from_ours, family);
    size_t digits, fixed;

    if (m.found) {
        snprintf(out, KVSI_GGUF_NAME_SIZE, "%s", side(m.found, !from_ours));
        return 1;
    }
    if (strncmp(name, prefix, length) != 0)
        return 0;
    digits = strspn(number, "0123456789");
    if (digits == 0 || digits > DIGITS_MAX || number[digits] != '.')
        return 0;
    m = find(inside_layers, number + digits + 1, from_ours, family);
    if (!m.found)
        return 0;
    to = side(m.found, !from_ours);
    fixed = strcspn(to, "#");
    snprintf(out, KVSI_GGUF_NAME_SIZE, "%s%.*s.%.*s%.*s%s", side(&layer_prefix, !from_ours),
             (int)digits, number, (int)fixed, to, m.digits, m.number,
             to[fixed] == '#' ? to + fixed + 1 : "");
    return 1;
}

int kvsi_gguf_name_to_ours(char *out, const char *theirs, const kvsi_gguf_family *family)
{
    return translate(out, theirs, 0, family);
}

int kvsi_gguf_name_from_ours(char *out, const char *ours, const kvsi_gguf_family *family)
{
    return translate(out, ours, 1, family);
}

int kvsi_gguf_is_gain(const kvsi_file_tensor *tensor)
{
    return tensor->rank == 1 && kvsi_ends_with(tensor->name, ".weight");
}
