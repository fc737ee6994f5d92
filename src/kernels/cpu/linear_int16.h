/* kernels/cpu/linear_int16.h - linear layers for many tokens whose weights are integers, in integers.
 *
 * Inputs are rounded to 16 bits (kernels/rounding.h) and packed into panels of a few tokens;
 * weights are spread to 16 bits in panels of a few columns, block by block.  Sums over 32 inputs
 * are exact; their products with the factors of both sides are added in a fixed order.  Twice as
 * many values fit into a register as in float32. */
#ifndef KVSI_KERNELS_CPU_LINEAR_INT16_H
#define KVSI_KERNELS_CPU_LINEAR_INT16_H

#include "kernels/backend.h"
#include "kernels/cpu/level.h"

/* Whether this level has a faster way for these weights than products of float32. */
int LEVEL(int16_suits)(const kvsi_context *c, const kvsi_matrix *w);

/* As linear_forward, where it has.  The workspace of products (gemm.h) is used. */
void LEVEL(linear_int16)(const kvsi_context *c, float *y, const float *x, const kvsi_matrix *w,
                         size_t n, const float *residual);

#endif
