/* report/plot.h - curves, drawn by gnuplot as SVG.
 *
 * The texts (kvsi_free) are whole SVG files.  KVS_E_UNSUPPORTED if gnuplot is not there. */
#ifndef KVSI_REPORT_PLOT_H
#define KVSI_REPORT_PLOT_H

#include "kvshift/kvshift_lab.h"
#include "report/arms.h"

/* Accuracy against step, one curve a run: the mean of the last 20 batches (plot_accuracy.c). */
kvs_status kvsi_plot_accuracy(char **svg, const kvsi_run *runs, size_t count, kvs_err *err);
/* Losses on text against step and tokens, one colour an arm, and below them the differences from
 * the baseline (plot_losses.c). */
kvs_status kvsi_plot_losses(char **svg, const kvsi_arms *arms, kvs_err *err);
/* Losses of theorem 3 over the square, side by side (plot_landscape.c). */
kvs_status kvsi_plot_landscape(char **svg, const kvs_theorem3 *panels, size_t count, size_t columns,
                               kvs_err *err);

#endif
