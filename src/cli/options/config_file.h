/* cli/options/config_file.h - reads settings from a TOML or JSON file and passes them to a
 * callback.
 *
 * Both formats have the same settings.  A file is JSON if its name ends in .json or its first
 * character is {, otherwise TOML:
 *
 *     steps = 600               {"steps": 600,
 *     [training]                 "training": {"lr": 2e-3, "slopes": [0.5, 0.25]}}
 *     lr = 2e-3     # rate
 *     slopes = [0.5, 0.25]
 *
 * The supported subset of TOML: comments, [sections], bare keys, "basic" and 'literal' strings on
 * one line, whole numbers, reals, true, false, and arrays of numbers.  Anything else is an error
 * with file and line, as are files that are too large, not UTF-8, or contain control characters. */
#ifndef KVSI_CLI_CONFIG_FILE_H
#define KVSI_CLI_CONFIG_FILE_H

#include "base/text.h"

enum { KVSI_CONFIG_FILE_LIMIT = 1 << 20 }; /* bytes */

typedef enum kvsi_config_kind {
    KVSI_CONFIG_TEXT,
    KVSI_CONFIG_WHOLE,
    KVSI_CONFIG_REAL,
    KVSI_CONFIG_BOOLEAN,
    KVSI_CONFIG_NUMBERS,
} kvsi_config_kind;

/* All strings are borrowed and valid only during the callback. */
typedef struct kvsi_config_entry {
    const char *path;
    size_t line;
    const char *section; /* NULL = before all sections */
    const char *key;     /* NULL = the start of the section */
    kvsi_config_kind kind;
    const char *value; /* as on a command line: text, "12", "2e-3", "true", "0.5,0.25" */
} kvsi_config_entry;

typedef kvs_status kvsi_config_callback(void *user, const kvsi_config_entry *setting, kvs_err *err);

/* Calls `take` for every section and every setting, in order, until it fails. */
kvs_status kvsi_config_file_read(const char *path, kvsi_config_callback *take, void *user,
                                 kvs_err *err);

/* ---- shared by the readers of both formats ---- */

typedef struct kvsi_config_reader {
    const char *path, *at, *end; /* at .. end is the unread part */
    size_t line;
    kvsi_config_callback *take;
    void *user;
} kvsi_config_reader;

kvs_status kvsi_config_read_toml(kvsi_config_reader *r, kvs_err *err);
kvs_status kvsi_config_read_json(kvsi_config_reader *r, kvs_err *err);

#endif
