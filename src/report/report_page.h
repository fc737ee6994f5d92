/* report/report_page.h - the HTML page of a report: curves, tables, commands. */
#ifndef KVSI_REPORT_REPORT_PAGE_H
#define KVSI_REPORT_REPORT_PAGE_H

#include "kvshift/kvshift_lab.h"
#include "report/page.h"
#include "report/report.h"

/* Fills an empty page; `svg` is the chart of the runs, `benchmarks_svg` that of their
 * scores on benchmarks; NULL = they have none. */
void kvsi_report_page(kvsi_page *page, const char *title, const kvs_report *report, const char *svg,
                      const char *benchmarks_svg);

#endif
