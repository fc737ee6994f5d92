/* data/tasks/tasks.h - creates synthetic tasks from their configurations (config/config.h). */
#ifndef KVSI_DATA_TASKS_TASKS_H
#define KVSI_DATA_TASKS_TASKS_H

#include "data/data.h"

kvs_status kvsi_induction_create(kvs_data **out, const kvsi_induction_config *config, kvs_err *err);
kvs_status kvsi_ngram_create(kvs_data **out, const kvsi_ngram_config *config, kvs_err *err);
kvs_status kvsi_hopk_create(kvs_data **out, const kvsi_hopk_config *config, kvs_err *err);
/* The tokenizer is used only during this call. */
kvs_status kvsi_igsm_create(kvs_data **out, const kvsi_igsm_config *config, kvs_err *err);

#endif
