/* kvshift report: compares runs. */
#include "base/array.h"
#include "base/files.h"
#include "base/folders.h"
#include "base/memory.h"
#include "cli/cli.h"
#include "kvshift/kvshift_lab.h"

#include <stdio.h>

static const kvsi_setting rows[] = {
    {.name = "title",
     .kind = KVSI_SETTING_TEXT,
     .offset = offsetof(kvs_report_options, title),
     .group = "Options",
     .placeholder = "TEXT",
     .help = "heading of the page",
     .automatic = "Training runs"},
    {.name = "html",
     .kind = KVSI_SETTING_TEXT,
     .offset = offsetof(kvs_report_options, html),
     .group = "Options",
     .placeholder = "FILE",
     .help = "write a page with curves, tables and commands; needs gnuplot"},
    {.name = "svg",
     .kind = KVSI_SETTING_TEXT,
     .offset = offsetof(kvs_report_options, svg),
     .group = "Options",
     .placeholder = "FILE",
     .help = "write only the curves; needs gnuplot"},
    {.name = "benchmarks-svg",
     .kind = KVSI_SETTING_TEXT,
     .offset = offsetof(kvs_report_options, benchmarks_svg),
     .group = "Options",
     .placeholder = "FILE",
     .help = "write only the curves of benchmarks during training; needs gnuplot"},
    {.name = "json",
     .kind = KVSI_SETTING_TEXT,
     .offset = offsetof(kvs_report_options, json),
     .group = "Options",
     .placeholder = "FILE",
     .help = "write all values as JSON"},
};

static const kvsi_command_options options = {
    .command = "kvshift report",
    .examples = "  kvshift report runs/*\n"
                "  kvshift report runs/* --html report.html\n",
    .purpose = "Prints tables of runs and writes their curves, a page or JSON.  RUN is a folder "
               "that 'kvshift train' has written, or one with such folders in it.",
    .notes = "Runs on text that differ in nothing but their seed form an arm: the report gives the "
             "mean of\ntheir validation losses with its standard error, and the difference between "
             "arms within each\nseed. Arms are compared with the first that has no shift, or else "
             "with the first. A run that\nhas not ended is shown as far as it is; the means leave "
             "it out once another run of its arm is\ncomplete.\n"
             "\n"
             "Runs on a task are shown one by one, with their accuracy.",
    .argument = "RUN",
    .min_arguments = 1,
    .max_arguments = SIZE_MAX,
    .tables = KVSI_OPTIONS(rows),
};

typedef struct kvsi_run_list {
    char **paths;
    size_t count, capacity;
} kvsi_run_list;

static int is_run(const char *dir)
{
    char *log = kvsi_path_join(dir, "train.jsonl");
    const int found = log && kvsi_file_exists(log);

    kvsi_free(log);
    return found;
}

static kvs_status add_run(kvsi_run_list *list, const char *dir, kvs_err *err)
{
    TRY(kvsi_array_reserve(&list->paths, &list->capacity, list->count + 1, sizeof *list->paths,
                           err));
    list->paths[list->count] = kvsi_strdup(dir);
    if (!list->paths[list->count])
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", dir);
    list->count++;
    return KVS_OK;
}

/* Adds a run, or the runs in a folder that is none itself.  A folder without any is added too: its
 * error names the file that is missing. */
static kvs_status add_runs(kvsi_run_list *list, const char *dir, kvs_err *err)
{
    const size_t before = list->count;
    kvsi_name_list names = {0};
    kvs_status st = KVS_OK;

    if (!is_run(dir) && kvsi_is_folder(dir))
        TRY_OUT(kvsi_dir_list(&names, dir, "", err));
    for (size_t i = 0; i < names.count; i++) {
        char *path = kvsi_path_join(dir, names.names[i]);

        st = !path          ? kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", dir)
             : is_run(path) ? add_run(list, path, err)
                            : KVS_OK;
        kvsi_free(path);
        if (st != KVS_OK)
            goto out;
    }
    if (list->count == before)
        st = add_run(list, dir, err);
out:
    kvsi_name_list_release(&names);
    return st;
}

static kvs_status run(void *settings, const kvsi_call *call, kvs_err *err)
{
    kvs_report *report = NULL;
    kvsi_run_list runs = {0};
    kvs_status st = KVS_OK;

    for (size_t i = 0; i < call->parsed->argument_count; i++)
        TRY_OUT(add_runs(&runs, call->parsed->arguments[i], err));
    TRY_OUT(kvs_report_create(&report, (const char *const *)runs.paths, runs.count, err));
    fputs(kvs_report_text(report), stdout);
    TRY_OUT(kvs_report_write(report, settings, err));
out:
    kvs_report_free(report);
    for (size_t i = 0; i < runs.count; i++)
        kvsi_free(runs.paths[i]);
    kvsi_free(runs.paths);
    return st;
}

const kvsi_command kvsi_cmd_report = {
    .name = "report",
    .summary = "compare runs: a table, curves, a web page",
    .options = &options,
    .settings_size = sizeof(kvs_report_options),
    .run = run,
};
