/* Causal attention over ragged sequences, in tiles, with a running softmax: memory is linear in the
 * length.  First q^, k^, v^ (shifted, rotated) are computed once, in the layout of the tiles:
 *
 *     q^   [sequence][kv_head][len * group][head_size]   the query heads that share a KV head are
 *                                                        rows of one matrix; row r is token r/group
 *     k^ v^ [sequence][kv_head][len][head_size]          or the sequence's cache
 *
 * A cache of rounded values is written from there and read tile by tile, so that every row uses the
 * rounded keys, those of its own chunk included.
 *
 * Tiles of keys start at multiples of KEYS, and every score and output is summed in one order, that
 * of tile.h: the bits of a row do not depend on the other rows.  Work is then split into blocks of rows (forward)
 * or KV heads of sequences (backward).  The backward pass recomputes the probabilities from q^, k^
 * and the log-sums. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/row_dots.h"
#include "kernels/cpu/shift_rotate.h"
#include "kernels/cpu/tile.h"
#include "kernels/host.h"
#include "parallel/threads.h"

#include <math.h>
#include <string.h>

enum {
    ROWS = 96,
    KEYS = KVSI_SNAPSHOT,
    FEW_ROWS = 4
}; /* rows and keys of a tile of scores; for fewer than FEW_ROWS, keys and values are read in place */

/* ---- workspace ---- */

typedef struct work {
    float *q, *k, *v;              /* shifted and rotated; layouts above */
    float *d_q, *d_k, *d_v;        /* their gradients */
    float *d_out, *delta, *logsum; /* backward, in q^'s layout; delta = <d_out, out> of each row */
    float *taps;                   /* [heads + 2 kv_heads, KVSI_TAPS_MAX, head_size] */
    double *d_params;              /* [sequences, heads + 2 kv_heads, params] */
    size_t params;                 /* most parameters per head */
    float *scratch;                /* [threads, scratch_size(head_size)] */
} work;

/* Per thread: gradients of taps (as doubles) and their running sums, transposed keys and values,
 * a tile of rounded values, scores and their gradients, output rows, max and sum, one row's
 * dropout factors. */
static size_t scratch_size(size_t head_size)
{
    const size_t floats = 3 * KVSI_TAPS_MAX * head_size + 3 * head_size * KEYS + 2 * ROWS * KEYS +
                          ROWS * head_size + 2 * ROWS + KEYS;

    return (floats + 15) / 16 * 16;
}

/* Offsets of the parts of `work`, in floats; the forward pass uses those up to forward_end. */
typedef struct plan {
    size_t scratch, taps, q, k, v, forward_end;
    size_t d_params, d_q, d_k, d_v, d_out, delta, logsum, end;
} plan;

static size_t take(size_t *used, size_t floats)
{
    const size_t at = *used;

    *used += (floats + 15) / 16 * 16; /* whole cache lines */
    return at;
}

static plan make_plan(size_t tokens, size_t sequences, size_t heads, size_t kv_heads,
                      size_t head_size, size_t params, int threads)
{
    const size_t q = tokens * heads * head_size, k = tokens * kv_heads * head_size;
    size_t used = 0;
    plan p;

    p.scratch = take(&used, (size_t)threads * scratch_size(head_size));
    p.taps = take(&used, (heads + 2 * kv_heads) * KVSI_TAPS_MAX * head_size);
    p.q = take(&used, q);
    p.k = take(&used, k);
    p.v = take(&used, k);
    p.forward_end = used;
    p.d_params = take(&used, 2 * sequences * (heads + 2 * kv_heads) * params);
    p.d_q = take(&used, q);
    p.d_k = take(&used, k);
    p.d_v = take(&used, k);
    p.d_out = take(&used, q);
    p.delta = take(&used, tokens * heads);
    p.logsum = take(&used, tokens * heads);
    p.end = used;
    return p;
}

size_t LEVEL(attention_workspace)(const kvsi_limits *l, int threads)
{
    const plan p = make_plan(l->tokens, l->sequences, l->heads, l->kv_heads, l->head_size,
                             l->shift_params, threads);

    return (l->training ? p.end : p.forward_end) * sizeof(float);
}

static work work_in(const kvsi_context *c, const kvsi_attention *a)
{
    const size_t params = kvsi_shift_params(a);
    const plan p =
        make_plan(a->tokens, a->sequences, a->heads, a->kv_heads, a->head_size, params, c->threads);
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
        .scratch = base + p.scratch,
    };
}

/* ---- one KV head of one sequence ---- */

typedef struct head_view {
    const kvsi_attention *a;
    const kvsi_span *span;
    size_t kv_head;
    size_t rows, keys, past, group, head_size;
    const float *q;    /* [rows, head_size] */
    size_t q_at;       /* offset of q in the workspace's q */
    const void *k, *v; /* [keys, head_size] from key span->first on */
    kvsi_dtype type;   /* of k and v */
} head_view;

static size_t q_offset(const kvsi_attention *a, const kvsi_span *span, size_t kv_head)
{
    return (span->start * a->heads + kv_head * (a->heads / a->kv_heads) * span->len) * a->head_size;
}

/* Offset of a head's new k^ or v^ in the workspace. */
static size_t k_offset(const kvsi_attention *a, const kvsi_span *span, size_t kv_head)
{
    return (span->start * a->kv_heads + kv_head * span->len) * a->head_size;
}

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

static head_view view_head(const work *w, const kvsi_attention *a, const kvsi_span *span,
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
    };
}

/* Rows of the head's k or v from `key` on as floats: in place, or `count` of them decoded into
 * `tile`. */
static const float *rows_from(const head_view *h, const void *rows, size_t key, size_t count,
                              float *tile)
{
    const size_t d = h->head_size, at = (key - h->span->first) * d;

    if (h->type == KVSI_F32)
        return (const float *)rows + at;
    decode_row(tile, h->type, rows, at, count * d);
    return tile;
}

/* Row r attends to keys first_key(r) to last_key(r), its own position. */
static size_t last_key(const head_view *h, size_t r)
{
    return h->past + r / h->group;
}

static size_t first_key(const head_view *h, size_t r)
{
    const size_t window = h->a->sliding_window, next = last_key(h, r) + 1;

    return window > 0 && next > window ? next - window : 0;
}

static size_t head_of_row(const head_view *h, size_t r)
{
    return h->kv_head * h->group + r % h->group;
}

/* Taps of head `head` of q, k or v. */
static const float *taps_of(const work *w, const kvsi_attention *a, unsigned target, size_t head)
{
    const size_t before = target == KVS_SHIFT_Q   ? 0
                          : target == KVS_SHIFT_K ? a->heads
                                                  : a->heads + a->kv_heads;

    return w->taps + (before + head) * KVSI_TAPS_MAX * a->head_size;
}

static shift_rotation shift_rotation_of(const work *w, const kvsi_attention *a, unsigned target,
                                        const kvsi_span *span, size_t head, const float *qkv)
{
    return LEVEL(shift_rotation_of)(a, target, span, head, qkv, taps_of(w, a, target, head));
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

static void shift_rotate_head(const work *w, const float *qkv, const kvsi_attention *a,
                              const kvsi_span *span, size_t kv_head)
{
    const size_t d = a->head_size, group = a->heads / a->kv_heads;
    const shift_rotation k = shift_rotation_of(w, a, KVS_SHIFT_K, span, kv_head, qkv);
    const shift_rotation v = shift_rotation_of(w, a, KVS_SHIFT_V, span, kv_head, qkv);

    shift_rotate_keys(span->k, w->k, &k, a, span, kv_head);
    shift_rotate_keys(span->v, w->v, &v, a, span, kv_head);
    for (size_t g = 0; g < group; g++) {
        const shift_rotation q =
            shift_rotation_of(w, a, KVS_SHIFT_Q, span, kv_head * group + g, qkv);
        LEVEL(shift_rotate)(w->q + q_offset(a, span, kv_head) + g * d, group * d, &q);
    }
}

/* Row r of a KV head, in the token-major layout of out and d_out. */
static size_t token_major(const kvsi_attention *a, const kvsi_span *span, size_t kv_head, size_t r)
{
    const size_t group = a->heads / a->kv_heads;

    return ((span->start + r / group) * a->heads + kv_head * group + r % group);
}

/* ---- forward ---- */

typedef struct scratch {
    double *d_taps;           /* [KVSI_TAPS_MAX, head_size] */
    float *tap_sums;          /* [KVSI_TAPS_MAX, head_size] */
    float *keys, *values;     /* [head_size, KEYS], transposed */
    float *tile;              /* [KEYS, head_size] */
    float *scores, *d_scores; /* [ROWS, KEYS] */
    float *out;               /* [ROWS, head_size] */
    float *top, *sum;         /* [ROWS] */
    float *keep;              /* [KEYS] */
} scratch;

static scratch scratch_of_thread(const work *w, size_t head_size)
{
    float *at = w->scratch + kvsi_thread_index() * scratch_size(head_size);
    scratch s;

    s.d_taps = (double *)at;
    s.tap_sums = at + 2 * KVSI_TAPS_MAX * head_size;
    s.keys = s.tap_sums + KVSI_TAPS_MAX * head_size;
    s.values = s.keys + head_size * KEYS;
    s.tile = s.values + head_size * KEYS;
    s.scores = s.tile + head_size * KEYS;
    s.d_scores = s.scores + ROWS * KEYS;
    s.out = s.d_scores + ROWS * KEYS;
    s.top = s.out + ROWS * head_size;
    s.sum = s.top + ROWS;
    s.keep = s.sum + ROWS;
    return s;
}

static size_t whole_vectors(size_t n)
{
    return (n + VEC - 1) / VEC * VEC;
}

/* scores[m, n] = rows . keys^T, by tile_multiply. */
static void score_many(float *scores, float *transposed, const float *rows, size_t m,
                       const float *keys, size_t n, size_t d)
{
    const size_t padded = whole_vectors(n);

    tile_transpose(transposed, KEYS, keys, d, n, d, padded);
    tile_multiply(scores, KEYS, (tile_a){rows, d, 1}, transposed, KEYS, m, padded, d, 0);
}

/* The same for few rows: keys are read in place.  type and m are constants at every call. */
INLINE void score_few(kvsi_dtype type, size_t m, const scratch *s, const head_view *h, size_t row,
                      size_t key, size_t n)
{
    const size_t d = h->head_size, held = key - h->span->first + n;
    const size_t bytes = kvsi_dtype_bytes(type, d), padded = whole_vectors(n);
    const unsigned char *end = (const unsigned char *)h->k + held * bytes;
    size_t j = 0, groups;

    if (held < VEC) { /* there are no rows to fill a vector with */
        memset(s->tile, 0, VEC * bytes);
        memcpy((unsigned char *)s->tile + (VEC - held) * bytes, h->k, held * bytes);
        end = (const unsigned char *)s->tile + VEC * bytes;
    }
    for (; j < n; j += groups * VEC) {
        /* The last group may start with keys that are done, or that are before the tile. */
        const size_t left = n - j, skip = left < VEC ? VEC - left : 0;
        const matrix_rows rows = {end - (left + skip) * bytes, bytes};
        const float *q = h->q + row * d;
        vec sums[ROW_GROUPS][ROW_DOTS_MAX] = {{{0}}};

        groups = left >= ROW_GROUPS * VEC ? ROW_GROUPS : 1;
        if (groups == ROW_GROUPS)
            add_columns(type, ROW_GROUPS, m, sums, rows, q, d, 0, d, NULL);
        else
            add_columns(type, 1, m, sums, rows, q, d, 0, d, NULL);
        for (size_t i = 0; i < m; i++) {
            float lanes[ROW_GROUPS * VEC];

            for (size_t g = 0; g < groups; g++)
                vec_store(lanes + g * VEC, sums[g][i]);
            memcpy(s->scores + i * KEYS + j, lanes + skip, (groups * VEC - skip) * sizeof *lanes);
        }
    }
    for (size_t i = 0; i < m; i++)
        for (j = n; j < padded; j++)
            s->scores[i * KEYS + j] = 0.0f;
}

/* out[m, d] += scores[m, n] . values[n, d] for few rows; d is a multiple of RUN.  type and m are
 * constants at every call. */
INLINE void add_few_values(kvsi_dtype type, size_t m, const scratch *s, const head_view *h,
                           size_t key, size_t n)
{
    const size_t d = h->head_size, bytes = kvsi_dtype_bytes(type, d);
    const unsigned char *rows = (const unsigned char *)h->v + (key - h->span->first) * bytes;

    for (size_t c = 0; c < d; c += RUN, rows += run_bytes(type)) {
        vec sums[FEW_ROWS][RUN_VECTORS];

        for (size_t i = 0; i < m; i++)
            for (size_t v = 0; v < RUN_VECTORS; v++)
                sums[i][v] = vec_load(s->out + i * d + c + v * VEC);
        for (size_t j = 0; j < n; j++) {
            const run r = decode_run(type, rows + j * bytes);

            for (size_t v = 0; v < RUN_VECTORS; v++) {
                const vec value = r.w[v] * r.factor; /* exact */

                for (size_t i = 0; i < m; i++)
                    sums[i][v] += vec_all(s->scores[i * KEYS + j]) * value;
            }
        }
        for (size_t i = 0; i < m; i++)
            for (size_t v = 0; v < RUN_VECTORS; v++)
                vec_store(s->out + i * d + c + v * VEC, sums[i][v]);
    }
}

typedef void score_keys(const scratch *s, const head_view *h, size_t row, size_t key, size_t n);
typedef void add_values(const scratch *s, const head_view *h, size_t key, size_t n);

#define FEW(type, m)                                                                               \
    static void score_##type##_##m(const scratch *s, const head_view *h, size_t row, size_t key,   \
                                   size_t n)                                                       \
    {                                                                                              \
        score_few(KVSI_##type, m, s, h, row, key, n);                                              \
    }                                                                                              \
    static void add_##type##_##m(const scratch *s, const head_view *h, size_t key, size_t n)       \
    {                                                                                              \
        add_few_values(KVSI_##type, m, s, h, key, n);                                              \
    }

FEW(F32, 1)
FEW(F32, 2)
FEW(F32, 3)
FEW(F16, 1)
FEW(F16, 2)
FEW(F16, 3)
FEW(Q8_0, 1)
FEW(Q8_0, 2)
FEW(Q8_0, 3)

static size_t type_index(kvsi_dtype type)
{
    return type == KVSI_Q8_0 ? 2 : type == KVSI_F16 ? 1 : 0;
}

static void score_tile(const scratch *s, const head_view *h, size_t row, size_t m, size_t key,
                       size_t n)
{
    static score_keys *const few[][FEW_ROWS - 1] = {{score_F32_1, score_F32_2, score_F32_3},
                                                    {score_F16_1, score_F16_2, score_F16_3},
                                                    {score_Q8_0_1, score_Q8_0_2, score_Q8_0_3}};

    if (m < FEW_ROWS)
        few[type_index(h->type)][m - 1](s, h, row, key, n);
    else
        score_many(s->scores, s->keys, h->q + row * h->head_size, m,
                   rows_from(h, h->k, key, n, s->tile), n, h->head_size);
}

static void add_tile(const scratch *s, const head_view *h, size_t m, size_t key, size_t n)
{
    static add_values *const few[][FEW_ROWS - 1] = {{add_F32_1, add_F32_2, add_F32_3},
                                                    {add_F16_1, add_F16_2, add_F16_3},
                                                    {add_Q8_0_1, add_Q8_0_2, add_Q8_0_3}};
    const size_t d = h->head_size;

    if (m < FEW_ROWS && d % RUN == 0)
        few[type_index(h->type)][m - 1](s, h, key, n);
    else
        tile_multiply(s->out, d, (tile_a){s->scores, KEYS, 1}, rows_from(h, h->v, key, n, s->tile),
                      d, m, d, n, 1);
}

/* The scale, if finish_scores leaves it to the exponential, where it costs nothing. */
static float late_scale(const head_view *h)
{
    return h->a->slopes ? 1.0f : h->a->scale;
}

/* Turns row r's products with n keys from `key` on into scores, except for late_scale: subtracts
 * slope * distance, sets masked keys and the padding to -infinity. */
static void finish_scores(float *scores, const head_view *h, size_t r, size_t key, size_t n)
{
    const size_t padded = whole_vectors(n), first = first_key(h, r), next = last_key(h, r) + 1;
    const size_t from = first <= key ? 0 : first - key < n ? first - key : n;
    const size_t to = next <= key ? 0 : next - key < n ? next - key : n;

    if (h->a->slopes) {
        const float slope = h->a->slopes[head_of_row(h, r)], scale = h->a->scale;
        const float distance = (float)last_key(h, r) - (float)key;
        for (size_t j = 0; j < padded; j++)
            scores[j] = scores[j] * scale - slope * (distance - (float)j);
    }
    for (size_t j = 0; j < from; j++)
        scores[j] = -INFINITY;
    for (size_t j = to; j < padded; j++)
        scores[j] = -INFINITY;
}

/* Dropout factors for row r and n keys from `key` on; `key` is a multiple of 4. */
static void keep_factors(float *keep, const head_view *h, size_t r, size_t key, size_t n)
{
    const size_t row = r / h->group, head = head_of_row(h, r);

    for (size_t j = 0; j < n; j += 4)
        kvsi_keep_weights(keep + j, h->a, h->span, row, head, (key + j) / 4);
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
    for (size_t i = 0; i < m; i++) {
        float *scores = s->scores + i * KEYS, *out = s->out + i * h->head_size, factor;

        finish_scores(scores, h, row + i, key, n);
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
static void attend(const scratch *s, const head_view *h, size_t row, size_t m)
{
    const size_t d = h->head_size, keys = last_key(h, row + m - 1) + 1;

    memset(s->out, 0, m * d * sizeof *s->out);
    for (size_t i = 0; i < m; i++) {
        s->top[i] = -1e30f; /* finite, so that top - best is never inf - inf */
        s->sum[i] = 0.0f;
    }
    for (size_t key = first_key(h, row) / KEYS * KEYS; key < keys; key += KEYS) {
        const size_t n = keys - key < KEYS ? keys - key : KEYS;

        score_tile(s, h, row, m, key, n);
        softmax_tile(s, h, row, m, key, n);
        add_tile(s, h, m, key, n);
    }
}

static void forward_block(float *out, float *logsum, const work *w, const kvsi_attention *a,
                          const kvsi_span *span, size_t kv_head, size_t row)
{
    const head_view h = view_head(w, a, span, kv_head);
    const scratch s = scratch_of_thread(w, a->head_size);
    const size_t m = h.rows - row < ROWS ? h.rows - row : ROWS, d = a->head_size;

    attend(&s, &h, row, m);
    for (size_t i = 0; i < m; i++) {
        const size_t at = token_major(a, span, kv_head, row + i);
        const float inverse = 1.0f / s.sum[i];

        for (size_t j = 0; j < d; j++)
            out[at * d + j] = s.out[i * d + j] * inverse;
        logsum[at] = s.top[i] + logf(s.sum[i]);
    }
}

/* Blocks of rows in one KV head of a sequence. */
static size_t blocks_of(const kvsi_attention *a, const kvsi_span *span)
{
    return (span->len * (a->heads / a->kv_heads) + ROWS - 1) / ROWS;
}

static void shift_rotate_all(const kvsi_context *c, const work *w, const float *qkv,
                             const kvsi_attention *a)
{
    KVSI_PARALLEL_PIECES(c->threads, i, a->sequences * a->kv_heads) {
        shift_rotate_head(w, qkv, a, &a->spans[i / a->kv_heads], i % a->kv_heads);
    }
}

void LEVEL(attention_forward)(kvsi_context *c, float *out, float *logsum, const float *qkv,
                              const kvsi_attention *a)
{
    const work w = work_in(c, a);
    size_t most = 0;

    LEVEL(make_taps)(w.taps, a);
    shift_rotate_all(c, &w, qkv, a);
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

/* ---- backward ---- */

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

/* Adds one tile's contribution to d_q, d_k, d_v.  Keys and values are already transposed. */
static void backward_tile(const work *w, const scratch *s, const head_view *h, size_t k_at,
                          size_t row, size_t m, size_t key, size_t n)
{
    const size_t d = h->head_size, padded = whole_vectors(n), first = h->q_at / d + row;
    const float *q = h->q + row * d, *d_out = w->d_out + first * d;

    tile_multiply(s->scores, KEYS, (tile_a){q, d, 1}, s->keys, KEYS, m, padded, d, 0);
    tile_multiply(s->d_scores, KEYS, (tile_a){d_out, d, 1}, s->values, KEYS, m, padded, d, 0);
    for (size_t i = 0; i < m; i++) {
        float *keep = h->a->dropout.rate > 0 ? s->keep : NULL;

        if (keep)
            keep_factors(keep, h, row + i, key, n);
        finish_scores(s->scores + i * KEYS, h, row + i, key, n);
        probability_row(s->scores + i * KEYS, s->d_scores + i * KEYS, keep, padded, late_scale(h),
                        h->a->scale, w->logsum[first + i], w->delta[first + i]);
    }
    tile_multiply(w->d_v + k_at + key * d, d, (tile_a){s->scores, 1, KEYS}, d_out, d, n, d, m, 1);
    tile_multiply(w->d_k + k_at + key * d, d, (tile_a){s->d_scores, 1, KEYS}, q, d, n, d, m, 1);
    tile_multiply(w->d_q + h->q_at + row * d, d, (tile_a){s->d_scores, KEYS, 1},
                  rows_from(h, h->k, key, n, s->tile), d, m, d, n, 1);
}

/* Gradients of q^, k^, v^ of one KV head of one sequence. */
static void backward_head(const work *w, const kvsi_attention *a, const kvsi_span *span,
                          size_t kv_head)
{
    const head_view h = view_head(w, a, span, kv_head);
    const scratch s = scratch_of_thread(w, a->head_size);
    const size_t d = a->head_size, k_at = k_offset(a, span, kv_head);

    memset(w->d_q + h.q_at, 0, h.rows * d * sizeof *w->d_q);
    memset(w->d_k + k_at, 0, h.keys * d * sizeof *w->d_k);
    memset(w->d_v + k_at, 0, h.keys * d * sizeof *w->d_v);
    for (size_t key = 0; key < h.keys; key += KEYS) {
        const size_t n = h.keys - key < KEYS ? h.keys - key : KEYS;

        tile_transpose(s.keys, KEYS, rows_from(&h, h.k, key, n, s.tile), d, n, d, whole_vectors(n));
        tile_transpose(s.values, KEYS, rows_from(&h, h.v, key, n, s.tile), d, n, d,
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
    const shift_rotation m = shift_rotation_of(w, a, which, span, head, qkv);
    const scratch s = scratch_of_thread(w, a->head_size);
    const size_t slot =
        (size_t)(taps_of(w, a, which, head) - w->taps) /
        (KVSI_TAPS_MAX * a->head_size); /* index of the head among those of q, k, v */

    LEVEL(shift_rotate_backward)
    (d_qkv + (m.raw - qkv), s.d_taps, s.tap_sums,
     m.gates ? shift->d_gates + (m.gates - shift->gates) : NULL, d_shifted, stride, &m);
    if (m.window > 0 && form->backward)
        form->backward(w->d_params + (sequence * (a->heads + 2 * a->kv_heads) + slot) * w->params,
                       s.d_taps, kvsi_head_params(shift, head, a->head_size), m.window,
                       a->head_size);
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

void LEVEL(attention_backward)(kvsi_context *c, float *d_qkv, const float *d_out, const float *out,
                               const float *logsum, const float *qkv, const kvsi_attention *a)
{
    const work w = work_in(c, a);

    LEVEL(make_taps)(w.taps, a);
    KVSI_PARALLEL_PIECES(c->threads, i, a->sequences * a->kv_heads) {
        const size_t s = i / a->kv_heads, kv_head = i % a->kv_heads;

        shift_rotate_head(&w, qkv, a, &a->spans[s], kv_head);
        gather_rows(&w, d_out, out, logsum, a, &a->spans[s], kv_head);
        backward_head(&w, a, &a->spans[s], kv_head);
        shift_head_backward(&w, d_qkv, qkv, a, s, kv_head);
    }
    reduce_params(&w, a, kvsi_target_q(a), 0);
    reduce_params(&w, a, kvsi_target_k(a), a->heads);
    reduce_params(&w, a, kvsi_target_v(a), a->heads + a->kv_heads);
}
