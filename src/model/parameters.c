#include "model/parameters.h"

#include "base/memory.h"
#include "base/random.h"
#include "kernels/forms.h"

#include <stdio.h>
#include <string.h>

enum { PER_LAYER_MAX = 12, OUTSIDE_LAYERS = 3 };

static void add(kvsi_layout *layout, kvsi_group group, size_t rows, size_t cols, const char *name)
{
    kvsi_parameter *p = &layout->list[layout->count++];

    snprintf(p->name, sizeof p->name, "%s", name);
    p->group = group;
    p->rank = cols > 0 ? 2 : 1; /* cols 0: a vector */
    p->shape[0] = rows;
    p->shape[1] = cols;
    p->count = cols > 0 ? rows * cols : rows;
}

static void add_layer(kvsi_layout *layout, size_t layer, kvsi_group group, size_t rows, size_t cols,
                      const char *part)
{
    char name[KVSI_NAME_SIZE];

    snprintf(name, sizeof name, "model.layers.%zu.%s", layer, part);
    add(layout, group, rows, cols, name);
}

static void add_shift(kvsi_layout *layout, size_t layer, size_t heads,
                      const kvs_shift_config *shift, unsigned target, const char *part)
{
    const size_t numbers = kvsi_form_get(shift->form)->numbers(shift->window);

    if (shift->targets & target)
        add_layer(layout, layer, KVSI_SHIFTS, heads, numbers > 1 ? numbers : 0, part);
}

static void list_layer(kvsi_layout *layout, const kvs_model_config *c, size_t layer)
{
    const size_t kv_dim = c->kv_heads * (c->dim / c->heads);

    add_layer(layout, layer, KVSI_GAINS, c->dim, 0, "input_layernorm.weight");
    add_layer(layout, layer, KVSI_MATRICES, c->dim, c->dim, "self_attn.q_proj.weight");
    add_layer(layout, layer, KVSI_MATRICES, kv_dim, c->dim, "self_attn.k_proj.weight");
    add_layer(layout, layer, KVSI_MATRICES, kv_dim, c->dim, "self_attn.v_proj.weight");
    add_layer(layout, layer, KVSI_MATRICES, c->dim, c->dim, "self_attn.o_proj.weight");
    add_shift(layout, layer, c->heads, &c->shift, KVS_SHIFT_Q, "self_attn.q_shift");
    add_shift(layout, layer, c->kv_heads, &c->shift, KVS_SHIFT_K, "self_attn.k_shift");
    add_shift(layout, layer, c->kv_heads, &c->shift, KVS_SHIFT_V, "self_attn.v_shift");
    add_layer(layout, layer, KVSI_GAINS, c->dim, 0, "post_attention_layernorm.weight");
    add_layer(layout, layer, KVSI_MATRICES, c->ffn, c->dim, "mlp.gate_proj.weight");
    add_layer(layout, layer, KVSI_MATRICES, c->ffn, c->dim, "mlp.up_proj.weight");
    add_layer(layout, layer, KVSI_MATRICES, c->dim, c->ffn, "mlp.down_proj.weight");
}

/* Gives each tensor its place, group by group. */
static void place(kvsi_layout *layout)
{
    size_t at = 0;

    for (int group = 0; group < KVSI_GROUPS; group++) {
        layout->group_start[group] = at;
        for (size_t i = 0; i < layout->count; i++)
            if (layout->list[i].group == (kvsi_group)group) {
                layout->list[i].offset = at;
                at += layout->list[i].count;
            }
    }
    layout->group_start[KVSI_GROUPS] = at;
}

static size_t offset_of(const kvsi_layout *layout, const char *name)
{
    const kvsi_parameter *p = kvsi_layout_find(layout, name);

    return p ? p->offset : 0; /* absent: a target that is not shifted, or a tied head */
}

static size_t offset_in_layer(const kvsi_layout *layout, size_t layer, const char *part)
{
    char name[KVSI_NAME_SIZE];

    snprintf(name, sizeof name, "model.layers.%zu.%s", layer, part);
    return offset_of(layout, name);
}

static void note_offsets(kvsi_layout *layout, const kvs_model_config *c)
{
    layout->embed = offset_of(layout, "model.embed_tokens.weight");
    layout->final_norm = offset_of(layout, "model.norm.weight");
    layout->head = c->tied ? layout->embed : offset_of(layout, "lm_head.weight");
    for (size_t l = 0; l < c->layers; l++)
        layout->layers[l] = (kvsi_layer_offsets){
            .input_norm = offset_in_layer(layout, l, "input_layernorm.weight"),
            .qkv = offset_in_layer(layout, l, "self_attn.q_proj.weight"),
            .o = offset_in_layer(layout, l, "self_attn.o_proj.weight"),
            .post_norm = offset_in_layer(layout, l, "post_attention_layernorm.weight"),
            .gate_up = offset_in_layer(layout, l, "mlp.gate_proj.weight"),
            .down = offset_in_layer(layout, l, "mlp.down_proj.weight"),
            .q_shift = offset_in_layer(layout, l, "self_attn.q_shift"),
            .k_shift = offset_in_layer(layout, l, "self_attn.k_shift"),
            .v_shift = offset_in_layer(layout, l, "self_attn.v_shift"),
        };
}

kvs_status kvsi_layout_init(kvsi_layout *layout, const kvs_model_config *config, kvs_err *err)
{
    *layout = (kvsi_layout){0};
    layout->list =
        kvsi_alloc(config->layers * PER_LAYER_MAX + OUTSIDE_LAYERS, sizeof *layout->list);
    layout->layers = kvsi_alloc(config->layers, sizeof *layout->layers);
    if (!layout->list || !layout->layers) {
        kvsi_layout_release(layout);
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for the layout of %zu layers",
                         config->layers);
    }
    add(layout, KVSI_MATRICES, config->vocab, config->dim, "model.embed_tokens.weight");
    for (size_t l = 0; l < config->layers; l++)
        list_layer(layout, config, l);
    add(layout, KVSI_GAINS, config->dim, 0, "model.norm.weight");
    if (!config->tied)
        add(layout, KVSI_MATRICES, config->vocab, config->dim, "lm_head.weight");
    place(layout);
    note_offsets(layout, config);
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

static void fill_shift(real *out, const kvsi_parameter *p, const kvs_shift_config *shift,
                       kvsi_random *random)
{
    const kvsi_form *form = kvsi_form_get(shift->form);
    const size_t numbers = form->numbers(shift->window);

    for (size_t head = 0; head < p->shape[0]; head++) {
        double taps[KVSI_TAPS_MAX], values[KVSI_TAPS_MAX];

        kvsi_taps_uniform(taps, shift->window, random);
        form->from_taps(values, taps, shift->window);
        for (size_t j = 0; j < numbers; j++)
            out[head * numbers + j] = (real)values[j];
    }
}

void kvsi_parameter_fill(real *out, const kvsi_parameter *p, const kvs_model_config *config,
                         uint64_t seed)
{
    kvsi_random random;

    kvsi_random_init(&random, seed, KVSI_RANDOM_INIT, kvsi_hash_text(p->name));
    if (p->group == KVSI_SHIFTS) {
        fill_shift(out, p, &config->shift, &random);
        return;
    }
    for (size_t i = 0; i < p->count; i++)
        out[i] =
            p->group == KVSI_GAINS ? 1 : (real)(config->init_std * kvsi_random_normal(&random));
}
