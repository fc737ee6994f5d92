/* data/batch.h - checks and copies ragged batches of the caller. */
#ifndef KVSI_DATA_BATCH_H
#define KVSI_DATA_BATCH_H

#include "base/status.h"

/* What kvsi_batch_take accepts. */
typedef struct kvsi_batch_limits {
    const char *what;    /* the first word of messages: "train", "batch" */
    size_t vocab;        /* ids and targets must be below it; 0 = no limit */
    size_t sequences;    /* largest number of sequences; 0 = no limit */
    size_t length;       /* largest number of tokens of a sequence; 0 = no limit */
    int each_has_target; /* 1 = every sequence must have a target, 0 = one sequence is enough */
} kvsi_batch_limits;

/* Copies the caller's struct, which may have the size of another version of the library, and checks
 * the arrays, the starts, every id and every target, and that there are targets.  The arrays are
 * borrowed. */
kvs_status kvsi_batch_take(kvs_batch *out, const kvs_batch *batch, const kvsi_batch_limits *limits,
                           kvs_err *err);

/* Returns the target of a row of the sequence that ends before row `end`; -1 = none. */
static inline int32_t kvsi_batch_target(const kvs_batch *batch, size_t row, size_t end)
{
    if (batch->mask && !batch->mask[row])
        return -1;
    if (batch->targets)
        return batch->targets[row];
    return row + 1 < end ? batch->ids[row + 1] : -1;
}

/* Copies one sequence of a checked batch with its targets, and returns its length. */
size_t kvsi_batch_copy(int32_t *ids, int32_t *targets, uint8_t *scored, const kvs_batch *batch,
                       size_t sequence);

#endif
