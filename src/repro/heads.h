/* repro/heads.h - the shift coefficients of a run's heads during training. */
#ifndef KVSI_REPRO_HEADS_H
#define KVSI_REPRO_HEADS_H

#include "repro/experiment.h"

/* All heads of the initial model and of each planned checkpoint, as
 * {"steps": [{"step": 0, "heads": [[alpha1, alpha2, beta1, beta2], ...]}, ...]}. */
kvs_status kvsi_heads_measure(json_t **out, const kvsi_finished *run, kvs_err *err);

typedef struct kvsi_head_tally {
    uint64_t step;
    size_t heads;
    double share[KVS_HEAD_KINDS]; /* percent */
    double key_sum, value_sum;    /* means of alpha1 + alpha2 and beta1 + beta2 */
    double away;                  /* mean of |sum - 1| over keys and values */
    double negative;              /* percent of all coefficients */
} kvsi_head_tally;

/* Number of models that were measured, including the initial one. */
size_t kvsi_heads_looks(const kvsi_run_result *run);
kvsi_head_tally kvsi_heads_tally(const kvsi_run_result *run, size_t look);
/* The heads of one measured model, as above; NULL past the end. */
const json_t *kvsi_heads_at(const kvsi_run_result *run, size_t look);
kvs_coefficients kvsi_head_coefficients(const json_t *head);

#endif
