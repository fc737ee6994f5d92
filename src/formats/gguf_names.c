#include "formats/gguf_names.h"

#include <stdio.h>
#include <string.h>

typedef struct pair {
    const char *theirs, *ours;
} pair;

static const pair layer_prefix = {"blk.", "model.layers."};

static const pair outside_layers[] = {
    {"token_embd.weight", "model.embed_tokens.weight"},
    {"token_embd_norm.weight", "model.embed_norm.weight"},
    {"position_embd.weight", "model.embed_positions.weight"},
    {"token_embd_norm.bias", "model.embed_norm.bias"},
    {"output_norm.weight", "model.norm.weight"},
    {"output_norm.bias", "model.norm.bias"},
    {"output.weight", "lm_head.weight"},
    {NULL, NULL},
};

/* '#' stands for a number. */
static const pair inside_layers[] = {
    {"attn_norm.weight", "input_layernorm.weight"},
    {"attn_q.weight", "self_attn.q_proj.weight"},
    {"attn_k.weight", "self_attn.k_proj.weight"},
    {"attn_v.weight", "self_attn.v_proj.weight"},
    {"attn_output.weight", "self_attn.o_proj.weight"},
    {"attn_q_norm.weight", "self_attn.q_norm.weight"},
    {"attn_k_norm.weight", "self_attn.k_norm.weight"},
    {"attn_q_norm.#.weight", "self_attn.q_layernorm.norms.#.weight"},
    {"attn_k_norm.#.weight", "self_attn.k_layernorm.norms.#.weight"},
    {"attn_q.bias", "self_attn.q_proj.bias"},
    {"attn_k.bias", "self_attn.k_proj.bias"},
    {"attn_v.bias", "self_attn.v_proj.bias"},
    {"attn_output.bias", "self_attn.o_proj.bias"},
    {"attn_q_shift", "self_attn.q_shift"},
    {"attn_k_shift", "self_attn.k_shift"},
    {"attn_v_shift", "self_attn.v_shift"},
    {"attn_r.weight", "self_attn.r_proj.weight"},
    {"attn_r_table", "self_attn.r_table"},
    {"attn_filter", "self_attn.filter"},
    {"ffn_filter", "mlp.filter"},
    {"ffn_factor", "mlp.factor"},
    {"attn_norm.bias", "input_layernorm.bias"},
    {"ffn_norm.weight", "post_attention_layernorm.weight"},
    {"ffn_norm.bias", "post_attention_layernorm.bias"},
    {"pre_ffw_norm.weight", "pre_feedforward_layernorm.weight"},
    {"pre_ffw_norm.bias", "pre_feedforward_layernorm.bias"},
    {"post_ffw_norm.weight", "post_feedforward_layernorm.weight"},
    {"post_ffw_norm.bias", "post_feedforward_layernorm.bias"},
    {"ffn_gate.weight", "mlp.gate_proj.weight"},
    {"ffn_up.weight", "mlp.up_proj.weight"},
    {"ffn_down.weight", "mlp.down_proj.weight"},
    {"ffn_gate.bias", "mlp.gate_proj.bias"},
    {"ffn_up.bias", "mlp.up_proj.bias"},
    {"ffn_down.bias", "mlp.down_proj.bias"},
    {NULL, NULL},
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

/* The pair with this name on one side. */
static match find(const pair *list, const char *name, int ours)
{
    match m = {0};

    for (; list->theirs; list++)
        if (matches(&m, side(list, ours), name)) {
            m.found = list;
            break;
        }
    return m;
}

static int translate(char *out, const char *name, int from_ours)
{
    const char *prefix = side(&layer_prefix, from_ours);
    const size_t length = strlen(prefix);
    const char *number = name + length, *to;
    match m = find(outside_layers, name, from_ours);
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
    m = find(inside_layers, number + digits + 1, from_ours);
    if (!m.found)
        return 0;
    to = side(m.found, !from_ours);
    fixed = strcspn(to, "#");
    snprintf(out, KVSI_GGUF_NAME_SIZE, "%s%.*s.%.*s%.*s%s", side(&layer_prefix, !from_ours),
             (int)digits, number, (int)fixed, to, m.digits, m.number,
             to[fixed] == '#' ? to + fixed + 1 : "");
    return 1;
}

int kvsi_gguf_name_to_ours(char *out, const char *theirs)
{
    return translate(out, theirs, 0);
}

int kvsi_gguf_name_from_ours(char *out, const char *ours)
{
    return translate(out, ours, 1);
}
