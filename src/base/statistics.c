#include "base/statistics.h"

#include "base/random.h"

#include <math.h>
#include <stdlib.h>

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

/* ---- proportions ----------------------------------------------------------------------------- */

kvsi_interval kvsi_wilson(size_t right, size_t count)
{
    const double n = (double)count, p = (double)right / n, z = KVSI_NORMAL_95;
    const double width = 1 + z * z / n, centre = (p + z * z / (2 * n)) / width;
    const double half = z / width * sqrt(p * (1 - p) / n + z * z / (4 * n * n));

    if (count == 0)
        return (kvsi_interval){NAN, NAN};
    return (kvsi_interval){right == 0 ? 0 : centre - half, right == count ? 1 : centre + half};
}

kvsi_mcnemar kvsi_mcnemar_test(size_t gained, size_t lost, size_t count)
{
    const double g = (double)gained, l = (double)lost, n = g + l, all = (double)count;
    const double fewer = fmin(g, l);
    /* P(X = k) for k = fewer, fewer - 1, ..., 0 */
    const double at = exp(lgamma(n + 1) - lgamma(fewer + 1) - lgamma(n - fewer + 1) - n * log(2));
    double term = at, tail = 0;

    for (double k = fewer; k >= 0 && term > 0; k--) {
        tail += term;
        term *= k / (n - k + 1);
    }
    return (kvsi_mcnemar){
        .difference = (g - l) / all,
        .error = sqrt(fmax(n - (g - l) * (g - l) / all, 0)) / all,
        .exact = fmin(2 * tail, 1),
        .mid = fmin(2 * tail - at, 1),
    };
}

/* The next larger p value after *at, in the order of values and then of indices; count = none. */
static size_t next_p(const double *p, size_t count, size_t at)
{
    size_t next = count;

    for (size_t i = 0; i < count; i++) {
        const int after = at == count || p[i] > p[at] || (p[i] == p[at] && i > at);

        if (!isnan(p[i]) && after && (next == count || p[i] < p[next]))
            next = i;
    }
    return next;
}

void kvsi_holm(double *adjusted, const double *p, size_t count)
{
    double left = 0, least = 0;

    for (size_t i = 0; i < count; i++) {
        adjusted[i] = NAN;
        left += !isnan(p[i]);
    }
    for (size_t i = next_p(p, count, count); i < count; i = next_p(p, count, i)) {
        least = fmax(least, fmin(left * p[i], 1));
        adjusted[i] = least;
        left--;
    }
}

/* ---- resampling ------------------------------------------------------------------------------ */

double kvsi_resampled_mean(const double *values, size_t count, uint64_t seed, uint64_t draw)
{
    kvsi_random random;
    double sum = 0;

    kvsi_random_init(&random, seed, KVSI_RANDOM_RESAMPLE, draw);
    for (size_t i = 0; i < count; i++)
        sum += values[kvsi_random_below(&random, (uint32_t)count)];
    return sum / (double)count;
}

double kvsi_resampled_clusters(const double *sums, const size_t *sizes, size_t clusters,
                               uint64_t seed, uint64_t draw)
{
    kvsi_random random;
    double sum = 0, size = 0;

    kvsi_random_init(&random, seed, KVSI_RANDOM_RESAMPLE, draw);
    for (size_t i = 0; i < clusters; i++) {
        const size_t drawn = kvsi_random_below(&random, (uint32_t)clusters);

        sum += sums[drawn];
        size += (double)sizes[drawn];
    }
    return sum / size;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double quantile(const double *sorted, size_t count, double share)
{
    const double at = share * (double)(count - 1);
    const size_t below = (size_t)at;

    return below + 1 < count
               ? sorted[below] + (at - (double)below) * (sorted[below + 1] - sorted[below])
               : sorted[count - 1];
}

kvsi_resampled kvsi_resampled_of(double *draws, size_t count)
{
    size_t low = 0, high = 0;

    for (size_t i = 0; i < count; i++) {
        low += draws[i] <= 0;
        high += draws[i] >= 0;
    }
    qsort(draws, count, sizeof *draws, ascending);
    return (kvsi_resampled){
        .error = kvsi_deviation(draws, count),
        .interval = {quantile(draws, count, 0.025), quantile(draws, count, 0.975)},
        .p = fmin(2 * (1 + (double)(low < high ? low : high)) / (1 + (double)count), 1),
    };
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
