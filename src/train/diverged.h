/* train/diverged.h - where numbers stopped being numbers. */
#ifndef KVSI_TRAIN_DIVERGED_H
#define KVSI_TRAIN_DIVERGED_H

#include "train/reducer.h"

enum { KVSI_WHERE_SIZE = KVSI_NAME_SIZE + 64 };

/* Names the first tensor that is not finite, in the order in which things are computed: the
 * weights; then, where the loss was finite and `gradients` are given, those, from the last tensor
 * back to the first; else what the pass left of its forward part.  Looks at what this rank has, and
 * returns whether there was anything. */
int kvsi_find_not_finite(char where[KVSI_WHERE_SIZE], kvsi_pass *pass,
                         const kvsi_reducer *gradients);

#endif
