/* Small operations on whole arrays and rows. */
#include "kernels/host.h"
#include "kernels/ref/ref.h"

#include <math.h>

void kvsi_ref_dropout(kvsi_context *c, real *x, size_t count, const kvsi_dropout *d)
{
    (void)c;
    for (size_t i = 0; i < count; i++)
        x[i] *= kvsi_keep_factor(d, i);
}

void kvsi_ref_scale(kvsi_context *c, real *x, real factor, size_t count)
{
    (void)c;
    for (size_t i = 0; i < count; i++)
        x[i] *= factor;
}

void kvsi_ref_add(kvsi_context *c, real *y, const real *x, size_t count)
{
    (void)c;
    for (size_t i = 0; i < count; i++)
        y[i] += x[i];
}

void kvsi_ref_round_bf16(kvsi_context *c, real *x, uint16_t *kept, size_t count)
{
    (void)c;
    for (size_t i = 0; i < count; i++) {
        const uint16_t bits = kvsi_float_to_bf16((float)x[i]);

        x[i] = kvsi_bf16_to_float(bits);
        if (kept)
            kept[i] = bits;
    }
}

void kvsi_ref_widen_bf16(kvsi_context *c, real *x, const uint16_t *kept, size_t count)
{
    (void)c;
    for (size_t i = 0; i < count; i++)
        x[i] = kvsi_bf16_to_float(kept[i]);
}

static double inverse_length(const real *x, size_t cols)
{
    double sum = 0;

    for (size_t i = 0; i < cols; i++)
        sum += (double)x[i] * (double)x[i];
    return sum > 0 ? 1.0 / sqrt(sum) : 0;
}

void kvsi_ref_unit_rows_forward(kvsi_context *c, real *y, const real *x, size_t rows, size_t cols)
{
    (void)c;
    for (size_t r = 0; r < rows; r++) {
        const double inverse = inverse_length(x + r * cols, cols);
        for (size_t i = 0; i < cols; i++)
            y[r * cols + i] = (real)((double)x[r * cols + i] * inverse);
    }
}

/* With z = x / |x|:  d_x += (d_y - z <z, d_y>) / |x| */
void kvsi_ref_unit_rows_backward(kvsi_context *c, real *d_x, const real *d_y, const real *x,
                                 size_t rows, size_t cols)
{
    (void)c;
    for (size_t r = 0; r < rows; r++, x += cols, d_x += cols, d_y += cols) {
        const double inverse = inverse_length(x, cols);
        double along = 0;

        for (size_t i = 0; i < cols; i++)
            along += (double)x[i] * inverse * (double)d_y[i];
        for (size_t i = 0; i < cols; i++)
            d_x[i] += (real)(((double)d_y[i] - (double)x[i] * inverse * along) * inverse);
    }
}
