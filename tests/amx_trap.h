/* amx_trap.h - runs AMX instructions on processors that do not have them: each one traps, and the
 * handler of SIGILL executes it on tiles in memory.  Slow, for tests. */
#ifndef KVSI_TESTS_AMX_TRAP_H
#define KVSI_TESTS_AMX_TRAP_H

/* Returns 0 if this is not x86-64 Linux. */
int amx_trap_start(void);
void amx_trap_stop(void);

/* Instructions executed so far, by all threads. */
unsigned long amx_trap_count(void);

#endif
