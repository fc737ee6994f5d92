/* base/statistics.h - what a few numbers say. */
#ifndef KVSI_BASE_STATISTICS_H
#define KVSI_BASE_STATISTICS_H

#include <stddef.h>
#include <stdint.h>

typedef struct kvsi_estimate {
    double mean, error; /* standard error; NaN for one number */
    size_t count;
} kvsi_estimate;

kvsi_estimate kvsi_estimate_of(const double *values, size_t count);
double kvsi_median(const double *values, size_t count); /* NaN if there are none, <= 64 of them */

/* Student's t for the mean of differences, two-sided. */
typedef struct kvsi_paired_test {
    kvsi_estimate difference; /* ours - theirs, pair by pair */
    double t, p;              /* NaN with fewer than 2 pairs */
    size_t below;             /* pairs with ours < theirs */
} kvsi_paired_test;

/* `count` <= 64 pairs; those with a number that is not finite are left out. */
kvsi_paired_test kvsi_paired_t(const double *ours, const double *theirs, size_t count);
/* P(|T| >= |t|) for Student's t with so many degrees of freedom. */
double kvsi_t_two_sided(double t, double freedom);
/* Half the width of the 95 % interval of the mean. */
double kvsi_half_interval(const kvsi_estimate *estimate);

/* y = factor * x^-exponent, by least squares of logarithms. */
typedef struct kvsi_power_law {
    double factor, exponent;
} kvsi_power_law;

kvsi_power_law kvsi_fit_power_law(const double *x, const double *y, size_t count);

/* Standard deviation of `count` >= 2 numbers about their mean. */
double kvsi_deviation(const double *values, size_t count);

#endif
