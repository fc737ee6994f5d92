/* parallel/comm.h - processes that work together, each a rank, and what they tell each other.
 *
 * A transfer is started, goes on while its rank computes, and is waited for.  All ranks start the
 * same transfers in the same order, channel by channel; memory that takes part is left alone until
 * the end.  Nothing here adds numbers: what is to be added up is received from everyone and added
 * by the receiver, in an order of its choice, so that bits depend on no library.
 *
 * A process that is alone is rank 0 of 1, and everything is over when it has started. */
#ifndef KVSI_PARALLEL_COMM_H
#define KVSI_PARALLEL_COMM_H

#include "base/status.h"

/* Transfers of different channels do not wait for each other. */
typedef enum kvsi_channel {
    KVSI_CHANNEL_TALK,    /* gather, broadcast */
    KVSI_CHANNEL_SCATTER, /* scatter */
    KVSI_CHANNEL_COLLECT, /* collect */
    KVSI_CHANNELS,
} kvsi_channel;

/* One under way; nothing is when it is {0}. */
typedef struct kvsi_transfer {
    uintptr_t handle;
} kvsi_transfer;

/* How a run of bytes is cut into one piece a rank, the last ones shorter or empty, and how what all
 * ranks have of this rank's piece is laid out when it arrives: one behind the other. */
typedef struct kvsi_cut {
    int *sizes, *places;     /* [ranks] bytes */
    int *arrivals, *arrival; /* [ranks] bytes of this rank's piece each time, and where */
} kvsi_cut;

/* What brings bytes from rank to rank.  `self` is its own. */
typedef struct kvsi_comm_ops {
    /* all[ranks][bytes] = what each rank gives as own[bytes] */
    kvs_status (*gather)(void *self, kvsi_transfer *t, void *all, const void *own, size_t bytes,
                         kvs_err *err);
    /* data[bytes] of rank `root` */
    kvs_status (*broadcast)(void *self, kvsi_transfer *t, void *data, size_t bytes, size_t root,
                            kvs_err *err);
    /* arrived = this rank's piece of every rank's block, one behind the other */
    kvs_status (*scatter)(void *self, kvsi_transfer *t, void *arrived, const void *block,
                          const kvsi_cut *cut, kvs_err *err);
    /* block = every rank's piece in its place; own NULL = this rank's is there already */
    kvs_status (*collect)(void *self, kvsi_transfer *t, void *block, const void *own,
                          const kvsi_cut *cut, kvs_err *err);
    /* Moves all transfers on; *done says whether this one is over, and then it is {0}. */
    kvs_status (*test)(void *self, kvsi_transfer *t, int *done, kvs_err *err);
    void (*end_all)(void *self, int code); /* does not return where there are others */
    void (*close)(void *self);             /* all ranks together */
} kvsi_comm_ops;

enum { KVSI_HOST_SIZE = 64 };

struct kvs_comm {
    const kvsi_comm_ops *ops;
    void *self;
    size_t rank, size;
    size_t share, sharers;         /* its number among the ranks that may use the same cores */
    char (*hosts)[KVSI_HOST_SIZE]; /* [size]; NULL = alone */
    int *cores;                    /* [size] that each rank has for itself */
    double patience;               /* seconds that a wait may take; 0 = for ever */
    int all_know;                  /* the last failure is one that all ranks agreed on */
    void *module;                  /* the shared object that `ops` come from; NULL = none */
};

/* A process that is alone.  Lives for ever. */
extern kvs_comm kvsi_comm_self;

/* Asks who is on which host and which cores: the rest of a comm whose ops, self, rank and size are
 * set. */
kvs_status kvsi_comm_find_hosts(kvs_comm *comm, kvs_err *err);

/* KVS_E_IO if it takes longer than the comm's patience: a rank may be gone. */
kvs_status kvsi_comm_wait(const kvs_comm *comm, kvsi_transfer *t, kvs_err *err);

/* Started and waited for. */
kvs_status kvsi_comm_gather(const kvs_comm *comm, void *all, const void *own, size_t bytes,
                            kvs_err *err);
kvs_status kvsi_comm_broadcast(const kvs_comm *comm, void *data, size_t bytes, size_t root,
                               kvs_err *err);

/* Pieces of `piece` bytes each, the last ones what is left of `bytes`. */
kvs_status kvsi_cut_init(kvsi_cut *cut, const kvs_comm *comm, size_t bytes, size_t piece,
                         kvs_err *err);
void kvsi_cut_release(kvsi_cut *cut);

/* ---- the module that knows MPI ---- */

#define KVSI_COMM_MODULE "libkvshift_mpi.so"
#define KVSI_COMM_ENTRY "kvsi_comm_mpi_open"

/* Fills in ops, self, rank and size. */
typedef kvs_status kvsi_comm_open_call(kvs_comm *comm, kvs_err *err);

#endif
