/* train/trainer.h - what a checkpoint needs of a trainer; the rest of it is public. */
#ifndef KVSI_TRAIN_TRAINER_H
#define KVSI_TRAIN_TRAINER_H

#include "train/checkpoint.h"

/* The trainer's own model and moments, and the steps it has done; `run` is left NULL. */
kvsi_training_state kvsi_trainer_state(kvs_trainer *trainer);
/* After its state was read back: the number of steps that led there. */
void kvsi_trainer_set_step(kvs_trainer *trainer, uint64_t step);

/* From now on weights may still be on their way after a step; the next pass waits for them. */
void kvsi_trainer_be_lazy(kvs_trainer *trainer);
/* Fails if kvs_trainer_evaluate cannot evaluate that many sequences. */
kvs_status kvsi_trainer_check_evaluation(size_t sequences, kvs_err *err);
/* Before anything else looks at the model: waits for them. */
kvs_status kvsi_trainer_settle(kvs_trainer *trainer, kvs_err *err);

#endif
