/* cli/configs.h - the library's configurations as tables of options, and functions that read their
 * values.
 *
 * The settings of a command have pointers (kvs_model_config *) to configurations that
 * kvsi_options_set_defaults creates. */
#ifndef KVSI_CLI_CONFIGS_H
#define KVSI_CLI_CONFIGS_H

#include "cli/options/options.h"
#include "kvshift/kvshift_lab.h"

/* The kinds of configurations.  Part i of the tasks is kvs_task_name(i).  The defaults of a model
 * differ from those of the library: keys and values are shifted, the vocabulary has the usual size
 * of the task induction, and the context is 0, which means the length that the data needs. */
extern const kvsi_library_config kvsi_model_configs, kvsi_train_configs, kvsi_task_configs;

enum { KVSI_TASKS_MAX = 8 }; /* a command has room for this many tasks */

/* Converts a number to a count: 0 if it is NaN or negative, and at most UINT64_MAX. */
uint64_t kvsi_count_of(double number);

/* Return the value of a count or a flag; 0 for a setting of another type. */
size_t kvsi_model_count(const kvs_model_config *config, const char *name);
uint64_t kvsi_train_count(const kvs_train_config *config, const char *name);
size_t kvsi_task_count(const kvs_task_config *config, const char *name);

typedef struct kvsi_word {
    char text[32];
} kvsi_word;

/* Return the value of a choice as text. */
kvsi_word kvsi_model_word(const kvs_model_config *config, const char *name);
kvsi_word kvsi_train_word(const kvs_train_config *config, const char *name);
kvsi_word kvsi_task_word(const kvs_task_config *config, const char *name);
/* Return whether a choice has that value. */
int kvsi_model_is(const kvs_model_config *config, const char *name, const char *value);
int kvsi_train_is(const kvs_train_config *config, const char *name, const char *value);

/* Returns the targets of the shift: KVS_SHIFT_K | ..., 0 = none. */
unsigned kvsi_shift_targets(const kvs_model_config *config);

/* Returns value number `index` of the setting "shift": none, k, ..., smear; NULL after the last
 * one. */
const char *kvsi_shift_choice(size_t index);
/* Return value number `index` of the setting; NULL after the last one. */
const char *kvsi_precision_choice(size_t index);
const char *kvsi_pack_weights_choice(size_t index);
const char *kvsi_shard_choice(size_t index);

#endif
