#include "formats/llama_layout.h"

#include "base/memory.h"
#include "config/config.h"

#include <string.h>

kvs_status kvsi_check_plain_llama(const kvs_model_config *c, const char *format, kvs_err *err)
{
    const struct {
        const char *part;
        int there;
    } parts[] = {
        {"GPT-2's body", c->body != KVSI_BODY_LLAMA},
        {"shifted keys, values or queries", c->shift.targets != 0},
        {"positions other than rotary ones", c->positions != KVSI_POSITIONS_ROPE},
        {"partial rotary embeddings", c->rotary_fraction != 1.0},
        {"a head size of its own", c->head_size != 0},
        {"biases", c->qkv_bias || c->o_bias || c->mlp_bias},
        {"scaled rotary embeddings", c->rope.scaling != KVSI_ROPE_PLAIN},
        {"layers without rotary embeddings", c->no_rope_layers != 0},
        {"norms of queries and keys", c->qk_norm != KVSI_QK_NORM_NONE},
        {"a norm of the embeddings", c->embedding_norm},
        {"LayerNorm", c->norm_kind == KVSI_NORM_LAYER},
        {"norms after attention and MLP", c->norm_place != KVSI_NORM_BEFORE},
        {"gains of 1 + w", c->gain_offset},
        {"parallel attention and MLP", c->parallel != KVSI_PARALLEL_NONE},
        {"an MLP other than SwiGLU", c->plain_mlp || (c->activation != KVSI_ACTIVATION_AUTO &&
                                                      c->activation != KVSI_ACTIVATION_SILU)},
        {"scaled embeddings, branches or logits",
         c->embedding_scale > 0 || c->residual_scale > 0 || c->logit_divisor > 0},
        {"a score scale", c->score_scale != 0},
        {"scores that grow or are divided by the head size",
         c->score_growth > 0 || c->score_divisor != KVSI_SCORE_DIVISOR_ROOT},
        {"filters", c->filters != 0},
        {"capped scores or logits", c->score_cap > 0 || c->logit_cap > 0},
        {"a sliding window", c->sliding_window != 0},
        {"a head that is not linear", c->head != KVSI_HEAD_LINEAR},
        {"layers without residual, MLP or norms", c->no_residual || c->no_mlp || c->no_norm},
    };

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].there)
            return kvsi_fail(err, KVS_E_UNSUPPORTED, "format %s does not support %s", format,
                             parts[i].part);
    return KVS_OK;
}

size_t kvsi_rotary_heads(const char *name, const kvs_model_config *config)
{
    if (strstr(name, ".q_proj."))
        return config->heads;
    return strstr(name, ".k_proj.") ? config->kv_heads : 0;
}

/* Interleaves rows [heads * head_size, columns] in place. */
static kvs_status interleave_rows(float *rows, size_t heads, size_t head_size, size_t columns,
                                  kvs_err *err)
{
    const size_t size = head_size * columns, half = head_size / 2;
    float *head = kvsi_alloc(size, sizeof *head);

    if (!head)
        return kvsi_no_memory(err, "a head of %zu numbers", size);
    for (size_t h = 0; h < heads; h++) {
        memcpy(head, rows + h * size, size * sizeof *head);
        for (size_t i = 0; i < head_size; i++)
            memcpy(rows + h * size + i * columns, head + (i % 2 * half + i / 2) * columns,
                   columns * sizeof *head);
    }
    kvsi_free(head);
    return KVS_OK;
}

static void describe(const void *self, size_t index, kvsi_file_tensor *out)
{
    const kvsi_interleaved *s = self;

    s->ours->describe(s->ours->self, index, out);
}

static kvs_status read_tensor(const void *self, size_t index, float *out, kvs_err *err)
{
    const kvsi_interleaved *s = self;
    kvsi_file_tensor tensor;
    size_t heads;

    TRY(s->ours->read(s->ours->self, index, out, err));
    describe(self, index, &tensor);
    heads = kvsi_rotary_heads(tensor.name, s->config);
    if (heads == 0)
        return KVS_OK;
    return interleave_rows(out, heads, tensor.shape[0] / heads,
                           tensor.rank > 1 ? tensor.shape[1] : 1, err); /* a bias is a column */
}

kvsi_tensor_source kvsi_interleave(const kvsi_interleaved *self)
{
    return (kvsi_tensor_source){self->ours->count, describe, read_tensor, self};
}
