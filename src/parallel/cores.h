/* parallel/cores.h - the cores that this process may use, and how ranks on one host divide them. */
#ifndef KVSI_PARALLEL_CORES_H
#define KVSI_PARALLEL_CORES_H

#include "parallel/comm.h"

/* A hash of the set of cores that the process may use. */
uint64_t kvsi_cores_hash(void);

/* Number of those cores per rank, if several ranks share them. */
int kvsi_cores_per_rank(const kvs_comm *comm);
/* Pins the process, and so its threads started later, to its own part of the shared cores, if
 * `threads` fit there.  Unpinned ranks on one host would migrate between cores. */
void kvsi_cores_pin(const kvs_comm *comm, int threads);

#endif
