#include "repro/curves.h"

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

void kvsi_curve_of_accuracy(kvsi_figure *figure, size_t colour, const kvsi_trial_arm *arm,
                            const char *label)
{
    kvsi_series *series = kvsi_figure_series(figure, KVSI_LINE, colour, label);
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
