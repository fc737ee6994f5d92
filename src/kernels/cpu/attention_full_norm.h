/* kernels/cpu/attention_full_norm.h - the norm of all heads of q, and of all heads of k, together
 * (KVSI_QK_NORM_FULL).  A row's sums over all heads are needed before any head can be normalised:
 * each head's part is computed first, and the parts are added in order. */
#ifndef KVSI_KERNELS_CPU_ATTENTION_FULL_NORM_H
#define KVSI_KERNELS_CPU_ATTENTION_FULL_NORM_H

#include "kernels/cpu/attention.h"

/* Computes w->inverses, from w->taps. */
void LEVEL(full_norm_forward)(kvsi_context *c, const work *w, const float *qkv,
                              const kvsi_attention *a);
/* Computes w->pulls, from w->d_q, w->d_k and w->inverses. */
void LEVEL(full_norm_backward)(kvsi_context *c, const work *w, const float *qkv,
                               const kvsi_attention *a);

#endif
