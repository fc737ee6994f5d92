/* kernels/cpu/tile.h - products of small matrices that stay in the cache, for attention.
 *
 *     C[m,n] (+)= A[m,k] B[k,n]
 *
 * A is read one value at a time at a[i * a_row + p * a_col], so either orientation costs the same;
 * the rows of B and C are contiguous.  The inner kernel holds ROWS x 2 vectors of C in
 * registers. */
#ifndef KVSI_KERNELS_CPU_TILE_H
#define KVSI_KERNELS_CPU_TILE_H

#include "kernels/cpu/transpose.h"

enum { TILE_REGISTER_ROWS = 6, TILE_REGISTER_COLS = 2 * VEC };

typedef struct tile_a {
    const float *at;
    size_t row, col; /* strides */
} tile_a;

/* rows and vectors are constants at every call, so the loops over them are unrolled. */
INLINE void tile_kernel(size_t rows, size_t vectors, float *c, size_t ldc, tile_a a, const float *b,
                        size_t ldb, size_t k, int add)
{
    vec sum[TILE_REGISTER_ROWS][2];

    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < vectors; j++)
            sum[i][j] = add ? vec_load(c + i * ldc + j * VEC) : (vec){0};
    for (size_t p = 0; p < k; p++)
        for (size_t i = 0; i < rows; i++) {
            const vec x = vec_all(a.at[i * a.row + p * a.col]);
            for (size_t j = 0; j < vectors; j++)
                sum[i][j] += x * vec_load(b + p * ldb + j * VEC);
        }
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < vectors; j++)
            vec_store(c + i * ldc + j * VEC, sum[i][j]);
}

/* All rows of one strip of columns. */
INLINE void tile_strip(size_t vectors, float *c, size_t ldc, tile_a a, const float *b, size_t ldb,
                       size_t m, size_t k, int add)
{
    size_t i = 0;

    for (; i + 6 <= m; i += 6)
        tile_kernel(6, vectors, c + i * ldc, ldc, (tile_a){a.at + i * a.row, a.row, a.col}, b, ldb,
                    k, add);
    for (; i + 3 <= m; i += 3)
        tile_kernel(3, vectors, c + i * ldc, ldc, (tile_a){a.at + i * a.row, a.row, a.col}, b, ldb,
                    k, add);
    for (; i < m; i++)
        tile_kernel(1, vectors, c + i * ldc, ldc, (tile_a){a.at + i * a.row, a.row, a.col}, b, ldb,
                    k, add);
}

static void tile_multiply(float *c, size_t ldc, tile_a a, const float *b, size_t ldb, size_t m,
                          size_t n, size_t k, int add)
{
    size_t j = 0;

    for (; j + 2 * VEC <= n; j += 2 * VEC)
        tile_strip(2, c + j, ldc, a, b + j, ldb, m, k, add);
    for (; j + VEC <= n; j += VEC)
        tile_strip(1, c + j, ldc, a, b + j, ldb, m, k, add);
    for (size_t i = 0; j < n && i < m; i++) {
        /* Padded vectors, because the compiler may round products of scalars in some terms only. */
        float lanes[VEC] = {0};
        vec sum;

        for (size_t r = 0; add && r < n - j; r++)
            lanes[r] = c[i * ldc + j + r];
        sum = vec_load(lanes);
        for (size_t p = 0; p < k; p++) {
            for (size_t r = 0; r < n - j; r++)
                lanes[r] = b[p * ldb + j + r];
            sum += vec_all(a.at[i * a.row + p * a.col]) * vec_load(lanes);
        }
        vec_store(lanes, sum);
        for (size_t r = 0; r < n - j; r++)
            c[i * ldc + j + r] = lanes[r];
    }
}

/* to[cols, ldt] = transpose of from[rows, cols]; columns rows .. padded-1 of `to` become 0. */
static void tile_transpose(float *to, size_t ldt, const float *from, size_t ldf, size_t rows,
                           size_t cols, size_t padded)
{
    transpose(to, ldt, from, ldf, rows, cols);
    for (size_t c = 0; c < cols; c++)
        for (size_t i = rows; i < padded; i++)
            to[c * ldt + i] = 0.0f;
}

#endif
