/* base/program.h - runs other programs, found on PATH, as filters. */
#ifndef KVSI_BASE_PROGRAM_H
#define KVSI_BASE_PROGRAM_H

#include "base/status.h"

int kvsi_program_found(const char *name);

/* Runs argv[0] (found on PATH; argv ends with NULL) with `input` on standard input, and returns its
 * standard output, at most `limit` bytes, in fresh memory (kvsi_free), NUL-terminated.  A program
 * that cannot be started or exits with another code than 0 is KVS_E_UNSUPPORTED; the message has
 * the first line of its standard error. */
kvs_status kvsi_program_filter(char **output, const char *const *argv, const char *input,
                               size_t limit, kvs_err *err);

#endif
