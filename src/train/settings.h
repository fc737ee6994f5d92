/* train/settings.h - the settings of a run, as recorded in its log and its checkpoints. */
#ifndef KVSI_TRAIN_SETTINGS_H
#define KVSI_TRAIN_SETTINGS_H

#include "base/json.h"
#include "parallel/comm.h"
#include "run/run.h"

json_t *kvsi_run_settings(const kvsi_train_job *job); /* a new reference; NULL if out of memory */
/* Returns the settings that are compared when a trainer loads a checkpoint, a new reference; NULL
 * if memory runs out.  data NULL = the caller passes batches. */
json_t *kvsi_training_settings(const kvs_model *model, const kvs_data *data,
                               const kvs_train_config *config);
/* Fails if a resumed run has other settings of model, task or training than before, except for its
 * length and its evaluations.  `what` names the source of `before` in messages. */
kvs_status kvsi_run_settings_check(const json_t *settings, const json_t *before, const char *what,
                                   kvs_err *err);

/* Like kvsi_run_settings_check, with the settings of a checkpoint as `before`. */
kvs_status kvsi_run_settings_check_checkpoint(const json_t *settings, const char *path,
                                              kvs_err *err);

/* Collective.  Fails unless all ranks have the same settings, data and program. */
kvs_status kvsi_run_settings_agree(const kvsi_train_job *job, const json_t *settings, kvs_err *err);

#endif
