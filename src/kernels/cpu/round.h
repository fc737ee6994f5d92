/* kernels/cpu/round.h - kernels/rounding.h with vectors. */
#ifndef KVSI_KERNELS_CPU_ROUND_H
#define KVSI_KERNELS_CPU_ROUND_H

#include "kernels/cpu/decode.h"
#include "kernels/rounding.h"

/* Rounds a block of `count` inputs, a multiple of 32; returns its step, NaN if one of x is not
 * finite. */
INLINE float round_block(int16_t *out, const float *x, size_t count, int limit)
{
    const vec magic = vec_all(12582912.0f); /* 1.5 * 2^23: adding it rounds to an integer */
    vec top = {0}, nothing = {0};
    float largest, inverse;

    for (size_t i = 0; i < count; i += VEC) {
        const vec at = vec_load(x + i);

        top = vec_max((vec)((veci)at & 0x7fffffff), top);
        nothing += at * 0.0f;
    }
    largest = vec_top(top);
    inverse = largest > KVSI_ROUND_LEAST ? (float)limit / largest : 0.0f;
    for (size_t i = 0; i < count; i += VEC) {
        vec whole = vec_load(x + i) * inverse, safe;

        OPAQUE(whole); /* ties round as in the reference */
        whole = (whole + magic) - magic;
        safe = vec_select(whole == whole, whole, (vec){0});
        *(shorts_of_vec *)(out + i) =
            __builtin_convertvector(__builtin_convertvector(safe, veci), shorts_of_vec);
    }
    return (inverse > 0 ? largest / (float)limit : 0.0f) + vec_sum(nothing);
}

#endif
