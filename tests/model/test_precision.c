/* Precision bf16 against f32: logits and gradients of every model of the family on every CPU level,
 * and with every shift and of the golden cases on the best one.
 *
 * How much rounding changes a result depends on the model, so the model itself gives the scale: the
 * change in f32 if the weights of its matrices change by as much as rounding them to bfloat16 does,
 * by 2^-9 of their values with random signs, in the mean over several draws.  A bf16 pass rounds
 * these weights, and the other operands of its products: for each matrix its input (forward, and
 * again for the gradient of the weights) and the gradient of its output (twice), for attention q^,
 * k^, v^, p, and the gradients of out and scores, and the activations that are kept.  These are
 * about 8 roundings per matrix besides that of its weights, all of the same size and of random
 * sign: the root of the sum of their squares is 3 times the change by the weights alone, their sum
 * is 9 times that.
 *
 * Logits and the gradient of all parameters may therefore differ by 4 times the change by the
 * weights alone, and the gradient of a single tensor, which may have few values, by 9 times.  (A
 * result whose error is e times its norm has a cosine of at least 1 - e^2 / 2 with the exact one.)
 * This covers levels that round the operands of attention and levels that compute it in f32. */
#include "base/memory.h"
#include "family.h"
#include "golden.h"

#include <math.h>
#include <string.h>

static const double TOLERANCE = 4, TENSOR_TOLERANCE = 9;

enum { TOKENS = 24, DRAWS = 3 };

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

/* The result in f32 with other weights of matrices; `draw` is a seed. */
static support_result train_perturbed(const kvs_model *m, const kvs_batch *batch,
                                      const support_dropout *dropout, uint64_t draw)
{
    const size_t total = kvsi_layout_total(&m->layout);
    real *before = kvsi_alloc(total, sizeof *before), *noise = kvsi_alloc(total, sizeof *noise);
    support_result result;

    assert_true(before && noise);
    memcpy(before, m->parameters, total * sizeof *before);
    support_fill(noise, total, draw, 0x1p-9);
    for (size_t i = 0; i < m->layout.count; i++) {
        const kvsi_parameter *p = &m->layout.list[i];

        for (size_t k = p->offset; p->rank == 2 && p->role != KVSI_TAPS && k < p->offset + p->count;
             k++)
            m->parameters[k] *= 1 + noise[k];
    }
    result = support_train(m, batch, dropout);
    memcpy(m->parameters, before, total * sizeof *before);
    kvsi_free(before);
    kvsi_free(noise);
    return result;
}

static void expect_within(double error, double tolerance, double scale, const char *name,
                          const char *what)
{
    if (!(error <= tolerance * scale))
        fail_msg("%s: %s differs by %.3g in bf16; the weights alone change it by %.3g", name, what,
                 error, scale);
    if (error == 0)
        fail_msg("%s: %s is the same in bf16", name, what);
}

static void check_batch(const kvs_model *m, const kvs_batch *batch, const support_dropout *dropout,
                        const char *name)
{
    const size_t total = kvsi_layout_total(&m->layout);
    const size_t logits = batch->starts[batch->sequences] * kvsi_pass_logit_count(&m->config);
    support_result f32 = support_train(m, batch, dropout), changed[DRAWS];
    support_result bf16 = support_train_in(KVSI_PRECISION_BF16, m, batch, dropout);
    double of_logits = 0, of_all = 0;

    for (int i = 0; i < DRAWS; i++) {
        changed[i] = train_perturbed(m, batch, dropout, (uint64_t)i + 1);
        of_logits += relative_error(changed[i].logits, f32.logits, logits) / DRAWS;
        of_all += relative_error(changed[i].gradients, f32.gradients, total) / DRAWS;
    }
    expect_within(relative_error(bf16.logits, f32.logits, logits), TOLERANCE, of_logits, name,
                  "logits");
    expect_within(relative_error(bf16.gradients, f32.gradients, total), TOLERANCE, of_all, name,
                  "the gradient");
    for (size_t t = 0; t < m->layout.count; t++) {
        const kvsi_parameter *p = &m->layout.list[t];
        const real *expected = f32.gradients + p->offset;
        double scale = 0;

        if (length_of(expected, p->count) == 0)
            continue;
        for (int i = 0; i < DRAWS; i++)
            scale += relative_error(changed[i].gradients + p->offset, expected, p->count) / DRAWS;
        expect_within(relative_error(bf16.gradients + p->offset, expected, p->count),
                      TENSOR_TOLERANCE, scale, name, p->name);
    }
    support_result_release(&f32);
    support_result_release(&bf16);
    for (int i = 0; i < DRAWS; i++)
        support_result_release(&changed[i]);
}

static void check_model(const kvs_model *m, const char *name)
{
    static const size_t starts[] = {0, 15, 16, TOKENS};
    static const support_dropout dropout = {3, 4};
    int32_t ids[TOKENS], targets[TOKENS];
    const kvs_batch batch = {.sequences = 3, .starts = starts, .ids = ids, .targets = targets};

    support_fill_ids(ids, TOKENS, 1, m->config.vocab);
    support_fill_ids(targets, TOKENS, 2, m->config.vocab);
    check_batch(m, &batch, &dropout, name);
}

static const support_sizes sizes = {.vocab = 50, .dim = 24, .ffn = 20, .context = 32};

static void models_are_close_to_f32(void **state)
{
    (void)state;
    family_each_model(&(family_scope){.sizes = sizes}, check_model);
}

static void shifts_are_close_to_f32(void **state)
{
    (void)state;
    family_each_shift(&(family_scope){.sizes = sizes, .levels = 1}, check_model);
}

/* Their results in f32 are those of PyTorch (test_goldens.c). */
static void goldens_are_close_to_f32(void **state)
{
    kvs_runtime *rt = support_runtime(support_level(0));

    (void)state;
    golden_each(rt, check_batch);
    kvs_runtime_free(rt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_are_close_to_f32),
        cmocka_unit_test(shifts_are_close_to_f32),
        cmocka_unit_test(goldens_are_close_to_f32),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
