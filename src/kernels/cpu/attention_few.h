/* kernels/cpu/attention_few.h - attention of a few rows (decoding): keys and values are read
 * once, in place, in the type of the cache.  Sums have the order of tile.h, so the bits are
 * those of many rows. */
#ifndef KVSI_KERNELS_CPU_ATTENTION_FEW_H
#define KVSI_KERNELS_CPU_ATTENTION_FEW_H

#include "kernels/cpu/attention.h"

enum { FEW_ROWS = 4 }; /* these calls are for fewer */

/* s->scores[m, n] = q^ k^T of rows row .. row+m-1 and n keys from `key` on. */
void LEVEL(attention_score_few)(const scratch *s, const head_view *h, size_t row, size_t m,
                                size_t key, size_t n);
/* s->out[m, d] += s->scores[m, n] . v^[n, d]; d is a multiple of RUN. */
void LEVEL(attention_add_few)(const scratch *s, const head_view *h, size_t m, size_t key, size_t n);

#endif
