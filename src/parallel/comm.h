/* parallel/comm.h - ranks: processes that train together, and the collectives between them.
 *
 * A transfer is started, proceeds while its rank computes, and is then waited for.  All ranks start
 * the transfers of one channel in the same order.  The memory of a transfer must not be touched
 * while it is in flight.  There is no reduction here: what is to be summed is received from every
 * rank and summed by the receiver in a fixed order, so results do not depend on an MPI library.
 *
 * A process that is alone is rank 0 of 1; its transfers are complete once started. */
#ifndef KVSI_PARALLEL_COMM_H
#define KVSI_PARALLEL_COMM_H

#include "base/status.h"
#include "kvshift/kvshift_mpi.h"

/* Transfers of different channels do not wait for each other. */
typedef enum kvsi_channel {
    KVSI_CHANNEL_CONTROL, /* all_gather, broadcast: small messages */
    KVSI_CHANNEL_ALL_TO_ALL,
    KVSI_CHANNEL_ALL_GATHER, /* all_gather_shards */
    KVSI_CHANNELS,
} kvsi_channel;

/* A transfer in flight; {0} = none. */
typedef struct kvsi_transfer {
    uintptr_t handle;
} kvsi_transfer;

/* How a buffer is divided into one shard per rank, in bytes.  The last shards may be shorter or
 * empty.  An all-to-all receives this rank's shard from every rank, one after another. */
typedef struct kvsi_comm_shards {
    int *counts, *offsets;           /* [ranks] each rank's shard of the buffer */
    int *recv_counts, *recv_offsets; /* [ranks] this rank's shard, as received from each rank */
} kvsi_comm_shards;

/* The transport.  `self` is its own data. */
typedef struct kvsi_comm_ops {
    /* all[ranks][bytes] = own[bytes] of each rank */
    kvs_status (*all_gather)(void *self, kvsi_transfer *t, void *all, const void *own, size_t bytes,
                             kvs_err *err);
    /* data[bytes] = that of rank `root` */
    kvs_status (*broadcast)(void *self, kvsi_transfer *t, void *data, size_t bytes, size_t root,
                            kvs_err *err);
    /* received = this rank's shard of every rank's `data`: a reduce-scatter without the sum */
    kvs_status (*all_to_all)(void *self, kvsi_transfer *t, void *received, const void *data,
                             const kvsi_comm_shards *shards, kvs_err *err);
    /* data = every rank's shard in its place; own NULL = this rank's shard is in place already */
    kvs_status (*all_gather_shards)(void *self, kvsi_transfer *t, void *data, const void *own,
                                    const kvsi_comm_shards *shards, kvs_err *err);
    /* Progresses all transfers.  *done = whether this one is complete; then it becomes {0}. */
    kvs_status (*test)(void *self, kvsi_transfer *t, int *done, kvs_err *err);
    void (*abort_all)(void *self, int code); /* ends all ranks; returns only if there is one */
    void (*close)(void *self);               /* collective */
} kvsi_comm_ops;

enum { KVSI_HOST_SIZE = 64 };

struct kvs_comm {
    const kvsi_comm_ops *ops;
    void *self;
    size_t rank, size;
    size_t core_index, core_sharers; /* index among, and number of, ranks with the same cores */
    char (*hosts)[KVSI_HOST_SIZE];   /* [size]; NULL = alone */
    int *cores;                      /* [size] cores per rank */
    double timeout;                  /* seconds that a wait may take; 0 = no limit */
    int all_know;                    /* the last failure was reported to all ranks */
    void *module;                    /* the shared object that `ops` are from; NULL = none */
};

/* A process that is alone.  Static. */
extern kvs_comm kvsi_comm_self;

/* Collective: exchanges hosts and cores.  Fills in the rest of a comm whose ops, self, rank and
 * size are set. */
kvs_status kvsi_comm_find_hosts(kvs_comm *comm, kvs_err *err);

/* KVS_E_IO after the comm's timeout: a rank may have died. */
kvs_status kvsi_comm_wait(const kvs_comm *comm, kvsi_transfer *t, kvs_err *err);

/* Blocking. */
kvs_status kvsi_comm_all_gather(const kvs_comm *comm, void *all, const void *own, size_t bytes,
                                kvs_err *err);
kvs_status kvsi_comm_broadcast(const kvs_comm *comm, void *data, size_t bytes, size_t root,
                               kvs_err *err);

/* Shards of `shard` bytes each; the last ones have what remains of `bytes`. */
kvs_status kvsi_comm_shards_init(kvsi_comm_shards *shards, const kvs_comm *comm, size_t bytes,
                                 size_t shard, kvs_err *err);
void kvsi_comm_shards_release(kvsi_comm_shards *shards);

/* ---- the MPI module ---- */

#define KVSI_COMM_MODULE "libkvshift_mpi.so"
#define KVSI_COMM_ENTRY "kvsi_comm_mpi_open"

/* Sets ops, self, rank and size. */
typedef kvs_status kvsi_comm_open_call(kvs_comm *comm, kvs_err *err);

#endif
