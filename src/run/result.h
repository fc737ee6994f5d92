/* run/result.h - result.json, written when a run has ended:
 *
 *     steps                steps done
 *     final_loss           mean loss of the final evaluation; null if not finite
 *     final_accuracy       fraction of scored rows that are right; null if nothing is scored
 *     accuracy_by_length   [{from, to, scored, accuracy}], only if the task has length buckets
 *     step_at_99           see kvs_train_result; null = never
 *     seconds, tokens      over the whole run, with the time before it was resumed
 */
#ifndef KVSI_RUN_RESULT_H
#define KVSI_RUN_RESULT_H

#include "base/status.h"
#include "kvshift/kvshift_files.h"

kvs_status kvsi_result_write(const char *dir, const kvs_train_result *result, kvs_err *err);

/* *found = 0 if the folder has no result.json.  Length buckets and tokens are not read. */
kvs_status kvsi_result_read(kvs_train_result *out, int *found, const char *dir, kvs_err *err);
/* Its steps alone; 0 if there is no result.json or it cannot be read. */
uint64_t kvsi_result_steps(const char *dir);

#endif
