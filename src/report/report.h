/* report/report.h - what a report is made of. */
#ifndef KVSI_REPORT_REPORT_H
#define KVSI_REPORT_REPORT_H

#include "base/text.h"
#include "report/arms.h"

struct kvs_report {
    kvsi_run *runs;
    size_t run_count;
    int is_text;    /* or a task */
    kvsi_arms arms; /* of text; a task has none */
    char **remarks;
    size_t remark_count;
    kvsi_text text; /* for a terminal */
};

/* Sentences on what is incomplete or cannot be compared (remarks.c). */
kvs_status kvsi_report_add_remarks(kvs_report *report, kvs_err *err);
/* Everything with numbers (results.c): a new reference, NULL if words are not UTF-8 or memory ran
 * out. */
json_t *kvsi_report_to_json(const kvs_report *report, const char *title);

#endif
