/* train/diverged.h - finds the tensor in which a run diverged. */
#ifndef KVSI_TRAIN_DIVERGED_H
#define KVSI_TRAIN_DIVERGED_H

#include "train/reducer.h"

enum { KVSI_WHERE_SIZE = KVSI_NAME_SIZE + 64 };

/* Names the first tensor with a value that is not finite, in the order of computation: weights,
 * then activations of the forward pass or, if `gradients` is not NULL because the loss was finite,
 * gradients from the last tensor to the first.  Looks at this rank's part; returns whether it found
 * any. */
int kvsi_find_not_finite(char where[KVSI_WHERE_SIZE], kvsi_pass *pass,
                         const kvsi_reducer *gradients);

#endif
