#include "parallel/comm.h"

#include "base/clock.h"
#include "base/math.h"
#include "base/memory.h"
#include "parallel/cores.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

size_t kvs_comm_rank(const kvs_comm *comm)
{
    return comm ? comm->rank : 0;
}

size_t kvs_comm_size(const kvs_comm *comm)
{
    return comm ? comm->size : 0;
}

const char *kvs_comm_host(const kvs_comm *comm, size_t rank)
{
    return comm && comm->hosts && rank < comm->size ? comm->hosts[rank] : NULL;
}

int kvs_comm_cores(const kvs_comm *comm, size_t rank)
{
    if (!comm || rank >= comm->size)
        return 0;
    return comm->cores ? comm->cores[rank] : kvsi_cores_per_rank(comm);
}

void kvs_comm_set_timeout(kvs_comm *comm, double seconds)
{
    if (comm)
        comm->timeout = seconds > 0 ? seconds : 0;
}

void kvs_comm_abort(kvs_comm *comm, int code)
{
    if (comm)
        comm->ops->abort_all(comm->self, code);
}

/* Where a rank runs. */
typedef struct location {
    char host[KVSI_HOST_SIZE];
    uint64_t cores;
} location;

kvs_status kvsi_comm_find_hosts(kvs_comm *comm, kvs_err *err)
{
    location own = {.cores = kvsi_cores_hash()};
    location *all = kvsi_alloc(comm->size, sizeof *all);
    int cores;
    kvs_status st;

    comm->core_index = comm->core_sharers = 0;
    comm->hosts = kvsi_alloc(comm->size, sizeof *comm->hosts);
    comm->cores = kvsi_alloc(comm->size, sizeof *comm->cores);
    if (!all || !comm->hosts || !comm->cores) {
        st = kvsi_no_memory(err, "%zu ranks", comm->size);
        goto out;
    }
    if (gethostname(own.host, sizeof own.host - 1) != 0)
        snprintf(own.host, sizeof own.host, "unknown");
    TRY_OUT(kvsi_comm_all_gather(comm, all, &own, sizeof own, err));
    for (size_t r = 0; r < comm->size; r++) {
        memcpy(comm->hosts[r], all[r].host, KVSI_HOST_SIZE);
        if (strcmp(all[r].host, own.host) == 0 && all[r].cores == own.cores) {
            comm->core_sharers++;
            comm->core_index += r < comm->rank;
        }
    }
    cores = kvsi_cores_per_rank(comm);
    TRY_OUT(kvsi_comm_all_gather(comm, comm->cores, &cores, sizeof cores, err));
out:
    kvsi_free(all);
    return st;
}

/* ---- waiting ---- */

/* Yields at first, so that a short wait stays short, and sleeps later: the rank that the others
 * wait for may need this core. */
static void back_off(size_t polls)
{
    enum { SPINS = 200 };
    const struct timespec nap = {.tv_nsec = 50000};

    if (polls < SPINS)
        sched_yield();
    else
        nanosleep(&nap, NULL);
}

kvs_status kvsi_comm_wait(const kvs_comm *comm, kvsi_transfer *t, kvs_err *err)
{
    const double started = kvsi_clock_seconds();
    int done = 0;

    for (size_t polls = 0; !done; polls++) {
        TRY(comm->ops->test(comm->self, t, &done, err));
        if (done)
            break;
        back_off(polls);
        if (comm->timeout > 0 && kvsi_clock_seconds() - started > comm->timeout)
            return kvsi_fail(err, KVS_E_IO,
                             "waited %.0f s for the other ranks; one of them may have died",
                             comm->timeout);
    }
    return KVS_OK;
}

kvs_status kvsi_comm_all_gather(const kvs_comm *comm, void *all, const void *own, size_t bytes,
                                kvs_err *err)
{
    kvsi_transfer t = {0};

    TRY(comm->ops->all_gather(comm->self, &t, all, own, bytes, err));
    return kvsi_comm_wait(comm, &t, err);
}

kvs_status kvsi_comm_broadcast(const kvs_comm *comm, void *data, size_t bytes, size_t root,
                               kvs_err *err)
{
    kvsi_transfer t = {0};

    TRY(comm->ops->broadcast(comm->self, &t, data, bytes, root, err));
    return kvsi_comm_wait(comm, &t, err);
}

/* ---- shards ---- */

kvs_status kvsi_comm_shards_init(kvsi_comm_shards *shards, const kvs_comm *comm, size_t bytes,
                                 size_t shard, kvs_err *err)
{
    const size_t ranks = comm->size;

    *shards = (kvsi_comm_shards){0};
    if (bytes > INT_MAX || shard * ranks > INT_MAX)
        return kvsi_fail(err, KVS_E_LIMIT, "%zu bytes are too many for one transfer", bytes);
    shards->counts = kvsi_alloc(4 * ranks, sizeof *shards->counts);
    if (!shards->counts)
        return kvsi_no_memory(err, "%zu ranks", ranks);
    shards->offsets = shards->counts + ranks;
    shards->recv_counts = shards->offsets + ranks;
    shards->recv_offsets = shards->recv_counts + ranks;
    for (size_t r = 0; r < ranks; r++) {
        const size_t offset = kvsi_min(r * shard, bytes);

        shards->offsets[r] = (int)offset;
        shards->counts[r] = (int)kvsi_min(bytes - offset, shard);
    }
    for (size_t r = 0; r < ranks; r++) {
        shards->recv_counts[r] = shards->counts[comm->rank];
        shards->recv_offsets[r] = (int)r * shards->counts[comm->rank];
    }
    return KVS_OK;
}

void kvsi_comm_shards_release(kvsi_comm_shards *shards)
{
    kvsi_free(shards->counts);
    *shards = (kvsi_comm_shards){0};
}

/* ---- failures ---- */

/* The status of one rank. */
typedef struct outcome {
    kvs_status status;
    char message[sizeof((kvs_err *)NULL)->message];
} outcome;

/* The first failure, with its rank unless all ranks failed alike. */
static kvs_status first_failure(const outcome *all, size_t ranks, kvs_err *err)
{
    size_t first = 0;
    int alike = 1;

    while (first < ranks && all[first].status == KVS_OK)
        first++;
    if (first == ranks)
        return KVS_OK;
    for (size_t r = 0; r < ranks; r++)
        alike &=
            all[r].status == all[first].status && strcmp(all[r].message, all[first].message) == 0;
    if (alike)
        return kvsi_fail(err, all[first].status, "%s", all[first].message);
    return kvsi_fail(err, all[first].status, "rank %zu: %.480s", first, all[first].message);
}

int kvs_comm_all_know(const kvs_comm *comm)
{
    return comm ? comm->all_know : 0;
}

kvs_status kvs_comm_agree(kvs_comm *comm, kvs_status status, kvs_err *err)
{
    outcome own = {.status = status}, *all;
    kvs_status st;

    NEED(comm);
    if (comm->size == 1)
        return status;
    if (status != KVS_OK)
        snprintf(own.message, sizeof own.message, "%s",
                 err ? err->message : kvs_status_text(status));
    all = kvsi_alloc(comm->size, sizeof *all);
    if (!all)
        return kvsi_no_memory(err, "%zu ranks", comm->size);
    TRY_OUT(kvsi_comm_all_gather(comm, all, &own, sizeof own, err));
    st = first_failure(all, comm->size, err);
    comm->all_know = st != KVS_OK;
out:
    kvsi_free(all);
    return st;
}
