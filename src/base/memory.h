/* base/memory.h - the allocator: 64-byte aligned, zeroed, overflow-checked, accounted.
 *
 * It is not called inside a training or decoding step; a test compares kvsi_memory_allocations()
 * before and after. */
#ifndef KVSI_BASE_MEMORY_H
#define KVSI_BASE_MEMORY_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/* Zeroed memory for count objects of `size` bytes; NULL if memory runs out or the product
 * overflows. count * size = 0 gives a valid pointer. */
void *kvsi_alloc(size_t count, size_t size);
void kvsi_free(void *memory);

char *kvsi_strdup(const char *text);

/* Reports that an allocation failed: "out of memory for WHAT".  WHAT is a printf format, which must
 * be a literal, and its arguments:  return kvsi_no_memory(err, "'%s'", path); */
#define kvsi_no_memory(err, ...) kvsi_fail(err, KVS_E_NOMEM, "out of memory for " __VA_ARGS__)

uint64_t kvsi_memory_allocations(void); /* calls to kvsi_alloc so far, in all threads */
size_t kvsi_memory_live(void);          /* bytes allocated now */

/* Peak resident memory of this program in bytes; NaN if unknown. */
double kvsi_memory_peak(void);

#endif
