/* report/arms.h - arms: runs that differ only in their seed, averaged; and arms compared seed by
 * seed.  Means and standard errors are those of base/statistics.h.
 *
 * Losses are compared within a seed, because runs of one seed share the order of their data and
 * most of their initial weights: much of the variation between seeds cancels. */
#ifndef KVSI_REPORT_ARMS_H
#define KVSI_REPORT_ARMS_H

#include "kvshift/kvshift_lab.h"
#include "report/run.h"

/* One point of a mean curve, over runs or over seeds. */
typedef struct kvsi_mean {
    uint64_t step;
    double mean, error; /* error: standard error, or NaN */
} kvsi_mean;

typedef struct kvsi_arm {
    kvs_arm_summary summary;
    char *label;
    const kvsi_run **runs;    /* in the order given; borrowed */
    const kvsi_run **counted; /* in the means: complete runs, or all if none is complete */
    kvsi_mean *curve;         /* at steps at which all of `counted` were evaluated */
    size_t curve_count;
} kvsi_arm;

typedef struct kvsi_difference {
    kvs_arm_difference summary;
    uint64_t *seeds;
    double *values;
    const kvsi_run **ours, **theirs; /* one of each per seed; borrowed */
    kvsi_mean *curve;
    size_t curve_count;
} kvsi_difference;

typedef struct kvsi_arms {
    kvsi_arm *arms;
    size_t count;
    kvsi_difference *differences;
    size_t difference_count;
} kvsi_arms;

/* Keeps pointers to the runs.  On failure *out is released. */
kvs_status kvsi_arms_create(kvsi_arms *out, const kvsi_run *runs, size_t count, kvs_err *err);
void kvsi_arms_release(kvsi_arms *arms); /* {0} is valid */

#endif
