#include "parallel/cores.h"

#include "base/checksum.h"
#include "parallel/threads.h"

#include <sched.h>

uint64_t kvsi_cores_hash(void)
{
    cpu_set_t cores;

    if (sched_getaffinity(0, sizeof cores, &cores) != 0)
        return 0;
    return kvsi_checksum(&cores, sizeof cores);
}

int kvsi_cores_per_rank(const kvs_comm *comm)
{
    const int cores = kvsi_threads_available(), each = cores / (int)comm->core_sharers;

    return each > 0 ? each : 1;
}

void kvsi_cores_pin(const kvs_comm *comm, int threads)
{
    const int each = kvsi_cores_per_rank(comm), first = (int)comm->core_index * each;
    cpu_set_t all, own;
    int seen = 0;

    if (comm->core_sharers == 1 || threads > each || sched_getaffinity(0, sizeof all, &all) != 0 ||
        CPU_COUNT(&all) < each * (int)comm->core_sharers)
        return;
    CPU_ZERO(&own);
    for (size_t core = 0; core < CPU_SETSIZE; core++)
        if (CPU_ISSET(core, &all)) {
            if (seen >= first && seen < first + each)
                CPU_SET(core, &own);
            seen++;
        }
    sched_setaffinity(0, sizeof own, &own); /* may be forbidden; then not pinned */
}
