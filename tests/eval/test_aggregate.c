/* Means, errors and bootstraps against numbers that Python 3.11 computed with the formulas of
 * lm-evaluation-harness. */
#include "eval/aggregate.h"
#include "support.h"

#include <math.h>

static void means_and_errors(void **state)
{
    const double right[] = {1, 0, 0, 1, 1, 0, 1};

    (void)state;
    assert_true(kvsi_eval_mean(right, 7) == 0.5714285714285714);
    assert_true(fabs(kvsi_eval_error(right, 7) - 0.20203050891044214) < 1e-16);
    assert_true(isnan(kvsi_eval_error(right, 1)));
}

static void perplexity_and_its_bootstrap(void **state)
{
    const double sums[] = {-3.5, -1.25, -7.0, -0.5, -2.75};
    double one, two;
    kvs_err err;

    (void)state;
    assert_true(fabs(kvsi_eval_perplexity(sums, 5) - 20.085536923187668) < 1e-13);
    assert_int_equal(kvsi_eval_perplexity_error(&one, sums, 5, 1, &err), KVS_OK);
    assert_int_equal(kvsi_eval_perplexity_error(&two, sums, 5, 3, &err), KVS_OK);
    assert_true(fabs(one - 53.71223891827899) < 1e-11);
    assert_true(one == two);
    assert_int_equal(kvsi_eval_perplexity_error(&one, sums, 1, 1, &err), KVS_OK);
    assert_true(isnan(one));
}

static void groups_are_weighted(void **state)
{
    const double means[] = {0.25, 0.5, 0.375};
    const double errors[] = {0.13055824196677338, 0.0928476690885259, 0.19};
    const double lacks[] = {0.1, NAN, 0.2};
    const size_t sizes[] = {12, 30, 7};

    (void)state;
    assert_true(fabs(kvsi_eval_weighted_mean(means, sizes, 3) - 0.42091836734693877) < 1e-15);
    assert_true(fabs(kvsi_eval_pooled_error(errors, sizes, 3) - 0.07069875605873129) < 1e-15);
    assert_true(isnan(kvsi_eval_pooled_error(lacks, sizes, 3)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(means_and_errors),
        cmocka_unit_test(perplexity_and_its_bootstrap),
        cmocka_unit_test(groups_are_weighted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
