/* cli/run_files.h - what the command puts into a run's folder so that the run can be done again:
 *
 *     config.resolved.toml    every setting, as 'kvshift train --config' takes it
 *     command.txt             the command line, one for each time the run was started or resumed
 *     env.json                what 'kvshift version --json' says, the processor, the time */
#ifndef KVSI_CLI_RUN_FILES_H
#define KVSI_CLI_RUN_FILES_H

#include "cli/train_options.h"

enum { KVSI_RUN_FILES = 3 };

typedef struct kvsi_run_files {
    kvs_run_file list[KVSI_RUN_FILES];
    kvsi_text settings, command, environment;
} kvsi_run_files;

/* `line` is the command line as a shell takes it. */
kvs_status kvsi_run_files_make(kvsi_run_files *out, const kvsi_train_settings *s,
                               const kvsi_parsed_options *parsed, const char *line,
                               const kvs_runtime *rt, kvs_err *err);
void kvsi_run_files_release(kvsi_run_files *files);

#endif
