/* report/curves.h - the logs of runs, smoothed, as series of a chart. */
#ifndef KVSI_REPORT_CURVES_H
#define KVSI_REPORT_CURVES_H

#include "report/chart.h"
#include "report/run.h"

/* Mean training loss over the runs and their `width` batches up to point `last`; NaN if a run lacks
 * it. */
double kvsi_recent_loss(const kvsi_run *const *runs, size_t count, size_t last, size_t width);

/* Accuracy in percent against step: mean of the last 20 batches, then over the runs, with the
 * standard error.  The spacing of the steps is for a logarithmic axis. */
void kvsi_curve_of_accuracy(kvsi_chart *chart, size_t colour, const char *label,
                            const kvsi_run *const *runs, size_t count);
/* A panel for such curves. */
kvsi_panel *kvsi_panel_of_accuracy(kvsi_chart *chart, const char *title, const char *y_label);

#endif
