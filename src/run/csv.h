/* run/csv.h - a run's log as a table for spreadsheets. */
#ifndef KVSI_RUN_CSV_H
#define KVSI_RUN_CSV_H

#include "base/status.h"

/* Writes dir/train.csv, one row a step, from dir/train.jsonl; whole or not at all. */
kvs_status kvsi_csv_write(const char *dir, kvs_err *err);

#endif
