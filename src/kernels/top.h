/* kernels/top.h - the best of many values. */
#ifndef KVSI_KERNELS_TOP_H
#define KVSI_KERNELS_TOP_H

#include "kernels/real.h"

#include <stddef.h>
#include <stdint.h>

/* Sets ids[top] to the indices of the `top` greatest of values[count], greatest first.  If
 * values are equal, the lower index comes first.  top <= count. */
void kvsi_top_ids(int32_t *ids, size_t top, const real *values, size_t count);

#endif
