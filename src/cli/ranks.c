#include "cli/ranks.h"

#include "cli/cli.h"

/* A failure that all ranks know is printed by rank 0; one of this rank alone ends all ranks. */
static int report(kvs_comm *comm, const kvs_err *err)
{
    const size_t rank = kvs_comm_rank(comm);
    const int known = kvs_comm_size(comm) == 1 || kvs_comm_all_know(comm);
    kvs_err numbered;

    if (known && rank > 0)
        return kvsi_cli_exit_code(err);
    if (known)
        return kvsi_cli_fail(err);
    kvsi_fail(&numbered, err->status, "rank %zu: %.480s", rank, err->message);
    kvs_comm_abort(comm, kvsi_cli_fail(&numbered));
    return KVSI_EXIT_FAILED;
}

int kvsi_cli_on_ranks(kvsi_ranks_body *body, int argc, char **argv)
{
    kvs_err err = {.status = KVS_OK};
    kvs_comm *comm = NULL;
    int code = KVSI_EXIT_DONE;

    if (kvs_comm_open(&comm, &err) != KVS_OK)
        return kvs_comm_launched_rank() == 0 ? kvsi_cli_fail(&err) : kvsi_cli_exit_code(&err);
    if (body(comm, argc, argv, &err) != KVS_OK)
        code = report(comm, &err);
    kvs_comm_close(comm);
    return code;
}
