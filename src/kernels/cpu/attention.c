/* Causal attention over ragged sequences, forward, in tiles with a running softmax: memory is
 * linear in the length.
 *
 * A cache of rounded values is written from k^ and v^ and read tile by tile, so that every row uses
 * the rounded keys, those of its own chunk included.
 *
 * Tiles of keys start at multiples of KEYS, and every score and output is summed in one order,
 * that of tile.h: the bits of a row do not depend on the other rows.  Work is split into blocks
 * of rows. */
#include "kernels/cpu/attention.h"

#include "kernels/cpu/attention_few.h"
#include "kernels/cpu/attention_full_norm.h"
#include "kernels/cpu/attention_packed.h"
#include "kernels/cpu/attention_relative.h"
#include "kernels/cpu/decode.h"
#include "kernels/cpu/tile.h"
#include "parallel/threads.h"

#include <string.h>

/* ---- workspace ---- */

/* Floats of one thread's scratch. */
static size_t scratch_size(const unit *u, size_t head_size, size_t relative)
{
    const size_t floats = 3 * KVSI_TAPS_MAX * head_size + 3 * head_size * KEYS + 2 * ROWS * KEYS +
                          ROWS * whole_channels(head_size) + 2 * ROWS + 3 * KEYS +
                          2 * relative * RELATIVE_COLUMNS;

    return (floats + 15) / 16 * 16 + LEVEL(attention_packed_scratch)(u, head_size) / sizeof(float);
}

/* Offsets of the parts of `work`, in floats; the forward pass uses those up to forward_end. */
typedef struct plan {
    size_t scratch, taps, q, k, v, row_sums, inverses, forward_end;
    size_t k_by_key, k_by_channel, v_by_key, v_by_channel, d_params, d_gains, d_q, d_k, d_v, d_out,
        delta, logsum, pulls, d_table, end;
} plan;

static size_t take(size_t *used, size_t floats)
{
    const size_t at = *used;

    *used += (floats + 15) / 16 * 16; /* whole cache lines */
    return at;
}

/* `u` is the unit for packed operands, or NULL. */
static plan make_plan(const unit *u, size_t tokens, size_t sequences, size_t heads, size_t kv_heads,
                      size_t head_size, size_t params, kvsi_qk_norm norm, size_t relative,
                      int threads)
{
    const size_t q = tokens * heads * head_size, k = tokens * kv_heads * head_size;
    const size_t together = norm == KVSI_QK_NORM_FULL ? tokens : 0;
    const size_t packed = u ? packed_tiles(tokens, kv_heads) * packed_tile_bytes(u, head_size) : 0;
    size_t used = 0;
    plan p;

    p.scratch = take(&used, (size_t)threads * scratch_size(u, head_size, relative));
    p.taps = take(&used, (heads + 2 * kv_heads) * KVSI_TAPS_MAX * head_size);
    p.q = take(&used, q);
    p.k = take(&used, k);
    p.v = take(&used, k);
    p.row_sums = take(&used, 2 * together * (heads + kv_heads));
    p.inverses = take(&used, 2 * together);
    p.forward_end = used;
    p.k_by_key = take(&used, packed / sizeof(float));
    p.k_by_channel = take(&used, packed / sizeof(float));
    p.v_by_key = take(&used, packed / sizeof(float));
    p.v_by_channel = take(&used, packed / sizeof(float));
    p.d_params = take(&used, 2 * sequences * (heads + 2 * kv_heads) * params);
    p.d_gains = take(
        &used, norm != KVSI_QK_NORM_NONE ? 2 * sequences * (heads + 2 * kv_heads) * head_size : 0);
    p.d_q = take(&used, q);
    p.d_k = take(&used, k);
    p.d_v = take(&used, k);
    p.d_out = take(&used, q);
    p.delta = take(&used, tokens * heads);
    p.logsum = take(&used, tokens * heads);
    p.pulls = take(&used, 2 * together);
    p.d_table = take(&used, 2 * tokens * kv_heads * relative);
    p.end = used;
    return p;
}

/* The unit for packed operands of a training pass; NULL = vectors of float32. */
static const unit *packed_unit(const kvsi_context *c)
{
    const unit *u = LEVEL(unit_of)(c, KVSI_F32);

    return u == &LEVEL(unit_f32) ? NULL : u;
}

size_t LEVEL(attention_workspace)(const kvsi_limits *l, int threads)
{
    const kvsi_context c = {.precision = l->precision};
    const plan p = make_plan(l->training ? packed_unit(&c) : NULL, l->tokens, l->sequences,
                             l->heads, l->kv_heads, l->head_size, l->shift_params, l->qk_norm,
                             l->relative_size, threads);

    return (l->training ? p.end : p.forward_end) * sizeof(float);
}

work LEVEL(attention_work)(const kvsi_context *c, const kvsi_attention *a)
{
    const size_t params = kvsi_shift_params(a);
    const unit *u = a->training ? packed_unit(c) : NULL;
    const plan p = make_plan(u, a->tokens, a->sequences, a->heads, a->kv_heads, a->head_size,
                             params, a->qk_norm, a->relative.size, c->threads);
    float *base = (float *)c->workspace;

    return (work){
        .q = base + p.q,
        .k = base + p.k,
        .v = base + p.v,
        .d_q = base + p.d_q,
        .d_k = base + p.d_k,
        .d_v = base + p.d_v,
        .d_out = base + p.d_out,
        .delta = base + p.delta,
        .logsum = base + p.logsum,
        .taps = base + p.taps,
        .d_params = (double *)(base + p.d_params),
        .params = params,
        .d_gains = (double *)(base + p.d_gains),
        .row_sums = (double *)(base + p.row_sums),
        .inverses = base + p.inverses,
        .pulls = base + p.pulls,
        .relative = a->relative.size,
        .d_table = (double *)(base + p.d_table),
        .scratch = base + p.scratch,
        .unit = u,
        .k_by_key = (unsigned char *)(base + p.k_by_key),
        .k_by_channel = (unsigned char *)(base + p.k_by_channel),
        .v_by_key = (unsigned char *)(base + p.v_by_key),
        .v_by_channel = (unsigned char *)(base + p.v_by_channel),
    };
}

scratch LEVEL(attention_scratch)(const work *w, size_t head_size)
{
    const unit *u = w->unit;
    const size_t size = scratch_size(u, head_size, w->relative);
    float *at = w->scratch + kvsi_thread_index() * size;
    scratch s;

    s.d_taps = (double *)at;
    s.tap_sums = at + 2 * KVSI_TAPS_MAX * head_size;
    s.keys = s.tap_sums + KVSI_TAPS_MAX * head_size;
    s.values = s.keys + head_size * KEYS;
    s.tile = s.values + head_size * KEYS;
    s.scores = s.tile + head_size * KEYS;
    s.d_scores = s.scores + ROWS * KEYS;
    s.out = s.d_scores + ROWS * KEYS;
    s.top = s.out + ROWS * whole_channels(head_size);
    s.sum = s.top + ROWS;
    s.keep = s.sum + ROWS;
    s.cap_slopes = s.keep + KEYS;
    s.terms = s.cap_slopes + KEYS;
    s.near = s.terms + KEYS;
    s.d_near = s.near + w->relative * RELATIVE_COLUMNS;
    s.packed = (unsigned char *)(at + size) - LEVEL(attention_packed_scratch)(u, head_size);
    return s;
}

/* ---- q^, k^ and v^ ---- */

/* Offset of a head in its cache, in values. */
static size_t cache_offset(const kvsi_attention *a, const kvsi_span *span, size_t kv_head)
{
    return kv_head * span->capacity * a->head_size;
}

static kvsi_dtype cache_type(const kvsi_span *span)
{
    return kvsi_cache_rounds(span->cache) ? span->cache : KVSI_F32;
}

/* All k^ or v^ of a head that the chunk attends to. */
static const void *keys_of(const void *cache, const float *fresh, const kvsi_attention *a,
                           const kvsi_span *span, size_t kv_head)
{
    if (!cache)
        return fresh + k_offset(a, span, kv_head);
    return (const unsigned char *)cache +
           kvsi_dtype_bytes(cache_type(span), cache_offset(a, span, kv_head));
}

head_view LEVEL(attention_head)(const work *w, const kvsi_attention *a, const kvsi_span *span,
                                size_t kv_head)
{
    const size_t group = a->heads / a->kv_heads;

    return (head_view){
        .a = a,
        .span = span,
        .kv_head = kv_head,
        .rows = span->len * group,
        .keys = span->past + span->len,
        .past = span->past,
        .group = group,
        .head_size = a->head_size,
        .q = w->q + q_offset(a, span, kv_head),
        .q_at = q_offset(a, span, kv_head),
        .k = keys_of(span->k, w->k, a, span, kv_head),
        .v = keys_of(span->v, w->v, a, span, kv_head),
        .type = span->k ? cache_type(span) : KVSI_F32,
        .unit = packed_suits(w->unit, a, span) ? w->unit : NULL,
    };
}

/* Rows of the head's k or v from `key` on as floats: in place, or `count` of them decoded into
 * `tile`. */
const float *LEVEL(attention_rows)(const head_view *h, const void *rows, size_t key, size_t count,
                                   float *tile)
{
    const size_t d = h->head_size, at = (key - h->span->first) * d;

    if (h->type == KVSI_F32)
        return (const float *)rows + at;
    decode_row(tile, h->type, rows, at, count * d);
    return tile;
}

shift_rotation LEVEL(attention_target)(const work *w, const kvsi_attention *a, unsigned target,
                                       const kvsi_span *span, size_t head, const float *qkv)
{
    const float *taps = w->taps + slot_of(a, target, head) * KVSI_TAPS_MAX * a->head_size;
    const size_t row = (target == KVS_SHIFT_K ? a->tokens : 0) + span->start;
    shift_rotation m = LEVEL(shift_rotation_of)(a, target, span, head, qkv, taps);

    m.inverses = w->inverses + row;
    m.pulls = w->pulls + row;
    return m;
}

/* Computes the chunk's rows of k^ or v^, in the cache or in `fresh`. */
static void shift_rotate_keys(void *cache, float *fresh, const shift_rotation *m,
                              const kvsi_attention *a, const kvsi_span *span, size_t kv_head)
{
    const size_t d = a->head_size;
    const size_t at = cache_offset(a, span, kv_head) + (span->past - span->first) * d;
    float *rows = fresh + k_offset(a, span, kv_head);

    const int rounds = kvsi_cache_rounds(span->cache);

    LEVEL(shift_rotate)(cache && !rounds ? (float *)cache + at : rows, d, m);
    if (rounds)
        kvsi_store_rounded(cache, span->cache, at, rows, span->len * d);
}

void LEVEL(attention_shift_rotate)(const work *w, const float *qkv, const kvsi_attention *a,
                                   const kvsi_span *span, size_t kv_head)
{
    const size_t d = a->head_size, group = a->heads / a->kv_heads;
    const shift_rotation k = LEVEL(attention_target)(w, a, KVS_SHIFT_K, span, kv_head, qkv);
    const shift_rotation v = LEVEL(attention_target)(w, a, KVS_SHIFT_V, span, kv_head, qkv);

    shift_rotate_keys(span->k, w->k, &k, a, span, kv_head);
    shift_rotate_keys(span->v, w->v, &v, a, span, kv_head);
    for (size_t g = 0; g < group; g++) {
        const shift_rotation q =
            LEVEL(attention_target)(w, a, KVS_SHIFT_Q, span, kv_head * group + g, qkv);
        LEVEL(shift_rotate)(w->q + q_offset(a, span, kv_head) + g * d, group * d, &q);
    }
}

/* ---- blocks of rows ---- */

/* scores[m, n] = rows . keys^T, by tile_multiply. */
static void score_many(float *scores, float *transposed, const float *rows, size_t m,
                       const float *keys, size_t n, size_t d)
{
    const size_t padded = whole_vectors(n);

    tile_transpose(transposed, KEYS, keys, d, n, d, padded);
    tile_multiply(scores, KEYS, (tile_a){rows, d, 1}, transposed, KEYS, m, padded, d, 0);
}

static void score_tile(const scratch *s, const head_view *h, size_t row, size_t m, size_t key,
                       size_t n)
{
    if (m < FEW_ROWS)
        LEVEL(attention_score_few)(s, h, row, m, key, n);
    else
        score_many(s->scores, s->keys, h->q + row * h->head_size, m,
                   LEVEL(attention_rows)(h, h->k, key, n, s->tile), n, h->head_size);
}

/* out[m, d] += scores[m, n] . values[n, d] */
static void add_tile(const scratch *s, const head_view *h, size_t m, size_t key, size_t n)
{
    const size_t d = h->head_size;

    if (m < FEW_ROWS && d % RUN == 0)
        LEVEL(attention_add_few)(s, h, m, key, n);
    else
        tile_multiply(s->out, whole_channels(d), (tile_a){s->scores, KEYS, 1},
                      LEVEL(attention_rows)(h, h->v, key, n, s->tile), d, m, d, n, 1);
}

/* One step of the running softmax of a row: scores become exp(scale * score - top), *sum is
 * rescaled to the new *top.  Returns the factor that rescales the output so far. */
static float softmax_row(float *scores, size_t padded, float scale, float *top, float *sum)
{
    vec most = vec_all(-INFINITY), total = {0};
    float best, factor;

    for (size_t j = 0; j < padded; j += VEC)
        most = vec_max(vec_load(scores + j) * scale, most);
    best = vec_top(most);
    best = best > *top ? best : *top;
    for (size_t j = 0; j < padded; j += VEC) {
        const vec p = vec_exp(vec_load(scores + j) * scale - best);
        vec_store(scores + j, p);
        total += p;
    }
    factor = exp_one(*top - best);
    *sum = *sum * factor + vec_sum(total);
    *top = best;
    return factor;
}

static void softmax_tile(const scratch *s, const head_view *h, size_t row, size_t m, size_t key,
                         size_t n)
{
    const tile_place at = {row, m, key, n};
    const int relative = h->a->relative.size > 0;

    if (relative)
        LEVEL(relative_start)(s, h, at);
    for (size_t i = 0; i < m; i++) {
        const float *terms = relative ? LEVEL(relative_terms)(s, h, at, i) : NULL;
        float *scores = s->scores + i * KEYS, factor;
        float *out = s->out + i * whole_channels(h->head_size);

        finish_scores(scores, NULL, terms, h, row + i, key, n, whole_vectors(n));
        factor = softmax_row(scores, whole_vectors(n), late_scale(h), &s->top[i], &s->sum[i]);
        for (size_t j = 0; factor != 1.0f && j < h->head_size; j++)
            out[j] *= factor;
        if (h->a->dropout.rate > 0) {
            keep_factors(s->keep, h, row + i, key, n);
            for (size_t j = 0; j < n; j++)
                scores[j] *= s->keep[j];
        }
    }
}

/* Rows row .. row+m-1 of one KV head: s->out, s->top, s->sum. */
static void attend(const work *w, const scratch *s, const head_view *h, size_t row, size_t m)
{
    const size_t d = h->head_size, stride = whole_channels(d), keys = last_key(h, row + m - 1) + 1;

    memset(s->out, 0, (h->unit ? ROWS : m) * stride * sizeof *s->out);
    for (size_t i = 0; i < m; i++) {
        s->top[i] = -1e30f; /* finite, so that top - best is never inf - inf */
        s->sum[i] = 0.0f;
    }
    if (h->unit)
        LEVEL(attention_pack_rows)(s, h, row, m);
    for (size_t key = first_key(h, row) / KEYS * KEYS; key < keys; key += KEYS) {
        const size_t n = keys - key < KEYS ? keys - key : KEYS;

        if (h->unit)
            LEVEL(attention_packed_scores)(w, s, h, m, key, n);
        else
            score_tile(s, h, row, m, key, n);
        softmax_tile(s, h, row, m, key, n);
        if (h->unit)
            LEVEL(attention_packed_values)(w, s, h, m, key, n);
        else
            add_tile(s, h, m, key, n);
    }
}

static void forward_block(float *out, float *logsum, const work *w, const kvsi_attention *a,
                          const kvsi_span *span, size_t kv_head, size_t row)
{
    const head_view h = LEVEL(attention_head)(w, a, span, kv_head);
    const scratch s = LEVEL(attention_scratch)(w, a->head_size);
    const size_t m = h.rows - row < ROWS ? h.rows - row : ROWS, d = a->head_size;
    const unsigned state = h.unit ? h.unit->enter() : 0;

    attend(w, &s, &h, row, m);
    if (h.unit)
        h.unit->leave(state);
    for (size_t i = 0; i < m; i++) {
        const size_t at = token_major(a, span, kv_head, row + i);
        const float inverse = 1.0f / s.sum[i];

        for (size_t j = 0; j < d; j++)
            out[at * d + j] = s.out[i * whole_channels(d) + j] * inverse;
        logsum[at] = s.top[i] + logf(s.sum[i]);
    }
}

/* Blocks of rows in one KV head of a sequence. */
static size_t blocks_of(const kvsi_attention *a, const kvsi_span *span)
{
    return (span->len * (a->heads / a->kv_heads) + ROWS - 1) / ROWS;
}

static void prepare_head(const work *w, const float *qkv, const kvsi_attention *a,
                         const kvsi_span *span, size_t kv_head)
{
    const head_view h = LEVEL(attention_head)(w, a, span, kv_head);

    LEVEL(attention_shift_rotate)(w, qkv, a, span, kv_head);
    if (h.unit) {
        const unsigned state = h.unit->enter();

        LEVEL(attention_pack_forward)(w, &h);
        h.unit->leave(state);
    }
}

void LEVEL(attention_forward)(kvsi_context *c, float *out, float *logsum, const float *qkv,
                              const kvsi_attention *a)
{
    const work w = LEVEL(attention_work)(c, a);
    size_t most = 0;

    LEVEL(make_taps)(w.taps, a);
    if (a->qk_norm == KVSI_QK_NORM_FULL)
        LEVEL(full_norm_forward)(c, &w, qkv, a);
    KVSI_PARALLEL_PIECES(c->threads, i, a->sequences * a->kv_heads) {
        prepare_head(&w, qkv, a, &a->spans[i / a->kv_heads], i % a->kv_heads);
    }
    for (size_t s = 0; s < a->sequences; s++)
        most = blocks_of(a, &a->spans[s]) > most ? blocks_of(a, &a->spans[s]) : most;
    /* Piece = (block, sequence, head); the last blocks, which have the most keys, come first. */
    KVSI_PARALLEL_PIECES(c->threads, i, most * a->sequences * a->kv_heads) {
        const size_t block = most - 1 - i / (a->sequences * a->kv_heads);
        const kvsi_span *span = &a->spans[i / a->kv_heads % a->sequences];

        if (block < blocks_of(a, span))
            forward_block(out, logsum, &w, a, span, i % a->kv_heads, block * ROWS);
    }
    kvsi_update_tails(a, qkv);
}
