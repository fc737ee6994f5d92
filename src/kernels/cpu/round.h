/* kernels/cpu/round.h - kernels/rounding.h with vectors. */
#ifndef KVSI_KERNELS_CPU_ROUND_H
#define KVSI_KERNELS_CPU_ROUND_H

#include "kernels/cpu/vector.h"
#include "kernels/rounding.h"

enum { ROUND_VECTORS = KVSI_ROUND_BLOCK / VEC };

/* Rounds one block to integers, kept as floats; returns its step, NaN if one of x is not finite. */
INLINE float round_block(vec out[ROUND_VECTORS], const float *x)
{
    const vec magic = vec_all(12582912.0f); /* 1.5 * 2^23: adding it rounds to an integer */
    vec top = {0}, nothing = {0};
    float largest, inverse;

    for (int j = 0; j < ROUND_VECTORS; j++) {
        const vec at = vec_load(x + j * VEC);

        top = vec_max((vec)((veci)at & 0x7fffffff), top);
        nothing += at * 0.0f;
    }
    largest = vec_top(top);
    inverse = largest > KVSI_ROUND_LEAST ? (float)KVSI_ROUND_TOP / largest : 0.0f;
    for (int j = 0; j < ROUND_VECTORS; j++) {
        const vec whole = (vec_load(x + j * VEC) * inverse + magic) - magic;

        out[j] = vec_select(whole == whole, whole, (vec){0});
    }
    return (inverse > 0 ? largest / (float)KVSI_ROUND_TOP : 0.0f) + vec_sum(nothing);
}

/* Rounds whole blocks of `count` values in all: out = integer * step. */
static inline void round_values(float *out, const float *x, size_t count)
{
    for (size_t i = 0; i < count; i += KVSI_ROUND_BLOCK) {
        vec whole[ROUND_VECTORS];
        const float step = round_block(whole, x + i);

        for (int j = 0; j < ROUND_VECTORS; j++)
            vec_store(out + i + j * VEC, whole[j] * step);
    }
}

#endif
