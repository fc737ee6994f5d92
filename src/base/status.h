/* base/status.h - errors are values: fill the caller's kvs_err and return the status.
 *
 * A function that owns nothing returns at the first failure:
 *
 *     TRY(step_one(err));
 *     return step_two(err);
 *
 * A function that must release something jumps to its label `out`:
 *
 *     kvs_status st = KVS_OK;
 *     TRY_OUT(step_one(err));        sets st
 *     ...
 * out:
 *     release what was taken;
 *     return st;
 */
#ifndef KVSI_BASE_STATUS_H
#define KVSI_BASE_STATUS_H

#include "kvshift/kvshift.h"

/* Fills `err` (NULL allowed) and returns `status`.  Message grammar: lower case, no full stop, the
 * offending thing in quotes, expected against found, then a hint. */
kvs_status kvsi_fail(kvs_err *err, kvs_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Whether memory ran out in this thread without a report.  kvsi_alloc() and the allocator that
 * jansson uses set it; kvsi_fail() clears it when it reports KVS_E_NOMEM, and sets it where `err`
 * is NULL, since such callers may drop the status.  kvsi_json_check() reads it. */
void kvsi_nomem_set(void);
int kvsi_nomem_is_set(void);
void kvsi_nomem_clear(void);

/* Adds the name of a file to the message of a check that does not know it: 'WHAT': MESSAGE. */
kvs_status kvsi_in_file(kvs_status status, const kvs_err *inner, const char *what, kvs_err *err);

#ifdef __clang_analyzer__ /* it cannot see that kvsi_fail returns `status` */
#define kvsi_fail(err, status, ...) ((void)kvsi_fail(err, status, __VA_ARGS__), (status))
#endif

#define TRY(call)                                                                                  \
    do {                                                                                           \
        const kvs_status try_status = (call);                                                      \
        if (try_status != KVS_OK)                                                                  \
            return try_status;                                                                     \
    } while (0)

/* Returns KVS_E_INVALID from a public call if an argument is NULL.  The call must have a parameter
 * `err`. */
#define NEED(pointer) NEED_AS(pointer, pointer)
/* Like NEED, for an argument whose name in the public header is `name`. */
#define NEED_AS(pointer, name)                                                                     \
    do {                                                                                           \
        if (!(pointer))                                                                            \
            return kvsi_fail(err, KVS_E_INVALID, "%s is NULL", #name);                             \
    } while (0)
/* Like NEED, for an array of `count` elements, which may be NULL if `count` is 0. */
#define NEED_ARRAY(pointer, count)                                                                 \
    do {                                                                                           \
        if ((count) > 0)                                                                           \
            NEED(pointer);                                                                         \
    } while (0)

#define TRY_OUT(call)                                                                              \
    do {                                                                                           \
        st = (call);                                                                               \
        if (st != KVS_OK)                                                                          \
            goto out;                                                                              \
    } while (0)

#endif
