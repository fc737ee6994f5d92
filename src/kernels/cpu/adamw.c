#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vector.h"
#include "parallel/threads.h"

#include <math.h>

enum { VALUES_MIN = 1 << 15, SUMS_MAX = 256 }; /* least values per piece; most pieces */

static size_t values_per_piece(size_t n)
{
    const size_t fair = (n + SUMS_MAX - 1) / SUMS_MAX;

    return fair > VALUES_MIN ? fair : VALUES_MIN;
}

/* Float sums over short runs, added in double: fast, and small values are not lost. */
static double sum_squares(const float *g, size_t n)
{
    enum { RUN = 1024 };
    double sum = 0;

    for (size_t i = 0; i < n; i += RUN)
        sum += (double)dot(g + i, g + i, n - i < RUN ? n - i : RUN);
    return sum;
}

void LEVEL(sum_squares)(kvsi_context *c, double *sum, const float *g, size_t n)
{
    const size_t size = values_per_piece(n), count = (n + size - 1) / size;
    double sums[SUMS_MAX];

    KVSI_PARALLEL_PIECES(c->threads, i, count) {
        const size_t from = i * size;
        sums[i] = sum_squares(g + from, n - from < size ? n - from : size);
    }
    *sum = 0;
    for (size_t i = 0; i < count; i++)
        *sum += sums[i];
}

void LEVEL(clip_scale)(kvsi_context *c, double *scale, const double *sum, double mean, double limit)
{
    const double norm = mean * sqrt(*sum);

    (void)c;
    *scale = limit > 0 && norm > limit ? mean * (limit / norm) : mean;
}

static void update(float *restrict p, const float *restrict g, float *restrict m, float *restrict v,
                   size_t n, const kvsi_adamw *h, double scale)
{
    const float beta1 = (float)h->beta1, beta2 = (float)h->beta2;
    const float rest1 = (float)(1.0 - h->beta1), rest2 = (float)(1.0 - h->beta2);
    const float keep = (float)(1.0 - h->lr * h->decay), rate = (float)(h->lr / h->correction1);
    const float spread = (float)(1.0 / sqrt(h->correction2)), eps = (float)h->eps;
    const float factor = (float)scale;

    for (size_t i = 0; i < n; i++) {
        const float gradient = g[i] * factor;
        m[i] = beta1 * m[i] + rest1 * gradient;
        v[i] = beta2 * v[i] + rest2 * gradient * gradient;
        p[i] = keep * p[i] - rate * m[i] / (sqrtf(v[i]) * spread + eps);
    }
}

void LEVEL(adamw)(kvsi_context *c, float *p, const float *g, float *m, float *v, size_t n,
                  const kvsi_adamw *h, const double *scale)
{
    const size_t size = values_per_piece(n), count = (n + size - 1) / size;

    KVSI_PARALLEL_PIECES(c->threads, i, count) {
        const size_t at = i * size;
        update(p + at, g + at, m + at, v + at, n - at < size ? n - at : size, h, *scale);
    }
}
