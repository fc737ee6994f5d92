/* kernels/cpu/pair_dots.h - dot products of rows of a matrix with a few vectors, of operands that
 * are rounded to bfloat16, in the order of the level's unit for bf16 (unit_bf16.c, tiles.h): the
 * bits are those of a product by gemm.c.
 *
 * Lane r of a sum belongs to row r of VEC rows, as in row_dots.h.  Vectors are given as pairs
 * (bf16.h), padded with zeros to whole runs. */
#ifndef KVSI_KERNELS_CPU_PAIR_DOTS_H
#define KVSI_KERNELS_CPU_PAIR_DOTS_H

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/row_dots.h"

enum { RUN_PAIRS = RUN / 2 };

/* Words of a vector of `cols` values. */
INLINE size_t pair_words(size_t cols)
{
    return (cols + RUN - 1) / RUN * RUN_PAIRS;
}

/* What computes a product of pairs. */
typedef enum pair_product { BY_F32, BY_VDPBF16PS } pair_product;

/* ---- pairs of rows ---- */

/* Pairs that one call of load_row_pairs makes. */
INLINE size_t row_pairs_of(kvsi_dtype type)
{
    return type == KVSI_F32 ? 2 : 4;
}

#ifdef __AVX512VL__
/* Eight F16 values, which are normal floats, rounded to bfloat16 by the processor. */
INLINE __m128 round_f16(const unsigned char *at)
{
    const __m256 values = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)at));
    __m128 rounded;

    __asm__("vcvtneps2bf16 %1, %0" : "=v"(rounded) : "v"(values));
    return rounded;
}

/* load_lanes of F16 values that are rounded to bfloat16. */
INLINE vec load_rounded_lanes(matrix_rows rows)
{
    unsigned char lanes[VEC / 4][16];

    for (size_t i = 0; i < VEC / 4; i++) {
        const __m128 lane = round_f16(rows.at + 4 * i * rows.bytes);

        memcpy(lanes[i], &lane, sizeof lane);
    }
    return load_lanes((matrix_rows){lanes[0], sizeof lanes[0] / 4});
}
#endif

/* pairs[p] = pair p of VEC rows of type F32, F16 or BF16. */
INLINE void load_row_pairs(veci *pairs, kvsi_dtype type, pair_product by, matrix_rows rows)
{
    vec v[4];

    (void)by;
#ifdef __AVX512VL__
    if (type == KVSI_F16 && by == BY_VDPBF16PS) {
        for (int i = 0; i < 4; i++, rows.at += rows.bytes)
            v[i] = load_rounded_lanes(rows);
        type = KVSI_BF16;
    } else
#endif
        for (int i = 0; i < 4; i++, rows.at += rows.bytes)
            v[i] = load_lanes(rows);
    transpose_lanes(v);
    for (int i = 0; type == KVSI_F32 && i < 2; i++)
        pairs[i] = (veci)bf16_vec_pairs(v[2 * i], v[2 * i + 1]);
    for (int i = 0; type != KVSI_F32 && i < 4; i++)
        pairs[i] = type == KVSI_BF16
                       ? (veci)v[i]
                       : (veci)bf16_vec_pairs(low_values(type, v[i]), high_values(type, v[i]));
}

/* ---- sums ---- */

/* Tiles sum the even and the odd values of a run separately, and then add both to the total. */
#ifdef KVSI_TILES
enum { RUN_IS_APART = 1 };
#else
enum { RUN_IS_APART = 0 };
#endif

/* Adds one pair of each lane. */
INLINE void add_pair(pair_product by, vec *sum, vec *odd_sum, veci x, veci y)
{
    const vec x_odd = (vec)(x & (int32_t)0xffff0000), y_odd = (vec)(y & (int32_t)0xffff0000);
    const vec x_even = (vec)(x << 16), y_even = (vec)(y << 16);

#ifdef __AVX512VL__
    if (!RUN_IS_APART && by == BY_VDPBF16PS) {
        __asm__("vdpbf16ps %2, %1, %0" : "+v"(*sum) : "v"(x), "v"(y));
        return;
    }
#endif
    (void)by;
    if (RUN_IS_APART)
        *odd_sum = vec_multiply_add(x_odd, y_odd, *odd_sum);
    else
        *sum = vec_multiply_add(x_odd, y_odd, *sum);
    *sum = vec_multiply_add(x_even, y_even, *sum);
}

INLINE veci all_pairs(uint32_t pair)
{
    return (int32_t)pair - (veci){0};
}

/* The sum after a run. */
INLINE vec run_total(vec before, vec now, vec odd)
{
    if (RUN_IS_APART)
        return before + (now + odd);
    return now;
}

/* Adds a run of `groups` groups of rows to sums.  All but the pointers and strides are constants at
 * every call. */
INLINE void add_run(kvsi_dtype type, pair_product by, size_t groups, size_t count,
                    vec sums[ROW_GROUPS][ROW_DOTS_MAX], matrix_rows rows, const uint32_t *x,
                    size_t x_stride)
{
    const size_t step = row_pairs_of(type), bytes = step * (type == KVSI_F32 ? 8 : 4);
    vec now[ROW_GROUPS][ROW_DOTS_MAX] = {{{0}}}, odd[ROW_GROUPS][ROW_DOTS_MAX] = {{{0}}};

    for (size_t g = 0; !RUN_IS_APART && g < groups; g++)
        for (size_t t = 0; t < count; t++)
            now[g][t] = sums[g][t];
#pragma GCC unroll 1
    for (size_t p = 0; p < RUN_PAIRS; p += step, rows.at += bytes)
        for (size_t g = 0; g < groups; g++) {
            veci y[4];

            load_row_pairs(y, type, by, (matrix_rows){rows.at + g * VEC * rows.bytes, rows.bytes});
            for (size_t j = 0; j < step; j++)
                for (size_t t = 0; t < count; t++)
                    add_pair(by, &now[g][t], &odd[g][t], all_pairs(x[t * x_stride + p + j]), y[j]);
        }
    for (size_t g = 0; g < groups; g++)
        for (size_t t = 0; t < count; t++)
            sums[g][t] = run_total(sums[g][t], now[g][t], odd[g][t]);
}

/* Columns from .. to-1, at most a run, of `count` rows, at most VEC; other rows are 0.  Values that
 * a run lacks are 0: tiles multiply them too. */
static __attribute__((noinline, unused)) vec add_part(vec sum, kvsi_dtype type, matrix_rows rows,
                                                      size_t count, const uint32_t *x, size_t from,
                                                      size_t to)
{
    const size_t pairs = RUN_IS_APART ? RUN_PAIRS : (to - from + 1) / 2;
    float values[RUN], columns[RUN][VEC] = {{0}};
    vec now = {0}, odd = {0};

    if (!RUN_IS_APART)
        now = sum;
    for (size_t r = 0; r < count; r++) {
        decode_row(values, type, rows.at + r * rows.bytes, from, to - from);
        for (size_t i = 0; i < to - from; i++)
            columns[i][r] = values[i];
    }
    for (size_t p = 0; p < pairs; p++)
        add_pair(BY_F32, &now, &odd, all_pairs(x[from / 2 + p]),
                 (veci)bf16_vec_pairs(vec_load(columns[2 * p]), vec_load(columns[2 * p + 1])));
    return run_total(sum, now, odd);
}

/* Adds the products of the columns from .. to-1 of `groups` groups of rows to sums.  The type, by,
 * groups and count are constants at every call; `from` is a multiple of RUN, and so is `to` unless
 * the rows end there.  `next` is prefetched unless it is NULL. */
INLINE void add_pair_columns(kvsi_dtype type, pair_product by, size_t groups, size_t count,
                             vec sums[ROW_GROUPS][ROW_DOTS_MAX], matrix_rows rows,
                             const uint32_t *x, size_t x_stride, size_t from, size_t to,
                             const unsigned char *next)
{
    const size_t bytes = type == KVSI_F32 ? 4 : 2, group = VEC * rows.bytes;
    size_t i = from;

    for (; i + RUN <= to; i += RUN) {
        for (size_t line = 0; next && line < groups * VEC * RUN * bytes; line += LINE)
            __builtin_prefetch(next + i * bytes * groups * VEC + line, 0, 2);
        add_run(type, by, groups, count, sums, (matrix_rows){rows.at + i * bytes, rows.bytes},
                x + i / 2, x_stride);
    }
    for (size_t g = 0; i < to && g < groups; g++)
        for (size_t t = 0; t < count; t++)
            sums[g][t] = add_part(sums[g][t], type, (matrix_rows){rows.at + g * group, rows.bytes},
                                  VEC, x + t * x_stride, i, to);
}

#endif
