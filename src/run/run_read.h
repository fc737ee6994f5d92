/* run/run_read.h - reads the log of a run: its settings, then one record after the other.
 *
 *     kvsi_run_log log;
 *     TRY_OUT(kvsi_run_log_open(&log, dir, err));
 *     for (;;) {
 *         TRY_OUT(kvsi_run_log_next(&log, &record, &found, err));
 *         if (!found)
 *             break;
 *         ...
 *     }
 * out:
 *     kvsi_run_log_close(&log);
 */
#ifndef KVSI_RUN_RUN_READ_H
#define KVSI_RUN_RUN_READ_H

#include "base/json.h"

typedef struct kvsi_run_log {
    json_t *settings; /* line 1; NULL if the log is empty */
    size_t lines;     /* complete ones; a last line without a newline is still being written */
    char *path;

    /* private */
    char *text;
    size_t size, at; /* bytes */
    size_t number;   /* of the line that was read last */
    uint64_t step;   /* of the record that was read last */
} kvsi_run_log;

/* Opens dir/train.jsonl.  End with kvsi_run_log_close, also after a failure. */
kvs_status kvsi_run_log_open(kvsi_run_log *log, const char *dir, kvs_err *err);
/* The next record; *found = 0 at the end.  Fails unless steps increase. */
kvs_status kvsi_run_log_next(kvsi_run_log *log, kvs_step_record *record, int *found, kvs_err *err);
void kvsi_run_log_close(kvsi_run_log *log); /* a zeroed one is fine */

#endif
