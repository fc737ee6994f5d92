/* run/jsonl.h - a file of JSON lines that a run adds to, and goes on with after it was killed.
 *
 * Each record has its "step".  The file is locked while it is open: a second process is refused. */
#ifndef KVSI_RUN_JSONL_H
#define KVSI_RUN_JSONL_H

#include "base/json.h"

typedef struct kvsi_jsonl kvsi_jsonl;

enum { KVSI_JSONL_LINE_MAX = 64 << 20 }; /* bytes */

/* A new file; one that is there is an error. */
kvs_status kvsi_jsonl_create(kvsi_jsonl **out, const char *path, kvs_err *err);
/* Goes on with a file: its first `heads` lines, which are no records, and the records up to `step`
 * stay, whatever follows is dropped.  At step 0 heads that are not all there are dropped too. */
kvs_status kvsi_jsonl_reopen(kvsi_jsonl **out, const char *path, size_t heads, uint64_t step,
                             kvs_err *err);
/* Was nothing kept, so that the heads are to be written anew? */
int kvsi_jsonl_is_empty(const kvsi_jsonl *lines);
kvs_status kvsi_jsonl_add(kvsi_jsonl *lines, const json_t *record, kvs_err *err);
void kvsi_jsonl_close(kvsi_jsonl *lines); /* NULL does nothing */

#endif
