/* lens/readout.h - intermediate results of the attention of one layer: shifted and rotated rows,
 * scores and weights.  They are computed with the attention kernel itself, so that shift, rotation,
 * slopes and window are not implemented a second time.
 *
 * It is used at KVSI_WATCH_ATTENTION of a pass over one sequence of n tokens, and only reads the
 * memory of the pass.  Results are written to host memory of the caller. */
#ifndef KVSI_LENS_READOUT_H
#define KVSI_LENS_READOUT_H

#include "model/pass.h"

_Static_assert(sizeof(real) == sizeof(float), "activations are given to callers as floats");

typedef struct kvsi_readout {
    kvsi_pass *pass;       /* borrowed */
    size_t tokens;         /* n */
    size_t width;          /* widest row of q, k and v of all layers; at least dim */
    real *raw, *to, *from; /* host memory, [n, width]: the layer's raw q, k and v; a buffer for
                              uploads; a buffer for downloads */
    /* Backend memory, allocated when it is first needed. */
    real *qkv;            /* [n, width] */
    real *mixed, *logsum; /* [n, dim] and [n, dim], outputs of the kernel */
    real *k, *v;          /* [n * width], caches */
    real *queries, *keys; /* [n, dim] of one head */
    real *products;       /* [n, n] */
} kvsi_readout;

kvs_status kvsi_readout_init(kvsi_readout *out, kvsi_pass *pass, kvs_err *err);
void kvsi_readout_release(kvsi_readout *readout);

/* Downloads the raw q, k and v of a layer, which all calls below use. */
kvs_status kvsi_readout_load(kvsi_readout *r, size_t layer, kvs_err *err);

/* Gets the rows of one target (KVS_SHIFT_Q, _K or _V) as out[n, heads, head_size], as the
 * projection gives them. */
void kvsi_readout_raw(float *out, const kvsi_readout *r, size_t layer, unsigned target);
/* Gets the rows after the shift, and the rows after shift and rotation, from which scores are
 * computed.  Either may be NULL.  Both are equal if the layer does not rotate.  `rotated` must be
 * NULL for values, which never rotate. */
kvs_status kvsi_readout_shifted(float *shifted, float *rotated, kvsi_readout *r, size_t layer,
                                unsigned target, kvs_err *err);

/* Computes out[heads, n, n] from the rotated rows q[n, heads, head_size] and
 * k[n, kv_heads, head_size]:
 *     growth_t q_t . k_s * scale - slope * (t - s) + the term of relative positions,
 * -infinity for keys that t does not see */
kvs_status kvsi_readout_scores(float *out, kvsi_readout *r, size_t layer, const float *q,
                               const float *k, kvs_err *err);
/* Gets the attention weights A[heads, n, n]. */
kvs_status kvsi_readout_pattern(float *out, kvsi_readout *r, size_t layer, kvs_err *err);
/* Computes A_V[heads, n, n], the weights of the raw values in the output, from A = pattern:
 *     A_V[t, j] = sum_b tap_{j+b}[b back] A[t, j+b]
 * If the channels of a head have different taps, their mean is used.  The model must shift
 * values. */
kvs_status kvsi_readout_content(float *out, kvsi_readout *r, size_t layer, const float *pattern,
                                kvs_err *err);

#endif
