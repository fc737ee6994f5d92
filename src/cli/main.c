/* The command: finds out which verb is meant and hands over. */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct command {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
} command;

static int help(int argc, char **argv);

static const command commands[] = {
    {"data", "make a corpus from text, say what is in it, check it", kvsi_cmd_data},
    {"tokenizer", "text to token ids and back; learn a tokenizer", kvsi_cmd_tokenizer},
    {"train", "train a model on a task or on text", kvsi_cmd_train},
    {"generate", "go on from a text with a trained model", kvsi_cmd_generate},
    {"ppl", "measure how well a model predicts a text", kvsi_cmd_ppl},
    {"convert", "write a model in another format", kvsi_cmd_convert},
    {"inspect", "say what a model is, what it takes, and what its shift does", kvsi_cmd_inspect},
    {"report", "compare runs: a table, curves, a web page", kvsi_cmd_report},
    {"version", "say what this build is and what it can use", kvsi_cmd_version},
    {"help", "show this overview, or the help of a command", help},
};

enum { COMMANDS = sizeof commands / sizeof *commands };

static const command *find_command(const char *name)
{
    for (size_t i = 0; i < COMMANDS; i++) {
        if (strcmp(commands[i].name, name) == 0)
            return commands + i;
    }
    return NULL;
}

static const char *command_name_at(const void *names, size_t index)
{
    return index < COMMANDS ? ((const command *)names)[index].name : NULL;
}

static int fail_unknown(const char *kind, const char *name)
{
    const char *nearest = kvsi_nearest_name(name, command_name_at, commands);
    kvs_err err;

    if (nearest)
        kvsi_fail(&err, KVS_E_INVALID, "unknown %s '%s'; did you mean '%s'?", kind, name, nearest);
    else
        kvsi_fail(&err, KVS_E_INVALID, "unknown %s '%s'; see 'kvshift help'", kind, name);
    return kvsi_cli_fail(&err);
}

static void print_overview(FILE *stream)
{
    fputs("usage: kvshift COMMAND [OPTION]...\n"
          "\n"
          "Language models with KV shifting attention: each key and value is mixed with the ones\n"
          "of the tokens before it, by a few learned numbers per head.\n"
          "\n"
          "Commands:\n",
          stream);
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(stream, "  %-10s%s\n", commands[i].name, commands[i].summary);
    fputs("\n"
          "'kvshift COMMAND --help' shows the options of a command.  Every option can also be set\n"
          "by an environment variable: KVSHIFT_THREADS for --threads.\n"
          "Exit codes: 0 done, 1 failed, 2 misuse.\n",
          stream);
}

static int is_help(const char *word)
{
    return strcmp(word, "help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0;
}

static int help(int argc, char **argv)
{
    char wanted[] = "--help";
    char *line[] = {argv[0], argc > 2 ? argv[2] : NULL, wanted, NULL};
    const command *found;

    if (argc > 3) {
        kvs_err err;

        kvsi_fail(&err, KVS_E_INVALID, "unexpected argument '%s'; see 'kvshift help'", argv[3]);
        return kvsi_cli_fail(&err);
    }
    if (argc < 3 || is_help(argv[2])) {
        print_overview(stdout);
        return KVSI_EXIT_DONE;
    }
    found = find_command(argv[2]);
    return found ? found->run(3, line) : fail_unknown("command", argv[2]);
}

static int dispatch(int argc, char **argv)
{
    const command *found;

    if (argc < 2) {
        print_overview(stderr);
        return KVSI_EXIT_MISUSE;
    }
    if (is_help(argv[1]))
        return help(argc, argv);
    if (strcmp(argv[1], "--version") == 0)
        return kvsi_cmd_version(argc, argv);
    found = find_command(argv[1]);
    if (found)
        return found->run(argc, argv);
    return fail_unknown(argv[1][0] == '-' ? "option" : "command", argv[1]);
}

/* By default GNU's OpenMP lets a thread that waits spin for milliseconds, which on a machine with
 * other work costs up to ten times the run itself; a short spin measures as fast on an idle one.
 * It reads the setting when it is loaded, before main, hence the second start. */
static void calm_waiting_threads(char **argv)
{
    if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT"))
        return;
    if (setenv("GOMP_SPINCOUNT", "1000", 0) == 0)
        execv("/proc/self/exe", argv); /* where that fails, we go on as we are */
}

int main(int argc, char **argv)
{
    int code;

    calm_waiting_threads(argv);
    code = dispatch(argc, argv);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fputs("kvshift: cannot write standard output\n", stderr);
        return code == KVSI_EXIT_DONE ? KVSI_EXIT_FAILED : code;
    }
    return code;
}
