/* base/machine.h - the machine: processor, host, time and available memory. */
#ifndef KVSI_BASE_MACHINE_H
#define KVSI_BASE_MACHINE_H

#include <stddef.h>

/* The processor's name; "unknown" if the system does not provide it. */
void kvsi_machine_processor(char *out, size_t size);
/* "2025-03-09T17:05:00Z" */
void kvsi_machine_time(char *out, size_t size);

/* Bytes that each of `processes` on this machine can still allocate without swapping: what the
 * system has available, or less if a control group or the process's own limit is smaller.  NaN =
 * unknown.  `root` is prepended to the paths of /proc and /sys; "" except in tests. */
double kvsi_machine_free_memory(const char *root, size_t processes);

#endif
