/* Causal attention, backward. The probabilities are recomputed from q^, k^ and the log-sums.
 * Work is split into KV heads of sequences. */
#include "kernels/cpu/attention_full_norm.h"
#include "kernels/cpu/attention_packed.h"
#include "kernels/cpu/attention_relative.h"
#include "kernels/cpu/tile.h"
#include "parallel/threads.h"

#include <string.h>

/* Copies d_out and the log-sums into q^'s layout, and computes delta. */
static void gather_rows(const work *w, const float *d_out, const float *out, const float *logsum,
                        const kvsi_attention *a, const kvsi_span *span, size_t kv_head)
{
    const size_t d = a->head_size, first = q_offset(a, span, kv_head) / d;
    const size_t rows = span->len * (a->heads / a->kv_heads);

    for (size_t r = 0; r < rows; r++) {
        const size_t at = token_major(a, span, kv_head, r);

        memcpy(w->d_out + (first + r) * d, d_out + at * d, d * sizeof *d_out);
        w->delta[first + r] = dot(d_out + at * d, out + at * d, d);
        w->logsum[first + r] = logsum[at];
    }
}

/* scores -> p, d_scores -> p * (keep * d_p - delta) * scale; p -> keep * p.  `late` is
 * late_scale. */
static void probability_row(float *scores, float *d_scores, const float *keep, size_t padded,
                            float late, float scale, float logsum, float delta)
{
    for (size_t j = 0; j < padded; j += VEC) {
        const vec p = vec_exp(vec_load(scores + j) * late - logsum);
        const vec kept = keep ? vec_load(keep + j) : vec_all(1.0f);

        vec_store(d_scores + j, p * (kept * vec_load(d_scores + j) - delta) * scale);
        vec_store(scores + j, p * kept);
    }
}

void LEVEL(attention_probabilities)(const work *w, const scratch *s, const head_view *h, size_t row,
                                    size_t m, size_t key, size_t n)
{
    const size_t padded = whole_vectors(n), first = h->q_at / h->head_size + row;
    const tile_place at = {row, m, key, n};
    const int relative = h->a->relative.size > 0;

    if (relative) {
        LEVEL(relative_start)(s, h, at);
        memset(s->d_near, 0, w->relative * RELATIVE_COLUMNS * sizeof *s->d_near);
    }
    for (size_t i = 0; i < m; i++) {
        const float *terms = relative ? LEVEL(relative_terms)(s, h, at, i) : NULL;
        float *keep = h->a->dropout.rate > 0 ? s->keep : NULL;

        if (keep)
            keep_factors(keep, h, row + i, key, n);
        finish_scores(s->scores + i * KEYS, s->cap_slopes, terms, h, row + i, key, n, padded);
        probability_row(s->scores + i * KEYS, s->d_scores + i * KEYS, keep, padded, late_scale(h),
                        relative ? 1.0f : h->a->scale, w->logsum[first + i], w->delta[first + i]);
        if (relative) {
            LEVEL(relative_row_backward)(s, h, at, i, s->d_scores + i * KEYS);
            for (size_t j = 0; j < padded; j += VEC)
                vec_store(s->d_scores + i * KEYS + j,
                          vec_load(s->d_scores + i * KEYS + j) * h->a->scale);
        }
        for (size_t j = 0; h->a->score_cap > 0 && j < padded; j += VEC)
            vec_store(s->d_scores + i * KEYS + j,
                      vec_load(s->d_scores + i * KEYS + j) * vec_load(s->cap_slopes + j));
    }
    if (relative)
        LEVEL(relative_finish)(w, s, h, at);
}

/* Adds one tile's contribution to d_q, d_k, d_v.  Keys and values are already transposed. */
static void backward_tile(const work *w, const scratch *s, const head_view *h, size_t k_at,
                          size_t row, size_t m, size_t key, size_t n)
{
    const size_t d = h->head_size, padded = whole_vectors(n), first = h->q_at / d + row;
    const float *q = h->q + row * d, *d_out = w->d_out + first * d;

    tile_multiply(s->scores, KEYS, (tile_a){q, d, 1}, s->keys, KEYS, m, padded, d, 0);
    tile_multiply(s->d_scores, KEYS, (tile_a){d_out, d, 1}, s->values, KEYS, m, padded, d, 0);
    LEVEL(attention_probabilities)(w, s, h, row, m, key, n);
    tile_multiply(w->d_v + k_at + key * d, d, (tile_a){s->scores, 1, KEYS}, d_out, d, n, d, m, 1);
    tile_multiply(w->d_k + k_at + key * d, d, (tile_a){s->d_scores, 1, KEYS}, q, d, n, d, m, 1);
    tile_multiply(w->d_q + h->q_at + row * d, d, (tile_a){s->d_scores, KEYS, 1},
                  LEVEL(attention_rows)(h, h->k, key, n, s->tile), d, m, d, n, 1);
}

/* Gradients of q^, k^, v^ of one KV head of one sequence. */
static void backward_head(const work *w, const kvsi_attention *a, const kvsi_span *span,
                          size_t kv_head)
{
    const head_view h = LEVEL(attention_head)(w, a, span, kv_head);
    const scratch s = LEVEL(attention_scratch)(w, a->head_size);
    const size_t d = a->head_size, k_at = k_offset(a, span, kv_head);

    if (a->relative.size > 0)
        LEVEL(relative_clear)(w, &h);
    if (h.unit) {
        const unsigned state = h.unit->enter();

        LEVEL(attention_packed_backward)(w, &h);
        h.unit->leave(state);
        return;
    }
    memset(w->d_q + h.q_at, 0, h.rows * d * sizeof *w->d_q);
    memset(w->d_k + k_at, 0, h.keys * d * sizeof *w->d_k);
    memset(w->d_v + k_at, 0, h.keys * d * sizeof *w->d_v);
    for (size_t key = 0; key < h.keys; key += KEYS) {
        const size_t n = h.keys - key < KEYS ? h.keys - key : KEYS;

        tile_transpose(s.keys, KEYS, LEVEL(attention_rows)(&h, h.k, key, n, s.tile), d, n, d,
                       whole_vectors(n));
        tile_transpose(s.values, KEYS, LEVEL(attention_rows)(&h, h.v, key, n, s.tile), d, n, d,
                       whole_vectors(n));
        for (size_t row = key * h.group; row < h.rows && first_key(&h, row) < key + n; row += ROWS)
            backward_tile(w, &s, &h, k_at, row, h.rows - row < ROWS ? h.rows - row : ROWS, key, n);
    }
}

/* One head of q, k or v of one sequence: from d_shifted to d_qkv and to the parameters'
 * gradient. */
static void shift_target_backward(const work *w, float *d_qkv, const float *qkv,
                                  const kvsi_attention *a, size_t sequence, kvsi_target target,
                                  unsigned which, size_t head, float *d_shifted, size_t stride)
{
    const kvsi_span *span = &a->spans[sequence];
    const kvsi_shift *shift = target.shift;
    const kvsi_form *form = kvsi_form_get(shift->form);
    const shift_rotation m = LEVEL(attention_target)(w, a, which, span, head, qkv);
    const scratch s = LEVEL(attention_scratch)(w, a->head_size);
    const size_t slot = slot_of(a, which, head);
    const size_t place = sequence * (a->heads + 2 * a->kv_heads) + slot;

    LEVEL(shift_rotate_backward)
    (d_qkv + (m.raw - qkv), s.d_taps, s.tap_sums,
     m.gates ? shift->d_gates + (m.gates - shift->gates) : NULL, d_shifted, stride, &m,
     (norm_backward_memory){w->d_gains + place * a->head_size, s.keys});
    if (m.window > 0 && form->backward)
        form->backward(w->d_params + place * w->params, s.d_taps,
                       kvsi_head_params(shift, head, a->head_size), m.window, a->head_size);
}

static void shift_head_backward(const work *w, float *d_qkv, const float *qkv,
                                const kvsi_attention *a, size_t sequence, size_t kv_head)
{
    const kvsi_span *span = &a->spans[sequence];
    const size_t d = a->head_size, group = a->heads / a->kv_heads;
    const size_t at = k_offset(a, span, kv_head), q_at = q_offset(a, span, kv_head);

    for (size_t g = 0; g < group; g++)
        shift_target_backward(w, d_qkv, qkv, a, sequence, kvsi_target_q(a), KVS_SHIFT_Q,
                              kv_head * group + g, w->d_q + q_at + g * d, group * d);
    shift_target_backward(w, d_qkv, qkv, a, sequence, kvsi_target_k(a), KVS_SHIFT_K, kv_head,
                          w->d_k + at, d);
    shift_target_backward(w, d_qkv, qkv, a, sequence, kvsi_target_v(a), KVS_SHIFT_V, kv_head,
                          w->d_v + at, d);
}

/* Sums one target's parameter gradients over the sequences, in order; `slot` is its first head. */
static void reduce_params(const work *w, const kvsi_attention *a, kvsi_target target, size_t slot)
{
    const kvsi_form *form = kvsi_form_get(target.shift->form);
    const size_t slots = a->heads + 2 * a->kv_heads;
    const size_t params =
        target.shift->window > 0 ? form->params(target.shift->window, a->head_size) : 0;

    for (size_t head = 0; head < target.heads; head++)
        for (size_t i = 0; i < params; i++) {
            double sum = 0;

            for (size_t s = 0; s < a->sequences; s++)
                sum += w->d_params[(s * slots + slot + head) * w->params + i];
            target.shift->gradient[head * params + i] += (float)sum;
        }
}

/* Sums the gradients of one target's gains over sequences and the heads that share them, in
 * order. */
static void reduce_gains(const work *w, const kvsi_attention *a, kvsi_target target, size_t slot)
{
    const size_t slots = a->heads + 2 * a->kv_heads, d = a->head_size;
    const size_t shared = target.gain_stride == 0 ? target.heads : 1;

    for (size_t first = 0; target.gain && first < target.heads; first += shared)
        for (size_t i = 0; i < d; i++) {
            double sum = 0;

            for (size_t s = 0; s < a->sequences; s++)
                for (size_t head = first; head < first + shared; head++)
                    sum += w->d_gains[(s * slots + slot + head) * d + i];
            target.d_gain[first * target.gain_stride + i] += (float)sum;
        }
}

void LEVEL(attention_backward)(kvsi_context *c, float *d_qkv, const float *d_out, const float *out,
                               const float *logsum, const float *qkv, const kvsi_attention *a)
{
    const work w = LEVEL(attention_work)(c, a);
    const int together = a->qk_norm == KVSI_QK_NORM_FULL;

    LEVEL(make_taps)(w.taps, a);
    if (together)
        LEVEL(full_norm_forward)(c, &w, qkv, a);
    KVSI_PARALLEL_PIECES(c->threads, i, a->sequences * a->kv_heads) {
        const size_t s = i / a->kv_heads, kv_head = i % a->kv_heads;

        LEVEL(attention_shift_rotate)(&w, qkv, a, &a->spans[s], kv_head);
        gather_rows(&w, d_out, out, logsum, a, &a->spans[s], kv_head);
        backward_head(&w, a, &a->spans[s], kv_head);
        if (!together)
            shift_head_backward(&w, d_qkv, qkv, a, s, kv_head);
    }
    if (together) {
        LEVEL(full_norm_backward)(c, &w, qkv, a);
        KVSI_PARALLEL_PIECES(c->threads, i, a->sequences * a->kv_heads) {
            shift_head_backward(&w, d_qkv, qkv, a, i / a->kv_heads, i % a->kv_heads);
        }
    }
    reduce_params(&w, a, kvsi_target_q(a), 0);
    reduce_params(&w, a, kvsi_target_k(a), a->heads);
    reduce_params(&w, a, kvsi_target_v(a), a->heads + a->kv_heads);
    reduce_gains(&w, a, kvsi_target_q(a), 0);
    reduce_gains(&w, a, kvsi_target_k(a), a->heads);
    if (a->relative.size > 0)
        LEVEL(relative_reduce)(&w, a);
}
