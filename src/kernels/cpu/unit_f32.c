/* Products in float32 with the level's vectors. */
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/row_dots.h"
#include "kernels/cpu/unit.h"

#include <string.h>

/* The inner kernel holds ROWS x VECTORS vectors of C in registers.  512-bit vectors come with 32
 * registers. */
enum { ROWS = VEC == 16 ? 12 : 6, VECTORS = 2, COLS = VECTORS * VEC };

/* panel[p * width + i] = (i, p) of the view; `width` is a constant at every call */
INLINE void pack(float *restrict panel, matrix_view v, size_t width, size_t count, size_t depth)
{
    if (v.row == 1 && count == width) {
        for (size_t p = 0; p < depth; p++)
            memcpy(panel + p * width, v.at + p * v.col, width * sizeof *panel);
        return;
    }
    if (v.col == 1 && count == width) {
        transpose(panel, width, v.at, v.row, width, depth);
        return;
    }
    if (v.col == 1)
        transpose(panel, width, v.at, v.row, count, depth);
    else
        for (size_t p = 0; p < depth; p++)
            for (size_t i = 0; i < count; i++)
                panel[p * width + i] = v.at[i * v.row + p * v.col];
    for (size_t p = 0; p < depth; p++)
        memset(panel + p * width + count, 0, (width - count) * sizeof *panel);
}

static void pack_rows(void *panel, matrix_view v, size_t count, size_t depth)
{
    pack(panel, v, ROWS, count, depth);
}

static void pack_cols(void *panel, matrix_view v, size_t count, size_t depth)
{
    pack(panel, v, COLS, count, depth);
}

/* Values of 16 bits are transposed in pairs and converted in registers. */
INLINE void pack_halves(float *restrict panel, kvsi_dtype type, matrix_rows rows, size_t depth)
{
    for (size_t g = 0; g < VECTORS; g++, rows.at += VEC * rows.bytes)
        for (size_t p = 0; p < depth; p += 8) {
            float *to = panel + p * COLS + g * VEC;
            vec columns[8];

            load_columns(columns, type, (matrix_rows){rows.at + 2 * p, rows.bytes});
            for (size_t i = 0; i < 8; i++)
                vec_store(to + i * COLS, columns[i]);
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

/* The loops over constants must be unrolled so that the sums stay in registers. */
INLINE void add_products(vec sum[ROWS][VECTORS], const float *restrict a, const float *restrict b,
                         size_t depth)
{
    for (size_t p = 0; p < depth; p++, a += ROWS, b += COLS) {
        vec y[VECTORS];

#pragma GCC unroll 4
        for (int j = 0; j < VECTORS; j++)
            y[j] = vec_load(b + j * VEC);
#pragma GCC unroll 16
        for (int i = 0; i < ROWS; i++) {
            const vec x = vec_all(a[i]);
#pragma GCC unroll 4
            for (int j = 0; j < VECTORS; j++)
                sum[i][j] += x * y[j];
        }
    }
}

static void multiply(float *c, size_t stride, const void *a, const void *b, size_t depth,
                     unit_start start)
{
    vec sum[ROWS][VECTORS];

#pragma GCC unroll 16
    for (int i = 0; i < ROWS; i++) {
        __builtin_prefetch(c + (size_t)i * stride, 1);
#pragma GCC unroll 4
        for (int j = 0; j < VECTORS; j++)
            sum[i][j] = (vec){0};
    }
    add_products(sum, a, b, depth);
#pragma GCC unroll 16
    for (int i = 0; i < ROWS; i++)
#pragma GCC unroll 4
        for (int j = 0; j < VECTORS; j++)
            unit_store(c, stride, sum[i][j], start, (size_t)i, (size_t)j * VEC);
}

static unsigned enter(void)
{
    return 0;
}

static void leave(unsigned state)
{
    (void)state;
}

const unit LEVEL(unit_f32) = {
    .rows = ROWS,
    .cols = COLS,
    .group = 1,
    .depth = GEMM_DEPTH,
    .row_bytes = sizeof(float),
    .col_bytes = sizeof(float),
    .block_rows = 240,
    .packed_rows = 512,
    .pack_rows = pack_rows,
    .pack_cols = pack_cols,
    .pack_stored = pack_stored,
    .multiply = multiply,
    .enter = enter,
    .leave = leave,
};
