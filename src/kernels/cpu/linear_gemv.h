/* kernels/cpu/linear_gemv.h - linear layers for few tokens (decoding): every weight is read
 * once, in order, in its stored type. */
#ifndef KVSI_KERNELS_CPU_LINEAR_GEMV_H
#define KVSI_KERNELS_CPU_LINEAR_GEMV_H

#include "kernels/backend.h"
#include "kernels/cpu/level.h"

enum { GEMV_TOKENS_MAX = KVSI_FEW_ROWS };

/* Whether this path is used for n tokens and these weights. */
int LEVEL(gemv_suits)(const kvsi_context *c, const kvsi_matrix *w, size_t n);

/* linear_forward, if gemv_suits.  Uses the workspace of gemm.h. */
void LEVEL(linear_gemv)(const kvsi_context *c, float *y, const float *x, const kvsi_matrix *w,
                        size_t n, const float *residual);

#endif
