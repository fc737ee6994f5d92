/* ranks.h - ranks as threads of this process, so that collectives can be tested without MPI and
 * with sanitizers. */
#ifndef KVSI_TESTS_RANKS_H
#define KVSI_TESTS_RANKS_H

#include "parallel/comm.h"

enum { RANKS_MAX = 4 };

/* Runs `body` on `count` ranks at the same time, and waits for all.  cmocka's checks only work in
 * the calling thread: bodies store their results in `user`. */
void ranks_run(size_t count, void (*body)(kvs_comm *comm, void *user), void *user);

#endif
