/* The transformer, backward: forward.c in reverse order.
 *
 * d_x is the gradient of the residual stream and passes through every layer.  The outputs of norm
 * and activation are recomputed rather than kept, which costs less than the memory. */
#include "model/pass.h"

/* d_x += the gradient through norm(x). */
static void norm_backward(kvsi_pass *p, real *d_x, const real *d_y, const real *x,
                          kvsi_norm_offsets at, real *gradients)
{
    const kvsi_norm norm = kvsi_pass_norm(p, at);

    p->context.ops->norm_backward(&p->context, d_x, kvsi_pass_gradient(p, gradients, at.gain),
                                  norm.bias ? kvsi_pass_gradient(p, gradients, at.bias) : NULL, d_y,
                                  x, &norm, p->tokens, p->model->config.dim);
}

/* The gradient of a branch's output, before its filter, norm, scale, dropout and the residual sum,
 * from the gradient of that sum.  d_normed is overwritten. */
static const real *leave_stream(kvsi_pass *p, const real *d_sum, const kvsi_branch *b,
                                real *gradients)
{
    const kvs_model_config *c = &p->model->config;
    const kvsi_dropout drop = kvsi_pass_dropout(p, c->dropout_residual, b->site);
    const kvsi_norm norm = kvsi_pass_norm(p, b->norm);
    const size_t count = p->tokens * c->dim;
    real *d_scaled = norm.gain ? p->d_normed : p->d_branch;
    kvsi_context *k = &p->context;

    if (drop.rate > 0 || c->residual_scale > 0) {
        k->ops->copy(k, d_scaled, d_sum, count * sizeof *d_sum);
        d_sum = d_scaled;
    }
    if (drop.rate > 0)
        kvsi_pass_drop(p, d_scaled, &drop);
    if (c->residual_scale > 0)
        k->ops->scale(k, d_scaled, (real)c->residual_scale, count);
    if (norm.gain) {
        k->ops->zero(k, p->d_branch, count * sizeof *p->d_branch);
        norm_backward(p, p->d_branch, d_sum, b->unnormed, b->norm, gradients);
        d_sum = p->d_branch;
    }
    if (b->filter.width > 0) {
        real *d_raw = d_sum == p->d_branch ? p->d_normed : p->d_branch;

        k->ops->filter_backward(k, d_raw, d_sum, b->raw, &b->filter, p->tokens);
        d_sum = d_raw;
    }
    return d_sum;
}

/* Recomputes norm(x). */
static const real *normalise_again(kvsi_pass *p, const real *x, kvsi_norm_offsets at)
{
    const kvsi_norm norm = kvsi_pass_norm(p, at);

    if (!norm.gain)
        return x;
    p->context.ops->norm_forward(&p->context, p->normed, x, &norm, p->tokens, p->model->config.dim);
    return p->normed;
}

/* Adds the gradient through norm(x), from d_normed, to the stream's gradient (or replaces it, in a
 * body without residuals). */
static void enter_stream(kvsi_pass *p, const real *x, kvsi_norm_offsets at, real *gradients)
{
    const kvs_model_config *c = &p->model->config;
    const size_t count = p->tokens * c->dim;
    kvsi_context *k = &p->context;

    if (c->no_residual)
        k->ops->zero(k, p->d_x, count * sizeof *p->d_x);
    if (at.gain != KVSI_ABSENT)
        norm_backward(p, p->d_x, p->d_normed, x, at, gradients);
    else
        k->ops->add(k, p->d_x, p->d_normed, count);
}

/* Backward through y += s (x A^T) B^T: adds d_y^T (s x A^T) to the gradient of B and (s d_y B)^T x
 * to that of A, and s d_y B A to d_x. */
static void through_adapter(kvsi_pass *p, real *d_x, const real *d_y, const real *x,
                            const kvsi_adapter *adapter, real *gradients)
{
    const kvsi_lora_config *lora = &p->model->config.lora;
    const kvsi_matrix *a = &adapter->a, *b = &adapter->b;
    kvsi_context f32 = kvsi_pass_f32_context(p);
    const kvsi_ops *op = f32.ops;

    d_y += adapter->column;
    kvsi_pass_adapt(p, x, adapter);
    op->linear_backward_weight(&f32, kvsi_pass_gradient(p, gradients, adapter->b_offset), d_y,
                               p->adapted, p->tokens, b->rows, b->cols, kvsi_matrix_stride(b));
    op->linear_backward_input(&f32, p->d_adapted, d_y, b, p->tokens, 0);
    op->scale(&f32, p->d_adapted, (real)(lora->alpha / (double)lora->rank), p->tokens * lora->rank);
    op->linear_backward_weight(&f32, kvsi_pass_gradient(p, gradients, adapter->a_offset),
                               p->d_adapted, x, p->tokens, a->rows, a->cols, a->rows);
    op->linear_backward_input(&f32, d_x, p->d_adapted, a, p->tokens, 1);
}

/* Backward through y = x W^T + bias: adds to the gradients of W, bias and adapters, writes d_x.  W
 * has one part, because models that are trained have their weights in a block. */
static void through_linear(kvsi_pass *p, real *d_x, const real *d_y, const real *x,
                           const kvsi_linear *linear, ptrdiff_t weight, ptrdiff_t bias,
                           real *gradients)
{
    const kvsi_matrix *w = &linear->part[0];
    real *d_weight = kvsi_pass_gradient(p, gradients, weight);
    kvsi_context *k = &p->context;

    if (d_weight)
        k->ops->linear_backward_weight(k, d_weight, d_y, x, p->tokens, w->rows, w->cols, w->rows);
    if (bias != KVSI_ABSENT)
        k->ops->linear_backward_bias(k, kvsi_pass_gradient(p, gradients, bias), d_y, p->tokens,
                                     w->rows);
    k->ops->linear_backward_input(k, d_x, d_y, w, p->tokens, 0);
    for (size_t i = 0; i < linear->adapters; i++)
        through_adapter(p, d_x, d_y, x, &linear->adapter[i], gradients);
}

/* d_sum is the gradient of the sum that the branch was added to, here and in the next function. */
static void backward_mlp(kvsi_pass *p, size_t l, const real *d_sum, real *gradients)
{
    const kvsi_layer_matrices *w = kvsi_pass_matrices(p, l);
    const kvsi_layer_offsets *at = &p->model->layout.layers[l];
    const kvsi_layer_memory *m = &p->layers[l];
    const kvsi_mlp mlp = kvsi_pass_mlp(p);
    const real *in = kvsi_pass_mlp_input(p, l);
    const kvsi_branch branch = kvsi_pass_mlp_branch(p, l, gradients);
    const real *d_branch = leave_stream(p, d_sum, &branch, gradients);
    kvsi_context *k = &p->context;

    k->ops->activation_forward(k, p->hidden, m->up, &mlp, p->tokens);
    through_linear(p, p->d_hidden, d_branch, p->hidden, &w->down, at->down, at->down_bias,
                   gradients);
    k->ops->activation_backward(k, p->d_up, p->d_hidden, m->up, &mlp, p->tokens);
    through_linear(p, p->d_normed, p->d_up, normalise_again(p, in, at->mlp_in), &w->up, at->up,
                   at->up_bias, gradients);
    enter_stream(p, in, at->mlp_in, gradients);
}

static void backward_attention(kvsi_pass *p, size_t l, const real *d_sum, real *gradients)
{
    const kvsi_layer_matrices *w = kvsi_pass_matrices(p, l);
    const kvsi_layer_offsets *at = &p->model->layout.layers[l];
    const kvsi_layer_memory *m = &p->layers[l];
    const kvsi_matrix gates = kvsi_pass_gates(p, l);
    const kvsi_attention attention = kvsi_pass_attention(p, l, gradients);
    const kvsi_branch branch = kvsi_pass_attention_branch(p, l, gradients);
    const real *d_branch = leave_stream(p, d_sum, &branch, gradients);
    const real *in;
    kvsi_context *k = &p->context, f32 = kvsi_pass_f32_context(p);

    through_linear(p, p->d_mixed, d_branch, m->mixed, &w->o, at->o, at->o_bias, gradients);
    k->ops->attention_backward(k, p->d_qkv, p->d_mixed, m->mixed, m->logsum, m->qkv, &attention);
    in = normalise_again(p, m->x, at->attention_in);
    through_linear(p, p->d_normed, p->d_qkv, in, &w->qkv, at->qkv, at->qkv_bias, gradients);
    if (w->relative.parts > 0) {
        const kvsi_matrix *r = &w->relative.part[0];
        real *d_r = kvsi_pass_gradient(p, gradients, at->relative);

        if (d_r)
            k->ops->linear_backward_weight(k, d_r, p->d_relative, in, p->tokens, r->rows, r->cols,
                                           r->rows);
        k->ops->linear_backward_input(k, p->d_normed, p->d_relative, r, p->tokens, 1);
    }
    if (gates.rows > 0) {
        const ptrdiff_t offset = kvsi_pass_gates_offset(p, l);

        k->ops->linear_backward_weight(&f32, kvsi_pass_gradient(p, gradients, offset), p->d_gates,
                                       in, p->tokens, gates.rows, gates.cols, gates.rows);
        k->ops->linear_backward_input(&f32, p->d_normed, p->d_gates, &gates, p->tokens, 1);
    }
    enter_stream(p, m->x, at->attention_in, gradients);
}

static void backward_embedding(kvsi_pass *p, real *gradients)
{
    const kvs_model *m = p->model;
    const size_t n = p->tokens, dim = m->config.dim;
    const kvsi_dropout drop =
        kvsi_pass_dropout(p, m->config.dropout_embedding, KVSI_SITE_EMBEDDING);
    real *d_tokens = m->config.embedding_norm ? p->d_normed : p->d_x;
    kvsi_context *k = &p->context;

    if (drop.rate > 0)
        kvsi_pass_drop(p, p->d_x, &drop);
    if (m->layout.positions != KVSI_ABSENT)
        k->ops->embed_backward(k, kvsi_pass_gradient(p, gradients, m->layout.positions), p->d_x,
                               p->positions, n, dim);
    if (m->config.embedding_norm) {
        k->ops->zero(k, d_tokens, n * dim * sizeof *d_tokens);
        norm_backward(p, d_tokens, p->d_x, p->embedded, m->layout.embed_norm, gradients);
    }
    if (m->config.embedding_scale > 0)
        k->ops->scale(k, d_tokens, (real)m->config.embedding_scale, n * dim);
    k->ops->embed_backward(k, kvsi_pass_gradient(p, gradients, m->layout.embed), d_tokens, p->ids,
                           n, dim);
}

static void backward_layer(kvsi_pass *p, size_t l, real *gradients)
{
    const kvs_model_config *c = &p->model->config;
    const real *d_out = p->d_x;

    if (c->parallel != KVSI_PARALLEL_NONE) { /* both branches were added to one sum */
        p->context.ops->copy(&p->context, p->d_out, p->d_x, p->tokens * c->dim * sizeof *p->d_x);
        d_out = p->d_out;
    }
    if (!c->no_mlp)
        backward_mlp(p, l, d_out, gradients);
    backward_attention(p, l, d_out, gradients);
}

void kvsi_pass_backward(kvsi_pass *pass, real *gradients)
{
    const kvs_model *m = pass->model;
    kvsi_context *k = &pass->context;

    k->ops->zero(k, pass->d_x, pass->tokens * m->config.dim * sizeof *pass->d_x);
    if (m->config.logit_divisor > 0)
        k->ops->scale(k, pass->d_normed, (real)(1 / m->config.logit_divisor),
                      pass->tokens * m->config.dim);
    enter_stream(pass, pass->last, m->layout.final_norm, gradients);
    for (size_t l = m->config.layers; l-- > 0;) {
        const size_t block = kvsi_block_of_layer(l);

        kvsi_pass_need_params(pass, block);
        kvsi_pass_need_gradients(pass, block);
        kvsi_pass_restore_layer(pass, l);
        backward_layer(pass, l, gradients);
        kvsi_pass_gradients_ready(pass, block);
    }
    kvsi_pass_need_gradients(pass, KVSI_BLOCK_EMBEDDING);
    if (pass->trained_from == 0)
        backward_embedding(pass, gradients);
    kvsi_pass_gradients_ready(pass, KVSI_BLOCK_EMBEDDING);
}
