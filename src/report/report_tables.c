#include "report/report_tables.h"

#include "kvshift/kvshift_lab.h"
#include "report/settings.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* A dash for NaN. */
static void add_number(kvsi_table *table, const char *sign, int digits, double number,
                       const char *unit)
{
    char text[64];

    if (isnan(number)) {
        kvsi_table_add(table, "-");
        return;
    }
    snprintf(text, sizeof text, "%.*f%s", digits, number, unit);
    kvsi_table_add(table, "%s%s", number > 0 ? sign : "", text);
}

static void add_count(kvsi_table *table, double count)
{
    char text[32];

    kvsi_format_count(text, sizeof text, count);
    kvsi_table_add(table, "%s", text);
}

static void add_duration(kvsi_table *table, double seconds)
{
    char text[32];

    kvsi_format_duration(text, sizeof text, seconds);
    kvsi_table_add(table, "%s", text);
}

/* "600", or "450 of 600" for an incomplete run. */
static void add_steps(kvsi_table *table, const kvs_run_summary *run)
{
    if (run->ended && run->steps == run->planned_steps)
        kvsi_table_add(table, "%" PRIu64, run->steps);
    else
        kvsi_table_add(table, "%" PRIu64 " of %" PRIu64, run->steps, run->planned_steps);
}

/* ---- tasks ----------------------------------------------------------------------------------- */

static void add_task_row(kvsi_table *table, const kvs_run_summary *run)
{
    kvsi_table_add(table, "%s", run->name);
    kvsi_table_add(table, "%s", run->shift);
    kvsi_table_add(table, "%zu", run->layers);
    kvsi_table_add(table, "%zu", run->dim);
    kvsi_table_add(table, "%zu", run->heads);
    add_count(table, (double)run->parameters);
    add_steps(table, run);
    add_number(table, "", 1, 100 * run->final_accuracy, " %");
    add_number(table, "", 4, run->final_loss, "");
    if (run->step_at_99)
        kvsi_table_add(table, "%" PRIu64, run->step_at_99);
    else
        kvsi_table_add(table, run->ended ? "never" : "-");
    add_duration(table, run->seconds);
}

void kvsi_table_of_tasks(kvsi_table *table, const kvs_report *report)
{
    *table = (kvsi_table){.left = 2};
    kvsi_table_headings(
        table, "run|shift|layers|dim|heads|parameters|steps|accuracy|loss|99 % at step|time");
    for (size_t i = 0; i < report->run_count; i++)
        add_task_row(table, &report->runs[i].summary);
}

/* ---- text ------------------------------------------------------------------------------------ */

static void add_loss(kvsi_table *table, double loss, double error)
{
    if (isnan(error))
        add_number(table, "", 4, loss, "");
    else
        kvsi_table_add(table, "%.4f ± %.4f", loss, error);
}

void kvsi_table_of_arms(kvsi_table *table, const kvs_report *report)
{
    *table = (kvsi_table){.left = 1};
    kvsi_table_headings(table, "arm|runs|parameters|tokens|step|validation loss|perplexity|time");
    for (size_t i = 0; i < report->arms.count; i++) {
        const kvs_arm_summary *arm = &report->arms.arms[i].summary;

        kvsi_table_add(table, "%s", arm->label);
        kvsi_table_add(table, "%zu", arm->counted);
        add_count(table, (double)arm->parameters);
        add_count(table, arm->tokens);
        add_number(table, "", 0, arm->step ? (double)arm->step : NAN, "");
        add_loss(table, arm->loss, arm->loss_error);
        add_number(table, "", 2, exp(arm->loss), "");
        add_duration(table, arm->seconds);
    }
}

static void add_text_row(kvsi_table *table, const kvsi_arm *arm, const kvsi_run *run)
{
    const size_t count = run->evaluation_count;
    const double loss = count ? run->evaluations[count - 1].loss : NAN;

    kvsi_table_add(table, "%s", run->summary.name);
    kvsi_table_add(table, "%s", arm->label);
    kvsi_table_add(table, "%" PRIu64, run->summary.seed);
    add_steps(table, &run->summary);
    add_number(table, "", 4, loss, "");
    add_number(table, "", 2, exp(loss), "");
    add_duration(table, run->summary.seconds);
}

void kvsi_table_of_runs(kvsi_table *table, const kvs_report *report)
{
    *table = (kvsi_table){.left = 2};
    kvsi_table_headings(table, "run|arm|seed|steps|last validation|perplexity|time");
    for (size_t a = 0; a < report->arms.count; a++)
        for (size_t i = 0; i < report->arms.arms[a].summary.runs; i++)
            add_text_row(table, report->arms.arms + a, report->arms.arms[a].runs[i]);
}

void kvsi_table_of_difference(kvsi_table *table, const kvs_report *report, const kvsi_difference *d)
{
    const kvs_arm_difference *s = &d->summary;
    const kvsi_arm *arm = report->arms.arms + s->arm, *base = report->arms.arms + s->baseline;

    *table = (kvsi_table){.columns = 4, .left = 1};
    kvsi_table_add(table, "seed");
    kvsi_table_add(table, "%s", base->label);
    kvsi_table_add(table, "%s", arm->label);
    kvsi_table_add(table, "difference");
    for (size_t i = 0; i < s->seeds; i++) {
        kvsi_table_add(table, "%" PRIu64, d->seeds[i]);
        add_number(table, "", 4, kvsi_run_loss_at(d->theirs[i], s->step), "");
        add_number(table, "", 4, kvsi_run_loss_at(d->ours[i], s->step), "");
        add_number(table, "+", 4, d->values[i], "");
    }
    kvsi_table_add(table, isnan(s->error) ? "mean" : "mean ± standard error");
    kvsi_table_add(table, "%s", "");
    kvsi_table_add(table, "%s", "");
    if (isnan(s->error))
        add_number(table, "+", 4, s->mean, "");
    else
        kvsi_table_add(table, "%+.4f ± %.4f", s->mean, s->error);
}

void kvsi_explain_difference(kvsi_text *out, const kvs_report *report, const kvsi_difference *d)
{
    const kvs_arm_difference *s = &d->summary;
    const char *arm = report->arms.arms[s->arm].label;
    size_t lower = 0;

    for (size_t i = 0; i < s->seeds; i++)
        lower += d->values[i] < 0;
    kvsi_text_format(out,
                     "The difference is the loss of '%s' minus the loss of '%s', after step "
                     "%" PRIu64 ": below 0, '%s' is better. It is for %zu of %zu seed%s.",
                     arm, report->arms.arms[s->baseline].label, s->step, arm, lower, s->seeds,
                     s->seeds == 1 ? "" : "s");
}

/* ---- benchmarks ------------------------------------------------------------------------------ */

static int is_of(const kvsi_benchmark *a, const kvsi_benchmark *b)
{
    return strcmp(a->task, b->task) == 0 && strcmp(a->metric, b->metric) == 0;
}

static void add_score(kvsi_table *table, const kvsi_benchmark *b, int with_error)
{
    const int is_percent = strcmp(b->metric, "perplexity") != 0;
    const double scale = is_percent ? 100 : 1;
    const char *unit = is_percent ? " %" : "";

    if (!isfinite(b->value))
        kvsi_table_add(table, "-");
    else if (with_error && isfinite(b->error))
        kvsi_table_add(table, is_percent ? "%.2f ± %.2f%s" : "%.4g ± %.2g%s", scale * b->value,
                       scale * b->error, unit);
    else
        kvsi_table_add(table, is_percent ? "%.2f%s" : "%.4g%s", scale * b->value, unit);
}

static void add_benchmark_row(kvsi_table *table, const kvsi_run *run, size_t first)
{
    const kvsi_benchmark *from = run->benchmarks + first, *best = from, *last = from;
    const int less = strcmp(from->metric, "perplexity") == 0;

    for (size_t i = first; i < run->benchmark_count; i++) {
        const kvsi_benchmark *b = run->benchmarks + i;

        if (!is_of(b, from))
            continue;
        last = b;
        if (!isfinite(best->value) || (less ? b->value < best->value : b->value > best->value))
            best = b;
    }
    kvsi_table_add(table, "%s", run->summary.name);
    kvsi_table_add(table, "%s", from->task);
    kvsi_table_add(table, "%s", from->metric);
    kvsi_table_add(table, "%zu", last->documents);
    kvsi_table_add(table, "%" PRIu64, from->step);
    add_score(table, from, 0);
    kvsi_table_add(table, "%" PRIu64, best->step);
    add_score(table, best, 0);
    kvsi_table_add(table, "%" PRIu64, last->step);
    add_score(table, last, 1);
}

void kvsi_table_of_benchmarks(kvsi_table *table, const kvs_report *report)
{
    *table = (kvsi_table){.left = 3};
    kvsi_table_headings(table, "run|benchmark|metric|documents|step|first|step|best|step|last");
    for (size_t r = 0; r < report->run_count; r++) {
        const kvsi_run *run = report->runs + r;

        for (size_t i = 0; i < run->benchmark_count; i++) {
            int seen = 0;

            for (size_t j = 0; j < i && !seen; j++)
                seen = is_of(run->benchmarks + j, run->benchmarks + i);
            if (!seen)
                add_benchmark_row(table, run, i);
        }
    }
}

/* ---- settings -------------------------------------------------------------------------------- */

static const json_t *settings_of(const kvs_report *report, size_t arm)
{
    return report->arms.arms[arm].runs[0]->settings;
}

/* Whether the setting gets a row at this arm: arms differ in it, and no earlier arm has it. */
static int is_due(const kvs_report *report, size_t arm, const char *name)
{
    int differs = 0;

    for (size_t i = 0; i < arm; i++)
        if (kvsi_run_setting(settings_of(report, i), name))
            return 0;
    for (size_t i = 0; i < report->arms.count; i++)
        differs |= kvsi_settings_differ(settings_of(report, i), settings_of(report, arm), name);
    return differs;
}

void kvsi_table_of_settings(kvsi_table *table, const kvs_report *report)
{
    const size_t arms = report->arms.count;

    *table = (kvsi_table){.columns = arms + 1, .left = 1};
    kvsi_table_add(table, "setting");
    for (size_t i = 0; i < arms; i++)
        kvsi_table_add(table, "%s", report->arms.arms[i].label);
    for (size_t a = 0; a < arms; a++) {
        const char *name;
        json_t *value;

        json_object_foreach((json_t *)settings_of(report, a), name, value) {
            if (!is_due(report, a, name))
                continue;
            kvsi_table_add(table, "%s", name);
            for (size_t i = 0; i < arms; i++) {
                const char *words = kvsi_run_setting(settings_of(report, i), name);

                kvsi_table_add(table, "%s", words ? words : "-");
            }
        }
    }
}

/* ---- plain text ------------------------------------------------------------------------------ */

static void add_grid(kvsi_text *out, kvsi_table *table)
{
    kvsi_table_to_text(out, table);
    kvsi_table_release(table);
}

static void add_differences(kvsi_text *out, const kvs_report *report)
{
    for (size_t i = 0; i < report->arms.difference_count; i++) {
        const kvsi_difference *d = report->arms.differences + i;
        kvsi_table table;

        kvsi_text_add(out, "\n");
        kvsi_table_of_difference(&table, report, d);
        add_grid(out, &table);
        kvsi_explain_difference(out, report, d);
        kvsi_text_add(out, "\n");
    }
}

void kvsi_tables_to_text(kvsi_text *out, const kvs_report *report)
{
    kvsi_table table;

    if (report->is_text) {
        kvsi_table_of_runs(&table, report);
        add_grid(out, &table);
        kvsi_text_add(out, "\n");
        kvsi_table_of_arms(&table, report);
        add_grid(out, &table);
        add_differences(out, report);
        if (kvsi_report_has_benchmarks(report)) {
            kvsi_text_add(out, "\n");
            kvsi_table_of_benchmarks(&table, report);
            add_grid(out, &table);
        }
    } else {
        kvsi_table_of_tasks(&table, report);
        add_grid(out, &table);
    }
    for (size_t i = 0; i < report->remark_count; i++)
        kvsi_text_format(out, "%s%s\n", i == 0 ? "\n" : "", report->remarks[i]);
}
