/* kernels/cpu/attention.h - what the forward and the backward pass of attention share.
 *
 * First q^, k^, v^ (shifted, rotated) are computed once, in the layout of the tiles:
 *
 *     q^   [sequence][kv_head][len * group][head_size]   the query heads that share a KV head are
 *                                                        rows of one matrix; row r is token r/group
 *     k^ v^ [sequence][kv_head][len][head_size]          or the sequence's cache
 *
 * Then both passes work on tiles of ROWS rows and KEYS keys.  Products of tiles are computed
 * with vectors of float32 (tile.h) or, in training, on packed operands where the context's
 * precision has another unit (attention_packed.h). */
#ifndef KVSI_KERNELS_CPU_ATTENTION_H
#define KVSI_KERNELS_CPU_ATTENTION_H

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/shift_rotate.h"
#include "kernels/cpu/unit.h"
#include "kernels/cpu/vector.h"
#include "kernels/host.h"

#include <math.h>

enum {
    ROWS = 96, /* rows and keys of a tile of scores */
    KEYS = KVSI_SNAPSHOT,
    RELATIVE_COLUMNS = ROWS + KEYS /* at least the distances in a tile */
};

/* ---- workspace ---- */

typedef struct work {
    float *q, *k, *v;              /* shifted and rotated; layouts above */
    float *d_q, *d_k, *d_v;        /* their gradients */
    float *d_out, *delta, *logsum; /* backward, in q^'s layout; delta = <d_out, out> of each row */
    float *taps;                   /* [heads + 2 kv_heads, KVSI_TAPS_MAX, head_size] */
    double *d_params;              /* [sequences, heads + 2 kv_heads, params] */
    size_t params;                 /* most parameters per head */
    double *d_gains;               /* [sequences, heads + 2 kv_heads, head_size] with a norm */
    double *row_sums;              /* [heads + kv_heads, tokens]; this and what follows only with
                                      KVSI_QK_NORM_FULL, see attention_full_norm.h */
    float *inverses, *pulls;       /* [2, tokens]: of q, then of k */
    size_t relative;               /* numbers per head of relative positions */
    double *d_table;               /* attention_relative.c; tokens * kv_heads * relative */
    float *scratch;                /* of all threads */
    const unit *unit;              /* for packed operands; NULL = vectors of float32 */
    unsigned char *k_by_key, *k_by_channel, *v_by_key, *v_by_channel; /* attention_packed.h */
} work;

work LEVEL(attention_work)(const kvsi_context *c, const kvsi_attention *a);

/* One thread's memory. */
typedef struct scratch {
    double *d_taps;           /* [KVSI_TAPS_MAX, head_size] */
    float *tap_sums;          /* [KVSI_TAPS_MAX, head_size] */
    float *keys, *values;     /* [head_size, KEYS], transposed */
    float *tile;              /* [KEYS, head_size]: of a cache of rounded values */
    float *scores, *d_scores; /* [ROWS, KEYS] */
    float *out;               /* [ROWS, whole_channels(head_size)] */
    float *top, *sum;         /* [ROWS] */
    float *keep;              /* [KEYS]: one row's dropout factors */
    float *cap_slopes;        /* [KEYS]: one row's derivatives of capped scores */
    float *terms;             /* [KEYS]: one row's relative terms */
    float *near, *d_near;     /* [relative, RELATIVE_COLUMNS] */
    unsigned char *packed;    /* LEVEL(attention_packed_scratch) bytes */
} scratch;

scratch LEVEL(attention_scratch)(const work *w, size_t head_size);

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
    const unit *unit;  /* for packed operands; NULL = vectors of float32 */
} head_view;

head_view LEVEL(attention_head)(const work *w, const kvsi_attention *a, const kvsi_span *span,
                                size_t kv_head);

/* Computes q^, k^ and v^ of one KV head of a sequence. */
void LEVEL(attention_shift_rotate)(const work *w, const float *qkv, const kvsi_attention *a,
                                   const kvsi_span *span, size_t kv_head);
shift_rotation LEVEL(attention_target)(const work *w, const kvsi_attention *a, unsigned target,
                                       const kvsi_span *span, size_t head, const float *qkv);

/* Rows of the head's k or v from `key` on as floats: in place, or `count` of them decoded into
 * `tile`. */
const float *LEVEL(attention_rows)(const head_view *h, const void *rows, size_t key, size_t count,
                                   float *tile);

/* Turns a tile of products q^ k^T and d_out v^T into probabilities, times dropout factors, and the
 * gradients of the scores. */
void LEVEL(attention_probabilities)(const work *w, const scratch *s, const head_view *h, size_t row,
                                    size_t m, size_t key, size_t n);

static inline size_t q_offset(const kvsi_attention *a, const kvsi_span *span, size_t kv_head)
{
    return (span->start * a->heads + kv_head * (a->heads / a->kv_heads) * span->len) * a->head_size;
}

/* Offset of a head's new k^ or v^ in the workspace. */
static inline size_t k_offset(const kvsi_attention *a, const kvsi_span *span, size_t kv_head)
{
    return (span->start * a->kv_heads + kv_head * span->len) * a->head_size;
}

/* Row r of a KV head, in the token-major layout of out and d_out. */
static inline size_t token_major(const kvsi_attention *a, const kvsi_span *span, size_t kv_head,
                                 size_t r)
{
    const size_t group = a->heads / a->kv_heads;

    return ((span->start + r / group) * a->heads + kv_head * group + r % group);
}

/* Row r attends to keys first_key(r) to last_key(r), its own position. */
static inline size_t last_key(const head_view *h, size_t r)
{
    return h->past + r / h->group;
}

static inline size_t first_key(const head_view *h, size_t r)
{
    const size_t window = h->a->sliding_window, next = last_key(h, r) + 1;

    return window > 0 && next > window ? next - window : 0;
}

static inline size_t head_of_row(const head_view *h, size_t r)
{
    return h->kv_head * h->group + r % h->group;
}

/* Index of a head among those of q, then k, then v. */
static inline size_t slot_of(const kvsi_attention *a, unsigned target, size_t head)
{
    return head + (target == KVS_SHIFT_Q   ? 0
                   : target == KVS_SHIFT_K ? a->heads
                                           : a->heads + a->kv_heads);
}

/* Distance between rows of scratch.out: a unit writes whole panels of columns. */
static inline size_t whole_channels(size_t head_size)
{
    return (head_size + UNIT_COLS_MAX - 1) / UNIT_COLS_MAX * UNIT_COLS_MAX;
}

/* ---- scores ---- */

static inline size_t whole_vectors(size_t n)
{
    return (n + VEC - 1) / VEC * VEC;
}

/* The scale, if finish_scores leaves it to the exponential, where it costs nothing. */
static inline float late_scale(const head_view *h)
{
    return h->a->slopes || h->a->relative.size > 0 || h->a->score_cap > 0 ? 1.0f : h->a->scale;
}

/* Products become capped scores, and slopes[padded], unless it is NULL, their derivatives by what
 * was capped. */
static inline void cap_scores(float *scores, float *slopes, const kvsi_attention *a, size_t padded)
{
    const float cap = a->score_cap, factor = a->scale / cap;

    for (size_t j = 0; j < padded; j += VEC) {
        const vec t = vec_tanh(vec_load(scores + j) * factor);

        vec_store(scores + j, cap * t);
        if (slopes)
            vec_store(slopes + j, 1.0f - t * t);
    }
}

/* Turns row r's products with n keys from `key` on into scores, except for late_scale: caps them,
 * subtracts slope * distance or adds the relative terms, unless NULL, and sets masked keys and the
 * padding to -infinity.  `cap_slopes` is for cap_scores, if there is a cap. */
static inline void finish_scores(float *scores, float *cap_slopes, const float *terms,
                                 const head_view *h, size_t r, size_t key, size_t n, size_t padded)
{
    const size_t first = first_key(h, r), next = last_key(h, r) + 1;
    const size_t from = first <= key ? 0 : first - key < n ? first - key : n;
    const size_t to = next <= key ? 0 : next - key < n ? next - key : n;

    if (h->a->score_cap > 0)
        cap_scores(scores, cap_slopes, h->a, padded);
    if (h->a->slopes) {
        const float slope = h->a->slopes[head_of_row(h, r)];
        const float scale = h->a->score_cap > 0 ? 1.0f : h->a->scale;
        const float distance = (float)last_key(h, r) - (float)key;
        for (size_t j = 0; j < padded; j++)
            scores[j] = scores[j] * scale - slope * (distance - (float)j);
    }
    if (terms) {
        const float scale = h->a->score_cap > 0 ? 1.0f : h->a->scale;

        for (size_t j = 0; j < padded; j += VEC)
            vec_store(scores + j, vec_load(scores + j) * scale + vec_load(terms + j));
    }
    for (size_t j = 0; j < from; j++)
        scores[j] = -INFINITY;
    for (size_t j = to; j < padded; j++)
        scores[j] = -INFINITY;
}

/* Dropout factors for row r and n keys from `key` on; `key` is a multiple of 4. */
static inline void keep_factors(float *keep, const head_view *h, size_t r, size_t key, size_t n)
{
    const size_t row = r / h->group, head = head_of_row(h, r);

    for (size_t j = 0; j < n; j += 4)
        kvsi_keep_weights(keep + j, h->a, h->span, row, head, (key + j) / 4);
}

#endif
