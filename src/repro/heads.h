/* repro/heads.h - what the shift's numbers of a run have become.
 *
 * For a head a1, a2 are the keys' taps for the current and the previous token, b1, b2 the values'.
 */
#ifndef KVSI_REPRO_HEADS_H
#define KVSI_REPRO_HEADS_H

#include "repro/experiment.h"

/* All heads of the model before the first step and of every checkpoint, as
 * {"steps": [{"step": 0, "heads": [[a1, a2, b1, b2], ...]}, ...]}. */
kvs_status kvsi_heads_measure(json_t **out, const kvsi_finished *run, kvs_err *err);

enum {
    KVSI_CURRENT,     /* a1 > a2, b1 > b2: an ordinary head */
    KVSI_KEYS_BACK,   /* a1 <= a2, b1 > b2: an induction head */
    KVSI_VALUES_BACK, /* a1 > a2, b1 <= b2 */
    KVSI_BOTH_BACK,   /* a1 <= a2, b1 <= b2: an ordinary head whose labels are off by one */
    KVSI_HEAD_CLASSES
};

typedef struct kvsi_head_tally {
    uint64_t step;
    size_t heads;
    double share[KVSI_HEAD_CLASSES]; /* percent */
    double key_sum, value_sum;       /* means of a1 + a2 and b1 + b2 */
    double away;                     /* mean of |sum - 1| over keys and values */
    double negative;                 /* percent of all numbers */
} kvsi_head_tally;

/* How often a finished run was looked at, the first model included. */
size_t kvsi_heads_looks(const kvsi_trial_run *run);
kvsi_head_tally kvsi_heads_tally(const kvsi_trial_run *run, size_t look);
/* The heads of one look, as above; NULL past the end. */
const json_t *kvsi_heads_at(const kvsi_trial_run *run, size_t look);
/* a1, a2, b1, b2 of a head. */
double kvsi_head_tap(const json_t *head, size_t index);

#endif
