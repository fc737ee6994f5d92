/* train/checkpoint.h - everything that decides how training goes on, in a folder:
 *
 *     ckpt/step-00001000/  model.safetensors, config.json   as any other model
 *                          optimizer.safetensors            both moments, laid out as the model
 *                          state.json                       the step, what the run remembers, and
 *                                                           the checksums of the files above
 *                          DONE                             the checksum of state.json
 *     ckpt/latest          a link to the newest
 *     ckpt/best            a link to the one with the lowest evaluation loss, if there were any
 *
 * A checkpoint is filled under another name and renamed: one that is there is whole, unless the
 * disk damaged it later, which the checksums tell. */
#ifndef KVSI_TRAIN_CHECKPOINT_H
#define KVSI_TRAIN_CHECKPOINT_H

#include "base/json.h"
#include "model/model.h"

/* What a checkpoint is made from, or read into. */
typedef struct kvsi_training_state {
    kvs_model *model;
    real *mean, *square; /* blocks laid out as the model's parameters, on the backend's side */
    json_t *run;         /* an object of the caller's; a new reference when read */
    uint64_t step;
} kvsi_training_state;

/* Writes ckpt_dir/step-N and moves `latest`, and `best` too if it is; keeps the newest `keep`
 * (0 = all) and the best. */
kvs_status kvsi_checkpoint_write(const char *ckpt_dir, const kvsi_training_state *state,
                                 size_t keep, int is_best, kvs_err *err);

/* The newest whole checkpoint below ckpt_dir, in fresh memory (kvsi_free); NULL if there is none.
 * *skipped counts newer ones that are damaged, `why` says what is wrong with the newest of them. */
kvs_status kvsi_checkpoint_newest(char **path, const char *ckpt_dir, size_t *skipped, kvs_err *why,
                                  kvs_err *err);
/* Checks every file's checksum. */
kvs_status kvsi_checkpoint_check(const char *path, kvs_err *err);
/* Reads a checked checkpoint into a model and moments of the same configuration. */
kvs_status kvsi_checkpoint_read(kvsi_training_state *state, const char *path, kvs_err *err);

#endif
