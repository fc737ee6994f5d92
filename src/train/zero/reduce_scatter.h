/* train/zero/reduce_scatter.h - sums the gradients of all ranks, bucket by bucket, while the
 * backward pass runs.
 *
 * Stages 0 and 1 (shard none, optimizer): a rank sums the gradients of its passes in one buffer.
 * In the last pass of a step the reduction of each bucket starts as soon as its block is ready.
 *
 * Stages 2 and 3 (gradients, parameters): there are slots for two blocks only, or three if the
 * embedding is tied.  Every pass sends its blocks as they become ready, and a rank keeps the sum of
 * its shards.
 *
 * The reduction of one bucket:
 *     1. all-to-all: every rank receives its shard of the bucket from all ranks,
 *     2. sum: the rank adds them in a fixed tree, ((0 + 1) + (2 + 3)) + ...,
 *     3. all-gather of the sums, if every rank needs all of them (stage 0, small tensors).
 * Buckets start in the order in which they become ready, which is the same on all ranks.
 *
 * In a deterministic run, the gradients of the slices of a batch are kept apart until the end of
 * the step and added in the same tree, whichever ranks have them.  Those of a pass are kept apart
 * until the pass ends, so that it makes no difference whether they are added here or sent. */
#ifndef KVSI_TRAIN_ZERO_REDUCE_SCATTER_H
#define KVSI_TRAIN_ZERO_REDUCE_SCATTER_H

#include "train/zero/collectives.h"

typedef struct kvsi_reduce_scatter kvsi_reduce_scatter;

/* Sets the sums of the reducer. */
kvs_status kvsi_reduce_scatter_create(kvsi_reduce_scatter **out, kvsi_collectives *collectives,
                                      kvs_err *err);
void kvsi_reduce_scatter_free(kvsi_reduce_scatter *g);

/* As in train/reducer.h. */
void kvsi_reduce_scatter_begin_step(kvsi_reduce_scatter *g);
real *kvsi_reduce_scatter_begin_pass(kvsi_reduce_scatter *g, size_t slice, int is_last);
void kvsi_reduce_scatter_end_pass(kvsi_reduce_scatter *g);
kvs_status kvsi_reduce_scatter_finish(kvsi_reduce_scatter *g, kvs_err *err);

/* Hooks of the pass.  The gradients of a block: needed, at an offset, ready. */
void kvsi_reduce_scatter_need(kvsi_reduce_scatter *g, size_t block);
real *kvsi_reduce_scatter_at(kvsi_reduce_scatter *g, size_t offset);
void kvsi_reduce_scatter_ready(kvsi_reduce_scatter *g, size_t block);
/* Progresses reductions in flight, without blocking.  To be called now and then. */
void kvsi_reduce_scatter_progress(kvsi_reduce_scatter *g);

#endif
