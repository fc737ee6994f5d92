/* cli/cli.h - commands, the runner that all of them go through, and what they share.
 *
 * A command is a table: its options, the size of its settings, and the function that does the work.
 * The runner parses the command line once, answers --help and --print-config, calls the function,
 * releases everything, prints the error, and returns the exit code.  Results go to standard output,
 * everything else to standard error. */
#ifndef KVSI_CLI_CLI_H
#define KVSI_CLI_CLI_H

#include "base/json.h"
#include "cli/options/options.h"

/* A command that was stopped by a signal returns 128 + signal, except `stop_is_failure`. */
enum { KVSI_EXIT_DONE = 0, KVSI_EXIT_FAILED = 1, KVSI_EXIT_MISUSE = 2 };

/* One run of a command. */
typedef struct kvsi_call {
    kvsi_parsed_options *parsed; /* positional arguments, sources of values */
    kvs_comm *comm;              /* NULL unless the command has `on_ranks` */
    const char *line;            /* the whole command line, quoted for a shell */
} kvsi_call;

typedef struct kvsi_command {
    const char *name, *summary;          /* for the list of commands */
    const kvsi_command_options *options; /* NULL = it only has verbs */
    size_t settings_size;                /* bytes of the struct that the options set */
    /* Sets defaults that come from the library, not from rows; NULL = none. */
    void (*set_defaults)(void *settings);
    /* Applies the options, for commands whose defaults depend on other options; NULL =
     * kvsi_options_apply. */
    kvs_status (*apply)(void *settings, kvsi_parsed_options *parsed, kvs_err *err);
    kvs_status (*run)(void *settings, const kvsi_call *call, kvs_err *err);
    /* Adds to the help what is special about the first argument, NULL = none was given. */
    void (*add_help)(kvsi_text *text, const char *argument);
    int stop_is_failure; /* a command that was stopped by a signal exits with 1 */
    int on_ranks; /* all ranks run it together; rank 0 prints help and errors that all ranks have */

    const struct kvsi_command *const *verbs; /* "build" of 'kvshift data build'; ends with NULL */
    const char *usage, *purpose;             /* of the list of verbs */
} kvsi_command;

extern const kvsi_command kvsi_cmd_data, kvsi_cmd_tokenizer, kvsi_cmd_train, kvsi_cmd_plan,
    kvsi_cmd_generate, kvsi_cmd_score, kvsi_cmd_ppl, kvsi_cmd_eval, kvsi_cmd_convert,
    kvsi_cmd_inspect, kvsi_cmd_analyze, kvsi_cmd_report, kvsi_cmd_theory, kvsi_cmd_repro,
    kvsi_cmd_bench, kvsi_cmd_config, kvsi_cmd_version, kvsi_cmd_chat, kvsi_cmd_serve;
extern const kvsi_command kvsi_config_presets;        /* a verb of config */
extern const kvsi_command *const kvsi_cli_commands[]; /* all, ended by NULL */

/* Runs the command argv[1], or its verb argv[2]; returns the exit code. */
int kvsi_cli_run(const kvsi_command *command, int argc, char **argv);
/* The command of that name; NULL if the list, which ends with NULL, has none. */
const kvsi_command *kvsi_cli_find(const kvsi_command *const *list, const char *name);
/* The name in the list that is nearest to a misspelt one; NULL = none is near. */
const char *kvsi_cli_nearest(const kvsi_command *const *list, const char *name);
/* Fails because there is no command of that name, and suggests the nearest one.  `kind` is what the
 * user typed: "command" or "option". */
kvs_status kvsi_cli_unknown(const char *kind, const char *name, kvs_err *err);
/* Sets the settings to the defaults of the command.  The caller releases them with
 * kvsi_options_free_configs, also after a failure. */
kvs_status kvsi_cli_set_defaults(const kvsi_command *command, void *settings, kvs_err *err);

/* Columns of a help text: the width of the terminal, within limits that keep it readable. */
size_t kvsi_help_width(void);
/* Prints the error as one line and returns its exit code. */
int kvsi_cli_fail(const kvs_err *err);
/* Prints the settings as a configuration file, or the schema of such files, depending on
 * parsed->print_config. */
kvs_status kvsi_cli_print_config(const kvsi_command_options *options, const void *settings,
                                 const kvsi_parsed_options *parsed, kvs_err *err);
/* The value of the key "blas", which readers of env.json and of benchmarks expect.  The library
 * computes matrix products itself. */
#define KVSI_CLI_BLAS "built in"
/* The output of 'kvshift version --json', a new reference. */
json_t *kvsi_cli_version_json(const kvs_runtime *rt);
/* Prints a JSON value and releases it; NULL means that memory ran out. */
kvs_status kvsi_cli_print_json(json_t *value, kvs_err *err);
/* The same on one line, and flushes standard output. */
kvs_status kvsi_cli_print_json_line(json_t *value, kvs_err *err);

#endif
