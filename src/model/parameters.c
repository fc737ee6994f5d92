#include "model/parameters.h"

#include "base/memory.h"
#include "kernels/forms.h"
#include "model/layer.h"

#include <stdio.h>
#include <string.h>

enum { PER_LAYER_MAX = 40, OUTSIDE_LAYERS = 7 };

/* ---- the list ---- */

kvsi_group kvsi_group_of(kvsi_role role)
{
    switch (role) {
    case KVSI_GAIN:
    case KVSI_BIAS:
    case KVSI_RELATIVE_TABLE:
    case KVSI_FACTOR:
        return KVSI_GAINS;
    case KVSI_TAPS:
    case KVSI_GATE:
    case KVSI_FILTER:
        return KVSI_SHIFTS;
    default:
        return KVSI_MATRICES;
    }
}

/* Names of one body; a layer's parts follow its prefix. */
typedef struct names {
    const char *embed, *embed_norm, *positions, *final_norm; /* norms without .weight and .bias */
    const char *layer;                                       /* with the layer's number */
    const char *attention;
} names;

static const names llama_names = {
    "model.embed_tokens.weight", "model.embed_norm", "model.embed_positions.weight", "model.norm",
    "model.layers.%zu.",         "self_attn.",
};

static const names gpt2_names = {
    "transformer.wte.weight", NULL,    "transformer.wpe.weight", "transformer.ln_f",
    "transformer.h.%zu.",     "attn.",
};

static const names *names_of(const kvs_model_config *c)
{
    return c->body == KVSI_BODY_GPT2 ? &gpt2_names : &llama_names;
}

/* Appends a tensor of up to three dimensions; 0 ends the shape. */
static ptrdiff_t add(kvsi_layout *layout, kvsi_role role, size_t a, size_t b, size_t c,
                     const char *name)
{
    kvsi_parameter *p = &layout->list[layout->count];
    const size_t shape[] = {a, b, c};

    snprintf(p->name, sizeof p->name, "%s", name);
    p->role = role;
    p->count = 1;
    for (p->rank = 0; p->rank < KVSI_PARAMETER_RANK_MAX && shape[p->rank] > 0; p->rank++) {
        p->shape[p->rank] = shape[p->rank];
        p->count *= shape[p->rank];
    }
    return (ptrdiff_t)layout->count++; /* an index; becomes an offset when all tensors are placed */
}

/* The list under construction: the current layer and its names. */
typedef struct listing {
    kvsi_layout *layout;
    const kvs_model_config *config;
    const names *names;
    size_t layer;
    kvsi_layer_shape shape;
} listing;

static ptrdiff_t add_part(const listing *l, kvsi_role role, size_t a, size_t b, size_t c,
                          const char *folder, const char *part)
{
    char prefix[KVSI_NAME_SIZE / 2], name[KVSI_NAME_SIZE];
    ptrdiff_t index;

    snprintf(prefix, sizeof prefix, l->names->layer, l->layer);
    snprintf(name, sizeof name, "%s%s%s", prefix, folder, part);
    index = add(l->layout, role, a, b, c, name);
    l->layout->list[index].layer = l->layer;
    return index;
}

/* A matrix that maps `in` to `out`, stored input x output. */
static ptrdiff_t add_transposed(const listing *l, kvsi_role role, size_t in, size_t out,
                                const char *folder, const char *part)
{
    const ptrdiff_t index = add_part(l, role, in, out, 0, folder, part);

    l->layout->list[index].transposed = 1;
    return index;
}

static ptrdiff_t add_shift(const listing *l, unsigned target, const char *part)
{
    const kvsi_shift_config *shift = &l->config->shift;
    const kvsi_form *form = kvsi_form_get(shift->form);
    const size_t heads = kvsi_target_heads(&l->shape, target);
    const size_t values = form->params(shift->window, l->shape.head_size);
    const char *folder = l->names->attention;

    if (!(shift->targets & target) || (values == 0 && !form->gated))
        return KVSI_ABSENT;
    if (form->gated)
        return add_part(l, KVSI_GATE, heads, l->config->dim, 0, folder, part);
    if (form->per_channel)
        return add_part(l, KVSI_TAPS, heads, l->shape.head_size, shift->window + 1, folder, part);
    return add_part(l, KVSI_TAPS, heads, values > 1 ? values : 0, 0, folder, part);
}

static void add_shifts(const listing *l, kvsi_layer_offsets *at)
{
    at->q_shift = add_shift(l, KVS_SHIFT_Q, "q_shift");
    at->k_shift = add_shift(l, KVS_SHIFT_K, "k_shift");
    at->v_shift = add_shift(l, KVS_SHIFT_V, "v_shift");
}

/* A filter of rows of the model's width. */
static ptrdiff_t add_filter(const listing *l, unsigned site, const char *folder)
{
    const kvs_model_config *c = l->config;

    if (!(c->filters & site))
        return KVSI_ABSENT;
    return add_part(l, KVSI_FILTER, c->dim, c->filter_window + 1, 0, folder, "filter");
}

/* The gains of the norm of q or k, with which heads have one tensor together or one each. */
static ptrdiff_t add_qk_norm(const listing *l, const char *target, size_t heads)
{
    const kvsi_qk_norm kind = l->config->qk_norm;
    const size_t d = l->shape.head_size;
    ptrdiff_t first = KVSI_ABSENT;
    char part[KVSI_NAME_SIZE / 2];

    if (kind == KVSI_QK_NORM_HEAD || kind == KVSI_QK_NORM_FULL) {
        snprintf(part, sizeof part, "%s_norm.weight", target);
        return add_part(l, KVSI_GAIN, kind == KVSI_QK_NORM_FULL ? heads * d : d, 0, 0, "self_attn.",
                        part);
    }
    for (size_t h = 0; kind == KVSI_QK_NORM_LAYER && h < heads; h++) {
        snprintf(part, sizeof part, "%s_layernorm.norms.%zu.weight", target, h);
        if (h == 0)
            first = add_part(l, KVSI_GAIN, d, 0, 0, "self_attn.", part);
        else
            add_part(l, KVSI_GAIN, d, 0, 0, "self_attn.", part);
    }
    return first;
}

/* A norm of the layer, of the model's kind; absent in a body without norms. */
static kvsi_norm_offsets add_norm(const listing *l, const char *name)
{
    const kvs_model_config *c = l->config;
    kvsi_norm_offsets norm = {KVSI_ABSENT, KVSI_ABSENT};

    if (!c->no_norm)
        norm.gain = add_part(l, KVSI_GAIN, c->dim, 0, 0, name, ".weight");
    if (!c->no_norm && c->norm_kind == KVSI_NORM_LAYER)
        norm.bias = add_part(l, KVSI_BIAS, c->dim, 0, 0, name, ".bias");
    return norm;
}

/* Names as Hugging Face's Llama, OLMo2 and Gemma have them: the norm after attention is called
 * post_attention_layernorm, and so is the one before the MLP unless there is a norm after
 * attention. */
static void list_llama_layer(const listing *l, kvsi_layer_offsets *at)
{
    const kvs_model_config *c = l->config;
    const size_t q_dim = l->shape.q_width, kv_dim = l->shape.kv_heads * l->shape.head_size;
    const int before = c->norm_place != KVSI_NORM_AFTER, after = c->norm_place != KVSI_NORM_BEFORE;

    if (before)
        at->attention_in = add_norm(l, "input_layernorm");
    at->qkv = add_part(l, KVSI_PROJECTION, q_dim, c->dim, 0, "self_attn.", "q_proj.weight");
    add_part(l, KVSI_PROJECTION, kv_dim, c->dim, 0, "self_attn.", "k_proj.weight");
    add_part(l, KVSI_PROJECTION, kv_dim, c->dim, 0, "self_attn.", "v_proj.weight");
    if (c->qkv_bias) {
        at->qkv_bias = add_part(l, KVSI_BIAS, q_dim, 0, 0, "self_attn.", "q_proj.bias");
        add_part(l, KVSI_BIAS, kv_dim, 0, 0, "self_attn.", "k_proj.bias");
        add_part(l, KVSI_BIAS, kv_dim, 0, 0, "self_attn.", "v_proj.bias");
    }
    at->o = add_part(l, KVSI_OUTPUT, c->dim, q_dim, 0, "self_attn.", "o_proj.weight");
    if (c->o_bias)
        at->o_bias = add_part(l, KVSI_BIAS, c->dim, 0, 0, "self_attn.", "o_proj.bias");
    at->q_norm = add_qk_norm(l, "q", l->shape.heads);
    at->k_norm = add_qk_norm(l, "k", l->shape.kv_heads);
    add_shifts(l, at);
    if (l->shape.relative_extent > 0) {
        at->relative = add_part(l, KVSI_RELATIVE, l->shape.heads * c->relative_size, c->dim, 0,
                                "self_attn.", "r_proj.weight");
        at->relative_table = add_part(l, KVSI_RELATIVE_TABLE, c->relative_size,
                                      l->shape.relative_extent, 0, "self_attn.", "r_table");
    }
    at->attention_filter = add_filter(l, KVSI_FILTER_ATTENTION, "self_attn.");
    if (after)
        at->attention_out = add_norm(l, "post_attention_layernorm");
    if (c->no_mlp)
        return;
    if (c->parallel == KVSI_PARALLEL_SHARED)
        at->mlp_in = at->attention_in;
    else if (before)
        at->mlp_in = add_norm(l, after ? "pre_feedforward_layernorm" : "post_attention_layernorm");
    at->up = add_part(l, KVSI_UP, c->ffn, c->dim, 0, "mlp.",
                      c->plain_mlp ? "up_proj.weight" : "gate_proj.weight");
    if (!c->plain_mlp)
        add_part(l, KVSI_UP, c->ffn, c->dim, 0, "mlp.", "up_proj.weight");
    if (c->mlp_bias) {
        at->up_bias = add_part(l, KVSI_BIAS, c->ffn, 0, 0, "mlp.",
                               c->plain_mlp ? "up_proj.bias" : "gate_proj.bias");
        if (!c->plain_mlp)
            add_part(l, KVSI_BIAS, c->ffn, 0, 0, "mlp.", "up_proj.bias");
    }
    at->down = add_part(l, KVSI_DOWN, c->dim, c->ffn, 0, "mlp.", "down_proj.weight");
    if (c->mlp_bias)
        at->down_bias = add_part(l, KVSI_BIAS, c->dim, 0, 0, "mlp.", "down_proj.bias");
    at->mlp_filter = add_filter(l, KVSI_FILTER_MLP, "mlp.");
    if (c->mlp_factor)
        at->mlp_factor = add_part(l, KVSI_FACTOR, 1, 0, 0, "mlp.", "factor");
    if (after)
        at->mlp_out = add_norm(l, "post_feedforward_layernorm");
}

static void list_gpt2_layer(const listing *l, kvsi_layer_offsets *at)
{
    const kvs_model_config *c = l->config;
    const size_t width = l->shape.qkv_width;

    at->attention_in = add_norm(l, "ln_1");
    at->qkv = add_transposed(l, KVSI_PROJECTION, c->dim, width, "attn.", "c_attn.weight");
    at->qkv_bias = add_part(l, KVSI_BIAS, width, 0, 0, "attn.", "c_attn.bias");
    at->o = add_transposed(l, KVSI_OUTPUT, l->shape.q_width, c->dim, "attn.", "c_proj.weight");
    at->o_bias = add_part(l, KVSI_BIAS, c->dim, 0, 0, "attn.", "c_proj.bias");
    add_shifts(l, at);
    if (c->no_mlp)
        return;
    at->mlp_in = add_norm(l, "ln_2");
    at->up = add_transposed(l, KVSI_UP, c->dim, c->ffn, "mlp.", "c_fc.weight");
    at->up_bias = add_part(l, KVSI_BIAS, c->ffn, 0, 0, "mlp.", "c_fc.bias");
    at->down = add_transposed(l, KVSI_DOWN, c->ffn, c->dim, "mlp.", "c_proj.weight");
    at->down_bias = add_part(l, KVSI_BIAS, c->dim, 0, 0, "mlp.", "c_proj.bias");
}

static void list_layer(kvsi_layout *layout, const kvs_model_config *c, size_t layer)
{
    kvsi_layer_offsets *at = &layout->layers[layer];
    const listing l = {layout, c, names_of(c), layer, kvsi_layer_shape_of(c, layer)};

    memset(at, 0xff, sizeof *at); /* KVSI_ABSENT in every field */
    if (c->body == KVSI_BODY_GPT2)
        list_gpt2_layer(&l, at);
    else
        list_llama_layer(&l, at);
}

/* A norm outside the layers, of the model's kind. */
static kvsi_norm_offsets add_outer_norm(kvsi_layout *layout, const kvs_model_config *c,
                                        const char *name)
{
    kvsi_norm_offsets norm = {KVSI_ABSENT, KVSI_ABSENT};
    char whole[KVSI_NAME_SIZE];

    snprintf(whole, sizeof whole, "%s.weight", name);
    norm.gain = add(layout, KVSI_GAIN, c->dim, 0, 0, whole);
    snprintf(whole, sizeof whole, "%s.bias", name);
    if (c->norm_kind == KVSI_NORM_LAYER)
        norm.bias = add(layout, KVSI_BIAS, c->dim, 0, 0, whole);
    return norm;
}

static void list_all(kvsi_layout *layout, const kvs_model_config *c)
{
    const names *n = names_of(c);

    layout->positions = KVSI_ABSENT;
    layout->embed_norm = layout->final_norm = (kvsi_norm_offsets){KVSI_ABSENT, KVSI_ABSENT};
    layout->embed = add(layout, KVSI_EMBEDDING, c->vocab, c->dim, 0, n->embed);
    layout->head = c->tied ? layout->embed : KVSI_ABSENT;
    if (c->embedding_norm)
        layout->embed_norm = add_outer_norm(layout, c, n->embed_norm);
    if (c->positions == KVSI_POSITIONS_LEARNED)
        layout->positions = add(layout, KVSI_POSITION, c->context, c->dim, 0, n->positions);
    for (size_t l = 0; l < c->layers; l++)
        list_layer(layout, c, l);
    if (!c->no_norm)
        layout->final_norm = add_outer_norm(layout, c, n->final_norm);
    if (!c->tied && c->head != KVSI_HEAD_NONE)
        layout->head = add(layout, KVSI_HEAD, c->vocab, c->dim, 0, "lm_head.weight");
}

/* ---- places ---- */

/* Gives each tensor its place, group by group. */
static void place(kvsi_layout *layout)
{
    size_t at = 0;

    for (int group = 0; group < KVSI_GROUPS; group++) {
        layout->group_start[group] = at;
        for (size_t i = 0; i < layout->count; i++)
            if (kvsi_group_of(layout->list[i].role) == (kvsi_group)group) {
                layout->list[i].offset = at;
                at += layout->list[i].count;
            }
    }
    layout->group_start[KVSI_GROUPS] = at;
}

static void index_to_offset(const kvsi_layout *layout, ptrdiff_t *index)
{
    if (*index != KVSI_ABSENT)
        *index = (ptrdiff_t)layout->list[*index].offset;
}

static void indices_to_offsets(kvsi_layout *layout, size_t layers)
{
    index_to_offset(layout, &layout->embed);
    index_to_offset(layout, &layout->embed_norm.gain);
    index_to_offset(layout, &layout->embed_norm.bias);
    index_to_offset(layout, &layout->positions);
    index_to_offset(layout, &layout->final_norm.gain);
    index_to_offset(layout, &layout->final_norm.bias);
    index_to_offset(layout, &layout->head);
    for (size_t l = 0; l < layers; l++) {
        ptrdiff_t *fields = (ptrdiff_t *)&layout->layers[l]; /* all fields are of this type */

        for (size_t i = 0; i < sizeof layout->layers[l] / sizeof *fields; i++)
            index_to_offset(layout, &fields[i]);
    }
}

static size_t most_parameters(const kvs_model_config *c)
{
    size_t count = c->layers * PER_LAYER_MAX + OUTSIDE_LAYERS;

    for (size_t l = 0; c->qk_norm == KVSI_QK_NORM_LAYER && l < c->layers; l++)
        count += kvsi_layer_shape_of(c, l).heads + kvsi_layer_shape_of(c, l).kv_heads;
    return count;
}

kvs_status kvsi_layout_init(kvsi_layout *layout, const kvs_model_config *config, kvs_err *err)
{
    *layout = (kvsi_layout){0};
    layout->list = kvsi_alloc(most_parameters(config), sizeof *layout->list);
    layout->layers = kvsi_alloc(config->layers, sizeof *layout->layers);
    if (!layout->list || !layout->layers) {
        kvsi_layout_release(layout);
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for the layout of %zu layers",
                         config->layers);
    }
    list_all(layout, config);
    place(layout);
    indices_to_offsets(layout, config->layers);
    return KVS_OK;
}

void kvsi_layout_release(kvsi_layout *layout)
{
    kvsi_free(layout->list);
    kvsi_free(layout->layers);
    *layout = (kvsi_layout){0};
}

size_t kvsi_layout_total(const kvsi_layout *layout)
{
    return layout->group_start[KVSI_GROUPS];
}

const kvsi_parameter *kvsi_layout_find(const kvsi_layout *layout, const char *name)
{
    for (size_t i = 0; i < layout->count; i++)
        if (strcmp(layout->list[i].name, name) == 0)
            return &layout->list[i];
    return NULL;
}

void kvsi_parameter_describe(const kvsi_parameter *p, kvsi_dtype matrices, kvsi_file_tensor *out)
{
    const int matrix = kvsi_group_of(p->role) == KVSI_MATRICES;

    *out =
        (kvsi_file_tensor){.name = p->name, .dtype = matrix ? matrices : KVSI_F32, .rank = p->rank};
    for (size_t i = 0; i < p->rank; i++)
        out->shape[i] = p->shape[i];
}

size_t kvsi_file_index(const kvsi_parameter *p, size_t i)
{
    const size_t in = p->shape[0], out = p->shape[1];

    return p->transposed ? i % in * out + i / in : i;
}
