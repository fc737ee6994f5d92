#include "kernels/ref/ref.h"

#include <math.h>

/* Mean (0 for RMSNorm) and 1 / deviation of a row. */
typedef struct moments {
    double mean, inverse;
} moments;

static moments moments_of(const real *x, const kvsi_norm *norm, size_t dim)
{
    double sum = 0, squares = 0;
    moments m;

    for (size_t i = 0; norm->bias && i < dim; i++)
        sum += (double)x[i];
    m.mean = sum / (double)dim;
    for (size_t i = 0; i < dim; i++)
        squares += ((double)x[i] - m.mean) * ((double)x[i] - m.mean);
    m.inverse = 1.0 / sqrt(squares / (double)dim + norm->eps);
    return m;
}

static double gain_at(const kvsi_norm *norm, size_t i)
{
    return (double)norm->gain_offset + (double)norm->gain[i];
}

void kvsi_ref_norm_forward(kvsi_context *c, real *y, const real *x, const kvsi_norm *norm, size_t n,
                           size_t dim)
{
    (void)c;
    for (size_t t = 0; t < n; t++, x += dim, y += dim) {
        const moments m = moments_of(x, norm, dim);
        for (size_t i = 0; i < dim; i++)
            y[i] = (real)(((double)x[i] - m.mean) * m.inverse * gain_at(norm, i) +
                          (norm->bias ? (double)norm->bias[i] : 0));
    }
}

/* With z the normalised row and g = d_y * (gain_offset + gain):  d_x += (g - mean(g) - z mean(g z))
 * / deviation, where RMSNorm has no mean(g). */
void kvsi_ref_norm_backward(kvsi_context *c, real *d_x, real *d_gain, real *d_bias, const real *d_y,
                            const real *x, const kvsi_norm *norm, size_t n, size_t dim)
{
    (void)c;
    for (size_t t = 0; t < n; t++, x += dim, d_x += dim, d_y += dim) {
        const moments m = moments_of(x, norm, dim);
        double g_mean = 0, gz_mean = 0;

        for (size_t i = 0; i < dim; i++) {
            const double g = (double)d_y[i] * gain_at(norm, i) / (double)dim;
            g_mean += norm->bias ? g : 0;
            gz_mean += g * ((double)x[i] - m.mean) * m.inverse;
        }
        for (size_t i = 0; i < dim; i++) {
            const double z = ((double)x[i] - m.mean) * m.inverse;
            const double g = (double)d_y[i] * gain_at(norm, i);
            d_x[i] += (real)((g - g_mean - z * gz_mean) * m.inverse);
            d_gain[i] += (real)((double)d_y[i] * z);
            if (d_bias)
                d_bias[i] += d_y[i];
        }
    }
}
