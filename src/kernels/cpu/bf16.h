/* kernels/cpu/bf16.h - float32 values rounded to bfloat16, as operands of products.
 *
 * Operands are stored in pairs along k, as the instructions take them: one 32-bit word has the
 * value of an even k in its low half and that of the odd k after it in its high half. */
#ifndef KVSI_KERNELS_CPU_BF16_H
#define KVSI_KERNELS_CPU_BF16_H

#include "kernels/cpu/vector.h"

#include <float.h>
#include <string.h>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

/* x rounded to nearest, ties to even, as the bits of a float whose low half is to be ignored; NaN
 * stays NaN. */
INLINE uint32_t bf16_bits(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return (bits & 0x7fffffff) > 0x7f800000 ? bits | 0x400000 : bits + 0x7fff + (bits >> 16 & 1);
}

/* The same for an operand of a product.  At levels with tiles denormals become 0 before they are
 * rounded, as in VCVTNE2PS2BF16; elsewhere the products take them as 0. */
INLINE uint32_t bf16_operand(float x)
{
#ifdef KVSI_TILES
    x = x > -FLT_MIN && x < FLT_MIN ? 0.0f * x : x;
#endif
    return bf16_bits(x);
}

typedef uint32_t vecu __attribute__((vector_size(VEC_BYTES), aligned(4), may_alias));

/* The same for operands in the lanes of a vector. */
INLINE vecu bf16_vec(vec x)
{
    const vecu nan = (vecu)(x != x);
    vecu bits = (vecu)x;

#ifdef KVSI_TILES
    bits &= (vecu)((bits & 0x7f800000) != 0) | 0x80000000;
#endif
    return (nan & (bits | 0x400000)) | (~nan & (bits + 0x7fff + (bits >> 16 & 1)));
}

/* Pairs of the lanes of two vectors. */
INLINE vecu bf16_vec_pairs(vec even, vec odd)
{
#if defined __AVX512BF16__ && VEC_BYTES == 64
    const __m512i order =
        _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                         21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);

    return (vecu)_mm512_permutexvar_epi16(order,
                                          (__m512i)_mm512_cvtne2ps_pbh((__m512)odd, (__m512)even));
#else
    return bf16_vec(even) >> 16 | (bf16_vec(odd) & 0xffff0000);
#endif
}

/* Pairs along x: `count` values; the last pair of an odd count ends with 0. */
INLINE void bf16_pairs_along(uint32_t *restrict out, const float *restrict x, size_t count)
{
    typedef uint16_t half __attribute__((may_alias));
    half *values = (half *)out;

    for (size_t p = 0; p < count; p++)
        values[p] = (uint16_t)(bf16_operand(x[p]) >> 16);
    if (count % 2)
        values[count] = 0;
}

/* Pairs of two rows: `width` columns. */
INLINE void bf16_pairs_across(uint32_t *restrict out, const float *restrict even,
                              const float *restrict odd, size_t width)
{
    for (size_t i = 0; i < width; i++)
        out[i] = bf16_operand(even[i]) >> 16 | (bf16_operand(odd[i]) & 0xffff0000);
}

/* The instructions on bfloat16 take denormal operands as 0 and flush denormal results to 0,
 * whatever the control register says.  This makes other instructions do the same; it returns the
 * state to restore.  Processors other than x86 have no such state here. */
static inline unsigned flush_denormals(void)
{
#ifdef __SSE__
    enum { DENORMALS_ARE_ZERO = 0x40, FLUSH_TO_ZERO = 0x8000 };
    const unsigned state = _mm_getcsr();

    _mm_setcsr(state | DENORMALS_ARE_ZERO | FLUSH_TO_ZERO);
    return state;
#else
    return 0;
#endif
}

static inline void restore_denormals(unsigned state)
{
#ifdef __SSE__
    _mm_setcsr(state);
#else
    (void)state;
#endif
}

#endif
