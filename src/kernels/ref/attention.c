/* Reference attention: the definition, row by row.
 *
 *     x^_t = rotate(norm(shift(x)_t), t)  for q and k,  shift only for v;  q^_t *= growth_t
 *     out_t = sum_s p_ts m_ts v^_s,   p_ts = exp(score_ts - logsum_t),  m = dropout factors
 *     score_ts = cap(q^_t . k^_s * scale) - slope * (t - s) + near_t(t - s),  over the keys s
 *                visible to t
 *     near_t(x) = growth_t sum_c r_t[c] table[c][x], 0 from x = extent on
 *     cap(x) = score_cap * tanh(x / score_cap), or x
 *
 * In training with precision BF16 the operands of the products are rounded to bfloat16: q^, k^ and
 * v^, the weights exp(score - largest score) m, and in the backward pass p m, the gradient of out,
 * and that of the scores.  Scores, sums, logsum, out and <d_out, out> are not rounded.
 *
 * norm(x) = (x - mean) / deviation * (gain_offset + gain), or x if there is no gain.  The mean is 0
 * and the deviation sqrt(mean(x^2) + eps), of one head or of all (KVSI_QK_NORM_FULL); in
 * KVSI_QK_NORM_LAYER they are those of LayerNorm of one head.
 *
 * Workspace, in this order: q^ k^ v^, their gradients (training), one head's taps and one row.
 * q^ is [tokens, heads, head_size]; k^ and v^ are [kv_heads, len, head_size] sequence by sequence,
 * as in a cache. */
#include "kernels/forms.h"
#include "kernels/host.h"
#include "kernels/ref/ref.h"

#include <math.h>
#include <string.h>

typedef struct work {
    kvsi_context c;   /* with the precision of attention */
    double *d_taps;   /* [KVSI_TAPS_MAX, head_size] */
    double *d_params; /* [parameters per head] */
    real *taps;       /* [KVSI_TAPS_MAX, head_size] */
    real *row;        /* [head_size] */
    real *q, *k, *v, *d_q, *d_k, *d_v;
} work;

size_t kvsi_ref_attention_workspace(const kvsi_limits *limits)
{
    const size_t mixed =
        limits->tokens * (limits->heads + 2 * limits->kv_heads) * limits->head_size;
    const size_t taps = KVSI_TAPS_MAX * limits->head_size;

    return (taps + limits->shift_params) * sizeof(double) +
           (taps + limits->head_size + mixed * (limits->training ? 2 : 1)) * sizeof(real);
}

static work work_in(const kvsi_context *c, const kvsi_attention *a)
{
    const size_t q = a->tokens * a->heads * a->head_size,
                 k = a->tokens * a->kv_heads * a->head_size;
    const size_t taps = KVSI_TAPS_MAX * a->head_size;
    work w;

    w.c = *c;
    w.c.precision = a->training ? c->precision : KVSI_PRECISION_F32;
    w.d_taps = (double *)c->workspace;
    w.d_params = w.d_taps + taps;
    w.taps = (real *)(w.d_params + kvsi_shift_params(a));
    w.row = w.taps + taps;
    w.q = w.row + a->head_size;
    w.k = w.q + q;
    w.v = w.k + k;
    w.d_q = w.v + k;
    w.d_k = w.d_q + q;
    w.d_v = w.d_k + k;
    return w;
}

/* The K^ (or V^) of one head of a sequence: in its cache, or in `block`. */
typedef struct kept_rows {
    void *at;
    kvsi_dtype type; /* F16, Q8_0, or else real */
} kept_rows;

static kept_rows rows_of(void *cache, real *block, const kvsi_span *span, size_t kv_head,
                         const kvsi_attention *a)
{
    const size_t d = a->head_size, in_cache = kv_head * span->capacity * d;

    if (!cache)
        return (kept_rows){block + (span->start * a->kv_heads + kv_head * span->len) * d,
                           KVSI_REAL_TYPE};
    if (kvsi_cache_rounds(span->cache))
        return (kept_rows){(unsigned char *)cache + kvsi_dtype_bytes(span->cache, in_cache),
                           span->cache};
    return (kept_rows){(real *)cache + in_cache, KVSI_REAL_TYPE};
}

static real value_at(kept_rows x, size_t i)
{
    const unsigned char *block;
    uint16_t scale;

    if (x.type == KVSI_F16)
        return (real)kvsi_f16_to_float(((const uint16_t *)x.at)[i]);
    if (x.type != KVSI_Q8_0)
        return ((const real *)x.at)[i];
    block = (const unsigned char *)x.at + kvsi_dtype_bytes(KVSI_Q8_0, i);
    memcpy(&scale, block, sizeof scale);
    return (real)kvsi_f16_to_float(scale) *
           (int8_t)block[sizeof scale + i % kvsi_dtype_block(KVSI_Q8_0)];
}

/* ---- shift and rotation ---- */

/* The raw rows that row t of one head is a sum of, oldest first; NULL = before the start. */
static void raw_rows(const real **rows, kvsi_target target, const real *tail, const real *qkv,
                     const kvsi_span *span, size_t t, size_t head, const kvsi_attention *a)
{
    const size_t window = target.shift->window, column = head * a->head_size;

    for (size_t j = 0; j <= window; j++) {
        const size_t source = t + j; /* index into (tail, new rows) */
        if (source >= window)
            rows[j] =
                qkv + (span->start + source - window) * kvsi_qkv_width(a) + target.column + column;
        else
            rows[j] = tail ? tail + source * target.heads * a->head_size + column : NULL;
    }
}

static double gate_of(const kvsi_shift *shift, size_t row, size_t head)
{
    return 1.0 / (1.0 + exp(-(double)shift->gates[row * shift->gate_stride + head]));
}

/* The taps of one head at one row of the batch; they depend on the row only with gates. */
static void taps_at(real *taps, const kvsi_shift *shift, size_t row, size_t head, size_t d)
{
    const kvsi_form *form = kvsi_form_get(shift->form);

    for (size_t i = 0; shift->window == 0 && i < d; i++)
        taps[i] = 1;
    for (size_t i = 0; shift->window > 0 && form->gated && i < d; i++) {
        taps[i] = (real)gate_of(shift, row, head);
        taps[d + i] = 1 - taps[i];
    }
    if (shift->window > 0 && !form->gated)
        form->taps(taps, kvsi_head_params(shift, head, d), shift->window, d);
}

/* Row t of one head, shifted. */
static void shift_row(real *out, const work *w, kvsi_target target, const real *tail,
                      const real *qkv, const kvsi_span *span, size_t t, size_t head,
                      const kvsi_attention *a)
{
    const real *rows[KVSI_TAPS_MAX];

    taps_at(w->taps, target.shift, span->start + t, head, a->head_size);
    raw_rows(rows, target, tail, qkv, span, t, head, a);
    kvsi_ref_shift_row(out, w->taps, target.shift->window, rows, a->head_size);
}

/* The mean that the norm subtracts from a row, and 1 / the deviation that it divides by. */
typedef struct moments {
    double mean, inverse;
} moments;

/* Those of row t of one head.  Uses w->row. */
static moments moments_of(const work *w, kvsi_target target, const real *tail, const real *qkv,
                          const kvsi_span *span, size_t t, size_t head, const kvsi_attention *a)
{
    const int full = a->qk_norm == KVSI_QK_NORM_FULL;
    const size_t d = a->head_size, first = full ? 0 : head, end = full ? target.heads : head + 1;
    const double count = (double)((end - first) * d);
    double mean = 0, squares = 0;

    for (size_t h = first; h < end; h++) {
        shift_row(w->row, w, target, tail, qkv, span, t, h, a);
        for (size_t i = 0; a->qk_norm == KVSI_QK_NORM_LAYER && i < d; i++)
            mean += (double)w->row[i] / count;
        for (size_t i = 0; i < d; i++)
            squares += ((double)w->row[i] - mean) * ((double)w->row[i] - mean);
    }
    return (moments){mean, 1 / sqrt(squares / count + a->norm_eps)};
}

static double gain_at(kvsi_target target, const kvsi_attention *a, size_t head, size_t i)
{
    return (double)a->gain_offset + (double)target.gain[head * target.gain_stride + i];
}

/* The factor of q^ and of the relative terms of a row. */
static real growth_at(const kvsi_attention *a, size_t position)
{
    return a->growth ? a->growth[position] : 1;
}

/* Row t of one head, shifted, normalised if the target has a gain, and, if `rotary`, rotated; an
 * operand. */
static void finished_row(real *out, const work *w, kvsi_target target, const real *tail,
                         const real *qkv, const kvsi_span *span, size_t t, size_t head,
                         const kvsi_attention *a, size_t rotary)
{
    shift_row(out, w, target, tail, qkv, span, t, head, a);
    if (target.gain) {
        const moments m = moments_of(w, target, tail, qkv, span, t, head, a);

        for (size_t i = 0; i < a->head_size; i++)
            out[i] = (real)(((double)out[i] - m.mean) * m.inverse * gain_at(target, a, head, i));
    }
    if (rotary > 0)
        kvsi_ref_rotate_row(out, a->rotations + (span->past + t) * rotary, rotary, 1);
    for (size_t i = 0; target.tail == KVSI_TAIL_Q && i < a->head_size; i++)
        out[i] *= growth_at(a, span->past + t);
    for (size_t i = 0; i < a->head_size; i++)
        out[i] = (real)kvsi_ref_operand(&w->c, (double)out[i]);
}

/* Stores row t of K^ or V^, computed at `row`. */
static void keep_row(kept_rows kept, real *row, const kvsi_span *span, size_t t, size_t d)
{
    const size_t at = (span->past - span->first + t) * d;

    const int in_cache = kvsi_cache_rounds(kept.type);

    if (kvsi_cache_rounds(span->cache))
        kvsi_store_rounded(in_cache ? kept.at : NULL, span->cache, at, row, d);
    if (!in_cache && (real *)kept.at + at != row)
        memcpy((real *)kept.at + at, row, d * sizeof *row);
}

static void shift_rotate_keys(const work *w, const real *qkv, const kvsi_span *span, size_t head,
                              const kvsi_attention *a)
{
    const size_t d = a->head_size;
    const kept_rows k = rows_of(span->k, w->k, span, head, a),
                    v = rows_of(span->v, w->v, span, head, a);
    real *new_k = rows_of(NULL, w->k, span, head, a).at;
    real *new_v = rows_of(NULL, w->v, span, head, a).at;

    for (size_t t = 0; t < span->len; t++, new_k += d, new_v += d) {
        finished_row(new_k, w, kvsi_target_k(a), span->tails[KVSI_TAIL_K], qkv, span, t, head, a,
                     a->rotary);
        finished_row(new_v, w, kvsi_target_v(a), span->tails[KVSI_TAIL_V], qkv, span, t, head, a,
                     0);
        keep_row(k, new_k, span, t, d);
        keep_row(v, new_v, span, t, d);
    }
}

static void shift_rotate_all(const work *w, const real *qkv, const kvsi_attention *a)
{
    for (size_t s = 0; s < a->sequences; s++) {
        const kvsi_span *span = &a->spans[s];

        for (size_t t = 0; t < span->len; t++)
            for (size_t h = 0; h < a->heads; h++)
                finished_row(w->q + ((span->start + t) * a->heads + h) * a->head_size, w,
                             kvsi_target_q(a), span->tails[KVSI_TAIL_Q], qkv, span, t, h, a,
                             a->rotary);
        for (size_t h = 0; h < a->kv_heads; h++)
            shift_rotate_keys(w, qkv, span, h, a);
    }
}

/* ---- one query row ---- */

typedef struct query {
    const kvsi_attention *a;
    const kvsi_span *span;
    size_t row, head;   /* in the batch */
    size_t first, last; /* visible keys: first <= s <= last = its own position */
    size_t origin;      /* the key in row 0 of the cache */
    const real *q;
} query;

static double dot(const real *x, const real *y, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)y[i];
    return sum;
}

static query query_at(const work *w, const kvsi_attention *a, const kvsi_span *span, size_t t,
                      size_t head)
{
    const size_t position = span->past + t, window = a->sliding_window;
    const size_t row = span->start + t;

    return (query){
        .a = a,
        .span = span,
        .row = row,
        .head = head,
        .first = window > 0 && position + 1 > window ? position + 1 - window : 0,
        .last = position,
        .origin = span->first,
        .q = w->q + (row * a->heads + head) * a->head_size,
    };
}

/* q^_t . k^_s * scale */
static double scaled_product(const query *q, kept_rows k, size_t s)
{
    const size_t d = q->a->head_size;
    double sum = 0;

    for (size_t i = 0; i < d; i++)
        sum += (double)q->q[i] * (double)value_at(k, (s - q->origin) * d + i);
    return sum * (double)q->a->scale;
}

static double capped(const kvsi_attention *a, double x)
{
    const double cap = (double)a->score_cap;

    return cap > 0 ? cap * tanh(x / cap) : x;
}

/* The derivative of `capped`. */
static double cap_slope(const kvsi_attention *a, double x)
{
    const double t = a->score_cap > 0 ? tanh(x / (double)a->score_cap) : 0;

    return 1 - t * t;
}

/* The index of a query row's numbers r, and the number of them that have a term at key s. */
static size_t relative_row(const query *q)
{
    return (q->row * q->a->heads + q->head) * q->a->relative.size;
}

static size_t relative_numbers(const query *q, size_t s)
{
    return q->last - s < q->a->relative.extent ? q->a->relative.size : 0;
}

static double near(const query *q, size_t s)
{
    const kvsi_relative *r = &q->a->relative;
    double sum = 0;

    for (size_t c = 0; c < relative_numbers(q, s); c++)
        sum +=
            (double)r->rows[relative_row(q) + c] * (double)r->table[c * r->extent + (q->last - s)];
    return (double)growth_at(q->a, q->last) * sum;
}

/* Adds the gradients of r and of the table to those of the other scores. */
static void near_backward(const query *q, size_t s, double d_score)
{
    const kvsi_relative *r = &q->a->relative;
    const double d_sum = (double)growth_at(q->a, q->last) * d_score;

    for (size_t c = 0; c < relative_numbers(q, s); c++) {
        const size_t at = c * r->extent + (q->last - s), row = relative_row(q) + c;

        r->d_rows[row] += (real)(d_sum * (double)r->table[at]);
        r->d_table[at] += (real)(d_sum * (double)r->rows[row]);
    }
}

static double score(const query *q, kept_rows k, size_t s)
{
    const double slope = q->a->slopes ? (double)q->a->slopes[q->head] : 0;

    return capped(q->a, scaled_product(q, k, s)) - slope * (double)(q->last - s) + near(q, s);
}

/* Returns log(sum(exp(scores))). */
static double attend(real *out, const work *w, const query *q, kept_rows k, kept_rows v)
{
    const size_t d = q->a->head_size;
    double top = -INFINITY, sum = 0;

    for (size_t s = q->first; s <= q->last; s++)
        top = fmax(top, score(q, k, s));
    for (size_t s = q->first; s <= q->last; s++)
        sum += exp(score(q, k, s) - top);
    memset(out, 0, d * sizeof *out);
    for (size_t s = q->first; s <= q->last; s++) {
        const double keep =
            (double)kvsi_keep_weight(q->a, q->span, q->row - q->span->start, q->head, s);
        const double weight = kvsi_ref_operand(&w->c, exp(score(q, k, s) - top) * keep) / sum;

        for (size_t i = 0; i < d; i++)
            out[i] += (real)(weight * (double)value_at(v, (s - q->origin) * d + i));
    }
    return top + log(sum);
}

void kvsi_ref_attention_forward(kvsi_context *c, real *out, real *logsum, const real *qkv,
                                const kvsi_attention *a)
{
    const work w = work_in(c, a);
    const size_t d = a->head_size, group = a->heads / a->kv_heads;

    shift_rotate_all(&w, qkv, a);
    for (size_t s = 0; s < a->sequences; s++) {
        const kvsi_span *span = &a->spans[s];

        for (size_t t = 0; t < span->len; t++)
            for (size_t h = 0; h < a->heads; h++) {
                const size_t row = (span->start + t) * a->heads + h;
                const query q = query_at(&w, a, span, t, h);
                const kept_rows k = rows_of(span->k, w.k, span, h / group, a);
                const kept_rows v = rows_of(span->v, w.v, span, h / group, a);

                logsum[row] = (real)attend(out + row * d, &w, &q, k, v);
            }
    }
    kvsi_update_tails(a, qkv);
}

/* ---- backward ---- */

/* Gradients of one query row: d_q, and its contributions to d_k and d_v, which start at kv. */
static void attend_backward(const work *w, const query *q, size_t kv, const real *d_out,
                            const real *out, double logsum)
{
    const size_t d = q->a->head_size;
    const double delta = dot(d_out, out, d);
    real *d_q = w->d_q + (q->q - w->q);

    for (size_t s = q->first; s <= q->last; s++) {
        const size_t at = kv + s * d;
        const kept_rows k = {w->k + kv, 0};
        const double p = exp(score(q, k, s) - logsum);
        const double keep =
            (double)kvsi_keep_weight(q->a, q->span, q->row - q->span->start, q->head, s);
        double d_weight = 0, d_score;

        for (size_t i = 0; i < d; i++)
            d_weight += kvsi_ref_operand(&w->c, (double)d_out[i]) * (double)w->v[at + i];
        d_score = p * (keep * d_weight - delta);
        near_backward(q, s, d_score);
        d_score *= cap_slope(q->a, scaled_product(q, k, s));
        d_score = kvsi_ref_operand(&w->c, d_score * (double)q->a->scale);
        for (size_t i = 0; i < d; i++) {
            d_q[i] += (real)(d_score * (double)w->k[at + i]);
            w->d_k[at + i] += (real)(d_score * (double)q->q[i]);
            w->d_v[at + i] += (real)(kvsi_ref_operand(&w->c, p * keep) *
                                     kvsi_ref_operand(&w->c, (double)d_out[i]));
        }
    }
}

/* d_x_t += sum_j taps_{t+window-j}[j] * d_x^_{t+window-j}: the contributions of row t to later
 * rows. */
static void shift_row_backward(real *d_x, const work *w, const real *d_shifted, size_t stride,
                               const kvsi_shift *shift, const kvsi_span *span, size_t t,
                               size_t head, size_t d)
{
    memset(d_x, 0, d * sizeof *d_x);
    for (size_t ahead = 0; ahead <= shift->window && t + ahead < span->len; ahead++) {
        const real *taps = w->taps + (shift->window - ahead) * d;

        taps_at(w->taps, shift, span->start + t + ahead, head, d);
        for (size_t i = 0; i < d; i++)
            d_x[i] += taps[i] * d_shifted[(t + ahead) * stride + i];
    }
}

/* Gradient of row t's taps (added to w->d_taps) or of its gate. */
static void taps_backward(const work *w, const real *d_shifted, const real *const *rows,
                          const kvsi_shift *shift, size_t row, size_t head, size_t d)
{
    if (shift->window > 0 && kvsi_form_get(shift->form)->gated) {
        const double gate = gate_of(shift, row, head);
        const double before = rows[0] ? dot(d_shifted, rows[0], d) : 0;
        shift->d_gates[row * shift->gate_stride + head] =
            (real)((before - dot(d_shifted, rows[1], d)) * gate * (1 - gate));
        return;
    }
    for (size_t j = 0; j <= shift->window; j++)
        for (size_t i = 0; rows[j] && i < d; i++)
            w->d_taps[j * d + i] += (double)d_shifted[i] * (double)rows[j][i];
}

/* One of q, k, v of a sequence in the backward pass: what the functions below have in common.  Row
 * t of the gradient d_x^ of a head is at d_shifted + head * head_stride + t * row_stride. */
typedef struct side {
    const work *w;
    const kvsi_attention *a;
    const kvsi_span *span;
    const real *qkv;
    kvsi_target target;
    real *d_shifted;
    size_t head_stride, row_stride;
} side;

static real *d_row(const side *x, size_t head, size_t t)
{
    return x->d_shifted + head * x->head_stride + t * x->row_stride;
}

/* Row t of heads that are normalised together.  With z = (x - mean) r, r = 1 / deviation and g =
 * d (gain_offset + gain), d becomes
 *
 *     (g - mean(g) - z mean(g z)) r
 *
 * where only LayerNorm has mean(g). */
static void norm_heads_backward(const side *x, size_t t, size_t first, size_t end)
{
    const kvsi_attention *a = x->a;
    const moments m = moments_of(x->w, x->target, NULL, x->qkv, x->span, t, first, a);
    const size_t d = a->head_size;
    const double count = (double)((end - first) * d);
    const real *row = x->w->row;
    double mean = 0, mean_z = 0;

    for (size_t h = first; h < end; h++) {
        shift_row(x->w->row, x->w, x->target, NULL, x->qkv, x->span, t, h, a);
        for (size_t i = 0; i < d; i++) {
            const double g = (double)d_row(x, h, t)[i] * gain_at(x->target, a, h, i);

            mean += a->qk_norm == KVSI_QK_NORM_LAYER ? g / count : 0;
            mean_z += g * ((double)row[i] - m.mean) * m.inverse / count;
        }
    }
    for (size_t h = first; h < end; h++) {
        real *d_x = d_row(x, h, t), *d_gain = x->target.d_gain + h * x->target.gain_stride;

        shift_row(x->w->row, x->w, x->target, NULL, x->qkv, x->span, t, h, a);
        for (size_t i = 0; i < d; i++) {
            const double z = ((double)row[i] - m.mean) * m.inverse;
            const double g = (double)d_x[i] * gain_at(x->target, a, h, i);

            d_gain[i] += (real)((double)d_x[i] * z);
            d_x[i] = (real)((g - mean - z * mean_z) * m.inverse);
        }
    }
}

static void norm_row_backward(const side *x, size_t t)
{
    const size_t together = x->a->qk_norm == KVSI_QK_NORM_FULL ? x->target.heads : 1;

    for (size_t first = 0; first < x->target.heads; first += together)
        norm_heads_backward(x, t, first, first + together);
}

/* One head, from d_x^ (without rotation and norm) back to d_x (into d_qkv) and to the learned
 * params. */
static void shift_head_backward(real *d_qkv, const side *x, size_t head)
{
    const kvsi_attention *a = x->a;
    const kvsi_shift *shift = x->target.shift;
    const kvsi_form *form = kvsi_form_get(shift->form);
    const size_t d = a->head_size, params = form->params(shift->window, d);
    const work *w = x->w;

    memset(w->d_taps, 0, KVSI_TAPS_MAX * d * sizeof *w->d_taps);
    for (size_t t = 0; t < x->span->len; t++) {
        const real *rows[KVSI_TAPS_MAX];
        const size_t row = x->span->start + t;

        raw_rows(rows, x->target, NULL, x->qkv, x->span, t, head, a);
        shift_row_backward(d_qkv + row * kvsi_qkv_width(a) + x->target.column + head * d, w,
                           d_row(x, head, 0), x->row_stride, shift, x->span, t, head, d);
        taps_backward(w, d_row(x, head, t), rows, shift, row, head, d);
    }
    if (shift->window == 0 || params == 0)
        return;
    form->backward(w->d_params, w->d_taps, kvsi_head_params(shift, head, d), shift->window, d);
    for (size_t i = 0; i < params; i++)
        shift->gradient[head * params + i] += (real)w->d_params[i];
}

/* All heads; d_x^ loses its growth, rotation and norm here. */
static void side_backward(real *d_qkv, const side *x, size_t rotary)
{
    const size_t d = x->target.tail == KVSI_TAIL_Q ? x->a->head_size : 0;

    for (size_t t = 0; t < x->span->len; t++) {
        for (size_t h = 0; h < x->target.heads; h++)
            for (size_t i = 0; i < d; i++)
                d_row(x, h, t)[i] *= growth_at(x->a, t);
        for (size_t h = 0; rotary > 0 && h < x->target.heads; h++)
            kvsi_ref_rotate_row(d_row(x, h, t), x->a->rotations + t * rotary, rotary, -1);
        if (x->target.gain)
            norm_row_backward(x, t);
    }
    for (size_t h = 0; h < x->target.heads; h++)
        shift_head_backward(d_qkv, x, h);
}

void kvsi_ref_attention_backward(kvsi_context *c, real *d_qkv, const real *d_out, const real *out,
                                 const real *logsum, const real *qkv, const kvsi_attention *a)
{
    const work w = work_in(c, a);
    const size_t d = a->head_size, group = a->heads / a->kv_heads;

    shift_rotate_all(&w, qkv, a);
    memset(w.d_q, 0, a->tokens * kvsi_qkv_width(a) * sizeof *w.d_q);
    for (size_t i = 0; i < a->tokens * a->heads * a->relative.size; i++)
        a->relative.d_rows[i] = 0;
    for (size_t s = 0; s < a->sequences; s++) {
        const kvsi_span *span = &a->spans[s];
        const size_t start = span->start * a->kv_heads * d;

        for (size_t t = 0; t < span->len; t++)
            for (size_t h = 0; h < a->heads; h++) {
                const size_t row = (span->start + t) * a->heads + h;
                const query q = query_at(&w, a, span, t, h);
                attend_backward(&w, &q, start + h / group * span->len * d, d_out + row * d,
                                out + row * d, (double)logsum[row]);
            }
        side_backward(d_qkv,
                      &(side){&w, a, span, qkv, kvsi_target_q(a),
                              w.d_q + span->start * a->heads * d, d, a->heads * d},
                      a->rotary);
        side_backward(d_qkv,
                      &(side){&w, a, span, qkv, kvsi_target_k(a), w.d_k + start, span->len * d, d},
                      a->rotary);
        side_backward(
            d_qkv, &(side){&w, a, span, qkv, kvsi_target_v(a), w.d_v + start, span->len * d, d}, 0);
    }
}
