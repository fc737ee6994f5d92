/* base/statistics.h - means with their standard errors, paired t tests, power laws.
 *
 *   mean              m = sum_i x_i / n
 *   deviation         s = sqrt( sum_i (x_i - m)^2 / (n - 1) )
 *   standard error    e = s / sqrt(n), NaN for n = 1
 *
 * Each function below computes the standard error in its own order of operations, so results for
 * the same numbers may differ in the last digit. */
#ifndef KVSI_BASE_STATISTICS_H
#define KVSI_BASE_STATISTICS_H

#include <stddef.h>
#include <stdint.h>

typedef struct kvsi_estimate {
    double mean;  /* NaN for no numbers */
    double error; /* standard error of the mean; NaN for fewer than 2 numbers */
    size_t count;
} kvsi_estimate;

kvsi_estimate kvsi_estimate_of(const double *values, size_t count);
double kvsi_deviation(const double *values, size_t count); /* count >= 2 */

/* The same for values that are not stored, updated value by value (Welford); starts as {0}.  Unlike
 * sums of squares it keeps its digits where all values are alike. */
typedef struct kvsi_running {
    size_t count;
    double mean, squares; /* squares: sum of squared deviations from the mean */
} kvsi_running;

void kvsi_running_add(kvsi_running *running, double value);
kvsi_estimate kvsi_running_estimate(const kvsi_running *running);

/* Standard error from sum_i x_i and sum_i x_i^2.  Loses digits if the deviation is small against
 * the mean. */
double kvsi_error_of_sums(double sum, double squares, double count);

/* ---- Student's t ---- */

/* Two-sided test of the mean difference of pairs. */
typedef struct kvsi_paired_test {
    kvsi_estimate difference; /* ours - theirs */
    double t, p;              /* NaN for fewer than 2 pairs */
    size_t below;             /* pairs with ours < theirs */
} kvsi_paired_test;

enum { KVSI_PAIRS_MAX = 64 };

/* `count` <= KVSI_PAIRS_MAX.  Pairs with a number that is not finite are left out. */
kvsi_paired_test kvsi_paired_t(const double *ours, const double *theirs, size_t count);
/* P(|T| >= |t|) for Student's t distribution. */
double kvsi_t_two_sided(double t, double degrees_of_freedom);
/* Half the width of the 95 % confidence interval of the mean; NaN for fewer than 2 numbers. */
double kvsi_half_interval(const kvsi_estimate *estimate);

/* ---- power laws ---- */

/* y = factor * x^-exponent, by least squares of the logarithms. */
typedef struct kvsi_power_law {
    double factor, exponent;
} kvsi_power_law;

kvsi_power_law kvsi_fit_power_law(const double *x, const double *y, size_t count);

#endif
