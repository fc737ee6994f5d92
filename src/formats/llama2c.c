#include "formats/llama2c.h"

#include "config/config.h"

#include <string.h>

const double kvsi_llama2c_rope_base = 10000, kvsi_llama2c_norm_eps = 1e-5;

static size_t list_legacy(kvsi_llama2c_part *parts, const kvs_model_config *c)
{
    const size_t kv_dim = c->dim / c->heads * c->kv_heads;
    const kvsi_llama2c_part list[] = {
        {"model.embed_tokens.weight", 0, c->vocab, c->dim, 0},
        {"input_layernorm.weight", 1, c->dim, 0, 0},
        {"self_attn.q_proj.weight", 1, c->dim, c->dim, c->heads},
        {"self_attn.k_proj.weight", 1, kv_dim, c->dim, c->kv_heads},
        {"self_attn.v_proj.weight", 1, kv_dim, c->dim, 0},
        {"self_attn.o_proj.weight", 1, c->dim, c->dim, 0},
        {"post_attention_layernorm.weight", 1, c->dim, 0, 0},
        {"mlp.gate_proj.weight", 1, c->ffn, c->dim, 0},
        {"mlp.down_proj.weight", 1, c->dim, c->ffn, 0},
        {"mlp.up_proj.weight", 1, c->ffn, c->dim, 0},
        {"model.norm.weight", 0, c->dim, 0, 0},
        {NULL, 0, c->context, c->dim / c->heads, 0}, /* cosines and sines, half a head each */
        {"lm_head.weight", 0, c->vocab, c->dim, 0},
    };

    memcpy(parts, list, sizeof list);
    return sizeof list / sizeof *list - (c->tied ? 1 : 0);
}

static size_t list_v1(kvsi_llama2c_part *parts, const kvs_model_config *c)
{
    const size_t kv_dim = c->dim / c->heads * c->kv_heads;
    const kvsi_llama2c_part list[] = {
        {"input_layernorm.weight", 1, c->dim, 0, 0},
        {"post_attention_layernorm.weight", 1, c->dim, 0, 0},
        {"model.norm.weight", 0, c->dim, 0, 0},
        {"model.embed_tokens.weight", 0, c->vocab, c->dim, 0},
        {"self_attn.q_proj.weight", 1, c->dim, c->dim, c->heads},
        {"self_attn.k_proj.weight", 1, kv_dim, c->dim, c->kv_heads},
        {"self_attn.v_proj.weight", 1, kv_dim, c->dim, 0},
        {"self_attn.o_proj.weight", 1, c->dim, c->dim, 0},
        {"mlp.gate_proj.weight", 1, c->ffn, c->dim, 0},
        {"mlp.down_proj.weight", 1, c->dim, c->ffn, 0},
        {"mlp.up_proj.weight", 1, c->ffn, c->dim, 0},
        {"lm_head.weight", 0, c->vocab, c->dim, 0},
    };

    memcpy(parts, list, sizeof list);
    return sizeof list / sizeof *list - (c->tied ? 1 : 0);
}

size_t kvsi_llama2c_list(kvsi_llama2c_part parts[KVSI_LLAMA2C_PARTS_MAX],
                         const kvs_model_config *config, int v1)
{
    return v1 ? list_v1(parts, config) : list_legacy(parts, config);
}

/* Dimensions are below 2^24 (kvs_model_config_finish), so the size of a matrix cannot overflow. */
size_t kvsi_llama2c_part_bytes(const kvsi_llama2c_part *p)
{
    return p->rows * (p->width ? p->width : 1) * sizeof(float);
}
