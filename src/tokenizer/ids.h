/* tokenizer/ids.h - a list of token ids, and a hash of bytes. */
#ifndef KVSI_TOKENIZER_IDS_H
#define KVSI_TOKENIZER_IDS_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/* Starts as {0}. */
typedef struct kvsi_ids {
    int32_t *ids;
    size_t count, capacity;
} kvsi_ids;

kvs_status kvsi_ids_add(kvsi_ids *list, const int32_t *more, size_t count, kvs_err *err);

/* For hash tables.  Fast; collisions can be constructed. */
uint64_t kvsi_hash_bytes(const char *bytes, size_t size);

#endif
