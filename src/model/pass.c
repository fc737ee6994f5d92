#include "model/pass.h"

#include "base/memory.h"

#include <math.h>
#include <string.h>

enum { ALIGNMENT = 64 };

/* A walk over the block: the first, without one, only measures; the second hands out the places. */
typedef struct walk {
    unsigned char *block;
    size_t at;
} walk;

static void *take(walk *w, size_t count, size_t size)
{
    void *place = w->block ? w->block + w->at : NULL;

    w->at += (count * size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return place;
}

static kvsi_limits backend_limits(const kvs_model_config *c, const kvsi_pass_limits *limits)
{
    return (kvsi_limits){
        .tokens = limits->tokens,
        .sequences = limits->sequences,
        .head_rows = limits->head_rows,
        .dim = c->dim,
        .heads = c->heads,
        .kv_heads = c->kv_heads,
        .head_size = c->dim / c->heads,
        .ffn = c->ffn,
        .vocab = c->vocab,
        .window = c->shift.window,
        .training = limits->training,
    };
}

static void lay_out_layer(kvsi_layer_memory *layer, const kvs_model_config *c, size_t n, walk *w)
{
    const size_t qkv = (c->heads + 2 * c->kv_heads) * (c->dim / c->heads);

    layer->x = take(w, n * c->dim, sizeof(real));
    layer->qkv = take(w, n * qkv, sizeof(real));
    layer->mixed = take(w, n * c->dim, sizeof(real));
    layer->logsum = take(w, n * c->heads, sizeof(real));
    layer->middle = take(w, n * c->dim, sizeof(real));
    layer->gate_up = take(w, n * 2 * c->ffn, sizeof(real));
}

static void lay_out_gradients(kvsi_pass *p, const kvs_model_config *c, size_t n, walk *w)
{
    const size_t qkv = (c->heads + 2 * c->kv_heads) * (c->dim / c->heads);

    p->d_x = take(w, n * c->dim, sizeof(real));
    p->d_normed = take(w, n * c->dim, sizeof(real));
    p->d_qkv = take(w, n * qkv, sizeof(real));
    p->d_mixed = take(w, n * c->dim, sizeof(real));
    p->d_gate_up = take(w, n * 2 * c->ffn, sizeof(real));
    p->d_hidden = take(w, n * c->ffn, sizeof(real));
}

/* The one description of the pass's memory.  `layers` may be scratch when only measuring. */
static size_t lay_out(kvsi_pass *p, kvsi_layer_memory *layers, unsigned char *block)
{
    const kvs_model_config *c = &p->model->config;
    const kvsi_limits limits = backend_limits(c, &p->limits);
    const size_t n = p->limits.tokens, rows = p->limits.head_rows;
    walk w = {block, 0};

    for (size_t l = 0; l < (p->limits.training ? c->layers : 1); l++)
        lay_out_layer(&layers[block ? l : 0], c, n, &w);
    for (size_t l = 1; block && !p->limits.training && l < c->layers; l++)
        layers[l] = layers[0];
    p->last = p->limits.training ? take(&w, n * c->dim, sizeof(real)) : layers[0].x;
    p->normed = take(&w, n * c->dim, sizeof(real));
    p->hidden = take(&w, n * c->ffn, sizeof(real));
    if (p->limits.training)
        lay_out_gradients(p, c, n, &w);
    p->ids = take(&w, n, sizeof *p->ids);
    p->rows = take(&w, rows, sizeof *p->rows);
    p->targets = take(&w, rows, sizeof *p->targets);
    p->guesses = take(&w, rows, sizeof *p->guesses);
    p->losses = take(&w, rows, sizeof *p->losses);
    p->context.workspace_bytes = p->context.ops->workspace_bytes(&limits, p->context.threads);
    p->context.workspace = take(&w, p->context.workspace_bytes, 1);
    return w.at;
}

size_t kvsi_pass_bytes(const kvs_model *model, const kvsi_pass_limits *limits)
{
    kvsi_pass measure = {.model = model, .context = model->context, .limits = *limits};
    kvsi_layer_memory scratch;

    return lay_out(&measure, &scratch, NULL);
}

kvs_status kvsi_pass_create(kvsi_pass **out, const kvs_model *model, const kvsi_pass_limits *limits,
                            kvs_err *err)
{
    const size_t bytes = kvsi_pass_bytes(model, limits), rows = limits->head_rows;
    kvsi_pass *p = kvsi_alloc(1, sizeof *p);

    *out = NULL;
    if (!p)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for a pass");
    *p = (kvsi_pass){.model = model, .context = model->context, .limits = *limits};
    p->block = model->context.ops->alloc(bytes);
    p->layers = kvsi_alloc(model->config.layers, sizeof *p->layers);
    p->spans = kvsi_alloc(limits->sequences, sizeof *p->spans);
    p->states = kvsi_alloc(limits->sequences, sizeof *p->states);
    p->host_rows = kvsi_alloc(rows, sizeof *p->host_rows);
    p->host_targets = kvsi_alloc(rows, sizeof *p->host_targets);
    p->host_guesses = kvsi_alloc(rows, sizeof *p->host_guesses);
    p->host_scored = kvsi_alloc(rows, sizeof *p->host_scored);
    p->host_losses = kvsi_alloc(rows, sizeof *p->host_losses);
    if (!p->block || !p->layers || !p->spans || !p->states || !p->host_rows || !p->host_targets ||
        !p->host_guesses || !p->host_scored || !p->host_losses) {
        kvsi_pass_free(p);
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory: a pass over %zu tokens needs %zu MiB",
                         limits->tokens, bytes >> 20);
    }
    lay_out(p, p->layers, p->block);
    *out = p;
    return KVS_OK;
}

void kvsi_pass_free(kvsi_pass *pass)
{
    if (!pass)
        return;
    pass->context.ops->release(pass->block);
    kvsi_free(pass->layers);
    kvsi_free(pass->spans);
    kvsi_free(pass->states);
    kvsi_free(pass->host_rows);
    kvsi_free(pass->host_targets);
    kvsi_free(pass->host_guesses);
    kvsi_free(pass->host_scored);
    kvsi_free(pass->host_losses);
    kvsi_free(pass);
}

/* ---- loading a batch ---- */

static kvs_status check_sequence(const kvsi_pass *p, const kvs_batch *b, size_t s,
                                 const kvsi_state *state, kvs_err *err)
{
    const size_t len = b->starts[s + 1] - b->starts[s], past = state ? state->length : 0;
    const size_t limit = state ? state->capacity : p->model->config.context;

    if (b->starts[s + 1] < b->starts[s])
        return kvsi_fail(err, KVS_E_INVALID, "sequence %zu ends at %zu, before its start %zu", s,
                         b->starts[s + 1], b->starts[s]);
    if (len > limit - past)
        return kvsi_fail(err, KVS_E_LIMIT, "sequence %zu would have %zu tokens, the context is %zu",
                         s, past + len, limit);
    return KVS_OK;
}

static kvs_status check_token(const kvsi_pass *p, const kvs_batch *b, size_t t, kvs_err *err)
{
    const size_t vocab = p->model->config.vocab;

    if (b->ids[t] < 0 || (size_t)b->ids[t] >= vocab)
        return kvsi_fail(err, KVS_E_INVALID, "token %zu is id %d, expected 0 to %zu", t,
                         (int)b->ids[t], vocab - 1);
    if (b->targets && (b->targets[t] < -1 || b->targets[t] >= (int32_t)vocab))
        return kvsi_fail(err, KVS_E_INVALID, "target %zu is %d, expected -1 to %zu", t,
                         (int)b->targets[t], vocab - 1);
    return KVS_OK;
}

static kvs_status check_batch(const kvsi_pass *p, const kvs_batch *b, kvsi_state *const *states,
                              kvs_err *err)
{
    kvs_status st = KVS_OK;
    size_t rows = 0;

    if (b->sequences > p->limits.sequences)
        return kvsi_fail(err, KVS_E_LIMIT, "a batch of %zu sequences, planned for %zu",
                         b->sequences, p->limits.sequences);
    for (size_t s = 0; s < b->sequences; s++)
        KVS_TRY(check_sequence(p, b, s, states ? states[s] : NULL, err));
    if (b->starts[b->sequences] - b->starts[0] > p->limits.tokens)
        return kvsi_fail(err, KVS_E_LIMIT, "a batch of %zu tokens, planned for %zu",
                         b->starts[b->sequences] - b->starts[0], p->limits.tokens);
    for (size_t t = b->starts[0]; t < b->starts[b->sequences]; t++) {
        KVS_TRY(check_token(p, b, t, err));
        rows += b->targets && b->targets[t] >= 0;
    }
    if (rows > p->limits.head_rows)
        return kvsi_fail(err, KVS_E_LIMIT, "a batch with %zu targets, planned for %zu", rows,
                         p->limits.head_rows);
out:
    return st;
}

/* The rows that have a target, in order. */
static void gather_targets(kvsi_pass *p, const kvs_batch *b)
{
    const size_t first = b->starts[0];

    p->head_rows = 0;
    for (size_t t = 0; b->targets && t < p->tokens; t++)
        if (b->targets[first + t] >= 0) {
            p->host_rows[p->head_rows] = (int32_t)t;
            p->host_targets[p->head_rows] = b->targets[first + t];
            p->host_scored[p->head_rows++] = b->scored && b->scored[first + t];
        }
}

kvs_status kvsi_pass_load(kvsi_pass *pass, const kvs_batch *batch, kvsi_state *const *states,
                          kvs_err *err)
{
    kvsi_context *c = &pass->context;
    const size_t first = batch->starts[0]; /* a part of a larger batch need not start at row 0 */
    const kvs_status st = check_batch(pass, batch, states, err);

    if (st != KVS_OK)
        return st;
    pass->sequences = batch->sequences;
    pass->tokens = batch->starts[batch->sequences] - first;
    for (size_t s = 0; s < batch->sequences; s++) {
        pass->spans[s] = (kvsi_span){.start = batch->starts[s] - first,
                                     .len = batch->starts[s + 1] - batch->starts[s]};
        pass->states[s] = states ? states[s] : NULL;
    }
    gather_targets(pass, batch);
    c->ops->upload(c, pass->ids, batch->ids + first, pass->tokens * sizeof *pass->ids);
    c->ops->upload(c, pass->rows, pass->host_rows, pass->head_rows * sizeof *pass->rows);
    c->ops->upload(c, pass->targets, pass->host_targets, pass->head_rows * sizeof *pass->targets);
    return KVS_OK;
}

/* ---- descriptions for the backend ---- */

kvsi_matrix kvsi_pass_matrix(const kvsi_pass *pass, size_t offset, size_t rows, size_t cols)
{
    return (kvsi_matrix){KVSI_ELEMENT_REAL, rows, cols, pass->model->parameters + offset};
}

static kvsi_shift shift_of(const kvsi_pass *p, unsigned target, size_t offset, real *gradients)
{
    const kvs_shift_config *shift = &p->model->config.shift;

    if (!(shift->targets & target))
        return (kvsi_shift){0};
    return (kvsi_shift){shift->form, shift->window, p->model->parameters + offset,
                        gradients ? gradients + offset : NULL};
}

kvsi_attention kvsi_pass_attention(kvsi_pass *pass, size_t layer, real *gradients)
{
    const kvs_model_config *c = &pass->model->config;
    const kvsi_layer_offsets *at = &pass->model->layout.layers[layer];
    const size_t head_size = c->dim / c->heads;

    for (size_t s = 0; s < pass->sequences; s++)
        if (pass->states[s])
            kvsi_state_attach(&pass->spans[s], pass->states[s], layer);
    return (kvsi_attention){
        .heads = c->heads,
        .kv_heads = c->kv_heads,
        .head_size = head_size,
        .scale = (real)(1.0 / sqrt((double)head_size)),
        .q_shift = shift_of(pass, KVS_SHIFT_Q, at->q_shift, gradients),
        .k_shift = shift_of(pass, KVS_SHIFT_K, at->k_shift, gradients),
        .v_shift = shift_of(pass, KVS_SHIFT_V, at->v_shift, gradients),
        .rotations = pass->model->rotations,
        .sequences = pass->sequences,
        .spans = pass->spans,
        .tokens = pass->tokens,
    };
}
