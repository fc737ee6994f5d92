/* base/source.h - the bytes of a text file, as a stream; what ends in .zst is decompressed.
 *
 * On the way the file's own bytes are counted and their checksum is taken. */
#ifndef KVSI_BASE_SOURCE_H
#define KVSI_BASE_SOURCE_H

#include "base/status.h"

typedef struct kvsi_source kvsi_source;

/* A regular file; `path` is borrowed.  One that is compressed, by its first bytes, and does not end
 * in .zst is refused. */
kvs_status kvsi_source_open(kvsi_source **out, const char *path, kvs_err *err);
void kvsi_source_close(kvsi_source *source);
/* Up to `size` (> 0) bytes of text; *got = 0 means the end. */
kvs_status kvsi_source_read(kvsi_source *source, void *out, size_t size, size_t *got, kvs_err *err);

uint64_t kvsi_source_bytes(const kvsi_source *source); /* read from disk so far */
uint64_t kvsi_source_checksum(const kvsi_source *source);

#endif
