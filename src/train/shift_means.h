/* train/shift_means.h - what the shift has become, in two numbers: means over heads of the sum of
 * their taps and of the current token's tap. */
#ifndef KVSI_TRAIN_SHIFT_MEANS_H
#define KVSI_TRAIN_SHIFT_MEANS_H

#include "model/model.h"

/* The targets with their letters, in the order in which they are written. */
typedef struct kvsi_shift_target {
    unsigned target;
    char letter;
} kvsi_shift_target;

enum { KVSI_SHIFT_TARGETS = 3 };
extern const kvsi_shift_target kvsi_shift_targets[KVSI_SHIFT_TARGETS];

/* Over the heads of layers first .. end-1; NaN if the model does not shift the target, and for the
 * form `data`, which has no taps. */
kvs_status kvsi_shift_mean_of(kvs_shift_mean *out, const kvs_model *model, unsigned target,
                              size_t first, size_t end, kvs_err *err);

/* The place of a target in a record. */
kvs_shift_mean *kvsi_record_shift(kvs_step_record *record, unsigned target);

#endif
