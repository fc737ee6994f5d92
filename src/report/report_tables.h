/* report/report_tables.h - the tables of a report, for the page and for a terminal. */
#ifndef KVSI_REPORT_REPORT_TABLES_H
#define KVSI_REPORT_REPORT_TABLES_H

#include "kvshift/kvshift_lab.h"
#include "report/report.h"
#include "report/table.h"

/* Each fills an uninitialized table (kvsi_table_release). */
void kvsi_table_of_tasks(kvsi_table *table, const kvs_report *report); /* one row per run */
void kvsi_table_of_arms(kvsi_table *table, const kvs_report *report);
void kvsi_table_of_runs(kvsi_table *table, const kvs_report *report); /* one row per run on text */
/* One row per seed, then the mean. */
void kvsi_table_of_difference(kvsi_table *table, const kvs_report *report,
                              const kvsi_difference *d);
/* One row per setting that differs between arms, one column per arm. */
void kvsi_table_of_settings(kvsi_table *table, const kvs_report *report);

/* One row per run, benchmark and metric; without rows if no run has scores. */
void kvsi_table_of_benchmarks(kvsi_table *table, const kvs_report *report);

/* Explains the sign of the difference and counts the seeds below 0. */
void kvsi_explain_difference(kvsi_text *out, const kvs_report *report, const kvsi_difference *d);

/* All tables except the settings, and the remarks, as plain text. */
void kvsi_tables_to_text(kvsi_text *out, const kvs_report *report);

#endif
