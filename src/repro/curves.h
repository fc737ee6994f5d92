/* repro/curves.h - curves of arms. */
#ifndef KVSI_REPRO_CURVES_H
#define KVSI_REPRO_CURVES_H

#include "report/curves.h"
#include "repro/claims.h"
#include "repro/results.h"

/* Adds the arm's accuracy, over its seeds (kvsi_curve_of_accuracy). */
void kvsi_accuracy_of_arm(kvsi_chart *chart, size_t colour, const kvsi_arm_result *arm,
                          const char *label);
/* Validation loss minus that of another arm with the same seed, against step, at each evaluation
 * that all runs have; mean over the seeds. */
void kvsi_curve_of_difference(kvsi_chart *chart, size_t colour, const kvsi_arm_result *arm,
                              const kvsi_arm_result *reference, const char *label);
/* Training loss against step: running mean over a twentieth of the run, as one thin line per seed
 * and one line for all. */
void kvsi_curves_of_training(kvsi_chart *chart, size_t colour, const kvsi_arm_result *arm,
                             const char *label);

/* Losses of arms first .. first+count-1 on text, drawn as by 'kvshift report'. */
void kvsi_draw_losses(kvsi_claims *claims, const kvsi_results *results, size_t first, size_t count,
                      const char *name, const char *caption);

#endif
