/* train/zero/gradient_sizes.h - the memory of gradients for each ZeRO stage. */
#ifndef KVSI_TRAIN_ZERO_GRADIENT_SIZES_H
#define KVSI_TRAIN_ZERO_GRADIENT_SIZES_H

#include "model/shard_layout.h"

enum {
    KVSI_RECEIVES_MAX = 8, /* buckets that are received at once */
    KVSI_SLOTS_MAX = 3,
};

/* The number of buffers of each kind, and values per buffer.  "Sharded" is stages 2 and 3. */
typedef struct kvsi_gradient_sizes {
    size_t slices, slice;     /* sums of this rank's slices; sharded: small tensors only */
    size_t pass;              /* one buffer per pass, before it is added to its slice; 0 = none */
    size_t shard_sums, shard; /* sharded: sums of this rank's shards of matrices */
    size_t slots, slot;       /* sharded: blocks that a pass adds to or that are in flight */
    size_t receives, receive; /* buffers that a bucket's shards are received in */
} kvsi_gradient_sizes;

kvsi_gradient_sizes kvsi_gradient_sizes_of(const kvsi_shard_layout *layout,
                                           const kvs_model_config *model,
                                           const kvs_train_config *train);
/* Bytes of the sums, and of the other buffers. */
uint64_t kvsi_gradient_bytes(const kvsi_gradient_sizes *sizes);
uint64_t kvsi_gradient_buffer_bytes(const kvsi_gradient_sizes *sizes);

#endif
