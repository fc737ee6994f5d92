/* train/settings.h - everything that decides how a run goes, as its log and its checkpoints say it.
 */
#ifndef KVSI_TRAIN_SETTINGS_H
#define KVSI_TRAIN_SETTINGS_H

#include "base/json.h"
#include "parallel/comm.h"

json_t *kvsi_run_settings(const kvs_train_job *job); /* a new reference; NULL if out of memory */
/* A run goes on with the settings it had before: model, task and training, but for how long it goes
 * and how it is evaluated.  `what` names the source of those in messages. */
kvs_status kvsi_run_settings_check(const json_t *settings, const json_t *before, const char *what,
                                   kvs_err *err);

/* All ranks together: whether they have the same settings, the same data and the same program. */
kvs_status kvsi_run_settings_agree(const kvs_train_job *job, const json_t *settings, kvs_err *err);

#endif
