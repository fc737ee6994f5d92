/* config/config.h - the tables of settings: one row per field of a configuration.
 *
 * A row has the name, type, limits, default, help text and use of a setting (base/setting.h).  The
 * options of the commands, configuration files, config.json, the log of a run, the check when a run
 * is resumed, plans of experiments and labels of reports are all derived from these tables.  A new
 * setting is a field of the public struct and its row here. */
#ifndef KVSI_CONFIG_CONFIG_H
#define KVSI_CONFIG_CONFIG_H

#include "base/setting.h"

extern const kvsi_settings kvsi_model_settings; /* of kvs_model_config */
extern const kvsi_settings kvsi_train_settings; /* of kvs_train_config */
extern const kvsi_settings kvsi_job_settings;   /* of kvs_train_job */
extern const kvsi_settings kvsi_induction_settings, kvsi_ngram_settings, kvsi_hopk_settings,
    kvsi_igsm_settings; /* of kvs_induction_config, ... */

/* The groups of those rows, which are headings in the help and sections of configuration files. */
extern const char kvsi_group_model[], kvsi_group_training[], kvsi_group_ranks[], kvsi_group_run[],
    kvsi_group_induction[], kvsi_group_ngram[], kvsi_group_hopk[], kvsi_group_igsm[];

/* The names of enum values, ended by a NULL name. */
extern const kvsi_name kvsi_body_names[], kvsi_shift_target_names[], kvsi_shift_form_names[],
    kvsi_shift_init_names[], kvsi_positions_names[], kvsi_head_names[], kvsi_schedule_names[],
    kvsi_shard_names[], kvsi_loss_names[], kvsi_sampler_names[], kvsi_igsm_mode_names[],
    kvsi_igsm_wording_names[], kvsi_format_names[], kvsi_dtype_names[];
/* Short names of a target and a form together: gate, clamp, smear. */
extern const kvsi_alias kvsi_shift_aliases[];

#endif
