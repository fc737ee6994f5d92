/* cli/ranks.h - commands that several ranks do together, one of which speaks. */
#ifndef KVSI_CLI_RANKS_H
#define KVSI_CLI_RANKS_H

#include "kvshift/kvshift.h"

typedef kvs_status kvsi_ranks_body(kvs_comm *comm, int argc, char **argv, kvs_err *err);

/* Finds the ranks, or that there is but one, and does `body` on each.  A failure is one line,
 * whether all ranks failed together or one alone, which then ends the others.  Returns the exit
 * code. */
int kvsi_cli_on_ranks(kvsi_ranks_body *body, int argc, char **argv);

#endif
