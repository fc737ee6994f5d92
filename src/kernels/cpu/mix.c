#include "kernels/cpu/mix.h"

#include "kernels/cpu/vector.h"
#include "kernels/host.h"

#include <string.h>

mixing LEVEL(mixing_of)(const kvsi_attention *a, unsigned target, const kvsi_span *span,
                        size_t head, const float *qkv)
{
    const kvsi_target t = target == KVS_SHIFT_Q   ? kvsi_target_q(a)
                          : target == KVS_SHIFT_K ? kvsi_target_k(a)
                                                  : kvsi_target_v(a);
    const float *tail = target == KVS_SHIFT_Q   ? span->tail_q
                        : target == KVS_SHIFT_K ? span->tail_k
                                                : span->tail_v;
    const size_t width = kvsi_qkv_width(a), column = head * a->head_size;
    const kvsi_form *form = kvsi_form_get(t.shift->form);
    mixing m = {
        .len = span->len,
        .head_size = a->head_size,
        .window = t.shift->window,
        .taps = {1.0f},
        .raw = qkv + span->start * width + t.column + column,
        .raw_stride = width,
        .tail = tail ? tail + column : NULL,
        .tail_stride = t.heads * a->head_size,
    };

    if (target != KVS_SHIFT_V && a->rotations)
        m.rotations = a->rotations + span->past * a->head_size;
    if (m.window > 0)
        form->taps(m.taps, t.shift->parameters + head * form->numbers(m.window), m.window);
    return m;
}

/* The raw row `back` tokens before row t; NULL = before the start. */
static const float *raw_row(const mixing *m, size_t t, size_t back)
{
    if (t >= back)
        return m->raw + (t - back) * m->raw_stride;
    return m->tail ? m->tail + (m->window + t - back) * m->tail_stride : NULL;
}

static void rotate(float *restrict row, const float *restrict rotation, size_t head_size,
                   float turn)
{
    const size_t half = head_size / 2;
    float *restrict low = row, *restrict high = row + half;
    const float *restrict cosine = rotation, *restrict sine = rotation + half;

    for (size_t i = 0; i < half; i++) {
        const float x = low[i], y = high[i], s = turn * sine[i];
        low[i] = x * cosine[i] - y * s;
        high[i] = y * cosine[i] + x * s;
    }
}

static void scale_row(float *restrict out, const float *restrict x, float tap, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = tap * x[i];
}

static void blend_rows(float *restrict out, const float *restrict x, float tap,
                       const float *restrict y, float other, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = tap * x[i] + other * y[i];
}

static void add_row(float *restrict out, const float *restrict x, float tap, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] += tap * x[i];
}

void LEVEL(mix)(float *out, size_t stride, const mixing *m)
{
    const size_t n = m->head_size, window = m->window;

    for (size_t t = 0; t < m->len; t++) {
        float *row = out + t * stride;
        const float *now = raw_row(m, t, 0), *before = window > 0 ? raw_row(m, t, 1) : NULL;

        if (window == 0)
            memcpy(row, now, n * sizeof *row);
        else if (before)
            blend_rows(row, now, m->taps[window], before, m->taps[window - 1], n);
        else
            scale_row(row, now, m->taps[window], n);
        for (size_t back = 2; back <= window; back++)
            if (raw_row(m, t, back))
                add_row(row, raw_row(m, t, back), m->taps[window - back], n);
        if (m->rotations)
            rotate(row, m->rotations + t * n, n, 1.0f);
    }
}

void LEVEL(unmix)(float *d_raw, double *d_taps, float *d_mixed, size_t stride, const mixing *m)
{
    const size_t n = m->head_size, window = m->window;

    memset(d_taps, 0, KVSI_TAPS_MAX * sizeof *d_taps);
    if (m->rotations)
        for (size_t t = 0; t < m->len; t++)
            rotate(d_mixed + t * stride, m->rotations + t * n, n, -1.0f);
    for (size_t t = 0; t < m->len; t++) {
        float *row = d_raw + t * m->raw_stride;
        const float *u = d_mixed + t * stride;

        if (window == 0)
            memcpy(row, u, n * sizeof *row);
        else if (t + 1 < m->len)
            blend_rows(row, u, m->taps[window], u + stride, m->taps[window - 1], n);
        else
            scale_row(row, u, m->taps[window], n);
        for (size_t ahead = 2; ahead <= window && t + ahead < m->len; ahead++)
            add_row(row, u + ahead * stride, m->taps[window - ahead], n);
        for (size_t back = 0; window > 0 && back <= window; back++)
            if (raw_row(m, t, back))
                d_taps[window - back] += (double)dot(u, raw_row(m, t, back), n);
    }
}
