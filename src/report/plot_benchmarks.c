/* Scores on benchmarks during training, with their standard errors. */
#include "report/curves.h"
#include "report/plot.h"

#include <math.h>
#include <string.h>

enum { HEIGHT = 210, LABEL = 24, LEGEND = 26, LEGEND_COLUMNS = 4 }; /* HEIGHT to LEGEND in pixels */

static const double MARGIN = 1.03; /* of the axis of steps, behind the last one */
static const double ALONE = 2;     /* percent above and below scores that are all equal */

static int is_same(const kvsi_benchmark *a, const kvsi_benchmark *b)
{
    return strcmp(a->task, b->task) == 0 && strcmp(a->metric, b->metric) == 0;
}

/* Whether no score before this one, in this run or an earlier one, has its task and metric. */
static int is_first(const kvsi_run *runs, size_t run, size_t at)
{
    for (size_t r = 0; r <= run; r++)
        for (size_t i = 0; i < (r == run ? at : runs[r].benchmark_count); i++)
            if (is_same(runs[r].benchmarks + i, runs[run].benchmarks + at))
                return 0;
    return 1;
}

/* Equal scores without errors have no range of their own. */
static void set_range(kvsi_panel *panel, double low, double high)
{
    if (high > low)
        return;
    panel->y_low = fmax(0, low - ALONE);
    panel->y_high = low + ALONE;
}

static void add_panel(kvsi_chart *chart, const kvsi_run *runs, size_t count,
                      const kvsi_benchmark *what, double last)
{
    const int is_percent = strcmp(what->metric, "perplexity") != 0;
    const int is_top = chart->panel_count == 0;
    const size_t legend_rows = (count + LEGEND_COLUMNS - 1) / LEGEND_COLUMNS;
    kvsi_panel *panel = kvsi_chart_panel(chart, "", "", is_percent ? "%" : "");
    double low = INFINITY, high = -INFINITY;

    snprintf(panel->title, sizeof panel->title, "%.60s, %.24s", what->task, what->metric);
    panel->legend = is_top ? LEGEND * (double)legend_rows : 0;
    panel->height = HEIGHT + panel->legend;
    panel->x_low = 0;
    panel->x_high = MARGIN * last;
    panel->log_y = is_percent ? 0 : 10;
    panel->key = is_top ? "at screen 0.08,1 left top horizontal Left reverse maxcols 4" : NULL;
    for (size_t r = 0; r < count; r++) {
        kvsi_series *series =
            kvsi_chart_series(chart, KVSI_MARKED, r, is_top ? runs[r].summary.name : "");

        for (size_t i = 0; i < runs[r].benchmark_count; i++) {
            const kvsi_benchmark *b = runs[r].benchmarks + i;
            const double scale = is_percent ? 100 : 1;
            const double error = is_percent ? scale * b->error : NAN;

            if (!is_same(b, what) || !isfinite(b->value))
                continue;
            kvsi_series_add(series, (double)b->step, scale * b->value, error);
            low = fmin(low, scale * b->value - (isnan(error) ? 0 : error));
            high = fmax(high, scale * b->value + (isnan(error) ? 0 : error));
        }
    }
    if (is_percent && isfinite(low))
        set_range(panel, low, high);
}

kvs_status kvsi_plot_benchmarks(char **svg, const kvsi_run *runs, size_t count, kvs_err *err)
{
    kvsi_chart chart = {.name = "benchmarks", .id = "benchmarks"};
    double last = 0;
    kvs_status st = KVS_OK;

    *svg = NULL;
    for (size_t r = 0; r < count; r++)
        for (size_t i = 0; i < runs[r].benchmark_count; i++)
            last = fmax(last, (double)runs[r].benchmarks[i].step);
    for (size_t r = 0; r < count; r++)
        for (size_t i = 0; i < runs[r].benchmark_count; i++)
            if (chart.panel_count < KVSI_PANELS_MAX && is_first(runs, r, i))
                add_panel(&chart, runs, count, runs[r].benchmarks + i, last);
    if (chart.panel_count > 0) {
        kvsi_panel *bottom = chart.panels + chart.panel_count - 1;

        bottom->x_label = "training step";
        bottom->height += LABEL;
        st = kvsi_chart_draw(svg, &chart, err);
    }
    kvsi_chart_release(&chart);
    return st;
}
