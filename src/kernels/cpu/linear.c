/* Linear layers: gemm, or one of the other paths for few tokens and quantized weights. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/linear_gemv.h"
#include "kernels/cpu/linear_int16.h"
#include "kernels/cpu/linear_many.h"
#include "kernels/cpu/vector.h"
#include "kernels/rounding.h"
#include "parallel/threads.h"

static size_t divide_up(size_t n, size_t by)
{
    return (n + by - 1) / by;
}

static size_t least(size_t x, size_t y)
{
    return x < y ? x : y;
}

/* y = residual + x W^T + bias */
static gemm forward_product(float *y, const float *x, const kvsi_matrix *w, size_t n,
                            const float *residual)
{
    return (gemm){.c = y,
                  .stride = kvsi_matrix_stride(w),
                  .a = {x, w->cols, 1},
                  .weights = w,
                  .packed = w->packed,
                  .m = n,
                  .n = w->rows,
                  .k = w->cols,
                  .start = residual,
                  .bias = w->bias};
}

/* d_x = d_y W, without the packed form */
static gemm backward_product(float *d_x, const float *d_y, const kvsi_matrix *w, size_t n)
{
    return (gemm){.c = d_x,
                  .stride = w->cols,
                  .a = {d_y, kvsi_matrix_stride(w), 1},
                  .b = {w->data, w->cols, 1},
                  .m = n,
                  .n = w->cols,
                  .k = w->rows};
}

/* Packed weights are B of the forward product, then B of the backward product: where that one is,
 * and the size of both. */
static size_t backward_form(const kvsi_context *c, const kvsi_matrix *w)
{
    const gemm forward = forward_product(NULL, NULL, w, 0, NULL);

    return LEVEL(gemm_packed_bytes)(c, &forward);
}

size_t LEVEL(packed_bytes)(const kvsi_context *c, const kvsi_matrix *w, size_t n)
{
    const gemm backward = backward_product(NULL, NULL, w, 0);

    if (n > LEVEL(unit_of)(c, w->type)->packed_rows)
        return 0;
    return backward_form(c, w) + LEVEL(gemm_packed_bytes)(c, &backward);
}

void LEVEL(pack_weights)(kvsi_context *c, void *packed, const kvsi_matrix *w)
{
    const gemm forward = forward_product(NULL, NULL, w, 0, NULL);
    const gemm backward = backward_product(NULL, NULL, w, 0);

    LEVEL(gemm_pack)(c, packed, &forward);
    LEVEL(gemm_pack)(c, (unsigned char *)packed + backward_form(c, w), &backward);
}

static void forward_part(kvsi_context *c, float *y, const float *x, const kvsi_matrix *w, size_t n,
                         const float *residual)
{
    const gemm product = forward_product(y, x, w, n, residual);

    if (kvsi_rounds_inputs(w->type) && w->cols > 0)
        LEVEL(linear_int16)(c, y, x, w, n, residual);
    else
        LEVEL(gemm)(c, &product);
}

void LEVEL(linear_many)(kvsi_context *c, float *y, const float *x, const kvsi_matrix *w, size_t n,
                        const float *residual)
{
    for (; w; w = w->next) {
        forward_part(c, y, x, w, n, residual);
        y += w->rows;
        residual = residual ? residual + w->rows : NULL;
    }
}

void LEVEL(linear_forward)(kvsi_context *c, float *y, const float *x, const kvsi_matrix *w,
                           size_t n, const float *residual)
{
    if (LEVEL(gemv_suits)(c, w, n))
        LEVEL(linear_gemv)(c, y, x, w, n, residual);
    else
        LEVEL(linear_many)(c, y, x, w, n, residual);
}

void LEVEL(linear_backward_input)(kvsi_context *c, float *d_x, const float *d_y,
                                  const kvsi_matrix *w, size_t n, int add)
{
    gemm product = backward_product(d_x, d_y, w, n);

    product.start = add ? d_x : NULL;
    if (w->packed)
        product.packed = (const unsigned char *)w->packed + backward_form(c, w);
    LEVEL(gemm)(c, &product);
}

void LEVEL(linear_backward_weight)(kvsi_context *c, float *d_w, const float *d_y, const float *x,
                                   size_t n, size_t rows, size_t cols, size_t stride)
{
    const gemm product = {.c = d_w,
                          .stride = cols,
                          .a = {d_y, 1, stride},
                          .b = {x, cols, 1},
                          .m = rows,
                          .n = cols,
                          .k = n,
                          .start = d_w};

    LEVEL(gemm)(c, &product);
}

/* Split by columns: each piece adds all rows in order. */
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
