#include "kernels/cpu/shift_rotate.h"

#include "kernels/cpu/vector.h"
#include "kernels/host.h"

#include <math.h>
#include <string.h>

static kvsi_target target_of(const kvsi_attention *a, unsigned target)
{
    return target == KVS_SHIFT_Q   ? kvsi_target_q(a)
           : target == KVS_SHIFT_K ? kvsi_target_k(a)
                                   : kvsi_target_v(a);
}

shift_rotation LEVEL(shift_rotation_of)(const kvsi_attention *a, unsigned target,
                                        const kvsi_span *span, size_t head, const float *qkv,
                                        const float *taps)
{
    const kvsi_target t = target_of(a, target);
    const float *tail = span->tails[t.tail];
    const size_t width = kvsi_qkv_width(a), column = head * a->head_size;
    const int rotates = target != KVS_SHIFT_V && a->rotary > 0;
    const int gated = t.shift->window > 0 && kvsi_form_get(t.shift->form)->gated;

    return (shift_rotation){
        .len = span->len,
        .head_size = a->head_size,
        .window = t.shift->window,
        .taps = taps,
        .gates = gated ? t.shift->gates + span->start * t.shift->gate_stride + head : NULL,
        .gate_stride = t.shift->gate_stride,
        .raw = qkv + span->start * width + t.column + column,
        .raw_stride = width,
        .tail = tail ? tail + column : NULL,
        .tail_stride = t.heads * a->head_size,
        .gain = t.gain ? t.gain + head * t.gain_stride : NULL,
        .norm = t.gain ? a->qk_norm : KVSI_QK_NORM_NONE,
        .gain_offset = a->gain_offset,
        .eps = a->norm_eps,
        .rotations = rotates ? a->rotations + span->past * a->rotary : NULL,
        .rotary = rotates ? a->rotary : 0,
        .growth = target == KVS_SHIFT_Q && a->growth ? a->growth + span->past : NULL,
    };
}

void LEVEL(make_taps)(float *taps, const kvsi_attention *a)
{
    const unsigned order[] = {KVS_SHIFT_Q, KVS_SHIFT_K, KVS_SHIFT_V};
    const size_t size = KVSI_TAPS_MAX * a->head_size;

    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        const kvsi_target t = target_of(a, order[i]);
        const kvsi_form *form = kvsi_form_get(t.shift->form);
        const size_t window = t.shift->window;

        for (size_t head = 0; window > 0 && form->taps && head < t.heads; head++)
            form->taps(taps + head * size, kvsi_head_params(t.shift, head, a->head_size), window,
                       a->head_size);
        taps += t.heads * size;
    }
}

/* The raw row `back` tokens before row t; NULL = before the start. */
static const float *raw_row(const shift_rotation *m, size_t t, size_t back)
{
    if (t >= back)
        return m->raw + (t - back) * m->raw_stride;
    return m->tail ? m->tail + (m->window + t - back) * m->tail_stride : NULL;
}

/* ---- rows, channel by channel ---- */

/* x, but the compiler does not know that: a product is not contracted with an addition (which of
 * two products of a sum is contracted would depend on the code around it), and a product that
 * another expression needs too is not shared with it, which would prevent its contraction. */
INLINE vec opaque(vec x)
{
    OPAQUE(x);
    return x;
}

/* x tap + y other */
INLINE vec blend(vec x, vec tap, vec y, vec other)
{
    return tap * x + opaque(other * y);
}

/* Heads are a few vectors wide: the compiler's own vectorised loops have too much overhead. */
#define FOR_CHANNELS(i, n, of_vectors, of_one)                                                     \
    do {                                                                                           \
        size_t i = 0;                                                                              \
        for (; i + VEC <= (n); i += VEC)                                                           \
            of_vectors;                                                                            \
        for (; i < (n); i++)                                                                       \
            of_one;                                                                                \
    } while (0)

static void scale_row(float *out, const float *x, const float *tap, size_t n)
{
    FOR_CHANNELS(i, n, vec_store(out + i, vec_load(tap + i) * vec_load(x + i)),
                 out[i] = tap[i] * x[i]);
}

static void blend_rows(float *out, const float *x, const float *tap, const float *y,
                       const float *other, size_t n)
{
    FOR_CHANNELS(i, n,
                 vec_store(out + i, blend(vec_load(x + i), vec_load(tap + i), vec_load(y + i),
                                          vec_load(other + i))),
                 out[i] = tap[i] * x[i] + other[i] * y[i]);
}

static void add_row(float *out, const float *x, const float *tap, size_t n)
{
    FOR_CHANNELS(i, n, vec_store(out + i, vec_load(out + i) + vec_load(tap + i) * vec_load(x + i)),
                 out[i] += tap[i] * x[i]);
}

static void rotate(float *row, const float *rotation, size_t rotary, float turn)
{
    const size_t half = rotary / 2;
    float *low = row, *high = row + half;
    const float *cosine = rotation, *sine = rotation + half;
    size_t i = 0;

    for (; i + VEC <= half; i += VEC) {
        const vec x = vec_load(low + i), y = vec_load(high + i), c = vec_load(cosine + i);
        const vec s = turn * vec_load(sine + i);

        vec_store(low + i, x * c - y * s);
        vec_store(high + i, y * c + x * s);
    }
    for (; i < half; i++) {
        const float x = low[i], y = high[i], s = turn * sine[i];

        low[i] = x * cosine[i] - y * s;
        high[i] = y * cosine[i] + x * s;
    }
}

static void grow(float *row, const shift_rotation *m, size_t t)
{
    for (size_t i = 0; i < m->head_size; i++)
        row[i] *= m->growth[t];
}

/* The adjoint of rotation and growth: row t, in place. */
static void turn_back(float *row, const shift_rotation *m, size_t t)
{
    if (m->growth)
        grow(row, m, t);
    if (m->rotary > 0)
        rotate(row, m->rotations + t * m->rotary, m->rotary, -1.0f);
}

/* out = a * x + b * y with one a and b per token; x NULL = 0 */
static void gate_rows(float *restrict out, const float *restrict x, float a,
                      const float *restrict y, float b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (x ? a * x[i] : 0.0f) + b * y[i];
}

static float gate_at(const shift_rotation *m, size_t t)
{
    return 1.0f / (1.0f + exp_one(-m->gates[t * m->gate_stride]));
}

/* ---- forward ---- */

static void shift_row(float *row, const shift_rotation *m, size_t t)
{
    const size_t n = m->head_size, window = m->window;
    const float *now = raw_row(m, t, 0), *before = window > 0 ? raw_row(m, t, 1) : NULL;

    if (window == 0) {
        memcpy(row, now, n * sizeof *row);
        return;
    }
    if (m->gates) {
        const float gate = gate_at(m, t);
        gate_rows(row, before, gate, now, 1.0f - gate, n);
        return;
    }
    if (before)
        blend_rows(row, now, m->taps + window * n, before, m->taps + (window - 1) * n, n);
    else
        scale_row(row, now, m->taps + window * n, n);
    for (size_t back = 2; back <= window; back++)
        if (raw_row(m, t, back))
            add_row(row, raw_row(m, t, back), m->taps + (window - back) * n, n);
}

/* What the norm subtracts from a row, and 1 / what it divides by. */
typedef struct moments {
    float mean, inverse;
} moments;

static float mean_of(const float *x, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (double)x[i];
    return (float)(sum / (double)n);
}

static double squares_about(const float *x, float mean, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (double)(x[i] - mean) * (double)(x[i] - mean);
    return sum;
}

/* Those of row t, which is x. */
static moments moments_of(const float *x, const shift_rotation *m, size_t t)
{
    const size_t n = m->head_size;
    const int layer = m->norm == KVSI_QK_NORM_LAYER;
    const float mean = layer ? mean_of(x, n) : 0.0f;
    double squares;

    if (m->norm == KVSI_QK_NORM_FULL)
        return (moments){0.0f, m->inverses[t]};
    squares = layer ? squares_about(x, mean, n) : (double)dot(x, x, n);
    return (moments){mean, (float)(1.0 / sqrt(squares / (double)n + m->eps))};
}

static void normalise_row(float *row, const shift_rotation *m, size_t t)
{
    const moments about = moments_of(row, m, t);

    for (size_t i = 0; i < m->head_size; i++)
        row[i] = (row[i] - about.mean) * about.inverse * (m->gain_offset + m->gain[i]);
}

void LEVEL(row_squares)(double *sums, float *rows, const shift_rotation *m)
{
    for (size_t t = 0; t < m->len; t++) {
        shift_row(rows, m, t);
        sums[t] = (double)dot(rows, rows, m->head_size);
    }
}

/* ---- windows 0 and 1: two vectors of channels through all rows, so that every row is read once
 * and taps, the previous row and sums stay in registers ---- */

typedef struct vec_pair {
    vec low, high;
} vec_pair;

/* Channels low .. low + VEC - 1 and high .. high + VEC - 1.  Those of a pair rotate together, if
 * they rotate. */
typedef struct channels {
    size_t low, high;
    int rotate;
} channels;

INLINE vec_pair pair_load(const float *row, channels at)
{
    return (vec_pair){vec_load(row + at.low), vec_load(row + at.high)};
}

INLINE void pair_store(float *row, channels at, vec_pair x)
{
    vec_store(row + at.low, x.low);
    vec_store(row + at.high, x.high);
}

INLINE vec_pair pair_scale(vec_pair tap, vec_pair x)
{
    return (vec_pair){opaque(tap.low) * x.low, opaque(tap.high) * x.high};
}

INLINE vec_pair pair_blend(vec_pair x, vec_pair tap, vec_pair y, vec_pair other)
{
    return (vec_pair){blend(x.low, tap.low, y.low, other.low),
                      blend(x.high, tap.high, y.high, other.high)};
}

INLINE vec_pair pair_add(vec_pair sum, vec_pair x, vec_pair y)
{
    return (vec_pair){sum.low + x.low * y.low, sum.high + x.high * y.high};
}

INLINE vec_pair pair_rotate(vec_pair x, channels at, const shift_rotation *m, size_t t, float turn)
{
    const float *cosine = m->rotations + t * m->rotary + at.low;
    const vec c = vec_load(cosine), s = turn * vec_load(cosine + m->rotary / 2);

    return (vec_pair){x.low * c - x.high * s, x.high * c + x.low * s};
}

/* Whether the head consists of whole pairs. */
static int is_paired(const shift_rotation *m)
{
    return m->window <= 1 && !m->gates && !m->gain && !m->growth && m->rotary % (2 * VEC) == 0 &&
           m->head_size % (2 * VEC) == 0;
}

/* The rotating channels i and i + rotary / 2 first, then neighbours. */
static channels pair_at(const shift_rotation *m, size_t index)
{
    const size_t at = index * VEC, half = m->rotary / 2;

    return at < half ? (channels){at, at + half, 1} : (channels){2 * at, 2 * at + VEC, 0};
}

INLINE void shift_rotate_pair(float *out, size_t stride, const shift_rotation *m, channels at,
                              int shifted, int rotated)
{
    const vec_pair zero = {{0}, {0}};
    const float *first = shifted ? raw_row(m, 0, 1) : NULL;
    const vec_pair tap = shifted ? pair_load(m->taps + m->head_size, at) : zero;
    const vec_pair other = shifted ? pair_load(m->taps, at) : zero;
    vec_pair before = first ? pair_load(first, at) : zero;

    for (size_t t = 0; t < m->len; t++) {
        const vec_pair now = pair_load(m->raw + t * m->raw_stride, at);
        vec_pair x = now;

        if (shifted)
            x = t > 0 || first ? pair_blend(now, tap, before, other) : pair_scale(tap, now);
        if (rotated)
            x = pair_rotate(x, at, m, t, 1.0f);
        pair_store(out + t * stride, at, x);
        before = now;
    }
}

void LEVEL(shift_rotate)(float *out, size_t stride, const shift_rotation *m)
{
    for (size_t i = 0; is_paired(m) && i < m->head_size / (2 * VEC); i++) {
        const channels at = pair_at(m, i);

        if (m->window > 0 && at.rotate)
            shift_rotate_pair(out, stride, m, at, 1, 1);
        else if (m->window > 0)
            shift_rotate_pair(out, stride, m, at, 1, 0);
        else if (at.rotate)
            shift_rotate_pair(out, stride, m, at, 0, 1);
        else
            shift_rotate_pair(out, stride, m, at, 0, 0);
    }
    for (size_t t = 0; !is_paired(m) && t < m->len; t++) {
        shift_row(out + t * stride, m, t);
        if (m->gain)
            normalise_row(out + t * stride, m, t);
        if (m->rotary > 0)
            rotate(out + t * stride, m->rotations + t * m->rotary, m->rotary, 1.0f);
        if (m->growth)
            grow(out + t * stride, m, t);
    }
}

/* ---- backward ---- */

enum {
    RUN = 64
}; /* rows whose contributions to taps are added as floats, before those as doubles */

INLINE void flush_pair(double *d_taps, vec_pair sum, channels at)
{
    for (size_t i = 0; i < VEC; i++) {
        d_taps[at.low + i] += (double)sum.low[i];
        d_taps[at.high + i] += (double)sum.high[i];
    }
}

INLINE vec_pair rotated_back(const float *d_shifted, size_t stride, const shift_rotation *m,
                             channels at, size_t t, int rotated)
{
    const vec_pair u = pair_load(d_shifted + t * stride, at);

    return rotated ? pair_rotate(u, at, m, t, -1.0f) : u;
}

INLINE void shift_pair_backward(float *d_raw, double *d_taps, const float *d_shifted, size_t stride,
                                const shift_rotation *m, channels at, int shifted, int rotated)
{
    const vec_pair zero = {{0}, {0}};
    const float *first = shifted ? raw_row(m, 0, 1) : NULL;
    const vec_pair tap = shifted ? pair_load(m->taps + m->head_size, at) : zero;
    const vec_pair other = shifted ? pair_load(m->taps, at) : zero;
    vec_pair before = first ? pair_load(first, at) : zero, sum = zero, other_sum = zero;
    vec_pair u = rotated_back(d_shifted, stride, m, at, 0, rotated);

    for (size_t t = 0; t < m->len; t++) {
        const int more = t + 1 < m->len;
        const vec_pair next = more ? rotated_back(d_shifted, stride, m, at, t + 1, rotated) : zero;
        vec_pair x = u;

        if (shifted) {
            const vec_pair now = pair_load(m->raw + t * m->raw_stride, at);

            x = more ? pair_blend(u, tap, next, other) : pair_scale(tap, u);
            sum = pair_add(sum, u, now);
            if (t > 0 || first)
                other_sum = pair_add(other_sum, u, before);
            before = now;
            if (t % RUN == RUN - 1 || !more) {
                flush_pair(d_taps + m->head_size, sum, at);
                flush_pair(d_taps, other_sum, at);
                sum = other_sum = zero;
            }
        }
        pair_store(d_raw + t * m->raw_stride, at, x);
        u = next;
    }
}

static void shift_pairs_backward(float *d_raw, double *d_taps, const float *d_shifted,
                                 size_t stride, const shift_rotation *m)
{
    for (size_t i = 0; m->len > 0 && i < m->head_size / (2 * VEC); i++) {
        const channels at = pair_at(m, i);

        if (m->window > 0 && at.rotate)
            shift_pair_backward(d_raw, d_taps, d_shifted, stride, m, at, 1, 1);
        else if (m->window > 0)
            shift_pair_backward(d_raw, d_taps, d_shifted, stride, m, at, 1, 0);
        else if (at.rotate)
            shift_pair_backward(d_raw, d_taps, d_shifted, stride, m, at, 0, 1);
        else
            shift_pair_backward(d_raw, d_taps, d_shifted, stride, m, at, 0, 0);
    }
}

static void shift_row_backward(float *row, const float *u, size_t stride, const shift_rotation *m,
                               size_t t)
{
    const size_t n = m->head_size, window = m->window;
    const int more = t + 1 < m->len;

    if (window == 0) {
        memcpy(row, u, n * sizeof *row);
        return;
    }
    if (m->gates) {
        gate_rows(row, more ? u + stride : NULL, more ? gate_at(m, t + 1) : 0.0f, u,
                  1.0f - gate_at(m, t), n);
        return;
    }
    if (more)
        blend_rows(row, u, m->taps + window * n, u + stride, m->taps + (window - 1) * n, n);
    else
        scale_row(row, u, m->taps + window * n, n);
    for (size_t ahead = 2; ahead <= window && t + ahead < m->len; ahead++)
        add_row(row, u + ahead * stride, m->taps + (window - ahead) * n, n);
}

static void gate_backward(float *d_gate, const float *u, const shift_rotation *m, size_t t)
{
    const float gate = gate_at(m, t), *before = raw_row(m, t, 1);
    const float gain =
        (before ? dot(u, before, m->head_size) : 0.0f) - dot(u, raw_row(m, t, 0), m->head_size);

    *d_gate = gain * gate * (1.0f - gate);
}

/* Adds float sums over short runs of rows to double sums. */
static void flush(double *d_taps, float *sums, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        d_taps[i] += (double)sums[i];
        sums[i] = 0.0f;
    }
}

static void shift_any_backward(float *row, float *sums, float *d_gate, const float *u,
                               size_t stride, const shift_rotation *m, size_t t)
{
    const size_t n = m->head_size;

    shift_row_backward(row, u, stride, m, t);
    if (m->gates)
        gate_backward(d_gate, u, m, t);
    for (size_t back = 0; m->window > 0 && !m->gates && back <= m->window; back++)
        if (raw_row(m, t, back))
            add_row(sums + (m->window - back) * n, raw_row(m, t, back), u, n);
}

/* sum_i u[i] * (gain_offset + gain[i]) * (x[i] - mean) */
static float pull_of(const float *u, const float *x, float mean, const shift_rotation *m)
{
    float sum = 0;

    for (size_t i = 0; i < m->head_size; i++)
        sum += u[i] * (m->gain_offset + m->gain[i]) * (x[i] - mean);
    return sum;
}

void LEVEL(row_pulls)(double *sums, float *rows, const float *d_shifted, size_t stride,
                      const shift_rotation *m)
{
    float *u = rows + m->head_size;

    for (size_t t = 0; t < m->len; t++) {
        memcpy(u, d_shifted + t * stride, m->head_size * sizeof *u);
        turn_back(u, m, t);
        shift_row(rows, m, t);
        sums[t] = (double)pull_of(u, rows, 0.0f, m);
    }
}

/* u becomes the gradient of the shifted row x: with z = (x - mean) r and
 * g = u (gain_offset + gain), it is (g - mean(g) - z mean(g z)) r, where only LayerNorm has
 * mean(g). */
static void norm_row_backward(float *u, double *d_gain, const float *x, const shift_rotation *m,
                              size_t t)
{
    const moments about = moments_of(x, m, t);
    const float r = about.inverse, n = (float)m->head_size;
    const float pull =
        m->norm == KVSI_QK_NORM_FULL ? m->pulls[t] : r * r * r * pull_of(u, x, about.mean, m) / n;
    float push = 0;

    for (size_t i = 0; m->norm == KVSI_QK_NORM_LAYER && i < m->head_size; i++)
        push += r * u[i] * (m->gain_offset + m->gain[i]) / n;
    for (size_t i = 0; i < m->head_size; i++) {
        const float away = x[i] - about.mean;

        d_gain[i] += (double)(u[i] * away * r);
        u[i] = r * u[i] * (m->gain_offset + m->gain[i]) - pull * away - push;
    }
}

static void norm_backward(float *d_shifted, size_t stride, const shift_rotation *m,
                          norm_backward_memory norm)
{
    memset(norm.d_gain, 0, m->head_size * sizeof *norm.d_gain);
    for (size_t t = 0; t < m->len; t++) {
        shift_row(norm.row, m, t);
        norm_row_backward(d_shifted + t * stride, norm.d_gain, norm.row, m, t);
    }
}

void LEVEL(shift_rotate_backward)(float *d_raw, double *d_taps, float *sums, float *d_gates,
                                  float *d_shifted, size_t stride, const shift_rotation *m,
                                  norm_backward_memory norm)
{
    const size_t taps = m->window > 0 && !m->gates ? (m->window + 1) * m->head_size : 0;

    memset(d_taps, 0, taps * sizeof *d_taps);
    if (is_paired(m)) {
        shift_pairs_backward(d_raw, d_taps, d_shifted, stride, m);
        return;
    }
    memset(sums, 0, taps * sizeof *sums);
    for (size_t t = 0; (m->rotary > 0 || m->growth) && t < m->len; t++)
        turn_back(d_shifted + t * stride, m, t);
    if (m->gain)
        norm_backward(d_shifted, stride, m, norm);
    for (size_t t = 0; t < m->len; t++) {
        const float *u = d_shifted + t * stride;
        float *row = d_raw + t * m->raw_stride;

        shift_any_backward(row, sums, m->gates ? d_gates + t * m->gate_stride : NULL, u, stride, m,
                           t);
        if (t % RUN == RUN - 1)
            flush(d_taps, sums, taps);
    }
    flush(d_taps, sums, taps);
}
