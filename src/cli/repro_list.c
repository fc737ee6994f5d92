/* kvshift repro list and kvshift repro report. */
#include "cli/cli.h"
#include "cli/repro.h"
#include "kvshift/kvshift_lab.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- list ------------------------------------------------------------------------------------ */

static json_t *experiment_to_json(const kvs_experiment *e)
{
    json_t *scaled = json_object();

    for (int s = 0; s < KVS_SCALES; s++)
        json_object_set_new(
            scaled, kvs_scale_name((kvs_scale)s),
            json_pack("{s:s, s:I}", "settings", e->settings[s], "seeds", (json_int_t)e->seeds[s]));
    return json_pack("{s:s, s:s, s:s, s:b, s:o}", "name", e->name, "figure", e->figure, "claim",
                     e->claim, "learns_text", e->learns_text, "scales", scaled);
}

static kvs_status list_json(kvs_err *err)
{
    json_t *list = json_array();

    for (size_t i = 0; kvs_experiment_at(i); i++)
        json_array_append_new(list, experiment_to_json(kvs_experiment_at(i)));
    return kvsi_cli_print_json(list, err);
}

/* Prints words from `column` on.  On a terminal they are broken into lines that start there. */
static void print_wrapped(const char *words, size_t column)
{
    const size_t width = isatty(STDOUT_FILENO) ? kvsi_help_width() : SIZE_MAX;
    size_t at = column;

    while (*words) {
        const size_t length = strcspn(words, " ");

        if (at > column && at + 1 + length > width) {
            printf("\n%*s", (int)column, "");
            at = column;
        } else if (at > column) {
            putchar(' ');
            at++;
        }
        printf("%.*s", (int)length, words);
        at += length;
        words += length + strspn(words + length, " ");
    }
    putchar('\n');
}

static void list_text(void)
{
    for (size_t i = 0; kvs_experiment_at(i); i++) {
        const kvs_experiment *e = kvs_experiment_at(i);

        printf("%-16s %-12s ", e->name, e->figure);
        print_wrapped(e->claim, 16 + 1 + 12 + 1);
    }
    printf("\n'kvshift repro NAME --dry-run --scale desk' lists its runs and their cost.\n");
}

static const kvsi_setting list_rows[] = {{.name = "json",
                                          .kind = KVSI_SETTING_FLAG,
                                          .group = "Options",
                                          .help = "print JSON, with the settings of each scale"}};
static const kvsi_command_options list_options = {
    .command = "kvshift repro list",
    .purpose = "Prints the experiments, their figures in the paper, and the claims.",
    .tables = KVSI_OPTIONS(list_rows),
};

static kvs_status run_list(void *data, const kvsi_call *call, kvs_err *err)
{
    const int *json = data;

    (void)call;
    if (*json)
        return list_json(err);
    list_text();
    return KVS_OK;
}

const kvsi_command kvsi_repro_list = {
    .name = "list",
    .summary = "print the experiments",
    .options = &list_options,
    .settings_size = sizeof(int),
    .run = run_list,
};

/* ---- report ---------------------------------------------------------------------------------- */

typedef struct report_settings {
    const char *html, *markdown;
} report_settings;

static kvs_status run_report(void *data, const kvsi_call *call, kvs_err *err)
{
    const report_settings *s = data;
    const char *dir = call->parsed->arguments[0];
    kvsi_text path = {0};
    size_t experiments;
    kvs_status st;

    if (s->html)
        kvsi_text_add(&path, s->html);
    else
        kvsi_text_format(&path, "%s/report.html", dir);
    TRY_OUT(kvsi_text_check(&path, err));
    TRY_OUT(kvs_repro_report(&experiments, dir, path.data, err));
    if (s->markdown)
        TRY_OUT(kvs_repro_summary(&experiments, dir, s->markdown, err));
    printf("%zu experiment%s: %s%s%s\n", experiments, experiments == 1 ? "" : "s", path.data,
           s->markdown ? ", " : "", s->markdown ? s->markdown : "");
out:
    kvsi_text_release(&path);
    return st;
}

/* clang-format off */
static const kvsi_setting report_rows[] = {
    {.name = "html", .kind = KVSI_SETTING_TEXT, .offset = offsetof(report_settings, html),
     .group = "Options", .placeholder = "FILE", .help = "file of the page",
     .automatic = "DIR/report.html"},
    {.name = "markdown", .kind = KVSI_SETTING_TEXT, .offset = offsetof(report_settings, markdown),
     .group = "Options", .placeholder = "FILE",
     .help = "also write all verdicts as a Markdown table",
     .automatic = "no"},
};
/* clang-format on */

static const kvsi_command_options report_options = {
    .command = "kvshift repro report",
    .purpose = "Puts finished experiments, DIR itself or the folders in it, on one page with all "
               "verdicts, figures, commands and times.",
    .argument = "DIR",
    .min_arguments = 1,
    .max_arguments = 1,
    .tables = KVSI_OPTIONS(report_rows),
};

const kvsi_command kvsi_repro_report = {
    .name = "report",
    .summary = "join finished experiments into one page",
    .options = &report_options,
    .settings_size = sizeof(report_settings),
    .run = run_report,
};
