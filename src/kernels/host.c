#include "kernels/host.h"

#include "base/memory.h"

#include <math.h>
#include <string.h>

void *kvsi_host_alloc(size_t bytes)
{
    return kvsi_alloc(bytes, 1);
}

void kvsi_host_release(void *memory)
{
    kvsi_free(memory);
}

void kvsi_host_copy(kvsi_context *c, void *to, const void *from, size_t bytes)
{
    (void)c;
    if (bytes > 0)
        memcpy(to, from, bytes);
}

void kvsi_host_zero(kvsi_context *c, void *memory, size_t bytes)
{
    (void)c;
    if (bytes > 0)
        memset(memory, 0, bytes);
}

void kvsi_host_sync(kvsi_context *c)
{
    (void)c;
}

void kvsi_host_clip_scale(kvsi_context *c, double *scale, const double *sum, double mean,
                          double limit)
{
    const double norm = mean * sqrt(*sum);

    (void)c;
    *scale = limit > 0 && norm > limit ? mean * (limit / norm) : mean;
}

kvsi_target kvsi_target_q(const kvsi_attention *a)
{
    return (kvsi_target){&a->q_shift, a->heads, 0};
}

kvsi_target kvsi_target_k(const kvsi_attention *a)
{
    return (kvsi_target){&a->k_shift, a->kv_heads, a->heads * a->head_size};
}

kvsi_target kvsi_target_v(const kvsi_attention *a)
{
    return (kvsi_target){&a->v_shift, a->kv_heads, (a->heads + a->kv_heads) * a->head_size};
}

size_t kvsi_qkv_width(const kvsi_attention *a)
{
    return (a->heads + 2 * a->kv_heads) * a->head_size;
}

static void keep_tail(real *tail, kvsi_target target, const kvsi_span *span, const real *qkv,
                      const kvsi_attention *a)
{
    const size_t window = target.shift->window, row = target.heads * a->head_size;

    if (!tail)
        return;
    for (size_t j = 0; j < window; j++) {    /* ascending: a row moves only to one already copied */
        const size_t source = span->len + j; /* counted from the old tail's oldest row */
        const real *from =
            source < window
                ? tail + source * row
                : qkv + (span->start + source - window) * kvsi_qkv_width(a) + target.column;
        memmove(tail + j * row, from, row * sizeof *tail);
    }
}

void kvsi_keep_tails(const kvsi_attention *a, const real *qkv)
{
    for (size_t s = 0; s < a->sequences; s++) {
        const kvsi_span *span = &a->spans[s];

        keep_tail(span->tail_q, kvsi_target_q(a), span, qkv, a);
        keep_tail(span->tail_k, kvsi_target_k(a), span, qkv, a);
        keep_tail(span->tail_v, kvsi_target_v(a), span, qkv, a);
    }
}
