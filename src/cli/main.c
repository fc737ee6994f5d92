/* The program: finds the command and runs it. */
#include "base/memory.h"
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const kvsi_command config_command, help_command;

static const kvsi_command *const commands[] = {
    &kvsi_cmd_data,    &kvsi_cmd_tokenizer, &kvsi_cmd_train,
    &kvsi_cmd_plan,    &kvsi_cmd_generate,  &kvsi_cmd_score,
    &kvsi_cmd_ppl,     &kvsi_cmd_convert,   &kvsi_cmd_inspect,
    &kvsi_cmd_analyze, &kvsi_cmd_report,    &kvsi_cmd_theory,
    &kvsi_cmd_repro,   &kvsi_cmd_bench,     &config_command,
    &kvsi_cmd_version, &help_command,       NULL,
};

static kvs_status fail_unknown(const char *kind, const char *name, kvs_err *err)
{
    const char *nearest = kvsi_cli_nearest(commands, name);

    if (nearest)
        return kvsi_fail(err, KVS_E_INVALID, "unknown %s '%s'; did you mean '%s'?", kind, name,
                         nearest);
    return kvsi_fail(err, KVS_E_INVALID, "unknown %s '%s'; see 'kvshift help'", kind, name);
}

/* ---- help ------------------------------------------------------------------------------------ */

static void print_overview(FILE *stream)
{
    fputs("usage: kvshift COMMAND [OPTION]...\n"
          "\n"
          "Language models with KV shifting attention: each key and value is mixed with the ones\n"
          "of the tokens before it, by a few learned numbers per head.\n"
          "\n"
          "Commands:\n",
          stream);
    for (const kvsi_command *const *c = commands; *c; c++)
        fprintf(stream, "  %-10s%s\n", (*c)->name, (*c)->summary);
    fputs(
        "\n"
        "'kvshift COMMAND --help' shows the options of a command.  Every option can also be set\n"
        "by an environment variable: KVSHIFT_THREADS for --threads.  Some commands also read them\n"
        "from a file: --config FILE.\n"
        "Exit codes: 0 done, 1 failed, 2 misuse.\n",
        stream);
}

static int is_help(const char *word)
{
    return strcmp(word, "help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0;
}

/* 'kvshift help COMMAND' is 'kvshift COMMAND --help'. */
static int help(int argc, char **argv)
{
    char option[] = "--help";
    char *line[] = {argv[0], argc > 2 ? argv[2] : NULL, option, NULL};
    const kvsi_command *found;
    kvs_err err;

    if (argc > 3) {
        kvsi_fail(&err, KVS_E_INVALID, "unexpected argument '%s'; see 'kvshift help'", argv[3]);
        return kvsi_cli_fail(&err);
    }
    if (argc < 3 || is_help(argv[2])) {
        print_overview(stdout);
        return KVSI_EXIT_DONE;
    }
    found = kvsi_cli_find(commands, argv[2]);
    if (found)
        return kvsi_cli_run(found, 3, line);
    fail_unknown("command", argv[2], &err);
    return kvsi_cli_fail(&err);
}

static const kvsi_command help_command = {
    .name = "help", .summary = "show this overview, or the help of a command"};

/* ---- config ---------------------------------------------------------------------------------- */

static const kvsi_command_options schema_options = {
    .command = "kvshift config schema",
    .purpose =
        "Prints the JSON schema of the files that 'kvshift COMMAND --config' takes.  COMMAND "
        "is train if it is not given, and may have two words: data build.",
    .argument = "COMMAND",
    .max_arguments = 2,
};

static kvs_status print_schema(void *nothing, const kvsi_call *call, kvs_err *err)
{
    const kvsi_parsed_options *const parsed = call->parsed;
    const char *const name = parsed->argument_count > 0 ? parsed->arguments[0] : "train";
    const char *const verb = parsed->argument_count > 1 ? parsed->arguments[1] : "";
    const kvsi_command *found = kvsi_cli_find(commands, name);
    void *settings;
    kvs_status st;

    (void)nothing;
    if (!found)
        return fail_unknown("command", name, err);
    if (found->verbs && *verb)
        found = kvsi_cli_find(found->verbs, verb);
    if (!found || !found->options || !found->options->takes_config)
        return kvsi_fail(err, KVS_E_INVALID, "command '%s%s%s' does not read configuration files",
                         name, *verb ? " " : "", verb);
    settings = kvsi_alloc(1, found->settings_size);
    if (!settings)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for the options");
    st = kvsi_cli_set_defaults(found, settings, err);
    if (st == KVS_OK)
        st = kvsi_cli_print_config(found->options, settings,
                                   &(kvsi_parsed_options){.print_config = "schema"}, err);
    kvsi_options_free_configs(found->options, settings);
    kvsi_free(settings);
    return st;
}

static const kvsi_command schema_command = {
    .name = "schema",
    .summary = "print the JSON schema of a command's configuration file",
    .options = &schema_options,
    .run = print_schema,
};

static const kvsi_command config_command = {
    .name = "config",
    .summary = "print the JSON schema of a command's configuration file",
    .usage = "schema [COMMAND]",
    .purpose = "Describes configuration files for editors and programs.",
    .verbs = (const kvsi_command *const[]){&schema_command, NULL},
};

/* ---- all commands ---------------------------------------------------------------------------- */

static int dispatch(int argc, char **argv)
{
    const kvsi_command *found;
    kvs_err err;

    if (argc < 2) {
        print_overview(stderr);
        return KVSI_EXIT_MISUSE;
    }
    if (is_help(argv[1]))
        return help(argc, argv);
    found =
        strcmp(argv[1], "--version") == 0 ? &kvsi_cmd_version : kvsi_cli_find(commands, argv[1]);
    if (found)
        return kvsi_cli_run(found, argc, argv);
    fail_unknown(argv[1][0] == '-' ? "option" : "command", argv[1], &err);
    return kvsi_cli_fail(&err);
}

/* GNU OpenMP lets a waiting thread spin for milliseconds by default.  If other programs use the
 * cores too, a run then takes up to ten times as long; a short spin is as fast on an idle machine.
 * The library reads GOMP_SPINCOUNT when it is loaded, before main() runs, so the program sets the
 * variable and executes itself again.  If execv() fails, the program continues without it. */
static void limit_spinning(char **argv)
{
    if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT"))
        return;
    if (setenv("GOMP_SPINCOUNT", "1000", 0) == 0)
        execv("/proc/self/exe", argv);
}

int main(int argc, char **argv)
{
    int code;

    limit_spinning(argv);
    code = dispatch(argc, argv);
    if (code == KVSI_EXIT_DONE && kvsi_nomem_is_set()) {
        fputs("kvshift: out of memory; the result may be incomplete\n", stderr);
        code = KVSI_EXIT_FAILED;
    }
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fputs("kvshift: cannot write standard output\n", stderr);
        return code == KVSI_EXIT_DONE ? KVSI_EXIT_FAILED : code;
    }
    return code;
}
