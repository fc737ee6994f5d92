/* report/arms.h - runs that differ in nothing but their seed, averaged; and arms compared seed by
 * seed.
 *
 *   mean            m = Σ x_i / n
 *   standard error  e = sqrt( Σ (x_i - m)² / (n - 1) / n ),  NaN for n = 1
 *
 * Losses are compared within a seed, because runs of one seed share the order of their data and
 * most of their initial weights: much of what varies between seeds cancels. */
#ifndef KVSI_REPORT_ARMS_H
#define KVSI_REPORT_ARMS_H

#include "report/run.h"

/* At one step, over runs or over seeds. */
typedef struct kvsi_mean {
    uint64_t step;
    double mean, error;
} kvsi_mean;

typedef struct kvsi_arm {
    kvs_arm_summary summary;
    char *label;
    const kvsi_run **runs;    /* in the order given; borrowed */
    const kvsi_run **counted; /* those in the means: the complete ones, or else all */
    kvsi_mean *curve;         /* at the steps at which all of those were evaluated */
    size_t curve_count;
} kvsi_arm;

typedef struct kvsi_difference {
    kvs_arm_difference summary;
    uint64_t *seeds;
    double *values;
    const kvsi_run **ours, **theirs; /* one of each a seed; borrowed */
    kvsi_mean *curve;
    size_t curve_count;
} kvsi_difference;

typedef struct kvsi_arms {
    kvsi_arm *arms;
    size_t count;
    kvsi_difference *differences;
    size_t difference_count;
} kvsi_arms;

/* The runs must stay where they are.  What was made before a failure is released. */
kvs_status kvsi_arms_create(kvsi_arms *out, const kvsi_run *runs, size_t count, kvs_err *err);
void kvsi_arms_release(kvsi_arms *arms); /* a zeroed one is fine */

/* Mean and standard error of `count` >= 1 numbers. */
kvsi_mean kvsi_mean_of(const double *numbers, size_t count);

#endif
