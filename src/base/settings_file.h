/* base/settings_file.h - settings in a file, as words that the caller understands.
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
#ifndef KVSI_BASE_SETTINGS_FILE_H
#define KVSI_BASE_SETTINGS_FILE_H

#include "base/text.h"

enum { KVSI_SETTINGS_FILE_LIMIT = 1 << 20 }; /* bytes */

typedef enum kvsi_setting_kind {
    KVSI_SETTING_TEXT,
    KVSI_SETTING_WHOLE,
    KVSI_SETTING_REAL,
    KVSI_SETTING_BOOLEAN,
    KVSI_SETTING_NUMBERS,
} kvsi_setting_kind;

/* All of it is borrowed until the call that got it returns. */
typedef struct kvsi_setting {
    const char *path;
    size_t line;
    const char *section; /* NULL = outside of any */
    const char *key;     /* NULL = here the section opens */
    kvsi_setting_kind kind;
    const char *value; /* as on a command line: text, "12", "2e-3", "true", "0.5,0.25" */
} kvsi_setting;

typedef kvs_status kvsi_setting_taker(void *user, const kvsi_setting *setting, kvs_err *err);

/* Hands every section and every setting, in order, to `take`, whose failure ends the reading. */
kvs_status kvsi_settings_file_read(const char *path, kvsi_setting_taker *take, void *user,
                                   kvs_err *err);

/* ---- shared by the readers of the two languages ---- */

typedef struct kvsi_settings_reader {
    const char *path, *at, *end; /* what is left to read */
    size_t line;
    kvsi_setting_taker *take;
    void *user;
} kvsi_settings_reader;

kvs_status kvsi_settings_read_toml(kvsi_settings_reader *r, kvs_err *err);
kvs_status kvsi_settings_read_json(kvsi_settings_reader *r, kvs_err *err);

#endif
