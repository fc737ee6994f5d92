/* kernels/top.h - the best of many values. */
#ifndef KVSI_KERNELS_TOP_H
#define KVSI_KERNELS_TOP_H

#include "kernels/real.h"

#include <stddef.h>
#include <stdint.h>

/* ids[top] = the indexes of the `top` greatest of values[count], greatest first; of equal values,
 * the first.  top <= count. */
void kvsi_top_ids(int32_t *ids, size_t top, const real *values, size_t count);

#endif
