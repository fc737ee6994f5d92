/* base/checksum.h - XXH64 of memory and of files.  Detects damage, not manipulation. */
#ifndef KVSI_BASE_CHECKSUM_H
#define KVSI_BASE_CHECKSUM_H

#include "base/status.h"

#include <stdint.h>

uint64_t kvsi_checksum(const void *data, size_t size);
kvs_status kvsi_checksum_file(uint64_t *out, const char *path, kvs_err *err);

/* Incremental: the sum of all data added so far. */
typedef struct kvsi_checksum_stream kvsi_checksum_stream;
kvs_status kvsi_checksum_create(kvsi_checksum_stream **out, kvs_err *err);
void kvsi_checksum_add(kvsi_checksum_stream *stream, const void *data, size_t size);
uint64_t kvsi_checksum_value(const kvsi_checksum_stream *stream);
void kvsi_checksum_free(kvsi_checksum_stream *stream); /* NULL does nothing */

enum { KVSI_CHECKSUM_TEXT = 17 };                    /* 16 hexadecimal digits and a NUL */
void kvsi_checksum_print(char *out, uint64_t value); /* out has KVSI_CHECKSUM_TEXT bytes */

#endif
