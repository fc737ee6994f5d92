#include "kernels/ref/ref.h"

#include <math.h>

static double inverse_rms(const real *x, size_t dim, double eps)
{
    double sum = 0;

    for (size_t i = 0; i < dim; i++)
        sum += (double)x[i] * (double)x[i];
    return 1.0 / sqrt(sum / (double)dim + eps);
}

void kvsi_ref_norm_forward(kvsi_context *c, real *y, const real *x, const real *gain, size_t n,
                           size_t dim, double eps)
{
    (void)c;
    for (size_t t = 0; t < n; t++, x += dim, y += dim) {
        const double r = inverse_rms(x, dim, eps);
        for (size_t i = 0; i < dim; i++)
            y[i] = (real)((double)x[i] * r * (double)gain[i]);
    }
}

/* With r = 1/rms:  d_x = r * (d_y * gain) - x * r^3 / dim * sum(d_y * gain * x) */
void kvsi_ref_norm_backward(kvsi_context *c, real *d_x, real *d_gain, const real *d_y,
                            const real *x, const real *gain, size_t n, size_t dim, double eps)
{
    (void)c;
    for (size_t t = 0; t < n; t++, x += dim, d_x += dim, d_y += dim) {
        const double r = inverse_rms(x, dim, eps);
        double dot = 0;

        for (size_t i = 0; i < dim; i++)
            dot += (double)d_y[i] * (double)gain[i] * (double)x[i];
        for (size_t i = 0; i < dim; i++) {
            d_x[i] += (real)(r * (double)d_y[i] * (double)gain[i] -
                             (double)x[i] * r * r * r * dot / (double)dim);
            d_gain[i] += (real)((double)d_y[i] * (double)x[i] * r);
        }
    }
}
