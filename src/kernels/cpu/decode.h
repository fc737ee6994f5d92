/* kernels/cpu/decode.h - weights as vectors of float, and the parts of quantized blocks.
 *
 * Plain types and Q8_0 (a cache may have it) are decoded in runs of 32; types are constants at
 * every call, so the compiler removes the branches.  Products with quantized weights do not need
 * their floats (kernels/rounding.h). */
#ifndef KVSI_KERNELS_CPU_DECODE_H
#define KVSI_KERNELS_CPU_DECODE_H

#include "base/dtype.h"
#include "kernels/cpu/vector.h"

#include <string.h>
#ifdef __F16C__
#include <immintrin.h>
#endif

enum { RUN = 32, RUN_VECTORS = RUN / VEC };

/* kvsi_dtype_bytes(type, RUN) of a plain type or Q8_0, without a call. */
INLINE size_t run_bytes(kvsi_dtype type)
{
    return type == KVSI_F32 ? 4 * RUN : type == KVSI_Q8_0 ? 34 : 2 * RUN;
}

/* Bytes of a quantized block, without a call. */
INLINE size_t block_bytes(kvsi_dtype type)
{
    return type == KVSI_Q8_0   ? 34
           : type == KVSI_Q4_0 ? 18
           : type == KVSI_Q5_0 ? 22
           : type == KVSI_Q4_K ? 144
           : type == KVSI_Q5_K ? 176
                               : 210;
}

/* Whether the blocks have 256 values and scales of their own. */
INLINE int has_k_blocks(kvsi_dtype type)
{
    return type == KVSI_Q4_K || type == KVSI_Q5_K || type == KVSI_Q6_K;
}

typedef struct run {
    vec w[RUN_VECTORS];
} run;

typedef uint16_t f16_of_vec __attribute__((vector_size(2 * VEC), aligned(1), may_alias));
typedef int16_t shorts_of_vec __attribute__((vector_size(2 * VEC), aligned(1), may_alias));

INLINE veci vec_widen(const void *halves)
{
    return __builtin_convertvector(*(const f16_of_vec *)halves, veci);
}

/* The F16 in the low half of each lane.  Subnormals, which are normal floats, are integers times
 * 2^-24; no float is subnormal on the way, because products in bf16 flush those.  Infinity, which
 * weights do not have, becomes 65536. */
INLINE vec vec_from_f16_bits(veci bits)
{
    const veci magnitude = bits & 0x7fff;
    const vec small = __builtin_convertvector(magnitude, vec) * 0x1p-24f;
    const vec value = vec_select(magnitude < 0x400, small, (vec)((magnitude << 13) + (112 << 23)));

    return (vec)((veci)value | (bits & 0x8000) << 16);
}

INLINE vec vec_from_f16(const void *at)
{
#if defined __AVX512F__ && VEC_BYTES == 64
    return (vec)_mm512_cvtph_ps(_mm256_loadu_si256(at));
#elif defined __F16C__
    const __m128i *halves = at;
    vec out;

    for (int j = 0; j < VEC / 8; j++)
        _mm256_storeu_ps((float *)&out + 8 * j, _mm256_cvtph_ps(_mm_loadu_si128(halves + j)));
    return out;
#else
    return vec_from_f16_bits(vec_widen(at));
#endif
}

/* The F16 in the low half of each lane, whatever the high halves are. */
INLINE vec vec_from_f16_lanes(veci lanes)
{
#ifdef __F16C__
    const f16_of_vec halves = __builtin_convertvector(lanes, f16_of_vec);

    return vec_from_f16(&halves);
#else
    return vec_from_f16_bits(lanes);
#endif
}

/* The F16 at `at`; infinity and NaN stay what they are. */
INLINE float one_from_f16(const void *at)
{
    uint16_t half;

    memcpy(&half, at, sizeof half);
#ifdef __F16C__
    return _cvtsh_ss(half);
#else
    return kvsi_f16_to_float(half);
#endif
}

/* The eight scales and offsets of a block of Q4_K or Q5_K (base/dtype.c), one per byte. */
INLINE void k_scales(uint64_t *scales, uint64_t *offsets, const unsigned char *packed)
{
    uint32_t a, b, c;

    memcpy(&a, packed, sizeof a);
    memcpy(&b, packed + 4, sizeof b);
    memcpy(&c, packed + 8, sizeof c);
    *scales = (a & 0x3f3f3f3f) | (uint64_t)((c & 0x0f0f0f0f) | (a >> 2 & 0x30303030)) << 32;
    *offsets = (b & 0x3f3f3f3f) | (uint64_t)((c >> 4 & 0x0f0f0f0f) | (b >> 2 & 0x30303030)) << 32;
}

INLINE run run_from_q8_0(const unsigned char *at)
{
    typedef int8_t bytes_of_vec __attribute__((vector_size(VEC), aligned(1), may_alias));
    const float factor = one_from_f16(at);
    run r;

    for (int j = 0; j < RUN_VECTORS; j++) {
        /* By way of 16 bits: GCC 12 has no vector instructions for the whole way. */
        const shorts_of_vec shorts =
            __builtin_convertvector(*(const bytes_of_vec *)(at + 2 + j * VEC), shorts_of_vec);

        r.w[j] = __builtin_convertvector(__builtin_convertvector(shorts, veci), vec) * factor;
    }
    return r;
}

INLINE run decode_run(kvsi_dtype type, const unsigned char *at)
{
    run r;

    if (type == KVSI_Q8_0)
        return run_from_q8_0(at);
    for (int j = 0; j < RUN_VECTORS; j++)
        r.w[j] = type == KVSI_F16    ? vec_from_f16(at + 2 * j * VEC)
                 : type == KVSI_BF16 ? (vec)(vec_widen(at + 2 * j * VEC) << 16)
                                     : vec_load((const float *)(const void *)at + j * VEC);
    return r;
}

/* Values from .. from+count-1 of a row of a plain type or of Q8_0. */
INLINE void decode_values(float *out, kvsi_dtype type, const void *row, size_t from, size_t count)
{
    const unsigned char *at = (const unsigned char *)row + kvsi_dtype_bytes(type, from);
    const size_t whole = count / RUN * RUN;

    for (size_t i = 0; i < whole; i += RUN, at += run_bytes(type)) {
        const run r = decode_run(type, at);

        for (int j = 0; j < RUN_VECTORS; j++)
            vec_store(out + i + j * VEC, r.w[j]);
    }
    if (whole < count)
        kvsi_dtype_decode(out + whole, type, at, count - whole);
}

/* The same for a type known at run time; `from` and `count` are whole blocks. */
static inline void decode_row(float *out, kvsi_dtype type, const void *row, size_t from,
                              size_t count)
{
    switch (type) {
    case KVSI_F32:
        decode_values(out, KVSI_F32, row, from, count);
        break;
    case KVSI_F16:
        decode_values(out, KVSI_F16, row, from, count);
        break;
    case KVSI_BF16:
        decode_values(out, KVSI_BF16, row, from, count);
        break;
    case KVSI_Q8_0:
        decode_values(out, KVSI_Q8_0, row, from, count);
        break;
    default:
        kvsi_dtype_decode(out, type, (const unsigned char *)row + kvsi_dtype_bytes(type, from),
                          count);
    }
}

#endif
