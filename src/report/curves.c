#include "report/curves.h"

#include "base/memory.h"
#include "base/statistics.h"

#include <math.h>

double kvsi_recent_loss(const kvsi_run *const *runs, size_t count, size_t last, size_t width)
{
    const size_t first = last + 1 > width ? last + 1 - width : 0;
    double sum = 0;
    size_t batches = 0;

    for (size_t r = 0; r < count; r++) {
        if (last >= runs[r]->point_count)
            return NAN;
        for (size_t i = first; i <= last; i++) {
            const double loss = runs[r]->points[i].loss;

            sum += isnan(loss) ? 0 : loss;
            batches += isnan(loss) ? 0 : 1;
        }
    }
    return batches ? sum / (double)batches : NAN;
}

void kvsi_curve_of_accuracy(kvsi_chart *chart, size_t colour, const char *label,
                            const kvsi_run *const *runs, size_t count)
{
    kvsi_series *series = kvsi_chart_series(chart, KVSI_LINE, colour, label);
    double *values = kvsi_alloc(count, sizeof *values);
    size_t points = runs[0]->point_count;
    uint64_t next = 0;

    if (!values) {
        chart->failed = 1;
        return;
    }
    for (size_t r = 1; r < count; r++)
        points = runs[r]->point_count < points ? runs[r]->point_count : points;
    for (size_t i = 0; i < points; i++) {
        const uint64_t step = runs[0]->points[i].step;
        kvsi_estimate mean;

        /* Steps closer than two percent coincide on the axis. */
        if (step < next && i + 1 < points)
            continue;
        for (size_t r = 0; r < count; r++)
            values[r] = 100 * kvsi_run_recent_accuracy(runs[r], i);
        mean = kvsi_estimate_of(values, count);
        kvsi_series_add(series, (double)step, mean.mean, mean.error);
        next = step + step / 50 + 1;
    }
    kvsi_free(values);
}

kvsi_panel *kvsi_panel_of_accuracy(kvsi_chart *chart, const char *title, const char *y_label)
{
    kvsi_panel *panel = kvsi_chart_panel(chart, title, "training step", y_label);

    panel->log_x = 10;
    panel->y_low = 0;
    panel->y_high = 102;
    panel->y_format = "%g %%";
    panel->key = "inside top left";
    return panel;
}
