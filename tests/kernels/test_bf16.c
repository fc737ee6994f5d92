/* Products in bf16 have the same bits at every level with AVX2: from the processor's instruction on
 * pairs of bfloat16 where it is there, otherwise computed in float32.  Few rows have the bits of
 * many rows at every level. */
#include "levels.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { OUTPUTS = 3 };

typedef struct sizes {
    size_t n, cols, rows;
} sizes;

static const kvsi_ops *level_named(const char *name)
{
    const kvsi_ops *ops = NULL;

    return kvsi_ops_find(&ops, name, NULL) == KVS_OK ? ops : NULL;
}

/* Ordinary values, with some that are 0, denormal, next to denormal, huge, infinite or NaN. */
static float *given_extremes(run *r, size_t count, int extremes)
{
    static const float values[] = {0.0f,        -0.0f,       1e-40f,  -3e-39f, 1.17549e-38f,
                                   1.2e-38f,    1e-20f,      -1e-19f, 3.4e38f, -3.38e38f,
                                   INFINITY,    NAN,         1e19f,   -1e20f,  0.00390625f,
                                   1.00390625f, 1.01171875f, 1e-30f};
    float *x = levels_given(r, count);

    for (size_t i = 0; extremes && i < count; i++)
        if (kvsi_random_below(&r->random, 64) == 0)
            x[i] = values[kvsi_random_below(&r->random, sizeof values / sizeof *values)];
        else if (kvsi_random_below(&r->random, 3) == 0)
            x[i] *= 1e-19f; /* products around the smallest normal float */
    return x;
}

static void products(run *r, const kvsi_ops *ops, const sizes *s, int extremes)
{
    const kvsi_limits limits = {.tokens = s->n,
                                .sequences = 1,
                                .dim = s->cols,
                                .heads = 1,
                                .kv_heads = 1,
                                .head_size = s->cols,
                                .ffn = s->rows,
                                .head_rows = 1,
                                .vocab = 1,
                                .training = 1};
    kvsi_matrix w = {.type = KVSI_F32, .rows = s->rows, .cols = s->cols};
    const float *x, *d_y;

    levels_start(r, ops, &limits);
    r->c.precision = KVSI_PRECISION_BF16;
    w.data = given_extremes(r, s->rows * s->cols, extremes);
    x = given_extremes(r, s->n * s->cols, extremes);
    d_y = given_extremes(r, s->n * s->rows, extremes);
    ops->linear_forward(&r->c, levels_written(r, "y", s->n * s->rows), x, &w, s->n, NULL);
    ops->linear_backward_input(&r->c, levels_written(r, "d_x", s->n * s->cols), d_y, &w, s->n, 0);
    ops->linear_backward_weight(&r->c, levels_added(r, "d_w", s->rows * s->cols), d_y, x, s->n,
                                s->rows, s->cols, s->rows);
    assert_int_equal(r->count, OUTPUTS);
}

static void assert_same_bits(const run *got, const run *want)
{
    for (size_t k = 0; k < OUTPUTS; k++)
        for (size_t i = 0; i < want->outputs[k].count; i++) {
            const float *x = &got->outputs[k].values[i], *y = &want->outputs[k].values[i];

            if (!(isnan(*x) && isnan(*y)) && memcmp(x, y, sizeof *x) != 0)
                fail_msg("%s: %s[%zu] is %a, %s has %a", got->c.ops->name, want->outputs[k].name, i,
                         (double)*x, want->c.ops->name, (double)*y);
        }
}

static void compare_with_avx2(const char *level)
{
    static const sizes shapes[] = {{1, 1, 1}, {13, 7, 5}, {70, 257, 33}, {48, 1031, 64}};
    const kvsi_ops *plain = level_named("avx2"), *ops = level_named(level);

    if (!plain || !ops) {
        printf("not applicable: no %s\n", plain ? "AVX-512" : "AVX2");
        return;
    }
#ifdef KVSI_HAVE_AVX512
    if (!__builtin_cpu_supports("avx512bf16"))
        printf("not applicable: no AVX512_BF16; %s computes in float32\n", level);
#endif
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int extremes = 0; extremes < 2; extremes++) {
            run want, got;

            products(&want, plain, &shapes[i], extremes);
            products(&got, ops, &shapes[i], extremes);
            assert_same_bits(&got, &want);
            levels_finish(&got);
            levels_finish(&want);
        }
}

static void avx512_has_the_bits_of_avx2(void **state)
{
    (void)state;
    compare_with_avx2("avx512");
    compare_with_avx2("avx512-wide");
}

/* ---- few rows ---- */

typedef struct few_shape {
    size_t cols, rows, paired;
} few_shape;

/* Weights of a plain type, from floats with extremes; those of F16 are ordinary. */
static const void *given_stored(run *r, kvsi_dtype type, size_t count, int extremes)
{
    const float *values = given_extremes(r, count, extremes && type != KVSI_F16);
    void *stored = levels_hold(r, kvsi_dtype_bytes(type, count));

    kvsi_dtype_encode(stored, type, values, count);
    return stored;
}

/* The rows 0 to n-1 of `many` rows are computed alone: they have the same bits, also with residual
 * and bias. */
static void check_few(const kvsi_ops *ops, kvsi_dtype type, const few_shape *s, int extremes)
{
    enum { MANY = 21 };
    const kvsi_limits limits = {.tokens = MANY,
                                .sequences = 1,
                                .dim = s->cols,
                                .heads = 1,
                                .kv_heads = 1,
                                .head_size = s->cols,
                                .ffn = s->rows,
                                .head_rows = 1,
                                .vocab = 1};
    kvsi_matrix w = {.type = type, .rows = s->rows, .cols = s->cols, .paired = s->paired};
    const float *x, *residual;
    float *many, *few;
    run r;

    levels_start(&r, ops, &limits);
    r.c.precision = KVSI_PRECISION_BF16;
    w.data = given_stored(&r, type, s->rows * s->cols, extremes);
    w.bias = levels_given(&r, s->rows);
    x = given_extremes(&r, MANY * s->cols, extremes);
    residual = levels_given(&r, MANY * s->rows);
    many = levels_written(&r, "many", MANY * s->rows);
    few = levels_written(&r, "few", MANY * s->rows);
    ops->linear_forward(&r.c, many, x, &w, MANY, residual);
    for (size_t n = 1; n <= KVSI_FEW_ROWS; n++) {
        ops->linear_forward(&r.c, few, x, &w, n, residual);
        for (size_t i = 0; i < n * s->rows; i++)
            if (!(isnan(few[i]) && isnan(many[i])) && memcmp(&few[i], &many[i], sizeof *few) != 0)
                fail_msg("%s, %s, %zu x %zu, paired %zu, extremes %d: y[%zu] of %zu rows is %a, of "
                         "many %a",
                         ops->name, kvsi_dtype_name(type), s->rows, s->cols, s->paired, extremes, i,
                         n, (double)few[i], (double)many[i]);
    }
    levels_finish(&r);
}

/* 2048 columns of 16 bits, and 512 of 32, are copied before they are transposed. */
static void few_rows_have_the_bits_of_many(void **state)
{
    static const few_shape shapes[] = {{1, 1, 0},     {7, 5, 0},      {31, 33, 0},   {64, 3, 0},
                                       {96, 64, 32},  {257, 100, 20}, {1031, 40, 8}, {512, 48, 0},
                                       {2048, 35, 0}, {1100, 6, 6}};
    static const kvsi_dtype types[] = {KVSI_F32, KVSI_F16, KVSI_BF16};
    const kvsi_ops *levels[LEVELS_MAX];
    const size_t count = levels_fast(levels);

    (void)state;
    for (size_t l = 0; l < count; l++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++)
            for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
                for (int extremes = 0; extremes < 2; extremes++)
                    check_few(levels[l], types[t], &shapes[i], extremes);
}

/* Products flush denormals; what follows them must not. */
static void denormals_are_back_afterwards(void **state)
{
    const kvsi_ops *levels[LEVELS_MAX];
    const size_t count = levels_fast(levels);
    volatile float tiny = 1e-40f;

    (void)state;
    for (size_t i = 0; i < count; i++) {
        run r;

        products(&r, levels[i], &(sizes){13, 7, 5}, 0);
        levels_finish(&r);
        assert_true(tiny * 2.0f > 0);
        products(&r, levels[i], &(sizes){2, 7, 5}, 0); /* few rows */
        levels_finish(&r);
        assert_true(tiny * 2.0f > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(avx512_has_the_bits_of_avx2),
        cmocka_unit_test(few_rows_have_the_bits_of_many),
        cmocka_unit_test(denormals_are_back_afterwards),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
