/* The command: finds out which verb is meant and hands over. */
#include "base/memory.h"
#include "cli/cli.h"
#include "cli/verbs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct command {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
} command;

static int help(int argc, char **argv);
static int config(int argc, char **argv);

static const command commands[] = {
    {"data", "make a corpus from text, say what is in it, check it", kvsi_cmd_data},
    {"tokenizer", "text to token ids and back; learn a tokenizer", kvsi_cmd_tokenizer},
    {"train", "train a model on a task or on text", kvsi_cmd_train},
    {"plan", "say what training takes on many machines", kvsi_cmd_plan},
    {"generate", "go on from a text with a trained model", kvsi_cmd_generate},
    {"score", "say how likely a continuation of a text is", kvsi_cmd_score},
    {"ppl", "measure how well a model predicts a text", kvsi_cmd_ppl},
    {"convert", "write a model in another format", kvsi_cmd_convert},
    {"inspect", "say what a model is, what it takes, and what its shift does", kvsi_cmd_inspect},
    {"analyze", "say what the heads of a model do, and what its shift has become",
     kvsi_cmd_analyze},
    {"report", "compare runs: a table, curves, a web page", kvsi_cmd_report},
    {"theory", "compute what the paper's theorems say", kvsi_cmd_theory},
    {"repro", "do the paper's experiments, and compare", kvsi_cmd_repro},
    {"bench", "measure the machine, training and attention", kvsi_cmd_bench},
    {"config", "print the JSON schema of a command's configuration file", config},
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
    fputs(
        "\n"
        "'kvshift COMMAND --help' shows the options of a command.  Every option can also be set\n"
        "by an environment variable: KVSHIFT_THREADS for --threads.  Some commands read them from\n"
        "a file, too: --config FILE.\n"
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

/* The schema of `train`, or of the command that the words after name: data build. */
static int print_schema(int argc, char **argv, const void *what)
{
    char program[] = "kvshift", train[] = "train", option[] = "--print-config=schema";
    char *name = argc > 0 ? argv[0] : train;
    char *line[] = {program, name, argc > 1 ? argv[1] : option, option, NULL};
    const command *found;

    (void)what;
    if (argc > 2) {
        kvs_err err;

        kvsi_fail(&err, KVS_E_INVALID,
                  "unexpected argument '%s'; see 'kvshift config schema --help'", argv[2]);
        return kvsi_cli_fail(&err);
    }
    if (is_help(name)) {
        fputs(
            "usage: kvshift config schema [COMMAND]\n\n"
            "Prints the JSON schema of the files that 'kvshift COMMAND --config' takes.  COMMAND\n"
            "is train if it is not given.\n",
            stdout);
        return KVSI_EXIT_DONE;
    }
    found = find_command(name);
    return found ? found->run(argc > 1 ? 4 : 3, line) : fail_unknown("command", name);
}

static int config(int argc, char **argv)
{
    static const kvsi_verb verbs[] = {
        {"schema", "print the JSON schema of a command's configuration file", print_schema, NULL}};
    static const kvsi_verb_list list = {
        .name = "config",
        .usage = "schema [COMMAND]",
        .purpose = "Tells editors and programs what configuration files may hold.",
        .verbs = verbs,
        .count = sizeof verbs / sizeof *verbs,
    };

    return kvsi_cli_run_verb(&list, argc, argv);
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
