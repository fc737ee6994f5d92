/* Linear layers with quantized weights: the order of summation of kernels/rounding.h, and inputs
 * and weights at the limits of the integers. */
#include "kernels/rounding.h"
#include "levels.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof *(a))

static const kvsi_dtype types[] = {KVSI_Q8_0, KVSI_Q4_0, KVSI_Q5_0,
                                   KVSI_Q4_K, KVSI_Q5_K, KVSI_Q6_K};

/* A layer on all tokens, then on one at a time and on a few. */
typedef struct layer {
    kvsi_matrix w;
    const real *x, *residual;
    real *y, *some;
    size_t n;
} layer;

enum { TOKENS_MAX = 200 };

static kvsi_limits limits_of(size_t tokens, size_t cols, size_t rows)
{
    return (kvsi_limits){.tokens = tokens,
                         .sequences = 1,
                         .head_rows = 1,
                         .dim = cols,
                         .heads = 1,
                         .kv_heads = 1,
                         .head_size = 2,
                         .ffn = rows,
                         .vocab = 1};
}

static layer make_layer(run *r, kvsi_dtype type, size_t n, size_t rows, size_t cols)
{
    return (layer){.w = {.type = type,
                         .rows = rows,
                         .cols = cols,
                         .data = levels_given_weights(r, type, rows * cols),
                         .bias = levels_given(r, rows),
                         .paired = 6},
                   .x = levels_given(r, n * cols),
                   .residual = levels_given(r, n * rows),
                   .y = levels_given(r, n * rows),
                   .some = levels_given(r, n * rows),
                   .n = n};
}

/* NaN has no bits that are compared. */
static int same(real x, real y)
{
    return isnan(x) ? isnan(y) : memcmp(&x, &y, sizeof x) == 0;
}

/* The rows of the first `few` tokens equal those of all tokens. */
static void check_tokens(run *r, const layer *l, size_t few)
{
    const size_t rows = l->w.rows;

    r->c.ops->linear_forward(&r->c, l->some, l->x, &l->w, few, l->residual);
    for (size_t i = 0; i < few * rows; i++)
        if (!same(l->some[i], l->y[i]))
            fail_msg("%s: %s, %zu x %zu, %zu tokens: token %zu, row %zu is %.9g, of %zu tokens "
                     "%.9g",
                     r->c.ops->name, kvsi_dtype_name(l->w.type), rows, l->w.cols, few, i / rows,
                     i % rows, (double)l->some[i], l->n, (double)l->y[i]);
}

static void check_layer(run *r, const layer *l)
{
    static const size_t counts[] = {1, 2, 3, 4, 5, 8, 9, 64};

    r->c.ops->linear_forward(&r->c, l->y, l->x, &l->w, l->n, l->residual);
    for (size_t i = 0; i < ARRAY_SIZE(counts) && counts[i] <= l->n; i++)
        check_tokens(r, l, counts[i]);
    for (size_t t = 1; t < l->n; t += l->n / 7 + 1) { /* a token in the middle, alone */
        layer one = *l;

        one.x += t * l->w.cols;
        one.residual += t * l->w.rows;
        one.y += t * l->w.rows;
        check_tokens(r, &one, 1);
    }
}

static void tokens_have_the_same_bits_in_any_batch(void **state)
{
    const kvsi_ops *levels[LEVELS_MAX];
    const size_t count = levels_fast(levels);

    (void)state;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < ARRAY_SIZE(types); k++) {
            const size_t block = kvsi_dtype_block(types[k]);
            const size_t cols[] = {block, 256, 9 * block, 2304}; /* 2304: more than one part */

            for (size_t j = 0; j < ARRAY_SIZE(cols); j++) {
                const kvsi_limits limits = limits_of(TOKENS_MAX, cols[j], 42);
                run r;

                levels_start(&r, levels[i], &limits);
                const layer l = make_layer(&r, types[k], TOKENS_MAX, 42, cols[j]);

                check_layer(&r, &l);
                levels_finish(&r);
            }
        }
}

/* So long that the workspace does not hold the packed inputs of a few tokens. */
static void long_rows_are_cut(void **state)
{
    enum { COLS = 6000 * 256, ROWS = 6, TOKENS = 9 };
    const kvsi_ops *levels[LEVELS_MAX];
    const size_t count = levels_fast(levels);
    const kvsi_limits limits = limits_of(TOKENS, COLS, ROWS);

    (void)state;
    for (size_t i = 0; i < count; i++) {
        run r;

        levels_start(&r, levels[i], &limits);
        layer l = make_layer(&r, KVSI_Q4_0, TOKENS, ROWS, 32);
        unsigned char *data = levels_hold(&r, kvsi_dtype_bytes(KVSI_Q4_0, ROWS * COLS));
        real *x = levels_hold(&r, TOKENS * COLS * sizeof *x);

        for (size_t k = 0; k < kvsi_dtype_bytes(KVSI_Q4_0, ROWS * COLS); k++)
            data[k] = (unsigned char)(k % 18 == 1 ? 0x28 : k * k / 7);
        for (size_t k = 0; k < TOKENS * COLS; k++)
            x[k] = (real)(int)(k * k / 11 % 2001) - 1000;
        l.w.cols = COLS;
        l.w.data = data;
        l.x = x;
        r.c.ops->linear_forward(&r.c, l.y, l.x, &l.w, l.n, l.residual);
        check_tokens(&r, &l, 1);
        levels_finish(&r);
    }
}

/* ---- limits ---- */

typedef struct request {
    kvsi_dtype type;
    size_t n;
    unsigned char fill, scales; /* bytes of the weights, and of the scales of Q6_K */
} request;

/* All weights are the same, and so are the inputs: sums are as large as they can be. */
static void uniform(run *r, const void *asked)
{
    enum { ROWS = 9, COLS = 512 };
    const request *q = asked;
    const size_t block = kvsi_dtype_block(q->type), bytes = kvsi_dtype_bytes(q->type, block);
    unsigned char *data = levels_hold(r, kvsi_dtype_bytes(q->type, ROWS * COLS));
    const kvsi_matrix w = {.type = q->type, .rows = ROWS, .cols = COLS, .data = data};
    real *x = levels_given(r, q->n * COLS);

    memset(data, q->fill, kvsi_dtype_bytes(q->type, ROWS * COLS));
    for (unsigned char *at = data; at < data + kvsi_dtype_bytes(q->type, ROWS * COLS);
         at += bytes) {
        static const unsigned char quarter[2] = {0x00, 0x34};

        if (q->type == KVSI_Q6_K)
            memset(at + 192, q->scales, 16);
        memcpy(q->type == KVSI_Q6_K ? at + 208 : at, quarter, 2);
        if (q->type == KVSI_Q4_K || q->type == KVSI_Q5_K)
            memset(at + 2, 0, 2); /* the offsets would cancel the weights */
    }
    for (size_t i = 0; i < q->n * COLS; i++)
        x[i] = i / COLS % 2 ? -3 : 3;
    r->c.ops->linear_forward(&r->c, levels_written(r, "y", q->n * ROWS), x, &w, q->n, NULL);
}

static void the_largest_sums_fit(void **state)
{
    static const request requests[] = {
        {KVSI_Q8_0, 0, 0x80, 0}, {KVSI_Q4_0, 0, 0, 0},    {KVSI_Q5_0, 0, 0, 0},
        {KVSI_Q4_K, 0, 0xff, 0}, {KVSI_Q5_K, 0, 0xff, 0}, {KVSI_Q6_K, 0, 0, 0x80},
    };
    static const size_t counts[] = {1, 2, 6, 13};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(requests); i++)
        for (size_t k = 0; k < ARRAY_SIZE(counts); k++) {
            request q = requests[i];

            q.n = counts[k];
            levels_check(&(levels_case){.call = uniform,
                                        .asked = &q,
                                        .what = kvsi_dtype_name(q.type),
                                        .limits = limits_of(counts[k], 512, 9),
                                        .tolerance = LEVELS_TOLERANCE});
        }
}

/* An input that is not finite makes its token NaN and no other; a factor that is not finite, all
 * tokens of its row.  Batches agree also then. */
static void values_that_are_not_finite_stay_in_their_rows(void **state)
{
    enum { COLS = 512, ROWS = 18, TOKENS = 9 };
    static const unsigned char infinity[2] = {0x00, 0x7c};
    const kvsi_limits limits = limits_of(TOKENS, COLS, ROWS);
    const kvsi_ops *levels[LEVELS_MAX];
    const size_t count = levels_fast(levels);

    (void)state;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < ARRAY_SIZE(types); k++) {
            run r;

            levels_start(&r, levels[i], &limits);
            layer l = make_layer(&r, types[k], TOKENS, ROWS, COLS);

            l.w.paired = 0;
            ((real *)l.x)[3 * COLS + 100] = (real)INFINITY;
            ((real *)l.x)[7 * COLS + 300] = (real)NAN;
            memcpy((unsigned char *)l.w.data + kvsi_dtype_bytes(types[k], 5 * COLS) +
                       (types[k] == KVSI_Q6_K ? 208 : 0),
                   infinity, 2);
            check_layer(&r, &l);
            for (size_t t = 0; t < TOKENS; t++)
                for (size_t row = 0; row < ROWS; row++)
                    assert_int_equal(isfinite(l.y[t * ROWS + row]) != 0,
                                     t != 3 && t != 7 && row != 5);
            levels_finish(&r);
        }
}

/* Rounded inputs are within half a step, also those of a short last block. */
static void inputs_round_to_the_nearest(void **state)
{
    static const size_t counts[] = {32, 224, 256};
    float x[256];
    int16_t whole[256];

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(types); i++)
        for (size_t k = 0; k < ARRAY_SIZE(counts); k++) {
            const int top = kvsi_round_top(types[i]);
            int largest = 0;
            float step;

            for (size_t j = 0; j < counts[k]; j++)
                x[j] = sinf((float)(j * j));
            step = kvsi_round_block(whole, x, counts[k], top);
            for (size_t j = 0; j < counts[k]; j++) {
                const int size = whole[j] < 0 ? -whole[j] : whole[j];

                assert_true(fabsf((float)whole[j] * step - x[j]) <= 0.5001f * step);
                largest = size > largest ? size : largest;
            }
            assert_int_equal(largest, top);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_have_the_same_bits_in_any_batch),
        cmocka_unit_test(long_rows_are_cut),
        cmocka_unit_test(the_largest_sums_fit),
        cmocka_unit_test(values_that_are_not_finite_stay_in_their_rows),
        cmocka_unit_test(inputs_round_to_the_nearest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
