/* kernels/rounding.h - products of quantized weights are sums of integers.
 *
 * Inputs of a layer with quantized weights are rounded to integers k in blocks of 256 (the last one
 * may be shorter) with one step each, the largest magnitude / kvsi_round_top.  Weights are integers
 * too, in groups with a common factor (base/dtype.h has the letters):
 *
 *                       groups per block                         weights          factor
 *     Q8_0 Q4_0 Q5_0    one per 32 inputs                        q, q-8, q-16     d
 *     Q4_K Q5_K         one of 256 inputs                        s * q            d
 *                       one of 8 sums of 32 inputs each          -o               m
 *     Q6_K              two of 128 inputs                        s * (q - 32)     d
 *
 * The sum of a group is exact in 32 bits, so it may be computed in any order.  The rest has one
 * order, for one token and for many, so that a row of a batch has the same bits as the row alone:
 *
 *     y = residual + bias
 *     for each block:   t = 0
 *                       for each group:   t = fma((float)sum, factor, t)
 *                       y = fma(t, step, y)
 *
 * Levels without FMA round products and sums separately.  The reference has the same integers, but
 * sums in double.  The K types have inputs of 13 bits, the others of 16. */
#ifndef KVSI_KERNELS_ROUNDING_H
#define KVSI_KERNELS_ROUNDING_H

#include "base/dtype.h"

#include <math.h>

enum { KVSI_ROUND_BLOCK = 256 };

/* Blocks whose largest magnitude is below this become 0: 1 / step would overflow. */
#define KVSI_ROUND_LEAST 1e-30f

static inline int kvsi_rounds_inputs(kvsi_dtype weights)
{
    return kvsi_dtype_block(weights) > 1;
}

/* The largest rounded input.  A sum of Q6_K is at most 128 * 4095 * 128 * 32 < 2^31, one of Q5_K
 * 256 * 4095 * 63 * 31. */
static inline int kvsi_round_top(kvsi_dtype weights)
{
    return kvsi_dtype_block(weights) == KVSI_ROUND_BLOCK ? 4095 : 32767;
}

/* Rounds a block of `count` inputs; returns its step, NaN if one of x is not finite. */
static inline float kvsi_round_block(int16_t *out, const float *x, size_t count, int top)
{
    float largest = 0, sum = 0, inverse;

    for (size_t i = 0; i < count; i++) {
        largest = fabsf(x[i]) > largest ? fabsf(x[i]) : largest;
        sum += x[i] * 0.0f;
    }
    inverse = largest > KVSI_ROUND_LEAST ? (float)top / largest : 0.0f;
    for (size_t i = 0; i < count; i++)
        out[i] = sum == 0 ? (int16_t)lrintf(x[i] * inverse) : 0;
    return (inverse > 0 ? largest / (float)top : 0.0f) + sum;
}

#endif
