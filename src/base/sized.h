/* base/sized.h - public structs that start with `size_t size`, so that later versions can add
 * fields at the end.
 *
 * A program that was built with an older header passes a smaller struct: fields that it does not
 * have keep their defaults.  A program that was built with a newer header passes a larger one: it
 * is accepted if the fields that this library does not know are zero. */
#ifndef KVSI_BASE_SIZED_H
#define KVSI_BASE_SIZED_H

#include "base/status.h"

/* Implements X_init(options, size): copies the defaults into the caller's struct, which has `size`
 * bytes, and sets its member `size`.  Bytes behind the library's own struct become 0. */
void kvsi_sized_init(void *options, size_t size, const void *defaults, size_t own_size);

/* Copies the caller's options over *own, which holds the defaults.  `options` may be NULL.  `what`
 * is the type's name in messages. */
kvs_status kvsi_sized_read(void *own, size_t own_size, const void *options, const char *what,
                           kvs_err *err);

/* Fails unless the caller has set the size of a struct that receives results. */
kvs_status kvsi_sized_check(const void *result, const char *what, kvs_err *err);
/* Copies as much of the results as fits the caller's struct, and leaves its member `size` as it
 * is. */
void kvsi_sized_write(void *result, const void *own, size_t own_size);

#endif
