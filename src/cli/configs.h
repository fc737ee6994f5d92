/* cli/configs.h - the library's configurations in the settings of commands: as tables of options,
 * and their values.
 *
 * Settings have handles (kvs_model_config *), which kvsi_options_set_defaults creates. */
#ifndef KVSI_CLI_CONFIGS_H
#define KVSI_CLI_CONFIGS_H

#include "cli/options/options.h"
#include "kvshift/kvshift_lab.h"

/* Part number i of the tasks is kvs_task_name(i).  A new model of the command has a shift of keys
 * and values, the vocabulary of the task induction, and the context that its data needs. */
extern const kvsi_library_config kvsi_model_configs, kvsi_train_configs, kvsi_task_configs;

enum { KVSI_TASKS_MAX = 8 }; /* tasks that a command has room for */

/* A number as a count: 0 for NaN, at most UINT64_MAX. */
uint64_t kvsi_count_of(double number);

/* The values of counts and flags; 0 for other settings. */
size_t kvsi_model_count(const kvs_model_config *config, const char *name);
uint64_t kvsi_train_count(const kvs_train_config *config, const char *name);
size_t kvsi_task_count(const kvs_task_config *config, const char *name);

/* The value of a choice. */
typedef struct kvsi_word {
    char text[32];
} kvsi_word;

kvsi_word kvsi_model_word(const kvs_model_config *config, const char *name);
kvsi_word kvsi_train_word(const kvs_train_config *config, const char *name);
kvsi_word kvsi_task_word(const kvs_task_config *config, const char *name);
/* Whether a choice has that value. */
int kvsi_model_is(const kvs_model_config *config, const char *name, const char *value);
int kvsi_train_is(const kvs_train_config *config, const char *name, const char *value);

/* What the shift mixes: KVS_SHIFT_K | ... */
unsigned kvsi_shift_targets(const kvs_model_config *config);

/* Values of the setting "shift", by index: none, k, ..., smear; NULL past the end. */
const char *kvsi_shift_choice(size_t index);
/* The same of the setting "shard". */
const char *kvsi_shard_choice(size_t index);

#endif
