/* Linear layers: our own loop over tiles of the result, each one call of a single-threaded BLAS.
 * Tiles depend on the shape only, and each sums over the whole inner dimension, so the bits do not
 * depend on the number of threads. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vector.h"
#include "parallel/threads.h"

#include <cblas.h>
#include <string.h>

/* Large enough that BLAS's packing pays, small enough to share out. */
enum { TILE_ROWS = 256, TILE_COLS = 512, TILE_MIN = 48, TILES_WANTED = 4 };

typedef struct tiling {
    size_t rows, cols;           /* of a tile */
    size_t row_count, col_count; /* how many */
} tiling;

static size_t divide_up(size_t n, size_t by)
{
    return (n + by - 1) / by;
}

/* Equal tiles of about the wanted size; more of them, along the longer side, where that gives fewer
 * than a few threads could share. */
static tiling cut_tiles(size_t rows, size_t cols)
{
    tiling t = {0, 0, divide_up(rows, TILE_ROWS), divide_up(cols, TILE_COLS)};

    while (t.row_count * t.col_count < TILES_WANTED) {
        const size_t tile_rows = rows / t.row_count, tile_cols = cols / t.col_count;

        if (tile_rows >= tile_cols && tile_rows >= 2 * TILE_MIN)
            t.row_count *= 2;
        else if (tile_cols >= 2 * TILE_MIN)
            t.col_count *= 2;
        else
            break;
    }
    t.rows = divide_up(divide_up(rows, t.row_count), 8) * 8; /* whole vectors */
    t.cols = divide_up(divide_up(cols, t.col_count), 16) * 16;
    t.row_count = divide_up(rows, t.rows);
    t.col_count = divide_up(cols, t.cols);
    return t;
}

/* result[rows,cols] = beta * result + A B; strides as BLAS has them. */
typedef struct product {
    float *result;
    const float *a, *b;
    size_t rows, cols, inner;
    enum CBLAS_TRANSPOSE trans_a, trans_b;
    float beta;
} product;

static size_t least(size_t x, size_t y)
{
    return x < y ? x : y;
}

static void multiply_tile(const product *p, const tiling *cut, size_t tile)
{
    const size_t row = tile / cut->col_count * cut->rows, col = tile % cut->col_count * cut->cols;
    const size_t rows = least(cut->rows, p->rows - row), cols = least(cut->cols, p->cols - col);
    const int a_turned = p->trans_a == CblasTrans, b_turned = p->trans_b == CblasTrans;

    cblas_sgemm(CblasRowMajor, p->trans_a, p->trans_b, (int)rows, (int)cols, (int)p->inner, 1.0f,
                p->a + (a_turned ? row : row * p->inner), (int)(a_turned ? p->rows : p->inner),
                p->b + (b_turned ? col * p->inner : col), (int)(b_turned ? p->inner : p->cols),
                p->beta, p->result + row * p->cols + col, (int)p->cols);
}

static void multiply(const kvsi_context *c, const product *p)
{
    tiling cut;

    if (p->rows == 0 || p->cols == 0 || p->inner == 0)
        return;
    cut = cut_tiles(p->rows, p->cols);
    KVSI_PARALLEL_PIECES(c->threads, i, cut.row_count * cut.col_count) {
        multiply_tile(p, &cut, i);
    }
}

/* A few tokens, as when decoding: the weights are read once, in order, and not packed. */
enum { FEW_TOKENS = 4, FEW_ROWS = 32 };

static void forward_few(const kvsi_context *c, float *y, const float *x, const kvsi_matrix *w,
                        size_t n, const float *residual)
{
    const float *weights = w->data;

    KVSI_PARALLEL_PIECES(c->threads, i, divide_up(w->rows, FEW_ROWS)) {
        for (size_t o = i * FEW_ROWS; o < least((i + 1) * FEW_ROWS, w->rows); o++)
            for (size_t t = 0; t < n; t++) {
                const float old =
                    (residual ? residual[t * w->rows + o] : 0.0f) + (w->bias ? w->bias[o] : 0.0f);
                y[t * w->rows + o] = old + dot(x + t * w->cols, weights + o * w->cols, w->cols);
            }
    }
}

/* What the product is added to: residual + bias, either of which may be missing. */
static void start_rows(const kvsi_context *c, float *y, const float *residual, const kvsi_matrix *w,
                       size_t n)
{
    const pieces cut = cut_rows(n);

    KVSI_PARALLEL_PIECES(c->threads, i, cut.count) {
        for (size_t t = i * cut.rows; t < piece_end(cut, i, n); t++) {
            float *restrict row = y + t * w->rows;
            const float *restrict bias = w->bias;

            memcpy(row, residual ? residual + t * w->rows : bias, w->rows * sizeof *row);
            for (size_t o = 0; residual && bias && o < w->rows; o++)
                row[o] += bias[o];
        }
    }
}

void LEVEL(linear_forward)(kvsi_context *c, float *y, const float *x, const kvsi_matrix *w,
                           size_t n, const float *residual)
{
    if (n <= FEW_TOKENS) {
        forward_few(c, y, x, w, n, residual);
        return;
    }
    if (residual || w->bias)
        start_rows(c, y, residual, w, n);
    multiply(c, &(product){y, x, w->data, n, w->rows, w->cols, CblasNoTrans, CblasTrans,
                           residual || w->bias ? 1.0f : 0.0f});
}

void LEVEL(linear_backward_input)(kvsi_context *c, float *d_x, const float *d_y,
                                  const kvsi_matrix *w, size_t n, int add)
{
    multiply(c, &(product){d_x, d_y, w->data, n, w->cols, w->rows, CblasNoTrans, CblasNoTrans,
                           add ? 1.0f : 0.0f});
}

void LEVEL(linear_backward_weight)(kvsi_context *c, float *d_w, const float *d_y, const float *x,
                                   size_t n, size_t rows, size_t cols)
{
    multiply(c, &(product){d_w, d_y, x, rows, cols, n, CblasTrans, CblasNoTrans, 1.0f});
}

/* Pieces are columns: each adds all rows, in order, to its own columns. */
void LEVEL(linear_backward_bias)(kvsi_context *c, float *d_bias, const float *d_y, size_t n,
                                 size_t rows)
{
    enum { COLUMNS = 64 };

    KVSI_PARALLEL_PIECES(c->threads, i, divide_up(rows, COLUMNS)) {
        const size_t from = i * COLUMNS, to = least(from + COLUMNS, rows);

        for (size_t t = 0; t < n; t++)
            for (size_t o = from; o < to; o++)
                d_bias[o] += d_y[t * rows + o];
    }
}
