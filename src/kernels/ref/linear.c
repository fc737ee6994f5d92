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

/* `count` inputs as they are multiplied: rounded if the weights are integers, otherwise in the
 * precision of the context. */
static void take_inputs(const kvsi_context *c, double *out, const real *x, size_t count,
                        kvsi_dtype weights)
{
    float block[KVSI_ROUND_BLOCK];
    int16_t whole[KVSI_ROUND_BLOCK];
    float step;

    for (size_t i = 0; i < count; i++) {
        out[i] = kvsi_ref_operand(c, (double)x[i]);
        block[i] = (float)x[i];
    }
    if (!kvsi_rounds_inputs(weights))
        return;
    step = kvsi_round_block(whole, block, count, kvsi_round_top(weights));
    for (size_t i = 0; i < count; i++)
        out[i] = (double)whole[i] * (double)step;
}

static double weight(const kvsi_context *c, const kvsi_matrix *w, size_t row, size_t col)
{
    const double value = (double)kvsi_ref_weight(w, row, col);

    return kvsi_rounds_inputs(w->type) ? value : kvsi_ref_operand(c, value);
}

/* sum + row . x */
static double add_row(const kvsi_context *c, double sum, const kvsi_matrix *w, size_t row,
                      const real *x)
{
    double inputs[KVSI_ROUND_BLOCK];

    for (size_t from = 0; from < w->cols; from += KVSI_ROUND_BLOCK) {
        const size_t rest = w->cols - from,
                     count = rest < KVSI_ROUND_BLOCK ? rest : KVSI_ROUND_BLOCK;

        take_inputs(c, inputs, x + from, count, w->type);
        for (size_t i = 0; i < count; i++)
            sum += inputs[i] * weight(c, w, row, from + i);
    }
    return sum;
}

void kvsi_ref_linear_forward(kvsi_context *c, real *y, const real *x, const kvsi_matrix *w,
                             size_t n, const real *residual)
{
    const size_t stride = kvsi_matrix_stride(w);

    for (size_t t = 0; t < n; t++)
        for (size_t o = 0; o < w->rows; o++) {
            double sum = w->bias ? (double)w->bias[o] : 0;

            if (residual)
                sum += (double)residual[t * stride + o];
            y[t * stride + o] = (real)add_row(c, sum, w, kvsi_matrix_row(w, o), x + t * w->cols);
        }
    if (w->next)
        kvsi_ref_linear_forward(c, y + w->rows, x, w->next, n,
                                residual ? residual + w->rows : NULL);
}

void kvsi_ref_pack_weights(kvsi_context *c, void *packed, const kvsi_matrix *w)
{
    (void)c; /* packed_bytes is 0 */
    (void)packed;
    (void)w;
}

void kvsi_ref_linear_backward_input(kvsi_context *c, real *d_x, const real *d_y,
                                    const kvsi_matrix *w, size_t n, int add)
{
    const real *weights = w->data;

    for (size_t t = 0; t < n; t++)
        for (size_t i = 0; i < w->cols; i++) {
            double sum = add ? (double)d_x[t * w->cols + i] : 0;
            for (size_t o = 0; o < w->rows; o++)
                sum += kvsi_ref_operand(c, d_y[t * kvsi_matrix_stride(w) + o]) *
                       kvsi_ref_operand(c, weights[o * w->cols + i]);
            d_x[t * w->cols + i] = (real)sum;
        }
}

void kvsi_ref_linear_backward_weight(kvsi_context *c, real *d_w, const real *d_y, const real *x,
                                     size_t n, size_t rows, size_t cols, size_t stride)
{
    for (size_t o = 0; o < rows; o++)
        for (size_t i = 0; i < cols; i++) {
            double sum = 0;
            for (size_t t = 0; t < n; t++)
                sum +=
                    kvsi_ref_operand(c, d_y[t * stride + o]) * kvsi_ref_operand(c, x[t * cols + i]);
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
