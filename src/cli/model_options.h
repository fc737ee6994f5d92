/* cli/model_options.h - the options that describe a new model, for 'train' and 'convert'.
 *
 * They are the settings of models (cli/configs.h), a preset and --dropout.  Presets and the body
 * decide the defaults of the other options, so a command collects its options first:
 *
 *     kvsi_options_collect(&parsed, &command, ...);
 *     kvsi_model_start(&s->model, NULL, &parsed, &command, "preset", &err);
 *     kvsi_options_apply(&parsed, &command, s, &err);
 *     kvsi_model_finish(s->model, dropout, &parsed, &command, &err);
 */
#ifndef KVSI_CLI_MODEL_OPTIONS_H
#define KVSI_CLI_MODEL_OPTIONS_H

#include "cli/configs.h"

#define KVSI_MODEL_GROUP "Model" /* the group of the settings of models */

/* The row --dropout of a command; the field is a double. */
#define KVSI_DROPOUT_ROW(field_offset)                                                             \
    .name = "dropout", .kind = KVSI_SETTING_REAL, .offset = (field_offset),                        \
    .group = KVSI_MODEL_GROUP, .placeholder = "X",                                                 \
    .help = "dropout in all three places: embeddings, attention weights and residuals", .high = 1, \
    .open_high = 1

/* Returns the body that was given.  NULL = none was given, or there is no such body; in that case
 * applying the options fails. */
const char *kvsi_model_body(const kvsi_parsed_options *parsed, const kvsi_command_options *command);

/* Prepares *config, which has the defaults, for applying the options.  If the option `preset` names
 * a preset or a config.json, that configuration replaces *config; otherwise *config gets the body
 * that --body gives.  A preset does not set the shift, and also replaces *train, unless `train` is
 * NULL. */
kvs_status kvsi_model_start(kvs_model_config **config, kvs_train_config **train,
                            const kvsi_parsed_options *parsed, const kvsi_command_options *command,
                            const char *preset, kvs_err *err);

/* Applies options that set several settings: --shift gate, which sets the form too, and
 * --dropout. */
kvs_status kvsi_model_finish(kvs_model_config *config, double dropout, kvsi_parsed_options *parsed,
                             const kvsi_command_options *command, kvs_err *err);

/* The values of --retrofit, ended by NULL. */
extern const char *const kvsi_retrofit_names[];
/* Sets the shift of --retrofit: a window of one token, which starts as the identity. */
kvs_status kvsi_model_set_retrofit(kvs_model_config *config, const char *targets, kvs_err *err);

#endif
