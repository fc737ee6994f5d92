#include "cli/verbs.h"

#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

static const char *verb_name_at(const void *list, size_t index)
{
    const kvsi_verb_list *l = list;

    return index < l->count ? l->verbs[index].name : NULL;
}

static void print_verbs(const kvsi_verb_list *list, FILE *stream)
{
    fprintf(stream, "usage: kvshift %s %s\n\n%s\n\n", list->name, list->usage, list->purpose);
    for (size_t i = 0; i < list->count; i++)
        fprintf(stream, "  %-10s%s\n", list->verbs[i].name, list->verbs[i].summary);
    fprintf(stream, "\n'kvshift %s %s --help' shows the options.\n", list->name,
            list->verbs[0].name);
}

static int fail_unknown(const kvsi_verb_list *list, const char *name)
{
    const char *nearest = kvsi_nearest_name(name, verb_name_at, list);
    kvs_err err;

    if (nearest)
        kvsi_fail(&err, KVS_E_INVALID, "unknown command '%s %s'; did you mean '%s %s'?", list->name,
                  name, list->name, nearest);
    else
        kvsi_fail(&err, KVS_E_INVALID, "unknown command '%s %s'; see 'kvshift %s --help'",
                  list->name, name, list->name);
    return kvsi_cli_fail(&err);
}

int kvsi_cli_run_verb(const kvsi_verb_list *list, int argc, char **argv)
{
    if (argc < 3) {
        print_verbs(list, stderr);
        return KVSI_EXIT_MISUSE;
    }
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(argv[2], list->verbs[i].name) == 0)
            return list->verbs[i].run(argc - 3, argv + 3, list->verbs[i].what);
    if (strcmp(argv[2], "--help") == 0 || strcmp(argv[2], "-h") == 0) {
        print_verbs(list, stdout);
        return KVSI_EXIT_DONE;
    }
    return fail_unknown(list, argv[2]);
}
