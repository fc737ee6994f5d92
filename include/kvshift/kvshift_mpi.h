/** @file kvshift_mpi.h
 * Ranks: processes that train one model together, under MPI.  The rules of kvshift.h hold.
 *
 * The processes that mpirun, srun or another MPI launcher started together are the ranks.  A call
 * marked "collective" must be made by all of them: if one does not make it, the others wait until
 * their timeout, or until kvs_comm_abort() ends them.
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

/** Collective; call once per process.  A process that is alone, or that no launcher started, is
 * rank 0 of 1 and needs no MPI.  Several processes without MPI in this build:
 * ::KVS_E_UNSUPPORTED. */
KVS_API kvs_status kvs_comm_open(kvs_comm **out, kvs_err *err);
/** Collective; ends MPI. */
KVS_API void kvs_comm_close(kvs_comm *comm);
/** The number of this rank. */
KVS_API size_t kvs_comm_rank(const kvs_comm *comm);
/** The number of ranks. */
KVS_API size_t kvs_comm_size(const kvs_comm *comm);
/** The host name of a rank; NULL if there is only one rank. */
KVS_API const char *kvs_comm_host(const kvs_comm *comm, size_t rank);
/** The number of cores that a rank uses. */
KVS_API int kvs_comm_cores(const kvs_comm *comm, size_t rank);
/** Seconds that a rank waits for others before it fails with ::KVS_E_IO; 0 = no timeout, the
 * default.  While rank 0 writes a checkpoint, the others wait. */
KVS_API void kvs_comm_set_timeout(kvs_comm *comm, double seconds);
/** Collective: every rank passes its status and error.  If any rank failed, all ranks return the
 * status and message of the first that did, with its number unless all failed alike. */
KVS_API kvs_status kvs_comm_agree(kvs_comm *comm, kvs_status status, kvs_err *err);
/** Whether all ranks returned the last failure: then it is enough that one rank reports it, and
 * none is left waiting.  Another failure is known to one rank only, which must report it and call
 * kvs_comm_abort(). */
KVS_API int kvs_comm_all_know(const kvs_comm *comm);
/** Ends the processes of all ranks; `code` is the exit code of the launcher.  Returns only if there
 * is one rank. */
KVS_API void kvs_comm_abort(kvs_comm *comm, int code);
/** The rank that a launcher gave this process; 0 if there was none.  Does not need MPI. */
KVS_API size_t kvs_comm_launched_rank(void);
/** Whether this installation can run more than one rank. */
KVS_API int kvs_comm_has_mpi(void);

#ifdef __cplusplus
}
#endif
#endif
