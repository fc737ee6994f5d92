/* base/source.h - a text file as a stream of bytes; .zst and .gz files are decompressed.
 *
 * Counts the bytes of the file and computes their checksum while reading. */
#ifndef KVSI_BASE_SOURCE_H
#define KVSI_BASE_SOURCE_H

#include "base/status.h"

typedef struct kvsi_source kvsi_source;

/* Opens a regular file; `path` is borrowed.  A file that is compressed, according to its first
 * bytes, but not to its name, is refused. */
kvs_status kvsi_source_open(kvsi_source **out, const char *path, kvs_err *err);
void kvsi_source_close(kvsi_source *source);
/* Reads up to `size` (> 0) bytes of text; *got = 0 at the end. */
kvs_status kvsi_source_read(kvsi_source *source, void *out, size_t size, size_t *got, kvs_err *err);

uint64_t kvsi_source_bytes(const kvsi_source *source); /* read from disk so far */
uint64_t kvsi_source_checksum(const kvsi_source *source);

#endif
