/* base/program.h - other programs, found on PATH and used as filters. */
#ifndef KVSI_BASE_PROGRAM_H
#define KVSI_BASE_PROGRAM_H

#include "base/status.h"

int kvsi_program_found(const char *name);

/* Runs argv[0] (found on PATH; argv ends with NULL), feeds it `input` and takes what it writes to
 * standard output, at most `limit` bytes, into fresh memory (kvsi_free), NUL-terminated.  A program
 * that cannot be started or exits other than 0 is KVS_E_UNSUPPORTED, with its own first line of
 * complaint. */
kvs_status kvsi_program_filter(char **output, const char *const *argv, const char *input,
                               size_t limit, kvs_err *err);

#endif
