/* report/run.h - a finished run's folder, read back and checked: train.jsonl (a line of settings,
 * then one record a step) and result.json. */
#ifndef KVSI_REPORT_RUN_H
#define KVSI_REPORT_RUN_H

#include "kvshift/kvshift.h"

typedef struct kvsi_run_point {
    uint64_t step;
    double accuracy; /* of this batch, or NaN */
} kvsi_run_point;

typedef struct kvsi_run {
    kvs_run_summary summary;
    char *command;    /* as it was typed, "" if not recorded */
    char version[32]; /* of the program that made the run */
    char cpu_level[32];
    size_t threads;
    kvsi_run_point *points; /* one a step, steps rising */
    size_t point_count;
} kvsi_run;

kvs_status kvsi_run_open(kvsi_run *run, const char *dir, kvs_err *err);
void kvsi_run_close(kvsi_run *run); /* a zeroed one is fine */

#endif
