/* run/checkpoint_files.h - the checkpoints of a run, as folders:
 *
 *     ckpt/step-00001000/  model.safetensors, config.json   a model like any other
 *                          tokenizer.json                   if the run has a tokenizer
 *                          optimizer.safetensors            mean [parameters], square [parameters]
 *                          state.json                       step, run (run/progress.h), and
 *                                                           files: the checksums of those above
 *                          DONE                             the checksum of state.json
 *     ckpt/latest          a link to the newest
 *     ckpt/best            a link to the one with the lowest evaluation loss, if any
 *
 * A checkpoint is written under another name and renamed: one that is there is complete, unless the
 * disk damaged it later, which the checksums show.  train/checkpoint.h moves weights and moments
 * between these files and the ranks. */
#ifndef KVSI_RUN_CHECKPOINT_FILES_H
#define KVSI_RUN_CHECKPOINT_FILES_H

#include "base/json.h"
#include "formats/safetensors.h"
#include "formats/weights.h"

#define KVSI_CHECKPOINT_MOMENTS "optimizer.safetensors"
#define KVSI_CHECKPOINT_STATE "state.json"
#define KVSI_CHECKPOINT_PREFIX "step-"
#define KVSI_CHECKPOINT_BEST "best"

/* ---- writing ---- */

/* A checkpoint being written. */
typedef struct kvsi_new_checkpoint {
    char *dir; /* where the caller writes the model, the tokenizer and the moments */
    char *final;
    const char *ckpt_dir; /* borrowed */
    uint64_t step;
} kvsi_new_checkpoint;

/* Makes an empty folder c->dir.  End with kvsi_new_checkpoint_release, also after a failure. */
kvs_status kvsi_new_checkpoint_open(kvsi_new_checkpoint *c, const char *ckpt_dir, uint64_t step,
                                    kvs_err *err);
/* Adds state.json and DONE, renames the folder to ckpt_dir/step-N, and updates `latest` and, if it
 * is the best, `best`.  `run` is borrowed. */
kvs_status kvsi_new_checkpoint_commit(kvsi_new_checkpoint *c, json_t *run, int is_best,
                                      kvs_err *err);
/* Removes what was not committed.  A zeroed one is fine. */
void kvsi_new_checkpoint_release(kvsi_new_checkpoint *c);

/* Removes checkpoints of steps up to `newest`, except for the last `keep` of them (0 = keep all)
 * and the best.  Checkpoints of later steps are neither counted nor removed: they are damaged,
 * since the run did not continue from them, and are replaced when the run reaches their steps. */
kvs_status kvsi_checkpoint_prune(const char *ckpt_dir, size_t keep, uint64_t newest, kvs_err *err);

/* ---- finding ---- */

/* The newest checkpoint of a step before `step`, complete or not, in new memory (kvsi_free); NULL
 * if there is none. */
char *kvsi_checkpoint_before(const char *ckpt_dir, uint64_t step);
/* Fails with KVS_E_EXISTS if there is a complete checkpoint of a step after `step`.  It belongs to
 * another training, and a trainer that loads the newest checkpoint would continue that one. */
kvs_status kvsi_checkpoint_expect_none_after(const char *ckpt_dir, uint64_t step, kvs_err *err);
/* The newest complete checkpoint below ckpt_dir, in new memory (kvsi_free); NULL if there is none.
 * *skipped counts newer ones that are damaged; `why` describes the newest of them. */
kvs_status kvsi_checkpoint_newest(char **path, const char *ckpt_dir, size_t *skipped, kvs_err *why,
                                  kvs_err *err);
/* Checks the checksum of every file, and that the files can be opened. */
kvs_status kvsi_checkpoint_check(const char *path, kvs_err *err);

/* ---- reading ---- */

/* The "run" object of state.json, a new reference.  Reads no tensors. */
kvs_status kvsi_checkpoint_read_run(json_t **run, const char *path, kvs_err *err);

/* An open checkpoint whose checksums are right. */
typedef struct kvsi_checkpoint_source {
    json_t *state;
    kvsi_weights *weights;
    kvsi_safetensors *moments;
} kvsi_checkpoint_source;

/* End with kvsi_checkpoint_close, also after a failure. */
kvs_status kvsi_checkpoint_open(kvsi_checkpoint_source *in, const char *path, kvs_err *err);
void kvsi_checkpoint_close(kvsi_checkpoint_source *in); /* a zeroed one is fine */

#endif
