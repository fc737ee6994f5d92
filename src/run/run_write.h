/* run/run_write.h - writes the folder of a run (run/run.h) while it trains.
 *
 * The log is locked while it is open: a second process is refused. */
#ifndef KVSI_RUN_RUN_WRITE_H
#define KVSI_RUN_RUN_WRITE_H

#include "base/json.h"
#include "run/run.h"

typedef struct kvsi_run_writer kvsi_run_writer;

/* Means over the heads of one layer.  NaN if the layer has no such taps. */
typedef struct kvsi_shift_means {
    kvs_shift_mean k, v, q;
} kvsi_shift_means;

/* Creates the folder job->out, if it does not exist, with the log and job->files; refuses a folder
 * that holds a run.  `settings` is borrowed and becomes the first line of the log.  On failure a
 * folder created here is removed again. */
kvs_status kvsi_run_create(kvsi_run_writer **out, const kvsi_train_job *job, const json_t *settings,
                           kvs_err *err);
/* Continues the run in job->out after `step`: records, samples and scores of later steps are
 * dropped, the final model and result.json of an earlier end are removed, and job->files are
 * written again.  A log without a whole line of settings, which a run killed at its start leaves,
 * gets `settings`. */
kvs_status kvsi_run_continue(kvsi_run_writer **out, const kvsi_train_job *job,
                             const json_t *settings, uint64_t step, kvs_err *err);

/* Writes the record to the log and TensorBoard, and `layers` (may be NULL) to TensorBoard. */
kvs_status kvsi_run_log_step(kvsi_run_writer *run, const kvs_step_record *record,
                             const kvsi_shift_means *layers, size_t layer_count, kvs_err *err);
kvs_status kvsi_run_log_sample(kvsi_run_writer *run, uint64_t step, const kvs_sample *sample,
                               kvs_err *err);
/* Writes the scores to benchmarks.jsonl and TensorBoard. */
kvs_status kvsi_run_log_benchmarks(kvsi_run_writer *run, uint64_t step,
                                   const kvs_benchmark_scores *scores, kvs_err *err);
/* The last step whose scores a continued run has; 0 = none. */
uint64_t kvsi_run_last_benchmarks(const kvsi_run_writer *run);
/* Writes the final model, result.json and train.csv.  tokenizer may be NULL. */
kvs_status kvsi_run_finish(kvsi_run_writer *run, const kvs_train_result *result,
                           const kvs_model *model, const kvs_tokenizer *tokenizer, kvs_err *err);
void kvsi_run_writer_free(kvsi_run_writer *run); /* NULL does nothing */

#endif
