/* The formulas of the theorems, compared with definitions, real networks and independent
 * numbers. */
#include "base/files.h"
#include "base/memory.h"
#include "base/program.h"
#include "kvshift/kvshift_lab.h"
#include "support.h"

#include <math.h>
#include <string.h>

static const kvs_coefficients known = {.alpha1 = .2, .alpha2 = .8, .beta1 = .9, .beta2 = .1};
static const kvs_coefficients halves = {.5, .5, .5, .5};
/* arbitrary: signs differ, sums are not 1 */
static const kvs_coefficients odd = {.alpha1 = -.7, .alpha2 = 1.9, .beta1 = 2.3, .beta2 = -.4};

static double loss_of(kvs_theorem3_form form, size_t T, size_t i, const kvs_coefficients *at)
{
    const kvs_theorem3 problem = {.form = form, .T = T, .i = i};
    double loss;

    assert_int_equal(kvs_theorem3_loss(&loss, NULL, &problem, at, NULL), KVS_OK);
    return loss;
}

static void expect_near(double found, double expected, double limit, const char *what)
{
    if (!(fabs(found - expected) <= limit))
        fail_msg("%s is %.12g, expected %.12g within %.1g", what, found, expected, limit);
}

/* ---- theorem 3 ---- */

static void loss_has_its_known_values(void **state)
{
    (void)state; /* half a unit of the last digit that is known */
    expect_near(loss_of(KVS_THEOREM3_EXACT, 12, 0, &known), 2.42483, 5e-6, "loss");
    expect_near(loss_of(KVS_THEOREM3_EXACT, 12, 0, &halves), 2.47722, 5e-6, "loss at all ½");
}

/* Sums of up to 101 numbers near 1: rounding stays below 2e-13. */
static void formula_is_brute_force_for_every_i(void **state)
{
    const kvs_coefficients *const places[] = {&known, &halves, &odd};

    (void)state;
    for (size_t T = 3; T <= 100; T++)
        for (size_t i = 1; i < T; i++)
            for (size_t p = 0; p < 3; p++) {
                double brute;

                assert_int_equal(kvs_theorem3_brute_force(&brute, T, i, places[p], NULL), KVS_OK);
                expect_near(loss_of(KVS_THEOREM3_EXACT, T, i, places[p]), brute, 2e-13, "loss");
            }
}

static void edges_differ_from_the_middle(void **state)
{
    const double middle = loss_of(KVS_THEOREM3_EXACT, 12, 0, &odd);

    (void)state;
    expect_near(loss_of(KVS_THEOREM3_EXACT, 12, 2, &odd), middle, 0, "i = 2");
    expect_near(loss_of(KVS_THEOREM3_EXACT, 12, 10, &odd), middle, 0, "i = T - 2");
    assert_true(fabs(loss_of(KVS_THEOREM3_EXACT, 12, 1, &odd) - middle) > 1e-4);
    assert_true(fabs(loss_of(KVS_THEOREM3_EXACT, 12, 11, &odd) - middle) > 1e-4);
}

/* The formula of the paper, term by term, with `in_sum` and `in_loss` for its two O(T). */
static double as_printed(const kvs_coefficients *c, double in_sum, double in_loss)
{
    const double S = exp(c->alpha2) + 2 * exp(c->alpha1) + in_sum;
    const double a1 = exp(c->alpha1) / S, a2 = exp(c->alpha2) / S;
    const double right = exp(a2 * c->beta1 + c->beta2 / S);

    return -log(right / (right + 2 * exp(c->beta1 / S + c->beta2 * a2) +
                         exp(2 * a1 * c->beta1 + a2 * c->beta2) + in_loss));
}

static void printed_formula_is_the_papers(void **state)
{
    const double S = exp(odd.alpha2) + 2 * exp(odd.alpha1) + 10;
    const double others = 8 * exp((odd.beta1 + odd.beta2) / S);

    (void)state;
    expect_near(loss_of(KVS_THEOREM3_PRINTED, 12, 0, &odd), as_printed(&odd, 10, others), 1e-14,
                "printed");
    expect_near(loss_of(KVS_THEOREM3_FIGURE, 10, 0, &odd), as_printed(&odd, 10, 10), 1e-14,
                "figure");
    expect_near(loss_of(KVS_THEOREM3_FIGURE, 0, 0, &odd), as_printed(&odd, 0, 0), 1e-14,
                "figure without others");
    assert_true(fabs(loss_of(KVS_THEOREM3_PRINTED, 12, 0, &odd) -
                     loss_of(KVS_THEOREM3_EXACT, 12, 0, &odd)) > 1e-2);
}

/* Central differences with step 1e-5 are right to about 1e-10 in double. */
static void gradient_is_that_of_the_loss(void **state)
{
    static const kvs_theorem3 problems[] = {{KVS_THEOREM3_EXACT, 12, 0},
                                            {KVS_THEOREM3_EXACT, 5, 1},
                                            {KVS_THEOREM3_EXACT, 5, 4},
                                            {KVS_THEOREM3_PRINTED, 30, 0},
                                            {KVS_THEOREM3_FIGURE, 0, 0}};
    const double step = 1e-5;

    (void)state;
    for (size_t p = 0; p < sizeof problems / sizeof *problems; p++) {
        kvs_coefficients at = odd, gradient;
        double *const numbers[] = {&at.alpha1, &at.alpha2, &at.beta1, &at.beta2};
        const double *const found[] = {&gradient.alpha1, &gradient.alpha2, &gradient.beta1,
                                       &gradient.beta2};
        double up, down;

        assert_int_equal(kvs_theorem3_loss(&up, &gradient, &problems[p], &at, NULL), KVS_OK);
        for (size_t n = 0; n < 4; n++) {
            const double here = *numbers[n];

            *numbers[n] = here + step;
            kvs_theorem3_loss(&up, NULL, &problems[p], &at, NULL);
            *numbers[n] = here - step;
            kvs_theorem3_loss(&down, NULL, &problems[p], &at, NULL);
            *numbers[n] = here;
            expect_near(*found[n], (up - down) / (2 * step), 1e-9, "gradient");
        }
    }
}

/* A network of float32 has about seven digits. */
static void network_with_right_angles_is_the_limit(void **state)
{
    kvs_runtime *rt = support_runtime(NULL);

    (void)state;
    for (size_t T = 5; T <= 40; T += 7)
        for (size_t i = 1; i < T; i++) {
            double loss;

            assert_int_equal(kvs_theorem3_network(&loss, rt, T, i, &odd, NULL), KVS_OK);
            expect_near(loss, loss_of(KVS_THEOREM3_EXACT, T, i, &odd), 1e-6, "network");
        }
    kvs_runtime_free(rt);
}

/* At dim 1024 the mean differs by less than 0.002 because of the finite width, plus four standard
 * errors.  The deviation of one network's loss is about 0.009. */
static void random_networks_come_near(void **state)
{
    enum { SAMPLES = 60 };
    kvs_runtime *rt = support_runtime(NULL);
    kvs_estimate found;

    (void)state;
    assert_int_equal(kvs_theorem3_monte_carlo(&found, rt, 12, &known, 1024, SAMPLES, 7, NULL),
                     KVS_OK);
    expect_near(found.error * sqrt(SAMPLES), 0.009, 0.004, "deviation");
    expect_near(found.mean, 2.42483, 0.002 + 4 * found.error, "mean");
    kvs_runtime_free(rt);
}

static void induction_head_is_lowest_on_the_square(void **state)
{
    (void)state;
    for (size_t T = 4; T <= 1000; T = T * 3 / 2) {
        const kvs_theorem3 problem = {.form = KVS_THEOREM3_EXACT, .T = T};
        kvs_coefficients where;
        double loss;

        assert_int_equal(kvs_theorem3_minimum(&where, &loss, &problem, 20, NULL), KVS_OK);
        expect_near(where.alpha1, 0, 0, "alpha1");
        expect_near(where.beta1, 1, 0, "beta1");
    }
}

/* The end point is known to about a tenth.  Two coefficients must be negative, the others large,
 * and the descent must not have converged. */
static void free_descent_leaves_the_square(void **state)
{
    const kvs_theorem3 problem = {.form = KVS_THEOREM3_EXACT, .T = 30};
    kvs_coefficients at = halves, later, gradient;
    double loss;

    (void)state;
    assert_int_equal(
        kvs_theorem3_descend(&at, &problem, &(kvs_descent){.lr = .01, .steps = 5000}, NULL),
        KVS_OK);
    expect_near(at.alpha1, -3, .3, "alpha1");
    expect_near(at.alpha2, 6.8, .7, "alpha2");
    expect_near(at.beta1, 10, 1, "beta1");
    expect_near(at.beta2, -3.5, .35, "beta2");
    later = at;
    assert_int_equal(
        kvs_theorem3_descend(&later, &problem, &(kvs_descent){.lr = .01, .steps = 500}, NULL),
        KVS_OK);
    assert_true(later.alpha1 < at.alpha1 && later.alpha2 > at.alpha2);
    assert_true(later.beta1 > at.beta1 && later.beta2 < at.beta2);
    assert_int_equal(kvs_theorem3_loss(&loss, &gradient, &problem, &later, NULL), KVS_OK);
    assert_true(loss < loss_of(KVS_THEOREM3_EXACT, 30, 0, &at));
}

typedef struct visits {
    uint64_t count;
    double first, last;
} visits;

static void count_visit(void *user, uint64_t step, double loss, const kvs_coefficients *at)
{
    visits *v = user;

    (void)at;
    assert_int_equal(step, ++v->count);
    v->last = loss;
    if (step == 1)
        v->first = loss;
}

static void descent_shows_its_way(void **state)
{
    const kvs_theorem3 problem = {.form = KVS_THEOREM3_FIGURE, .T = 10};
    kvs_coefficients at = halves;
    visits v = {0};
    const kvs_descent descent = {.lr = .01, .steps = 100, .visit = count_visit, .user = &v};

    (void)state;
    assert_int_equal(kvs_theorem3_descend(&at, &problem, &descent, NULL), KVS_OK);
    assert_int_equal(v.count, 100);
    expect_near(v.first, loss_of(KVS_THEOREM3_FIGURE, 10, 0, &halves), 0, "first loss");
    assert_true(v.last < v.first);
}

/* ---- theorems 1 and 2 ---- */

static void two_layers_err_as_e_to_minus_p(void **state)
{
    kvs_induction_problem problem;
    double ratio[3];

    (void)state;
    kvs_induction_problem_init(&problem);
    for (size_t i = 0; i < 3; i++) {
        const double p = (double)(4 << i);
        kvs_theorem1_result r;

        assert_int_equal(kvs_theorem1(&r, &problem, p, NULL), KVS_OK);
        assert_true(r.error > 0 && r.error <= r.bound);
        assert_true(r.copy_error <= 2 * exp(-p)); /* unit vectors, weights 1 - e^-p, e^-p, ... */
        assert_true(r.self_error > .5);
        ratio[i] = r.error / exp(-p);
    }
    expect_near(ratio[1], ratio[2], .01 * ratio[2], "error over e^-p at p = 8 and 16");
    expect_near(ratio[0], ratio[2], .2 * ratio[2], "error over e^-p at p = 4 and 16");
}

/* The differences are known to one digit. */
static void one_layer_is_an_induction_head_if_masked(void **state)
{
    static const struct {
        double sigma, gap;
    } rows[] = {{1, .08}, {.3, .04}, {.1, 9e-5}, {.03, 7e-15}};
    kvs_runtime *rt = support_runtime(NULL);
    kvs_induction_problem problem;

    (void)state;
    kvs_induction_problem_init(&problem);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        kvs_theorem2_result r;

        problem.sigma = rows[i].sigma;
        assert_int_equal(kvs_theorem2(&r, rt, &problem, NULL), KVS_OK);
        assert_true(r.masked <= 1e-15);
        expect_near(r.printed, rows[i].gap, .06 * rows[i].gap, "gap");
        assert_true(r.network < 1e-6); /* float32 */
        if (problem.sigma <= .1)       /* two keys match equally well */
            expect_near(r.repeated, .5, .002, "gap with equal neighbours");
    }
    kvs_runtime_free(rt);
}

/* ---- misuse and drawing ---- */

static void what_makes_no_sense_is_refused(void **state)
{
    static const kvs_theorem3 bad[] = {
        {KVS_THEOREM3_EXACT, 3, 0},   {KVS_THEOREM3_EXACT, 2, 1},    {KVS_THEOREM3_EXACT, 12, 12},
        {KVS_THEOREM3_PRINTED, 3, 0}, {KVS_THEOREM3_PRINTED, 12, 3}, {(kvs_theorem3_form)9, 12, 0}};
    kvs_induction_problem problem;
    kvs_theorem1_result r;
    kvs_err err;
    double loss;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(kvs_theorem3_loss(&loss, NULL, &bad[i], &odd, &err), KVS_E_INVALID);
    kvs_induction_problem_init(&problem);
    assert_int_equal(kvs_theorem1(&r, &problem, 0, &err), KVS_E_INVALID);
    problem.sigma = 0;
    assert_int_equal(kvs_theorem1(&r, &problem, 1, &err), KVS_E_INVALID);
    assert_non_null(strstr(err.message, "sigma"));
}

static void landscape_is_drawn(void **state)
{
    const kvs_theorem3 panels[] = {{KVS_THEOREM3_EXACT, 12, 0}, {KVS_THEOREM3_FIGURE, 0, 0}};
    char *dir, *path, *svg;
    size_t size;

    (void)state;
    if (!kvsi_program_found("gnuplot")) {
        print_message("skipped: no gnuplot\n");
        skip();
    }
    dir = support_make_dir();
    path = kvsi_path_join(dir, "landscape.svg");
    assert_int_equal(kvs_landscape_draw(path, panels, 2, 2, NULL), KVS_OK);
    assert_int_equal(kvsi_file_read(&svg, &size, path, 1 << 24, NULL), KVS_OK);
    assert_non_null(strstr(svg, "exact, T = 12"));
    assert_non_null(strstr(svg, "O(T) = 0"));
    assert_int_equal(kvs_landscape_draw(path, panels, 0, 2, NULL), KVS_E_INVALID);
    kvsi_free(svg);
    kvsi_free(path);
    support_remove_dir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loss_has_its_known_values),
        cmocka_unit_test(formula_is_brute_force_for_every_i),
        cmocka_unit_test(edges_differ_from_the_middle),
        cmocka_unit_test(printed_formula_is_the_papers),
        cmocka_unit_test(gradient_is_that_of_the_loss),
        cmocka_unit_test(network_with_right_angles_is_the_limit),
        cmocka_unit_test(random_networks_come_near),
        cmocka_unit_test(induction_head_is_lowest_on_the_square),
        cmocka_unit_test(free_descent_leaves_the_square),
        cmocka_unit_test(descent_shows_its_way),
        cmocka_unit_test(two_layers_err_as_e_to_minus_p),
        cmocka_unit_test(one_layer_is_an_induction_head_if_masked),
        cmocka_unit_test(what_makes_no_sense_is_refused),
        cmocka_unit_test(landscape_is_drawn),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
