/* ranks.h - ranks that are threads of this process, so that what they do together can be tested
 * without MPI, and under the sanitizers. */
#ifndef KVSI_TESTS_RANKS_H
#define KVSI_TESTS_RANKS_H

#include "parallel/comm.h"

enum { RANKS_MAX = 4 };

/* Runs `body` once on every one of `count` ranks, at the same time, and waits for all.  cmocka's
 * checks belong into the calling thread: bodies leave what they find in `user`. */
void ranks_run(size_t count, void (*body)(kvs_comm *comm, void *user), void *user);

#endif
