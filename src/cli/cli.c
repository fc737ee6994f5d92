#include "cli/cli.h"

#include "base/memory.h"
#include "cli/options/options_config.h"
#include "cli/signals.h"
#include "kvshift/kvshift_mpi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* ---- exit codes ------------------------------------------------------------------------------ */

static int exit_code(const kvs_err *err)
{
    return err->status == KVS_E_INVALID || err->status == KVS_E_EXISTS ? KVSI_EXIT_MISUSE
                                                                       : KVSI_EXIT_FAILED;
}

int kvsi_cli_fail(const kvs_err *err)
{
    /* Every command whose output can already exist has the option. */
    const char *hint = err->status == KVS_E_EXISTS ? "; --overwrite replaces it" : "";

    fprintf(stderr, "kvshift: %s%s\n", err->message, hint);
    return exit_code(err);
}

/* An error that all ranks have is printed once, by rank 0.  A rank that fails alone prints its
 * error and ends the others, which would wait for it. */
static int fail_on_ranks(kvs_comm *comm, const kvs_err *err)
{
    const size_t rank = kvs_comm_rank(comm);
    kvs_err named;

    if (kvs_comm_size(comm) == 1 || kvs_comm_all_know(comm))
        return rank == 0 ? kvsi_cli_fail(err) : exit_code(err);
    kvsi_fail(&named, err->status, "rank %zu: %.480s", rank, err->message);
    kvs_comm_abort(comm, kvsi_cli_fail(&named));
    return KVSI_EXIT_FAILED;
}

/* ---- the runner ------------------------------------------------------------------------------ */

kvs_status kvsi_cli_set_defaults(const kvsi_command *command, void *settings, kvs_err *err)
{
    TRY(kvsi_options_set_defaults(command->options, settings, command->settings_size, err));
    if (command->set_defaults)
        command->set_defaults(settings);
    return KVS_OK;
}

static kvs_status parse(const kvsi_command *command, void *settings, kvsi_parsed_options *parsed,
                        int argc, char **argv, kvs_err *err)
{
    if (!command->apply)
        return kvsi_options_parse(parsed, command->options, settings, argc, argv, err);
    TRY(kvsi_options_collect(parsed, command->options, argc, argv, err));
    return parsed->help ? KVS_OK : command->apply(settings, parsed, err);
}

/* The width of the terminal, within limits that keep the help readable; a fixed one elsewhere. */
size_t kvsi_help_width(void)
{
    enum { NARROWEST = 50, USUAL = 90, WIDEST = 100 };
    struct winsize window;

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) != 0 || window.ws_col == 0)
        return USUAL;
    return window.ws_col < NARROWEST ? NARROWEST : window.ws_col > WIDEST ? WIDEST : window.ws_col;
}

static kvs_status print_help(const kvsi_command *command, const void *settings, kvsi_help kind,
                             const char *argument, kvs_err *err)
{
    kvsi_text text = {0};
    kvs_status st;

    kvsi_options_help(&text, command->options, settings, kind, kvsi_help_width());
    if (command->add_help)
        command->add_help(&text, argument);
    TRY_OUT(kvsi_text_check(&text, err));
    fputs(text.data, stdout);
out:
    kvsi_text_release(&text);
    return st;
}

kvs_status kvsi_cli_print_config(const kvsi_command_options *options, const void *settings,
                                 const kvsi_parsed_options *parsed, kvs_err *err)
{
    kvsi_text text = {0};
    kvs_status st;

    if (strcmp(parsed->print_config, "schema") == 0)
        return kvsi_cli_print_json(kvsi_options_schema(options, settings), err);
    if (strcmp(parsed->print_config, "explained") == 0)
        kvsi_options_explain_config(&text, options, settings, parsed);
    else
        kvsi_options_print_config(&text, options, settings, parsed);
    TRY_OUT(kvsi_text_check(&text, err));
    fputs(text.data, stdout);
out:
    kvsi_text_release(&text);
    return st;
}

/* The first word that is no option; NULL = none. */
static const char *first_argument(int argc, char **argv, int first)
{
    for (int i = first; i < argc; i++)
        if (argv[i][0] != '-')
            return argv[i];
    return NULL;
}

/* Runs a command with the words from argv[first] on. */
static kvs_status run_words(const kvsi_command *command, kvs_comm *comm, int argc, char **argv,
                            int first, kvs_err *err)
{
    const int is_first_rank = !comm || kvs_comm_rank(comm) == 0;
    void *settings = kvsi_alloc(1, command->settings_size + 1); /* which may be 0 */
    kvsi_parsed_options parsed = {0};
    kvsi_text line = {0};
    kvs_status st = KVS_OK;

    for (int i = 0; i < argc; i++) { /* parsing moves words */
        kvsi_text_add(&line, i > 0 ? " " : "");
        kvsi_text_add_shell_word(&line, argv[i]);
    }
    if (!settings) {
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for the options");
        goto out;
    }
    TRY_OUT(kvsi_text_check(&line, err));
    TRY_OUT(kvsi_cli_set_defaults(command, settings, err));
    st = parse(command, settings, &parsed, argc - first, argv + first, err);
    if (comm)
        st = kvs_comm_agree(comm, st, err);
    if (st != KVS_OK)
        goto out;
    if (parsed.help)
        st = is_first_rank ? print_help(command, settings, parsed.help,
                                        first_argument(argc, argv, first), err)
                           : KVS_OK;
    else if (parsed.print_config)
        st = is_first_rank ? kvsi_cli_print_config(command->options, settings, &parsed, err)
                           : KVS_OK;
    else if (!getenv("KVSHIFT_PARSE_ONLY")) /* see CONTRIBUTING.md */
        st = command->run(settings, &(kvsi_call){&parsed, comm, line.data}, err);
out:
    kvsi_options_release(&parsed);
    kvsi_text_release(&line);
    if (settings)
        kvsi_options_free_configs(command->options, settings);
    kvsi_free(settings);
    return st;
}

static int run_command(const kvsi_command *command, int argc, char **argv, int first)
{
    kvs_err err = {.status = KVS_OK};
    kvs_comm *comm = NULL;
    int code = KVSI_EXIT_DONE;
    kvs_status st;

    if (command->on_ranks && kvs_comm_open(&comm, &err) != KVS_OK)
        return kvs_comm_launched_rank() == 0 ? kvsi_cli_fail(&err) : exit_code(&err);
    st = run_words(command, comm, argc, argv, first, &err);
    if (st != KVS_OK)
        code = comm ? fail_on_ranks(comm, &err) : kvsi_cli_fail(&err);
    kvs_comm_close(comm);
    if (kvsi_stop_signal() && !command->stop_is_failure && (st == KVS_OK || st == KVS_E_STOPPED))
        return 128 + kvsi_stop_signal();
    return code;
}

/* ---- verbs ----------------------------------------------------------------------------------- */

const kvsi_command *kvsi_cli_find(const kvsi_command *const *list, const char *name)
{
    for (; *list; list++)
        if (strcmp((*list)->name, name) == 0)
            return *list;
    return NULL;
}

static const char *name_at(const void *list, size_t index)
{
    const kvsi_command *const *commands = list;
    size_t count = 0;

    while (commands[count])
        count++;
    return index < count ? commands[index]->name : NULL;
}

const char *kvsi_cli_nearest(const kvsi_command *const *list, const char *name)
{
    return kvsi_nearest_name(name, name_at, list);
}

kvs_status kvsi_cli_unknown(const char *kind, const char *name, kvs_err *err)
{
    const char *nearest = kvsi_cli_nearest(kvsi_cli_commands, name);

    if (nearest)
        return kvsi_fail(err, KVS_E_INVALID, "unknown %s '%s'; did you mean '%s'?", kind, name,
                         nearest);
    return kvsi_fail(err, KVS_E_INVALID, "unknown %s '%s'; see 'kvshift help'", kind, name);
}

static void print_verbs(const kvsi_command *command, FILE *stream)
{
    fprintf(stream, "usage: kvshift %s %s\n\n%s\n\n", command->name, command->usage,
            command->purpose);
    for (const kvsi_command *const *verb = command->verbs; *verb; verb++)
        fprintf(stream, "  %-12s%s\n", (*verb)->name, (*verb)->summary);
    fprintf(stream, "\n'kvshift %s %s --help' shows the options.\n", command->name,
            name_at(command->verbs, 0));
}

static int fail_unknown(const kvsi_command *command, const char *name)
{
    const char *nearest = kvsi_cli_nearest(command->verbs, name);
    kvs_err err;

    if (nearest)
        kvsi_fail(&err, KVS_E_INVALID, "unknown command '%s %s'; did you mean '%s %s'?",
                  command->name, name, command->name, nearest);
    else
        kvsi_fail(&err, KVS_E_INVALID, "unknown command '%s %s'; see 'kvshift %s --help'",
                  command->name, name, command->name);
    return kvsi_cli_fail(&err);
}

int kvsi_cli_run(const kvsi_command *command, int argc, char **argv)
{
    const char *const word = argc > 2 ? argv[2] : "";
    const kvsi_command *verb;

    if (!command->verbs)
        return run_command(command, argc, argv, 2);
    verb = kvsi_cli_find(command->verbs, word);
    if (verb)
        return run_command(verb, argc, argv, 3);
    if (command->run)
        return run_command(command, argc, argv, 2);
    if (argc < 3) {
        print_verbs(command, stderr);
        return KVSI_EXIT_MISUSE;
    }
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        print_verbs(command, stdout);
        return KVSI_EXIT_DONE;
    }
    return fail_unknown(command, word);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static kvs_status print_json(json_t *value, size_t format, kvs_err *err)
{
    char *text;
    const kvs_status st =
        kvsi_json_dump(&text, value, format | JSON_REAL_PRECISION(15), "the result", err);

    if (st == KVS_OK)
        puts(text); /* main() checks whether it could be written */
    free(text);
    json_decref(value);
    return st;
}

kvs_status kvsi_cli_print_json(json_t *value, kvs_err *err)
{
    return print_json(value, JSON_INDENT(2), err);
}

kvs_status kvsi_cli_print_json_line(json_t *value, kvs_err *err)
{
    const kvs_status st = print_json(value, 0, err);

    if (st == KVS_OK && fflush(stdout) != 0)
        return kvsi_fail(err, KVS_E_IO, "cannot write standard output");
    return st;
}
