#include "repro/curves.h"

#include "base/memory.h"
#include "report/plot.h"

#include <math.h>

void kvsi_accuracy_of_arm(kvsi_chart *chart, size_t colour, const kvsi_arm_result *arm,
                          const char *label)
{
    const kvsi_run *logs[KVSI_SEEDS_MAX];

    for (size_t r = 0; r < arm->count; r++)
        logs[r] = &arm->runs[r].log;
    kvsi_curve_of_accuracy(chart, colour, label, logs, arm->count);
}

void kvsi_curve_of_difference(kvsi_chart *chart, size_t colour, const kvsi_arm_result *arm,
                              const kvsi_arm_result *reference, const char *label)
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

static void add_training(kvsi_series *series, const kvsi_run_result *runs, size_t count)
{
    const size_t steps = (size_t)runs[0].plan->train.steps, stride = steps / TRAINING_POINTS + 1,
                 width = steps / PARTS + 1;
    const kvsi_run *logs[KVSI_SEEDS_MAX];

    for (size_t r = 0; r < count; r++)
        logs[r] = &runs[r].log;
    for (size_t i = 0; i < steps; i += stride)
        kvsi_series_add(series, (double)(i + 1), kvsi_recent_loss(logs, count, i, width), NAN);
}

void kvsi_curves_of_training(kvsi_chart *chart, size_t colour, const kvsi_arm_result *arm,
                             const char *label)
{
    for (size_t r = 0; r < arm->count; r++) {
        char name[96];

        snprintf(name, sizeof name, "%s, seed %zu", label, r + 1);
        add_training(kvsi_chart_series(chart, KVSI_THIN, colour, name), arm->runs + r, 1);
    }
    add_training(kvsi_chart_series(chart, KVSI_LINE, colour, label), arm->runs, arm->count);
}

/* ---- as in a report -------------------------------------------------------------------------- */

static kvs_status draw_arms(char **svg, const kvsi_run_result *runs, size_t count, kvs_err *err)
{
    kvsi_run *logs = kvsi_alloc(count, sizeof *logs);
    kvsi_arms arms = {0};
    kvs_status st;

    if (!logs)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for a drawing of %zu runs", count);
    for (size_t i = 0; i < count; i++)
        logs[i] = runs[i].log; /* still owned by the results */
    TRY_OUT(kvsi_arms_create(&arms, logs, count, err));
    TRY_OUT(kvsi_plot_losses(svg, "", &arms, err));
out:
    kvsi_arms_release(&arms);
    kvsi_free(logs);
    return st;
}

void kvsi_draw_losses(kvsi_claims *out, const kvsi_results *results, size_t first, size_t count,
                      const char *name, const char *caption)
{
    const kvsi_arm_result arm = kvsi_results_arm(results, first);
    char *svg = NULL;
    kvs_err why = {.status = KVS_OK};
    const kvs_status st = draw_arms(&svg, arm.runs, count * results->plan->seeds, &why);

    kvsi_claims_svg(out, st, &why, name, caption, svg);
    kvsi_free(svg);
}
