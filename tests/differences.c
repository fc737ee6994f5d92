#include "differences.h"

#include "base/memory.h"

#include <math.h>

/* h = 1e-5: the truncation error is h^2 f''' ~ 1e-10, the rounding 1e-16 * |loss| / h ~ 1e-10. */
#define STEP 1e-5
#define TOLERANCE 1e-7

trial differences_start(const kvsi_limits *limits, uint64_t seed)
{
    trial t = {.c = {.ops = &kvsi_reference_ops, .threads = 1}};

    t.c.workspace_bytes = kvsi_reference_ops.workspace_bytes(limits, 1);
    t.c.workspace = kvsi_alloc(t.c.workspace_bytes, 1);
    assert_non_null(t.c.workspace);
    kvsi_random_init(&t.random, seed, KVSI_RANDOM_DATA, 0);
    return t;
}

real *differences_normal(trial *t, size_t count)
{
    real *x = kvsi_alloc(count, sizeof *x);

    assert_non_null(x);
    for (size_t i = 0; i < count; i++)
        x[i] = (real)kvsi_random_normal(&t->random);
    return x;
}

static double loss_of(trial *t, const operation *o)
{
    double loss = 0;

    o->forward(t);
    for (size_t i = 0; i < o->outputs; i++)
        loss += (double)t->d_y[i] * (double)t->y[i];
    return loss;
}

static double difference(trial *t, const operation *o, real *x)
{
    const real middle = *x;
    double above, below;

    *x = middle + (real)STEP;
    above = loss_of(t, o);
    *x = middle - (real)STEP;
    below = loss_of(t, o);
    *x = middle;
    return (above - below) / (2 * STEP);
}

/* `start` is the value of d_x before the backward pass. */
static void check_operand(trial *t, const operation *o, size_t which, const real *start)
{
    const operand *of = &o->operands[which];
    double *expected = kvsi_alloc(of->count, sizeof *expected), largest = 0;

    assert_non_null(expected);
    for (size_t i = 0; i < of->count; i++) {
        expected[i] = difference(t, o, &t->x[which][i]);
        largest = fmax(largest, fabs(expected[i]));
    }
    for (size_t i = 0; i < of->count; i++) {
        const double before = of->effect == ADDS ? (double)start[i] : 0;
        const double found = (double)t->d_x[which][i] - before;

        if (!(fabs(found - expected[i]) <= TOLERANCE * largest))
            fail_msg("%s: gradient %zu of %s is %.12g, differences say %.12g", o->name, i, of->name,
                     found, expected[i]);
    }
    kvsi_free(expected);
}

/* Sets gradients that the backward pass adds to, or NaN if it must overwrite them. */
static void start_gradients(trial *t, const operation *o, real **start)
{
    for (size_t k = 0; k < OPERANDS_MAX; k++) {
        const operand *of = &o->operands[k];

        start[k] = differences_normal(t, of->count);
        t->d_x[k] = differences_normal(t, of->count);
        for (size_t i = 0; i < of->count; i++)
            t->d_x[k][i] = of->effect == ADDS ? start[k][i] : (real)NAN;
    }
}

void differences_check(trial *t, const operation *o)
{
    real *start[OPERANDS_MAX];

    for (size_t k = 0; k < OPERANDS_MAX; k++)
        t->x[k] = t->x[k] ? t->x[k] : differences_normal(t, o->operands[k].count);
    t->d_y = t->d_y ? t->d_y : differences_normal(t, o->outputs);
    t->y = differences_normal(t, o->outputs);
    start_gradients(t, o, start);
    o->forward(t);
    o->backward(t);
    for (size_t k = 0; k < OPERANDS_MAX; k++)
        check_operand(t, o, k, start[k]);
    for (size_t k = 0; k < OPERANDS_MAX; k++) {
        kvsi_free(start[k]);
        kvsi_free(t->x[k]);
        kvsi_free(t->d_x[k]);
    }
    kvsi_free(t->y);
    kvsi_free(t->d_y);
    kvsi_free(t->c.workspace);
}

void differences_expect(const char *what, const real *found, const double *expected, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)found[i] - expected[i]) <= 1e-14 * fmax(1, fabs(expected[i]))))
            fail_msg("%s: number %zu is %.17g, expected %.17g", what, i, (double)found[i],
                     expected[i]);
}
