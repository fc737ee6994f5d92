/* repro/findings.h - what an experiment found: claims with verdicts, figures, tables, remarks.
 *
 * Figures are written at once; the rest is kept as JSON.  The first failure is kept, and later
 * calls do nothing then: kvsi_findings_check tells. */
#ifndef KVSI_REPRO_FINDINGS_H
#define KVSI_REPRO_FINDINGS_H

#include "base/json.h"
#include "kvshift/kvshift_lab.h"
#include "report/grid.h"
#include "repro/figure.h"
#include "repro/statistics.h"

typedef enum kvsi_outcome {
    KVSI_HOLDS,
    KVSI_FAILS,
    KVSI_OPEN, /* cannot be told from these runs */
} kvsi_outcome;

typedef struct kvsi_found {
    const char *claim, *paper, *unit; /* unit: NULL = none */
    double ours, error;               /* NaN = none */
    size_t seeds;
    kvsi_outcome outcome;
    int exact; /* holds or fails at any scale; otherwise scale smoke decides nothing */
} kvsi_found;

typedef struct kvsi_findings {
    const char *dir; /* where figures go */
    kvs_scale scale;
    json_t *claims, *figures, *tables, *remarks;
    void (*notice)(void *user, const char *line);
    void *user;
    kvs_status status;
    kvs_err *err;
} kvsi_findings;

kvs_status kvsi_findings_init(kvsi_findings *findings, const char *dir,
                              const kvs_repro_options *options, kvs_err *err);
void kvsi_findings_release(kvsi_findings *findings);
kvs_status kvsi_findings_check(const kvsi_findings *findings);

/* `detail`, a sentence without a full stop, says how the outcome came about; "" = nothing. */
void kvsi_findings_claim(kvsi_findings *findings, const kvsi_found *found, const char *detail, ...)
    __attribute__((format(printf, 3, 4)));
/* Takes the figure's memory.  Writes NAME.svg (left out, with a notice, where there is no gnuplot)
 * and NAME.csv. */
void kvsi_findings_figure(kvsi_findings *findings, kvsi_figure *figure);
/* A drawing of another kind, a whole SVG file; its CSV is the caller's business. */
void kvsi_findings_drawing(kvsi_findings *findings, const char *name, const char *caption,
                           const char *svg);
/* Takes the grid's memory; its first cells are the headings.  Also writes NAME.csv. */
void kvsi_findings_table(kvsi_findings *findings, const char *name, const char *caption,
                         kvsi_grid *grid);
void kvsi_findings_remark(kvsi_findings *findings, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
