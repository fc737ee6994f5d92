/* kvshift report: finished runs side by side. */
#include "base/memory.h"
#include "cli/cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const kvsi_option options[] = {
    {.name = "title",
     .kind = KVSI_OPTION_TEXT,
     .offset = offsetof(kvs_report_options, title),
     .group = "Options",
     .placeholder = "TEXT",
     .help = "heading of the page",
     .automatic = "Training runs"},
    {.name = "html",
     .kind = KVSI_OPTION_TEXT,
     .offset = offsetof(kvs_report_options, html),
     .group = "Options",
     .placeholder = "FILE",
     .help = "write a page with curves, table and commands; needs gnuplot"},
    {.name = "svg",
     .kind = KVSI_OPTION_TEXT,
     .offset = offsetof(kvs_report_options, svg),
     .group = "Options",
     .placeholder = "FILE",
     .help = "write the curves alone; needs gnuplot"},
    {.name = "json",
     .kind = KVSI_OPTION_TEXT,
     .offset = offsetof(kvs_report_options, json),
     .group = "Options",
     .placeholder = "FILE",
     .help = "write the table as JSON"},
};

static const kvsi_command_options command = {
    .command = "kvshift report",
    .purpose = "Prints a table of finished runs (folders written by 'kvshift train --out') and "
               "writes their curves, a page or JSON on demand.",
    .argument = "RUN",
    .min_arguments = 1,
    .max_arguments = SIZE_MAX,
    .options = options,
    .count = sizeof options / sizeof *options,
};

/* ---- the table ------------------------------------------------------------------------------- */

enum { CELL = 160 };

typedef struct column {
    const char *heading;
    int left; /* aligned */
    void (*print)(char cell[CELL], const kvs_run_summary *run);
} column;

static void print_name(char cell[CELL], const kvs_run_summary *run)
{
    snprintf(cell, CELL, "%s", run->name);
}

static void print_shift(char cell[CELL], const kvs_run_summary *run)
{
    snprintf(cell, CELL, "%s", run->shift);
}

static void print_layers(char cell[CELL], const kvs_run_summary *run)
{
    snprintf(cell, CELL, "%zu", run->layers);
}

static void print_dim(char cell[CELL], const kvs_run_summary *run)
{
    snprintf(cell, CELL, "%zu", run->dim);
}

static void print_heads(char cell[CELL], const kvs_run_summary *run)
{
    snprintf(cell, CELL, "%zu", run->heads);
}

static void print_parameters(char cell[CELL], const kvs_run_summary *run)
{
    kvsi_format_count(cell, CELL, (double)run->parameters);
}

static void print_steps(char cell[CELL], const kvs_run_summary *run)
{
    snprintf(cell, CELL, "%" PRIu64, run->steps);
}

static void print_accuracy(char cell[CELL], const kvs_run_summary *run)
{
    snprintf(cell, CELL, "%.1f %%", 100 * run->final_accuracy);
}

static void print_loss(char cell[CELL], const kvs_run_summary *run)
{
    snprintf(cell, CELL, "%.4f", run->final_loss);
}

static void print_step_at_99(char cell[CELL], const kvs_run_summary *run)
{
    if (run->step_at_99)
        snprintf(cell, CELL, "%" PRIu64, run->step_at_99);
    else
        snprintf(cell, CELL, "never");
}

static void print_time(char cell[CELL], const kvs_run_summary *run)
{
    kvsi_format_duration(cell, CELL, run->seconds);
}

static const column columns[] = {
    {"run", 1, print_name},      {"shift", 1, print_shift},
    {"layers", 0, print_layers}, {"dim", 0, print_dim},
    {"heads", 0, print_heads},   {"parameters", 0, print_parameters},
    {"steps", 0, print_steps},   {"accuracy", 0, print_accuracy},
    {"loss", 0, print_loss},     {"99 % at step", 0, print_step_at_99},
    {"time", 0, print_time},
};

enum { COLUMNS = sizeof columns / sizeof *columns };

static void print_row(const kvs_run_summary *run, const int widths[COLUMNS])
{
    for (size_t c = 0; c < COLUMNS; c++) {
        char cell[CELL];

        if (run)
            columns[c].print(cell, run);
        else
            snprintf(cell, CELL, "%s", columns[c].heading);
        printf("%s%*s", c ? "  " : "", columns[c].left ? -widths[c] : widths[c], cell);
    }
    printf("\n");
}

static void print_table(const kvs_run_summary *runs, size_t count)
{
    int widths[COLUMNS];

    for (size_t c = 0; c < COLUMNS; c++) {
        widths[c] = (int)strlen(columns[c].heading);
        for (size_t r = 0; r < count; r++) {
            char cell[CELL];

            columns[c].print(cell, runs + r);
            if ((int)strlen(cell) > widths[c])
                widths[c] = (int)strlen(cell);
        }
    }
    print_row(NULL, widths);
    for (size_t r = 0; r < count; r++)
        print_row(runs + r, widths);
}

/* ---- the command ----------------------------------------------------------------------------- */

static kvs_status report(const kvs_report_options *settings, const kvsi_parsed_options *parsed,
                         kvs_err *err)
{
    const size_t count = parsed->argument_count;
    kvs_run_summary *runs = kvsi_alloc(count, sizeof *runs);
    kvs_status st = KVS_OK;

    if (!runs)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for %zu runs", count);
    for (size_t r = 0; r < count; r++)
        KVS_TRY(kvs_run_summarise(runs + r, parsed->arguments[r], err));
    print_table(runs, count);
    if (settings->html || settings->svg || settings->json)
        KVS_TRY(kvs_report_runs((const char *const *)parsed->arguments, count, settings, err));
out:
    kvsi_free(runs);
    return st;
}

int kvsi_cmd_report(int argc, char **argv)
{
    kvs_report_options settings = {0};
    kvsi_parsed_options parsed = {0};
    kvs_err err = {.status = KVS_OK};
    kvs_status st;

    KVS_TRY(kvsi_options_parse(&parsed, &command, &settings, argc - 2, argv + 2, &err));
    if (parsed.help)
        KVS_TRY(kvsi_cli_help(&command, &settings, &err));
    else
        KVS_TRY(report(&settings, &parsed, &err));
out:
    return st == KVS_OK ? KVSI_EXIT_DONE : kvsi_cli_fail(&err);
}
