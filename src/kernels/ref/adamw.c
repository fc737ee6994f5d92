#include "kernels/ref/ref.h"

#include <math.h>

void kvsi_ref_sum_squares(kvsi_context *c, double *sum, const real *g, size_t n)
{
    (void)c;
    *sum = 0;
    for (size_t i = 0; i < n; i++)
        *sum += (double)g[i] * (double)g[i];
}

void kvsi_ref_clip_scale(kvsi_context *c, double *scale, const double *sum, double mean,
                         double limit)
{
    const double norm = mean * sqrt(*sum);

    (void)c;
    *scale = limit > 0 && norm > limit ? mean * (limit / norm) : mean;
}

void kvsi_ref_adamw(kvsi_context *c, real *p, const real *g, real *m, real *v, size_t n,
                    const kvsi_adamw *h, const double *scale)
{
    (void)c;
    for (size_t i = 0; i < n; i++) {
        const double gradient = (double)g[i] * *scale;
        const double mean = h->beta1 * (double)m[i] + (1.0 - h->beta1) * gradient;
        const double square = h->beta2 * (double)v[i] + (1.0 - h->beta2) * gradient * gradient;
        const double step = mean / h->correction1 / (sqrt(square / h->correction2) + h->eps);

        m[i] = (real)mean;
        v[i] = (real)square;
        p[i] = (real)((double)p[i] * (1.0 - h->lr * h->decay) - h->lr * step);
    }
}
