/* kernels/cpu/linear_exact.h - linear layers for few tokens with the bits of gemm.c: every weight
 * is read once, in its stored type.  For exact mode, and for bf16 precision in both modes. */
#ifndef KVSI_KERNELS_CPU_LINEAR_EXACT_H
#define KVSI_KERNELS_CPU_LINEAR_EXACT_H

#include "kernels/backend.h"
#include "kernels/cpu/level.h"

/* Whether this file has a product for weights of this type. */
static inline int exact_suits(kvsi_dtype type)
{
    return type == KVSI_F32 || type == KVSI_F16 || type == KVSI_BF16;
}

/* For bf16: n rows of x rounded to pairs (bf16.h); linear_exact_pairs() words. */
size_t LEVEL(linear_exact_pairs)(size_t n, size_t cols);
void LEVEL(linear_exact_round)(uint32_t *pairs, const float *x, size_t n, size_t cols);

/* Rows row .. row+count-1 of the weights times n tokens: part of linear_forward.  `pairs` is x
 * rounded, for bf16, or NULL for float32.  Rows from `last` on are not prefetched. */
void LEVEL(linear_exact_rows)(float *y, const float *x, const uint32_t *pairs, const kvsi_matrix *w,
                              size_t n, const float *residual, size_t row, size_t count,
                              size_t last);

#endif
