#include "cli/memory_check.h"

#include "base/machine.h"
#include "base/text.h"
#include "kvshift/kvshift_mpi.h"

#include <string.h>

/* The number of ranks on the host of this one. */
static size_t neighbours(const kvs_comm *comm)
{
    const char *own = comm ? kvs_comm_host(comm, kvs_comm_rank(comm)) : NULL;
    size_t count = 0;

    if (!own)
        return 1;
    for (size_t r = 0; r < kvs_comm_size(comm); r++)
        count += strcmp(kvs_comm_host(comm, r), own) == 0;
    return count;
}

kvs_status kvsi_check_memory(uint64_t needed, const kvs_comm *comm, const char *hint, kvs_err *err)
{
    const size_t sharers = neighbours(comm);
    const double free = kvsi_machine_free_memory("", sharers);
    char needs[32], has[32];

    if (!((double)needed > free)) /* NaN: the free memory is not known */
        return KVS_OK;
    kvsi_format_count(needs, sizeof needs, (double)needed);
    kvsi_format_count(has, sizeof has, free);
    return kvsi_fail(err, KVS_E_NOMEM, "needs %sB of memory%s, %sB are free; see %s", needs,
                     sharers > 1 ? " per rank" : "", has, hint);
}
