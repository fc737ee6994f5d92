/* kernels/cpu/linear_exact.h - linear layers for few tokens with the bits of gemm.c, for exact
 * mode: every weight is read once, in its stored type. */
#ifndef KVSI_KERNELS_CPU_LINEAR_EXACT_H
#define KVSI_KERNELS_CPU_LINEAR_EXACT_H

#include "kernels/backend.h"
#include "kernels/cpu/level.h"

/* Whether this file has a product for weights of this type. */
static inline int exact_suits(kvsi_dtype type)
{
    return type == KVSI_F32 || type == KVSI_F16 || type == KVSI_BF16;
}

/* Rows row .. row+count-1 of the weights times n tokens: part of linear_forward. */
void LEVEL(linear_exact_rows)(float *y, const float *x, const kvsi_matrix *w, size_t n,
                              const float *residual, size_t row, size_t count);

#endif
