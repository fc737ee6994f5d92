/* base/read_ahead.h - reads mapped memory from disk in the background before it is used.  Cached
 * pages cost almost nothing; a failure only makes later reads slower. */
#ifndef KVSI_BASE_READ_AHEAD_H
#define KVSI_BASE_READ_AHEAD_H

#include <stddef.h>

/* Requests a part of a mapping without waiting for it; it should be small. */
void kvsi_read_soon(const void *data, size_t size);

typedef struct kvsi_extent {
    const void *data;
    size_t size;
} kvsi_extent;

typedef struct kvsi_read_ahead kvsi_read_ahead;

/* Reads the ranges (copied) in order on a separate thread.  NULL if they exceed the machine's
 * memory or the thread cannot be started. */
kvsi_read_ahead *kvsi_read_ahead_start(const kvsi_extent *ranges, size_t count);
/* Stops the thread; the mappings must still exist.  NULL does nothing. */
void kvsi_read_ahead_end(kvsi_read_ahead *ahead);

#endif
