#include "base/read_ahead.h"

#include "base/memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SLICE = 8 << 20 }; /* bytes between checks for the end */

struct kvsi_read_ahead {
    pthread_t thread;
    atomic_int ended;
    size_t count;
    kvsi_extent ranges[];
};

void kvsi_read_soon(const void *data, size_t size)
{
    const size_t before =
        (uintptr_t)data % (uintptr_t)sysconf(_SC_PAGESIZE); /* offset in its page */

    posix_madvise((char *)data - before, before + size, POSIX_MADV_WILLNEED);
}

static void *run(void *self)
{
    kvsi_read_ahead *ahead = self;

    for (size_t i = 0; i < ahead->count; i++) {
        const kvsi_extent *r = &ahead->ranges[i];

        for (size_t at = 0; at < r->size; at += SLICE) {
            if (atomic_load(&ahead->ended))
                return NULL;
            kvsi_read_soon((const char *)r->data + at, r->size - at < SLICE ? r->size - at : SLICE);
        }
    }
    return NULL;
}

/* Whether the ranges fit into memory with a margin. */
static int fits_memory(const kvsi_extent *ranges, size_t count)
{
    const double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    double bytes = 0;

    for (size_t i = 0; i < count; i++)
        bytes += (double)ranges[i].size;
    return bytes < 0.75 * memory;
}

kvsi_read_ahead *kvsi_read_ahead_start(const kvsi_extent *ranges, size_t count)
{
    kvsi_read_ahead *ahead;

    if (count == 0 || !fits_memory(ranges, count))
        return NULL;
    ahead = kvsi_alloc(1, sizeof *ahead + count * sizeof *ranges);
    if (!ahead)
        return NULL;
    ahead->count = count;
    memcpy(ahead->ranges, ranges, count * sizeof *ranges);
    if (pthread_create(&ahead->thread, NULL, run, ahead) == 0)
        return ahead;
    kvsi_free(ahead);
    return NULL;
}

void kvsi_read_ahead_end(kvsi_read_ahead *ahead)
{
    if (!ahead)
        return;
    atomic_store(&ahead->ended, 1);
    pthread_join(ahead->thread, NULL);
    kvsi_free(ahead);
}
