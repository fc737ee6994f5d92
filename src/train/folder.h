/* train/folder.h - the folder of a run while it is being written.
 *
 *     train.jsonl         settings, then one record a step, as it happens
 *     train.csv           the same records as a table, written at the end
 *     tb/                 the same numbers for TensorBoard
 *     samples.jsonl       texts that the model made on the way, if any were asked for
 *     result.json         how it ended
 *     config.json, model.safetensors, and tokenizer.json if there is one
 *     the job's own files
 *     ckpt/               see train/checkpoint.h
 *
 * The log is locked while a process writes it. */
#ifndef KVSI_TRAIN_FOLDER_H
#define KVSI_TRAIN_FOLDER_H

#include "base/json.h"

typedef struct kvsi_folder kvsi_folder;

/* Makes the folder if need be; refuses one that already holds a run.  `settings` is borrowed; the
 * job says where, and which files go in.  On failure a folder that was made is gone again. */
kvs_status kvsi_folder_create(kvsi_folder **out, const kvs_train_job *job, const json_t *settings,
                              kvs_err *err);
/* Goes on with a run's folder: records and samples of steps after `step` are dropped.  A log that
 * did not live to its settings gets these.  The model of an earlier end goes, see retire_model. */
kvs_status kvsi_folder_reopen(kvsi_folder **out, const kvs_train_job *job, const json_t *settings,
                              uint64_t step, kvs_err *err);
/* With a model, TensorBoard gets the means of its shift layer by layer too. */
kvs_status kvsi_folder_log(kvsi_folder *folder, const kvs_step_record *record,
                           const kvs_model *model, kvs_err *err);
kvs_status kvsi_folder_log_sample(kvsi_folder *folder, uint64_t step, const kvs_sample *sample,
                                  kvs_err *err);
kvs_status kvsi_folder_finish(kvsi_folder *folder, const kvs_train_result *result,
                              const kvs_model *model, const kvs_tokenizer *tokenizer, kvs_err *err);
void kvsi_folder_close(kvsi_folder *folder); /* NULL does nothing */

#endif
