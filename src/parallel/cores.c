#include "parallel/cores.h"

#include "base/checksum.h"
#include "parallel/threads.h"

#include <sched.h>

uint64_t kvsi_cores_mark(void)
{
    cpu_set_t cores;

    if (sched_getaffinity(0, sizeof cores, &cores) != 0)
        return 0;
    return kvsi_checksum(&cores, sizeof cores);
}

int kvsi_cores_share(const kvs_comm *comm)
{
    const int cores = kvsi_threads_available(), share = cores / (int)comm->sharers;

    return share > 0 ? share : 1;
}

void kvsi_cores_pin(const kvs_comm *comm, int threads)
{
    const int share = kvsi_cores_share(comm), first = (int)comm->share * share;
    cpu_set_t all, own;
    int seen = 0;

    if (comm->sharers == 1 || threads > share || sched_getaffinity(0, sizeof all, &all) != 0 ||
        CPU_COUNT(&all) < share * (int)comm->sharers)
        return;
    CPU_ZERO(&own);
    for (size_t core = 0; core < CPU_SETSIZE; core++)
        if (CPU_ISSET(core, &all)) {
            if (seen >= first && seen < first + share)
                CPU_SET(core, &own);
            seen++;
        }
    sched_setaffinity(0, sizeof own, &own); /* where that is forbidden, we go on as we are */
}
