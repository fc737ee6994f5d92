/* Products of operands rounded to bfloat16.  For each pair (2p, 2p + 1) of values of k, in order,
 *
 *     sum = fma(a[2p + 1], b[2p + 1], sum);  sum = fma(a[2p], b[2p], sum)
 *
 * without denormals.  This is what VDPBF16PS computes, on Intel and on AMD.  Where the processor
 * does not have it, the same bits come from float32: a product of two bfloat16 values is exact. */
#ifndef KVSI_TILES

#include "kernels/cpu/pair_dots.h"
#include "kernels/cpu/unit.h"

#ifdef __AVX512VL__
#include <immintrin.h>
#endif

/* VDPBF16PS has a latency of six cycles on Zen 4, which starts two per cycle. */
#ifdef __AVX512VL__
enum { ROWS = 12 };
#else
enum { ROWS = 6 };
#endif
enum { VECTORS = 2, COLS = VECTORS * VEC, DEPTH = UNIT_BF16_DEPTH };

/* panel[p * width + i] = pair p of row i; `width` is a constant at every call */
INLINE void pack(uint32_t *restrict panel, matrix_view v, size_t width, size_t count, size_t depth)
{
    const size_t pairs = (depth + 1) / 2;

    if (v.col == 1) {
        uint32_t rounded[UNIT_COLS_MAX * DEPTH / 2];

        for (size_t i = 0; i < count; i++)
            bf16_pairs_along(rounded + i * pairs, v.at + i * v.row, depth);
        transpose(panel, width, rounded, pairs, count, pairs);
        for (size_t p = 0; count < width && p < pairs; p++)
            memset(panel + p * width + count, 0, (width - count) * sizeof *panel);
        return;
    }
    for (size_t p = 0; p < pairs; p++) {
        static const float zeros[UNIT_COLS_MAX];
        const float *even = v.at + 2 * p * v.col;
        const float *odd = 2 * p + 1 < depth ? even + v.col : zeros;

        if (count == width) {
            bf16_pairs_across(panel + p * width, even, odd, width);
            continue;
        }
        bf16_pairs_across(panel + p * width, even, odd, count);
        memset(panel + p * width + count, 0, (width - count) * sizeof *panel);
    }
}

static void pack_rows(void *panel, matrix_view v, size_t count, size_t depth)
{
    pack(panel, v, ROWS, count, depth);
}

static void pack_cols(void *panel, matrix_view v, size_t count, size_t depth)
{
    pack(panel, v, COLS, count, depth);
}

INLINE void pack_halves(uint32_t *restrict panel, kvsi_dtype type, matrix_rows rows, size_t depth)
{
    for (size_t g = 0; g < VECTORS; g++, rows.at += VEC * rows.bytes)
        for (size_t p = 0; p < depth / 2; p += 4) {
            veci pairs[4];

            load_row_pairs(pairs, type, BY_F32, (matrix_rows){rows.at + 4 * p, rows.bytes});
            for (size_t i = 0; i < 4; i++)
                *(veci *)(void *)(panel + (p + i) * COLS + g * VEC) = pairs[i];
        }
}

static int pack_stored(void *panel, kvsi_dtype type, const void *cols, size_t stride, size_t depth)
{
    const matrix_rows rows = {cols, stride};

    if (type == KVSI_F16)
        pack_halves(panel, KVSI_F16, rows, depth);
    else if (type == KVSI_BF16)
        pack_halves(panel, KVSI_BF16, rows, depth);
    return type == KVSI_F16 || type == KVSI_BF16;
}

INLINE veci load_pairs(const uint32_t *at)
{
    return *(const veci *)(const void *)at;
}

/* The loops over constants must be unrolled so that the sums stay in registers. */
INLINE void add_half(vec sum[ROWS][VECTORS], const uint32_t *restrict a, const uint32_t *restrict b,
                     int odd)
{
    vec y[VECTORS];

#pragma GCC unroll 4
    for (int j = 0; j < VECTORS; j++) {
        const veci pairs = load_pairs(b + j * VEC);

        y[j] = odd ? (vec)(pairs & -0x10000) : (vec)(pairs << 16);
    }
#pragma GCC unroll 16
    for (int i = 0; i < ROWS; i++) {
        const vec x = (vec)all_pairs(odd ? a[i] & 0xffff0000 : a[i] << 16);

#pragma GCC unroll 4
        for (int j = 0; j < VECTORS; j++)
            sum[i][j] = vec_multiply_add(x, y[j], sum[i][j]);
    }
}

INLINE void clear(vec sum[ROWS][VECTORS], const float *c, size_t stride)
{
#pragma GCC unroll 16
    for (int i = 0; i < ROWS; i++) {
        __builtin_prefetch(c + (size_t)i * stride, 1);
#pragma GCC unroll 4
        for (int j = 0; j < VECTORS; j++)
            sum[i][j] = (vec){0};
    }
}

INLINE void store(float *c, size_t stride, const vec sum[ROWS][VECTORS], unit_start start)
{
#pragma GCC unroll 16
    for (int i = 0; i < ROWS; i++)
#pragma GCC unroll 4
        for (int j = 0; j < VECTORS; j++)
            unit_store(c, stride, sum[i][j], start, (size_t)i, (size_t)j * VEC);
}

static void multiply_f32(float *c, size_t stride, const void *a, const void *b, size_t depth,
                         unit_start start)
{
    const uint32_t *x = a, *y = b;
    vec sum[ROWS][VECTORS];

    clear(sum, c, stride);
    for (size_t p = 0; p < depth; p += 2, x += ROWS, y += COLS) {
        add_half(sum, x, y, 1);
        add_half(sum, x, y, 0);
    }
    store(c, stride, sum, start);
}

#define UNIT(product)                                                                              \
    {                                                                                              \
        .rows = ROWS, .cols = COLS, .group = 2, .depth = DEPTH, .row_bytes = 2, .col_bytes = 2,    \
        .block_rows = 240, .packed_rows = 2048, .pack_rows = pack_rows, .pack_cols = pack_cols,    \
        .pack_stored = pack_stored, .multiply = product, .enter = flush_denormals,                 \
        .leave = restore_denormals                                                                 \
    }

static const unit by_f32 = UNIT(multiply_f32);

#ifdef __AVX512VL__

__attribute__((target("avx512bf16"))) INLINE vec dot_pairs(vec sum, veci x, veci y)
{
#if VEC_BYTES == 64
    return (vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)x, (__m512bh)y);
#else
    return (vec)_mm256_dpbf16_ps((__m256)sum, (__m256bh)x, (__m256bh)y);
#endif
}

__attribute__((target("avx512bf16"))) static void multiply_pairs(float *c, size_t stride,
                                                                 const void *a, const void *b,
                                                                 size_t depth, unit_start start)
{
    const uint32_t *x = a, *y = b;
    vec sum[ROWS][VECTORS];

    clear(sum, c, stride);
    for (size_t p = 0; p < depth; p += 2, x += ROWS, y += COLS) {
        veci pairs[VECTORS];

#pragma GCC unroll 4
        for (int j = 0; j < VECTORS; j++)
            pairs[j] = load_pairs(y + j * VEC);
#pragma GCC unroll 16
        for (int i = 0; i < ROWS; i++) {
            const veci all = all_pairs(x[i]);

#pragma GCC unroll 4
            for (int j = 0; j < VECTORS; j++)
                sum[i][j] = dot_pairs(sum[i][j], all, pairs[j]);
        }
    }
    store(c, stride, sum, start);
}

static const unit by_pairs = UNIT(multiply_pairs);

const unit *LEVEL(unit_bf16)(void)
{
    return __builtin_cpu_supports("avx512bf16") ? &by_pairs : &by_f32;
}

#else

const unit *LEVEL(unit_bf16)(void)
{
    return &by_f32;
}

#endif

#endif
