/* train/trainer.h - the trainer, beyond its public calls: what kvsi_train and checkpoints need. */
#ifndef KVSI_TRAIN_TRAINER_H
#define KVSI_TRAIN_TRAINER_H

#include "run/run.h"
#include "train/checkpoint.h"

/* Returns the trainer's model, moments and step count; `run` is NULL. */
kvsi_training_state kvsi_trainer_state(kvs_trainer *trainer);
/* Sets the number of steps done, after the state was read from a checkpoint.  Discards gradients
 * and gathered parameters, which belong to the earlier weights. */
void kvsi_trainer_set_step(kvs_trainer *trainer, uint64_t step);
/* Returns kvsi_training_settings of its model, data and configuration, a new reference; NULL if
 * memory runs out. */
json_t *kvsi_trainer_settings(const kvs_trainer *trainer);

/* Like kvs_trainer_step, but writes to a record of the caller, which may be NULL. */
kvs_status kvsi_trainer_step(kvs_trainer *trainer, kvs_step_record *record, kvs_err *err);

/* From now on, kvsi_trainer_step returns while the all-gather of updated parameters is in flight;
 * the next pass waits for each block that it needs.  Before anything else reads the model, call
 * kvsi_trainer_wait. */
void kvsi_trainer_set_async_gather(kvs_trainer *trainer);
kvs_status kvsi_trainer_wait(kvs_trainer *trainer, kvs_err *err);

/* Fails if kvs_trainer_evaluate cannot evaluate that many sequences. */
kvs_status kvsi_trainer_check_evaluation(size_t sequences, kvs_err *err);

/* Implements kvs_train, with its arguments in one struct. */
kvs_status kvsi_train(const kvsi_train_job *job, kvs_train_result *result, kvs_err *err);

#endif
