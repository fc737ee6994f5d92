/* report/report_tables.h - the tables of a report, for the page and for a terminal. */
#ifndef KVSI_REPORT_REPORT_TABLES_H
#define KVSI_REPORT_REPORT_TABLES_H

#include "report/report.h"
#include "report/table.h"

/* Each fills a fresh table (kvsi_table_release). */
void kvsi_table_of_tasks(kvsi_table *table, const kvs_report *report); /* a row a run */
void kvsi_table_of_arms(kvsi_table *table, const kvs_report *report);
void kvsi_table_of_runs(kvsi_table *table, const kvs_report *report); /* a row a run on text */
/* A row a seed, then the mean. */
void kvsi_table_of_difference(kvsi_table *table, const kvs_report *report,
                              const kvsi_difference *d);
/* A row a setting in which arms differ, a column an arm. */
void kvsi_table_of_settings(kvsi_table *table, const kvs_report *report);

/* "'shift kv' has the lower loss for 3 of 3 seeds", and what the sign means. */
void kvsi_explain_difference(kvsi_text *out, const kvs_report *report, const kvsi_difference *d);

/* All of them but the settings, with the remarks, as plain text. */
void kvsi_tables_to_text(kvsi_text *out, const kvs_report *report);

#endif
