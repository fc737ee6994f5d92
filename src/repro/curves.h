/* repro/curves.h - arms as curves. */
#ifndef KVSI_REPRO_CURVES_H
#define KVSI_REPRO_CURVES_H

#include "repro/findings.h"
#include "repro/trial.h"

/* Accuracy in percent against step: mean of the last 20 batches, then over the seeds, with the
 * standard error.  Steps are for a logarithmic axis. */
void kvsi_curve_of_accuracy(kvsi_figure *figure, size_t colour, const kvsi_trial_arm *arm,
                            const char *label);

#endif
