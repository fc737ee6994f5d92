#include "base/arena.h"

#include "base/memory.h"

#include <stdint.h>
#include <string.h>

enum { BLOCK = 1 << 16, ALIGNMENT = 16 };

/* Blocks are a list; each starts with its header. */
struct block {
    struct block *next;
    size_t used, size; /* bytes, with the header */
};

struct kvsi_arena {
    struct block *first; /* the one that is being filled */
};

kvsi_arena *kvsi_arena_create(void)
{
    return kvsi_alloc(1, sizeof(kvsi_arena));
}

void kvsi_arena_free(kvsi_arena *arena)
{
    if (!arena)
        return;
    for (struct block *block = arena->first, *next; block; block = next) {
        next = block->next;
        kvsi_free(block);
    }
    kvsi_free(arena);
}

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

void *kvsi_arena_alloc(kvsi_arena *arena, size_t count, size_t size)
{
    const size_t header = aligned(sizeof(struct block));
    struct block *block = arena->first;
    size_t bytes;

    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 2)
        return kvsi_alloc(count, size); /* fails, and records it */
    bytes = aligned(bytes);
    if (!block || block->size - block->used < bytes) {
        const size_t whole = header + bytes > BLOCK ? header + bytes : BLOCK;

        block = kvsi_alloc(whole, 1);
        if (!block)
            return NULL;
        block->size = whole;
        block->used = header;
        block->next = arena->first;
        arena->first = block;
    }
    block->used += bytes;
    return (char *)block + block->used - bytes;
}

char *kvsi_arena_copy(kvsi_arena *arena, const char *text, size_t size)
{
    char *copy = kvsi_arena_alloc(arena, size + 1, 1);

    if (copy && size > 0)
        memcpy(copy, text, size);
    return copy;
}
