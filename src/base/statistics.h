/* base/statistics.h - means with their standard errors, paired tests, proportions, resampling,
 * power laws.
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

/* ---- proportions ---- */

/* The quantile of the normal distribution for intervals of 95 %. */
#define KVSI_NORMAL_95 1.959963984540054

typedef struct kvsi_interval {
    double low, high;
} kvsi_interval;

/* Wilson's 95 % interval of a proportion of which `right` of `count` were observed.  It stays
 * within 0 and 1, and has a width for 0 and for `count`, too.  NaN for count = 0. */
kvsi_interval kvsi_wilson(size_t right, size_t count);

/* McNemar's test of two proportions on the same `count` documents: `gained` are right only in the
 * second, `lost` only in the first.  If both are equally good, `gained` is binomial with n = gained
 * + lost and probability 1/2. */
typedef struct kvsi_mcnemar {
    double difference; /* of the proportions, second - first: (gained - lost) / count */
    double error;      /* its standard error: sqrt(g + l - (g - l)^2 / count) / count */
    double exact;      /* two-sided p: min(1, 2 P(X <= min(gained, lost))); 1 for n = 0 */
    double mid;        /* mid-p: the exact one minus P(X = min(gained, lost)), less conservative */
} kvsi_mcnemar;

kvsi_mcnemar kvsi_mcnemar_test(size_t gained, size_t lost, size_t count);

/* Holm's correction: adjusted[i] is the p value of test i such that the probability of any false
 * rejection among all `count` tests is kept.  A NaN is no test and stays NaN. */
void kvsi_holm(double *adjusted, const double *p, size_t count);

/* ---- resampling ---- */

/* The mean of `count` values drawn with replacement; draw number `draw` of that seed. */
double kvsi_resampled_mean(const double *values, size_t count, uint64_t seed, uint64_t draw);
/* The same where whole clusters are drawn: sum of the drawn clusters' sums over the sum of their
 * sizes. */
double kvsi_resampled_clusters(const double *sums, const size_t *sizes, size_t clusters,
                               uint64_t seed, uint64_t draw);

/* What draws of a statistic say of it. */
typedef struct kvsi_resampled {
    double error;           /* deviation of the draws */
    kvsi_interval interval; /* their 2.5 % and 97.5 % quantiles, linear between draws */
    double p;               /* two-sided, of the value 0: 2 (1 + the fewer of draws <= 0 and >= 0) /
                               (1 + count), at most 1 */
} kvsi_resampled;

/* Sorts the draws; count >= 2. */
kvsi_resampled kvsi_resampled_of(double *draws, size_t count);

/* ---- power laws ---- */

/* y = factor * x^-exponent, by least squares of the logarithms. */
typedef struct kvsi_power_law {
    double factor, exponent;
} kvsi_power_law;

kvsi_power_law kvsi_fit_power_law(const double *x, const double *y, size_t count);

#endif
