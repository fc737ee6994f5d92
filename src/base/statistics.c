#include "base/statistics.h"

#include <math.h>

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

void kvsi_running_add(kvsi_running *r, double value)
{
    const double deviation = value - r->mean;

    r->mean += deviation / (double)++r->count;
    r->squares += deviation * (value - r->mean);
}

kvsi_estimate kvsi_running_estimate(const kvsi_running *r)
{
    const double n = (double)r->count;

    return (kvsi_estimate){
        .mean = r->count ? r->mean : NAN,
        .error = r->count > 1 ? sqrt(r->squares / (n - 1) / n) : NAN,
        .count = r->count,
    };
}

double kvsi_error_of_sums(double sum, double squares, double count)
{
    const double mean = sum / count;

    return count > 1 ? sqrt(fmax(squares / count - mean * mean, 0) / (count - 1)) : NAN;
}

/* ---- Student's t ----------------------------------------------------------------------------- */

/* Continued fraction of the incomplete beta function, 1 / (1 + d_1 / (1 + d_2 / (1 + ...))), with
 *     d_2m = m (b-m) x / ((a+2m-1)(a+2m)),  d_2m+1 = -(a+m)(a+b+m) x / ((a+2m)(a+2m+1)),
 * evaluated from its last term.  For x < (a+1)/(a+b+2) it converges long before m = 200. */
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

/* Regularized incomplete beta function I_x(a, b). */
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

double kvsi_t_two_sided(double t, double degrees_of_freedom)
{
    const double n = degrees_of_freedom;

    if (isnan(t))
        return NAN;
    return isinf(t) ? 0 : incomplete_beta(n / 2, 0.5, n / (n + t * t));
}

/* t with P(|T| >= t) = 0.05, by bisection: it is 12.7 for 1 degree of freedom and less for more. */
static double t_95(double degrees_of_freedom)
{
    double low = 0, high = 20;

    for (int i = 0; i < 60; i++) {
        const double middle = (low + high) / 2;

        if (kvsi_t_two_sided(middle, degrees_of_freedom) > 0.05)
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
    double differences[KVSI_PAIRS_MAX] = {0};
    size_t pairs = 0;

    for (size_t i = 0; i < count && i < KVSI_PAIRS_MAX; i++) {
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
