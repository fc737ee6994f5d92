/* cli/progress.h - how a run is doing, on standard error.
 *
 * On a terminal one line is rewritten in place, at most ten times a second; elsewhere about twenty
 * plain lines are printed over the whole run. */
#ifndef KVSI_CLI_PROGRESS_H
#define KVSI_CLI_PROGRESS_H

#include "kvshift/kvshift.h"

enum { KVSI_PROGRESS_BATCHES = 20 }; /* accuracy is their mean */

typedef struct kvsi_progress {
    uint64_t steps; /* of the whole run */
    double epochs;  /* of a step: the share of the training text it has; 0 = there is no text */
    int quiet, terminal, line_open;
    double started, shown; /* clock seconds */
    double accuracies[KVSI_PROGRESS_BATCHES];
    double eval_loss; /* the latest; NaN before the first */
    uint64_t done, tokens;
} kvsi_progress;

void kvsi_progress_start(kvsi_progress *progress, uint64_t steps, double epochs, int quiet);
void kvsi_progress_step(kvsi_progress *progress, const kvs_step_record *record);
/* Wipes the line that is being rewritten, so that others can be printed. */
void kvsi_progress_clear(kvsi_progress *progress);
void kvsi_progress_end(kvsi_progress *progress); /* leaves the line in place, ready for others */

#endif
