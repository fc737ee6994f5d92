/* kernels/host.h - shared by all backends whose memory is host memory. */
#ifndef KVSI_KERNELS_HOST_H
#define KVSI_KERNELS_HOST_H

#include "kernels/backend.h"

void *kvsi_host_alloc(const kvsi_context *c, size_t bytes);
void kvsi_host_release(const kvsi_context *c, void *memory);
const void *kvsi_host_adopt(const kvsi_context *c, const void *host, size_t bytes);
void kvsi_host_disown(const kvsi_context *c, const void *adopted);
void kvsi_host_copy(kvsi_context *c, void *to, const void *from, size_t bytes);
void kvsi_host_zero(kvsi_context *c, void *memory, size_t bytes);
kvs_status kvsi_host_sync(kvsi_context *c);

/* These calls, as members of a kvsi_ops. */
#define KVSI_HOST_MEMORY                                                                           \
    .alloc = kvsi_host_alloc, .release = kvsi_host_release, .adopt = kvsi_host_adopt,              \
    .disown = kvsi_host_disown, .upload = kvsi_host_copy, .download = kvsi_host_copy,              \
    .copy = kvsi_host_copy, .zero = kvsi_host_zero, .sync = kvsi_host_sync

/* The part of qkv that one of q, k, v occupies. */
typedef struct kvsi_target {
    const kvsi_shift *shift;
    size_t heads, column; /* first column in a row of qkv */
    const real *gain;     /* of the norm of its heads; NULL = none */
    real *d_gain;
    size_t gain_stride; /* from the gains of one head to those of the next; 0 = heads share them */
    kvsi_tail tail;
} kvsi_target;

/* The shift parameters of one head; NULL if the form has none. */
const real *kvsi_head_params(const kvsi_shift *shift, size_t head, size_t head_size);
/* The largest number of parameters per head among q, k and v. */
size_t kvsi_shift_params(const kvsi_attention *a);

kvsi_target kvsi_target_q(const kvsi_attention *a);
kvsi_target kvsi_target_k(const kvsi_attention *a);
kvsi_target kvsi_target_v(const kvsi_attention *a);
size_t kvsi_qkv_width(const kvsi_attention *a);

/* Dropout factors, 0 or 1 / (1 - rate): of element `place`, and of the attention weight of row
 * `row` of a sequence, head `head`, for the key at position `key`. */
real kvsi_keep_factor(const kvsi_dropout *d, uint64_t place);
real kvsi_keep_weight(const kvsi_attention *a, const kvsi_span *span, size_t row, size_t head,
                      size_t key);
/* Four attention weights at once: keys 4 * block to 4 * block + 3. */
void kvsi_keep_weights(real factors[4], const kvsi_attention *a, const kvsi_span *span, size_t row,
                       size_t head, size_t block);
/* Four elements at once: 4 * block to 4 * block + 3. */
void kvsi_keep_factors(real factors[4], const kvsi_dropout *d, uint64_t block);

/* Whether a cache of this type holds rounded values. */
static inline int kvsi_cache_rounds(kvsi_dtype cache)
{
    return cache == KVSI_F16 || cache == KVSI_Q8_0;
}

/* Rounds `count` values of K^ or V^ to F16 or Q8_0: into a cache of that type from element `at` on,
 * or in place if cache is NULL.  Both numbers are whole blocks of the type.  A block of Q8_0 with a
 * value that is not finite becomes NaN. */
void kvsi_store_rounded(void *cache, kvsi_dtype type, size_t at, real *x, size_t count);

/* Rows of the batch that tails are made of: row t at `first` + t * stride. */
typedef struct kvsi_raw_rows {
    const real *first;
    size_t stride, width, window;
} kvsi_raw_rows;

/* Updates one tail of a span, if it has it, to the last `window` rows of (old tail, new raw rows),
 * and writes the snapshots that the chunk reaches.  Chunks shorter than the window keep part of the
 * old tail. */
void kvsi_update_tail(const kvsi_span *span, kvsi_tail tail, kvsi_raw_rows rows);
/* The same for the targets of the shift in all spans. */
void kvsi_update_tails(const kvsi_attention *a, const real *qkv);

#endif
