/* tokenizer/array.h - arrays that grow. */
#ifndef KVSI_TOKENIZER_ARRAY_H
#define KVSI_TOKENIZER_ARRAY_H

#include "base/status.h"

/* Makes room for `need` items of `size` bytes in *array, an array from kvsi_alloc of *capacity
 * items (NULL and 0 at first).  New items are zero. */
kvs_status kvsi_array_reserve(void *array, size_t *capacity, size_t need, size_t size,
                              kvs_err *err);

/* Token ids, as they come. */
typedef struct kvsi_ids {
    int32_t *ids;
    size_t count, capacity;
} kvsi_ids;

kvs_status kvsi_ids_add(kvsi_ids *list, const int32_t *more, size_t count, kvs_err *err);

/* Of bytes: quick, and good enough for tables; not against people who look for collisions. */
uint64_t kvsi_hash_bytes(const char *bytes, size_t size);

#endif
