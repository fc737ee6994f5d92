#include "repro/curves.h"

#include "base/memory.h"
#include "report/plot.h"

#include <math.h>

/* Points that all runs of the arm have. */
static size_t common_points(const kvsi_trial_arm *arm)
{
    size_t count = SIZE_MAX;

    for (size_t r = 0; r < arm->count; r++)
        if (arm->runs[r].log.point_count < count)
            count = arm->runs[r].log.point_count;
    return arm->count ? count : 0;
}

void kvsi_curve_of_accuracy(kvsi_chart *chart, size_t colour, const kvsi_trial_arm *arm,
                            const char *label)
{
    kvsi_series *series = kvsi_chart_series(chart, KVSI_LINE, colour, label);
    const size_t count = common_points(arm);
    uint64_t next = 0;

    for (size_t i = 0; i < count; i++) {
        const uint64_t step = arm->runs[0].log.points[i].step;
        double values[KVSI_SEEDS_MAX];
        kvsi_estimate mean;

        /* On the axis, steps closer than two percent fall on each other. */
        if (step < next && i + 1 < count)
            continue;
        for (size_t r = 0; r < arm->count; r++)
            values[r] = 100 * kvsi_run_recent_accuracy(&arm->runs[r].log, i);
        mean = kvsi_estimate_of(values, arm->count);
        kvsi_series_add(series, (double)step, mean.mean, mean.error);
        next = step + step / 50 + 1;
    }
}

void kvsi_curve_of_difference(kvsi_chart *chart, size_t colour, const kvsi_trial_arm *arm,
                              const kvsi_trial_arm *reference, const char *label)
{
    kvsi_series *series = kvsi_chart_series(chart, KVSI_MARKED, colour, label);
    const kvsi_run *first = &arm->runs[0].log;

    for (size_t i = 0; i < first->evaluation_count; i++) {
        const uint64_t step = first->evaluations[i].step;
        double values[KVSI_SEEDS_MAX];

        for (size_t r = 0; r < arm->count; r++)
            values[r] = kvsi_run_loss_at(&arm->runs[r].log, step) -
                        kvsi_run_loss_at(&reference->runs[r].log, step);
        kvsi_series_add(series, (double)step, kvsi_estimate_of(values, arm->count).mean, NAN);
    }
}

/* ---- training losses ------------------------------------------------------------------------- */

enum { TRAINING_POINTS = 120, PARTS = 20 };

/* Of a run, up to point `last`; NaN where it has none. */
static double smoothed(const kvsi_run *run, size_t last, size_t width)
{
    double sum = 0;

    if (last >= run->point_count)
        return NAN;
    if (width > last + 1)
        width = last + 1;
    for (size_t i = last + 1 - width; i <= last; i++)
        sum += run->points[i].loss;
    return sum / (double)width;
}

static void add_training(kvsi_series *series, const kvsi_trial_run *runs, size_t count)
{
    const size_t steps = (size_t)runs[0].plan->train.steps, stride = steps / TRAINING_POINTS + 1,
                 width = steps / PARTS + 1;

    for (size_t i = 0; i < steps; i += stride) {
        double sum = 0;

        for (size_t r = 0; r < count; r++)
            sum += smoothed(&runs[r].log, i, width);
        kvsi_series_add(series, (double)(i + 1), sum / (double)count, NAN);
    }
}

void kvsi_curves_of_training(kvsi_chart *chart, size_t colour, const kvsi_trial_arm *arm,
                             const char *label)
{
    for (size_t r = 0; r < arm->count; r++) {
        char name[96];

        snprintf(name, sizeof name, "%s, seed %zu", label, r + 1);
        add_training(kvsi_chart_series(chart, KVSI_THIN, colour, name), arm->runs + r, 1);
    }
    add_training(kvsi_chart_series(chart, KVSI_LINE, colour, label), arm->runs, arm->count);
}

/* ---- as a report draws them ------------------------------------------------------------------ */

static kvs_status draw_arms(char **svg, const kvsi_trial_run *runs, size_t count, kvs_err *err)
{
    kvsi_run *logs = kvsi_alloc(count, sizeof *logs);
    kvsi_arms arms = {0};
    kvs_status st;

    if (!logs)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for a drawing of %zu runs", count);
    for (size_t i = 0; i < count; i++)
        logs[i] = runs[i].log; /* still the trial's */
    TRY_OUT(kvsi_arms_create(&arms, logs, count, err));
    TRY_OUT(kvsi_plot_losses(svg, &arms, err));
out:
    kvsi_arms_release(&arms);
    kvsi_free(logs);
    return st;
}

void kvsi_draw_losses(kvsi_findings *f, const kvsi_trial *trial, size_t first, size_t count,
                      const char *name, const char *caption)
{
    const kvsi_trial_arm arm = kvsi_trial_arm_at(trial, first);
    char *svg = NULL;
    kvs_err why = {.status = KVS_OK};
    const kvs_status st = draw_arms(&svg, arm.runs, count * trial->plan->seeds, &why);

    kvsi_findings_drawn(f, st, &why, name, caption, svg);
    kvsi_free(svg);
}
