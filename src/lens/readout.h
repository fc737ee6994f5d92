/* lens/readout.h - what the attention of one layer computes on the way to its output, read with the
 * attention kernel itself: shift, rotation, slopes and window are not implemented a second time.
 *
 * For use at KVSI_WATCH_ATTENTION of a pass over one sequence, of which it only reads the memory.
 * Arrays that are handed out are host memory of the caller; n = tokens of the sequence. */
#ifndef KVSI_LENS_READOUT_H
#define KVSI_LENS_READOUT_H

#include "model/pass.h"

_Static_assert(sizeof(real) == sizeof(float), "activations are handed out as they are computed");

typedef struct kvsi_readout {
    kvsi_pass *pass; /* borrowed */
    size_t tokens;   /* n */
    size_t width;    /* widest row of q, k and v of all layers; at least dim */
    /* Host memory, [n, width] each: the layer's raw q, k and v; what is uploaded; what is
     * downloaded. */
    real *raw, *to, *from;
    /* Backend memory, allocated when it is first needed. */
    real *qkv;            /* [n, width] */
    real *mixed, *logsum; /* [n, dim] and [n, dim], outputs of the kernel */
    real *k, *v;          /* [n * width], caches */
    real *queries, *keys; /* [n, dim] of one head */
    real *products;       /* [n, n] */
} kvsi_readout;

kvs_status kvsi_readout_init(kvsi_readout *out, kvsi_pass *pass, kvs_err *err);
void kvsi_readout_release(kvsi_readout *readout);

/* Takes the raw q, k and v of a layer, for all calls below. */
kvs_status kvsi_readout_load(kvsi_readout *r, size_t layer, kvs_err *err);

/* Rows of one target (KVS_SHIFT_Q, _K, _V) as [n, heads, head_size]: raw, as the projection gives
 * them; shifted; and shifted and rotated, which are those that scores are made of (equal to the
 * shifted ones if the layer does not rotate).  Values never rotate. */
void kvsi_readout_raw(float *out, const kvsi_readout *r, size_t layer, unsigned target);
kvs_status kvsi_readout_shifted(float *shifted, float *rotated, kvsi_readout *r, size_t layer,
                                unsigned target, kvs_err *err);

/* out[heads, n, n] from the rotated rows q[n, heads, head_size] and k[n, kv_heads, head_size]:
 *     q_t . k_s * scale - slope * (t - s),  -infinity for keys that t does not see */
kvs_status kvsi_readout_scores(float *out, kvsi_readout *r, size_t layer, const float *q,
                               const float *k, kvs_err *err);
/* out[heads, n, n]: the attention weights A. */
kvs_status kvsi_readout_pattern(float *out, kvsi_readout *r, size_t layer, kvs_err *err);
/* out[heads, n, n]: A_V, the weights of the raw values in the output, from A = pattern.
 *     A_V[t, j] = sum_b tap_{j+b}[b back] A[t, j+b]
 * Channels that differ count with the mean of their taps.  The model must shift values. */
kvs_status kvsi_readout_content(float *out, kvsi_readout *r, size_t layer, const float *pattern,
                                kvs_err *err);

#endif
