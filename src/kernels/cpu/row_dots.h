/* kernels/cpu/row_dots.h - dot products of rows of a matrix with a few vectors, each summed from
 * the first column to the last, as in gemm.c and tile.h: the bits are those of such a product.
 *
 * All sums are vectors: the compiler makes one FMA of each product, which it may not do for
 * scalars.
 *
 * Lane r of a sum belongs to row r of VEC rows.  Columns are made from rows in registers: four
 * columns of 32 bits at a time, which are one F32, two 16-bit or four int8 values per row. */
#ifndef KVSI_KERNELS_CPU_ROW_DOTS_H
#define KVSI_KERNELS_CPU_ROW_DOTS_H

#include "kernels/cpu/decode.h"
#include "kernels/cpu/transpose.h"

/* Vectors per call, and groups of VEC rows at a time: one group's sums alone would wait for each
 * other. */
enum { ROW_DOTS_MAX = 4, ROW_GROUPS = 2 };

enum { LINE = 64 }; /* bytes of a cache line */

/* Rows of a matrix that follow each other in memory. */
typedef struct matrix_rows {
    const unsigned char *at;
    size_t bytes; /* per row */
} matrix_rows;

/* ---- columns ---- */

/* Elements of each 128-bit lane: 0 to 3 are those of x, 4 to 7 those of y. */
#define LANE(i, lane) ((i) < 4 ? (i) + 4 * (lane) : (i)-4 + VEC + 4 * (lane))
#define LANES4(i, j, k, l, n) LANE(i, n), LANE(j, n), LANE(k, n), LANE(l, n)
#if VEC_BYTES == 16
#define SHUFFLE(x, y, i, j, k, l) __builtin_shufflevector(x, y, LANES4(i, j, k, l, 0))
#elif VEC_BYTES == 32
#define SHUFFLE(x, y, i, j, k, l)                                                                  \
    __builtin_shufflevector(x, y, LANES4(i, j, k, l, 0), LANES4(i, j, k, l, 1))
#else
#define SHUFFLE(x, y, i, j, k, l)                                                                  \
    __builtin_shufflevector(x, y, LANES4(i, j, k, l, 0), LANES4(i, j, k, l, 1),                    \
                            LANES4(i, j, k, l, 2), LANES4(i, j, k, l, 3))
#endif

/* Transposes the 4 x 4 elements of each 128-bit lane. */
INLINE void transpose_lanes(vec v[4])
{
    const vec low01 = SHUFFLE(v[0], v[1], 0, 4, 1, 5), high01 = SHUFFLE(v[0], v[1], 2, 6, 3, 7);
    const vec low23 = SHUFFLE(v[2], v[3], 0, 4, 1, 5), high23 = SHUFFLE(v[2], v[3], 2, 6, 3, 7);

    v[0] = SHUFFLE(low01, low23, 0, 1, 4, 5);
    v[1] = SHUFFLE(low01, low23, 2, 3, 6, 7);
    v[2] = SHUFFLE(high01, high23, 0, 1, 4, 5);
    v[3] = SHUFFLE(high01, high23, 2, 3, 6, 7);
}

/* 16 bytes of each of the rows 0, 4, 8, ... */
INLINE vec load_lanes(matrix_rows rows)
{
    typedef float vec4_at __attribute__((vector_size(16), aligned(1), may_alias));
#define ROW_AT(r) (*(const vec4_at *)(const void *)(rows.at + (r)*rows.bytes))
#if VEC_BYTES == 16
    return ROW_AT(0);
#elif VEC_BYTES == 32
    return __builtin_shufflevector(ROW_AT(0), ROW_AT(4), 0, 1, 2, 3, 4, 5, 6, 7);
#else
    typedef float vec8 __attribute__((vector_size(32)));
    const vec8 low = __builtin_shufflevector(ROW_AT(0), ROW_AT(4), 0, 1, 2, 3, 4, 5, 6, 7);
    const vec8 high = __builtin_shufflevector(ROW_AT(8), ROW_AT(12), 0, 1, 2, 3, 4, 5, 6, 7);

    return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
#endif
#undef ROW_AT
}

/* The values in the low and in the high half of each lane: F16 or BF16 of two columns. */
INLINE vec low_values(kvsi_dtype type, vec pairs)
{
    return type == KVSI_F16 ? vec_from_f16_lanes((veci)pairs) : (vec)((veci)pairs << 16);
}

INLINE vec high_values(kvsi_dtype type, vec pairs)
{
    return type == KVSI_F16 ? vec_from_f16_lanes((veci)pairs >> 16)
                            : (vec)((veci)pairs & (int32_t)0xffff0000);
}

/* Columns that one call of load_columns makes. */
INLINE size_t columns_of(kvsi_dtype type)
{
    return type == KVSI_F32 ? 4 : type == KVSI_Q8_0 ? 16 : 8;
}

/* columns[c] = elements c of VEC rows.  Of Q8_0 the rows are int8, without scales. */
INLINE void load_columns(vec *columns, kvsi_dtype type, matrix_rows rows)
{
    vec v[4];

    for (int i = 0; i < 4; i++, rows.at += rows.bytes)
        v[i] = load_lanes(rows);
    transpose_lanes(v);
    for (int i = 0; i < 4; i++) {
        const veci bits = (veci)v[i];

        if (type == KVSI_F16 || type == KVSI_BF16) {
            columns[2 * i] = low_values(type, v[i]);
            columns[2 * i + 1] = high_values(type, v[i]);
        } else if (type == KVSI_Q8_0) {
            for (int j = 0; j < 4; j++)
                columns[4 * i + j] =
                    __builtin_convertvector(j < 3 ? bits << (24 - 8 * j) >> 24 : bits >> 24, vec);
        } else
            columns[i] = v[i];
    }
}

/* The scales of VEC blocks of Q8_0, one per row. */
INLINE vec load_scales(matrix_rows rows)
{
    f16_of_vec scales = {0};

    for (int i = 0; i < VEC; i++) {
        uint16_t scale;

        memcpy(&scale, rows.at + (size_t)i * rows.bytes, sizeof scale);
        scales[i] = scale;
    }
    return vec_from_f16(&scales);
}

/* ---- sums ---- */

/* Adds the products of the columns from .. to-1, fewer than load_columns makes. */
static __attribute__((noinline, unused)) vec add_rest(vec sums, kvsi_dtype type, matrix_rows rows,
                                                      const float *x, size_t from, size_t to)
{
    const size_t start = from / RUN * RUN;
    float values[RUN], columns[RUN][VEC];

    for (size_t r = 0; r < VEC; r++) {
        decode_row(values, type, rows.at + r * rows.bytes, start, to - start);
        for (size_t i = from; i < to; i++)
            columns[i - start][r] = values[i - start];
    }
    for (size_t i = from; i < to; i++)
        sums += vec_load(columns[i - start]) * vec_all(x[i]);
    return sums;
}

/* Adds the products of the columns from .. to-1 of `groups` groups of rows to sums.  The type,
 * groups and count are constants at every call; `from` is a multiple of 32, and so is `to` unless
 * the rows end there.  `next` is prefetched unless it is NULL. */
INLINE void add_columns(kvsi_dtype type, size_t groups, size_t count,
                        vec sums[ROW_GROUPS][ROW_DOTS_MAX], matrix_rows rows, const float *x,
                        size_t x_stride, size_t from, size_t to, const unsigned char *next)
{
    const size_t step = columns_of(type), group = VEC * rows.bytes;
    const size_t bytes = type == KVSI_F32 ? 4 : type == KVSI_Q8_0 ? 1 : 2;
    size_t i = from;

    for (; i + step <= to; i += step) {
        const size_t at = type == KVSI_Q8_0 ? i / RUN * run_bytes(type) + 2 + i % RUN : i * bytes;

        for (size_t line = 0; next && line < groups * VEC * step * bytes; line += LINE)
            __builtin_prefetch(next + i * bytes * groups * VEC + line, 0, 2);
        for (size_t g = 0; g < groups; g++) {
            const matrix_rows here = {rows.at + g * group + at, rows.bytes};
            vec columns[16];

            load_columns(columns, type, here);
            if (type == KVSI_Q8_0) {
                const vec scales = load_scales(
                    (matrix_rows){rows.at + g * group + i / RUN * run_bytes(type), rows.bytes});

                for (size_t j = 0; j < step; j++)
                    columns[j] *= scales;
            }
            for (size_t j = 0; j < step; j++)
                for (size_t t = 0; t < count; t++)
                    sums[g][t] += columns[j] * vec_all(x[t * x_stride + i + j]);
        }
    }
    for (size_t g = 0; i < to && g < groups; g++)
        for (size_t t = 0; t < count; t++)
            sums[g][t] = add_rest(sums[g][t], type, (matrix_rows){rows.at + g * group, rows.bytes},
                                  x + t * x_stride, i, to);
}

#endif
