/* Precision bf16 against f32: logits and gradients of every model of the family on every CPU level.
 *
 * How much rounding changes a result depends on the model, so the model itself gives the scale: the
 * change in f32 if only the weights of its matrices are rounded to bfloat16.  A bf16 pass rounds
 * these weights too, and the other operands of its products: for each matrix its input (forward,
 * and again for the gradient of the weights) and the gradient of its output (twice), for attention
 * q^, k^, v^, p, and the gradients of out and scores, and the activations that are kept.  These are
 * about 8 roundings per matrix besides that of its weights.  All have the same size, 2^-9 of a
 * value, and random signs: the root of the sum of their squares is up to 3 times the change by the
 * weights alone, their sum up to 9 times.
 *
 * Logits and the gradient of all parameters may therefore differ by 4 times the change by the
 * weights alone, and the gradient of a single tensor, which may have few values, by 9 times.  (A
 * result whose error is e times its norm has a cosine of at least 1 - e^2 / 2 with the exact one.)
 * This covers levels that round the operands of attention and levels that compute it in f32. */
#include "base/memory.h"
#include "family.h"

#include <math.h>
#include <string.h>

static const double TOLERANCE = 4, TENSOR_TOLERANCE = 9;

enum { TOKENS = 40 };

static double length_of(const real *x, size_t count)
{
    double sum = 0;

    for (size_t i = 0; i < count; i++)
        sum += (double)x[i] * (double)x[i];
    return sqrt(sum);
}

/* |x - y| / |y|; 0 if both are 0. */
static double relative_error(const real *x, const real *y, size_t count)
{
    const double length = length_of(y, count);
    double sum = 0;

    for (size_t i = 0; i < count; i++)
        sum += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
    return sum > 0 ? sqrt(sum) / length : 0;
}

/* The result in f32 with weights of matrices rounded to bfloat16. */
static support_result train_rounded(const kvs_model *m, const kvs_batch *batch,
                                    const support_dropout *dropout)
{
    const size_t bytes = kvsi_layout_total(&m->layout) * sizeof(real);
    kvsi_context c = m->context;
    real *before = kvsi_alloc(bytes, 1);
    support_result result;

    assert_non_null(before);
    memcpy(before, m->parameters, bytes);
    for (size_t i = 0; i < m->layout.count; i++) {
        const kvsi_parameter *p = &m->layout.list[i];

        if (p->rank == 2 && p->role != KVSI_TAPS)
            c.ops->round_bf16(&c, m->parameters + p->offset, NULL, p->count);
    }
    result = support_train(m, batch, dropout);
    memcpy(m->parameters, before, bytes);
    kvsi_free(before);
    return result;
}

static void expect_within(double error, double tolerance, double scale, const char *name,
                          const char *what)
{
    if (!(error <= tolerance * scale))
        fail_msg("%s: %s differs by %.3g in bf16, by %.3g if only weights are rounded", name, what,
                 error, scale);
    if (error == 0)
        fail_msg("%s: %s is the same in bf16", name, what);
}

static void check_model(const kvs_model *m, const char *name)
{
    static const size_t starts[] = {0, 17, 18, TOKENS};
    static const support_dropout dropout = {3, 4};
    const size_t total = kvsi_layout_total(&m->layout);
    const size_t logits = TOKENS * kvsi_pass_logit_count(&m->config);
    int32_t ids[TOKENS], targets[TOKENS];
    const kvs_batch batch = {.sequences = 3, .starts = starts, .ids = ids, .targets = targets};
    support_result f32, rounded, bf16;
    double scale;

    support_fill_ids(ids, TOKENS, 1, m->config.vocab);
    support_fill_ids(targets, TOKENS, 2, m->config.vocab);
    f32 = support_train(m, &batch, &dropout);
    rounded = train_rounded(m, &batch, &dropout);
    bf16 = support_train_in(KVSI_PRECISION_BF16, m, &batch, &dropout);
    expect_within(relative_error(bf16.logits, f32.logits, logits), TOLERANCE,
                  relative_error(rounded.logits, f32.logits, logits), name, "logits");
    scale = relative_error(rounded.gradients, f32.gradients, total);
    expect_within(relative_error(bf16.gradients, f32.gradients, total), TOLERANCE, scale, name,
                  "the gradient");
    /* In a single tensor rounding may happen to cancel, so its scale is at least that of all. */
    for (size_t i = 0; i < m->layout.count; i++) {
        const kvsi_parameter *p = &m->layout.list[i];
        const real *expected = f32.gradients + p->offset;

        if (length_of(expected, p->count) > 0)
            expect_within(
                relative_error(bf16.gradients + p->offset, expected, p->count), TENSOR_TOLERANCE,
                fmax(scale, relative_error(rounded.gradients + p->offset, expected, p->count)),
                name, p->name);
    }
    support_result_release(&f32);
    support_result_release(&rounded);
    support_result_release(&bf16);
}

static const family_scope scope = {.sizes = {.vocab = 50, .dim = 48, .ffn = 40, .context = 32}};

static void models_are_close_to_f32(void **state)
{
    (void)state;
    family_each_model(&scope, check_model);
}

static void shifts_are_close_to_f32(void **state)
{
    (void)state;
    family_each_shift(&scope, check_model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_are_close_to_f32),
        cmocka_unit_test(shifts_are_close_to_f32),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
