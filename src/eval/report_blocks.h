/* eval/report_blocks.h - a report on stored results: blocks of text, tables and charts, which are
 * printed to a terminal or written as a page, and the same as JSON. */
#ifndef KVSI_EVAL_REPORT_BLOCKS_H
#define KVSI_EVAL_REPORT_BLOCKS_H

#include "base/json.h"
#include "base/text.h"
#include "eval/stored.h"
#include "kvshift/kvshift_lab.h"
#include "report/chart.h"
#include "report/table.h"

/* Where a block is shown. */
enum { KVSI_ON_TERMINAL = 1, KVSI_ON_PAGE = 2, KVSI_EVERYWHERE = 3 };

typedef enum kvsi_block_kind {
    KVSI_BLOCK_HEADING,
    KVSI_BLOCK_TEXT,
    KVSI_BLOCK_NOTE, /* secondary text */
    KVSI_BLOCK_TABLE,
    KVSI_BLOCK_CHART,
} kvsi_block_kind;

typedef struct kvsi_block {
    kvsi_block_kind kind;
    int where;
    char *text;
    kvsi_table table;
    kvsi_chart *chart; /* owned */
} kvsi_block;

struct kvs_eval_report {
    const char *title; /* static */
    kvsi_block *blocks;
    size_t count, capacity;
    json_t *json;    /* all values */
    char *json_text; /* free() */
    kvsi_text text;  /* for a terminal */
    int failed;      /* memory ran out while blocks were added */
};

/* Add a block.  Memory that ran out is reported when the report is finished. */
void kvsi_block_text(kvs_eval_report *report, kvsi_block_kind kind, int where, const char *format,
                     ...) __attribute__((format(printf, 4, 5)));
/* Takes over what the table owns. */
void kvsi_block_table(kvs_eval_report *report, int where, kvsi_table *table);
/* A new chart, empty; NULL if memory ran out.  `name` and `caption` are static. */
kvsi_chart *kvsi_block_chart(kvs_eval_report *report, const char *name, const char *caption);

/* Renders the blocks for a terminal. */
kvs_status kvsi_report_finish(kvs_eval_report *report, kvs_err *err);

/* "0.031", "1.2e-05" */
void kvsi_print_p(char *out, size_t size, double p);

/* The views: each adds its blocks and its JSON. */
kvs_status kvsi_view_compare(kvs_eval_report *report, const kvsi_stored *models, size_t count,
                             const kvs_eval_report_options *options, kvs_err *err);
kvs_status kvsi_view_show(kvs_eval_report *report, const kvsi_stored *models, size_t count,
                          const kvs_eval_report_options *options, kvs_err *err);
kvs_status kvsi_view_table(kvs_eval_report *report, const kvsi_stored *models, size_t count,
                           const kvs_eval_report_options *options, kvs_err *err);

#endif
