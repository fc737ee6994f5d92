/* cli/memory_check.h - compares the memory that a command needs with the free memory. */
#ifndef KVSI_CLI_MEMORY_CHECK_H
#define KVSI_CLI_MEMORY_CHECK_H

#include "base/status.h"

/* Fails if `needed` bytes per rank are more than the free memory, which the ranks of a host share;
 * comm NULL = one process.  `hint` names options that need less.  Succeeds if the free memory is
 * not known. */
kvs_status kvsi_check_memory(uint64_t needed, const kvs_comm *comm, const char *hint, kvs_err *err);

#endif
