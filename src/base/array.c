#include "base/array.h"

#include "base/memory.h"

#include <stdint.h>
#include <string.h>

kvs_status kvsi_array_reserve(void *array, size_t *capacity, size_t need, size_t size, kvs_err *err)
{
    size_t larger = *capacity ? *capacity : 16;
    void *old, *fresh;

    if (need <= *capacity)
        return KVS_OK;
    while (larger < need && larger <= SIZE_MAX / 2)
        larger *= 2;
    fresh = larger < need ? NULL : kvsi_alloc(larger, size);
    if (!fresh)
        return kvsi_no_memory(err, "an array of %zu items of %zu bytes", need, size);
    memcpy(&old, array, sizeof old); /* `array` points to a pointer of any type */
    if (old)
        memcpy(fresh, old, *capacity * size);
    kvsi_free(old);
    memcpy(array, &fresh, sizeof fresh);
    *capacity = larger;
    return KVS_OK;
}
