/* train/zero/all_gather.h - brings parameters from the ranks that update them to the passes.
 *
 * Stage 0 (shard none): every rank updates all parameters; there is nothing to gather.
 * Stages 1 and 2 (optimizer, gradients): after an update, the all-gather of each bucket into the
 * whole model starts; it is in flight while the next step begins, and a pass waits for a block when
 * it needs it.
 * Stage 3 (parameters): the model has shards only.  There are two slots, each large enough for one
 * block: the block in use, and the next one of the pass, whose all-gather is in flight. */
#ifndef KVSI_TRAIN_ZERO_ALL_GATHER_H
#define KVSI_TRAIN_ZERO_ALL_GATHER_H

#include "train/zero/collectives.h"

typedef struct kvsi_all_gather kvsi_all_gather;

kvs_status kvsi_all_gather_create(kvsi_all_gather **out, kvsi_collectives *collectives,
                                  kvs_err *err);
void kvsi_all_gather_free(kvsi_all_gather *g);
/* Bytes of the slots. */
uint64_t kvsi_all_gather_bytes(const kvsi_shard_layout *layout, kvsi_shard_stage shard);

/* A pass begins.  It needs blocks in the order of kvsi_pass_forward, _loss and _backward. */
void kvsi_all_gather_begin_pass(kvsi_all_gather *g, int backward);
/* Waits for the parameters of a block. */
void kvsi_all_gather_need(kvsi_all_gather *g, size_t block);

/* This rank, like all others, has updated its shard of a bucket. */
void kvsi_all_gather_updated(kvsi_all_gather *g, size_t bucket);
/* Discards gathered blocks, after the shards were replaced or updated. */
void kvsi_all_gather_forget(kvsi_all_gather *g);
/* Waits for everything in flight, and reports failures of transfers. */
kvs_status kvsi_all_gather_wait(kvsi_all_gather *g, kvs_err *err);

#endif
