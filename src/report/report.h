/* report/report.h - a report: runs, their arms, and remarks. */
#ifndef KVSI_REPORT_REPORT_H
#define KVSI_REPORT_REPORT_H

#include "base/text.h"
#include "kvshift/kvshift_lab.h"
#include "report/arms.h"

struct kvs_report {
    kvsi_run *runs;
    size_t run_count;
    int is_text;    /* otherwise a task */
    kvsi_arms arms; /* for text only */
    char **remarks;
    size_t remark_count;
    kvsi_text text; /* tables for a terminal */
};

/* Whether any run has scores on benchmarks. */
int kvsi_report_has_benchmarks(const kvs_report *report);
/* Adds remarks on incomplete runs and arms that are not comparable. */
kvs_status kvsi_report_add_remarks(kvs_report *report, kvs_err *err);
/* All numbers, as a new reference; NULL if a text is not UTF-8 or memory ran out. */
json_t *kvsi_report_to_json(const kvs_report *report, const char *title);

#endif
