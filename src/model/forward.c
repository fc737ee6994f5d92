/* The transformer, forward: x -> x + attention(norm(x)) -> x + mlp(norm(x)), layer by layer.  Norms
 * may also be of the branches, x + norm(f(x)), and so may filters, which mix their rows; both
 * branches may read the same x. */
#include "model/pass.h"

/* norm(x), or x itself if there is no norm. */
static const real *normalise(kvsi_pass *p, const real *x, kvsi_norm_offsets at)
{
    const kvsi_norm norm = kvsi_pass_norm(p, at);

    if (!norm.gain)
        return x;
    p->context.ops->norm_forward(&p->context, p->normed, x, &norm, p->tokens, p->model->config.dim);
    return p->normed;
}

void kvsi_pass_adapt(kvsi_pass *pass, const real *x, const kvsi_adapter *adapter)
{
    const kvsi_lora_config *lora = &pass->model->config.lora;
    kvsi_context f32 = kvsi_pass_f32_context(pass);

    f32.ops->linear_forward(&f32, pass->adapted, x, &adapter->a, pass->tokens, NULL);
    f32.ops->scale(&f32, pass->adapted, (real)(lora->alpha / (double)lora->rank),
                   pass->tokens * lora->rank);
}

/* y += (alpha / rank) (x A^T) B^T */
static void add_adapter(kvsi_pass *p, real *y, const real *x, const kvsi_adapter *adapter)
{
    kvsi_context f32 = kvsi_pass_f32_context(p);

    kvsi_pass_adapt(p, x, adapter);
    y += adapter->column;
    f32.ops->linear_forward(&f32, y, p->adapted, &adapter->b, p->tokens, y);
}

/* Each part computes its own columns of y; consecutive parts of one type are one operation. */
void kvsi_pass_linear(kvsi_pass *p, real *y, const real *x, const kvsi_linear *w,
                      const real *residual)
{
    kvsi_context *k = &p->context;
    kvsi_linear chain = *w;
    size_t column = 0;

    for (size_t i = 0; i + 1 < w->parts; i++)
        if (w->part[i].type == w->part[i + 1].type)
            chain.part[i].next = &chain.part[i + 1];
    for (size_t i = 0; i < w->parts; column += w->part[i++].rows)
        if (i == 0 || !chain.part[i - 1].next)
            k->ops->linear_forward(k, y + column, x, &chain.part[i], p->tokens,
                                   residual ? residual + column : NULL);
    for (size_t i = 0; i < w->adapters; i++)
        add_adapter(p, y, x, &w->adapter[i]);
}

/* x[count] *= factor; 0 = 1 */
static void scale(kvsi_pass *p, real *x, double factor, size_t count)
{
    if (factor > 0 && factor != 1)
        p->context.ops->scale(&p->context, x, (real)factor, count);
}

/* out = x + dropout(scale norm(filter(in W^T))), or without x in a body without residuals.  The
 * backward pass needs what filter and norm read, if there are any. */
static void add_branch(kvsi_pass *p, real *out, const real *in, const kvsi_linear *w, const real *x,
                       const kvsi_branch *b)
{
    const kvs_model_config *c = &p->model->config;
    const kvsi_dropout drop = kvsi_pass_dropout(p, c->dropout_residual, b->site);
    const kvsi_norm norm = kvsi_pass_norm(p, b->norm);
    const size_t count = p->tokens * c->dim;
    real *unnormed = norm.gain ? b->unnormed : p->branch;
    kvsi_context *k = &p->context;

    if (drop.rate == 0 && c->residual_scale == 0 && !norm.gain && b->filter.width == 0) {
        kvsi_pass_linear(p, out, in, w, c->no_residual ? NULL : x);
        return;
    }
    kvsi_pass_linear(p, b->filter.width > 0 ? b->raw : unnormed, in, w, NULL);
    if (b->filter.width > 0)
        k->ops->filter_forward(k, unnormed, b->raw, &b->filter, p->tokens);
    if (norm.gain)
        k->ops->norm_forward(k, p->branch, unnormed, &norm, p->tokens, c->dim);
    scale(p, p->branch, c->residual_scale, count);
    if (drop.rate > 0)
        kvsi_pass_drop(p, p->branch, &drop);
    k->ops->copy(k, out, c->no_residual ? p->branch : x, count * sizeof *out);
    if (!c->no_residual)
        k->ops->add(k, out, p->branch, count);
}

static size_t qkv_count(const kvsi_pass *p, size_t layer)
{
    return p->tokens * kvsi_layer_shape_of(&p->model->config, layer).qkv_width;
}

static size_t up_count(const kvsi_pass *p)
{
    return p->tokens * kvsi_up_width(&p->model->config);
}

/* In precision BF16: rounds values that the backward pass reads, and keeps them if `kept` is not
 * NULL.  Forward and backward pass use the same values. */
static void round_values(kvsi_pass *p, real *x, uint16_t *kept, size_t count)
{
    if (p->limits.precision == KVSI_PRECISION_BF16)
        p->context.ops->round_bf16(&p->context, x, kept, count);
}

/* m->middle from m->x */
static void forward_attention(kvsi_pass *p, size_t l)
{
    const kvsi_layer_matrices *w = kvsi_pass_matrices(p, l);
    const kvsi_layer_offsets *at = &p->model->layout.layers[l];
    const kvsi_layer_memory *m = &p->layers[l];
    const kvsi_matrix gates = kvsi_pass_gates(p, l);
    const kvsi_attention attention = kvsi_pass_attention(p, l, NULL);
    const kvsi_branch branch = kvsi_pass_attention_branch(p, l, NULL);
    const real *in = normalise(p, m->x, at->attention_in);
    kvsi_context *k = &p->context, f32 = kvsi_pass_f32_context(p);

    kvsi_pass_attach(p, l);
    kvsi_pass_linear(p, m->qkv, in, &w->qkv, NULL);
    round_values(p, m->qkv, m->kept_qkv, qkv_count(p, l));
    if (gates.rows > 0)
        k->ops->linear_forward(&f32, m->gates, in, &gates, p->tokens, NULL);
    kvsi_pass_linear(p, m->relative, in, &w->relative, NULL); /* if positions are relative */
    k->ops->attention_forward(k, m->mixed, m->logsum, m->qkv, &attention);
    add_branch(p, m->middle, m->mixed, &w->o, m->x, &branch);
}

/* m->up from m->middle, or from m->x if the branches are parallel */
static void forward_up(kvsi_pass *p, size_t l)
{
    const kvsi_layer_offsets *at = &p->model->layout.layers[l];
    const kvsi_layer_memory *m = &p->layers[l];
    const real *in = normalise(p, kvsi_pass_mlp_input(p, l), at->mlp_in);

    kvsi_pass_linear(p, m->up, in, &kvsi_pass_matrices(p, l)->up, NULL);
    round_values(p, m->up, m->kept_up, up_count(p));
}

/* out from m->middle */
static void forward_mlp(kvsi_pass *p, size_t l, real *out)
{
    const kvsi_layer_memory *m = &p->layers[l];
    const kvsi_mlp mlp = kvsi_pass_mlp(p);
    const kvsi_branch branch = kvsi_pass_mlp_branch(p, l, NULL);

    forward_up(p, l);
    p->context.ops->activation_forward(&p->context, p->hidden, m->up, &mlp, p->tokens);
    add_branch(p, out, p->hidden, &kvsi_pass_matrices(p, l)->down, m->middle, &branch);
}

void kvsi_pass_widen_layer(kvsi_pass *pass, size_t layer)
{
    const kvsi_layer_memory *m = &pass->layers[layer];
    kvsi_context *k = &pass->context;

    if (m->kept_qkv)
        k->ops->widen_bf16(k, m->qkv, m->kept_qkv, qkv_count(pass, layer));
    if (m->kept_up)
        k->ops->widen_bf16(k, m->up, m->kept_up, up_count(pass));
}

void kvsi_pass_restore_layer(kvsi_pass *pass, size_t layer)
{
    const kvsi_layer_offsets *at = &pass->model->layout.layers[layer];

    if (!pass->limits.recompute) {
        kvsi_pass_widen_layer(pass, layer);
        return;
    }
    forward_attention(pass, layer);
    if (at->mlp_out.gain != KVSI_ABSENT || at->mlp_filter != KVSI_ABSENT)
        forward_mlp(pass, layer, kvsi_pass_layer_output(pass, layer)); /* which gets the same */
    else if (!pass->model->config.no_mlp)
        forward_up(pass, layer);
}

static void embed(kvsi_pass *p, real *x)
{
    const kvs_model *m = p->model;
    const size_t n = p->tokens;
    const kvsi_dropout drop =
        kvsi_pass_dropout(p, m->config.dropout_embedding, KVSI_SITE_EMBEDDING);
    real *tokens = m->config.embedding_norm ? p->embedded : x;
    kvsi_context *k = &p->context;

    k->ops->embed_forward(k, tokens, &m->matrices.embed, p->ids, n, 0);
    scale(p, tokens, m->config.embedding_scale, n * m->config.dim);
    if (m->config.embedding_norm) {
        const kvsi_norm norm = kvsi_pass_norm(p, m->layout.embed_norm);

        k->ops->norm_forward(k, x, tokens, &norm, n, m->config.dim);
    }
    if (m->matrices.positions.data)
        k->ops->embed_forward(k, x, &m->matrices.positions, p->positions, n, 1);
    if (drop.rate > 0)
        kvsi_pass_drop(p, x, &drop);
}

static void advance(kvsi_pass *p, kvsi_state *state, const kvsi_span *span)
{
    const size_t dim = p->model->config.dim;

    if (span->len == 0)
        return;
    p->context.ops->copy(&p->context, state->last, p->normed + (span->start + span->len - 1) * dim,
                         dim * sizeof *state->last);
    state->last_of_many = kvsi_pass_has_many(p);
    state->length += span->len;
}

/* Calls `watch`; returns whether the forward pass ends here. */
static int ends_here(const kvsi_pass *p, size_t layer, kvsi_watch_point point)
{
    return p->watch && p->watch(p->watcher, layer, point);
}

void kvsi_pass_forward(kvsi_pass *pass)
{
    const kvs_model *m = pass->model;
    const size_t bytes = pass->tokens * m->config.dim * sizeof(real);
    kvsi_context *k = &pass->context;

    kvsi_pass_need_params(pass, KVSI_BLOCK_EMBEDDING);
    embed(pass, pass->layers[0].x);
    for (size_t l = 0; l < m->config.layers; l++) {
        real *out = kvsi_pass_layer_output(pass, l);

        kvsi_pass_need_params(pass, kvsi_block_of_layer(l));
        forward_attention(pass, l);
        if (ends_here(pass, l, KVSI_WATCH_ATTENTION))
            return;
        if (m->config.no_mlp)
            k->ops->copy(k, out, pass->layers[l].middle, bytes);
        else
            forward_mlp(pass, l, out);
        if (ends_here(pass, l, KVSI_WATCH_LAYER))
            return;
    }
    if (m->config.no_norm)
        k->ops->copy(k, pass->normed, pass->last, bytes);
    else
        normalise(pass, pass->last, m->layout.final_norm);
    if (m->config.logit_divisor > 0) /* before the head, which is linear */
        scale(pass, pass->normed, 1 / m->config.logit_divisor, pass->tokens * m->config.dim);
    for (size_t s = 0; s < pass->sequences; s++)
        if (pass->states[s])
            advance(pass, pass->states[s], &pass->spans[s]);
}

/* ---- head ---- */

static void prepare_head(kvsi_pass *p)
{
    const kvs_model *m = p->model;

    if (m->config.head == KVSI_HEAD_NORMALISED)
        p->context.ops->unit_rows_forward(&p->context, p->unit_head, m->matrices.head.data,
                                          m->config.vocab, m->config.dim);
}

/* Where the gradient of the head's weights goes: to its place in the block, or to d_unit_head, from
 * which that of the raw rows is computed. */
static real *head_gradient(kvsi_pass *p, real *gradients)
{
    const kvs_model *m = p->model;

    if (!gradients || m->layout.head == KVSI_ABSENT ||
        !kvsi_pass_gradient(p, gradients, m->layout.head))
        return NULL;
    if (m->config.head != KVSI_HEAD_NORMALISED)
        return kvsi_pass_gradient(p, gradients, m->layout.head);
    p->context.ops->zero(&p->context, p->d_unit_head,
                         m->config.vocab * m->config.dim * sizeof(real));
    return p->d_unit_head;
}

static kvsi_loss count_loss(const kvsi_pass *p)
{
    kvsi_loss loss = {.rows = p->head_rows};

    for (size_t r = 0; r < p->head_rows; r++) {
        loss.sum += (double)p->host_losses[r];
        loss.scored += p->host_scored[r];
        loss.right += p->host_scored[r] && p->host_guesses[r] == p->host_targets[r];
    }
    return loss;
}

/* Computes losses, guesses and, with gradients, the backward pass of the head.  For a pass with
 * states, `many` makes the results independent of which other rows have a target. */
static void run_head(kvsi_pass *p, real *gradients)
{
    const kvs_model *m = p->model;
    kvsi_matrix w = kvsi_pass_head(p);
    kvsi_context *k = &p->context;
    const kvsi_head head = {
        .x = p->normed,
        .w = &w,
        .rows = p->rows,
        .targets = p->targets,
        .count = p->head_rows,
        .row_loss = p->losses,
        .row_guess = p->guesses,
        .n = p->tokens,
        .d_x = gradients ? p->d_normed : NULL,
        .d_w = head_gradient(p, gradients),
        .many = p->states[0] && kvsi_pass_has_many(p),
        .cap = (real)m->config.logit_cap,
    };

    w.packed = p->packed_head;
    prepare_head(p);
    k->ops->head_loss(k, &head);
    if (head.d_w && m->config.head == KVSI_HEAD_NORMALISED)
        k->ops->unit_rows_backward(k, kvsi_pass_gradient(p, gradients, m->layout.head),
                                   p->d_unit_head, m->matrices.head.data, m->config.vocab,
                                   m->config.dim);
}

/* Includes the backward pass of the head, so that logits only exist chunk by chunk; it leaves the
 * gradient of the final norm's output in d_normed. */
kvs_status kvsi_pass_loss(kvsi_pass *pass, real *gradients, kvsi_loss *loss, kvs_err *err)
{
    const kvs_model *m = pass->model;
    const int has_head = m->layout.head != KVSI_ABSENT;
    const size_t block = kvsi_block_of_head(&m->config);
    kvsi_context *k = &pass->context;

    if (has_head)
        kvsi_pass_need_params(pass, block);
    if (has_head && gradients)
        kvsi_pass_need_gradients(pass, block);
    run_head(pass, gradients);
    if (has_head && gradients && !m->config.tied) /* a tied head is completed by the embedding */
        kvsi_pass_gradients_ready(pass, block);
    k->ops->download(k, pass->host_losses, pass->losses, pass->head_rows * sizeof *pass->losses);
    k->ops->download(k, pass->host_guesses, pass->guesses, pass->head_rows * sizeof *pass->guesses);
    TRY(kvsi_sync(k, err));
    if (loss)
        *loss = count_loss(pass);
    return KVS_OK;
}

/* Logits of `count` rows of pass->normed, into scratch; returns the number of logits per row. */
static size_t head_logits(kvsi_pass *p, real *scratch, const int32_t *rows, size_t count)
{
    const kvsi_matrix w = kvsi_pass_head(p);
    kvsi_context *k = &p->context;

    prepare_head(p);
    k->ops->upload(k, p->rows, rows, count * sizeof *rows);
    k->ops->head_logits(k, scratch, p->normed, &w, p->rows, count,
                        (real)p->model->config.logit_cap);
    return w.rows;
}

void kvsi_pass_load_last(kvsi_pass *pass, kvsi_state *const *states, size_t count)
{
    const size_t dim = pass->model->config.dim;
    kvsi_context *k = &pass->context;

    for (size_t i = 0; i < count; i++)
        k->ops->copy(k, pass->normed + i * dim, states[i]->last, dim * sizeof *pass->normed);
}

kvs_status kvsi_pass_score(kvsi_pass *pass, const int32_t *rows, const int32_t *targets,
                           size_t count, int many, kvs_err *err)
{
    const kvsi_matrix w = kvsi_pass_head(pass);
    kvsi_context *k = &pass->context;
    const kvsi_head head = {
        .x = pass->normed,
        .w = &w,
        .rows = pass->rows,
        .targets = pass->targets,
        .count = count,
        .row_loss = pass->losses,
        .row_guess = pass->guesses,
        .n = pass->limits.tokens,
        .many = many,
        .cap = (real)pass->model->config.logit_cap,
    };

    prepare_head(pass);
    k->ops->upload(k, pass->rows, rows, count * sizeof *rows);
    k->ops->upload(k, pass->targets, targets, count * sizeof *targets);
    k->ops->head_loss(k, &head);
    k->ops->download(k, pass->host_losses, pass->losses, count * sizeof *pass->losses);
    k->ops->download(k, pass->host_guesses, pass->guesses, count * sizeof *pass->guesses);
    return kvsi_sync(k, err);
}

kvs_status kvsi_pass_top(kvsi_pass *pass, const int32_t *rows, size_t count, size_t top, int many,
                         kvs_err *err)
{
    const kvsi_matrix w = kvsi_pass_head(pass);
    kvsi_context *k = &pass->context;
    const kvsi_head_top head = {
        .x = pass->normed,
        .w = &w,
        .rows = pass->rows,
        .count = count,
        .n = pass->limits.tokens,
        .top = top,
        .ids = pass->top_ids,
        .logprobs = pass->top_logprobs,
        .many = many,
        .cap = (real)pass->model->config.logit_cap,
    };

    prepare_head(pass);
    k->ops->upload(k, pass->rows, rows, count * sizeof *rows);
    k->ops->head_top(k, &head);
    k->ops->download(k, pass->host_top_ids, pass->top_ids, count * top * sizeof *pass->top_ids);
    k->ops->download(k, pass->host_top_logprobs, pass->top_logprobs,
                     count * top * sizeof *pass->top_logprobs);
    return kvsi_sync(k, err);
}

kvs_status kvsi_pass_state_logits(kvsi_pass *pass, real *const *host_logits, real *scratch,
                                  kvsi_state *const *states, size_t count, kvs_err *err)
{
    kvsi_context *k = &pass->context;
    size_t logits;

    kvsi_pass_load_last(pass, states, count);
    for (size_t i = 0; i < count; i++)
        pass->host_rows[i] = (int32_t)i;
    logits = head_logits(pass, scratch, pass->host_rows, count);
    for (size_t i = 0; i < count; i++)
        k->ops->download(k, host_logits[i], scratch + i * logits, logits * sizeof *scratch);
    return kvsi_sync(k, err);
}

kvs_status kvsi_pass_logits(kvsi_pass *pass, real *host_logits, real *scratch, const int32_t *rows,
                            size_t count, kvs_err *err)
{
    const size_t logits = head_logits(pass, scratch, rows, count);
    kvsi_context *k = &pass->context;

    k->ops->download(k, host_logits, scratch, count * logits * sizeof *host_logits);
    return kvsi_sync(k, err);
}
