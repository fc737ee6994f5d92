#include "model/pass.h"

#include "base/memory.h"
#include "kernels/forms.h"

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

/* ---- memory ---- */

static size_t larger(size_t x, size_t y)
{
    return x > y ? x : y;
}

/* The largest layer in every respect. */
static kvsi_layer_shape largest_layer(const kvs_model_config *c)
{
    kvsi_layer_shape most = {0};

    for (size_t l = 0; l < c->layers; l++) {
        const kvsi_layer_shape shape = kvsi_layer_shape_of(c, l);

        most.heads = larger(most.heads, shape.heads);
        most.kv_heads = larger(most.kv_heads, shape.kv_heads);
        most.head_size = larger(most.head_size, shape.head_size);
        most.qkv_width = larger(most.qkv_width, shape.qkv_width);
    }
    return most;
}

/* Heads of the targets that have gates. */
static size_t gate_heads(const kvs_model_config *c, kvsi_layer_shape shape)
{
    const unsigned targets = kvsi_form_get(c->shift.form)->gated ? c->shift.targets : 0;

    return (targets & KVS_SHIFT_Q ? shape.heads : 0) +
           (targets & KVS_SHIFT_K ? shape.kv_heads : 0) +
           (targets & KVS_SHIFT_V ? shape.kv_heads : 0);
}

size_t kvsi_pass_logit_count(const kvs_model_config *config)
{
    return config->head == KVS_HEAD_NONE ? config->dim : config->vocab;
}

size_t kvs_model_logit_count(const kvs_model *model)
{
    return kvsi_pass_logit_count(&model->config);
}

static size_t up_width(const kvs_model_config *c)
{
    return c->no_mlp ? 0 : c->body == KVS_BODY_GPT2 ? c->ffn : 2 * c->ffn;
}

static kvsi_limits backend_limits(const kvs_model_config *c, const kvsi_pass_limits *limits)
{
    const kvsi_layer_shape most = largest_layer(c);

    return (kvsi_limits){
        .tokens = limits->tokens,
        .sequences = limits->sequences,
        .head_rows = limits->head_rows,
        .dim = c->dim,
        .heads = most.heads,
        .kv_heads = most.kv_heads,
        .head_size = most.head_size,
        .ffn = c->ffn,
        .vocab = kvsi_pass_logit_count(c),
        .shift_numbers = kvsi_form_get(c->shift.form)->numbers(c->shift.window, most.head_size),
        .training = limits->training,
    };
}

/* All of a layer's memory but x. */
static void lay_out_layer(kvsi_layer_memory *layer, const kvs_model_config *c, size_t n, walk *w)
{
    const kvsi_layer_shape most = largest_layer(c);

    layer->qkv = take(w, n * most.qkv_width, sizeof(real));
    layer->gates = take(w, n * gate_heads(c, most), sizeof(real));
    layer->mixed = take(w, n * c->dim, sizeof(real));
    layer->logsum = take(w, n * most.heads, sizeof(real));
    layer->middle = take(w, n * c->dim, sizeof(real));
    layer->up = take(w, n * up_width(c), sizeof(real));
}

/* What training needs again in the backward pass is each layer's own; the rest they share. */
static void lay_out_layers(const kvsi_pass *p, kvsi_layer_memory *layers, walk *w)
{
    const kvs_model_config *c = &p->model->config;
    const int keeps = p->limits.training && !p->limits.recompute;

    for (size_t l = 0; l < c->layers; l++) {
        kvsi_layer_memory *layer = &layers[w->block ? l : 0];

        if (l == 0 || keeps)
            lay_out_layer(layer, c, p->limits.tokens, w);
        else
            *layer = layers[0];
        if (l == 0 || p->limits.training)
            layer->x = take(w, p->limits.tokens * c->dim, sizeof(real));
    }
}

static void lay_out_gradients(kvsi_pass *p, const kvs_model_config *c, size_t n, walk *w)
{
    const kvsi_layer_shape most = largest_layer(c);

    p->d_x = take(w, n * c->dim, sizeof(real));
    p->d_normed = take(w, n * c->dim, sizeof(real));
    p->d_qkv = take(w, n * most.qkv_width, sizeof(real));
    p->d_gates = take(w, n * gate_heads(c, most), sizeof(real));
    p->d_mixed = take(w, n * c->dim, sizeof(real));
    p->d_up = take(w, n * up_width(c), sizeof(real));
    p->d_hidden = take(w, n * c->ffn, sizeof(real));
    p->d_branch = take(w, c->dropout_residual > 0 ? n * c->dim : 0, sizeof(real));
    p->d_unit_head = take(w, c->head == KVS_HEAD_NORMALISED ? c->vocab * c->dim : 0, sizeof(real));
}

/* The one description of the pass's memory.  `layers` may be scratch when only measuring. */
static size_t lay_out(kvsi_pass *p, kvsi_layer_memory *layers, unsigned char *block)
{
    const kvs_model_config *c = &p->model->config;
    const kvsi_limits limits = backend_limits(c, &p->limits);
    const size_t n = p->limits.tokens, rows = p->limits.head_rows;
    walk w = {block, 0};

    lay_out_layers(p, layers, &w);
    p->last = p->limits.training ? take(&w, n * c->dim, sizeof(real)) : layers[0].x;
    p->normed = take(&w, n * c->dim, sizeof(real));
    p->hidden = take(&w, n * c->ffn, sizeof(real));
    p->branch = take(&w, c->dropout_residual > 0 ? n * c->dim : 0, sizeof(real));
    p->unit_head = take(&w, c->head == KVS_HEAD_NORMALISED ? c->vocab * c->dim : 0, sizeof(real));
    if (p->limits.training)
        lay_out_gradients(p, c, n, &w);
    p->ids = take(&w, n, sizeof *p->ids);
    p->positions = take(&w, n, sizeof *p->positions);
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
    kvsi_layer_memory scratch = {0};

    return lay_out(&measure, &scratch, NULL);
}

kvs_status kvsi_pass_create(kvsi_pass **out, const kvs_model *model, const kvsi_pass_limits *limits,
                            kvs_err *err)
{
    const size_t bytes = kvsi_pass_bytes(model, limits), rows = limits->head_rows;
    const kvs_status st = limits->training ? kvsi_model_must_own(model, "trained", err)
                                           : kvsi_model_must_be_whole(model, err);
    kvsi_pass *p;

    *out = NULL;
    if (st != KVS_OK)
        return st;
    p = kvsi_alloc(1, sizeof *p);
    if (!p)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for a pass");
    *p = (kvsi_pass){.model = model, .context = model->context, .limits = *limits};
    p->block = model->context.ops->alloc(&model->context, bytes);
    p->layers = kvsi_alloc(model->config.layers, sizeof *p->layers);
    p->spans = kvsi_alloc(limits->sequences, sizeof *p->spans);
    p->states = kvsi_alloc(limits->sequences, sizeof *p->states);
    p->host_positions = kvsi_alloc(limits->tokens, sizeof *p->host_positions);
    p->host_rows = kvsi_alloc(rows, sizeof *p->host_rows);
    p->host_targets = kvsi_alloc(rows, sizeof *p->host_targets);
    p->host_guesses = kvsi_alloc(rows, sizeof *p->host_guesses);
    p->host_scored = kvsi_alloc(rows, sizeof *p->host_scored);
    p->host_losses = kvsi_alloc(rows, sizeof *p->host_losses);
    if (!p->block || !p->layers || !p->spans || !p->states || !p->host_positions || !p->host_rows ||
        !p->host_targets || !p->host_guesses || !p->host_scored || !p->host_losses) {
        kvsi_pass_free(p);
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory: a pass over %zu tokens needs %zu MiB",
                         limits->tokens, bytes >> 20);
    }
    lay_out(p, p->layers, p->block);
    if (model->weights)
        kvsi_weights_read_ahead(model->weights);
    *out = p;
    return KVS_OK;
}

void kvsi_pass_free(kvsi_pass *pass)
{
    if (!pass)
        return;
    pass->context.ops->release(&pass->context, pass->block);
    kvsi_free(pass->layers);
    kvsi_free(pass->spans);
    kvsi_free(pass->states);
    kvsi_free(pass->host_positions);
    kvsi_free(pass->host_rows);
    kvsi_free(pass->host_targets);
    kvsi_free(pass->host_guesses);
    kvsi_free(pass->host_scored);
    kvsi_free(pass->host_losses);
    kvsi_free(pass);
}

void kvsi_pass_set_dropout(kvsi_pass *pass, int on, uint64_t seed, uint64_t number)
{
    pass->dropout_on = on;
    pass->dropout_seed = seed;
    pass->dropout_number = number;
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
    if (state && len > kvsi_state_chunk(state))
        return kvsi_fail(err, KVS_E_LIMIT, "sequence %zu: a chunk of %zu tokens, at most %zu", s,
                         len, kvsi_state_chunk(state));
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
    size_t rows = 0;

    if (b->sequences > p->limits.sequences)
        return kvsi_fail(err, KVS_E_LIMIT, "a batch of %zu sequences, planned for %zu",
                         b->sequences, p->limits.sequences);
    for (size_t s = 0; s < b->sequences; s++)
        TRY(check_sequence(p, b, s, states ? states[s] : NULL, err));
    if (b->starts[b->sequences] - b->starts[0] > p->limits.tokens)
        return kvsi_fail(err, KVS_E_LIMIT, "a batch of %zu tokens, planned for %zu",
                         b->starts[b->sequences] - b->starts[0], p->limits.tokens);
    for (size_t t = b->starts[0]; t < b->starts[b->sequences]; t++) {
        TRY(check_token(p, b, t, err));
        rows += b->targets && b->targets[t] >= 0;
    }
    if (rows > p->limits.head_rows)
        return kvsi_fail(err, KVS_E_LIMIT, "a batch with %zu targets, planned for %zu", rows,
                         p->limits.head_rows);
    return KVS_OK;
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

static void load_spans(kvsi_pass *p, const kvs_batch *b, kvsi_state *const *states)
{
    const size_t first = b->starts[0]; /* a part of a larger batch need not start at row 0 */

    for (size_t s = 0; s < b->sequences; s++) {
        const size_t start = b->starts[s] - first, len = b->starts[s + 1] - b->starts[s];
        const size_t past = states ? states[s]->length : 0;

        p->spans[s] = (kvsi_span){.start = start, .len = len, .halves = p->limits.halves};
        p->states[s] = states ? states[s] : NULL;
        if (states)
            kvsi_state_make_room(states[s], len);
        for (size_t t = 0; t < len; t++)
            p->host_positions[start + t] = (int32_t)(past + t);
    }
}

kvs_status kvsi_pass_load(kvsi_pass *pass, const kvs_batch *batch, kvsi_state *const *states,
                          kvs_err *err)
{
    kvsi_context *c = &pass->context;
    const kvsi_ops *op = c->ops;

    TRY(check_batch(pass, batch, states, err));
    pass->sequences = batch->sequences;
    pass->tokens = batch->starts[batch->sequences] - batch->starts[0];
    load_spans(pass, batch, states);
    gather_targets(pass, batch);
    op->upload(c, pass->ids, batch->ids + batch->starts[0], pass->tokens * sizeof *pass->ids);
    op->upload(c, pass->positions, pass->host_positions, pass->tokens * sizeof *pass->positions);
    op->upload(c, pass->rows, pass->host_rows, pass->head_rows * sizeof *pass->rows);
    op->upload(c, pass->targets, pass->host_targets, pass->head_rows * sizeof *pass->targets);
    return KVS_OK;
}

/* ---- descriptions for the backend ---- */

static const real *at_offset(const kvsi_pass *p, ptrdiff_t offset)
{
    return offset == KVSI_ABSENT ? NULL : kvsi_model_small(p->model, offset);
}

kvsi_norm kvsi_pass_norm(const kvsi_pass *pass, ptrdiff_t gain, ptrdiff_t bias)
{
    return (kvsi_norm){at_offset(pass, gain), at_offset(pass, bias), pass->model->config.norm_eps};
}

kvsi_matrix kvsi_pass_head(const kvsi_pass *pass)
{
    const kvs_model_config *c = &pass->model->config;
    kvsi_matrix head = pass->model->matrices.head;

    if (c->head == KVS_HEAD_NORMALISED)
        head.data = pass->unit_head;
    if (c->head == KVS_HEAD_NONE)
        head.rows = head.cols = c->dim;
    return head;
}

ptrdiff_t kvsi_pass_gates_offset(const kvsi_pass *pass, size_t layer)
{
    const kvsi_layer_offsets *at = &pass->model->layout.layers[layer];

    return at->q_shift != KVSI_ABSENT   ? at->q_shift
           : at->k_shift != KVSI_ABSENT ? at->k_shift
                                        : at->v_shift;
}

kvsi_matrix kvsi_pass_gates(const kvsi_pass *pass, size_t layer)
{
    const kvs_model_config *c = &pass->model->config;

    return (kvsi_matrix){.type = KVSI_REAL_TYPE,
                         .rows = gate_heads(c, kvsi_layer_shape_of(c, layer)),
                         .cols = c->dim,
                         .data = at_offset(pass, kvsi_pass_gates_offset(pass, layer))};
}

kvsi_dropout kvsi_pass_dropout(const kvsi_pass *pass, double rate, size_t site)
{
    return (kvsi_dropout){pass->dropout_on ? rate : 0.0, pass->dropout_seed,
                          pass->dropout_number * KVSI_DROPOUT_SITES + site};
}

void kvsi_pass_drop(kvsi_pass *pass, real *x, const kvsi_dropout *first)
{
    const size_t dim = pass->model->config.dim;
    kvsi_dropout drop = *first;

    for (size_t s = 0; s < pass->sequences; s++, drop.index += KVSI_DROPOUT_SITES)
        pass->context.ops->dropout(&pass->context, x + pass->spans[s].start * dim,
                                   pass->spans[s].len * dim, &drop);
}

/* Of a target with `heads` heads; *column counts the gates of the targets before it. */
static kvsi_shift shift_of(const kvsi_pass *p, size_t layer, unsigned target, ptrdiff_t offset,
                           size_t heads, real *gradients, size_t *column)
{
    const kvs_model_config *c = &p->model->config;
    kvsi_shift shift = {.form = c->shift.form, .window = c->shift.window};

    if (!(c->shift.targets & target))
        return (kvsi_shift){0};
    shift.parameters = at_offset(p, offset);
    if (gradients && offset != KVSI_ABSENT)
        shift.gradient = kvsi_pass_gradient(p, gradients, offset);
    if (kvsi_form_get(c->shift.form)->gated) {
        shift.gate_stride = gate_heads(c, kvsi_layer_shape_of(c, layer));
        shift.gates = p->layers[layer].gates + *column;
        shift.d_gates = gradients ? p->d_gates + *column : NULL;
        *column += heads;
    }
    return shift;
}

kvsi_attention kvsi_pass_attention(kvsi_pass *pass, size_t layer, real *gradients)
{
    const kvs_model *m = pass->model;
    const kvsi_layer_offsets *at = &m->layout.layers[layer];
    const kvsi_layer_shape shape = kvsi_layer_shape_of(&m->config, layer);
    const kvsi_tables *tables = shape.sliding_window > 0 ? &m->sliding_tables : &m->tables;
    const double scale = m->config.score_scale;
    kvsi_attention a = {
        .heads = shape.heads,
        .kv_heads = shape.kv_heads,
        .head_size = shape.head_size,
        .scale = (real)(scale > 0 ? scale : 1.0 / sqrt((double)shape.head_size)),
        .rotary = shape.rotary,
        .rotations = tables->rotations,
        .slopes = tables->slopes,
        .sliding_window = shape.sliding_window,
        .dropout = kvsi_pass_dropout(pass, m->config.dropout_attention, layer),
        .sequences = pass->sequences,
        .spans = pass->spans,
        .tokens = pass->tokens,
    };
    size_t column = 0;

    a.q_shift = shift_of(pass, layer, KVS_SHIFT_Q, at->q_shift, shape.heads, gradients, &column);
    a.k_shift = shift_of(pass, layer, KVS_SHIFT_K, at->k_shift, shape.kv_heads, gradients, &column);
    a.v_shift = shift_of(pass, layer, KVS_SHIFT_V, at->v_shift, shape.kv_heads, gradients, &column);
    for (size_t s = 0; s < pass->sequences; s++)
        if (pass->states[s])
            kvsi_state_attach(&pass->spans[s], pass->states[s], layer);
    return a;
}
