/* kernels/cpu/attention_packed.h - attention's products on packed operands, for units that are
 * faster than vectors of float32 (unit.h).
 *
 * K^ and V^ of a head are packed once, in tiles of KEYS keys, for the products they occur in:
 *
 *     k_by_key      q^ k^T        columns are keys, sums are over channels
 *     v_by_channel  p v^          columns are channels, sums are over keys
 *     v_by_key      d_out v^T     backward
 *     k_by_channel  d_scores k^   backward
 *
 * Only training uses them: scores and prompts without a cache have the bits of those with one.
 * The other operands belong to a block of rows and are packed into the thread's scratch.
 * Softmax, masks and dropout are those of float32, on scores in float32. */
#ifndef KVSI_KERNELS_CPU_ATTENTION_PACKED_H
#define KVSI_KERNELS_CPU_ATTENTION_PACKED_H

#include "kernels/cpu/attention.h"

/* Sequences below this length are computed in float32: they would mostly multiply padding. */
enum { PACKED_LENGTH_MIN = KEYS / 2 };

/* A sequence of len >= PACKED_LENGTH_MIN tokens has ceil(len / KEYS) <= len / PACKED_LENGTH_MIN
 * tiles per head, so the tiles of all sequences fit into as many as all their tokens would have. */
static inline size_t packed_tiles(size_t tokens, size_t kv_heads)
{
    return tokens / PACKED_LENGTH_MIN * kv_heads;
}

static inline size_t packed_tile_bytes(const unit *u, size_t head_size)
{
    return KEYS * whole_channels(head_size) * u->col_bytes;
}

/* Whether this sequence is computed with packed operands; sequences with a cache are not. */
static inline int packed_suits(const unit *u, const kvsi_attention *a, const kvsi_span *span)
{
    return u && !span->k && span->len >= PACKED_LENGTH_MIN &&
           whole_channels(a->head_size) <= u->depth;
}

/* Bytes of scratch.packed; 0 without a unit. */
size_t LEVEL(attention_packed_scratch)(const unit *u, size_t head_size);

/* All calls below are made between enter() and leave() of the unit. */

/* Packs k^ and v^ of a head for the forward pass. */
void LEVEL(attention_pack_forward)(const work *w, const head_view *h);
/* Packs q^ of rows row .. row+m-1. */
void LEVEL(attention_pack_rows)(const scratch *s, const head_view *h, size_t row, size_t m);
/* s->scores[m, n] = q^ k^T of the packed rows and n keys from `key` on. */
void LEVEL(attention_packed_scores)(const work *w, const scratch *s, const head_view *h, size_t m,
                                    size_t key, size_t n);
/* s->out[m, head_size] += s->scores v^ */
void LEVEL(attention_packed_values)(const work *w, const scratch *s, const head_view *h, size_t m,
                                    size_t key, size_t n);

/* Gradients of q^, k^, v^ of one KV head of one sequence. */
void LEVEL(attention_packed_backward)(const work *w, const head_view *h);

#endif
