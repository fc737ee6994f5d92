/* kernels/cpu/linear_int16.h - linear layers with Q8_0 or Q4_0 weights for many tokens.
 *
 * Inputs are rounded to 16 bits (kernels/rounding.h) and packed into panels of a few tokens;
 * weights are unpacked to 16 bits in panels of a few columns, block by block.  Sums over a block of
 * 32 are exact integers; they are multiplied with both factors and added in a fixed order.  A
 * register holds twice as many values as with float32. */
#ifndef KVSI_KERNELS_CPU_LINEAR_INT16_H
#define KVSI_KERNELS_CPU_LINEAR_INT16_H

#include "kernels/backend.h"
#include "kernels/cpu/level.h"

/* Whether this path exists at this level and suits these weights. */
int LEVEL(int16_suits)(const kvsi_context *c, const kvsi_matrix *w);

/* linear_forward, if int16_suits.  Uses the workspace of gemm.h. */
void LEVEL(linear_int16)(const kvsi_context *c, float *y, const float *x, const kvsi_matrix *w,
                         size_t n, const float *residual);

#endif
