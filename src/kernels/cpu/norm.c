#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vector.h"
#include "parallel/threads.h"

#include <math.h>
#include <string.h>

size_t LEVEL(norm_workspace)(const kvsi_limits *limits)
{
    return PIECES_MAX * 2 * limits->dim * sizeof(float); /* sums for d_gain and d_bias per piece */
}

/* Mean (0 for RMSNorm) and 1 / deviation of a row. */
typedef struct moments {
    float mean, inverse;
} moments;

static float sum_row(const float *x, size_t dim)
{
    vec sum = {0};
    float rest = 0;
    size_t i = 0;

    for (; i + VEC <= dim; i += VEC)
        sum += vec_load(x + i);
    for (; i < dim; i++)
        rest += x[i];
    return vec_sum(sum) + rest;
}

static float sum_squares_about(const float *x, float mean, size_t dim)
{
    vec sum = {0};
    float rest = 0;
    size_t i = 0;

    for (; i + VEC <= dim; i += VEC)
        sum += (vec_load(x + i) - mean) * (vec_load(x + i) - mean);
    for (; i < dim; i++)
        rest += (x[i] - mean) * (x[i] - mean);
    return vec_sum(sum) + rest;
}

static moments moments_of(const float *x, const kvsi_norm *norm, size_t dim)
{
    const float mean = norm->bias ? sum_row(x, dim) / (float)dim : 0.0f;
    const double squares = (double)sum_squares_about(x, mean, dim);

    return (moments){mean, (float)(1.0 / sqrt(squares / (double)dim + norm->eps))};
}

static void forward_row(float *restrict y, const float *restrict x, const kvsi_norm *norm,
                        size_t dim)
{
    const moments m = moments_of(x, norm, dim);
    const float *restrict gain = norm->gain, *restrict bias = norm->bias;
    const float offset = norm->gain_offset;

    if (bias)
        for (size_t i = 0; i < dim; i++)
            y[i] = (x[i] - m.mean) * m.inverse * (offset + gain[i]) + bias[i];
    else
        for (size_t i = 0; i < dim; i++)
            y[i] = x[i] * m.inverse * (offset + gain[i]);
}

void LEVEL(norm_forward)(kvsi_context *c, float *y, const float *x, const kvsi_norm *norm, size_t n,
                         size_t dim)
{
    const pieces cut = cut_rows(n);

    KVSI_PARALLEL_PIECES(c->threads, i, cut.count) {
        for (size_t t = i * cut.rows; t < piece_end(cut, i, n); t++)
            forward_row(y + t * dim, x + t * dim, norm, dim);
    }
}

/* sum_i d_y[i] * (offset + gain[i]) */
static float dot_gain(const float *d_y, const kvsi_norm *norm, size_t dim)
{
    float sum = dot(d_y, norm->gain, dim);

    return norm->gain_offset > 0 ? sum + norm->gain_offset * sum_row(d_y, dim) : sum;
}

/* sum_i d_y[i] * (offset + gain[i]) * (x[i] - mean) */
static float dot_about(const float *d_y, const float *gain, float offset, const float *x,
                       float mean, size_t dim)
{
    vec sum = {0};
    float rest = 0;
    size_t i = 0;

    for (; i + VEC <= dim; i += VEC)
        sum += vec_load(d_y + i) * (offset + vec_load(gain + i)) * (vec_load(x + i) - mean);
    for (; i < dim; i++)
        rest += d_y[i] * (offset + gain[i]) * (x[i] - mean);
    return vec_sum(sum) + rest;
}

/* With z the normalised row and g = d_y * (offset + gain):  d_x += (g - mean(g) - z mean(g z)) /
 * deviation, where RMSNorm has no mean(g). */
static void backward_row(float *restrict d_x, float *restrict d_gain, float *restrict d_bias,
                         const float *restrict d_y, const float *restrict x, const kvsi_norm *norm,
                         size_t dim)
{
    const moments m = moments_of(x, norm, dim);
    const float *restrict gain = norm->gain;
    const float r = m.inverse, offset = norm->gain_offset;
    const float push = norm->bias ? r * dot_gain(d_y, norm, dim) / (float)dim : 0.0f;
    const float pull = r * r * r * dot_about(d_y, gain, offset, x, m.mean, dim) / (float)dim;

    for (size_t i = 0; i < dim; i++) {
        d_x[i] += r * d_y[i] * (offset + gain[i]) - push - pull * (x[i] - m.mean);
        d_gain[i] += d_y[i] * (x[i] - m.mean) * r;
    }
    for (size_t i = 0; norm->bias && i < dim; i++)
        d_bias[i] += d_y[i];
}

void LEVEL(norm_backward)(kvsi_context *c, float *d_x, float *d_gain, float *d_bias,
                          const float *d_y, const float *x, const kvsi_norm *norm, size_t n,
                          size_t dim)
{
    const pieces cut = cut_rows(n);
    float *sums = (float *)c->workspace; /* [cut.count, 2, dim]: d_gain, d_bias */

    KVSI_PARALLEL_PIECES(c->threads, i, cut.count) {
        float *sum = sums + 2 * i * dim;

        memset(sum, 0, 2 * dim * sizeof *sum);
        for (size_t t = i * cut.rows; t < piece_end(cut, i, n); t++)
            backward_row(d_x + t * dim, sum, sum + dim, d_y + t * dim, x + t * dim, norm, dim);
    }
    for (size_t i = 0; i < cut.count; i++)
        for (size_t j = 0; j < dim; j++) {
            d_gain[j] += sums[2 * i * dim + j];
            if (d_bias)
                d_bias[j] += sums[(2 * i + 1) * dim + j];
        }
}
