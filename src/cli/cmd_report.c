/* kvshift report: compares runs. */
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
    .purpose = "Prints tables of runs (folders written by 'kvshift train --out') and writes their "
               "curves, a page or JSON.",
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

static kvs_status run(void *settings, const kvsi_call *call, kvs_err *err)
{
    kvs_report *report = NULL;
    kvs_status st;

    TRY_OUT(kvs_report_create(&report, (const char *const *)call->parsed->arguments,
                              call->parsed->argument_count, err));
    fputs(kvs_report_text(report), stdout);
    TRY_OUT(kvs_report_write(report, settings, err));
out:
    kvs_report_free(report);
    return st;
}

const kvsi_command kvsi_cmd_report = {
    .name = "report",
    .summary = "compare runs: a table, curves, a web page",
    .options = &options,
    .settings_size = sizeof(kvs_report_options),
    .run = run,
};
