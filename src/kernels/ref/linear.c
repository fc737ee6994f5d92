#include "kernels/ref/ref.h"
#include "kernels/rounding.h"

/* Decodes a whole block for each value: plain, not fast. */
real kvsi_ref_decoded(const kvsi_matrix *w, size_t row, size_t col)
{
    enum { BLOCK_MAX = 256 };
    const size_t block = kvsi_dtype_block(w->type), from = col / block * block;
    const unsigned char *at = (const unsigned char *)w->data +
                              row * kvsi_dtype_bytes(w->type, w->cols) +
                              kvsi_dtype_bytes(w->type, from);
    float values[BLOCK_MAX];

    kvsi_dtype_decode(values, w->type, at, block);
    return (real)values[col - from];
}

/* Input i as it is multiplied: rounded if the weights are integers (for each value again). */
static double input(const kvsi_context *c, const real *x, size_t i, kvsi_dtype weights)
{
    const size_t from = i / KVSI_ROUND_BLOCK * KVSI_ROUND_BLOCK;
    float block[KVSI_ROUND_BLOCK];
    int16_t whole[KVSI_ROUND_BLOCK];
    float step;

    if (!kvsi_rounds_inputs(weights))
        return kvsi_ref_operand(c, x[i]);
    for (size_t j = 0; j < KVSI_ROUND_BLOCK; j++)
        block[j] = (float)x[from + j];
    step = kvsi_round_block(whole, block);
    return (double)whole[i - from] * (double)step;
}

static double weight(const kvsi_context *c, const kvsi_matrix *w, size_t row, size_t col)
{
    const real value = kvsi_ref_weight(w, row, col);

    return kvsi_rounds_inputs(w->type) ? (double)value : kvsi_ref_operand(c, value);
}

void kvsi_ref_linear_forward(kvsi_context *c, real *y, const real *x, const kvsi_matrix *w,
                             size_t n, const real *residual)
{
    const size_t stride = kvsi_matrix_stride(w);

    for (size_t t = 0; t < n; t++)
        for (size_t o = 0; o < w->rows; o++) {
            const size_t row = kvsi_matrix_row(w, o);
            double sum = w->bias ? (double)w->bias[o] : 0;

            if (residual)
                sum += (double)residual[t * stride + o];
            for (size_t i = 0; i < w->cols; i++)
                sum += input(c, x + t * w->cols, i, w->type) * weight(c, w, row, i);
            y[t * stride + o] = (real)sum;
        }
    if (w->next)
        kvsi_ref_linear_forward(c, y + w->rows, x, w->next, n,
                                residual ? residual + w->rows : NULL);
}

void kvsi_ref_linear_backward_input(kvsi_context *c, real *d_x, const real *d_y,
                                    const kvsi_matrix *w, size_t n, int add)
{
    const real *weights = w->data;

    for (size_t t = 0; t < n; t++)
        for (size_t i = 0; i < w->cols; i++) {
            double sum = add ? (double)d_x[t * w->cols + i] : 0;
            for (size_t o = 0; o < w->rows; o++)
                sum += kvsi_ref_operand(c, d_y[t * w->rows + o]) *
                       kvsi_ref_operand(c, weights[o * w->cols + i]);
            d_x[t * w->cols + i] = (real)sum;
        }
}

void kvsi_ref_linear_backward_weight(kvsi_context *c, real *d_w, const real *d_y, const real *x,
                                     size_t n, size_t rows, size_t cols)
{
    for (size_t o = 0; o < rows; o++)
        for (size_t i = 0; i < cols; i++) {
            double sum = 0;
            for (size_t t = 0; t < n; t++)
                sum +=
                    kvsi_ref_operand(c, d_y[t * rows + o]) * kvsi_ref_operand(c, x[t * cols + i]);
            d_w[o * cols + i] += (real)sum;
        }
}

void kvsi_ref_linear_backward_bias(kvsi_context *c, real *d_bias, const real *d_y, size_t n,
                                   size_t rows)
{
    (void)c;
    for (size_t o = 0; o < rows; o++) {
        double sum = 0;
        for (size_t t = 0; t < n; t++)
            sum += (double)d_y[t * rows + o];
        d_bias[o] += (real)sum;
    }
}
