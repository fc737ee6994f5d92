/* Descriptions for the backend: norms, matrices, shifts and attention of a layer, dropout. */
#include "kernels/forms.h"
#include "model/pass.h"

#include <math.h>

/* Heads of the targets that have gates. */
size_t kvsi_gate_heads(const kvs_model_config *c, kvsi_layer_shape shape)
{
    const unsigned targets = kvsi_form_get(c->shift.form)->gated ? c->shift.targets : 0;

    return (targets & KVS_SHIFT_Q ? shape.heads : 0) +
           (targets & KVS_SHIFT_K ? shape.kv_heads : 0) +
           (targets & KVS_SHIFT_V ? shape.kv_heads : 0);
}

static const real *at_offset(const kvsi_pass *p, ptrdiff_t offset)
{
    return offset == KVSI_ABSENT ? NULL : kvsi_model_small(p->model, offset);
}

/* In files, gains are stored without their offset. */
static real gain_offset(const kvs_model_config *c)
{
    return c->gain_offset ? 1 : 0;
}

kvsi_norm kvsi_pass_norm(const kvsi_pass *pass, kvsi_norm_offsets at)
{
    const kvs_model_config *c = &pass->model->config;

    return (kvsi_norm){at_offset(pass, at.gain), at_offset(pass, at.bias), c->norm_eps,
                       gain_offset(c)};
}

kvsi_mlp kvsi_pass_mlp(const kvsi_pass *pass)
{
    const kvs_model_config *c = &pass->model->config;

    return (kvsi_mlp){.function = c->activation, .gated = !c->plain_mlp, .width = c->ffn};
}

const real *kvsi_pass_mlp_input(const kvsi_pass *pass, size_t layer)
{
    const kvsi_layer_memory *m = &pass->layers[layer];

    return pass->model->config.parallel == KVSI_PARALLEL_NONE ? m->middle : m->x;
}

kvsi_matrix kvsi_pass_head(const kvsi_pass *pass)
{
    const kvs_model_config *c = &pass->model->config;
    kvsi_matrix head = pass->model->matrices.head;

    if (c->head == KVSI_HEAD_NORMALISED)
        head.data = pass->unit_head;
    if (c->head == KVSI_HEAD_NONE)
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
                         .rows = kvsi_gate_heads(c, kvsi_layer_shape_of(c, layer)),
                         .cols = c->dim,
                         .data = at_offset(pass, kvsi_pass_gates_offset(pass, layer))};
}

void kvsi_pass_set_dropout(kvsi_pass *pass, int on, uint64_t seed, uint64_t number)
{
    pass->dropout_on = on;
    pass->dropout_seed = seed;
    pass->dropout_number = number;
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

/* The shift of a target with `heads` heads; *column counts the gates of the targets before it. */
static kvsi_shift shift_of(const kvsi_pass *p, size_t layer, unsigned target, ptrdiff_t offset,
                           size_t heads, real *gradients, size_t *column)
{
    const kvs_model_config *c = &p->model->config;
    kvsi_shift shift = {.form = c->shift.form, .window = c->shift.window};
    const real *taps;

    if (!(c->shift.targets & target))
        return (kvsi_shift){0};
    taps =
        p->sequences > 0 && p->states[0] ? kvsi_state_taps_of(p->states[0], layer, target) : NULL;
    if (taps) {
        shift.form = KVSI_SHIFT_CHANNEL;
        shift.parameters = taps;
        return shift;
    }
    shift.parameters = at_offset(p, offset);
    if (gradients && offset != KVSI_ABSENT)
        shift.gradient = kvsi_pass_gradient(p, gradients, offset);
    if (kvsi_form_get(c->shift.form)->gated) {
        shift.gate_stride = kvsi_gate_heads(c, kvsi_layer_shape_of(c, layer));
        shift.gates = p->layers[layer].gates + *column;
        shift.d_gates = gradients ? p->d_gates + *column : NULL;
        *column += heads;
    }
    return shift;
}

static real *gradient_at(const kvsi_pass *p, real *gradients, ptrdiff_t offset)
{
    return gradients && offset != KVSI_ABSENT ? kvsi_pass_gradient(p, gradients, offset) : NULL;
}

static kvsi_relative relative_of(const kvsi_pass *p, size_t layer, size_t extent, real *gradients)
{
    const kvsi_layer_offsets *at = &p->model->layout.layers[layer];

    return (kvsi_relative){
        .size = p->model->config.relative_size,
        .extent = extent,
        .rows = p->layers[layer].relative,
        .table = at_offset(p, at->relative_table),
        .d_rows = gradients ? p->d_relative : NULL,
        .d_table = gradient_at(p, gradients, at->relative_table),
    };
}

kvsi_attention kvsi_pass_attention(const kvsi_pass *pass, size_t layer, real *gradients)
{
    const kvs_model *m = pass->model;
    const kvsi_layer_offsets *at = &m->layout.layers[layer];
    const kvsi_layer_shape shape = kvsi_layer_shape_of(&m->config, layer);
    const kvsi_tables *tables = shape.sliding_window > 0 ? &m->sliding_tables : &m->tables;
    const double size = (double)shape.head_size, scale = m->config.score_scale;
    const int by_size = m->config.score_divisor == KVSI_SCORE_DIVISOR_SIZE;
    kvsi_attention a = {
        .heads = shape.heads,
        .kv_heads = shape.kv_heads,
        .head_size = shape.head_size,
        .scale = (real)(scale > 0 ? scale : 1.0 / (by_size ? size : sqrt(size))),
        .score_cap = (real)m->config.score_cap,
        .qk_norm = m->config.qk_norm,
        .q_gain = at_offset(pass, at->q_norm),
        .k_gain = at_offset(pass, at->k_norm),
        .norm_eps = m->config.norm_eps,
        .gain_offset = gain_offset(&m->config),
        .rotary = shape.rotary,
        .rotations = tables->rotations,
        .slopes = tables->slopes,
        .growth = tables->growth,
        .sliding_window = shape.sliding_window,
        .dropout = kvsi_pass_dropout(pass, m->config.dropout_attention, layer),
        .sequences = pass->sequences,
        .spans = pass->spans,
        .tokens = pass->tokens,
        .training = pass->limits.training,
    };
    size_t column = 0;

    if (shape.relative_extent > 0)
        a.relative = relative_of(pass, layer, shape.relative_extent, gradients);
    if (gradients && at->q_norm != KVSI_ABSENT) {
        a.d_q_gain = kvsi_pass_gradient(pass, gradients, at->q_norm);
        a.d_k_gain = kvsi_pass_gradient(pass, gradients, at->k_norm);
    }
    a.q_shift = shift_of(pass, layer, KVS_SHIFT_Q, at->q_shift, shape.heads, gradients, &column);
    a.k_shift = shift_of(pass, layer, KVS_SHIFT_K, at->k_shift, shape.kv_heads, gradients, &column);
    a.v_shift = shift_of(pass, layer, KVS_SHIFT_V, at->v_shift, shape.kv_heads, gradients, &column);
    return a;
}

/* Both offsets may be absent. */
static kvsi_filter filter_of(const kvsi_pass *p, ptrdiff_t taps, ptrdiff_t factor, kvsi_tail tail,
                             real *gradients)
{
    const kvs_model_config *c = &p->model->config;

    if (taps == KVSI_ABSENT)
        return (kvsi_filter){0};
    return (kvsi_filter){
        .width = c->dim,
        .window = c->filter_window,
        .parameters = at_offset(p, taps),
        .factor = at_offset(p, factor),
        .gradient = gradient_at(p, gradients, taps),
        .d_factor = gradient_at(p, gradients, factor),
        .tail = tail,
        .sequences = p->sequences,
        .spans = p->spans,
    };
}

kvsi_branch kvsi_pass_attention_branch(const kvsi_pass *pass, size_t layer, real *gradients)
{
    const kvsi_layer_offsets *at = &pass->model->layout.layers[layer];
    const kvsi_layer_memory *m = &pass->layers[layer];

    return (kvsi_branch){
        filter_of(pass, at->attention_filter, KVSI_ABSENT, KVSI_TAIL_ATTENTION, gradients),
        at->attention_out, m->attention_raw, m->attention_out, kvsi_site_attention(layer)};
}

kvsi_branch kvsi_pass_mlp_branch(const kvsi_pass *pass, size_t layer, real *gradients)
{
    const kvsi_layer_offsets *at = &pass->model->layout.layers[layer];
    const kvsi_layer_memory *m = &pass->layers[layer];

    return (kvsi_branch){filter_of(pass, at->mlp_filter, at->mlp_factor, KVSI_TAIL_MLP, gradients),
                         at->mlp_out, m->mlp_raw, m->mlp_out, kvsi_site_mlp(layer)};
}

void kvsi_pass_attach(kvsi_pass *pass, size_t layer)
{
    for (size_t s = 0; s < pass->sequences; s++)
        if (pass->states[s])
            kvsi_state_attach(&pass->spans[s], pass->states[s], layer);
}
