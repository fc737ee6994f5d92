/* cli/completion.h - scripts that complete commands, options and values in shells. */
#ifndef KVSI_CLI_COMPLETION_H
#define KVSI_CLI_COMPLETION_H

#include "cli/cli.h"

/* Each call appends the script of one shell; the list of commands ends with NULL. */
void kvsi_complete_bash(kvsi_text *text, const kvsi_command *const *commands);
void kvsi_complete_zsh(kvsi_text *text, const kvsi_command *const *commands);
void kvsi_complete_fish(kvsi_text *text, const kvsi_command *const *commands);

#endif
