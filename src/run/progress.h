/* run/progress.h - the state of a run besides weights, moments and the step: the object "run"
 * of a checkpoint's state.json.
 *
 *     settings       as in the first line of the log
 *     tokens         tokens trained on
 *     step_at_99     see kvs_train_result; 0 = not yet
 *     seconds        of training, over all processes
 *     best_loss      lowest evaluation loss; null before the first evaluation
 *     stale          evaluations after that one; earlier versions do not write it
 *     recent_count   batches added to `recent`, a ring buffer of accuracies
 *     recent         accuracies of the last 20 batches, null where nothing was scored
 */
#ifndef KVSI_RUN_PROGRESS_H
#define KVSI_RUN_PROGRESS_H

#include "base/json.h"

/* Batches whose accuracy is averaged to find when a task was learned. */
enum { KVSI_RECENT_BATCHES = 20 };

typedef struct kvsi_run_progress {
    uint64_t tokens, step_at_99;
    double seconds;
    double best_loss; /* INFINITY before the first evaluation */
    uint64_t stale;   /* evaluations since the one with best_loss */
    size_t recent_count;
    double recent[KVSI_RECENT_BATCHES];
} kvsi_run_progress;

/* Adds a batch; returns the mean of the last KVSI_RECENT_BATCHES, NaN if there are fewer. */
double kvsi_progress_add_accuracy(kvsi_run_progress *progress, double accuracy);

/* A new reference; NULL if out of memory.  `settings` is borrowed. */
json_t *kvsi_progress_to_json(const kvsi_run_progress *progress, json_t *settings);
/* `what` names the checkpoint in messages. */
kvs_status kvsi_progress_from_json(kvsi_run_progress *out, const json_t *json, const char *what,
                                   kvs_err *err);

#endif
