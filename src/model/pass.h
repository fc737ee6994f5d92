/* model/pass.h - one forward (and backward) pass over a ragged batch, with all its memory planned.
 *
 * The same forward serves training, scoring, prefill, a chunk and a single token: with states it
 * continues each sequence where its state left off, without states every sequence starts anew.
 *
 *     kvsi_pass_load(pass, &batch, states, &err);     checks and uploads; states may be NULL
 *     kvsi_pass_forward(pass);
 *     kvsi_pass_loss(pass, gradients);                gradients NULL = only the loss
 *     kvsi_pass_backward(pass, gradients);            adds to the block of gradients
 *
 * Everything is allocated by kvsi_pass_create; nothing after that allocates. */
#ifndef KVSI_MODEL_PASS_H
#define KVSI_MODEL_PASS_H

#include "model/state.h"

/* What one layer leaves for its backward pass.  Without training all layers share one. */
typedef struct kvsi_layer_memory {
    real *x;       /* [n, dim] what came in */
    real *qkv;     /* [n, (heads + 2 kv_heads) head_size], raw */
    real *mixed;   /* [n, dim] attention's output, before o_proj */
    real *logsum;  /* [n, heads] */
    real *middle;  /* [n, dim] between attention and MLP */
    real *gate_up; /* [n, 2 ffn] */
} kvsi_layer_memory;

typedef struct kvsi_pass_limits {
    size_t tokens, sequences;
    size_t head_rows; /* rows whose logits or loss are wanted at once */
    int training;
} kvsi_pass_limits;

typedef struct kvsi_pass {
    const kvs_model *model; /* borrowed */
    kvsi_context context;
    kvsi_pass_limits limits;

    unsigned char *block; /* all backend memory below is in it */
    kvsi_layer_memory *layers;
    real *last;   /* [n, dim] what leaves the last layer */
    real *normed; /* [n, dim] */
    real *hidden; /* [n, ffn] */
    real *d_x, *d_normed, *d_qkv, *d_mixed, *d_gate_up, *d_hidden; /* training only */
    int32_t *ids, *rows, *targets, *guesses;                       /* [n], [head_rows] x 3 */
    real *losses;                                                  /* [head_rows] */

    /* the batch that is loaded */
    size_t tokens, sequences, head_rows;
    kvsi_span *spans;    /* [sequences] */
    kvsi_state **states; /* [sequences], NULL = fresh sequences */
    int32_t *host_rows, *host_targets, *host_guesses;
    uint8_t *host_scored;
    real *host_losses;
} kvsi_pass;

/* Bytes of backend memory that kvsi_pass_create will take. */
size_t kvsi_pass_bytes(const kvs_model *model, const kvsi_pass_limits *limits);

kvs_status kvsi_pass_create(kvsi_pass **out, const kvs_model *model, const kvsi_pass_limits *limits,
                            kvs_err *err);
void kvsi_pass_free(kvsi_pass *pass);

/* Targets decide which rows reach the head.  `states`, if any, is one per sequence, all different;
 * on failure nothing has changed. */
kvs_status kvsi_pass_load(kvsi_pass *pass, const kvs_batch *batch, kvsi_state *const *states,
                          kvs_err *err);
void kvsi_pass_forward(kvsi_pass *pass); /* advances the states */

/* Sum of the losses of the rows with a target, and how many scored ones were guessed right. */
typedef struct kvsi_loss {
    double sum;
    size_t rows, scored, right;
} kvsi_loss;

kvsi_loss kvsi_pass_loss(kvsi_pass *pass, real *gradients);
void kvsi_pass_backward(kvsi_pass *pass, real *gradients);

/* Logits of `count` rows of the loaded batch (count <= limits.head_rows), to host memory
 * [count, vocab].  `scratch` is backend memory of that size. */
void kvsi_pass_logits(kvsi_pass *pass, real *host_logits, real *scratch, const int32_t *rows,
                      size_t count);

/* Shared by forward.c and backward.c: the attention of one layer as the backend wants it. */
kvsi_attention kvsi_pass_attention(kvsi_pass *pass, size_t layer, real *gradients);
kvsi_matrix kvsi_pass_matrix(const kvsi_pass *pass, size_t offset, size_t rows, size_t cols);

#endif
