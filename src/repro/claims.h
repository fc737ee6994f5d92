/* repro/claims.h - what an experiment found: claims with verdicts, charts, tables, remarks.
 *
 * Charts and tables are written to files at once; everything is kept as JSON for the page.  After a
 * failure further calls do nothing; kvsi_claims_check returns the first one. */
#ifndef KVSI_REPRO_CLAIMS_H
#define KVSI_REPRO_CLAIMS_H

#include "base/json.h"
#include "base/statistics.h"
#include "kvshift/kvshift_lab.h"
#include "report/chart.h"
#include "report/table.h"

typedef enum kvsi_outcome {
    KVSI_HOLDS,
    KVSI_FAILS,
    KVSI_OPEN, /* these runs do not decide it */
} kvsi_outcome;

/* Whether the mean difference has the claimed sign, with p < 0.05. */
kvsi_outcome kvsi_sign_outcome(const kvsi_paired_test *test, int sign);

typedef struct kvsi_claim {
    const char *claim, *paper, *unit; /* unit: NULL = none */
    double ours, error;               /* NaN = none */
    size_t seeds;
    kvsi_outcome outcome;
    int exact; /* decided at any scale; other claims stay open at scale smoke */
} kvsi_claim;

/* A claim about the mean of a paired test: fills ours, error and seeds. */
kvsi_claim kvsi_claim_of_test(const kvsi_paired_test *test, const char *claim, const char *paper,
                              const char *unit, kvsi_outcome outcome);

typedef struct kvsi_claims {
    const char *dir; /* for charts and tables */
    kvs_scale scale;
    json_t *claims, *figures, *tables, *remarks;
    void (*notice)(void *user, const char *line);
    void *user;
    kvs_status status;
    kvs_err *err;
} kvsi_claims;

kvs_status kvsi_claims_init(kvsi_claims *claims, const char *dir, const kvs_repro_options *options,
                            kvs_err *err);
void kvsi_claims_release(kvsi_claims *claims);
kvs_status kvsi_claims_check(const kvsi_claims *claims);

/* `detail`, a sentence without a full stop, explains the outcome; "" = nothing. */
void kvsi_claims_add(kvsi_claims *claims, const kvsi_claim *claim, const char *detail, ...)
    __attribute__((format(printf, 3, 4)));
/* The same for a statistical test.  With fewer than two seeds the detail is KVSI_UNTESTED. */
#define KVSI_UNTESTED "one seed says nothing about chance"
void kvsi_claims_add_test(kvsi_claims *claims, const kvsi_claim *claim, const char *detail, ...)
    __attribute__((format(printf, 3, 4)));
/* Writes NAME.svg and NAME.csv, and releases the chart.  Without gnuplot the SVG is left out, with
 * a notice. */
void kvsi_claims_chart(kvsi_claims *claims, kvsi_chart *chart);
/* A drawing that is not a kvsi_chart; `status` and `why` are what drawing it returned. */
void kvsi_claims_svg(kvsi_claims *claims, kvs_status status, const kvs_err *why, const char *name,
                     const char *caption, const char *svg);
/* Writes NAME.csv and releases the table. */
void kvsi_claims_table(kvsi_claims *claims, const char *name, const char *caption,
                       kvsi_table *table);
void kvsi_claims_remark(kvsi_claims *claims, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Table cells: "4.9279 ± 0.0062", or without an error where there is none; "0.003", or a dash. */
void kvsi_table_estimate(kvsi_table *table, const kvsi_estimate *estimate, int digits,
                         const char *unit);
void kvsi_table_p(kvsi_table *table, double p);

#endif
