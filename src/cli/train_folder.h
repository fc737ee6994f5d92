/* cli/train_folder.h - the files with which a run can be repeated and resumed (docs/run-folder.md):
 *
 *     config.resolved.toml    every setting, as 'kvshift train --config' takes it
 *     command.txt             the command lines that started and resumed the run
 *     env.json                the output of 'kvshift version --json', the processor, the time
 *     sources.json            the text files of the corpus, with their checksums */
#ifndef KVSI_CLI_TRAIN_FOLDER_H
#define KVSI_CLI_TRAIN_FOLDER_H

#include "base/json.h"
#include "cli/train_setup.h"
#include "kvshift/kvshift_files.h"

enum { KVSI_RUN_FILES = 5 }; /* at most */

typedef struct kvsi_run_files {
    kvs_run_file list[KVSI_RUN_FILES]; /* borrows the texts */
    size_t count;
    kvsi_text settings, command, environment, sources;
} kvsi_run_files;

/* `line` is the command line, quoted for a shell. */
kvs_status kvsi_run_files_make(kvsi_run_files *out, const kvsi_train_options *s,
                               const kvsi_parsed_options *parsed, const char *line,
                               const kvsi_train_setup *setup, kvs_err *err);
void kvsi_run_files_release(kvsi_run_files *files);

extern const char kvsi_resolved_file[]; /* "config.resolved.toml" */
/* The name of sources.json, and its list "sources": [{name, bytes, checksum}]. */
extern const char kvsi_sources_file[];
json_t *kvsi_sources_json(const kvs_corpus *corpus);

/* Replaces every setting by that of the run in s->out, read from its config.resolved.toml.  Options
 * that were given must have the same value, except those that a resumed run may change, such as
 * steps: they keep the given value.  Does nothing if the folder has no such file. */
kvs_status kvsi_train_take_run(kvsi_train_options *s, kvsi_parsed_options *parsed, kvs_err *err);

/* Fails if s->out already holds a run and --resume is not given. */
kvs_status kvsi_train_check_out(const kvsi_train_options *s, kvs_err *err);

#endif
