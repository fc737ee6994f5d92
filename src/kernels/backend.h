/* kernels/backend.h - a backend is a table of memory calls and of coarse operations, forward and
 * backward, which are listed in kernels/operations.def.
 *
 * The model calls nothing else.  Tensor pointers handed to an operation belong to the backend: they
 * come from alloc or adopt, only the backend dereferences them, and everyone else moves data with
 * upload and download.  Adding an offset to such a pointer is allowed, within what was allocated.
 * Descriptions (kvsi_matrix, kvsi_attention, kvsi_span, ...) are host memory, valid for the call.
 * Shapes are row-major; n = tokens in the batch.
 *
 * Backward operations ADD to parameter gradients (d_table, d_gain, d_w, shift gradients) and, where
 * stated, to activation gradients; all other outputs are overwritten.  Buffers must not overlap
 * unless stated.  Operations do not allocate: what they need beyond their arguments comes from the
 * context's workspace, sized beforehand by workspace_bytes().
 *
 * Operations run in the order of their calls and return nothing.  Where one can fail (a device was
 * lost), its status stays with the device, later operations do nothing, and every later sync
 * returns that first status.  A caller that ignores a sync therefore loses no error.
 *
 * Not yet: transfers between ranks give backend pointers to MPI, so more than one rank needs a
 * backend whose memory is the host's.
 *
 * Results have the same bits for any number of threads: work is cut into pieces by shape alone, and
 * sums over pieces have a fixed order. */
#ifndef KVSI_KERNELS_BACKEND_H
#define KVSI_KERNELS_BACKEND_H

#include "config/config.h"
#include "kernels/real.h"

#include <stddef.h>
#include <stdint.h>

/* A weight matrix, applied as y = x W^T.  The forward operations take any type that weights can
 * have (base/dtype.h) and compute in real; the backward ones take KVSI_REAL_TYPE alone. */
typedef struct kvsi_matrix {
    kvsi_dtype type;
    size_t rows, cols; /* outputs, inputs; whole blocks of the type */
    const void *data;  /* NULL = the identity matrix; only for the head */
    const real *bias;  /* [rows], or NULL */
    /* Distance of the rows of y, if the matrix has only some of their columns; 0 = rows. */
    size_t stride;
    /* Head size, if the file stores rotary pairs (2i, 2i + 1) in adjacent rows; y and bias always
     * have the pairs (i, i + head_size / 2).  0 = rows are in y's order. */
    size_t paired;
    /* Computes the following columns of y; same type, cols and stride.  Only for linear_forward. */
    const struct kvsi_matrix *next;
    /* What pack_weights made of this matrix, in the precision of the context; NULL = nothing.
     * Products then have the same bits and need not pack it again. */
    const void *packed;
} kvsi_matrix;

static inline size_t kvsi_matrix_stride(const kvsi_matrix *w)
{
    return w->stride > 0 ? w->stride : w->rows;
}

/* The column of y that a row computes, and the inverse. */
static inline size_t kvsi_matrix_column(const kvsi_matrix *w, size_t row)
{
    const size_t in_head = w->paired > 0 ? row % w->paired : 0;

    return row - in_head + in_head / 2 + in_head % 2 * (w->paired / 2);
}

static inline size_t kvsi_matrix_row(const kvsi_matrix *w, size_t column)
{
    const size_t half = w->paired / 2, in_head = w->paired > 0 ? column % w->paired : 0;

    return column - in_head + (in_head < half ? 2 * in_head : 2 * (in_head - half) + (half > 0));
}

/* y = (x - mean) / deviation * gain + bias (LayerNorm), or without mean and bias (RMSNorm). */
typedef struct kvsi_norm {
    const real *gain, *bias; /* [dim]; bias NULL = RMSNorm */
    double eps;
    real gain_offset; /* it multiplies by gain_offset + gain: 0 or 1 */
} kvsi_norm;

/* The activation of an MLP: y = f(gate) * up from rows of gate and up if it is gated, or y = f(up).
 */
typedef struct kvsi_mlp {
    kvsi_activation function;
    int gated;
    size_t width; /* of y */
} kvsi_mlp;

static inline size_t kvsi_mlp_inputs(const kvsi_mlp *mlp)
{
    return (mlp->gated ? 2 : 1) * mlp->width;
}

/* Dropout is a pure function of seed, index and element, so the backward pass computes the same
 * mask again.  Kept values are scaled by 1 / (1 - rate).  index = sequence number *
 * KVSI_DROPOUT_SITES + site in the model: the mask of a sequence does not depend on the other
 * sequences of its batch. */
enum { KVSI_DROPOUT_SITES = 65536 };

typedef struct kvsi_dropout {
    double rate; /* 0 = none */
    uint64_t seed, index;
} kvsi_dropout;

/* The shift of one of q, k, v: x^_t = sum_j taps[j] * x_{t-window+j}, oldest tap first.  window 0 =
 * not shifted.  The form turns `parameters` into taps; see kernels/forms.h.  The form `data` has
 * one coefficient a_t per token and head instead; the model computes its logits, `gates`, with a
 * linear layer. */
typedef struct kvsi_shift {
    kvsi_shift_form form;
    size_t window;
    const real *parameters;
    real *gradient;    /* same shape; used by the backward pass only */
    const real *gates; /* head h of row t at gates[t * gate_stride + h] */
    real *d_gates;     /* same layout; overwritten by the backward pass */
    size_t gate_stride;
} kvsi_shift;

/* What a sequence carries from chunk to chunk as tails: raw rows of the targets of the shift, and
 * rows that filters read. */
typedef enum kvsi_tail {
    KVSI_TAIL_Q,
    KVSI_TAIL_K,
    KVSI_TAIL_V,
    KVSI_TAIL_ATTENTION, /* the output of attention */
    KVSI_TAIL_MLP,       /* the output of the MLP */
    KVSI_TAILS
} kvsi_tail;

/* Tokens between two snapshots of a tail; also the number of cached keys in a tile. */
enum { KVSI_SNAPSHOT = 64 };

/* One sequence's part of the batch: rows start .. start+len-1, at positions past .. past+len-1.
 * Training and scoring have no cache (k = NULL) and past = 0.  With a cache, the new K^ (rotated)
 * and V^ are appended to it, and the tails are read and updated: a tail holds the last raw rows,
 * which the shift or the filter of the next chunk needs, as [window, width of a row], oldest first,
 * zeros before the start.  Tail 0 is the current one; tail i > 0 is a snapshot of it after
 * KVSI_SNAPSHOT * i tokens, written when the chunk reaches that length. */
typedef struct kvsi_span {
    size_t start, len, past;
    void *k, *v; /* [kv_heads, capacity, head_size] of type `cache` */
    kvsi_dtype
        cache;       /* F16 or Q8_0: K^ and V^ are rounded to it, with or without a cache; any other
                         type: they are real */
    size_t capacity; /* rows of the cache */
    size_t first;    /* position of row 0, a multiple of KVSI_SNAPSHOT; earlier keys were dropped */
    size_t snapshots;        /* tails besides tail 0 */
    real *tails[KVSI_TAILS]; /* [1 + snapshots] tails each; NULL if not shifted or filtered */
} kvsi_span;

/* Relative positions: a row computes `size` numbers r per head, and the score of a key at distance
 * x, before masks and after the cap, gets the term sum_c r[c] table[c][x] if x < extent. */
typedef struct kvsi_relative {
    size_t size, extent; /* size 0 = none */
    const real *rows;    /* [tokens, heads * size] */
    const real *table;   /* [size, extent], which all heads share */
    real *d_rows;        /* overwritten; this and the next are used by the backward pass only */
    real *d_table;       /* += */
} kvsi_relative;

typedef struct kvsi_attention {
    size_t heads, kv_heads, head_size;
    real scale;     /* of the scores, 1/sqrt(head_size) */
    real score_cap; /* a scaled score becomes score_cap * tanh(score / score_cap), before slopes and
                       masks; 0 = it stays */
    kvsi_shift q_shift, k_shift, v_shift;
    kvsi_qk_norm qk_norm;        /* of the rows of q and k, between shift and rotation */
    const real *q_gain, *k_gain; /* [head_size] for KVSI_QK_NORM_HEAD, else [heads, head_size] and
                                    [kv_heads, head_size]; NULL without a norm */
    real *d_q_gain, *d_k_gain;   /* their gradients; used by the backward pass only */
    real gain_offset;            /* as in kvsi_norm */
    double norm_eps;
    size_t rotary;         /* the first `rotary` channels of a head rotate; 0 = none */
    const real *rotations; /* [positions, rotary]: cosines, then sines */
    const real *slopes;    /* [heads]: score -= slope * distance; NULL = none */
    kvsi_relative relative;
    const real *growth; /* [positions]: factor of q after rotation and of the relative term of each
                           row; NULL = 1 */
    size_t sliding_window; /* keys s > t - window only; 0 = all */
    kvsi_dropout dropout;  /* of the attention weights; index is that of the first sequence */
    size_t sequences;
    const kvsi_span *spans; /* [sequences] */
    size_t tokens;          /* rows in the batch */
    int training;           /* there is a backward pass; sequences have no cache */
} kvsi_attention;

/* A filter of whole rows: y_t = factor * sum_j taps[j] * x_{t-window+j}.  The taps are those of one
 * head of `width` channels, of the form `residual`. */
typedef struct kvsi_filter {
    size_t width, window;
    const real *parameters;    /* [width, window + 1] */
    const real *factor;        /* [1], or NULL = 1 */
    real *gradient, *d_factor; /* of the same shapes, +=; used by the backward pass only */
    kvsi_tail tail;            /* which tail of the spans holds its rows */
    size_t sequences;
    const kvsi_span *spans; /* [sequences] */
} kvsi_filter;

/* A linear layer may use one order of summation for up to this many rows (gemv) and another one for
 * more rows (gemm).  The bits of a row depend on which of the two is used, and on nothing else of
 * the batch. */
enum { KVSI_FEW_ROWS = 8 };

/* The output head on the rows that have a target, with the loss -log softmax(x W^T)[target]. */
typedef struct kvsi_head {
    const real *x;                 /* [n, dim], after the final norm */
    const kvsi_matrix *w;          /* [vocab, dim], or the identity: logits = channels */
    const int32_t *rows, *targets; /* [count]: which rows, and their targets */
    size_t count;
    real *row_loss;     /* [count] out */
    int32_t *row_guess; /* [count] out: the most likely token, the lowest id of equals */
    size_t n;
    real *d_x; /* [n, dim] out, zero in other rows; NULL = no gradients */
    real *d_w; /* += ; gradients are of the SUM of the losses; NULL = not needed */
    int many;  /* sum as for more than KVSI_FEW_ROWS rows, even if `count` is smaller */
    real cap;  /* a logit becomes cap * tanh(logit / cap); 0 = it stays */
} kvsi_head;

/* The output head on some rows, with the best tokens of each, best first.  If logits are equal, the
 * lower id comes first. */
typedef struct kvsi_head_top {
    const real *x;        /* [n, dim], after the final norm */
    const kvsi_matrix *w; /* as in kvsi_head */
    const int32_t *rows;  /* [count] */
    size_t count, n;
    size_t top;     /* 1 to the number of logits */
    int32_t *ids;   /* [count, top] out */
    real *logprobs; /* [count, top] out: the log-probability of each, -loss */
    int many;       /* as in kvsi_head */
    real cap;       /* as in kvsi_head */
} kvsi_head_top;

typedef struct kvsi_adamw {
    double lr, beta1, beta2, eps, decay;
    double correction1, correction2; /* 1 - beta^step */
} kvsi_adamw;

/* Upper bounds of all calls in a context, which size its workspace. */
typedef struct kvsi_limits {
    size_t tokens, sequences, head_rows;
    size_t dim, heads, kv_heads, head_size; /* maxima over the layers */
    size_t ffn, vocab;                      /* vocab = number of logits */
    size_t shift_params;                    /* most parameters per head */
    kvsi_qk_norm qk_norm;
    size_t relative_size;
    int training;
    kvsi_precision precision;
} kvsi_limits;

typedef struct kvsi_ops kvsi_ops;

/* Passed to every operation.  Used by one thread at a time. */
typedef struct kvsi_context {
    const kvsi_ops *ops;
    int threads;
    unsigned char *workspace; /* backend memory */
    size_t workspace_bytes;
    void *device; /* the backend's own (queue, first error), shared by all contexts of a runtime;
                     NULL for backends that need none */
    kvsi_precision precision; /* of the products of linear layers, the head and attention */
    int exact; /* every row has the same bits, whatever the other rows of the batch are, and however
                  the sequence was divided into chunks */
} kvsi_context;

struct kvsi_ops {
    const char *name;

    /* A zeroed block, NULL if there is no memory; release(NULL) does nothing. */
    void *(*alloc)(const kvsi_context *c, size_t bytes);
    void (*release)(const kvsi_context *c, void *memory);
    /* Host memory (a mapped file) as backend memory that is only read.  It must stay valid and
     * unchanged until disown.  Backends whose memory is the host's return the pointer itself,
     * others a copy, NULL if there is no memory; disown(NULL) does nothing. */
    const void *(*adopt)(const kvsi_context *c, const void *host, size_t bytes);
    void (*disown)(const kvsi_context *c, const void *adopted);
    /* from_host may be changed as soon as upload returns; to_host is filled at the next sync. */
    void (*upload)(kvsi_context *c, void *to, const void *from_host, size_t bytes);
    void (*download)(kvsi_context *c, void *to_host, const void *from, size_t bytes);
    void (*copy)(kvsi_context *c, void *to, const void *from, size_t bytes);
    void (*zero)(kvsi_context *c, void *memory, size_t bytes);
    /* Waits for all operations so far.  Returns the first error of any of them, from then on. */
    kvs_status (*sync)(kvsi_context *c);
    size_t (*workspace_bytes)(const kvsi_limits *limits, int threads);
    /* Memory that pack_weights fills for a matrix of this shape, which must be aligned to 64 bytes;
     * 0 = products of n rows with the matrix are not faster with packed weights. */
    size_t (*packed_bytes)(const kvsi_context *c, const kvsi_matrix *w, size_t n);

    /* the arithmetic */
#define OPERATION(name, parameters, arguments, work) void(*name) parameters;
#include "kernels/operations.def"
};

/* sync, with a message. */
static inline kvs_status kvsi_sync(kvsi_context *c, kvs_err *err)
{
    const kvs_status st = c->ops->sync(c);

    return st == KVS_OK ? st
                        : kvsi_fail(err, st, "an operation of backend '%s' failed", c->ops->name);
}

/* The plain reference, and the processor-specific tables; see kernels/levels.c. */
extern const kvsi_ops kvsi_reference_ops;

/* Level NULL or "auto" = the best that this processor can run. */
kvs_status kvsi_ops_find(const kvsi_ops **out, const char *level, kvs_err *err);

#endif
