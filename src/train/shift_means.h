/* train/shift_means.h - two means that describe a trained shift: over heads, the sum of a head's
 * taps and the tap of the current token. */
#ifndef KVSI_TRAIN_SHIFT_MEANS_H
#define KVSI_TRAIN_SHIFT_MEANS_H

#include "model/model.h"
#include "run/run_write.h"

/* Over the heads of layers first .. end-1.  NaN for targets that the model does not shift, and for
 * the form `data`, which has no taps. */
kvs_status kvsi_shift_means_of(kvsi_shift_means *out, const kvs_model *model, size_t first,
                               size_t end, kvs_err *err);

#endif
