/* Tests of proportions and resampling, against values of scipy 1.x (binomtest, proportion_ci) and
 * against values computed by hand. */
#include "base/statistics.h"

#include <math.h>

/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h> /* needs those before it */
/* clang-format on */

#define assert_near(a, b, tolerance) assert_true(fabs((a) - (b)) <= (tolerance))

static void mcnemar_is_the_exact_binomial_test(void **state)
{
    static const struct {
        size_t gained, lost;
        double exact, mid;
    } cases[] = {
        {0, 0, 1, 1},
        {3, 3, 1, 1},
        {38, 17, 0.006455803109956635, 0.004561532746408215},
        {17, 38, 0.006455803109956635, 0.004561532746408215},
        {10, 1, 0.01171875, 0.00634765625},
        {700, 600, 0.0060157938610449395, 0.005543558709501235},
        {7000, 6800, 0.09026155442548957, 0.08866713001510673},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const kvsi_mcnemar test = kvsi_mcnemar_test(cases[i].gained, cases[i].lost, 20000);

        assert_near(test.exact, cases[i].exact, 1e-10);
        assert_near(test.mid, cases[i].mid, 1e-10);
    }
}

/* 300 pairs whose differences are 38 times 1 and 17 times -1: the error of their mean, with n
 * rather than n - 1. */
static void mcnemar_has_the_error_of_the_paired_difference(void **state)
{
    const kvsi_mcnemar test = kvsi_mcnemar_test(38, 17, 300);
    const double mean = 21.0 / 300, variance = 55.0 / 300 - mean * mean;

    (void)state;
    assert_near(test.difference, mean, 1e-15);
    assert_near(test.error, sqrt(variance / 300), 1e-15);
}

static void wilson_is_that_of_scipy(void **state)
{
    static const struct {
        size_t right, count;
        double low, high;
    } cases[] = {
        {0, 10, 0, 0.27753279986288926},
        {10, 10, 0.7224672001371109, 1},
        {94, 300, 0.2634843975598554, 0.36790231169730847},
        {1, 3, 0.06149194472039626, 0.7923403991979523},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const kvsi_interval w = kvsi_wilson(cases[i].right, cases[i].count);

        assert_near(w.low, cases[i].low, 1e-12);
        assert_near(w.high, cases[i].high, 1e-12);
    }
    assert_true(isnan(kvsi_wilson(0, 0).low));
}

/* Sorted: 0.01, 0.02, 0.02, 0.4, 0.5; times 5, 4, 3, 2, 1: 0.05, 0.08, 0.06, 0.8, 0.5; then the
 * running maximum. */
static void holm_is_monotone_and_leaves_out_nan(void **state)
{
    const double p[] = {0.4, 0.02, NAN, 0.01, 0.5, 0.02};
    const double expected[] = {0.8, 0.08, NAN, 0.05, 0.8, 0.08};
    double adjusted[6];

    (void)state;
    kvsi_holm(adjusted, p, 6);
    for (size_t i = 0; i < 6; i++)
        if (isnan(expected[i]))
            assert_true(isnan(adjusted[i]));
        else
            assert_near(adjusted[i], expected[i], 1e-15);
    kvsi_holm(adjusted, (const double[]){0.9}, 1);
    assert_near(adjusted[0], 0.9, 1e-15);
    kvsi_holm(adjusted, (const double[]){0.6, 0.6}, 2);
    assert_near(adjusted[0], 1, 0);
}

/* The deviation of resampled means is sqrt(variance / n), with n rather than n - 1. */
static void resampled_means_have_the_error_of_the_mean(void **state)
{
    enum { N = 50, DRAWS = 20000 };
    static double draws[DRAWS];
    double values[N], mean = 0, variance = 0;
    kvsi_resampled r;

    (void)state;
    for (size_t i = 0; i < N; i++) {
        values[i] = sin((double)i) + 0.5;
        mean += values[i] / N;
    }
    for (size_t i = 0; i < N; i++)
        variance += (values[i] - mean) * (values[i] - mean) / N;
    for (size_t i = 0; i < DRAWS; i++)
        draws[i] = kvsi_resampled_mean(values, N, 7, i);
    assert_true(draws[5] == kvsi_resampled_mean(values, N, 7, 5));
    assert_true(draws[5] != kvsi_resampled_mean(values, N, 8, 5));
    r = kvsi_resampled_of(draws, DRAWS);
    /* The deviation of a deviation over n draws is about 1 / sqrt(2 n) of it: 0.5 %; 4 of these. */
    assert_near(r.error, sqrt(variance / N), 0.02 * sqrt(variance / N));
    assert_near(r.interval.low, mean - KVSI_NORMAL_95 * r.error, 0.1 * r.error);
    assert_near(r.interval.high, mean + KVSI_NORMAL_95 * r.error, 0.1 * r.error);
    assert_true(r.p < 0.001);
}

static void whole_clusters_are_drawn(void **state)
{
    enum { DRAWS = 1000 };
    const double sums[] = {10, -2};
    const size_t sizes[] = {10, 2};
    size_t seen[3] = {0};

    (void)state;
    for (size_t i = 0; i < DRAWS; i++) {
        const double mean = kvsi_resampled_clusters(sums, sizes, 2, 1, i);

        /* both the first, one of each, or both the second */
        if (fabs(mean - 1) < 1e-12)
            seen[0]++;
        else if (fabs(mean - 8.0 / 12) < 1e-12)
            seen[1]++;
        else if (fabs(mean + 1) < 1e-12)
            seen[2]++;
        else
            fail();
    }
    assert_true(seen[0] > 190 && seen[0] < 310);
    assert_true(seen[1] > 430 && seen[1] < 570);
    assert_true(seen[2] > 190 && seen[2] < 310);
}

/* Quantiles of 0, 1, ..., 100 are at 2.5 and 97.5; one of 101 draws is not above 0. */
static void draws_give_quantiles_and_a_p_value(void **state)
{
    double draws[101];
    kvsi_resampled r;

    (void)state;
    for (size_t i = 0; i < 101; i++)
        draws[i] = (double)((i * 37) % 101);
    r = kvsi_resampled_of(draws, 101);
    assert_near(r.interval.low, 2.5, 1e-12);
    assert_near(r.interval.high, 97.5, 1e-12);
    assert_near(r.p, 2.0 * 2 / 102, 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mcnemar_is_the_exact_binomial_test),
        cmocka_unit_test(mcnemar_has_the_error_of_the_paired_difference),
        cmocka_unit_test(wilson_is_that_of_scipy),
        cmocka_unit_test(holm_is_monotone_and_leaves_out_nan),
        cmocka_unit_test(resampled_means_have_the_error_of_the_mean),
        cmocka_unit_test(whole_clusters_are_drawn),
        cmocka_unit_test(draws_give_quantiles_and_a_p_value),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
