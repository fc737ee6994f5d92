/* cli/memory_check.h - compares what a command will allocate with the free memory. */
#ifndef KVSI_CLI_MEMORY_CHECK_H
#define KVSI_CLI_MEMORY_CHECK_H

#include "base/status.h"

/* Fails if more than the free memory is needed; `hint` says which options need less.  The ranks of
 * a machine share its memory; comm NULL = this process alone.  Where the system does not tell what
 * is free, everything passes. */
kvs_status kvsi_check_memory(uint64_t needed, const kvs_comm *comm, const char *hint, kvs_err *err);

#endif
