/* base/read_ahead.h - mapped memory brought in from its files before it is wanted, beside other
 * work.  What is there already costs next to nothing; what fails is only slower. */
#ifndef KVSI_BASE_READ_AHEAD_H
#define KVSI_BASE_READ_AHEAD_H

#include <stddef.h>

/* Asks for a piece of a mapping without waiting for it; it should be small. */
void kvsi_read_soon(const void *data, size_t size);

typedef struct kvsi_extent {
    const void *data;
    size_t size;
} kvsi_extent;

typedef struct kvsi_read_ahead kvsi_read_ahead;

/* Goes through the ranges (copied) in their order, on a thread of its own.  NULL: it does not,
 * because they are more than this machine's memory could keep, or there is no thread. */
kvsi_read_ahead *kvsi_read_ahead_start(const kvsi_extent *ranges, size_t count);
/* Ends it wherever it is; the mappings must still be there.  NULL does nothing. */
void kvsi_read_ahead_end(kvsi_read_ahead *ahead);

#endif
