/* parallel/cores.h - which cores this process may use, and which of them are its own where ranks
 * share them. */
#ifndef KVSI_PARALLEL_CORES_H
#define KVSI_PARALLEL_CORES_H

#include "parallel/comm.h"

/* Tells which cores the process may use, in a number: the same for the same cores. */
uint64_t kvsi_cores_mark(void);

/* How many of them are this rank's. */
int kvsi_cores_share(const kvs_comm *comm);
/* Keeps `threads` to come of this process on its own share, if they fit there: ranks that the
 * launcher left free to run anywhere would drive each other from core to core. */
void kvsi_cores_pin(const kvs_comm *comm, int threads);

#endif
