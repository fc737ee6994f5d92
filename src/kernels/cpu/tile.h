/* kernels/cpu/tile.h - products of small matrices that stay in the cache, for attention.
 *
 *     C[m,n] (+)= A[m,k] B[k,n]
 *
 * A is read number by number at a[i * a_row + p * a_col], so either orientation costs the same; the
 * rows of B and C are contiguous.  The inner kernel holds ROWS x 2 vectors of C in registers. */
#ifndef KVSI_KERNELS_CPU_TILE_H
#define KVSI_KERNELS_CPU_TILE_H

#include "kernels/cpu/vector.h"

enum { TILE_REGISTER_ROWS = 6, TILE_REGISTER_COLS = 2 * VEC };

typedef struct tile_a {
    const float *at;
    size_t row, col; /* strides */
} tile_a;

/* rows and vectors are constants at every call, so the loops over them vanish. */
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
    for (; j < n; j++)
        for (size_t i = 0; i < m; i++) {
            float sum = add ? c[i * ldc + j] : 0.0f;
            for (size_t p = 0; p < k; p++)
                sum += a.at[i * a.row + p * a.col] * b[p * ldb + j];
            c[i * ldc + j] = sum;
        }
}

typedef float vec4 __attribute__((vector_size(16), aligned(4), may_alias));

INLINE void tile_transpose_4x4(float *to, size_t ldt, const float *from, size_t ldf)
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

/* to[cols, ldt] = transpose of from[rows, cols]; columns rows .. padded-1 of `to` become 0. */
static void tile_transpose(float *to, size_t ldt, const float *from, size_t ldf, size_t rows,
                           size_t cols, size_t padded)
{
    size_t r = 0;

    for (; r + 4 <= rows; r += 4) {
        size_t c = 0;
        for (; c + 4 <= cols; c += 4)
            tile_transpose_4x4(to + c * ldt + r, ldt, from + r * ldf + c, ldf);
        for (; c < cols; c++)
            for (size_t i = r; i < r + 4; i++)
                to[c * ldt + i] = from[i * ldf + c];
    }
    for (size_t c = 0; c < cols; c++) {
        for (size_t i = r; i < rows; i++)
            to[c * ldt + i] = from[i * ldf + c];
        for (size_t i = rows; i < padded; i++)
            to[c * ldt + i] = 0.0f;
    }
}

#endif
