/* The transformer, backward: forward.c read from its last line to its first.
 *
 * d_x is the gradient of the residual stream and passes through every layer.  The outputs of norm
 * and SwiGLU were not kept; they are computed again, which is cheaper than the memory. */
#include "model/pass.h"

/* x_out = middle + down(swiglu(gate_up(norm(middle)))) */
static void backward_mlp(kvsi_pass *p, size_t l, real *gradients)
{
    const kvs_model_config *c = &p->model->config;
    const kvsi_layer_offsets *at = &p->model->layout.layers[l];
    const kvsi_layer_memory *m = &p->layers[l];
    const real *gain = p->model->parameters + at->post_norm;
    const kvsi_matrix gate_up = kvsi_pass_matrix(p, at->gate_up, 2 * c->ffn, c->dim);
    const kvsi_matrix down = kvsi_pass_matrix(p, at->down, c->dim, c->ffn);
    const size_t n = p->tokens;
    kvsi_context *x = &p->context;
    const kvsi_ops *op = x->ops;

    op->swiglu_forward(x, p->hidden, m->gate_up, n, c->ffn);
    op->linear_backward_weight(x, gradients + at->down, p->d_x, p->hidden, n, c->dim, c->ffn);
    op->linear_backward_input(x, p->d_hidden, p->d_x, &down, n);
    op->swiglu_backward(x, p->d_gate_up, p->d_hidden, m->gate_up, n, c->ffn);
    op->norm_forward(x, p->normed, m->middle, gain, n, c->dim, c->norm_eps);
    op->linear_backward_weight(x, gradients + at->gate_up, p->d_gate_up, p->normed, n, 2 * c->ffn,
                               c->dim);
    op->linear_backward_input(x, p->d_normed, p->d_gate_up, &gate_up, n);
    op->norm_backward(x, p->d_x, gradients + at->post_norm, p->d_normed, m->middle, gain, n, c->dim,
                      c->norm_eps);
}

/* middle = x + o(attention(qkv(norm(x)))) */
static void backward_attention(kvsi_pass *p, size_t l, real *gradients)
{
    const kvs_model_config *c = &p->model->config;
    const kvsi_layer_offsets *at = &p->model->layout.layers[l];
    const kvsi_layer_memory *m = &p->layers[l];
    const real *gain = p->model->parameters + at->input_norm;
    const size_t n = p->tokens, width = c->dim + 2 * c->kv_heads * (c->dim / c->heads);
    const kvsi_matrix qkv = kvsi_pass_matrix(p, at->qkv, width, c->dim);
    const kvsi_matrix o = kvsi_pass_matrix(p, at->o, c->dim, c->dim);
    const kvsi_attention attention = kvsi_pass_attention(p, l, gradients);
    kvsi_context *x = &p->context;
    const kvsi_ops *op = x->ops;

    op->linear_backward_weight(x, gradients + at->o, p->d_x, m->mixed, n, c->dim, c->dim);
    op->linear_backward_input(x, p->d_mixed, p->d_x, &o, n);
    op->attention_backward(x, p->d_qkv, p->d_mixed, m->mixed, m->logsum, m->qkv, &attention);
    op->norm_forward(x, p->normed, m->x, gain, n, c->dim, c->norm_eps);
    op->linear_backward_weight(x, gradients + at->qkv, p->d_qkv, p->normed, n, width, c->dim);
    op->linear_backward_input(x, p->d_normed, p->d_qkv, &qkv, n);
    op->norm_backward(x, p->d_x, gradients + at->input_norm, p->d_normed, m->x, gain, n, c->dim,
                      c->norm_eps);
}

void kvsi_pass_backward(kvsi_pass *pass, real *gradients)
{
    const kvs_model *m = pass->model;
    const kvs_model_config *c = &m->config;
    const size_t n = pass->tokens;
    kvsi_context *x = &pass->context;

    x->ops->zero(x, pass->d_x, n * c->dim * sizeof *pass->d_x);
    x->ops->norm_backward(x, pass->d_x, gradients + m->layout.final_norm, pass->d_normed,
                          pass->last, m->parameters + m->layout.final_norm, n, c->dim, c->norm_eps);
    for (size_t l = c->layers; l-- > 0;) {
        backward_mlp(pass, l, gradients);
        backward_attention(pass, l, gradients);
    }
    x->ops->embed_backward(x, gradients + m->layout.embed, pass->d_x, pass->ids, n, c->dim);
}
