#include "tokenizer/ids.h"

#include "base/array.h"

#include <string.h>

kvs_status kvsi_ids_add(kvsi_ids *list, const int32_t *more, size_t count, kvs_err *err)
{
    if (list->count + count > list->capacity) {
        const kvs_status st = kvsi_array_reserve(&list->ids, &list->capacity, list->count + count,
                                                 sizeof *list->ids, err);
        if (st != KVS_OK)
            return st;
    }
    for (size_t i = 0; i < count; i++)
        list->ids[list->count + i] = more[i];
    list->count += count;
    return KVS_OK;
}

uint64_t kvsi_hash_bytes(const char *bytes, size_t size)
{
    const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t hash = size * odd;

    for (; size >= 8; bytes += 8, size -= 8) {
        uint64_t word;

        memcpy(&word, bytes, 8);
        hash = (hash ^ word) * odd;
        hash ^= hash >> 32;
    }
    if (size > 0) {
        uint64_t word = 0;

        memcpy(&word, bytes, size);
        hash = (hash ^ word) * odd;
        hash ^= hash >> 32;
    }
    hash *= odd;
    return hash ^ (hash >> 29);
}
