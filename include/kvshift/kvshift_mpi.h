/** @file kvshift_mpi.h
 * Ranks: processes that train one model together, under MPI.  The rules of kvshift.h apply.
 *
 * The processes that mpirun, srun or another MPI launcher started together are the ranks.  A call
 * marked "collective" must be made by all ranks.  If one rank does not make it, the others wait
 * until their timeout, or until kvs_comm_abort() ends them.
 *
 *   ranks               opening, sizes, failures of one rank
 */
#ifndef KVSHIFT_MPI_H
#define KVSHIFT_MPI_H

#include <kvshift/kvshift.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- ranks ----------------------------------------------------------------------------------- */

/** Starts MPI.  Collective; call it once per process.  A process that no launcher started, or that
 * is the only one, is rank 0 of 1 and needs no MPI.  If there are several processes and this build
 * has no MPI, the call returns ::KVS_E_UNSUPPORTED. */
KVS_API kvs_status kvs_comm_open(kvs_comm **out, kvs_err *err);
/** Ends MPI.  Collective. */
KVS_API void kvs_comm_close(kvs_comm *comm);
/** Returns the number of this rank, from 0 on. */
KVS_API size_t kvs_comm_rank(const kvs_comm *comm);
/** Returns the number of ranks. */
KVS_API size_t kvs_comm_size(const kvs_comm *comm);
/** Returns the host name of a rank; NULL if there is only one rank. */
KVS_API const char *kvs_comm_host(const kvs_comm *comm, size_t rank);
/** Returns the number of cores that a rank uses. */
KVS_API int kvs_comm_cores(const kvs_comm *comm, size_t rank);
/** Sets the time in seconds that this rank waits for others before it fails with ::KVS_E_IO; 0 = no
 * timeout, the default.  The other ranks also wait while rank 0 writes a checkpoint. */
KVS_API void kvs_comm_set_timeout(kvs_comm *comm, double seconds);
/** Combines the statuses of all ranks.  Collective; every rank passes its own status and error.  If
 * any rank failed, all ranks return the status and message of the lowest rank that failed.  The
 * message contains the number of that rank, unless all ranks failed in the same way. */
KVS_API kvs_status kvs_comm_agree(kvs_comm *comm, kvs_status status, kvs_err *err);
/** Returns 1 if all ranks returned the last failure: then one rank should report it, and no rank is
 * left waiting.  Returns 0 if only this rank knows of it: then it must report it and call
 * kvs_comm_abort(). */
KVS_API int kvs_comm_all_know(const kvs_comm *comm);
/** Ends the processes of all ranks; `code` is the exit code of the launcher.  Returns only if there
 * is one rank. */
KVS_API void kvs_comm_abort(kvs_comm *comm, int code);
/** Returns the rank that a launcher gave this process; 0 without a launcher.  Does not need MPI. */
KVS_API size_t kvs_comm_launched_rank(void);
/** Returns 1 if this installation can run more than one rank, otherwise 0. */
KVS_API int kvs_comm_has_mpi(void);

#ifdef __cplusplus
}
#endif
#endif
