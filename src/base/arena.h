/* base/arena.h - many small pieces of memory that are released together. */
#ifndef KVSI_BASE_ARENA_H
#define KVSI_BASE_ARENA_H

#include <stddef.h>

typedef struct kvsi_arena kvsi_arena;

kvsi_arena *kvsi_arena_create(void);     /* NULL if memory runs out, like all functions here */
void kvsi_arena_free(kvsi_arena *arena); /* NULL does nothing */
/* Zeroed memory for `count` objects of `size` bytes, aligned for any of them. */
void *kvsi_arena_alloc(kvsi_arena *arena, size_t count, size_t size);
/* A copy of `size` bytes, with a NUL after them. */
char *kvsi_arena_copy(kvsi_arena *arena, const char *text, size_t size);

#endif
