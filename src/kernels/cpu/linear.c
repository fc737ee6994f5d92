/* Linear layers: products of large matrices, and a path of their own for few tokens. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/vector.h"
#include "parallel/threads.h"

static size_t divide_up(size_t n, size_t by)
{
    return (n + by - 1) / by;
}

static size_t least(size_t x, size_t y)
{
    return x < y ? x : y;
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

void LEVEL(linear_forward)(kvsi_context *c, float *y, const float *x, const kvsi_matrix *w,
                           size_t n, const float *residual)
{
    if (n <= FEW_TOKENS)
        forward_few(c, y, x, w, n, residual);
    else
        LEVEL(gemm)
        (c, &(gemm){.c = y,
                    .a = {x, w->cols, 1},
                    .b = {w->data, 1, w->cols},
                    .m = n,
                    .n = w->rows,
                    .k = w->cols,
                    .start = residual,
                    .bias = w->bias});
}

void LEVEL(linear_backward_input)(kvsi_context *c, float *d_x, const float *d_y,
                                  const kvsi_matrix *w, size_t n, int add)
{
    LEVEL(gemm)
    (c, &(gemm){.c = d_x,
                .a = {d_y, w->rows, 1},
                .b = {w->data, w->cols, 1},
                .m = n,
                .n = w->cols,
                .k = w->rows,
                .start = add ? d_x : NULL});
}

void LEVEL(linear_backward_weight)(kvsi_context *c, float *d_w, const float *d_y, const float *x,
                                   size_t n, size_t rows, size_t cols)
{
    LEVEL(gemm)
    (c, &(gemm){.c = d_w,
                .a = {d_y, 1, rows},
                .b = {x, cols, 1},
                .m = rows,
                .n = cols,
                .k = n,
                .start = d_w});
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
