/* base/machine.h - the machine: where and when something was done, and what
 * memory is free. */
#ifndef KVSI_BASE_MACHINE_H
#define KVSI_BASE_MACHINE_H

#include <stddef.h>

/* The processor's name for itself; "unknown" where the system does not tell. */
void kvsi_machine_processor(char *out, size_t size);
/* "2025-03-09T17:05:00Z" */
void kvsi_machine_time(char *out, size_t size);

/* Bytes that each of `processes` on this machine can still allocate without swapping: what the
 * system has available, or less where a control group or the process's own limit says so.  NaN =
 * the system does not tell.  `root` stands before the paths of /proc and /sys; "" but in tests. */
double kvsi_machine_free_memory(const char *root, size_t processes);

#endif
