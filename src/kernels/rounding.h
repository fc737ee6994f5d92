/* kernels/rounding.h - integer inputs for layers with integer weights.
 *
 * Inputs of a layer whose weights are Q8_0 or Q4_0 are rounded to 16 bits in blocks of 32 with one
 * step each, the largest magnitude / 32767.  Products are then summed as integers, and every path
 * (one token or many, reference or fast) multiplies the same values.  The rounding error is about
 * that of a few float32 operations, far below that of the weights. */
#ifndef KVSI_KERNELS_ROUNDING_H
#define KVSI_KERNELS_ROUNDING_H

#include "base/dtype.h"

#include <math.h>

enum { KVSI_ROUND_BLOCK = 32, KVSI_ROUND_TOP = 32767 };

/* Blocks whose largest magnitude is below this become 0: 1 / step would overflow. */
#define KVSI_ROUND_LEAST 1e-30f

static inline int kvsi_rounds_inputs(kvsi_dtype weights)
{
    return weights == KVSI_Q8_0 || weights == KVSI_Q4_0;
}

/* Rounds one block; returns its step, NaN if one of x is not finite. */
static inline float kvsi_round_block(int16_t out[KVSI_ROUND_BLOCK], const float *x)
{
    float top = 0, sum = 0, inverse;

    for (int i = 0; i < KVSI_ROUND_BLOCK; i++) {
        top = fabsf(x[i]) > top ? fabsf(x[i]) : top;
        sum += x[i] * 0.0f;
    }
    inverse = top > KVSI_ROUND_LEAST ? (float)KVSI_ROUND_TOP / top : 0.0f;
    for (int i = 0; i < KVSI_ROUND_BLOCK; i++)
        out[i] = sum == 0 ? (int16_t)lrintf(x[i] * inverse) : 0;
    return (inverse > 0 ? top / (float)KVSI_ROUND_TOP : 0.0f) + sum;
}

#endif
