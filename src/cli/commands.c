/* The list of all commands. */
#include "cli/cli.h"

/* main() prints the help. */
static const kvsi_command help = {.name = "help",
                                  .summary = "show this overview, or the help of a command"};

const kvsi_command *const kvsi_cli_commands[] = {
    &kvsi_cmd_data,
    &kvsi_cmd_tokenizer,
    &kvsi_cmd_train,
    &kvsi_cmd_plan,
    &kvsi_cmd_generate,
    &kvsi_cmd_chat,
    &kvsi_cmd_serve,
    &kvsi_cmd_score,
    &kvsi_cmd_ppl,
    &kvsi_cmd_eval,
    &kvsi_cmd_convert,
    &kvsi_cmd_inspect,
    &kvsi_cmd_analyze,
    &kvsi_cmd_report,
    &kvsi_cmd_theory,
    &kvsi_cmd_repro,
    &kvsi_cmd_bench,
    &kvsi_cmd_config,
    &kvsi_cmd_version,
    &help,
    NULL,
};
