/* cli/train_folder.h - what the command puts into a run's folder so that the run can be done again:
 *
 *     config.resolved.toml    every setting, as 'kvshift train --config' takes it
 *     command.txt             the command line, one for each time the run was started or resumed
 *     env.json                what 'kvshift version --json' says, the processor, the time
 *     sources.json            of a corpus: the text files it was made from, with their checksums */
#ifndef KVSI_CLI_TRAIN_FOLDER_H
#define KVSI_CLI_TRAIN_FOLDER_H

#include "base/json.h"
#include "cli/train_setup.h"

enum { KVSI_RUN_FILES = 4 }; /* at most */

/* The name of the file of sources, and the list "sources" in it: [{name, bytes, checksum}]. */
extern const char kvsi_sources_file[];
json_t *kvsi_sources_json(const kvs_corpus *corpus);

typedef struct kvsi_run_files {
    kvs_run_file list[KVSI_RUN_FILES];
    size_t count;
    kvsi_text settings, command, environment, sources;
} kvsi_run_files;

/* `line` is the command line as a shell takes it. */
kvs_status kvsi_run_files_make(kvsi_run_files *out, const kvsi_train_options *s,
                               const kvsi_parsed_options *parsed, const char *line,
                               const kvsi_train_setup *w, kvs_err *err);
void kvsi_run_files_release(kvsi_run_files *files);

#endif
