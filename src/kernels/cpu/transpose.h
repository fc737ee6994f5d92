/* kernels/cpu/transpose.h - to[c * ldt + r] = from[r * ldf + c], four by four; for values of any
 * type of 32 bits. */
#ifndef KVSI_KERNELS_CPU_TRANSPOSE_H
#define KVSI_KERNELS_CPU_TRANSPOSE_H

#include "kernels/cpu/vector.h"

typedef float any_float __attribute__((may_alias));
typedef float vec4 __attribute__((vector_size(16), aligned(4), may_alias));

INLINE void transpose_4x4(any_float *to, size_t ldt, const any_float *from, size_t ldf)
{
    const vec4 a = *(const vec4 *)from, b = *(const vec4 *)(from + ldf);
    const vec4 c = *(const vec4 *)(from + 2 * ldf), d = *(const vec4 *)(from + 3 * ldf);
    const vec4 ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
    const vec4 ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    const vec4 cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    const vec4 cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);

    *(vec4 *)to = __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5);
    *(vec4 *)(to + ldt) = __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7);
    *(vec4 *)(to + 2 * ldt) = __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5);
    *(vec4 *)(to + 3 * ldt) = __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7);
}

typedef float vec2 __attribute__((vector_size(8), aligned(4), may_alias));

INLINE void transpose_2x4(any_float *to, size_t ldt, const any_float *from, size_t ldf)
{
    const vec4 a = *(const vec4 *)from, b = *(const vec4 *)(from + ldf);
    const vec4 low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
    const vec4 high = __builtin_shufflevector(a, b, 2, 6, 3, 7);

    *(vec2 *)to = __builtin_shufflevector(low, low, 0, 1);
    *(vec2 *)(to + ldt) = __builtin_shufflevector(low, low, 2, 3);
    *(vec2 *)(to + 2 * ldt) = __builtin_shufflevector(high, high, 0, 1);
    *(vec2 *)(to + 3 * ldt) = __builtin_shufflevector(high, high, 2, 3);
}

INLINE void transpose(void *restrict target, size_t ldt, const void *restrict source, size_t ldf,
                      size_t rows, size_t cols)
{
    const any_float *from = source;
    any_float *to = target;
    size_t r = 0;

    for (; r + 4 <= rows; r += 4) {
        size_t c = 0;

        for (; c + 4 <= cols; c += 4)
            transpose_4x4(to + c * ldt + r, ldt, from + r * ldf + c, ldf);
        for (; c < cols; c++)
            for (size_t i = r; i < r + 4; i++)
                to[c * ldt + i] = from[i * ldf + c];
    }
    for (; r + 2 <= rows; r += 2) {
        size_t c = 0;

        for (; c + 4 <= cols; c += 4)
            transpose_2x4(to + c * ldt + r, ldt, from + r * ldf + c, ldf);
        for (; c < cols; c++)
            for (size_t i = r; i < r + 2; i++)
                to[c * ldt + i] = from[i * ldf + c];
    }
    for (; r < rows; r++)
        for (size_t c = 0; c < cols; c++)
            to[c * ldt + r] = from[r * ldf + c];
}

#endif
