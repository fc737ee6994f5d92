/* train/totals.h - sums over passes: loss, targets, correct guesses, tokens. */
#ifndef KVSI_TRAIN_TOTALS_H
#define KVSI_TRAIN_TOTALS_H

#include "data/data.h"
#include "model/pass.h"

typedef struct kvsi_totals {
    double loss; /* sum */
    size_t targets, scored, right, tokens;
    size_t bucket_scored[KVS_LENGTH_BUCKETS_MAX], bucket_right[KVS_LENGTH_BUCKETS_MAX];
} kvsi_totals;

/* Adds a pass after its forward part and loss. */
void kvsi_totals_count(kvsi_totals *sum, const kvsi_pass *pass, const kvsi_loss *loss,
                       const kvs_data *data);
void kvsi_totals_add(kvsi_totals *sum, const kvsi_totals *more);

/* Means, as in the public API.  Other fields are NaN if 0 would be a valid value, otherwise 0. */
kvs_step_record kvsi_totals_record(const kvsi_totals *sum, uint64_t step);
kvs_evaluation kvsi_totals_evaluation(const kvsi_totals *sum, const kvs_data *data);

#endif
