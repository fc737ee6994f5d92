/* kernels/cpu/decode.h - weights of any type as vectors of float, a run of 32 at a time.
 *
 * A run is decoded without its scale factor, which the caller applies to sums instead: less work.
 * Types are constants at every call, so the compiler removes the branches. */
#ifndef KVSI_KERNELS_CPU_DECODE_H
#define KVSI_KERNELS_CPU_DECODE_H

#include "base/dtype.h"
#include "kernels/cpu/vector.h"

#include <string.h>
#ifdef __F16C__
#include <immintrin.h>
#endif

enum { RUN = 32, RUN_VECTORS = RUN / VEC };

/* kvsi_dtype_bytes(type, RUN), without a call. */
INLINE size_t run_bytes(kvsi_dtype type)
{
    return type == KVSI_Q4_0 ? 18 : type == KVSI_Q8_0 ? 34 : type == KVSI_F32 ? 4 * RUN : 2 * RUN;
}

typedef struct run {
    vec w[RUN_VECTORS];
    float factor;
} run;

typedef uint16_t f16_of_vec __attribute__((vector_size(2 * VEC), aligned(1), may_alias));
typedef uint8_t bytes16 __attribute__((vector_size(16), aligned(1), may_alias));
typedef int8_t signed16 __attribute__((vector_size(16), aligned(1), may_alias));
typedef int16_t shorts16 __attribute__((vector_size(32), aligned(1), may_alias));
typedef int16_t shorts_of_vec __attribute__((vector_size(2 * VEC), aligned(1), may_alias));

/* 16 signed bytes as 16 / VEC vectors; two conversions, each of which is one instruction. */
INLINE void vecs_from_bytes(vec *out, bytes16 bytes)
{
    const shorts16 wide = __builtin_convertvector((signed16)bytes, shorts16);

    for (int j = 0; j < 16 / VEC; j++) {
        shorts_of_vec part;

        memcpy(&part, (const int16_t *)&wide + j * VEC, sizeof part);
        out[j] = __builtin_convertvector(__builtin_convertvector(part, veci), vec);
    }
}

INLINE veci vec_widen(const void *halves)
{
    return __builtin_convertvector(*(const f16_of_vec *)halves, veci);
}

/* The exponent is adjusted by a multiplication, which is exact, also for subnormals.  Infinity,
 * which weights do not have, becomes 65536. */
INLINE vec vec_from_f16(const void *at)
{
#ifdef __F16C__
    const __m128i *halves = at;
    vec out;

    for (int j = 0; j < VEC / 8; j++)
        _mm256_storeu_ps((float *)&out + 8 * j, _mm256_cvtph_ps(_mm_loadu_si128(halves + j)));
    return out;
#else
    const veci bits = vec_widen(at);
    const vec magnitude = (vec)((bits & 0x7fff) << 13) * 0x1p112f;

    return (vec)((veci)magnitude | (bits & 0x8000) << 16);
#endif
}

INLINE float one_from_f16(const void *at)
{
    uint16_t half;
    uint32_t bits;
    float value;

    memcpy(&half, at, sizeof half);
    bits = (uint32_t)(half & 0x7fff) << 13;
    memcpy(&value, &bits, sizeof value);
    value *= 0x1p112f;
    return half & 0x8000 ? -value : value;
}

INLINE run run_from_q4_0(const unsigned char *at)
{
    const bytes16 both = *(const bytes16 *)(at + 2);
    run r = {.factor = one_from_f16(at)};

    vecs_from_bytes(r.w, (both & 15) - 8);
    vecs_from_bytes(r.w + RUN_VECTORS / 2, (both >> 4) - 8);
    return r;
}

INLINE run run_from_q8_0(const unsigned char *at)
{
    run r = {.factor = one_from_f16(at)};

    vecs_from_bytes(r.w, *(const bytes16 *)(at + 2));
    vecs_from_bytes(r.w + RUN_VECTORS / 2, *(const bytes16 *)(at + 2 + RUN / 2));
    return r;
}

INLINE run decode_run(kvsi_dtype type, const unsigned char *at)
{
    run r = {.factor = 1.0f};

    if (type == KVSI_Q4_0)
        return run_from_q4_0(at);
    if (type == KVSI_Q8_0)
        return run_from_q8_0(at);
    for (int j = 0; j < RUN_VECTORS; j++)
        r.w[j] = type == KVSI_F16    ? vec_from_f16(at + 2 * j * VEC)
                 : type == KVSI_BF16 ? (vec)(vec_widen(at + 2 * j * VEC) << 16)
                                     : vec_load((const float *)(const void *)at + j * VEC);
    return r;
}

/* Values from .. from+count-1 of a row; both bounds are multiples of RUN or the end of the row. */
INLINE void decode_values(float *out, kvsi_dtype type, const void *row, size_t from, size_t count)
{
    const unsigned char *at = (const unsigned char *)row + kvsi_dtype_bytes(type, from);
    const size_t whole = type == KVSI_Q4_K ? 0 : count / RUN * RUN;

    for (size_t i = 0; i < whole; i += RUN, at += run_bytes(type)) {
        const run r = decode_run(type, at);

        for (int j = 0; j < RUN_VECTORS; j++)
            vec_store(out + i + j * VEC, r.w[j] * r.factor);
    }
    if (whole < count) /* a type without runs, or the rest of a row */
        kvsi_dtype_decode(out + whole, type, at, count - whole);
}

/* The same for a type known at run time. */
static inline void decode_row(float *out, kvsi_dtype type, const void *row, size_t from,
                              size_t count)
{
    switch (type) {
    case KVSI_F16:
        decode_values(out, KVSI_F16, row, from, count);
        break;
    case KVSI_BF16:
        decode_values(out, KVSI_BF16, row, from, count);
        break;
    case KVSI_Q8_0:
        decode_values(out, KVSI_Q8_0, row, from, count);
        break;
    case KVSI_Q4_0:
        decode_values(out, KVSI_Q4_0, row, from, count);
        break;
    case KVSI_Q4_K:
        decode_values(out, KVSI_Q4_K, row, from, count);
        break;
    default:
        decode_values(out, KVSI_F32, row, from, count);
    }
}

#endif
