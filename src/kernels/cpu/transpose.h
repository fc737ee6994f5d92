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

#if VEC_BYTES == 64 && defined __AVX512F__
typedef float vec16 __attribute__((vector_size(64), aligned(4), may_alias));

/* 16 x 16 values in registers: first within groups of four columns, then the groups. */
INLINE void transpose_16x16(any_float *restrict to, size_t ldt, const any_float *restrict from,
                            size_t ldf)
{
    vec16 a[16], b[16];

#define LOW(x, y)                                                                                  \
    __builtin_shufflevector(x, y, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29)
#define HIGH(x, y)                                                                                 \
    __builtin_shufflevector(x, y, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31)
#define LOW_PAIRS(x, y)                                                                            \
    __builtin_shufflevector(x, y, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29)
#define HIGH_PAIRS(x, y)                                                                           \
    __builtin_shufflevector(x, y, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31)
#define EVEN_GROUPS(x, y)                                                                          \
    __builtin_shufflevector(x, y, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27)
#define ODD_GROUPS(x, y)                                                                           \
    __builtin_shufflevector(x, y, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31)
#pragma GCC unroll 8
    for (size_t i = 0; i < 16; i += 2) {
        const vec16 x = *(const vec16 *)(from + ldf * i);
        const vec16 y = *(const vec16 *)(from + ldf * (i + 1));

        a[i] = LOW(x, y);
        a[i + 1] = HIGH(x, y);
    }
#pragma GCC unroll 4
    for (size_t i = 0; i < 16; i += 4) { /* b[i + c] has columns c, c + 4, ... of rows i to i + 3 */
        b[i] = LOW_PAIRS(a[i], a[i + 2]);
        b[i + 1] = HIGH_PAIRS(a[i], a[i + 2]);
        b[i + 2] = LOW_PAIRS(a[i + 1], a[i + 3]);
        b[i + 3] = HIGH_PAIRS(a[i + 1], a[i + 3]);
    }
#pragma GCC unroll 4
    for (size_t c = 0; c < 4; c++) {
        const vec16 even_above = EVEN_GROUPS(b[c], b[c + 4]),
                    odd_above = ODD_GROUPS(b[c], b[c + 4]);
        const vec16 even_below = EVEN_GROUPS(b[c + 8], b[c + 12]);
        const vec16 odd_below = ODD_GROUPS(b[c + 8], b[c + 12]);

        *(vec16 *)(to + ldt * c) = EVEN_GROUPS(even_above, even_below);
        *(vec16 *)(to + ldt * (c + 4)) = EVEN_GROUPS(odd_above, odd_below);
        *(vec16 *)(to + ldt * (c + 8)) = ODD_GROUPS(even_above, even_below);
        *(vec16 *)(to + ldt * (c + 12)) = ODD_GROUPS(odd_above, odd_below);
    }
#undef LOW
#undef HIGH
#undef LOW_PAIRS
#undef HIGH_PAIRS
#undef EVEN_GROUPS
#undef ODD_GROUPS
}
#endif

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
