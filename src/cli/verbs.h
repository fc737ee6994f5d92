/* cli/verbs.h - commands that have commands of their own: kvshift data build. */
#ifndef KVSI_CLI_VERBS_H
#define KVSI_CLI_VERBS_H

#include <stddef.h>

typedef struct kvsi_verb {
    const char *name, *summary;
    /* Gets the words after the verb, and `what`, which says which verb of a file it is. */
    int (*run)(int argc, char **argv, const void *what);
    const void *what;
} kvsi_verb;

typedef struct kvsi_verb_list {
    const char *name;    /* "data" */
    const char *usage;   /* "build|info|check [OPTION]... ARGUMENT..." */
    const char *purpose; /* a sentence */
    const kvsi_verb *verbs;
    size_t count;
} kvsi_verb_list;

/* Runs the verb at argv[2], or shows the list; returns the exit code. */
int kvsi_cli_run_verb(const kvsi_verb_list *list, int argc, char **argv);

#endif
