/* cli/options/options_config.h - a command's options in a configuration file.
 *
 * Keys are the names of options, with - or _.  Sections are the groups of the help in lower case,
 * with - for blanks.  A key is in the section of its group or before all sections. */
#ifndef KVSI_CLI_OPTIONS_CONFIG_H
#define KVSI_CLI_OPTIONS_CONFIG_H

#include "base/json.h"
#include "cli/options/options.h"

/* Adds the entries of parsed->config to the assignments. */
kvs_status kvsi_options_read_file(kvsi_parsed_options *parsed, const kvsi_command_options *command,
                                  kvs_err *err);

/* Sets the source of every value that was not given and that differs from `before`. */
void kvsi_options_mark_changes(kvsi_parsed_options *parsed, const kvsi_command_options *command,
                               const void *before, const void *settings, kvsi_option_source source);

/* Append all settings as a TOML file, with the source or the meaning of each.  As a configuration
 * file, it gives the same settings. */
void kvsi_options_print_config(kvsi_text *text, const kvsi_command_options *command,
                               const void *settings, const kvsi_parsed_options *parsed);
void kvsi_options_explain_config(kvsi_text *text, const kvsi_command_options *command,
                                 const void *settings, const kvsi_parsed_options *parsed);

/* Returns the JSON schema of such a file, with `settings` as defaults; NULL if memory runs out. */
json_t *kvsi_options_schema(const kvsi_command_options *command, const void *settings);

/* Writes the section of a group: "task-ngram" for "Task ngram". */
void kvsi_options_section(char *out, size_t size, const char *group);

#endif
