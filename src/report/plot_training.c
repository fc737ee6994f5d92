/* How a training went: learning rate, gradient norm, the taps of the shift over the steps and, at
 * the end, by layer.  And the losses of text against the time and the work that they took. */
#include "report/curves.h"
#include "report/plot.h"

#include <math.h>

enum { POINTS = 240, HEIGHT = 210, LABEL = 24, LEGEND = 26, LEGEND_COLUMNS = 3, LOSS_HEIGHT = 320 };

static const double MARGIN = 1.01; /* of an axis, behind its last point */

/* One curve of a panel: a value of each logged step, averaged over a few steps. */
typedef double value_of(const kvsi_run_point *point);

static double lr_of(const kvsi_run_point *p)
{
    return p->lr;
}

static double norm_of(const kvsi_run_point *p)
{
    return p->grad_norm > 0 ? p->grad_norm : NAN; /* the axis is logarithmic */
}

static double alpha1_of(const kvsi_run_point *p)
{
    return p->k.current;
}

static double alpha2_of(const kvsi_run_point *p)
{
    return p->k.sum - p->k.current;
}

static double beta1_of(const kvsi_run_point *p)
{
    return p->v.current;
}

static double beta2_of(const kvsi_run_point *p)
{
    return p->v.sum - p->v.current;
}

static void add_curve(kvsi_series *series, const kvsi_run *run, value_of *value)
{
    const size_t stride = run->point_count / POINTS + 1;

    for (size_t i = 0; i < run->point_count; i += stride) {
        double sum = 0;
        size_t count = 0;

        for (size_t k = i; k < i + stride && k < run->point_count; k++)
            if (isfinite(value(&run->points[k]))) {
                sum += value(&run->points[k]);
                count++;
            }
        if (count > 0)
            kvsi_series_add(series, (double)run->points[i].step, sum / (double)count, NAN);
    }
}

static int has_values(const kvsi_run *runs, size_t count, value_of *value)
{
    for (size_t r = 0; r < count; r++)
        for (size_t i = 0; i < runs[r].point_count; i++)
            if (isfinite(value(&runs[r].points[i])))
                return 1;
    return 0;
}

/* Above 0. */
static double highest(const kvsi_run *runs, size_t count, value_of *value)
{
    double high = 1e-12;

    for (size_t r = 0; r < count; r++)
        for (size_t i = 0; i < runs[r].point_count; i++)
            high = fmax(high, value(&runs[r].points[i]));
    return high;
}

static double last_step(const kvsi_run *runs, size_t count)
{
    double last = 1;

    for (size_t r = 0; r < count; r++)
        last = fmax(last, (double)runs[r].points[runs[r].point_count - 1].step);
    return last;
}

static kvsi_panel *add_panel(kvsi_chart *chart, const char *title, const char *y_label, double last)
{
    kvsi_panel *panel = kvsi_chart_panel(chart, title, "", y_label);

    panel->height = HEIGHT;
    panel->x_low = 0;
    panel->x_high = MARGIN * last;
    panel->key = NULL;
    return panel;
}

/* A panel of one value; the first panel has the legend of all. */
static void add_values(kvsi_chart *chart, const char *label, const kvsi_run *runs, size_t count,
                       value_of *value, double last)
{
    const int is_top = chart->panel_count == 0, is_rate = value == lr_of;
    const size_t rows = (count + LEGEND_COLUMNS - 1) / LEGEND_COLUMNS;
    kvsi_panel *panel;

    if (!has_values(runs, count, value))
        return;
    panel = add_panel(chart, "", label, last);
    if (is_top) {
        panel->legend = LEGEND * (double)rows;
        panel->height += panel->legend;
        panel->key = "at screen 0.08,1 left top horizontal Left reverse maxcols 3";
    }
    if (is_rate) {
        panel->y_low = 0;
        panel->y_high = 1.05 * highest(runs, count, value);
        panel->y_format = "%.0e";
    } else {
        panel->log_y = 10;
    }
    for (size_t r = 0; r < count; r++)
        add_curve(kvsi_chart_series(chart, KVSI_LINE, r, is_top ? runs[r].summary.name : ""),
                  runs + r, value);
}

/* The tap of the current token solid with dots, that of the previous ones dashed. */
static void add_taps(kvsi_chart *chart, const char *label, const kvsi_run *runs, size_t count,
                     value_of *current, value_of *previous, double last)
{
    double low = 0, high = 1;
    kvsi_panel *panel;

    if (!has_values(runs, count, current))
        return;
    for (size_t r = 0; r < count; r++)
        for (size_t i = 0; i < runs[r].point_count; i++) {
            low = fmin(low, fmin(current(&runs[r].points[i]), previous(&runs[r].points[i])));
            high = fmax(high, fmax(current(&runs[r].points[i]), previous(&runs[r].points[i])));
        }
    panel = add_panel(chart, "", label, last);
    panel->y_low = low - (low < 0 ? 0.05 : 0);
    panel->y_high = high + 0.05;
    for (size_t r = 0; r < count; r++) {
        add_curve(kvsi_chart_series(chart, KVSI_MARKED, r, ""), runs + r, current);
        add_curve(kvsi_chart_series(chart, KVSI_DASHED, r, ""), runs + r, previous);
    }
}

static void add_heads(kvsi_chart *chart, const char *label, const kvsi_run *runs, size_t count,
                      int values)
{
    double last = 0;
    int any = 0;
    kvsi_panel *panel;

    for (size_t r = 0; r < count; r++)
        for (size_t i = 0; i < runs[r].extras.head_count; i++) {
            const kvsi_head_share *h = &runs[r].extras.heads[i];

            last = fmax(last, (double)h->layer);
            any |= isfinite(values ? h->v : h->k);
        }
    if (!any)
        return;
    panel = kvsi_chart_panel(chart, "", "layer", label);
    panel->height = HEIGHT + LABEL;
    panel->x_low = -0.5;
    panel->x_high = last + 0.5;
    panel->x_step = ceil((last + 1) / 16);
    panel->y_low = 0;
    panel->y_high = 1;
    panel->key = NULL;
    for (size_t r = 0; r < count; r++) {
        const double aside = 0.3 * ((double)(r + 1) / (double)(count + 1) - 0.5);
        kvsi_series *series = kvsi_chart_series(chart, KVSI_MARKS, r, "");

        for (size_t i = 0; i < runs[r].extras.head_count; i++) {
            const kvsi_head_share *h = &runs[r].extras.heads[i];

            kvsi_series_add(series, (double)h->layer + aside, values ? h->v : h->k, NAN);
        }
    }
}

kvs_status kvsi_plot_training(char **svg, const kvsi_run *runs, size_t count, kvs_err *err)
{
    const double last = last_step(runs, count);
    kvsi_chart chart = {.name = "training", .id = "training"};
    kvs_status st = KVS_OK;

    *svg = NULL;
    add_values(&chart, "learning rate", runs, count, lr_of, last);
    add_values(&chart, "gradient norm", runs, count, norm_of, last);
    add_taps(&chart, "α of keys", runs, count, alpha1_of, alpha2_of, last);
    add_taps(&chart, "β of values", runs, count, beta1_of, beta2_of, last);
    if (chart.panel_count > 0) {
        chart.panels[chart.panel_count - 1].x_label = "training step";
        chart.panels[chart.panel_count - 1].height += LABEL;
    }
    add_heads(&chart, "α2 / (α1 + α2)", runs, count, 0);
    add_heads(&chart, "β2 / (β1 + β2)", runs, count, 1);
    if (chart.panel_count > 0)
        st = kvsi_chart_draw(svg, &chart, err);
    kvsi_chart_release(&chart);
    return st;
}

/* ---- losses against time and work ------------------------------------------------------------ */

static double minutes_at(const kvsi_run *run, const kvsi_run_point *point)
{
    (void)run;
    return point->seconds / 60;
}

/* 6 operations per parameter and token: 2 forward, 4 backward; in units of 10^12. */
static double work_at(const kvsi_run *run, const kvsi_run_point *point)
{
    return 6e-12 * (double)run->summary.parameters * (double)point->tokens;
}

static const kvsi_run_point *point_at(const kvsi_run *run, uint64_t step)
{
    size_t i = run->point_count - 1;

    while (i > 0 && run->points[i].step > step)
        i--;
    return &run->points[i];
}

static void add_losses(kvsi_chart *chart, const kvsi_arms *arms, const char *x_label,
                       double (*x_of)(const kvsi_run *, const kvsi_run_point *), int has_legend)
{
    kvsi_panel *panel = kvsi_chart_panel(chart, "", x_label, "validation loss (nats per token)");

    double last = 0;

    panel->height = LOSS_HEIGHT;
    panel->x_low = 0;
    panel->key = has_legend ? "inside top right" : NULL;
    for (size_t a = 0; a < arms->count; a++)
        for (size_t r = 0; r < arms->arms[a].summary.runs; r++) {
            const kvsi_run *run = arms->arms[a].runs[r];
            kvsi_series *series =
                kvsi_chart_series(chart, r == 0 ? KVSI_MARKED : KVSI_RUN, a,
                                  r == 0 && has_legend ? arms->arms[a].label : "");

            for (size_t i = 0; i < run->evaluation_count; i++) {
                const double x = x_of(run, point_at(run, run->evaluations[i].step));

                kvsi_series_add(series, x, run->evaluations[i].loss, NAN);
                last = fmax(last, x);
            }
        }
    panel->x_high = last > 0 ? MARGIN * last : 1;
}

static int has_evaluations(const kvsi_arms *arms)
{
    for (size_t a = 0; a < arms->count; a++)
        for (size_t r = 0; r < arms->arms[a].summary.runs; r++)
            if (arms->arms[a].runs[r]->evaluation_count > 0)
                return 1;
    return 0;
}

kvs_status kvsi_plot_costs(char **svg, const kvsi_arms *arms, kvs_err *err)
{
    kvsi_chart chart = {.name = "costs", .id = "costs"};
    kvs_status st;

    *svg = NULL;
    if (!has_evaluations(arms))
        return KVS_OK;
    add_losses(&chart, arms, "time of training steps (minutes)", minutes_at, 1);
    add_losses(&chart, arms, "work (TFLOP)", work_at, 0);
    st = kvsi_chart_draw(svg, &chart, err);
    kvsi_chart_release(&chart);
    return st;
}
