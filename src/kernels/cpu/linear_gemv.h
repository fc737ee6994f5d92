/* kernels/cpu/linear_gemv.h - linear layers for a few tokens, as when decoding: every weight is read once,
 * in order, in the type it is stored in. */
#ifndef KVSI_KERNELS_CPU_LINEAR_GEMV_H
#define KVSI_KERNELS_CPU_LINEAR_GEMV_H

#include "kernels/backend.h"
#include "kernels/cpu/level.h"

enum { GEMV_TOKENS_MAX = 8 };

/* Whether n tokens are few, for these weights. */
int LEVEL(gemv_suits)(const kvsi_context *c, const kvsi_matrix *w, size_t n);

/* As linear_forward, where they are few.  The workspace of products (gemm.h) is used. */
void LEVEL(linear_gemv)(const kvsi_context *c, float *y, const float *x, const kvsi_matrix *w,
                        size_t n, const float *residual);

#endif
