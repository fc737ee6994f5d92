/* Each block has its size in a header of one cache line, for the accounting in kvsi_free. */
#include "base/memory.h"

#include "base/status.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ALIGNMENT = 64, HUGE_PAGE = 1 << 21, HUGE_BLOCK = 4 * HUGE_PAGE };

static atomic_uint_fast64_t allocations;
static atomic_size_t live;

/* Large blocks use huge pages if the system has them, to reduce TLB misses. */
static void *take(size_t bytes)
{
    void *block; /* aligned_alloc would need a multiple of the huge page size */

    if (posix_memalign(&block, bytes < HUGE_BLOCK ? ALIGNMENT : HUGE_PAGE, bytes) != 0)
        return NULL;
#ifdef MADV_HUGEPAGE
    if (bytes >= HUGE_BLOCK)
        madvise(block, bytes, MADV_HUGEPAGE);
#endif
    return block;
}

void *kvsi_alloc(size_t count, size_t size)
{
    size_t bytes, total;
    unsigned char *block;

    if (__builtin_mul_overflow(count, size, &bytes) ||
        __builtin_add_overflow(bytes, (size_t)(2 * ALIGNMENT - 1), &total))
        return NULL;
    block = take(total & ~(size_t)(ALIGNMENT - 1)); /* whole cache lines */
    if (!block) {
        kvsi_nomem_set();
        return NULL;
    }
    memset(block, 0, ALIGNMENT + bytes);
    memcpy(block, &bytes, sizeof bytes);
    atomic_fetch_add(&allocations, 1);
    atomic_fetch_add(&live, bytes);
    return block + ALIGNMENT;
}

void kvsi_free(void *memory)
{
    unsigned char *block;
    size_t bytes;

    if (!memory)
        return;
    block = (unsigned char *)memory - ALIGNMENT;
    memcpy(&bytes, block, sizeof bytes);
    atomic_fetch_sub(&live, bytes);
    free(block);
}

char *kvsi_strdup(const char *text)
{
    const size_t size = strlen(text) + 1;
    char *copy = kvsi_alloc(size, 1);

    if (copy)
        memcpy(copy, text, size);
    return copy;
}

uint64_t kvsi_memory_allocations(void)
{
    return atomic_load(&allocations);
}

size_t kvsi_memory_live(void)
{
    return atomic_load(&live);
}

/* Not getrusage(), which includes the process image before exec(). */
double kvsi_memory_peak(void)
{
    FILE *status = fopen("/proc/self/status", "r");
    char line[128];
    unsigned long long kilobytes;
    double bytes = NAN;

    while (status && isnan(bytes) && fgets(line, sizeof line, status))
        if (sscanf(line, "VmHWM: %llu kB", &kilobytes) == 1)
            bytes = 1024.0 * (double)kilobytes;
    if (status)
        fclose(status);
    return bytes;
}
