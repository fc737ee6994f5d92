/* The program: finds the command and runs it. */
#include "base/memory.h"
#include "cli/cli.h"
#include "cli/signals.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- help ------------------------------------------------------------------------------------ */

static void print_overview(FILE *stream)
{
    fputs("usage: kvshift COMMAND [OPTION]...\n"
          "\n"
          "Language models with KV shifting attention: each key and each value is mixed with that\n"
          "of the previous token, by a few learned coefficients per head.\n"
          "\n"
          "Commands:\n",
          stream);
    for (const kvsi_command *const *c = kvsi_cli_commands; *c; c++)
        fprintf(stream, "  %-10s%s\n", (*c)->name, (*c)->summary);
    fputs("\n"
          "'kvshift COMMAND --help' shows examples and the usual options of a command, and\n"
          "'kvshift COMMAND --help all' shows all options.  An environment variable can set an\n"
          "option, such as KVSHIFT_THREADS for --threads.  Some commands also read options from a\n"
          "file, --config FILE.\n"
          "Exit codes: 0 success, 1 failure, 2 wrong usage.\n",
          stream);
}

static int is_help(const char *word)
{
    return strcmp(word, "help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0;
}

/* Turns 'kvshift help data build all' into 'kvshift data build --help all' and runs that.  The verb
 * and "all" may be left out. */
static int help(int argc, char **argv)
{
    char option[] = "--help", all[] = "all";
    char *line[] = {argv[0], NULL, NULL, NULL, NULL, NULL};
    const kvsi_command *found;
    int words = 1, wants_all;
    kvs_err err;

    if (argc < 3 || is_help(argv[2])) {
        print_overview(stdout);
        return KVSI_EXIT_DONE;
    }
    wants_all = argc > 3 && strcmp(argv[argc - 1], all) == 0;
    argc -= wants_all;
    found = kvsi_cli_find(kvsi_cli_commands, argv[2]);
    if (!found) {
        kvsi_cli_unknown("command", argv[2], &err);
        return kvsi_cli_fail(&err);
    }
    if (argc > (found->verbs ? 4 : 3)) {
        kvsi_fail(&err, KVS_E_INVALID, "unexpected argument '%s'; see 'kvshift help'",
                  argv[found->verbs ? 4 : 3]);
        return kvsi_cli_fail(&err);
    }
    for (int i = 2; i < argc; i++)
        line[words++] = argv[i];
    line[words++] = option;
    if (wants_all)
        line[words++] = all;
    return kvsi_cli_run(found, words, line);
}

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
    found = strcmp(argv[1], "--version") == 0 ? &kvsi_cmd_version
                                              : kvsi_cli_find(kvsi_cli_commands, argv[1]);
    if (found)
        return kvsi_cli_run(found, argc, argv);
    kvsi_cli_unknown(argv[1][0] == '-' ? "option" : "command", argv[1], &err);
    return kvsi_cli_fail(&err);
}

/* Whether this program is executed by the processor itself.  valgrind and qemu-user make
 * /proc/self/exe look like a link to the program they run, but the kernel's link leads to valgrind
 * or qemu. */
static int runs_natively(void)
{
    char path[PATH_MAX];
    struct stat program, running;
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);

    if (length <= 0)
        return 0;
    path[length] = '\0';
    return stat(path, &program) == 0 && stat("/proc/self/exe", &running) == 0 &&
           program.st_dev == running.st_dev && program.st_ino == running.st_ino;
}

/* GNU OpenMP lets a waiting thread spin for milliseconds by default.  If other programs use the
 * cores too, a run then takes up to ten times as long; a short spin is as fast on an idle machine.
 * The library reads GOMP_SPINCOUNT when it is loaded, before main() runs, so the program sets the
 * variable and executes itself again.  If it cannot, it continues without the variable. */
static void limit_spinning(char **argv)
{
    if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT") || !runs_natively())
        return;
    if (setenv("GOMP_SPINCOUNT", "1000", 0) == 0)
        execv("/proc/self/exe", argv);
}

int main(int argc, char **argv)
{
    int code;

    limit_spinning(argv);
    kvsi_catch_lost_pages();
    code = dispatch(argc, argv);
    if (code == KVSI_EXIT_DONE && kvsi_nomem_is_set()) {
        fputs("kvshift: out of memory; the result may be incomplete\n", stderr);
        code = KVSI_EXIT_FAILED;
    }
    if (fflush(stdout) != 0 || ferror(stdout)) {
        if (kvsi_stop_signal() == SIGPIPE) /* as a program that does not catch the signal */
            return 128 + SIGPIPE;
        fputs("kvshift: cannot write standard output\n", stderr);
        return code == KVSI_EXIT_DONE ? KVSI_EXIT_FAILED : code;
    }
    return code;
}
