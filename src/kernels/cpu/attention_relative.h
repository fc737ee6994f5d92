/* kernels/cpu/attention_relative.h - the terms of scores that depend on distance: those of a row
 * are its numbers r times a table [size, extent], times the row's growth.
 *
 * A tile of scores, whose last row is that of token t1 and whose first key is `key`, needs the
 * distances t1 - key, t1 - key - 1, ...  Its part of the table is copied in this order, with zeros
 * where a distance has no term, so that the terms of a row of token t are the product of its r with
 * neighbouring columns from t1 - t on. */
#ifndef KVSI_KERNELS_CPU_ATTENTION_RELATIVE_H
#define KVSI_KERNELS_CPU_ATTENTION_RELATIVE_H

#include "kernels/cpu/attention.h"

/* Rows row .. row + m - 1 of a KV head and n keys from `key` on. */
typedef struct tile_place {
    size_t row, m, key, n;
} tile_place;

/* Copies the part of the table for a tile. */
void LEVEL(relative_start)(const scratch *s, const head_view *h, tile_place at);
/* Returns the terms of row i of the tile, padded to whole vectors, in scratch memory. */
const float *LEVEL(relative_terms)(const scratch *s, const head_view *h, tile_place at, size_t i);

/* Backward, for the same tile, with s->d_near 0 at its start: the gradient of the scores of each
 * row, whose padding becomes 0, and after all rows relative_finish, which adds to the table's
 * gradient. */
void LEVEL(relative_row_backward)(const scratch *s, const head_view *h, tile_place at, size_t i,
                                  float *d_scores);
void LEVEL(relative_finish)(const work *w, const scratch *s, const head_view *h, tile_place at);
/* Sets the gradients of one KV head of a sequence to 0. */
void LEVEL(relative_clear)(const work *w, const head_view *h);
/* Adds the table's gradients of all KV heads and sequences, in order. */
void LEVEL(relative_reduce)(const work *w, const kvsi_attention *a);

#endif
