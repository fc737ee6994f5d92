/* model/pass.h - one forward (and backward) pass over a ragged batch, with all its memory planned.
 *
 * The same forward serves training, scoring, prefill, a chunk and a single token: with states it
 * continues each sequence where its state left off, without states every sequence starts at
 * position 0.
 *
 *     kvsi_pass_load(pass, &batch, states, &err);     checks and uploads; states may be NULL
 *     kvsi_pass_forward(pass);
 *     kvsi_pass_loss(pass, gradients, &loss, &err);   gradients NULL = only the loss
 *     kvsi_pass_backward(pass, gradients);            adds to the block of gradients
 *
 * Everything is allocated by kvsi_pass_create; nothing after that allocates. */
#ifndef KVSI_MODEL_PASS_H
#define KVSI_MODEL_PASS_H

#include "model/shard_layout.h"
#include "model/state.h"

/* Callbacks of a pass whose parameters or gradients are sharded over ranks (train/zero).  `block`
 * is a block of model/shard_layout.h.  A pass without hooks finds everything in memory. */
typedef struct kvsi_pass_hooks {
    void *user;
    /* The pass needs the block's parameters, in model->matrices, until the next call. */
    void (*params_needed)(void *user, size_t block);
    /* The pass begins to add to the block's gradients, until gradients_ready. */
    void (*gradients_needed)(void *user, size_t block);
    /* Address of the gradient of the parameter at `offset`; NULL = all are in one buffer. */
    real *(*gradient_at)(void *user, size_t offset);
    /* The pass has added all it has to the block's gradients. */
    void (*gradients_ready)(void *user, size_t block);
} kvsi_pass_hooks;

/* Activations of one layer that its backward pass needs.  Without training all layers share one
 * struct's memory; with recomputation they share everything but x.
 *
 * In training with precision BF16 the values of qkv and up are rounded to bfloat16 before they are
 * used.  Unless they are recomputed, layers share qkv and up too and keep the values in kept_qkv
 * and kept_up, from which kvsi_pass_widen_layer restores them. */
typedef struct kvsi_layer_memory {
    real *x;        /* [n, dim] the layer's input */
    real *qkv;      /* [n, (heads + 2 kv_heads) head_size], raw */
    real *gates;    /* [n, gate heads] logits of the form `data`; NULL for other forms */
    real *relative; /* [n, heads relative_size] r of relative positions; NULL without them */
    real *mixed;    /* [n, heads head_size] attention's output, before o */
    real *logsum;   /* [n, heads] */
    real *middle;   /* [n, dim] between attention and MLP */
    real *up;       /* [n, 2 ffn] gate and up, or [n, ffn] without a gate */
    real *attention_raw, *mlp_raw; /* [n, dim] the branches before their filter, if there is one */
    real *attention_out, *mlp_out; /* [n, dim] the branches before their norm, if they have one */
    uint16_t *kept_qkv, *kept_up;  /* bfloat16, of the same shapes; NULL = not kept */
} kvsi_layer_memory;

typedef struct kvsi_pass_limits {
    size_t tokens, sequences;
    size_t head_rows; /* most rows whose logits or losses are computed at once */
    size_t top;       /* most results of one kvsi_pass_top: rows times best tokens per row */
    int training;
    int recompute; /* training: keep only the input of each layer and recompute the rest */
    size_t packs;  /* training: keep packed copies of weights, see pass_packed.c, if products of so
                      many rows are faster with them; 0 = never */
    kvsi_precision precision; /* of training; other passes have that of the runtime */
    kvsi_dtype cache; /* sequences without a state: round keys and values as this cache would */
} kvsi_pass_limits;

/* The points of each layer at which the forward pass calls `watch`. */
typedef enum kvsi_watch_point {
    /* After the attention.  `normed` has its input; the layer's x to middle are valid. */
    KVSI_WATCH_ATTENTION,
    /* After the MLP.  `normed` has its input; middle, up, `hidden` and the layer's output are
     * valid. */
    KVSI_WATCH_LAYER
} kvsi_watch_point;

typedef struct kvsi_pass {
    const kvs_model *model; /* borrowed */
    kvsi_context context;
    kvsi_pass_limits limits;

    unsigned char *block; /* all backend memory below is in it */
    kvsi_layer_memory *layers;
    real *embedded;  /* [n, dim] the tokens' embeddings before their norm; NULL without one */
    real *last;      /* [n, dim] output of the last layer */
    real *normed;    /* [n, dim] */
    real *hidden;    /* [n, ffn] */
    real *branch;    /* [n, dim] a branch that changes before it is added, if any does */
    real *adapted;   /* [n, rank] factor x A^T of an adapter; NULL without adapters */
    real *unit_head; /* [vocab, dim] the head with normalised rows; NULL if it is not */
    real *d_x, *d_normed, *d_qkv, *d_gates, *d_relative,
        *d_mixed; /* these to d_out: training only */
    real *d_up, *d_hidden;
    real *d_branch, *d_unit_head; /* like branch and unit_head */
    real *d_out;     /* [n, dim] the gradient of a layer's output, if branches are parallel */
    real *d_adapted; /* [n, rank] */
    int32_t *ids, *positions;          /* [n] */
    int32_t *rows, *targets, *guesses; /* [head_rows] */
    real *losses;                      /* [head_rows] */
    int32_t *top_ids;                  /* [limits.top] */
    real *top_logprobs;                /* [limits.top] */

    unsigned char *host; /* `layers` and all host memory below is in it */

    /* the batch that is loaded */
    size_t tokens, sequences, head_rows;
    kvsi_span *spans;    /* [sequences] */
    kvsi_state **states; /* [sequences], NULL = fresh sequences */
    int32_t *host_positions, *host_rows, *host_targets, *host_guesses;
    uint8_t *host_scored;
    real *host_losses;
    int32_t *host_top_ids; /* this and the next: results of kvsi_pass_top */
    real *host_top_logprobs;

    int dropout_on;
    uint64_t dropout_seed, dropout_number;

    /* The forward pass calls this, unless it is NULL, at each watch point of each layer.  It may
     * only read the memory of the pass.  If it returns non-zero, the forward pass ends there.  Only
     * passes without states can be watched. */
    int (*watch)(void *user, size_t layer, kvsi_watch_point point);
    void *watcher;
    const kvsi_pass_hooks *hooks; /* borrowed; NULL = none */
    /* Parameters before this offset are frozen: the block of gradients starts there. */
    size_t trained_from;

    /* Packed copies of the weights: the matrices of the model with these copies, the copy of the
     * head, and the model->version that those of each block were made from, 0 = none yet.  NULL =
     * nothing is packed. */
    kvsi_layer_matrices *packed_layers; /* [layers] */
    void *packed_head;
    uint64_t *packed_versions; /* [blocks] */
} kvsi_pass;

/* Bytes of backend memory that kvsi_pass_create allocates. */
size_t kvsi_pass_bytes(const kvs_model *model, const kvsi_pass_limits *limits);

kvs_status kvsi_pass_create(kvsi_pass **out, const kvs_model *model, const kvsi_pass_limits *limits,
                            kvs_err *err);
void kvsi_pass_free(kvsi_pass *pass);

/* Turns dropout on or off (the default) for the following batches.  The mask is a function of the
 * seed and the sequence number; `number` is that of the batch's first sequence. */
void kvsi_pass_set_dropout(kvsi_pass *pass, int on, uint64_t seed, uint64_t number);

/* Rows with a target go through the head.  `states`, if not NULL, has one state per sequence, all
 * different and with equal taps.  A failure changes nothing. */
kvs_status kvsi_pass_load(kvsi_pass *pass, const kvs_batch *batch, kvsi_state *const *states,
                          kvs_err *err);
void kvsi_pass_forward(kvsi_pass *pass); /* advances the states */

/* Sum of the losses of the rows with a target, and how many of the scored ones were right. */
typedef struct kvsi_loss {
    double sum;
    size_t rows, scored, right;
} kvsi_loss;

/* `loss` may be NULL.  Waits for the backend, and fails if one of its operations has failed. */
kvs_status kvsi_pass_loss(kvsi_pass *pass, real *gradients, kvsi_loss *loss, kvs_err *err);
void kvsi_pass_backward(kvsi_pass *pass, real *gradients);

/* Logits per row: the vocabulary, or the channels if there is no head. */
size_t kvsi_pass_logit_count(const kvs_model_config *config);
/* Logits of `count` rows of the loaded batch (count <= limits.head_rows), to host memory
 * [count, logits].  `scratch` is backend memory of that size. */
kvs_status kvsi_pass_logits(kvsi_pass *pass, real *host_logits, real *scratch, const int32_t *rows,
                            size_t count, kvs_err *err);
/* Logits after the last token of each of `count` states, which is at most limits.head_rows and
 * limits.tokens, each to its own row of host memory.  Overwrites the loaded batch. */
kvs_status kvsi_pass_state_logits(kvsi_pass *pass, real *const *host_logits, real *scratch,
                                  kvsi_state *const *states, size_t count, kvs_err *err);

/* ---- results of rows of the loaded batch, or of the last rows of states ----
 *
 * `many` says that the rows were computed in a pass of more than KVSI_FEW_ROWS tokens.  The head
 * then uses the same order of summation, so that the bits of a result do not depend on which other
 * rows are passed.  Without `many`, `count` must be at most KVSI_FEW_ROWS. */

static inline int kvsi_pass_has_many(const kvsi_pass *pass)
{
    return pass->tokens > KVSI_FEW_ROWS;
}

/* Replaces rows 0 to count-1 of the batch's output with the last rows of states.  `count` is at
 * most limits.head_rows and limits.tokens.  Until another batch is loaded, only the two calls below
 * may follow. */
void kvsi_pass_load_last(kvsi_pass *pass, kvsi_state *const *states, size_t count);
/* Sets pass->host_losses[i] to -log p(targets[i] | the tokens up to rows[i]), and
 * pass->host_guesses[i] to the likeliest token there, for all i < count.  A row may occur several
 * times.  `count` is at most limits.head_rows. */
kvs_status kvsi_pass_score(kvsi_pass *pass, const int32_t *rows, const int32_t *targets,
                           size_t count, int many, kvs_err *err);
/* Finds the `top` most likely tokens after each of `count` rows.  Sets pass->host_top_ids[count,
 * top] to their ids, the most likely one first, and pass->host_top_logprobs[count, top] to their
 * log-probabilities.  Expects count <= limits.head_rows, count * top <= limits.top, and 1 <= top <=
 * the number of logits. */
kvs_status kvsi_pass_top(kvsi_pass *pass, const int32_t *rows, size_t count, size_t top, int many,
                         kvs_err *err);

/* ---- shared by forward.c, backward.c and src/lens ---- */

/* Packs the matrices of a block unless that was done since they changed. */
void kvsi_pass_pack(kvsi_pass *pass, size_t block);

static inline void kvsi_pass_need_params(kvsi_pass *pass, size_t block)
{
    if (pass->hooks)
        pass->hooks->params_needed(pass->hooks->user, block);
    if (pass->packed_versions)
        kvsi_pass_pack(pass, block);
}

/* The matrices of a layer, with packed copies if the pass has them. */
static inline const kvsi_layer_matrices *kvsi_pass_matrices(const kvsi_pass *pass, size_t layer)
{
    return pass->packed_layers ? &pass->packed_layers[layer] : &pass->model->matrices.layers[layer];
}

static inline void kvsi_pass_need_gradients(const kvsi_pass *pass, size_t block)
{
    if (pass->hooks)
        pass->hooks->gradients_needed(pass->hooks->user, block);
}

static inline void kvsi_pass_gradients_ready(const kvsi_pass *pass, size_t block)
{
    if (pass->hooks)
        pass->hooks->gradients_ready(pass->hooks->user, block);
}

/* Address of the gradient of the parameter at an offset of the layout; NULL if it is frozen. */
static inline real *kvsi_pass_gradient(const kvsi_pass *pass, real *gradients, ptrdiff_t offset)
{
    if ((size_t)offset < pass->trained_from)
        return NULL;
    if (pass->hooks && pass->hooks->gradient_at)
        return pass->hooks->gradient_at(pass->hooks->user, (size_t)offset);
    return gradients + ((size_t)offset - pass->trained_from);
}

/* Returns the output of a layer: the input of the next layer, or `last`. */
static inline real *kvsi_pass_layer_output(const kvsi_pass *pass, size_t layer)
{
    return layer + 1 < pass->model->config.layers ? pass->layers[layer + 1].x : pass->last;
}

/* The context of the products that are float32 in every precision: gates of the shift, and
 * adapters. */
static inline kvsi_context kvsi_pass_f32_context(const kvsi_pass *pass)
{
    kvsi_context c = pass->context;

    c.precision = KVSI_PRECISION_F32;
    return c;
}

/* pass->adapted = (alpha / rank) x A^T */
void kvsi_pass_adapt(kvsi_pass *pass, const real *x, const kvsi_adapter *adapter);
/* Computes y = residual + x W^T + bias for all rows, with the adapters of W; residual NULL = 0. */
void kvsi_pass_linear(kvsi_pass *pass, real *y, const real *x, const kvsi_linear *w,
                      const real *residual);
/* Makes qkv and up of a layer valid from what was kept of them in bfloat16, if it was. */
void kvsi_pass_widen_layer(kvsi_pass *pass, size_t layer);
/* Makes all activations of a layer valid: widens them, or recomputes them from its x. */
void kvsi_pass_restore_layer(kvsi_pass *pass, size_t layer);

enum { KVSI_SITE_EMBEDDING = 0 }; /* sites of dropout; then two branches per layer */

static inline size_t kvsi_site_attention(size_t layer)
{
    return 1 + 2 * layer;
}

static inline size_t kvsi_site_mlp(size_t layer)
{
    return 2 + 2 * layer;
}

/* The dropout of a site for the first sequence; rate 0 if there is none or it is off. */
kvsi_dropout kvsi_pass_dropout(const kvsi_pass *pass, double rate, size_t site);
/* Applies dropout to x[n, dim], sequence by sequence. */
void kvsi_pass_drop(kvsi_pass *pass, real *x, const kvsi_dropout *first);

/* Columns of a layer's `up`. */
size_t kvsi_up_width(const kvs_model_config *config);
/* Heads of the targets that have gates. */
size_t kvsi_gate_heads(const kvs_model_config *config, kvsi_layer_shape shape);
/* Points the spans of sequences with a state to the cache and the tails of one layer. */
void kvsi_pass_attach(kvsi_pass *pass, size_t layer);
/* The attention of one layer; its shifts point into `gradients` unless that is NULL.  The spans are
 * the pass's own: with states, attach the layer first. */
kvsi_attention kvsi_pass_attention(const kvsi_pass *pass, size_t layer, real *gradients);
/* A norm by its offsets, which may be absent. */
kvsi_norm kvsi_pass_norm(const kvsi_pass *pass, kvsi_norm_offsets at);
/* What happens to the output of attention or of the MLP of a layer before it is added to the
 * residual stream: filter, norm, scale, dropout. */
typedef struct kvsi_branch {
    kvsi_filter filter; /* width 0 = none */
    kvsi_norm_offsets norm;
    real *raw;      /* what the filter reads */
    real *unnormed; /* what the norm reads */
    size_t site;    /* of dropout */
} kvsi_branch;

/* The gradients of the filters point into `gradients` unless that is NULL. */
kvsi_branch kvsi_pass_attention_branch(const kvsi_pass *pass, size_t layer, real *gradients);
kvsi_branch kvsi_pass_mlp_branch(const kvsi_pass *pass, size_t layer, real *gradients);
/* The activation of the MLPs. */
kvsi_mlp kvsi_pass_mlp(const kvsi_pass *pass);
/* What the MLP of a layer reads, before its norm. */
const real *kvsi_pass_mlp_input(const kvsi_pass *pass, size_t layer);
/* The matrix that computes the gates of one layer, all targets stacked; 0 rows = none. */
kvsi_matrix kvsi_pass_gates(const kvsi_pass *pass, size_t layer);
ptrdiff_t kvsi_pass_gates_offset(const kvsi_pass *pass, size_t layer); /* in the block */
kvsi_matrix kvsi_pass_head(const kvsi_pass *pass);

#endif
