/* train/zero/gradient_sizes.h - the memory of gradients, by what is spread over ranks. */
#ifndef KVSI_TRAIN_ZERO_GRADIENT_SIZES_H
#define KVSI_TRAIN_ZERO_GRADIENT_SIZES_H

#include "model/shard_layout.h"

enum {
    KVSI_INBOXES_MAX = 8, /* buckets that are being received at once */
    KVSI_ROOMS_MAX = 3,
};

/* How many there are of each, and their size in numbers. */
typedef struct kvsi_gradient_sizes {
    size_t slices, slice; /* sums of the rank's slices of a batch; spread: small tensors alone */
    size_t of_pass;       /* one, where a pass is kept apart from its slice; 0 = it is not */
    size_t owns, own;     /* spread: sums of this rank's pieces of matrices */
    size_t rooms, room;   /* spread: units that passes add to and that are being sent */
    size_t inboxes, inbox;
} kvsi_gradient_sizes;

int kvsi_gradients_spread(const kvs_train_config *train);
kvsi_gradient_sizes kvsi_gradient_sizes_of(const kvsi_share *share, const kvs_model_config *model,
                                           const kvs_train_config *train);
/* Bytes of what has gradients, and of what they pass through. */
uint64_t kvsi_gradient_bytes(const kvsi_gradient_sizes *sizes);
uint64_t kvsi_gradient_buffer_bytes(const kvsi_gradient_sizes *sizes);

#endif
