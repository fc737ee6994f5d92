/* data/task.h - the interface of tasks: numbered sequences in ragged batches.
 *
 * A task is a pure function of (random stream, sequence number), so that batches do not depend on
 * earlier draws. */
#ifndef KVSI_DATA_TASK_H
#define KVSI_DATA_TASK_H

#include "base/json.h"
#include "base/random.h"
#include "config/config.h"
#include "kvshift/kvshift_lab.h"

typedef struct kvsi_task_ops {
    const char *name;
    /* Writes one sequence (at most `max_tokens` of the task).  `random` is the sequence's own
     * stream; random->index is its number. */
    kvs_status (*draw)(size_t *length, const kvs_data *task, kvsi_random *random, int32_t *ids,
                       int32_t *targets, uint8_t *scored, kvs_err *err);
    json_t *(*describe)(const kvs_data *task); /* settings for the run's log; a new reference */
    void (*release)(kvs_data *task);
    /* The text of an id, for people; NULL = only ids. */
    void (*word)(const kvs_data *task, int32_t id, char *out, size_t size);
} kvsi_task_ops;

/* The first member of every task. */
struct kvs_data {
    const kvsi_task_ops *ops;
    size_t vocab;
    size_t max_tokens;  /* longest input */
    double mean_tokens; /* mean length of inputs */
    int may_fail;       /* draws run code of the caller: they may fail on one rank only */
    int no_evaluation;  /* there is no evaluation stream */
    /* Input lengths whose accuracy is reported separately, shortest first: `from` and `to` only. */
    size_t buckets;
    kvs_length_bucket bucket[KVS_LENGTH_BUCKETS_MAX];
};

/* {"name": ..., and the settings of a task's table}, a new reference. */
json_t *kvsi_task_describe(const kvs_data *task, const kvsi_settings *table, const void *config);

/* Owns the arrays of a kvs_batch. */
typedef struct kvsi_batch_buffer {
    kvs_batch view;
    size_t max_sequences, max_tokens;
    size_t *starts;
    int32_t *ids, *targets;
    uint8_t *scored;
} kvsi_batch_buffer;

kvs_status kvsi_batch_buffer_init(kvsi_batch_buffer *buffer, const kvs_data *task,
                                  size_t max_sequences, kvs_err *err);
void kvsi_batch_buffer_release(kvsi_batch_buffer *buffer);
/* Draws sequences first .. first+count-1 of a stream; count <= max_sequences.  No allocation. */
kvs_status kvsi_batch_fill(kvsi_batch_buffer *buffer, const kvs_data *task, uint64_t seed,
                           kvsi_purpose purpose, uint64_t first, size_t count, kvs_err *err);
/* Copies sequences first .. first+count-1 of a batch that was checked (data/batch.h). */
void kvsi_batch_fill_from(kvsi_batch_buffer *buffer, const kvs_batch *batch, size_t first,
                          size_t count);

#endif
