/* base/array.h - growing arrays. */
#ifndef KVSI_BASE_ARRAY_H
#define KVSI_BASE_ARRAY_H

#include "base/status.h"

#include <stddef.h>

/* Grows *array, an array from kvsi_alloc of *capacity items of `size` bytes (NULL and 0 at first),
 * to a capacity of at least `need` items.  New items are zero. */
kvs_status kvsi_array_reserve(void *array, size_t *capacity, size_t need, size_t size,
                              kvs_err *err);

#endif
