/* repro/claims.h - what an experiment found: claims with verdicts, figures, tables, remarks.
 *
 * Figures are written at once; the rest is kept as JSON.  The first failure is kept, and later
 * calls do nothing then: kvsi_claims_check tells. */
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
    KVSI_OPEN, /* cannot be told from these runs */
} kvsi_outcome;

/* Whether a mean difference has the sign that is claimed, by more than chance (p < 0.05). */
kvsi_outcome kvsi_sign_outcome(const kvsi_paired_test *test, int sign);

typedef struct kvsi_claim {
    const char *claim, *paper, *unit; /* unit: NULL = none */
    double ours, error;               /* NaN = none */
    size_t seeds;
    kvsi_outcome outcome;
    int exact; /* holds or fails at any scale; otherwise scale smoke decides nothing */
} kvsi_claim;

typedef struct kvsi_claims {
    const char *dir; /* where figures go */
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

/* `detail`, a sentence without a full stop, says how the outcome came about; "" = nothing. */
void kvsi_claims_add(kvsi_claims *claims, const kvsi_claim *found, const char *detail, ...)
    __attribute__((format(printf, 3, 4)));
/* The same where `found` rests on one seed, which nothing can be said about but the number. */
void kvsi_claims_add_single(kvsi_claims *claims, const kvsi_claim *found);
/* Takes the figure's memory.  Writes NAME.svg (left out, with a notice, where there is no gnuplot)
 * and NAME.csv. */
void kvsi_claims_chart(kvsi_claims *claims, kvsi_chart *chart);
/* A drawing of another kind, a whole SVG file; its CSV is the caller's business. */
void kvsi_claims_svg(kvsi_claims *claims, const char *name, const char *caption, const char *svg);
/* The same for what gnuplot was asked for: where it is not there, that is said and no failure. */
void kvsi_claims_drawn(kvsi_claims *claims, kvs_status status, const kvs_err *why, const char *name,
                       const char *caption, const char *svg);
/* Takes the table's memory; its first cells are the headings.  Also writes NAME.csv. */
void kvsi_claims_table(kvsi_claims *claims, const char *name, const char *caption,
                       kvsi_table *table);
/* Cells of a table: "4.9279 ± 0.0062", without an error where there is none; "0.003", or a dash. */
void kvsi_table_estimate(kvsi_table *table, const kvsi_estimate *estimate, int digits,
                         const char *unit);
void kvsi_table_p(kvsi_table *table, double p);
void kvsi_claims_remark(kvsi_claims *claims, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
