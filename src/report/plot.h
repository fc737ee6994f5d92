/* report/plot.h - curves, drawn by gnuplot as SVG. */
#ifndef KVSI_REPORT_PLOT_H
#define KVSI_REPORT_PLOT_H

#include "report/run.h"

/* Accuracy against step, one curve a run: the mean of the last 20 batches.  The text (kvsi_free)
 * is a whole SVG file.  KVS_E_UNSUPPORTED if gnuplot is not there. */
kvs_status kvsi_plot_accuracy(char **svg, const kvsi_run *runs, size_t count, kvs_err *err);

#endif
