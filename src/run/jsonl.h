/* run/jsonl.h - a file of JSON lines that a run appends to, also after it was killed and resumed.
 *
 * Optional header lines come first; every other line is a record with a "step".  The file is locked
 * while it is open: a second process is refused. */
#ifndef KVSI_RUN_JSONL_H
#define KVSI_RUN_JSONL_H

#include "base/json.h"

typedef struct kvsi_jsonl kvsi_jsonl;

enum { KVSI_JSONL_LINE_MAX = 64 << 20 }; /* bytes */

/* Creates the file; fails if it exists. */
kvs_status kvsi_jsonl_create(kvsi_jsonl **out, const char *path, kvs_err *err);
/* Opens the file to append after `step`.  Keeps the first `headers` lines and the records up to
 * `step`, and cuts off the rest.  Without all headers the file is emptied at step 0, where a
 * process may have been killed while it wrote them; later that is an error. */
kvs_status kvsi_jsonl_reopen(kvsi_jsonl **out, const char *path, size_t headers, uint64_t step,
                             kvs_err *err);
/* Whether reopening kept nothing, so that the headers must be written again. */
int kvsi_jsonl_is_empty(const kvsi_jsonl *lines);
/* The step of the last record that reopening kept; 0 = none. */
uint64_t kvsi_jsonl_last_step(const kvsi_jsonl *lines);
kvs_status kvsi_jsonl_add(kvsi_jsonl *lines, const json_t *record, kvs_err *err);
void kvsi_jsonl_close(kvsi_jsonl *lines); /* NULL does nothing */

#endif
