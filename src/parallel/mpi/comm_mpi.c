/* MPI ranks.  The only file that uses MPI, built as a separate module; see comm_open.c.
 *
 * Every channel has its own communicator: MPI requires that all ranks start the collectives of one
 * communicator in the same order, and channels are independent of each other. */
#include "parallel/comm.h"

#include <mpi.h>
#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(MPI_Request) <= sizeof(uintptr_t), "a transfer's handle holds a request");

#define EXPORT __attribute__((visibility("default")))

EXPORT kvsi_comm_open_call kvsi_comm_mpi_open;

static MPI_Comm channels[KVSI_CHANNELS];

static kvs_status fail(int code, const char *what, kvs_err *err)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;

    MPI_Error_string(code, text, &length);
    return kvsi_fail(err, KVS_E_IO, "MPI cannot %s: %.300s", what, text);
}

static kvs_status keep(kvsi_transfer *t, MPI_Request request, int code, const char *what,
                       kvs_err *err)
{
    if (code != MPI_SUCCESS)
        return fail(code, what, err);
    t->handle = 0;
    memcpy(&t->handle, &request, sizeof request);
    return KVS_OK;
}

static kvs_status all_gather(void *self, kvsi_transfer *t, void *all, const void *own, size_t bytes,
                             kvs_err *err)
{
    MPI_Request request = MPI_REQUEST_NULL;
    const int code = MPI_Iallgather(own, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE,
                                    channels[KVSI_CHANNEL_CONTROL], &request);

    (void)self;
    return keep(t, request, code, "run an all-gather", err);
}

static kvs_status broadcast(void *self, kvsi_transfer *t, void *data, size_t bytes, size_t root,
                            kvs_err *err)
{
    MPI_Request request = MPI_REQUEST_NULL;
    const int code =
        MPI_Ibcast(data, (int)bytes, MPI_BYTE, (int)root, channels[KVSI_CHANNEL_CONTROL], &request);

    (void)self;
    return keep(t, request, code, "broadcast", err);
}

static kvs_status all_to_all(void *self, kvsi_transfer *t, void *received, const void *data,
                             const kvsi_comm_shards *shards, kvs_err *err)
{
    MPI_Request request = MPI_REQUEST_NULL;
    const int code = MPI_Ialltoallv(data, shards->counts, shards->offsets, MPI_BYTE, received,
                                    shards->recv_counts, shards->recv_offsets, MPI_BYTE,
                                    channels[KVSI_CHANNEL_ALL_TO_ALL], &request);

    (void)self;
    return keep(t, request, code, "run an all-to-all", err);
}

static kvs_status all_gather_shards(void *self, kvsi_transfer *t, void *data, const void *own,
                                    const kvsi_comm_shards *shards, kvs_err *err)
{
    MPI_Request request = MPI_REQUEST_NULL;
    const int code = MPI_Iallgatherv(own ? own : MPI_IN_PLACE, shards->recv_counts[0], MPI_BYTE,
                                     data, shards->counts, shards->offsets, MPI_BYTE,
                                     channels[KVSI_CHANNEL_ALL_GATHER], &request);

    (void)self;
    return keep(t, request, code, "run an all-gather", err);
}

static kvs_status test(void *self, kvsi_transfer *t, int *done, kvs_err *err)
{
    MPI_Request request;
    int code;

    (void)self;
    *done = t->handle == 0;
    if (*done)
        return KVS_OK;
    memcpy(&request, &t->handle, sizeof request);
    code = MPI_Test(&request, done, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS)
        return fail(code, "finish a transfer", err);
    if (*done)
        t->handle = 0;
    return KVS_OK;
}

static void abort_all(void *self, int code)
{
    (void)self;
    MPI_Abort(MPI_COMM_WORLD, code);
}

static void close_comm(void *self)
{
    (void)self;
    for (int i = 0; i < KVSI_CHANNELS; i++)
        MPI_Comm_free(&channels[i]);
    MPI_Finalize();
}

static const kvsi_comm_ops ops = {all_gather, broadcast, all_to_all, all_gather_shards,
                                  test,       abort_all, close_comm};

kvs_status kvsi_comm_mpi_open(kvs_comm *comm, kvs_err *err)
{
    int rank, size, provided, started = 0;
    int code;

    MPI_Initialized(&started);
    if (started)
        return kvsi_fail(err, KVS_E_INVALID, "a process can open its ranks only once");
    code = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
    if (code != MPI_SUCCESS)
        return fail(code, "start", err);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int i = 0; i < KVSI_CHANNELS; i++) {
        code = MPI_Comm_dup(MPI_COMM_WORLD, &channels[i]);
        if (code != MPI_SUCCESS)
            return fail(code, "open a channel", err);
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    comm->ops = &ops;
    comm->rank = (size_t)rank;
    comm->size = (size_t)size;
    return KVS_OK;
}
