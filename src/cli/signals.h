/* cli/signals.h - signals that ask a command to stop or to save. */
#ifndef KVSI_CLI_SIGNALS_H
#define KVSI_CLI_SIGNALS_H

#include "base/status.h"

/* From now on SIGHUP, SIGPIPE and the first SIGINT or SIGTERM are only noted; a second SIGINT or
 * SIGTERM ends the process.  Signals that are ignored stay ignored. */
void kvsi_catch_stop(void);
int kvsi_stop_signal(void); /* the signal noted; 0 = none */
const char *kvsi_stop_signal_name(void);

/* From now on the command ends with one line and exit code 1 if pages of a mapped file cannot be
 * read, which the kernel reports by SIGBUS. */
void kvsi_catch_lost_pages(void);

/* From now on every SIGINT is noted.  Called once. */
kvs_status kvsi_catch_interrupts(kvs_err *err);
/* Waits until `fd` can be read (1) or a SIGINT is noted (0), also one that came before. */
int kvsi_wait_for_input(int fd);
int kvsi_take_interrupt(void); /* whether it came since the last call */

/* From now on SIGUSR1 is noted. */
void kvsi_catch_save(void);
int kvsi_take_save_signal(void); /* whether it came since the last call */

#endif
