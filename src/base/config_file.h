/* base/config_file.h - settings in a file, as words that the caller understands.
 *
 * Two ways to write the same; a JSON file is one whose name ends so or whose first character is {:
 *
 *     steps = 600               {"steps": 600,
 *     [training]                 "training": {"lr": 2e-3, "slopes": [0.5, 0.25]}}
 *     lr = 2e-3     # rate
 *     slopes = [0.5, 0.25]
 *
 * Of TOML these parts are read: comments, [sections], bare keys, "basic" and 'literal' strings on
 * one line, whole numbers, reals, true, false, and arrays of numbers.  All else is refused by file
 * and line, as are files that are large, not UTF-8, or hold control characters. */
#ifndef KVSI_BASE_CONFIG_FILE_H
#define KVSI_BASE_CONFIG_FILE_H

#include "base/text.h"

enum { KVSI_CONFIG_FILE_LIMIT = 1 << 20 }; /* bytes */

typedef enum kvsi_config_kind {
    KVSI_CONFIG_TEXT,
    KVSI_CONFIG_WHOLE,
    KVSI_CONFIG_REAL,
    KVSI_CONFIG_BOOLEAN,
    KVSI_CONFIG_NUMBERS,
} kvsi_config_kind;

/* All of it is borrowed until the call that got it returns. */
typedef struct kvsi_config_entry {
    const char *path;
    size_t line;
    const char *section; /* NULL = outside of any */
    const char *key;     /* NULL = here the section opens */
    kvsi_config_kind kind;
    const char *value; /* as on a command line: text, "12", "2e-3", "true", "0.5,0.25" */
} kvsi_config_entry;

typedef kvs_status kvsi_config_callback(void *user, const kvsi_config_entry *setting, kvs_err *err);

/* Hands every section and every setting, in order, to `take`, whose failure ends the reading. */
kvs_status kvsi_config_file_read(const char *path, kvsi_config_callback *take, void *user,
                                 kvs_err *err);

/* ---- shared by the readers of the two languages ---- */

typedef struct kvsi_config_reader {
    const char *path, *at, *end; /* what is left to read */
    size_t line;
    kvsi_config_callback *take;
    void *user;
} kvsi_config_reader;

kvs_status kvsi_config_read_toml(kvsi_config_reader *r, kvs_err *err);
kvs_status kvsi_config_read_json(kvsi_config_reader *r, kvs_err *err);

#endif
