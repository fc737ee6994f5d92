/* The error of products against double: each level and precision, on random, badly scaled and
 * cancelling inputs.  Prints the table of docs/performance.md. */
#include "levels.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof *(a))

enum { N = 40, ROWS = 48, COLS = 768 };

typedef enum kind { RANDOM, SCALED, CANCELLING, KINDS } kind;

static const char *const kind_names[KINDS] = {"random", "badly scaled", "cancelling"};

/* Badly scaled: values of a row differ by factors of up to 2^40.  Cancelling: the second half of a
 * row of x is the negative of the first, up to 1e-4, while the weights repeat. */
static void fill(run *r, float *x, float *w, kind of)
{
    for (size_t i = 0; i < (N + ROWS) * COLS; i++) {
        float *value = i < N * COLS ? &x[i] : &w[i - N * COLS];
        const size_t col = i % COLS;

        *value = (float)kvsi_random_normal(&r->random);
        if (of == SCALED)
            *value = ldexpf(*value, (int)kvsi_random_below(&r->random, 41) -
                                        (i < N * COLS ? 20 : 28)); /* weights fit F16 */
        if (of == CANCELLING && col >= COLS / 2)
            *value = i < N * COLS ? -value[-COLS / 2] + 1e-4f * *value : value[-COLS / 2];
    }
}

typedef struct error {
    double rms, most; /* relative to sum |x| |w| */
} error;

static error measure(const float *y, const float *x, const float *w)
{
    error e = {0};

    for (size_t t = 0; t < N; t++)
        for (size_t o = 0; o < ROWS; o++) {
            double sum = 0, size = 0, off;

            for (size_t i = 0; i < COLS; i++) {
                const double product = (double)x[t * COLS + i] * (double)w[o * COLS + i];

                sum += product;
                size += fabs(product);
            }
            off = fabs((double)y[t * ROWS + o] - sum) / size;
            e.rms += off * off / (N * ROWS);
            e.most = fmax(e.most, off);
        }
    e.rms = sqrt(e.rms);
    return e;
}

/* Weights of another type than float32 are rounded to it first, so that their products are
 * exact. */
static error error_of(const kvsi_ops *ops, kvsi_precision precision, kvsi_dtype type, kind of)
{
    const kvsi_limits limits = {.tokens = N,
                                .sequences = 1,
                                .head_rows = 1,
                                .dim = COLS,
                                .heads = 1,
                                .kv_heads = 1,
                                .head_size = COLS,
                                .ffn = ROWS,
                                .vocab = 1};
    run r;
    float *x, *w, *y;
    void *stored;
    kvsi_matrix matrix = {.type = type, .rows = ROWS, .cols = COLS};
    error e;

    levels_start(&r, ops, &limits);
    r.c.precision = precision;
    x = levels_hold(&r, N * COLS * sizeof *x);
    w = levels_hold(&r, ROWS * COLS * sizeof *w);
    y = levels_hold(&r, N * ROWS * sizeof *y);
    stored = levels_hold(&r, ROWS * COLS * sizeof *w);
    fill(&r, x, w, of);
    kvsi_dtype_encode(stored, type, w, ROWS * COLS);
    kvsi_dtype_decode(w, type, stored, ROWS * COLS);
    matrix.data = stored;
    ops->linear_forward(&r.c, y, x, &matrix, N, NULL);
    e = measure(y, x, w);
    levels_finish(&r);
    return e;
}

static const struct grade {
    const char *name, *level;
    kvsi_precision precision;
    kvsi_dtype type;
    int as_f32; /* the error must not exceed that of float32 */
} grades[] = {
    {"float32, chains of multiply-adds", "avx2", KVSI_PRECISION_F32, KVSI_F32, 1},
    {"AMX, three parts, six products", "amx-emulated", KVSI_PRECISION_F32, KVSI_F32, 1},
    {"AMX, F16 weights, five products", "amx-emulated", KVSI_PRECISION_F32, KVSI_F16, 1},
    {"AMX, BF16 weights, three products", "amx-emulated", KVSI_PRECISION_F32, KVSI_BF16, 1},
    {"bf16, VDPBF16PS", "avx2", KVSI_PRECISION_BF16, KVSI_F32, 0},
    {"bf16, AMX", "amx-emulated", KVSI_PRECISION_BF16, KVSI_F32, 0},
};

/* Rounding to the eight bits of a bfloat16 is off by 2^-8 at most, a product of two by 2^-7. */
#define BF16_MOST 0x1p-7

static void errors_are_small(void **state)
{
    const kvsi_ops *ops;

    (void)state;
    if (kvsi_ops_find(&ops, "amx-emulated", NULL) != KVS_OK ||
        kvsi_ops_find(&ops, "avx2", NULL) != KVS_OK) {
        printf("not applicable: no AVX2, or only some levels were built\n");
        return;
    }
    for (kind of = 0; of < KINDS; of++) {
        error plain = {0};

        for (size_t i = 0; i < ARRAY_SIZE(grades); i++) {
            const struct grade *g = &grades[i];
            error e;

            assert_int_equal(kvsi_ops_find(&ops, g->level, NULL), KVS_OK);
            e = error_of(ops, g->precision, g->type, of);
            if (i == 0)
                plain = e;
            printf("%-12s  %-34s  rms %.1e  max %.1e\n", kind_names[of], g->name, e.rms, e.most);
            if (g->as_f32) {
                assert_true(e.rms <= plain.rms);
                assert_true(e.most <= plain.most);
            } else
                assert_true(e.rms > plain.rms && e.most <= BF16_MOST);
        }
    }
}

/* y = x W^T for one x and weights of 1 in its column. */
static float product_of(const kvsi_ops *ops, float x, float w)
{
    enum { TOKENS = 9 }; /* not the path for few tokens */
    const kvsi_limits limits = {.tokens = TOKENS,
                                .sequences = 1,
                                .head_rows = 1,
                                .dim = 2,
                                .heads = 1,
                                .kv_heads = 1,
                                .head_size = 2,
                                .ffn = 1,
                                .vocab = 1};
    const float weights[2] = {0.5f, w};
    const kvsi_matrix matrix = {.type = KVSI_F32, .rows = 1, .cols = 2, .data = weights};
    float inputs[2 * TOKENS] = {1, x}, y[TOKENS];
    run r;

    levels_start(&r, ops, &limits);
    ops->linear_forward(&r.c, y, inputs, &matrix, TOKENS, NULL);
    levels_finish(&r);
    return y[0];
}

/* What unit_tiles.h states of numbers at the ends of the range. */
static void extremes_of_three_parts(void **state)
{
    const kvsi_ops *ops;

    (void)state;
    if (kvsi_ops_find(&ops, "amx-emulated", NULL) != KVS_OK) {
        printf("not applicable: no AVX2\n");
        return;
    }
    assert_true(isnan(product_of(ops, NAN, 1)));
    assert_true(!isfinite(product_of(ops, INFINITY, 1)));
    assert_true(!isfinite(product_of(ops, -INFINITY, 1)));
    assert_true(!isfinite(product_of(ops, 1, INFINITY)));
    assert_true(!isfinite(product_of(ops, 3.4e38f, 1)));
    assert_true(!isfinite(product_of(ops, 3e38f, 3e38f))); /* the product overflows */
    assert_true(product_of(ops, 3.38e38f, 0x1p-120f) == 0.5f + 3.38e38f * 0x1p-120f);
    assert_true(product_of(ops, 1e-45f, 1) == 0.5f);
    assert_true(product_of(ops, 1.0000001f, 3) == 0.5f + 1.0000001f * 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_small),
        cmocka_unit_test(extremes_of_three_parts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
