/* base/spool.h - copies of pipes and of standard input, which can be opened more than once.
 *
 * A copy is a temporary file in TMPDIR (default /tmp) without a name, so nothing is left behind
 * however the program ends.  It is opened by its path, "/proc/self/fd/N", which has no ending:
 * readers tell its format from its first bytes. */
#ifndef KVSI_BASE_SPOOL_H
#define KVSI_BASE_SPOOL_H

#include "base/status.h"

enum { KVSI_SPOOL_PATH = 40 };

/* Whether the path has to be copied: "-", standard input, or a pipe. */
int kvsi_spool_is_needed(const char *path);
/* Copies all of it and writes the path of the copy, which exists until *fd is closed. */
kvs_status kvsi_spool(char out[KVSI_SPOOL_PATH], int *fd, const char *path, kvs_err *err);

/* Whether a path is that of a copy, and how messages name it. */
int kvsi_is_spooled(const char *path);
const char *kvsi_spool_name(const char *path);

#endif
