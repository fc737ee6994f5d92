#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vector.h"
#include "parallel/threads.h"

#include <math.h>
#include <string.h>

size_t LEVEL(norm_workspace)(const kvsi_limits *limits)
{
    return PIECES_MAX * limits->dim * sizeof(float); /* a sum for d_gain per piece */
}

static float inverse_rms(const float *x, size_t dim, double eps)
{
    return (float)(1.0 / sqrt((double)dot(x, x, dim) / (double)dim + eps));
}

static void forward_row(float *restrict y, const float *restrict x, const float *restrict gain,
                        size_t dim, double eps)
{
    const float r = inverse_rms(x, dim, eps);

    for (size_t i = 0; i < dim; i++)
        y[i] = x[i] * r * gain[i];
}

void LEVEL(norm_forward)(kvsi_context *c, float *y, const float *x, const float *gain, size_t n,
                         size_t dim, double eps)
{
    const pieces cut = cut_rows(n);

    KVSI_PARALLEL_PIECES(c->threads, i, cut.count) {
        for (size_t t = i * cut.rows; t < piece_end(cut, i, n); t++)
            forward_row(y + t * dim, x + t * dim, gain, dim, eps);
    }
}

/* sum_i d_y[i] * gain[i] * x[i] */
static float dot3(const float *d_y, const float *gain, const float *x, size_t dim)
{
    vec sum = {0};
    float rest = 0;
    size_t i = 0;

    for (; i + VEC <= dim; i += VEC)
        sum += vec_load(d_y + i) * vec_load(gain + i) * vec_load(x + i);
    for (; i < dim; i++)
        rest += d_y[i] * gain[i] * x[i];
    return vec_sum(sum) + rest;
}

/* With r = 1/rms:  d_x += r * (d_y * gain) - x * r^3 / dim * sum(d_y * gain * x) */
static void backward_row(float *restrict d_x, float *restrict d_gain, const float *restrict d_y,
                         const float *restrict x, const float *restrict gain, size_t dim,
                         double eps)
{
    const float r = inverse_rms(x, dim, eps);
    const float pull = r * r * r * dot3(d_y, gain, x, dim) / (float)dim;

    for (size_t i = 0; i < dim; i++) {
        d_x[i] += r * d_y[i] * gain[i] - pull * x[i];
        d_gain[i] += d_y[i] * x[i] * r;
    }
}

void LEVEL(norm_backward)(kvsi_context *c, float *d_x, float *d_gain, const float *d_y,
                          const float *x, const float *gain, size_t n, size_t dim, double eps)
{
    const pieces cut = cut_rows(n);
    float *sums = (float *)c->workspace; /* [cut.count, dim] */

    KVSI_PARALLEL_PIECES(c->threads, i, cut.count) {
        float *sum = sums + i * dim;

        memset(sum, 0, dim * sizeof *sum);
        for (size_t t = i * cut.rows; t < piece_end(cut, i, n); t++)
            backward_row(d_x + t * dim, sum, d_y + t * dim, x + t * dim, gain, dim, eps);
    }
    for (size_t i = 0; i < cut.count; i++)
        for (size_t j = 0; j < dim; j++)
            d_gain[j] += sums[i * dim + j];
}
