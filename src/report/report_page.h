/* report/report_page.h - the HTML page of a report: curves, tables, commands. */
#ifndef KVSI_REPORT_REPORT_PAGE_H
#define KVSI_REPORT_REPORT_PAGE_H

#include "kvshift/kvshift_lab.h"
#include "report/page.h"
#include "report/report.h"

/* Charts as SVG files; NULL = the runs have no such values. */
typedef struct kvsi_report_figures {
    char *curves, *training; /* of every run */
    char *costs;             /* of runs on text */
    char *benchmarks;
} kvsi_report_figures;

/* Fills an empty page. */
void kvsi_report_page(kvsi_page *page, const char *title, const kvs_report *report,
                      const kvsi_report_figures *figures);

#endif
