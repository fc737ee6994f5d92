/* cli/run_files.h - the files that the command adds to a run folder, so that the run can be
 * repeated (docs/run-folder.md):
 *
 *     config.resolved.toml    every setting, as a file for 'kvshift train --config'
 *     command.txt             the command lines, one per start or resume
 *     env.json                the output of 'kvshift version --json', the processor, the time
 *     sources.json            for runs on a corpus: its text files with their checksums */
#ifndef KVSI_CLI_RUN_FILES_H
#define KVSI_CLI_RUN_FILES_H

#include "base/json.h"
#include "cli/workshop.h"

enum { KVSI_RUN_FILES = 4 }; /* at most */

extern const char kvsi_resolved_file[]; /* "config.resolved.toml" */
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
                               const kvsi_workshop *w, kvs_err *err);
void kvsi_run_files_release(kvsi_run_files *files);

#endif
