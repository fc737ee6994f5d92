#include "kernels/cpu/attention_full_norm.h"

#include "parallel/threads.h"

/* A head of q or k of one sequence. */
typedef struct place {
    const kvsi_span *span;
    unsigned target;
    size_t head;
    double *sums; /* of its rows */
} place;

static place place_of(const work *w, const kvsi_attention *a, size_t index)
{
    const size_t heads = a->heads + a->kv_heads, slot = index % heads;
    const kvsi_span *span = &a->spans[index / heads];
    double *sums = w->row_sums + slot * a->tokens + span->start;

    return slot < a->heads ? (place){span, KVS_SHIFT_Q, slot, sums}
                           : (place){span, KVS_SHIFT_K, slot - a->heads, sums};
}

/* Mean over the channels of `heads` heads from `first` on, of what row t has. */
static double row_mean(const work *w, const kvsi_attention *a, size_t first, size_t heads, size_t t)
{
    double sum = 0;

    for (size_t h = first; h < first + heads; h++)
        sum += w->row_sums[h * a->tokens + t];
    return sum / (double)(heads * a->head_size);
}

void LEVEL(full_norm_forward)(kvsi_context *c, const work *w, const float *qkv,
                              const kvsi_attention *a)
{
    const size_t n = a->tokens;

    KVSI_PARALLEL_PIECES(c->threads, i, a->sequences * (a->heads + a->kv_heads)) {
        const place p = place_of(w, a, i);
        const shift_rotation m = LEVEL(attention_target)(w, a, p.target, p.span, p.head, qkv);

        LEVEL(row_squares)(p.sums, LEVEL(attention_scratch)(w, a->head_size).keys, &m);
    }
    for (size_t t = 0; t < n; t++) {
        w->inverses[t] = (float)(1 / sqrt(row_mean(w, a, 0, a->heads, t) + a->norm_eps));
        w->inverses[n + t] =
            (float)(1 / sqrt(row_mean(w, a, a->heads, a->kv_heads, t) + a->norm_eps));
    }
}

static float cube(float x)
{
    return x * x * x;
}

void LEVEL(full_norm_backward)(kvsi_context *c, const work *w, const float *qkv,
                               const kvsi_attention *a)
{
    const size_t n = a->tokens, d = a->head_size, group = a->heads / a->kv_heads;

    KVSI_PARALLEL_PIECES(c->threads, i, a->sequences * (a->heads + a->kv_heads)) {
        const place p = place_of(w, a, i);
        const shift_rotation m = LEVEL(attention_target)(w, a, p.target, p.span, p.head, qkv);
        float *rows = LEVEL(attention_scratch)(w, d).keys;

        if (p.target == KVS_SHIFT_Q)
            LEVEL(row_pulls)
        (p.sums, rows, w->d_q + q_offset(a, p.span, p.head / group) + p.head % group * d, group * d,
         &m);
        else LEVEL(row_pulls)(p.sums, rows, w->d_k + k_offset(a, p.span, p.head), d, &m);
    }
    for (size_t t = 0; t < n; t++) {
        w->pulls[t] = cube(w->inverses[t]) * (float)row_mean(w, a, 0, a->heads, t);
        w->pulls[n + t] =
            cube(w->inverses[n + t]) * (float)row_mean(w, a, a->heads, a->kv_heads, t);
    }
}
