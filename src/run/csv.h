/* run/csv.h - the log of a run as a table for spreadsheets. */
#ifndef KVSI_RUN_CSV_H
#define KVSI_RUN_CSV_H

#include "base/status.h"

/* Writes dir/train.csv from dir/train.jsonl: one row per step, one column per field of
 * run/record.h, complete or not at all. */
kvs_status kvsi_csv_write(const char *dir, kvs_err *err);

#endif
