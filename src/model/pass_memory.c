/* The memory of a pass: one block, measured and assigned by the same function. */
#include "base/memory.h"
#include "kernels/forms.h"
#include "model/pass.h"

enum { ALIGNMENT = 64 };

/* Allocates from a block.  With block NULL it only measures. */
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

static size_t larger(size_t x, size_t y)
{
    return x > y ? x : y;
}

/* The maximum of each size over all layers. */
static kvsi_layer_shape largest_layer(const kvs_model_config *c)
{
    kvsi_layer_shape most = {0};

    for (size_t l = 0; l < c->layers; l++) {
        const kvsi_layer_shape shape = kvsi_layer_shape_of(c, l);

        most.heads = larger(most.heads, shape.heads);
        most.kv_heads = larger(most.kv_heads, shape.kv_heads);
        most.head_size = larger(most.head_size, shape.head_size);
        most.q_width = larger(most.q_width, shape.q_width);
        most.qkv_width = larger(most.qkv_width, shape.qkv_width);
    }
    return most;
}

size_t kvsi_pass_logit_count(const kvs_model_config *config)
{
    return config->head == KVSI_HEAD_NONE ? config->dim : config->vocab;
}

size_t kvs_model_logit_count(const kvs_model *model)
{
    return model ? kvsi_pass_logit_count(&model->config) : 0;
}

size_t kvsi_up_width(const kvs_model_config *config)
{
    return config->no_mlp ? 0 : config->plain_mlp ? config->ffn : 2 * config->ffn;
}

/* Returns the number of shift parameters per head that kernels must have memory for.  A state may
 * have its own taps, which have the form `channel`. */
static size_t shift_params(const kvs_model_config *c, size_t head_size, int training)
{
    const kvsi_shift_form form = training ? c->shift.form : KVSI_SHIFT_CHANNEL;

    return kvsi_form_get(form)->params(c->shift.window, head_size);
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
        .shift_params = shift_params(c, most.head_size, limits->training),
        .qk_norm = c->qk_norm,
        .relative_size = c->relative_size,
        .training = limits->training,
        .precision = limits->precision,
    };
}

/* Whether branches change between their linear layer and the residual stream. */
static int changes_branch(const kvs_model_config *c)
{
    return c->dropout_residual > 0 || c->residual_scale > 0 || c->filters ||
           c->norm_place != KVSI_NORM_BEFORE;
}

static void lay_out_wide(kvsi_layer_memory *layer, const kvs_model_config *c, size_t n, walk *w)
{
    layer->qkv = take(w, n * largest_layer(c).qkv_width, sizeof(real));
    layer->up = take(w, n * kvsi_up_width(c), sizeof(real));
}

static void lay_out_kept(kvsi_layer_memory *layer, const kvs_model_config *c, size_t n, walk *w)
{
    layer->kept_qkv = take(w, n * largest_layer(c).qkv_width, sizeof *layer->kept_qkv);
    layer->kept_up = take(w, n * kvsi_up_width(c), sizeof *layer->kept_up);
}

/* All other memory of a layer except x. */
static void lay_out_layer(kvsi_layer_memory *layer, const kvs_model_config *c, size_t n, walk *w)
{
    const kvsi_layer_shape most = largest_layer(c);
    const size_t normed = c->norm_place == KVSI_NORM_BEFORE ? 0 : n * c->dim;
    const size_t filtered = n * c->dim;

    layer->gates = take(w, n * kvsi_gate_heads(c, most), sizeof(real));
    layer->relative = take(w, n * most.heads * c->relative_size, sizeof(real));
    layer->mixed = take(w, n * most.q_width, sizeof(real));
    layer->logsum = take(w, n * most.heads, sizeof(real));
    layer->middle = take(w, n * c->dim, sizeof(real));
    layer->attention_raw = take(w, c->filters & KVSI_FILTER_ATTENTION ? filtered : 0, sizeof(real));
    layer->mlp_raw = take(w, c->filters & KVSI_FILTER_MLP ? filtered : 0, sizeof(real));
    layer->attention_out = take(w, normed, sizeof(real));
    layer->mlp_out = take(w, c->no_mlp ? 0 : normed, sizeof(real));
}

/* Memory that the backward pass needs is allocated per layer; layers share the rest. */
static void lay_out_layers(const kvsi_pass *p, kvsi_layer_memory *layers, walk *w)
{
    const kvs_model_config *c = &p->model->config;
    const size_t n = p->limits.tokens;
    const int keeps = p->limits.training && !p->limits.recompute;
    const int in_bf16 = keeps && p->limits.precision == KVSI_PRECISION_BF16;

    for (size_t l = 0; l < c->layers; l++) {
        kvsi_layer_memory *layer = &layers[w->block ? l : 0];

        *layer = layers[0];
        if (l == 0 || (keeps && !in_bf16))
            lay_out_wide(layer, c, n, w);
        if (in_bf16)
            lay_out_kept(layer, c, n, w);
        if (l == 0 || keeps)
            lay_out_layer(layer, c, n, w);
        if (l == 0 || p->limits.training)
            layer->x = take(w, n * c->dim, sizeof(real));
    }
}

static void lay_out_gradients(kvsi_pass *p, const kvs_model_config *c, size_t n, walk *w)
{
    const kvsi_layer_shape most = largest_layer(c);

    p->d_x = take(w, n * c->dim, sizeof(real));
    p->d_normed = take(w, n * c->dim, sizeof(real));
    p->d_qkv = take(w, n * most.qkv_width, sizeof(real));
    p->d_gates = take(w, n * kvsi_gate_heads(c, most), sizeof(real));
    p->d_relative = take(w, n * most.heads * c->relative_size, sizeof(real));
    p->d_mixed = take(w, n * most.q_width, sizeof(real));
    p->d_up = take(w, n * kvsi_up_width(c), sizeof(real));
    p->d_hidden = take(w, n * c->ffn, sizeof(real));
    p->d_branch = take(w, changes_branch(c) ? n * c->dim : 0, sizeof(real));
    p->d_adapted = take(w, n * c->lora.rank, sizeof(real));
    p->d_out = take(w, c->parallel == KVSI_PARALLEL_NONE ? 0 : n * c->dim, sizeof(real));
    p->d_unit_head = take(w, c->head == KVSI_HEAD_NORMALISED ? c->vocab * c->dim : 0, sizeof(real));
}

/* Memory for the packed copy of a matrix; NULL if products of the backend do not use one. */
static void *take_packed(const kvsi_pass *p, size_t rows, size_t cols, walk *w)
{
    const kvsi_matrix shape = {.type = KVSI_REAL_TYPE, .rows = rows, .cols = cols};
    const size_t bytes =
        rows > 0 ? p->context.ops->packed_bytes(&p->context, &shape, p->limits.packs) : 0;
    void *place = take(w, bytes, 1);

    return bytes > 0 ? place : NULL;
}

/* Packed copies of the matrices of all layers, and of the head unless its rows are normalised in
 * every pass. */
static void lay_out_packed(kvsi_pass *p, walk *w)
{
    const kvs_model_config *c = &p->model->config;

    for (size_t l = 0; l < c->layers; l++) {
        const kvsi_layer_shape shape = kvsi_layer_shape_of(c, l);
        kvsi_layer_matrices scratch, *layer = w->block ? &p->packed_layers[l] : &scratch;

        if (w->block)
            *layer = p->model->matrices.layers[l];
        layer->qkv.part[0].packed = take_packed(p, shape.qkv_width, c->dim, w);
        layer->o.part[0].packed = take_packed(p, c->dim, shape.q_width, w);
        layer->relative.part[0].packed = take_packed(p, shape.heads * c->relative_size, c->dim, w);
        layer->up.part[0].packed = take_packed(p, kvsi_up_width(c), c->dim, w);
        layer->down.part[0].packed = take_packed(p, c->no_mlp ? 0 : c->dim, c->ffn, w);
    }
    if (c->head == KVSI_HEAD_LINEAR)
        p->packed_head = take_packed(p, c->vocab, c->dim, w);
}

/* Describes all backend memory of the pass.  When only measuring, `layers` is one scratch layer. */
static size_t lay_out(kvsi_pass *p, kvsi_layer_memory *layers, unsigned char *block)
{
    const kvs_model_config *c = &p->model->config;
    const kvsi_limits limits = backend_limits(c, &p->limits);
    const size_t n = p->limits.tokens, rows = p->limits.head_rows;
    walk w = {block, 0};

    lay_out_layers(p, layers, &w);
    p->last = p->limits.training ? take(&w, n * c->dim, sizeof(real)) : layers[0].x;
    p->embedded = take(&w, c->embedding_norm ? n * c->dim : 0, sizeof(real));
    p->normed = take(&w, n * c->dim, sizeof(real));
    p->hidden = take(&w, n * c->ffn, sizeof(real));
    p->branch = take(&w, changes_branch(c) ? n * c->dim : 0, sizeof(real));
    p->adapted = take(&w, n * c->lora.rank, sizeof(real));
    p->unit_head = take(&w, c->head == KVSI_HEAD_NORMALISED ? c->vocab * c->dim : 0, sizeof(real));
    if (p->limits.training)
        lay_out_gradients(p, c, n, &w);
    if (p->limits.packs)
        lay_out_packed(p, &w);
    p->ids = take(&w, n, sizeof *p->ids);
    p->positions = take(&w, n, sizeof *p->positions);
    p->rows = take(&w, rows, sizeof *p->rows);
    p->targets = take(&w, rows, sizeof *p->targets);
    p->guesses = take(&w, rows, sizeof *p->guesses);
    p->losses = take(&w, rows, sizeof *p->losses);
    p->top_ids = take(&w, p->limits.top, sizeof *p->top_ids);
    p->top_logprobs = take(&w, p->limits.top, sizeof *p->top_logprobs);
    p->context.workspace_bytes = p->context.ops->workspace_bytes(&limits, p->context.threads);
    p->context.workspace = take(&w, p->context.workspace_bytes, 1);
    return w.at;
}

/* The same for host memory. */
static size_t lay_out_host(kvsi_pass *p, unsigned char *block)
{
    const size_t sequences = p->limits.sequences, rows = p->limits.head_rows;
    walk w = {block, 0};

    p->layers = take(&w, p->model->config.layers, sizeof *p->layers);
    p->spans = take(&w, sequences, sizeof *p->spans);
    p->states = take(&w, sequences, sizeof(kvsi_state *));
    p->host_positions = take(&w, p->limits.tokens, sizeof *p->host_positions);
    p->host_rows = take(&w, rows, sizeof *p->host_rows);
    p->host_targets = take(&w, rows, sizeof *p->host_targets);
    p->host_guesses = take(&w, rows, sizeof *p->host_guesses);
    p->host_scored = take(&w, rows, sizeof *p->host_scored);
    p->host_losses = take(&w, rows, sizeof *p->host_losses);
    p->host_top_ids = take(&w, p->limits.top, sizeof *p->host_top_ids);
    p->host_top_logprobs = take(&w, p->limits.top, sizeof *p->host_top_logprobs);
    if (p->limits.packs) {
        const size_t layers = p->model->config.layers;

        p->packed_layers = take(&w, layers, sizeof *p->packed_layers);
        p->packed_versions = take(&w, kvsi_block_count(layers), sizeof *p->packed_versions);
    }
    return w.at;
}

/* A pass without memory. */
static kvsi_pass pass_of(const kvs_model *model, const kvsi_pass_limits *limits)
{
    kvsi_pass p = {.model = model, .context = model->context, .limits = *limits};

    if (limits->training)
        p.context.precision = limits->precision;
    return p;
}

size_t kvsi_pass_bytes(const kvs_model *model, const kvsi_pass_limits *limits)
{
    kvsi_pass measure = pass_of(model, limits);
    kvsi_layer_memory scratch = {0};

    return lay_out(&measure, &scratch, NULL);
}

kvs_status kvsi_pass_create(kvsi_pass **out, const kvs_model *model, const kvsi_pass_limits *limits,
                            kvs_err *err)
{
    const size_t bytes = kvsi_pass_bytes(model, limits);
    kvsi_pass *p;

    *out = NULL;
    TRY(limits->training ? kvsi_model_must_own(model, "trained", err)
                         : kvsi_model_must_be_whole(model, err));
    p = kvsi_alloc(1, sizeof *p);
    if (!p)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for a pass");
    *p = pass_of(model, limits);
    p->block = model->context.ops->alloc(&model->context, bytes);
    p->host = kvsi_alloc(lay_out_host(p, NULL), 1);
    if (!p->block || !p->host) {
        kvsi_pass_free(p);
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory: a pass over %zu tokens needs %zu MiB",
                         limits->tokens, bytes >> 20);
    }
    lay_out_host(p, p->host);
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
    kvsi_free(pass->host);
    kvsi_free(pass);
}
