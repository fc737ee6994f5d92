/* cli/model_options.h - the options that describe a new model, for 'train' and 'convert'.
 *
 * They are the table of model settings (config/config.h), a preset and --dropout.  Presets and the
 * body decide the defaults of the other options, so a command collects its options first:
 *
 *     kvsi_options_collect(&parsed, &command, ...);
 *     kvsi_model_start(&config, NULL, &parsed, &command, "preset", &err);
 *     kvsi_options_apply(&parsed, &command, &settings, &err);
 *     kvsi_model_finish(&config, dropout, &parsed, &command, &err);
 */
#ifndef KVSI_CLI_MODEL_OPTIONS_H
#define KVSI_CLI_MODEL_OPTIONS_H

#include "base/options.h"
#include "config/config.h"

/* The row --dropout of a command; the field is a double. */
#define KVSI_DROPOUT_ROW(field_offset)                                                             \
    .name = "dropout", .kind = KVSI_SETTING_REAL, .offset = (field_offset),                        \
    .group = kvsi_group_model, .placeholder = "X",                                                 \
    .help = "dropout in all three places: embeddings, attention weights and residuals", .high = 1, \
    .open_high = 1

/* Sets the defaults of a model with that body, as commands have them. */
void kvsi_model_set_defaults(kvs_model_config *config, kvsi_body body);

/* Sets the defaults of the body that --body gives, then those of the preset or config.json that the
 * option `preset` names.  A preset also sets `train`, unless that is NULL; it does not set the
 * shift. */
kvs_status kvsi_model_start(kvs_model_config *config, kvs_train_config *train,
                            const kvsi_parsed_options *parsed, const kvsi_command_options *command,
                            const char *preset, kvs_err *err);

/* Applies options that set several settings: --shift gate, which sets the form too, and
 * --dropout. */
kvs_status kvsi_model_finish(kvs_model_config *config, double dropout, kvsi_parsed_options *parsed,
                             const kvsi_command_options *command, kvs_err *err);

#endif
