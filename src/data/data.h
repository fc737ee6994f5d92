/* data/data.h - the interface of all data: tasks, corpora, arrays of the caller and functions of
 * the caller.  Data is a stream of numbered sequences, which are drawn into ragged batches.
 *
 * A sequence is a pure function of (random stream, sequence number), so that batches do not depend
 * on earlier draws. */
#ifndef KVSI_DATA_DATA_H
#define KVSI_DATA_DATA_H

#include "base/json.h"
#include "base/random.h"
#include "config/config.h"
#include "kvshift/kvshift_lab.h"

typedef struct kvsi_data_ops {
    const char *name;
    /* Writes one sequence of at most data->max_tokens tokens.  `random` is the stream of this
     * sequence; random->index is its number. */
    kvs_status (*draw)(size_t *length, const kvs_data *data, kvsi_random *random, int32_t *ids,
                       int32_t *targets, uint8_t *scored, kvs_err *err);
    json_t *(*describe)(const kvs_data *data); /* settings for the run's log; a new reference */
    void (*release)(kvs_data *data);
    /* Writes an id as readable text.  NULL = ids are printed as numbers. */
    void (*word)(const kvs_data *data, int32_t id, char *out, size_t size);
} kvsi_data_ops;

/* The first member of the struct of every kind of data. */
struct kvs_data {
    const kvsi_data_ops *ops;
    size_t vocab;
    size_t max_tokens;  /* longest input */
    double mean_tokens; /* mean length of inputs */
    int may_fail;       /* draws call a function of the caller, which may fail on one rank only */
    int no_evaluation;  /* there is no evaluation stream */
    /* Input lengths whose accuracy is reported separately, shortest first.  Only `from` and `to`
     * are set. */
    size_t buckets;
    kvs_length_bucket bucket[KVS_LENGTH_BUCKETS_MAX];
};

/* Returns an object with the task's "name" and the settings of its table; a new reference. */
json_t *kvsi_task_describe(const kvs_data *task, const kvsi_settings *table, const void *config);

/* Owns the arrays of a kvs_batch. */
typedef struct kvsi_batch_buffer {
    kvs_batch view;
    size_t max_sequences, max_tokens;
    size_t *starts;
    int32_t *ids, *targets;
    uint8_t *scored;
} kvsi_batch_buffer;

kvs_status kvsi_batch_buffer_init(kvsi_batch_buffer *buffer, const kvs_data *data,
                                  size_t max_sequences, kvs_err *err);
void kvsi_batch_buffer_release(kvsi_batch_buffer *buffer);
/* Draws sequences first .. first+count-1 of a stream; count <= max_sequences.  Allocates
 * nothing. */
kvs_status kvsi_batch_fill(kvsi_batch_buffer *buffer, const kvs_data *data, uint64_t seed,
                           kvsi_purpose purpose, uint64_t first, size_t count, kvs_err *err);
/* Copies sequences first .. first+count-1 of a batch that kvsi_batch_take has checked. */
void kvsi_batch_fill_from(kvsi_batch_buffer *buffer, const kvs_batch *batch, size_t first,
                          size_t count);

#endif
