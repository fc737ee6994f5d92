/* base/json.h - JSON through jansson, with errors that name the file, the key and what was found.
 *
 * Only base includes jansson.h.  Input is untrusted: sizes are bounded, duplicate keys refused,
 * types and ranges checked. */
#ifndef KVSI_BASE_JSON_H
#define KVSI_BASE_JSON_H

#include "base/status.h"

#include <jansson.h>

/* json_loadb(), except that it returns NULL, with kvsi_nomem_is_set(), as soon as an allocation
 * fails: jansson 2.14 continues, loses characters, and may read and write past the end of a
 * string. */
json_t *kvsi_json_load(const char *text, size_t size, size_t flags, json_error_t *error);

/* Parses one JSON object of at most `limit` bytes.  `what` names the source in messages. */
kvs_status kvsi_json_parse(json_t **out, const char *text, size_t size, const char *what,
                           kvs_err *err);
/* The same for one array. */
kvs_status kvsi_json_parse_list(json_t **out, const char *text, size_t size, const char *what,
                                kvs_err *err);
kvs_status kvsi_json_read(json_t **out, const char *path, size_t limit, kvs_err *err);
/* The same, but an integer beyond 64 bits is read as the nearest double: tokenizer configurations
 * use 10^30 for "no limit". */
kvs_status kvsi_json_read_wide(json_t **out, const char *path, size_t limit, kvs_err *err);
/* The same for a file that is one array. */
kvs_status kvsi_json_read_list(json_t **out, const char *path, size_t limit, kvs_err *err);
/* Indented, with a final newline.  The file appears only when complete. */
kvs_status kvsi_json_write(const json_t *value, const char *path, kvs_err *err);
/* json_dumps() into fresh memory (free).  A NULL value means that building it ran out of memory. */
kvs_status kvsi_json_dump(char **out, const json_t *value, size_t format, const char *what,
                          kvs_err *err);

/* Fails with KVS_E_NOMEM if an allocation of this thread failed, in jansson or kvsi_alloc(), and
 * was not reported.  A value may then lack members.  Code that builds or compares values without
 * checking every call must call this at the end; the functions above do. */
kvs_status kvsi_json_check(const char *what, kvs_err *err);
/* The same for the value built last, which may be NULL then. */
kvs_status kvsi_json_check_made(const json_t *value, const char *what, kvs_err *err);

/* Typed members of an object.  A missing key leaves *out unchanged and succeeds: set the default
 * first, and use kvsi_json_require for required keys.  `what` names the source in messages. */
kvs_status kvsi_json_require(const json_t *object, const char *key, const char *what, kvs_err *err);
kvs_status kvsi_json_get_size(size_t *out, const json_t *object, const char *key, const char *what,
                              kvs_err *err);
kvs_status kvsi_json_get_real(double *out, const json_t *object, const char *key, const char *what,
                              kvs_err *err);
/* The inverse of kvsi_json_number: NaN where the value is null, and where the key is missing. */
kvs_status kvsi_json_get_number(double *out, const json_t *object, const char *key,
                                const char *what, kvs_err *err);
kvs_status kvsi_json_get_bool(int *out, const json_t *object, const char *key, const char *what,
                              kvs_err *err);
/* The string is borrowed from the object. */
kvs_status kvsi_json_get_text(const char **out, const json_t *object, const char *key,
                              const char *what, kvs_err *err);

/* What a value is, for messages: "text", "a whole number". */
const char *kvsi_json_found(const json_t *value);

/* A string from any bytes; those that are not UTF-8 become U+FFFD. */
json_t *kvsi_json_text(const char *text, size_t size);
/* The same for a path or a command line, which may hold any bytes; null for NULL. */
json_t *kvsi_json_path(const char *path);
/* An array of numbers; NaN and infinity become null. */
json_t *kvsi_json_ids(const int32_t *ids, size_t count);
json_t *kvsi_json_numbers(const double *numbers, size_t count);
/* A number, or null for NaN and infinity. */
json_t *kvsi_json_number(double value);

#endif
