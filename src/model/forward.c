/* The transformer, forward: x -> x + attention(norm(x)) -> x + mlp(norm(x)), layer by layer. */
#include "model/pass.h"

static void forward_layer(kvsi_pass *p, size_t l, real *out)
{
    const kvs_model_config *c = &p->model->config;
    const kvsi_layer_offsets *at = &p->model->layout.layers[l];
    const kvsi_layer_memory *m = &p->layers[l];
    const real *w = p->model->parameters;
    const size_t n = p->tokens, kv_dim = c->kv_heads * (c->dim / c->heads);
    const kvsi_matrix qkv = kvsi_pass_matrix(p, at->qkv, c->dim + 2 * kv_dim, c->dim);
    const kvsi_matrix o = kvsi_pass_matrix(p, at->o, c->dim, c->dim);
    const kvsi_matrix gate_up = kvsi_pass_matrix(p, at->gate_up, 2 * c->ffn, c->dim);
    const kvsi_matrix down = kvsi_pass_matrix(p, at->down, c->dim, c->ffn);
    const kvsi_attention attention = kvsi_pass_attention(p, l, NULL);
    kvsi_context *x = &p->context;
    const kvsi_ops *op = x->ops;

    op->norm_forward(x, p->normed, m->x, w + at->input_norm, n, c->dim, c->norm_eps);
    op->linear_forward(x, m->qkv, p->normed, &qkv, n, NULL);
    op->attention_forward(x, m->mixed, m->logsum, m->qkv, &attention);
    op->linear_forward(x, m->middle, m->mixed, &o, n, m->x);

    op->norm_forward(x, p->normed, m->middle, w + at->post_norm, n, c->dim, c->norm_eps);
    op->linear_forward(x, m->gate_up, p->normed, &gate_up, n, NULL);
    op->swiglu_forward(x, p->hidden, m->gate_up, n, c->ffn);
    op->linear_forward(x, out, p->hidden, &down, n, m->middle);
}

void kvsi_pass_forward(kvsi_pass *pass)
{
    const kvs_model *m = pass->model;
    const kvs_model_config *c = &m->config;
    const kvsi_ops *op = pass->context.ops;
    const size_t n = pass->tokens;

    op->embed_forward(&pass->context, pass->layers[0].x, m->parameters + m->layout.embed, pass->ids,
                      n, c->dim);
    for (size_t l = 0; l < c->layers; l++)
        forward_layer(pass, l, l + 1 < c->layers ? pass->layers[l + 1].x : pass->last);
    op->norm_forward(&pass->context, pass->normed, pass->last, m->parameters + m->layout.final_norm,
                     n, c->dim, c->norm_eps);
    for (size_t s = 0; s < pass->sequences; s++)
        if (pass->states[s])
            pass->states[s]->length += pass->spans[s].len;
}

static kvsi_matrix head_matrix(const kvsi_pass *p)
{
    return kvsi_pass_matrix(p, p->model->layout.head, p->model->config.vocab, p->model->config.dim);
}

/* The head's share of the backward pass happens here too, so that logits never outlive a chunk:
 * it leaves the gradient of the final norm's output in d_normed. */
kvsi_loss kvsi_pass_loss(kvsi_pass *pass, real *gradients)
{
    kvsi_context *c = &pass->context;
    const kvsi_matrix w = head_matrix(pass);
    const size_t rows = pass->head_rows;
    const kvsi_head head = {
        .x = pass->normed,
        .w = &w,
        .rows = pass->rows,
        .targets = pass->targets,
        .count = rows,
        .row_loss = pass->losses,
        .row_guess = pass->guesses,
        .n = pass->tokens,
        .d_x = gradients ? pass->d_normed : NULL,
        .d_w = gradients ? gradients + pass->model->layout.head : NULL,
    };
    kvsi_loss loss = {.rows = rows};

    c->ops->head_loss(c, &head);
    c->ops->download(c, pass->host_losses, pass->losses, rows * sizeof *pass->losses);
    c->ops->download(c, pass->host_guesses, pass->guesses, rows * sizeof *pass->guesses);
    c->ops->sync(c);
    for (size_t r = 0; r < rows; r++) {
        loss.sum += (double)pass->host_losses[r];
        loss.scored += pass->host_scored[r];
        loss.right += pass->host_scored[r] && pass->host_guesses[r] == pass->host_targets[r];
    }
    return loss;
}

void kvsi_pass_logits(kvsi_pass *pass, real *host_logits, real *scratch, const int32_t *rows,
                      size_t count)
{
    kvsi_context *c = &pass->context;
    const kvsi_matrix w = head_matrix(pass);

    c->ops->upload(c, pass->rows, rows, count * sizeof *rows);
    c->ops->head_logits(c, scratch, pass->normed, &w, pass->rows, count);
    c->ops->download(c, host_logits, scratch, count * w.rows * sizeof *host_logits);
    c->ops->sync(c);
}
