/* Reads and compares runs, and writes JSON, SVG and HTML.  JSON comes first, because it does not
 * need gnuplot. */
#include "report/report.h"

#include "base/files.h"
#include "base/memory.h"
#include "report/plot.h"
#include "report/report_page.h"
#include "report/report_tables.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading --------------------------------------------------------------------------------- */

/* A run given twice would count twice. */
static kvs_status refuse_twice(const char *const *dirs, size_t count, kvs_err *err)
{
    kvs_status st = KVS_OK;

    for (size_t i = 0; st == KVS_OK && i < count; i++) {
        char *ours = realpath(dirs[i], NULL);

        for (size_t j = 0; ours && st == KVS_OK && j < i; j++) {
            char *theirs = realpath(dirs[j], NULL);

            if (theirs && strcmp(ours, theirs) == 0)
                st = kvsi_fail(err, KVS_E_INVALID, "the run '%s' is given twice", dirs[i]);
            free(theirs);
        }
        free(ours);
    }
    return st;
}

/* Losses on text and accuracies on tasks cannot share a chart. */
static kvs_status refuse_mixture(const kvs_report *report, const char *const *dirs, kvs_err *err)
{
    for (size_t i = 1; i < report->run_count; i++)
        if (report->runs[i].is_text != report->runs[0].is_text) {
            const size_t text = report->runs[0].is_text ? 0 : i;

            return kvsi_fail(err, KVS_E_INVALID,
                             "'%s' learned a text and '%s' a task; expected runs of one kind",
                             dirs[text], dirs[text == 0 ? i : 0]);
        }
    return KVS_OK;
}

static kvs_status read_runs(kvs_report *report, const char *const *dirs, size_t count, kvs_err *err)
{
    TRY(refuse_twice(dirs, count, err));
    report->runs = kvsi_alloc(count, sizeof *report->runs);
    if (!report->runs)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for %zu runs", count);
    for (; report->run_count < count; report->run_count++)
        TRY(kvsi_run_open(report->runs + report->run_count, dirs[report->run_count], err));
    TRY(refuse_mixture(report, dirs, err));
    report->is_text = report->runs[0].is_text;
    return KVS_OK;
}

kvs_status kvs_report_create(kvs_report **out, const char *const *dirs, size_t count, kvs_err *err)
{
    kvs_report *report;
    kvs_status st;

    NEED(out);
    *out = NULL;
    NEED_ARRAY(dirs, count);
    for (size_t i = 0; i < count; i++)
        NEED(dirs[i]);
    if (count == 0)
        return kvsi_fail(err, KVS_E_INVALID, "expected at least 1 run, found 0");
    report = kvsi_alloc(1, sizeof *report);
    if (!report)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for a report");
    TRY_OUT(read_runs(report, dirs, count, err));
    if (report->is_text)
        TRY_OUT(kvsi_arms_create(&report->arms, report->runs, count, err));
    TRY_OUT(kvsi_report_add_remarks(report, err));
    kvsi_tables_to_text(&report->text, report);
    TRY_OUT(kvsi_text_check(&report->text, err));
    *out = report;
    report = NULL;
out:
    kvs_report_free(report);
    return st;
}

void kvs_report_free(kvs_report *report)
{
    if (!report)
        return;
    kvsi_arms_release(&report->arms);
    for (size_t i = 0; i < report->run_count; i++)
        kvsi_run_close(report->runs + i);
    for (size_t i = 0; i < report->remark_count; i++)
        kvsi_free(report->remarks[i]);
    kvsi_free(report->runs);
    kvsi_free(report->remarks);
    kvsi_text_release(&report->text);
    kvsi_free(report);
}

int kvsi_report_has_benchmarks(const kvs_report *report)
{
    for (size_t i = 0; i < report->run_count; i++)
        if (report->runs[i].benchmark_count > 0)
            return 1;
    return 0;
}

/* ---- access ---------------------------------------------------------------------------------- */

const kvs_run_summary *kvs_report_run(const kvs_report *report, size_t index)
{
    return report && index < report->run_count ? &report->runs[index].summary : NULL;
}

const kvs_arm_summary *kvs_report_arm(const kvs_report *report, size_t index)
{
    return report && index < report->arms.count ? &report->arms.arms[index].summary : NULL;
}

const kvs_arm_difference *kvs_report_difference(const kvs_report *report, size_t index)
{
    return report && index < report->arms.difference_count
               ? &report->arms.differences[index].summary
               : NULL;
}

const char *kvs_report_remark(const kvs_report *report, size_t index)
{
    return report && index < report->remark_count ? report->remarks[index] : NULL;
}

const char *kvs_report_text(const kvs_report *report)
{
    return report ? report->text.data : NULL;
}

/* ---- writing --------------------------------------------------------------------------------- */

static kvs_status write_json(const kvs_report *report, const char *path, const char *title,
                             kvs_err *err)
{
    json_t *json = kvsi_report_to_json(report, title);
    const kvs_status st =
        json ? kvsi_json_write(json, path, err)
             : kvsi_fail(err, KVS_E_INVALID,
                         "'%s': a title, name or command is not UTF-8, or memory ran out", path);

    json_decref(json);
    return st;
}

/* What a page shows besides the logs. */
static kvs_status read_extras(const kvs_report *report, kvs_err *err)
{
    for (size_t i = 0; i < report->run_count; i++) {
        kvsi_run *run = &report->runs[i];

        kvsi_run_extras_release(&run->extras);
        TRY(kvsi_run_extras_read(&run->extras, run->dir, err));
    }
    return KVS_OK;
}

enum { HEADING = 192 }; /* bytes of a figure's heading */

/* "1.05M parameters; seeds 1 to 3; 2026-03-09": a figure that is taken from the page still says
 * what it shows. */
static void describe_runs(char out[HEADING], const kvs_report *report)
{
    uint64_t least = UINT64_MAX, most = 0, first = UINT64_MAX, last = 0;
    const char *date = "";
    char small[32], large[32], seeds[64];

    for (size_t i = 0; i < report->run_count; i++) {
        const kvs_run_summary *s = &report->runs[i].summary;

        least = s->parameters < least ? s->parameters : least;
        most = s->parameters > most ? s->parameters : most;
        first = s->seed < first ? s->seed : first;
        last = s->seed > last ? s->seed : last;
        if (strcmp(report->runs[i].extras.started, date) > 0)
            date = report->runs[i].extras.started;
    }
    kvsi_format_count(small, sizeof small, (double)least);
    kvsi_format_count(large, sizeof large, (double)most);
    if (first == last)
        snprintf(seeds, sizeof seeds, "seed %" PRIu64, first);
    else
        snprintf(seeds, sizeof seeds, "seeds %" PRIu64 " to %" PRIu64, first, last);
    snprintf(out, HEADING, "%s%s%s parameters; %s%s%.10s", small,
             strcmp(small, large) ? " to " : "", strcmp(small, large) ? large : "", seeds,
             *date ? "; " : "", date);
}

static kvs_status write_curves(const kvs_report *report, const kvs_report_options *options,
                               const char *title, kvs_err *err)
{
    kvsi_page page = {0};
    kvsi_report_figures figures = {0};
    char heading[HEADING];
    kvs_status st = read_extras(report, err);

    TRY_OUT(st);
    describe_runs(heading, report);
    TRY_OUT(report->is_text ? kvsi_plot_losses(&figures.curves, heading, &report->arms, err)
                            : kvsi_plot_accuracy(&figures.curves, heading, report->runs,
                                                 report->run_count, err));
    if (options->svg)
        TRY_OUT(kvsi_file_write_text(options->svg, figures.curves, err));
    if (options->html || options->benchmarks_svg)
        TRY_OUT(kvsi_plot_benchmarks(&figures.benchmarks, report->runs, report->run_count, err));
    if (options->benchmarks_svg)
        TRY_OUT(kvsi_file_write_text(options->benchmarks_svg, figures.benchmarks, err));
    if (options->html) {
        TRY_OUT(kvsi_plot_training(&figures.training, report->runs, report->run_count, err));
        if (report->is_text)
            TRY_OUT(kvsi_plot_costs(&figures.costs, &report->arms, err));
        kvsi_report_page(&page, title, report, &figures);
        TRY_OUT(kvsi_page_write(&page, options->html, err));
    }
out:
    kvsi_page_release(&page);
    kvsi_free(figures.curves);
    kvsi_free(figures.costs);
    kvsi_free(figures.training);
    kvsi_free(figures.benchmarks);
    return st;
}

kvs_status kvs_report_write(const kvs_report *report, const kvs_report_options *options,
                            kvs_err *err)
{
    const char *title;

    NEED(report);
    NEED(options);
    title = options->title ? options->title : "Training runs";
    if (options->json)
        TRY(write_json(report, options->json, title, err));
    if (options->benchmarks_svg && !kvsi_report_has_benchmarks(report))
        return kvsi_fail(err, KVS_E_INVALID,
                         "the runs have no scores on benchmarks to draw; they are made with "
                         "--eval-tasks");
    if (options->html || options->svg || options->benchmarks_svg)
        TRY(write_curves(report, options, title, err));
    return KVS_OK;
}
