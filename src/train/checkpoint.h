/* train/checkpoint.h - everything that decides how training goes on, in a folder:
 *
 *     ckpt/step-00001000/  model.safetensors, config.json   as any other model
 *                          tokenizer.json                   if the run has a tokenizer
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

/* What a checkpoint is made from, or read into, of one rank. */
typedef struct kvsi_training_state {
    kvs_model *model;
    const kvsi_shard_layout *layout;
    int moments_sharded;
    real *mean, *square; /* as in train/optimizer.h: backend memory, whole or sharded */
    json_t *run;         /* an object of the caller's; a new reference when read */
    uint64_t step;
    const kvs_tokenizer *tokenizer; /* written beside the model, never read; NULL = none */
} kvsi_training_state;

/* A model that others can use: kvs_model_save, and tokenizer.json if there is a tokenizer. */
kvs_status kvsi_save_with_tokenizer(const kvs_model *model, const kvs_tokenizer *tokenizer,
                                    const char *dir, kvs_err *err);

/* Writes ckpt_dir/step-N and moves `latest`, and `best` too if it is.  All ranks together; the
 * first writes. */
kvs_status kvsi_checkpoint_write(const char *ckpt_dir, const kvsi_training_state *state,
                                 int is_best, kvs_err *err);
/* Removes all but the newest `keep` (0 = all stay) and the best. */
kvs_status kvsi_checkpoint_prune(const char *ckpt_dir, size_t keep, kvs_err *err);
/* The newest checkpoint of a step before `step`, whole or not, in fresh memory (kvsi_free); NULL if
 * there is none. */
char *kvsi_checkpoint_before(const char *ckpt_dir, uint64_t step);

/* The newest whole checkpoint below ckpt_dir, in fresh memory (kvsi_free); NULL if there is none.
 * *skipped counts newer ones that are damaged, `why` says what is wrong with the newest of them. */
kvs_status kvsi_checkpoint_newest(char **path, const char *ckpt_dir, size_t *skipped, kvs_err *why,
                                  kvs_err *err);
/* Checks every file's checksum. */
kvs_status kvsi_checkpoint_check(const char *path, kvs_err *err);
/* The "run" object of state.json, a new reference.  Reads no tensors. */
kvs_status kvsi_checkpoint_read_run(json_t **run, const char *path, kvs_err *err);
/* Reads a checkpoint, which is checked, into a model and moments of the same configuration.  All
 * ranks together; the first alone knows the path and reads. */
kvs_status kvsi_checkpoint_read(kvsi_training_state *state, const char *path, kvs_err *err);

#endif
