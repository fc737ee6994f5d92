/* kvshift eval compare, show and table: reports on stored results. */
#include "cli/eval.h"
#include "kvshift/kvshift_lab.h"

#include <stdio.h>
#include <string.h>

typedef struct settings {
    kvs_eval_report_options how;
    kvs_eval_report_files files;
    int json;
} settings;

#define HOW(name) offsetof(settings, how.name)
#define FILES(name) offsetof(settings, files.name)

#define RESULTS_NOTE                                                                               \
    "RESULTS is a folder that 'kvshift eval --out' or lm-evaluation-harness (--output_path with "  \
    "\n--log_samples) wrote, or one results_DATE.json in it.  In a folder each task is taken "     \
    "from "                                                                                        \
    "the\nnewest results that have it.  The samples must be beside the results."

/* clang-format off */
#define FILE_ROWS                                                                                  \
    {.name = "title", .kind = KVSI_SETTING_TEXT, .offset = FILES(title), .group = "Output",        \
     .placeholder = "TEXT", .help = "heading of the page"},                                        \
    {.name = "html", .kind = KVSI_SETTING_TEXT, .offset = FILES(html), .group = "Output",          \
     .placeholder = "FILE", .help = "write a page with tables and pictures; needs gnuplot"},       \
    {.name = "svg", .kind = KVSI_SETTING_TEXT, .offset = FILES(svg), .group = "Output",            \
     .placeholder = "FILE", .help = "write the first picture; needs gnuplot"},                     \
    {.name = "markdown", .kind = KVSI_SETTING_TEXT, .offset = FILES(markdown), .group = "Output",  \
     .placeholder = "FILE", .help = "write the texts and tables as Markdown"},                     \
    {.name = "csv", .kind = KVSI_SETTING_TEXT, .offset = FILES(csv), .group = "Output",            \
     .placeholder = "FILE", .help = "write the first table"},                                      \
    {.name = "json", .kind = KVSI_SETTING_FLAG, .offset = offsetof(settings, json),                \
     .group = "Output", .help = "print all values as one JSON object instead of tables"}

#define DETAILS_ROW(what)                                                                          \
    {.name = "details", .kind = KVSI_SETTING_FLAG, .offset = HOW(details), .group = "Measure",     \
     .help = what}

static const kvsi_setting compare_rows[] = {
    {.name = "same-prompts", .kind = KVSI_SETTING_FLAG, .offset = HOW(same_prompts),
     .group = "Measure", .help = "leave out documents whose prompts differ between the models, for "
     "example in the number of shots"},
    DETAILS_ROW("also compare the subjects of groups"),
    {.name = "resamples", .kind = KVSI_SETTING_SIZE, .offset = HOW(resamples), .group = "Measure",
     .placeholder = "N", .value = "10000", .low = 2, .high = 10000000,
     .help = "draws of each bootstrap"},
    {.name = "seed", .kind = KVSI_SETTING_UINT64, .offset = HOW(seed), .group = "Measure",
     .placeholder = "N", .value = "1", .help = "seed of the draws"},
    FILE_ROWS,
};

static const kvsi_setting show_rows[] = {
    DETAILS_ROW("also show the subjects of groups and the tables of calibration"),
    FILE_ROWS,
};

static const char *const tables[] = {"paper", "mmlu", NULL};

static const kvsi_setting table_rows[] = {
    {.name = "table", .kind = KVSI_SETTING_CHOICE, .offset = HOW(table), .group = "Measure",
     .placeholder = "NAME", .choices = tables, .value = "paper",
     .help = "columns: the paper's eight benchmarks and their mean, or the three forms of MMLU"},
    FILE_ROWS,
};
/* clang-format on */

static const kvsi_command_options compare_options = {
    .command = "kvshift eval compare",
    .purpose = "Compares models with the first one on the same documents: McNemar's exact test of "
               "accuracies, a paired bootstrap of likelihoods, intervals, and Holm's correction "
               "over tasks.",
    .notes = RESULTS_NOTE,
    .argument = "RESULTS",
    .min_arguments = 2,
    .max_arguments = 64,
    .tables = KVSI_OPTIONS(compare_rows),
};

static const kvsi_command_options show_options = {
    .command = "kvshift eval show",
    .purpose = "Shows stored results and what follows from their samples: likelihood of the right "
               "answer, margin, calibration, accuracy by length of the prompt and by number of "
               "shots, and LAMBADA's words that occur in the context apart from new ones.",
    .notes = RESULTS_NOTE,
    .argument = "RESULTS",
    .min_arguments = 1,
    .max_arguments = 64,
    .tables = KVSI_OPTIONS(show_rows),
};

static const kvsi_command_options table_options = {
    .command = "kvshift eval table",
    .purpose = "Prints one table of several models: a row per model, a column per benchmark, and "
               "their plain mean.  The best value of a column is bold, with a star on a terminal, "
               "only if the paired test tells it from each of the others.",
    .notes = RESULTS_NOTE,
    .argument = "RESULTS",
    .min_arguments = 1,
    .max_arguments = 64,
    .tables = KVSI_OPTIONS(table_rows),
};

typedef kvs_status create(kvs_eval_report **out, const char *const *paths, size_t count,
                          const kvs_eval_report_options *options, kvs_err *err);

static kvs_status run(create *create_report, const settings *s, const kvsi_call *call, kvs_err *err)
{
    kvs_eval_report_options how = s->how;
    kvs_eval_report *report = NULL;
    kvs_status st;

    how.resamples = how.resamples > 0 ? how.resamples : 10000; /* 'show' has no such option */
    TRY_OUT(create_report(&report, (const char *const *)call->parsed->arguments,
                          call->parsed->argument_count, &how, err));
    if (s->json)
        puts(kvs_eval_report_json(report));
    else
        fputs(kvs_eval_report_text(report), stdout);
    TRY_OUT(kvs_eval_report_write(report, &s->files, err));
out:
    kvs_eval_report_free(report);
    return st;
}

static kvs_status run_compare(void *data, const kvsi_call *call, kvs_err *err)
{
    return run(kvs_eval_compare, data, call, err);
}

static kvs_status run_show(void *data, const kvsi_call *call, kvs_err *err)
{
    return run(kvs_eval_show, data, call, err);
}

static kvs_status run_table(void *data, const kvsi_call *call, kvs_err *err)
{
    return run(kvs_eval_table, data, call, err);
}

const kvsi_command kvsi_eval_compare = {
    .name = "compare",
    .summary = "models on the same documents, with paired tests",
    .options = &compare_options,
    .settings_size = sizeof(settings),
    .run = run_compare,
};

const kvsi_command kvsi_eval_show = {
    .name = "show",
    .summary = "stored results, with calibration and other measures",
    .options = &show_options,
    .settings_size = sizeof(settings),
    .run = run_show,
};

const kvsi_command kvsi_eval_table = {
    .name = "table",
    .summary = "one table of several models",
    .options = &table_options,
    .settings_size = sizeof(settings),
    .run = run_table,
};
