/* cli/progress.h - progress of long work, on standard error.
 *
 * On a terminal one line is rewritten in place, at most ten times per second; elsewhere plain lines
 * are printed now and then. */
#ifndef KVSI_CLI_PROGRESS_H
#define KVSI_CLI_PROGRESS_H

#include "kvshift/kvshift.h"

typedef struct kvsi_progress {
    int quiet, terminal, line_open;
    double started, shown; /* clock seconds */
} kvsi_progress;

void kvsi_progress_start(kvsi_progress *progress, int quiet);
/* Whether to show a line now: not in the first two seconds, and elsewhere than on a terminal every
 * ten seconds.  *elapsed is set to the seconds since the start. */
int kvsi_progress_is_due(kvsi_progress *progress, double *elapsed);
void kvsi_progress_show(kvsi_progress *progress, const char *line);
/* Deletes the line that is being rewritten, so that others can be printed. */
void kvsi_progress_clear(kvsi_progress *progress);
/* Ends the line that is being rewritten. */
void kvsi_progress_end(kvsi_progress *progress);

/* ---- work whose end cannot be foreseen ---- */

/* On a terminal, shows what is being done and for how long, once per second, from another thread:
 * the work itself reports nothing.  Elsewhere nothing is shown. */
typedef struct kvsi_waiting kvsi_waiting;
kvsi_waiting *kvsi_waiting_start(const char *what); /* borrowed; NULL = nothing is shown */
void kvsi_waiting_end(kvsi_waiting *waiting);       /* NULL does nothing */

/* ---- training -------------------------------------------------------------------------------- */

enum { KVSI_PROGRESS_STEPS = 20 }; /* the accuracy shown is the mean over these */

typedef struct kvsi_train_progress {
    kvsi_progress line;
    uint64_t steps;         /* of the whole run */
    double epochs_per_step; /* 0 = the task has no epochs */
    double accuracies[KVSI_PROGRESS_STEPS];
    double eval_loss; /* of the latest evaluation; NaN before the first */
    uint64_t done, tokens;
} kvsi_train_progress;

void kvsi_train_progress_start(kvsi_train_progress *p, uint64_t steps, double epochs_per_step,
                               int quiet);
/* About twenty lines are printed over the whole run; on a terminal a last line is rewritten. */
void kvsi_train_progress_step(kvsi_train_progress *p, const kvs_step_record *record);

#endif
