/* kernels/cpu/linear_int16.h - linear layers with quantized weights for any number of tokens, with
 * the order of summation of kernels/rounding.h.
 *
 * Inputs are rounded to 16 bits and packed into panels of a few tokens; weights are unpacked to 16
 * bits in panels of a few columns, one block of inputs at a time.  Scales of the K types are
 * multiplied into the unpacked weights, so that a whole group is one integer sum. */
#ifndef KVSI_KERNELS_CPU_LINEAR_INT16_H
#define KVSI_KERNELS_CPU_LINEAR_INT16_H

#include "kernels/backend.h"
#include "kernels/cpu/level.h"

/* linear_forward for quantized weights with at least one column.  Uses the workspace of gemm.h. */
void LEVEL(linear_int16)(const kvsi_context *c, float *y, const float *x, const kvsi_matrix *w,
                         size_t n, const float *residual);

#endif
