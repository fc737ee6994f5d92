/* How arms learn a text.  Panels, from the top:
 *
 *     losses against step, with the tokens on the upper edge if all runs have the same per step
 *     differences from the baseline, if there are any
 *     losses against tokens, if runs differ in their tokens per step
 */
#include "report/curves.h"
#include "report/plot.h"

#include <math.h>

enum { LOSSES = 484, DIFFERENCES = 268, TRAIN_POINTS = 240 }; /* heights of panels; points */

static const double MARGIN = 1.01; /* at the right, for the last error bar */

typedef struct range {
    double low, high;
} range;

static void widen(range *r, double value)
{
    if (!isfinite(value))
        return;
    r->low = fmin(r->low, value);
    r->high = fmax(r->high, value);
}

/* Leaves space around the values; a single value gets some too. */
static void set_y_range(kvsi_panel *panel, range r, double above)
{
    const double size = r.high > r.low ? r.high - r.low : 0.1;

    panel->y_low = r.low <= r.high ? r.low - 0.06 * size : 0;
    panel->y_high = r.low <= r.high ? r.high + above * size : 1;
}

/* ---- extent ---------------------------------------------------------------------------------- */

typedef struct unit {
    double size;
    const char *name;
} unit;

typedef struct extent {
    uint64_t last_step;
    double last_token;
    unit tokens;
    int same_tokens; /* per step, in all runs */
} extent;

static unit token_unit(double most)
{
    static const unit units[] = {
        {1e9, "billion tokens"}, {1e6, "million tokens"}, {1e3, "thousand tokens"}, {1, "tokens"}};
    size_t i = 0;

    while (i < 3 && most < 2 * units[i].size)
        i++;
    return units[i];
}

/* Tokens per step count as the same within a hundredth: ragged batches differ by a few tokens. */
static extent extent_of(const kvsi_arms *arms)
{
    extent e = {0};
    double least = INFINITY, most = 0;

    for (size_t a = 0; a < arms->count; a++)
        for (size_t r = 0; r < arms->arms[a].summary.runs; r++) {
            const kvs_run_summary *run = &arms->arms[a].runs[r]->summary;
            const double per_step = (double)run->tokens / (double)run->steps;

            least = fmin(least, per_step);
            most = fmax(most, per_step);
            e.last_step = run->steps > e.last_step ? run->steps : e.last_step;
            e.last_token = fmax(e.last_token, (double)run->tokens);
        }
    e.same_tokens = most <= 1.01 * least && most > 0;
    e.tokens = token_unit(e.last_token);
    return e;
}

/* ---- losses ---------------------------------------------------------------------------------- */

/* A panel of losses that is being filled. */
typedef struct filling {
    kvsi_chart *chart;
    extent extent;
    int by_tokens; /* x is tokens, not steps */
    range losses;
} filling;

/* Tokens fed up to a step at which the run has a record. */
static double tokens_at(const kvsi_run *run, uint64_t step)
{
    size_t low = 0, high = run->point_count - 1;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (run->points[middle].step < step)
            low = middle + 1;
        else
            high = middle;
    }
    return (double)run->points[low].tokens;
}

/* The first tenth falls fast and would press the rest against the floor, so the y axis need not
 * contain it. */
static void add(filling *f, kvsi_series *series, const kvsi_run *run, uint64_t step, double loss,
                double error, int widens)
{
    const double x = f->by_tokens ? tokens_at(run, step) / f->extent.tokens.size : (double)step;

    kvsi_series_add(series, x, loss, error);
    if (widens && step > f->extent.last_step / 10)
        widen(&f->losses, loss);
}

static void add_training(filling *f, const kvsi_arm *arm, size_t colour)
{
    kvsi_series *series = kvsi_chart_series(f->chart, KVSI_PALE, colour, "");
    const size_t smoothed = f->extent.last_step / 30 + 1;
    const kvsi_run *run = arm->counted[0];
    size_t count = run->point_count, stride;

    for (size_t r = 1; r < arm->summary.counted; r++)
        if (arm->counted[r]->point_count < count)
            count = arm->counted[r]->point_count;
    stride = count / TRAIN_POINTS + 1;
    for (size_t i = (count - 1) % stride; i < count; i += stride)
        add(f, series, run, run->points[i].step,
            kvsi_recent_loss(arm->counted, arm->summary.counted, i, smoothed), NAN, 1);
}

static void add_evaluations(filling *f, const kvsi_arm *arm, size_t colour)
{
    kvsi_series *mean;

    for (size_t r = 0; r < arm->summary.runs; r++) {
        const kvsi_run *run = arm->runs[r];
        kvsi_series *single =
            arm->summary.runs > 1 ? kvsi_chart_series(f->chart, KVSI_RUN, colour, "") : NULL;

        for (size_t i = 0; i < run->evaluation_count; i++)
            add(f, single, run, run->evaluations[i].step, run->evaluations[i].loss, NAN, 1);
    }
    mean = kvsi_chart_series(f->chart, KVSI_MEAN, colour, arm->label);
    for (size_t i = 0; i < arm->curve_count; i++)
        add(f, mean, arm->counted[0], arm->curve[i].step, arm->curve[i].mean, arm->curve[i].error,
            0);
}

static void add_losses(kvsi_chart *chart, const char *title, const kvsi_arms *arms, const extent *e,
                       int by_tokens)
{
    const double tokens = MARGIN * e->last_token / e->tokens.size;
    filling f = {chart, *e, by_tokens, {INFINITY, -INFINITY}};
    kvsi_panel *panel = kvsi_chart_panel(chart, title, by_tokens ? e->tokens.name : "training step",
                                         "loss (nats per token)");
    int several = 0;

    panel->height = LOSSES;
    panel->x_low = 0;
    panel->x_high = by_tokens ? tokens : MARGIN * (double)e->last_step;
    panel->key = "inside top right";
    if (!by_tokens && e->same_tokens) {
        panel->x2_label = e->tokens.name;
        panel->x2_high = tokens;
    }
    for (size_t a = 0; a < arms->count; a++)
        add_training(&f, arms->arms + a, a);
    for (size_t a = 0; a < arms->count; a++) {
        add_evaluations(&f, arms->arms + a, a);
        several |= arms->arms[a].summary.runs > 1;
    }
    if (several)
        kvsi_chart_key(chart, KVSI_RUN, "single runs");
    kvsi_chart_key(chart, KVSI_PALE, "training loss, smoothed");
    set_y_range(panel, f.losses, 0.06);
}

/* ---- differences ----------------------------------------------------------------------------- */

static void add_difference(kvsi_chart *chart, range *r, const kvsi_arms *arms,
                           const kvsi_difference *d)
{
    const size_t colour = d->summary.arm;
    kvsi_text label = {0};
    kvsi_series *mean;

    for (size_t s = 0; s < d->summary.seeds; s++) {
        kvsi_series *single = kvsi_chart_series(chart, KVSI_RUN, colour, "");

        for (size_t i = 0; i < d->curve_count; i++) {
            const uint64_t step = d->curve[i].step;
            const double value =
                kvsi_run_loss_at(d->ours[s], step) - kvsi_run_loss_at(d->theirs[s], step);

            kvsi_series_add(single, (double)step, value, NAN);
            widen(r, value);
        }
    }
    kvsi_text_format(&label, "%s − %s", arms->arms[colour].label,
                     arms->arms[d->summary.baseline].label);
    chart->failed |= label.failed;
    mean = kvsi_chart_series(chart, KVSI_MEAN, colour, label.data ? label.data : "");
    for (size_t i = 0; i < d->curve_count; i++)
        kvsi_series_add(mean, (double)d->curve[i].step, d->curve[i].mean, d->curve[i].error);
    kvsi_text_release(&label);
}

/* The legend stands above the highest curve. */
static void add_differences(kvsi_chart *chart, const kvsi_arms *arms, const extent *e)
{
    kvsi_panel *panel = kvsi_chart_panel(chart, "", "training step", "difference");
    kvsi_series *zero = kvsi_chart_series(chart, KVSI_RULE, 0, "");
    range r = {0, 0};

    panel->height = DIFFERENCES;
    panel->x_low = 0;
    panel->x_high = MARGIN * (double)e->last_step;
    panel->key = "inside top right";
    kvsi_series_add(zero, 0, 0, NAN);
    kvsi_series_add(zero, panel->x_high, 0, NAN);
    for (size_t i = 0; i < arms->difference_count; i++)
        add_difference(chart, &r, arms, arms->differences + i);
    set_y_range(panel, r, 0.16 + 0.14 * (double)arms->difference_count);
}

kvs_status kvsi_plot_losses(char **svg, const char *title, const kvsi_arms *arms, kvs_err *err)
{
    const extent e = extent_of(arms);
    kvsi_chart chart = {.name = "losses", .id = "losses"};
    kvs_status st;

    add_losses(&chart, title, arms, &e, 0);
    if (arms->difference_count > 0)
        add_differences(&chart, arms, &e);
    if (!e.same_tokens && e.last_token > 0)
        add_losses(&chart, "", arms, &e, 1);
    st = kvsi_chart_draw(svg, &chart, err);
    kvsi_chart_release(&chart);
    return st;
}
