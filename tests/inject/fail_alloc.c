/* A library to preload: one allocation of the process fails.
 *
 *     FAIL_ALLOC=N LD_PRELOAD=fail_alloc.so kvshift ...     the N-th, counted from 1
 *     FAIL_ALLOC_COUNT=FILE                                 how many there were, at the end
 *
 * Counts malloc, calloc, realloc, posix_memalign and aligned_alloc of all threads.  The real
 * functions are called by glibc's internal names, because dlsym would allocate. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static atomic_long calls;
static long failing;

__attribute__((constructor)) static void begin(void)
{
    const char *number = getenv("FAIL_ALLOC");

    failing = number ? strtol(number, NULL, 10) : 0;
    atomic_store(&calls, 0); /* calls during the start of other libraries do not count */
}

__attribute__((destructor)) static void end(void)
{
    const char *path = getenv("FAIL_ALLOC_COUNT");
    const long count = atomic_load(&calls);
    FILE *file = path ? fopen(path, "w") : NULL;

    if (!file)
        return;
    fprintf(file, "%ld\n", count);
    fclose(file);
}

static int fails(void)
{
    if (atomic_fetch_add(&calls, 1) + 1 != failing)
        return 0;
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t size)
{
    return fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return fails() ? NULL : __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size)
{
    return fails() ? NULL : __libc_realloc(memory, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return fails() ? NULL : __libc_memalign(alignment, size);
}

int posix_memalign(void **out, size_t alignment, size_t size)
{
    if (fails())
        return ENOMEM;
    *out = __libc_memalign(alignment, size);
    return *out ? 0 : ENOMEM;
}
