#include "base/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64 };

double kvsi_deviation(const double *values, size_t count)
{
    double mean = 0, squares = 0;

    for (size_t i = 0; i < count; i++)
        mean += values[i] / (double)count;
    for (size_t i = 0; i < count; i++)
        squares += (values[i] - mean) * (values[i] - mean);
    return sqrt(squares / (double)(count - 1));
}

kvsi_estimate kvsi_estimate_of(const double *values, size_t count)
{
    kvsi_estimate e = {.mean = count ? 0 : NAN, .error = NAN, .count = count};

    for (size_t i = 0; i < count; i++)
        e.mean += values[i] / (double)count;
    if (count > 1)
        e.error = kvsi_deviation(values, count) / sqrt((double)count);
    return e;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double kvsi_median(const double *values, size_t count)
{
    double sorted[MOST];

    if (count == 0 || count > MOST)
        return NAN;
    memcpy(sorted, values, count * sizeof *values);
    qsort(sorted, count, sizeof *sorted, compare);
    return count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

/* ---- Student's t ----------------------------------------------------------------------------- */

/* The continued fraction of the incomplete beta function, from its end: term m of it is
 * d_2m = m (b-m) x / ((a+2m-1)(a+2m)),  d_2m+1 = -(a+m)(a+b+m) x / ((a+2m)(a+2m+1)).
 * For x < (a+1)/(a+b+2) two hundred terms are far more than enough. */
static double beta_fraction(double a, double b, double x)
{
    double f = 1;

    for (int m = 200; m >= 0; m--) {
        const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
                     odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));

        f = 1 + odd / f;
        if (m > 0)
            f = 1 + even / f;
    }
    return 1 / f;
}

/* The regularised incomplete beta function. */
static double incomplete_beta(double a, double b, double x)
{
    double front;

    if (x <= 0 || x >= 1)
        return x <= 0 ? 0 : 1;
    if (x > (a + 1) / (a + b + 2))
        return 1 - incomplete_beta(b, a, 1 - x);
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
    return front * beta_fraction(a, b, x) / a;
}

double kvsi_t_two_sided(double t, double freedom)
{
    if (isnan(t))
        return NAN;
    return isinf(t) ? 0 : incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t));
}

/* t with P(|T| >= t) = 0.05: halving an interval that surely holds it (12.7 for 1 degree). */
static double t_95(double freedom)
{
    double low = 0, high = 20;

    for (int i = 0; i < 60; i++) {
        const double middle = (low + high) / 2;

        if (kvsi_t_two_sided(middle, freedom) > 0.05)
            low = middle;
        else
            high = middle;
    }
    return high;
}

double kvsi_half_interval(const kvsi_estimate *estimate)
{
    return estimate->count < 2 ? NAN : t_95((double)(estimate->count - 1)) * estimate->error;
}

kvsi_paired_test kvsi_paired_t(const double *ours, const double *theirs, size_t count)
{
    kvsi_paired_test test = {.t = NAN, .p = NAN};
    double differences[MOST] = {0};
    size_t pairs = 0;

    for (size_t i = 0; i < count && i < MOST; i++) {
        if (!isfinite(ours[i]) || !isfinite(theirs[i]))
            continue;
        differences[pairs++] = ours[i] - theirs[i];
        test.below += ours[i] < theirs[i];
    }
    test.difference = kvsi_estimate_of(differences, pairs);
    if (pairs < 2)
        return test;
    test.t = test.difference.mean / test.difference.error;
    test.p = kvsi_t_two_sided(test.t, (double)(pairs - 1));
    return test;
}

/* ---- power laws ------------------------------------------------------------------------------ */

kvsi_power_law kvsi_fit_power_law(const double *x, const double *y, size_t count)
{
    double mean_x = 0, mean_y = 0, xx = 0, xy = 0, slope;

    for (size_t i = 0; i < count; i++) {
        mean_x += log(x[i]) / (double)count;
        mean_y += log(y[i]) / (double)count;
    }
    for (size_t i = 0; i < count; i++) {
        const double dx = log(x[i]) - mean_x;

        xx += dx * dx;
        xy += dx * (log(y[i]) - mean_y);
    }
    slope = xy / xx;
    return (kvsi_power_law){.factor = exp(mean_y - slope * mean_x), .exponent = -slope};
}
