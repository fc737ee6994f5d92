/* data/batch.h - ragged batches of the caller, which are not trusted until they are checked. */
#ifndef KVSI_DATA_BATCH_H
#define KVSI_DATA_BATCH_H

#include "base/status.h"

/* What a batch must fit.  `what` begins the messages: "train", "batch". */
typedef struct kvsi_batch_limits {
    const char *what;
    size_t vocab;          /* ids and targets are below it; 0 = any that are not negative */
    size_t sequences;      /* at most; 0 = any number */
    size_t length;         /* of a sequence at most; 0 = any */
    int targets_every_one; /* every sequence must have a target, not only the batch */
} kvsi_batch_limits;

/* Reads the caller's struct, which may be of another version of the library, and checks all of it:
 * the arrays, the starts, every id and target, and that there is something to learn. */
kvs_status kvsi_batch_take(kvs_batch *out, const kvs_batch *batch, const kvsi_batch_limits *limits,
                           kvs_err *err);

/* The target of a row of the sequence that ends before row `end`; -1 = none. */
static inline int32_t kvsi_batch_target(const kvs_batch *batch, size_t row, size_t end)
{
    if (batch->mask && !batch->mask[row])
        return -1;
    if (batch->targets)
        return batch->targets[row];
    return row + 1 < end ? batch->ids[row + 1] : -1;
}

/* Writes sequence number `sequence` of a checked batch with its targets, and returns its length. */
size_t kvsi_batch_copy(int32_t *ids, int32_t *targets, uint8_t *scored, const kvs_batch *batch,
                       size_t sequence);

#endif
