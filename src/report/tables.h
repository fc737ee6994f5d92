/* report/tables.h - the tables of a report, for the page and for a terminal. */
#ifndef KVSI_REPORT_TABLES_H
#define KVSI_REPORT_TABLES_H

#include "report/grid.h"
#include "report/report.h"

/* Each fills a fresh grid (kvsi_grid_release). */
void kvsi_table_of_tasks(kvsi_grid *grid, const kvs_report *report); /* a row a run */
void kvsi_table_of_arms(kvsi_grid *grid, const kvs_report *report);
void kvsi_table_of_runs(kvsi_grid *grid, const kvs_report *report); /* a row a run on text */
/* A row a seed, then the mean. */
void kvsi_table_of_difference(kvsi_grid *grid, const kvs_report *report, const kvsi_difference *d);
/* A row a setting in which arms differ, a column an arm. */
void kvsi_table_of_settings(kvsi_grid *grid, const kvs_report *report);

/* "'shift kv' has the lower loss for 3 of 3 seeds", and what the sign means. */
void kvsi_explain_difference(kvsi_text *out, const kvs_report *report, const kvsi_difference *d);

/* All of them but the settings, with the remarks, as plain text. */
void kvsi_tables_to_text(kvsi_text *out, const kvs_report *report);

#endif
