/* report/plot.h - curves of runs and the landscape of theorem 3, as SVG files (kvsi_free).
 *
 * KVS_E_UNSUPPORTED without gnuplot. */
#ifndef KVSI_REPORT_PLOT_H
#define KVSI_REPORT_PLOT_H

#include "kvshift/kvshift_lab.h"
#include "report/arms.h"

/* Accuracy against step, one curve per run: mean of the last 20 batches. */
kvs_status kvsi_plot_accuracy(char **svg, const char *title, const kvsi_run *runs, size_t count,
                              kvs_err *err);
/* Losses on text against step and tokens, one colour per arm, and the differences from the
 * baseline. */
kvs_status kvsi_plot_losses(char **svg, const char *title, const kvsi_arms *arms, kvs_err *err);
/* Validation losses against the time of the training steps and against 6 * parameters * tokens;
 * *svg is NULL if there are none. */
kvs_status kvsi_plot_costs(char **svg, const kvsi_arms *arms, kvs_err *err);
/* Learning rate, gradient norm and taps of the shift against step, and the taps at the end by
 * layer; one colour per run.  *svg is NULL if the runs have none of them. */
kvs_status kvsi_plot_training(char **svg, const kvsi_run *runs, size_t count, kvs_err *err);
/* Scores on benchmarks against step: one panel per benchmark and metric, one curve per run.  If the
 * runs have none, *svg is NULL. */
kvs_status kvsi_plot_benchmarks(char **svg, const kvsi_run *runs, size_t count, kvs_err *err);
/* Loss of theorem 3 over the square, one panel per problem. */
kvs_status kvsi_plot_landscape(char **svg, const kvs_theorem3 *panels, size_t count, size_t columns,
                               kvs_err *err);

#endif
