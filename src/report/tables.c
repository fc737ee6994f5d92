#include "report/tables.h"

#include "report/settings.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static void add_headings(kvsi_grid *grid, const char *const *headings, size_t count)
{
    grid->columns = count;
    for (size_t i = 0; i < count; i++)
        kvsi_grid_add(grid, "%s", headings[i]);
}

/* Nothing where there is no number. */
static void add_number(kvsi_grid *grid, const char *sign, int digits, double number,
                       const char *unit)
{
    char text[64];

    if (isnan(number)) {
        kvsi_grid_add(grid, "-");
        return;
    }
    snprintf(text, sizeof text, "%.*f%s", digits, number, unit);
    kvsi_grid_add(grid, "%s%s", number > 0 ? sign : "", text);
}

static void add_count(kvsi_grid *grid, double count)
{
    char text[32];

    kvsi_format_count(text, sizeof text, count);
    kvsi_grid_add(grid, "%s", text);
}

static void add_duration(kvsi_grid *grid, double seconds)
{
    char text[32];

    kvsi_format_duration(text, sizeof text, seconds);
    kvsi_grid_add(grid, "%s", text);
}

/* "600", or how far a run came of what was planned. */
static void add_steps(kvsi_grid *grid, const kvs_run_summary *run)
{
    if (run->ended && run->steps == run->planned_steps)
        kvsi_grid_add(grid, "%" PRIu64, run->steps);
    else
        kvsi_grid_add(grid, "%" PRIu64 " of %" PRIu64, run->steps, run->planned_steps);
}

/* ---- tasks ----------------------------------------------------------------------------------- */

static void add_task_row(kvsi_grid *grid, const kvs_run_summary *run)
{
    kvsi_grid_add(grid, "%s", run->name);
    kvsi_grid_add(grid, "%s", run->shift);
    kvsi_grid_add(grid, "%zu", run->layers);
    kvsi_grid_add(grid, "%zu", run->dim);
    kvsi_grid_add(grid, "%zu", run->heads);
    add_count(grid, (double)run->parameters);
    add_steps(grid, run);
    add_number(grid, "", 1, 100 * run->final_accuracy, " %");
    add_number(grid, "", 4, run->final_loss, "");
    if (run->step_at_99)
        kvsi_grid_add(grid, "%" PRIu64, run->step_at_99);
    else
        kvsi_grid_add(grid, run->ended ? "never" : "-");
    add_duration(grid, run->seconds);
}

void kvsi_table_of_tasks(kvsi_grid *grid, const kvs_report *report)
{
    static const char *const headings[] = {"run",   "shift",        "layers", "dim",
                                           "heads", "parameters",   "steps",  "accuracy",
                                           "loss",  "99 % at step", "time"};

    *grid = (kvsi_grid){.left = 2};
    add_headings(grid, headings, sizeof headings / sizeof *headings);
    for (size_t i = 0; i < report->run_count; i++)
        add_task_row(grid, &report->runs[i].summary);
}

/* ---- text ------------------------------------------------------------------------------------ */

static void add_loss(kvsi_grid *grid, double loss, double error)
{
    if (isnan(error))
        add_number(grid, "", 4, loss, "");
    else
        kvsi_grid_add(grid, "%.4f ± %.4f", loss, error);
}

void kvsi_table_of_arms(kvsi_grid *grid, const kvs_report *report)
{
    static const char *const headings[] = {
        "arm", "runs", "parameters", "tokens", "step", "validation loss", "perplexity", "time"};

    *grid = (kvsi_grid){.left = 1};
    add_headings(grid, headings, sizeof headings / sizeof *headings);
    for (size_t i = 0; i < report->arms.count; i++) {
        const kvs_arm_summary *arm = &report->arms.arms[i].summary;

        kvsi_grid_add(grid, "%s", arm->label);
        kvsi_grid_add(grid, "%zu", arm->counted);
        add_count(grid, (double)arm->parameters);
        add_count(grid, arm->tokens);
        add_number(grid, "", 0, arm->step ? (double)arm->step : NAN, "");
        add_loss(grid, arm->loss, arm->loss_error);
        add_number(grid, "", 2, exp(arm->loss), "");
        add_duration(grid, arm->seconds);
    }
}

static void add_text_row(kvsi_grid *grid, const kvsi_arm *arm, const kvsi_run *run)
{
    const size_t count = run->evaluation_count;
    const double loss = count ? run->evaluations[count - 1].loss : NAN;

    kvsi_grid_add(grid, "%s", run->summary.name);
    kvsi_grid_add(grid, "%s", arm->label);
    kvsi_grid_add(grid, "%" PRIu64, run->summary.seed);
    add_steps(grid, &run->summary);
    add_number(grid, "", 4, loss, "");
    add_number(grid, "", 2, exp(loss), "");
    add_duration(grid, run->summary.seconds);
}

void kvsi_table_of_runs(kvsi_grid *grid, const kvs_report *report)
{
    static const char *const headings[] = {"run",        "arm", "seed", "steps", "last validation",
                                           "perplexity", "time"};

    *grid = (kvsi_grid){.left = 2};
    add_headings(grid, headings, sizeof headings / sizeof *headings);
    for (size_t a = 0; a < report->arms.count; a++)
        for (size_t i = 0; i < report->arms.arms[a].summary.runs; i++)
            add_text_row(grid, report->arms.arms + a, report->arms.arms[a].runs[i]);
}

void kvsi_table_of_difference(kvsi_grid *grid, const kvs_report *report, const kvsi_difference *d)
{
    const kvs_arm_difference *s = &d->summary;
    const kvsi_arm *arm = report->arms.arms + s->arm, *base = report->arms.arms + s->baseline;

    *grid = (kvsi_grid){.columns = 4, .left = 1};
    kvsi_grid_add(grid, "seed");
    kvsi_grid_add(grid, "%s", base->label);
    kvsi_grid_add(grid, "%s", arm->label);
    kvsi_grid_add(grid, "difference");
    for (size_t i = 0; i < s->seeds; i++) {
        kvsi_grid_add(grid, "%" PRIu64, d->seeds[i]);
        add_number(grid, "", 4, kvsi_run_loss_at(d->theirs[i], s->step), "");
        add_number(grid, "", 4, kvsi_run_loss_at(d->ours[i], s->step), "");
        add_number(grid, "+", 4, d->values[i], "");
    }
    kvsi_grid_add(grid, isnan(s->error) ? "mean" : "mean ± standard error");
    kvsi_grid_add(grid, "%s", "");
    kvsi_grid_add(grid, "%s", "");
    if (isnan(s->error))
        add_number(grid, "+", 4, s->mean, "");
    else
        kvsi_grid_add(grid, "%+.4f ± %.4f", s->mean, s->error);
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

/* ---- settings -------------------------------------------------------------------------------- */

static const json_t *settings_of(const kvs_report *report, size_t arm)
{
    return report->arms.arms[arm].runs[0]->settings;
}

/* Whether arms differ in it, and no arm before `arm` has it: then its row comes now. */
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

void kvsi_table_of_settings(kvsi_grid *grid, const kvs_report *report)
{
    const size_t arms = report->arms.count;

    *grid = (kvsi_grid){.columns = arms + 1, .left = 1};
    kvsi_grid_add(grid, "setting");
    for (size_t i = 0; i < arms; i++)
        kvsi_grid_add(grid, "%s", report->arms.arms[i].label);
    for (size_t a = 0; a < arms; a++) {
        const char *name;
        json_t *value;

        json_object_foreach((json_t *)settings_of(report, a), name, value) {
            if (!is_due(report, a, name))
                continue;
            kvsi_grid_add(grid, "%s", name);
            for (size_t i = 0; i < arms; i++) {
                const char *words = kvsi_run_setting(settings_of(report, i), name);

                kvsi_grid_add(grid, "%s", words ? words : "-");
            }
        }
    }
}

/* ---- plain text ------------------------------------------------------------------------------ */

static void add_grid(kvsi_text *out, kvsi_grid *grid)
{
    kvsi_grid_to_text(out, grid);
    kvsi_grid_release(grid);
}

static void add_differences(kvsi_text *out, const kvs_report *report)
{
    for (size_t i = 0; i < report->arms.difference_count; i++) {
        const kvsi_difference *d = report->arms.differences + i;
        kvsi_grid grid;

        kvsi_text_add(out, "\n");
        kvsi_table_of_difference(&grid, report, d);
        add_grid(out, &grid);
        kvsi_explain_difference(out, report, d);
        kvsi_text_add(out, "\n");
    }
}

void kvsi_tables_to_text(kvsi_text *out, const kvs_report *report)
{
    kvsi_grid grid;

    if (report->is_text) {
        kvsi_table_of_runs(&grid, report);
        add_grid(out, &grid);
        kvsi_text_add(out, "\n");
        kvsi_table_of_arms(&grid, report);
        add_grid(out, &grid);
        add_differences(out, report);
    } else {
        kvsi_table_of_tasks(&grid, report);
        add_grid(out, &grid);
    }
    for (size_t i = 0; i < report->remark_count; i++)
        kvsi_text_format(out, "%s%s\n", i == 0 ? "\n" : "", report->remarks[i]);
}
