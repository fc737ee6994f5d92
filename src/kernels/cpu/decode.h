/* kernels/cpu/decode.h - weights of any type as vectors of float, a run of 32 at a time.
 *
 * A run is decoded but for a common factor, which the caller applies to sums instead: that is less
 * work.  Types are constants at every call, so the switch vanishes. */
#ifndef KVSI_KERNELS_CPU_DECODE_H
#define KVSI_KERNELS_CPU_DECODE_H

#include "base/dtype.h"
#include "kernels/cpu/vector.h"

#include <string.h>

enum { RUN = 32, RUN_VECTORS = RUN / VEC };

typedef struct run {
    vec w[RUN_VECTORS];
    float factor;
} run;

typedef int8_t bytes_of_vec __attribute__((vector_size(VEC), aligned(1), may_alias));
typedef uint16_t halves_of_vec __attribute__((vector_size(2 * VEC), aligned(1), may_alias));
typedef uint8_t bytes16 __attribute__((vector_size(16), aligned(1), may_alias));

INLINE vec vec_from_bytes(const void *at)
{
    return __builtin_convertvector(__builtin_convertvector(*(const bytes_of_vec *)at, veci), vec);
}

INLINE veci vec_widen(const void *halves)
{
    return __builtin_convertvector(*(const halves_of_vec *)halves, veci);
}

/* The exponent is moved by a product, which is exact and right for subnormal numbers too; infinite
 * ones, which no weight is, come out as 65536 and more. */
INLINE vec vec_from_f16(const void *at)
{
    const veci bits = vec_widen(at);
    const vec magnitude = (vec)((bits & 0x7fff) << 13) * 0x1p112f;

    return (vec)((veci)magnitude | (bits & 0x8000) << 16);
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
    bytes16 numbers[2] = {(both & 15) - 8, (both >> 4) - 8};
    run r = {.factor = one_from_f16(at)};

    for (int j = 0; j < RUN_VECTORS; j++)
        r.w[j] = vec_from_bytes((const char *)numbers + j * VEC);
    return r;
}

INLINE run decode_run(kvsi_dtype type, const unsigned char *at)
{
    run r = {.factor = 1.0f};

    if (type == KVSI_Q4_0)
        return run_from_q4_0(at);
    if (type == KVSI_Q8_0)
        r.factor = one_from_f16(at);
    for (int j = 0; j < RUN_VECTORS; j++)
        r.w[j] = type == KVSI_Q8_0   ? vec_from_bytes(at + 2 + j * VEC)
                 : type == KVSI_F16  ? vec_from_f16(at + 2 * j * VEC)
                 : type == KVSI_BF16 ? (vec)(vec_widen(at + 2 * j * VEC) << 16)
                                     : vec_load((const float *)(const void *)at + j * VEC);
    return r;
}

/* `count` numbers from number `from` on of a row, both whole runs or up to the row's end. */
INLINE void decode_numbers(float *out, kvsi_dtype type, const void *row, size_t from, size_t count)
{
    const unsigned char *at = (const unsigned char *)row + kvsi_dtype_bytes(type, from);
    const size_t whole = type == KVSI_Q4_K ? 0 : count / RUN * RUN;

    for (size_t i = 0; i < whole; i += RUN, at += kvsi_dtype_bytes(type, RUN)) {
        const run r = decode_run(type, at);

        for (int j = 0; j < RUN_VECTORS; j++)
            vec_store(out + i + j * VEC, r.w[j] * r.factor);
    }
    if (whole < count) /* a type without runs, or the last few of a row */
        kvsi_dtype_decode(out + whole, type, at, count - whole);
}

/* The same for a type that is no constant. */
static inline void decode_row(float *out, kvsi_dtype type, const void *row, size_t from,
                              size_t count)
{
    switch (type) {
    case KVSI_F16:
        decode_numbers(out, KVSI_F16, row, from, count);
        break;
    case KVSI_BF16:
        decode_numbers(out, KVSI_BF16, row, from, count);
        break;
    case KVSI_Q8_0:
        decode_numbers(out, KVSI_Q8_0, row, from, count);
        break;
    case KVSI_Q4_0:
        decode_numbers(out, KVSI_Q4_0, row, from, count);
        break;
    case KVSI_Q4_K:
        decode_numbers(out, KVSI_Q4_K, row, from, count);
        break;
    default:
        decode_numbers(out, KVSI_F32, row, from, count);
    }
}

#endif
