/* cli/cli.h - what the commands share.
 *
 * A command gets the whole line (argv[0] is the program, argv[1] the command) and returns the exit
 * code.  Results go to standard output, everything else to standard error. */
#ifndef KVSI_CLI_CLI_H
#define KVSI_CLI_CLI_H

#include "base/json.h"
#include "base/options.h"

enum { KVSI_EXIT_DONE = 0, KVSI_EXIT_FAILED = 1, KVSI_EXIT_MISUSE = 2 };

int kvsi_cmd_data(int argc, char **argv);
int kvsi_cmd_tokenizer(int argc, char **argv);
int kvsi_cmd_convert(int argc, char **argv);
int kvsi_cmd_generate(int argc, char **argv);
int kvsi_cmd_score(int argc, char **argv);
int kvsi_cmd_ppl(int argc, char **argv);
int kvsi_cmd_train(int argc, char **argv);
int kvsi_cmd_plan(int argc, char **argv);
int kvsi_cmd_inspect(int argc, char **argv);
int kvsi_cmd_bench(int argc, char **argv);
int kvsi_cmd_analyze(int argc, char **argv);
int kvsi_cmd_report(int argc, char **argv);
int kvsi_cmd_theory(int argc, char **argv);
int kvsi_cmd_repro(int argc, char **argv);
int kvsi_cmd_version(int argc, char **argv);

int kvsi_cli_exit_code(const kvs_err *err);
/* Prints the error as one line and returns the exit code that fits it. */
int kvsi_cli_fail(const kvs_err *err);
/* The command line as a shell would take it. */
void kvsi_cli_quote_line(kvsi_text *text, int argc, char **argv);
/* Prints a command's help. */
kvs_status kvsi_cli_help(const kvsi_command_options *command, const void *settings, kvs_err *err);
/* Answers --print-config: prints the settings as a file, or the schema of such files. */
kvs_status kvsi_cli_print_config(const kvsi_command_options *command, const void *settings,
                                 const kvsi_parsed_options *parsed, kvs_err *err);
/* What 'kvshift version --json' prints, a new reference. */
json_t *kvsi_cli_version_json(const kvs_runtime *rt);
/* Prints one JSON value, whose reference it takes; NULL stands for memory that ran out. */
kvs_status kvsi_cli_print_json(json_t *value, kvs_err *err);
/* The same on one line, at once. */
kvs_status kvsi_cli_print_json_line(json_t *value, kvs_err *err);

#endif
