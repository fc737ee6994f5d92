/* base/machine.h - where and when something was done, for the record. */
#ifndef KVSI_BASE_MACHINE_H
#define KVSI_BASE_MACHINE_H

#include <stddef.h>

/* The processor's name for itself; "unknown" where the system does not tell. */
void kvsi_machine_processor(char *out, size_t size);
/* "2025-03-09T17:05:00Z" */
void kvsi_machine_time(char *out, size_t size);

#endif
