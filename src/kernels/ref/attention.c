/* Reference attention: the definition, row by row.
 *
 *     x^_t = rotate(shift(x)_t, t)  for q and k,  shift only for v
 *     out_t = sum_{s <= t} p_ts v^_s,   p_ts = exp(q^_t . k^_s * scale - logsum_t)
 *
 * Workspace, in this order: q^ k^ v^ and, for the backward pass, their gradients.  q^ is
 * [tokens, heads, head_size]; k^ and v^ are [kv_heads, len, head_size] sequence by sequence, as in
 * a cache. */
#include "kernels/forms.h"
#include "kernels/host.h"
#include "kernels/ref/ref.h"

#include <math.h>
#include <string.h>

typedef struct work {
    real *q, *k, *v, *d_q, *d_k, *d_v;
} work;

size_t kvsi_ref_attention_workspace(const kvsi_limits *limits)
{
    const size_t width = (limits->heads + 2 * limits->kv_heads) * limits->head_size;

    return limits->tokens * width * sizeof(real) * (limits->training ? 2 : 1);
}

static work work_in(const kvsi_context *c, const kvsi_attention *a)
{
    const size_t q = a->tokens * a->heads * a->head_size,
                 k = a->tokens * a->kv_heads * a->head_size;
    work w;

    w.q = (real *)c->workspace;
    w.k = w.q + q;
    w.v = w.k + k;
    w.d_q = w.v + k;
    w.d_k = w.d_q + q;
    w.d_v = w.d_k + k;
    return w;
}

/* Where the K^ (or V^, or a gradient of either) of a sequence lives: its cache, or `block`. */
static real *of_sequence(real *cache, real *block, const kvsi_span *span, const kvsi_attention *a)
{
    return cache ? cache : block + span->start * a->kv_heads * a->head_size;
}

static size_t capacity_of(const kvsi_span *span)
{
    return span->k ? span->capacity : span->len;
}

/* The raw rows that make up row t of one head, oldest first; NULL = before the start. */
static void raw_rows(const real **rows, kvsi_target target, const real *tail, const real *qkv,
                     const kvsi_span *span, size_t t, size_t head, const kvsi_attention *a)
{
    const size_t window = target.shift->window, column = head * a->head_size;

    for (size_t j = 0; j <= window; j++) {
        const size_t source = t + j; /* counted from the tail's oldest row */
        if (source >= window)
            rows[j] =
                qkv + (span->start + source - window) * kvsi_qkv_width(a) + target.column + column;
        else
            rows[j] = tail ? tail + source * target.heads * a->head_size + column : NULL;
    }
}

static void taps_of(real *taps, const kvsi_shift *shift, size_t head)
{
    const kvsi_form *form = kvsi_form_get(shift->form);

    taps[0] = 1;
    if (shift->window > 0)
        form->taps(taps, shift->parameters + head * form->numbers(shift->window), shift->window);
}

/* Row t of one head, shifted and (for q and k) rotated. */
static void mix_row(real *out, kvsi_target target, const real *tail, const real *qkv,
                    const kvsi_span *span, size_t t, size_t head, const kvsi_attention *a,
                    const real *rotations)
{
    const real *rows[KVSI_TAPS_MAX];
    real taps[KVSI_TAPS_MAX];

    taps_of(taps, target.shift, head);
    raw_rows(rows, target, tail, qkv, span, t, head, a);
    kvsi_ref_shift_row(out, taps, target.shift->window, rows, a->head_size);
    if (rotations)
        kvsi_ref_rotate_row(out, rotations + (span->past + t) * a->head_size, a->head_size, 1);
}

static void mix_all(const work *w, const real *qkv, const kvsi_attention *a)
{
    const size_t d = a->head_size;

    for (size_t s = 0; s < a->sequences; s++) {
        const kvsi_span *span = &a->spans[s];
        const size_t capacity = capacity_of(span);
        real *k = of_sequence(span->k, w->k, span, a), *v = of_sequence(span->v, w->v, span, a);

        for (size_t t = 0; t < span->len; t++) {
            for (size_t h = 0; h < a->heads; h++)
                mix_row(w->q + ((span->start + t) * a->heads + h) * d, kvsi_target_q(a),
                        span->tail_q, qkv, span, t, h, a, a->rotations);
            for (size_t h = 0; h < a->kv_heads; h++) {
                const size_t at = (h * capacity + span->past + t) * d;
                mix_row(k + at, kvsi_target_k(a), span->tail_k, qkv, span, t, h, a, a->rotations);
                mix_row(v + at, kvsi_target_v(a), span->tail_v, qkv, span, t, h, a, NULL);
            }
        }
    }
}

static double dot(const real *x, const real *y, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)y[i];
    return sum;
}

/* One query row against `keys` keys; returns log(sum(exp(scores))). */
static double attend(real *out, const real *q, const real *k, const real *v, size_t keys, size_t d,
                     double scale)
{
    double top = -INFINITY, sum = 0;

    for (size_t s = 0; s < keys; s++)
        top = fmax(top, dot(q, k + s * d, d) * scale);
    for (size_t s = 0; s < keys; s++)
        sum += exp(dot(q, k + s * d, d) * scale - top);
    memset(out, 0, d * sizeof *out);
    for (size_t s = 0; s < keys; s++) {
        const double p = exp(dot(q, k + s * d, d) * scale - top) / sum;
        for (size_t i = 0; i < d; i++)
            out[i] += (real)(p * (double)v[s * d + i]);
    }
    return top + log(sum);
}

void kvsi_ref_attention_forward(kvsi_context *c, real *out, real *logsum, const real *qkv,
                                const kvsi_attention *a)
{
    const work w = work_in(c, a);
    const size_t d = a->head_size, group = a->heads / a->kv_heads;

    mix_all(&w, qkv, a);
    for (size_t s = 0; s < a->sequences; s++) {
        const kvsi_span *span = &a->spans[s];
        const real *k = of_sequence(span->k, w.k, span, a), *v = of_sequence(span->v, w.v, span, a);

        for (size_t t = 0; t < span->len; t++)
            for (size_t h = 0; h < a->heads; h++) {
                const size_t row = (span->start + t) * a->heads + h;
                const size_t kv = h / group * capacity_of(span) * d;
                logsum[row] = (real)attend(out + row * d, w.q + row * d, k + kv, v + kv,
                                           span->past + t + 1, d, (double)a->scale);
            }
    }
    kvsi_keep_tails(a, qkv);
}

/* Gradients of one query row: d_q, and its share of d_k and d_v. */
static void attend_backward(const work *w, size_t row, size_t kv, size_t keys, const real *d_out,
                            const real *out, double logsum, const kvsi_attention *a)
{
    const size_t d = a->head_size;
    const double scale = (double)a->scale, shared = dot(d_out, out, d);
    const real *q = w->q + row * d;

    for (size_t s = 0; s < keys; s++) {
        const size_t at = kv + s * d;
        const double p = exp(dot(q, w->k + at, d) * scale - logsum);
        const double d_score = p * (dot(d_out, w->v + at, d) - shared) * scale;

        for (size_t i = 0; i < d; i++) {
            w->d_q[row * d + i] += (real)(d_score * (double)w->k[at + i]);
            w->d_k[at + i] += (real)(d_score * (double)q[i]);
            w->d_v[at + i] += (real)(p * (double)d_out[i]);
        }
    }
}

/* One head of one sequence, from d_x^ back to d_x (into d_qkv) and to the taps:
 * d_x_t = sum_j taps[j] * d_x^_{t+window-j},  d_taps[j] = sum_t <d_x^_t, x_{t-window+j}>.
 * `d_mixed` is [len, d] with the given stride, and loses its rotation here. */
static void unmix_head(real *d_qkv, real *d_mixed, size_t stride, kvsi_target target,
                       const real *qkv, const kvsi_span *span, size_t head, const kvsi_attention *a,
                       const real *rotations)
{
    const kvsi_shift *shift = target.shift;
    const kvsi_form *form = kvsi_form_get(shift->form);
    const size_t d = a->head_size, window = shift->window;
    double d_taps[KVSI_TAPS_MAX] = {0};
    real taps[KVSI_TAPS_MAX];

    taps_of(taps, shift, head);
    for (size_t t = 0; rotations && t < span->len; t++)
        kvsi_ref_rotate_row(d_mixed + t * stride, rotations + t * d, d, -1);
    for (size_t t = 0; t < span->len; t++) {
        const real *rows[KVSI_TAPS_MAX];
        real *d_x = d_qkv + (span->start + t) * kvsi_qkv_width(a) + target.column + head * d;

        raw_rows(rows, target, NULL, qkv, span, t, head, a);
        memset(d_x, 0, d * sizeof *d_x);
        for (size_t j = 0; j <= window; j++) {
            const size_t later = t + window - j;
            if (rows[j])
                d_taps[j] += dot(d_mixed + t * stride, rows[j], d);
            for (size_t i = 0; later < span->len && i < d; i++)
                d_x[i] += taps[j] * d_mixed[later * stride + i];
        }
    }
    if (window > 0)
        form->backward(shift->gradient + head * form->numbers(window), d_taps,
                       shift->parameters + head * form->numbers(window), window);
}

void kvsi_ref_attention_backward(kvsi_context *c, real *d_qkv, const real *d_out, const real *out,
                                 const real *logsum, const real *qkv, const kvsi_attention *a)
{
    const work w = work_in(c, a);
    const size_t d = a->head_size, group = a->heads / a->kv_heads;

    mix_all(&w, qkv, a);
    memset(w.d_q, 0, a->tokens * kvsi_qkv_width(a) * sizeof *w.d_q);
    for (size_t s = 0; s < a->sequences; s++) {
        const kvsi_span *span = &a->spans[s];
        const size_t start = span->start * a->kv_heads * d;

        for (size_t t = 0; t < span->len; t++)
            for (size_t h = 0; h < a->heads; h++) {
                const size_t row = (span->start + t) * a->heads + h;
                attend_backward(&w, row, start + h / group * span->len * d, t + 1, d_out + row * d,
                                out + row * d, (double)logsum[row], a);
            }
        for (size_t h = 0; h < a->heads; h++)
            unmix_head(d_qkv, w.d_q + (span->start * a->heads + h) * d, a->heads * d,
                       kvsi_target_q(a), qkv, span, h, a, a->rotations);
        for (size_t h = 0; h < a->kv_heads; h++) {
            const size_t at = start + h * span->len * d;
            unmix_head(d_qkv, w.d_k + at, d, kvsi_target_k(a), qkv, span, h, a, a->rotations);
            unmix_head(d_qkv, w.d_v + at, d, kvsi_target_v(a), qkv, span, h, a, NULL);
        }
    }
}
