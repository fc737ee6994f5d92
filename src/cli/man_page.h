/* cli/man_page.h - man pages (roff), made from the tables of options. */
#ifndef KVSI_CLI_MAN_PAGE_H
#define KVSI_CLI_MAN_PAGE_H

#include "cli/cli.h"

/* Each call appends one page to the text. */

/* kvshift(1), which lists the commands; the list ends with NULL. */
void kvsi_man_overview(kvsi_text *text, const kvsi_command *const *commands);
/* The page of a command that only has verbs, such as kvshift-data(1). */
void kvsi_man_verbs(kvsi_text *text, const kvsi_command *command);
/* The page of a command with options, such as kvshift-train(1), with their defaults. */
kvs_status kvsi_man_command(kvsi_text *text, const kvsi_command *command, kvs_err *err);

#endif
