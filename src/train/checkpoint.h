/* train/checkpoint.h - saves and restores the state of a trainer, on all ranks, as a checkpoint
 * (run/checkpoint_files.h). */
#ifndef KVSI_TRAIN_CHECKPOINT_H
#define KVSI_TRAIN_CHECKPOINT_H

#include "base/json.h"
#include "model/model.h"

/* What a checkpoint is written from, or read into, on one rank. */
typedef struct kvsi_training_state {
    kvs_model *model;
    const kvsi_shard_layout *layout;
    int moments_sharded;
    size_t trained_from; /* parameters before it have no moments */
    real *mean, *square; /* as in train/optimizer.h: backend memory, whole or sharded */
    json_t *run;         /* run/progress.h; borrowed when written, a new reference when read */
    uint64_t step;
    const kvs_tokenizer *tokenizer; /* written with the model, never read; NULL = none */
} kvsi_training_state;

/* Writes ckpt_dir/step-N and updates the links `latest` and, if it is the best, `best`.
 * Collective; rank 0 writes. */
kvs_status kvsi_checkpoint_write(const char *ckpt_dir, const kvsi_training_state *state,
                                 int is_best, kvs_err *err);
/* Checks a checkpoint and reads it into a model and moments of the same configuration.  Collective;
 * rank 0 reads, other ranks pass NULL for the path. */
kvs_status kvsi_checkpoint_read(kvsi_training_state *state, const char *path, kvs_err *err);

#endif
