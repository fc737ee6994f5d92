/* train/zero/all_gather.h - weights from the ranks that update them to the passes of all.
 *
 * shard none: every rank updates everything.  optimizer, gradients: after an update, pieces are
 * handed out into the whole model of every rank, and a pass waits for a unit when it comes to it.
 * parameters: two units fit at a time, the one that is used and the one that comes next. */
#ifndef KVSI_TRAIN_ZERO_ALL_GATHER_H
#define KVSI_TRAIN_ZERO_ALL_GATHER_H

#include "train/zero/collectives.h"

typedef struct kvsi_fetch kvsi_fetch;

kvs_status kvsi_fetch_create(kvsi_fetch **out, kvsi_team *team, kvs_err *err);
void kvsi_fetch_free(kvsi_fetch *fetch);
uint64_t kvsi_fetch_bytes(const kvsi_share *share, kvs_shard shard);

/* A pass begins; it will want units in the order of kvsi_pass_forward and _loss, and _backward. */
void kvsi_fetch_pass(kvsi_fetch *fetch, int with_backward);
void kvsi_fetch_want(kvsi_fetch *fetch, size_t unit);

/* Every rank has updated its piece of a bucket. */
void kvsi_fetch_updated(kvsi_fetch *fetch, size_t bucket);
/* Waits until the whole model is up to date, where it is whole. */
kvs_status kvsi_fetch_settle(kvsi_fetch *fetch, kvs_err *err);

#endif
