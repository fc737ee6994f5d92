/* train/zero/reduce_scatter.h - gradients of a step, and how those of all ranks become one.
 *
 * Whole (shard none, optimizer): a rank adds up its gradients in a block, and in the last pass of a
 * step every bucket is sent as soon as it is complete.  Spread (gradients, parameters): there is
 * room for two units only, every pass sends what it has, and a rank keeps the sum of its own pieces
 * alone.
 *
 * A bucket on its way: every rank receives its piece of the bucket from all ranks, adds them up in
 * a tree, ((0 + 1) + (2 + 3)) + ..., and, where all ranks want all of it, hands its piece out
 * again.  Buckets are sent, and handed out, in the order in which they were completed, which is the
 * same on all ranks.
 *
 * Where bits must not depend on the ranks, the gradients of the slices of a batch are kept apart
 * until the end and added up in the same tree; and those of a pass until it is over, so that it
 * does not matter whether it adds to a sum or is sent. */
#ifndef KVSI_TRAIN_ZERO_REDUCE_SCATTER_H
#define KVSI_TRAIN_ZERO_REDUCE_SCATTER_H

#include "train/zero/collectives.h"

typedef struct kvsi_gradients kvsi_gradients;

kvs_status kvsi_gradients_create(kvsi_gradients **out, kvsi_team *team, kvs_err *err);
void kvsi_gradients_free(kvsi_gradients *gradients);

/* A step: begins with zeros; passes say which of the rank's slices they belong to and whether they
 * are the last of the step; at its end all is added up. */
void kvsi_gradients_begin(kvsi_gradients *gradients);
void kvsi_gradients_pass(kvsi_gradients *gradients, size_t slice, int is_last);
void kvsi_gradients_passed(kvsi_gradients *gradients);
kvs_status kvsi_gradients_end(kvsi_gradients *gradients, kvs_err *err);

/* What the pass is given. */
real *kvsi_gradients_block(const kvsi_gradients *gradients);
/* What the hooks of the pass do. */
int kvsi_gradients_are_spread(const kvsi_gradients *gradients);
void kvsi_gradients_want(kvsi_gradients *gradients, size_t unit);
real *kvsi_gradients_at(kvsi_gradients *gradients, size_t offset);
void kvsi_gradients_complete(kvsi_gradients *gradients, size_t unit);
/* Moves buckets on that are on their way; to be called now and then. */
void kvsi_gradients_move(kvsi_gradients *gradients);

/* After the end: the sum of all ranks' gradients, from an offset of the block on, which is in the
 * given bucket; of matrices, where they are spread, in this rank's piece of it. */
real *kvsi_gradients_sum(const kvsi_gradients *gradients, const kvsi_bucket *bucket, size_t offset);

/* The same wherever it is: from an offset on, *count numbers that this rank has, or NULL and *count
 * that it has not. */
const real *kvsi_gradients_known(const kvsi_gradients *gradients, size_t offset, size_t *count);

#endif
