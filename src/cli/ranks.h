/* cli/ranks.h - commands that may run on several ranks. */
#ifndef KVSI_CLI_RANKS_H
#define KVSI_CLI_RANKS_H

#include "kvshift/kvshift.h"

typedef kvs_status kvsi_ranks_body(kvs_comm *comm, int argc, char **argv, kvs_err *err);

/* Opens the ranks, or the one process, and runs `body` on each.  A failure is printed in one line,
 * whether all ranks failed or one alone, which then ends the others.  Returns the exit code. */
int kvsi_cli_on_ranks(kvsi_ranks_body *body, int argc, char **argv);

#endif
