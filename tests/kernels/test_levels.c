/* Every CPU level against the reference, in every operation except attention, on shapes that are
 * odd, tiny, or cross tile edges. */
#include "kernels/top.h"
#include "levels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof *(a))

static void a_level_is_tested(void **state)
{
    const kvsi_ops *levels[LEVELS_MAX];

    (void)state;
    assert_true(levels_fast(levels) > 0);
}

/* The shape of one operation; each uses the fields it needs. */
typedef struct shape {
    size_t n, dim, wide; /* wide: outputs of a linear layer, ffn or vocabulary */
    size_t head_rows;
    double large; /* not 0: approximate size of the inputs, see the operation */
    int flat;     /* all scores are equal */
    int variant;  /* see the operation */
    double cap;   /* of the head's logits */
    int slow;     /* products at the slow levels too, see levels.h */
} shape;

static const size_t row_counts[] = {1, 5, 70}, dims[] = {1, 3, 24, 257};

static void check_shape_in(kvsi_precision precision, double tolerance, levels_operation *call,
                           const shape *s, const char *name)
{
    char what[160];

    snprintf(what, sizeof what,
             "%s, n %zu, dim %zu, wide %zu, head rows %zu, large %g, flat %d, variant %d, cap %g",
             name, s->n, s->dim, s->wide, s->head_rows, s->large, s->flat, s->variant, s->cap);
    levels_check(&(levels_case){.call = call,
                                .asked = s,
                                .what = what,
                                .limits = {.tokens = s->n,
                                           .sequences = 1,
                                           .head_rows = s->head_rows,
                                           .dim = s->dim,
                                           .heads = 1,
                                           .kv_heads = 1,
                                           .head_size = s->dim,
                                           .ffn = s->wide,
                                           .vocab = s->wide,
                                           .training = 1},
                                .precision = precision,
                                .tolerance = tolerance,
                                .slow = s->slow});
}

static void check_shape(levels_operation *call, const shape *s, const char *name)
{
    check_shape_in(KVSI_PRECISION_F32, LEVELS_TOLERANCE, call, s, name);
}

/* For operations without products, which are not slow at any level. */
static void check_plain(levels_operation *call, shape s, const char *name)
{
    s.slow = 1;
    check_shape(call, &s, name);
}

/* The reference rounds operands to bfloat16 too, so that products differ by the order of sums
 * alone. */
static void check_shape_bf16(levels_operation *call, const shape *s, const char *name)
{
    check_shape_in(KVSI_PRECISION_BF16, LEVELS_TOLERANCE, call, s, name);
}

/* ---- embeddings and norms ---- */

static void embed(run *r, const void *asked)
{
    const shape *s = asked;
    const size_t n = s->n, dim = s->dim;
    const int32_t *ids = levels_given_ids(r, n, s->wide);
    const real *table = levels_given(r, s->wide * dim), *d_y = levels_given(r, n * dim);
    const kvsi_matrix matrix = {
        .type = KVSI_REAL_TYPE, .rows = s->wide, .cols = dim, .data = table};
    real *y = levels_written(r, "y", n * dim), *sum = levels_added(r, "sum", n * dim);
    real *d_table = levels_added(r, "d_table", s->wide * dim);

    r->c.ops->embed_forward(&r->c, y, &matrix, ids, n, 0);
    r->c.ops->embed_forward(&r->c, sum, &matrix, ids, n, 1);
    r->c.ops->embed_backward(&r->c, d_table, d_y, ids, n, dim);
}

static void embed_matches(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(row_counts); i++)
        for (size_t j = 0; j < ARRAY_SIZE(dims); j++) {
            check_plain(embed, (shape){.n = row_counts[i], .dim = dims[j], .wide = 3}, "embed");
            check_plain(embed, (shape){.n = row_counts[i], .dim = dims[j], .wide = 1000}, "embed");
        }
}

/* Variant 0 is RMSNorm, 1 LayerNorm, 2 and 3 the same with 1 + gain. */
static void norm(run *r, const void *asked)
{
    const shape *s = asked;
    const size_t n = s->n, dim = s->dim;
    const real *d_y = levels_given(r, n * dim);
    const int with_bias = s->variant % 2;
    const kvsi_norm norm = {levels_given(r, dim), with_bias ? levels_given(r, dim) : NULL, 1e-5,
                            (real)(s->variant / 2)};
    real *x = levels_given(r, n * dim), *y = levels_written(r, "y", n * dim);
    real *d_x = levels_added(r, "d_x", n * dim), *d_gain = levels_added(r, "d_gain", dim);
    real *d_bias = with_bias ? levels_added(r, "d_bias", dim) : NULL;

    for (size_t i = 0; i < n * dim; i++)
        x[i] += (real)s->large;
    r->c.ops->norm_forward(&r->c, y, x, &norm, n, dim);
    r->c.ops->norm_backward(&r->c, d_x, d_gain, d_bias, d_y, x, &norm, n, dim);
}

/* Sequences of which one is empty, with tails after `large` tokens if that is not 0.  Variant 1 has
 * a factor; `wide` is the window. */
static void filter(run *r, const void *asked)
{
    const shape *s = asked;
    const size_t n = s->n, dim = s->dim, tail = s->wide * dim, cut = n / 3;
    const size_t snapshots = s->large > 0 ? 3 : 0, past = (size_t)s->large;
    kvsi_span spans[] = {{.len = cut},
                         {.start = cut, .past = past, .snapshots = snapshots},
                         {.start = cut, .len = n - cut, .past = past, .snapshots = snapshots}};
    kvsi_filter f = {.width = dim,
                     .window = s->wide,
                     .parameters = levels_given(r, dim * (s->wide + 1)),
                     .factor = s->variant ? levels_given(r, 1) : NULL,
                     .tail = KVSI_TAIL_ATTENTION,
                     .sequences = ARRAY_SIZE(spans),
                     .spans = spans};
    const real *x = levels_given(r, n * dim), *d_y = levels_given(r, n * dim);

    for (size_t i = 1; snapshots > 0 && i < ARRAY_SIZE(spans); i++)
        spans[i].tails[f.tail] = levels_added(r, "tails", (1 + snapshots) * tail);
    r->c.ops->filter_forward(&r->c, levels_written(r, "y", n * dim), x, &f, n);
    if (snapshots > 0)
        return;
    f.gradient = levels_added(r, "gradient of the taps", dim * (s->wide + 1));
    f.d_factor = s->variant ? levels_added(r, "gradient of the factor", 1) : NULL;
    r->c.ops->filter_backward(&r->c, levels_written(r, "d_x", n * dim), d_y, x, &f, n);
}

static void filter_matches(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(row_counts); i++)
        for (size_t j = 0; j < ARRAY_SIZE(dims); j++)
            for (size_t window = 1; window <= KVSI_SHIFT_WINDOW_MAX; window++)
                for (int variant = 0; variant < 2; variant++) {
                    shape s = {
                        .n = row_counts[i], .dim = dims[j], .wide = window, .variant = variant};

                    check_plain(filter, s, "filter");
                    s.large = 100;
                    check_plain(filter, s, "filter with tails");
                }
}

/* Large: the mean is several deviations, which must not cost precision.  A LayerNorm of one channel
 * is its bias and its gradient only rounding: not compared. */
static void check_norm(size_t n, size_t dim)
{
    for (int variant = 0; variant<4; variant += dim> 1 ? 1 : 2) {
        check_plain(norm, (shape){.n = n, .dim = dim, .wide = 1, .variant = variant}, "norm");
        check_plain(norm, (shape){.n = n, .dim = dim, .wide = 1, .variant = variant, .large = 10},
                    "norm");
    }
}

static void norm_matches(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(row_counts); i++)
        for (size_t j = 0; j < ARRAY_SIZE(dims); j++)
            check_norm(row_counts[i], dims[j]);
    check_norm(3000, 27); /* many pieces */
}

/* ---- linear layers ---- */

static void linear(run *r, const void *asked)
{
    const shape *s = asked;
    const size_t n = s->n, rows = s->wide, cols = s->dim;
    const kvsi_matrix w = {KVSI_REAL_TYPE, rows, cols, levels_given(r, rows * cols), NULL, 0, 0,
                           NULL,           NULL};
    const kvsi_matrix biased = {KVSI_REAL_TYPE, rows, cols, w.data, levels_given(r, rows), 0, 0,
                                NULL,           NULL};
    const real *x = levels_given(r, n * cols), *residual = levels_given(r, n * rows);
    const kvsi_ops *op = r->c.ops;

    op->linear_forward(&r->c, levels_written(r, "y", n * rows), x, &w, n, NULL);
    op->linear_forward(&r->c, levels_written(r, "y with residual", n * rows), x, &w, n, residual);
    op->linear_forward(&r->c, levels_written(r, "y with bias", n * rows), x, &biased, n, NULL);
    op->linear_forward(&r->c, levels_written(r, "y with both", n * rows), x, &biased, n, residual);
}

static void linear_backward(run *r, const void *asked)
{
    const shape *s = asked;
    const size_t n = s->n, rows = s->wide, cols = s->dim;
    const kvsi_matrix w = {KVSI_REAL_TYPE, rows, cols, levels_given(r, rows * cols), NULL, 0, 0,
                           NULL,           NULL};
    const real *x = levels_given(r, n * cols), *d_y = levels_given(r, n * rows);
    const kvsi_ops *op = r->c.ops;

    op->linear_backward_input(&r->c, levels_written(r, "d_x", n * cols), d_y, &w, n, 0);
    op->linear_backward_input(&r->c, levels_added(r, "d_x, added", n * cols), d_y, &w, n, 1);
    op->linear_backward_weight(&r->c, levels_added(r, "d_w", rows * cols), d_y, x, n, rows, cols);
    op->linear_backward_bias(&r->c, levels_added(r, "d_bias", rows), d_y, n, rows);
}

/* Weights packed for products, NULL where the level does not use them.  A guard follows. */
static const void *pack(run *r, const kvsi_matrix *w)
{
    enum { GUARD = 64, MARK = 0x5a };
    const size_t bytes = r->c.ops->packed_bytes(&r->c, w, 1);
    unsigned char *packed = levels_hold(r, bytes + GUARD);

    assert_int_equal(r->c.ops->packed_bytes(&r->c, w, 1 << 20), 0);
    if (bytes == 0)
        return NULL;
    memset(packed, MARK, bytes + GUARD);
    r->c.ops->pack_weights(&r->c, packed, w);
    for (size_t i = bytes; i < bytes + GUARD; i++)
        assert_int_equal(packed[i], MARK);
    return packed;
}

/* Products have the same bits with packed weights. */
static void packed_linear(run *r, const void *asked)
{
    const shape *s = asked;
    const size_t n = s->n, rows = s->wide, cols = s->dim;
    const kvsi_matrix w = {.type = KVSI_REAL_TYPE,
                           .rows = rows,
                           .cols = cols,
                           .data = levels_given(r, rows * cols),
                           .bias = levels_given(r, rows)};
    const real *x = levels_given(r, n * cols), *d_y = levels_given(r, n * rows);
    real *y[2] = {levels_written(r, "y", n * rows), levels_written(r, "y, packed", n * rows)};
    real *d_x[2] = {levels_written(r, "d_x", n * cols), levels_written(r, "d_x, packed", n * cols)};
    kvsi_matrix packed = w;

    packed.packed = pack(r, &w);
    for (int i = 0; i < 2; i++) {
        const kvsi_matrix *now = i == 0 ? &w : &packed;

        r->c.ops->linear_forward(&r->c, y[i], x, now, n, d_y);
        r->c.ops->linear_backward_input(&r->c, d_x[i], d_y, now, n, 0);
        r->c.ops->linear_backward_input(&r->c, d_x[i], d_y, now, n, 1);
    }
    assert_memory_equal(y[0], y[1], n * rows * sizeof(real));
    assert_memory_equal(d_x[0], d_x[1], n * cols * sizeof(real));
}

static void check_linear_at(int slow, size_t n, size_t cols, size_t rows)
{
    const shape s = {.n = n, .dim = cols, .wide = rows, .slow = slow};

    check_shape(packed_linear, &s, "linear, packed");
    check_shape_bf16(packed_linear, &s, "linear, packed, bf16");
    check_shape(linear, &s, "linear");
    check_shape(linear_backward, &s, "linear backward");
    check_shape_bf16(linear, &s, "linear, bf16");
    check_shape_bf16(linear_backward, &s, "linear backward, bf16");
}

static void check_linear(size_t n, size_t cols, size_t rows)
{
    check_linear_at(0, n, cols, rows);
}

/* Sums so long that packed operands do not fit their memory: they are computed in several spans. */
static void long_sums(run *r, const void *asked)
{
    const shape *s = asked;
    real *w = levels_hold(r, s->wide * s->dim * sizeof *w);
    real *d_y = levels_hold(r, s->n * s->wide * sizeof *d_y);
    const kvsi_matrix matrix = {.type = KVSI_REAL_TYPE, .rows = s->wide, .cols = s->dim, .data = w};

    for (size_t i = 0; i < s->wide * s->dim; i++)
        w[i] = (real)((int)(i * i % 23) - 11);
    for (size_t i = 0; i < s->n * s->wide; i++)
        d_y[i] = (real)((int)(i * 7 % 19) - 9);
    r->c.ops->linear_backward_input(&r->c, levels_written(r, "d_x", s->n * s->dim), d_y, &matrix,
                                    s->n, 0);
}

/* Weights of every type, with few and with many tokens; `variant` is the type. */
static void typed_linear(run *r, const void *asked)
{
    const shape *s = asked;
    const kvsi_dtype type = (kvsi_dtype)s->variant;
    const size_t n = s->n, rows = s->wide, cols = s->dim;
    const real *x = levels_given(r, n * cols), *bias = levels_given(r, rows);
    const void *packed = levels_given_weights(r, type, rows * cols);
    const kvsi_matrix w = {type, rows, cols, packed, NULL, 0, 0, NULL, NULL};
    const kvsi_matrix part = {type, rows, cols, packed, NULL, rows + 3, 0, NULL, NULL};
    const size_t heads = rows / 6 * 6; /* rows of whole heads of six channels */
    const kvsi_matrix pairs = {type, heads, cols, packed, bias, 0, 6, NULL, NULL};
    const kvsi_matrix third = {type, heads, cols, packed, bias, 2 * rows + heads, 6, NULL, NULL};
    const kvsi_matrix second = {type, rows, cols, packed, bias, 2 * rows + heads, 0, &third, NULL};
    const kvsi_matrix first = {type, rows, cols, packed, NULL, 2 * rows + heads, 0, &second, NULL};
    real *parts = levels_added(r, "a part of y", n * (rows + 3));
    int32_t ids[2] = {0, (int32_t)rows - 1};

    r->c.ops->linear_forward(&r->c, levels_written(r, "y", n * rows), x, &w, n, NULL);
    r->c.ops->linear_forward(&r->c, parts, x, &part, n, NULL);
    r->c.ops->linear_forward(&r->c, levels_written(r, "y of three parts", n * (2 * rows + heads)),
                             x, &first, n, NULL);
    r->c.ops->linear_forward(&r->c, levels_written(r, "y of pairs", n * heads), x, &pairs, n, NULL);
    r->c.ops->embed_forward(&r->c, levels_written(r, "rows", 2 * cols), &w, ids, 2, 0);
}

static void weights_of_every_type_match(void **state)
{
    static const kvsi_dtype types[] = {KVSI_F32,  KVSI_F16,  KVSI_BF16, KVSI_Q8_0, KVSI_Q4_0,
                                       KVSI_Q5_0, KVSI_Q4_K, KVSI_Q5_K, KVSI_Q6_K};
    static const size_t tokens[] = {1, 2, 3, 4, 7, 8, 9, 40};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(types); i++)
        for (size_t j = 0; j < ARRAY_SIZE(tokens); j++) {
            const size_t block = kvsi_dtype_block(types[i]);
            shape s = {.n = tokens[j], .dim = 512, .wide = 37, .variant = (int)types[i]};

            if (!SUPPORT_SANITIZED || s.n == 1 || s.n == 8 || s.n == 9)
                check_shape(typed_linear, &s, kvsi_dtype_name(types[i]));
            if (SUPPORT_SANITIZED && s.n == 40 && block > 32)
                continue;
            s.dim = block == 1 ? 67 : block; /* not whole runs; one block */
            s.slow = tokens[j] == 3 || tokens[j] == 9;
            check_shape(typed_linear, &s, kvsi_dtype_name(types[i]));
            if (tokens[j] == 9) /* in bf16 the number of tokens does not matter */
                check_shape_bf16(typed_linear, &s, kvsi_dtype_name(types[i]));
        }
}

/* Two heads of six channels with their pairs side by side: 0 3 1 4 2 5. */
static void pairs_come_apart(void **state)
{
    static const size_t columns[12] = {0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11};
    const kvsi_matrix w = {.rows = 12, .paired = 6}, plain = {.rows = 12};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(columns); i++) {
        assert_int_equal(kvsi_matrix_column(&w, i), columns[i]);
        assert_int_equal(kvsi_matrix_row(&w, columns[i]), i);
        assert_int_equal(kvsi_matrix_column(&plain, i), i);
        assert_int_equal(kvsi_matrix_row(&plain, i), i);
    }
}

static void linear_matches(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(row_counts); i++)
        for (size_t j = 0; j < ARRAY_SIZE(dims); j++)
            for (size_t k = 0; k < ARRAY_SIZE(dims); k++)
                check_linear(row_counts[i], dims[j], dims[k]);
    check_linear(300, 70, 530); /* several pieces */
    check_linear(70, 1100, 50); /* several blocks of depth */
    check_linear(9, 1100, 3);
    check_linear(9, 5, 4200); /* several spans of rows */
    check_linear(40, 0, 9);   /* an empty product: residual and bias */
    check_linear(2, 0, 9);
}

/* The same paths where a panel has 32 rows or columns, a group of k 32 values, and a block of depth
 * 512 (float32) or 1024 of them. */
static void linear_with_tiles_matches(void **state)
{
    (void)state;
    check_linear_at(1, 1, 3, 24); /* less than a panel */
    check_linear_at(1, 9, 24, 5);
    check_linear_at(1, 70, 33, 65);  /* whole panels and edges of all operands */
    check_linear_at(1, 33, 1100, 9); /* several blocks of depth, forward */
    check_linear_at(1, 1100, 9, 33); /* in the gradient of the weights */
    check_linear_at(1, 520, 3, 260); /* several pieces, in rows and in columns */
    check_linear_at(1, 9, 5, 4200);  /* several spans of rows */
    check_linear_at(1, 40, 0, 9);
}

static void long_sums_match(void **state)
{
    const shape s = {.n = 4080, .dim = 3, .wide = 2100};
    const shape tiles = {.n = 700, .dim = 3, .wide = 4080, .slow = 1};

    (void)state;
    check_shape(long_sums, &s, "long sums");
    check_shape_bf16(long_sums, &s, "long sums, bf16");
    check_shape(long_sums, &tiles, "long sums");
}

/* ---- activations ---- */

/* Variant: the function, plus GATED with a gate. */
enum { GATED = 16 };

static void activation(run *r, const void *asked)
{
    const shape *s = asked;
    const kvsi_mlp mlp = {.function = (kvsi_activation)(s->variant % GATED),
                          .gated = s->variant >= GATED,
                          .width = s->wide};
    const size_t n = s->n, inputs = n * kvsi_mlp_inputs(&mlp);
    const real *d_y = levels_given(r, n * mlp.width);
    real *x = levels_given(r, inputs), *y = levels_written(r, "y", n * mlp.width);
    real *d_x = levels_written(r, "d_x", inputs);

    for (size_t i = 0; s->large > 0 && i < inputs; i += 2)
        x[i] *= (real)s->large;
    r->c.ops->activation_forward(&r->c, y, x, &mlp, n);
    r->c.ops->activation_backward(&r->c, d_x, d_y, x, &mlp, n);
}

/* exp overflows in float for gates of a few hundred. */
static void activations_match(void **state)
{
    static const double large[] = {0, 10, 200};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(row_counts); i++)
        for (size_t j = 0; j < ARRAY_SIZE(dims); j++)
            for (size_t k = 0; k < ARRAY_SIZE(large); k++)
                for (int f = KVSI_ACTIVATION_SILU; f <= KVSI_ACTIVATION_RELU; f++) {
                    shape s = {.n = row_counts[i],
                               .dim = 1,
                               .wide = dims[j],
                               .large = large[k],
                               .variant = f};

                    check_plain(activation, s, "activation");
                    s.variant += GATED;
                    check_plain(activation, s, "gated activation");
                }
}

/* Exact GELU and its slope are accurate to float32: a few units in the last place of the values
 * near 1, also far out on both sides. */
static void exact_gelu_is_accurate(void **state)
{
    enum { COUNT = 4001 };
    const kvsi_mlp mlp = {KVSI_ACTIVATION_GELU, 0, COUNT};
    const kvsi_ops *levels[LEVELS_MAX];
    const size_t count = levels_fast(levels);
    static real x[COUNT], one[COUNT], y[COUNT], slope[COUNT];

    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        x[i] = (real)((double)i / 100 - 20);
        one[i] = 1;
    }
    for (size_t l = 0; l < count; l++) {
        kvsi_context c = {.ops = levels[l], .threads = 1};

        c.ops->activation_forward(&c, y, x, &mlp, 1);
        c.ops->activation_backward(&c, slope, one, x, &mlp, 1);
        for (size_t i = 0; i < COUNT; i++) {
            const double v = (double)x[i], phi = erfc(-v / sqrt(2)) / 2;
            const double d = phi + v * exp(-v * v / 2) / sqrt(2 * acos(-1));

            if (!(fabs((double)y[i] - v * phi) <= 2e-7 * fmax(1, fabs(v))) ||
                !(fabs((double)slope[i] - d) <= 5e-7))
                fail_msg("%s: gelu(%g) is %.9g with slope %.9g, expected %.9g and %.9g",
                         levels[l]->name, v, (double)y[i], (double)slope[i], v * phi, d);
        }
    }
}

/* ---- whole arrays, and rows of length 1 ---- */

static void arrays(run *r, const void *asked)
{
    static const double rates[] = {0.001, 0.3, 0.999};
    const shape *s = asked;
    const size_t n = s->n;
    const real *x = levels_given(r, n);

    r->c.ops->add(&r->c, levels_added(r, "sum", n), x, n);
    r->c.ops->scale(&r->c, levels_added(r, "product", n), (real)0.3, n);
    for (size_t i = 0; i < ARRAY_SIZE(rates); i++) {
        const kvsi_dropout d = {rates[i], UINT64_C(1) << 40 | 9, UINT64_C(77) << 32 | i};

        r->c.ops->dropout(&r->c, levels_added(r, "what dropout leaves", n), n, &d);
    }
}

/* Some are longer than a thread's piece. */
static void arrays_match(void **state)
{
    static const size_t counts[] = {1, 3, 24, 257, 16384, 16385, 100003};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(counts); i++)
        check_plain(arrays, (shape){.n = counts[i], .dim = 1, .wide = 1}, "add and dropout");
}

/* Bits of floats: every upper half, infinities and NaN too, with lower halves below, at and above
 * the middle between two bfloat16 values. */
static void fill_bits(real *x, size_t n)
{
    static const uint32_t lower[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};

    for (size_t i = 0; i < n; i++) {
        const uint32_t bits =
            (uint32_t)(i * 40503 & 0xffff) << 16 | lower[i / 65536 % ARRAY_SIZE(lower)];

        memcpy(&x[i], &bits, sizeof bits);
    }
}

/* Rounds, keeps and widens n values; *x and *kept are held by the run. */
static void round_and_widen(run *r, const kvsi_ops *ops, size_t n, real **x, uint16_t **kept)
{
    const kvsi_limits limits = {.tokens = 1,
                                .sequences = 1,
                                .head_rows = 1,
                                .dim = 1,
                                .heads = 1,
                                .kv_heads = 1,
                                .head_size = 1,
                                .ffn = 1,
                                .vocab = 1};
    real *alone;

    levels_start(r, ops, &limits);
    *x = levels_hold(r, n * sizeof **x);
    *kept = levels_hold(r, n * sizeof **kept);
    alone = levels_hold(r, n * sizeof *alone);
    fill_bits(*x, n);
    fill_bits(alone, n);
    ops->round_bf16(&r->c, *x, *kept, n);
    ops->round_bf16(&r->c, alone, NULL, n);
    assert_memory_equal(*x, alone, n * sizeof *alone);
    ops->widen_bf16(&r->c, alone, *kept, n);
    assert_memory_equal(*x, alone, n * sizeof *alone);
}

static void bfloat16_has_the_bits_of_the_reference(void **state)
{
    static const size_t counts[] = {1, 3, 24, 257, 16385, 6 * 65536};
    const kvsi_ops *levels[LEVELS_MAX];
    const size_t count = levels_fast(levels);

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(counts); i++)
        for (size_t l = 0; l < count; l++) {
            const size_t n = counts[i];
            real *expected, *x;
            uint16_t *expected_kept, *kept;
            run want, got;

            round_and_widen(&want, &kvsi_reference_ops, n, &expected, &expected_kept);
            round_and_widen(&got, levels[l], n, &x, &kept);
            assert_memory_equal(x, expected, n * sizeof *x);
            assert_memory_equal(kept, expected_kept, n * sizeof *kept);
            levels_finish(&got);
            levels_finish(&want);
        }
}

/* One row in three has no length. */
static void unit_rows(run *r, const void *asked)
{
    const shape *s = asked;
    const size_t n = s->n, dim = s->dim;
    const real *d_y = levels_given(r, n * dim);
    real *x = levels_given(r, n * dim);
    real *y = levels_written(r, "y", n * dim), *d_x = levels_added(r, "d_x", n * dim);

    for (size_t i = 0; i < n * dim; i++)
        x[i] *= i / dim % 3 == 1 ? 0 : 1;
    r->c.ops->unit_rows_forward(&r->c, y, x, n, dim);
    r->c.ops->unit_rows_backward(&r->c, d_x, d_y, x, n, dim);
}

static void unit_rows_match(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(row_counts); i++)
        for (size_t j = 1; j < ARRAY_SIZE(dims); j++) /* a row of one number has no gradient */
            check_plain(unit_rows, (shape){.n = row_counts[i], .dim = dims[j], .wide = 1},
                        "unit rows");
}

/* ---- head ---- */

static real *given_sized(run *r, size_t n, double large)
{
    real *x = levels_given(r, n);

    for (size_t i = 0; large > 0 && i < n; i++)
        x[i] = levels_whole(x[i], large);
    return x;
}

/* Different rows, not in order. */
static int32_t *given_rows(run *r, size_t count, size_t n)
{
    int32_t *rows = levels_hold(r, count * sizeof *rows);

    for (size_t i = 0; i < count; i++)
        rows[i] = (int32_t)((3 + 7 * i) % n); /* 7 does not divide n */
    return rows;
}

/* Guesses as floats, so that they are compared too: below 25000 the tolerance requires equality.
 * For equal logits the guess is the first. */
static void list_guesses(run *r, const int32_t *guesses, size_t count)
{
    real *values = levels_written(r, "row_guess", count);

    for (size_t i = 0; i < count; i++)
        values[i] = (real)guesses[i];
}

/* Variant 0 has a matrix of weights, 1 has none: logits = channels. */
static kvsi_matrix given_head(run *r, const shape *s)
{
    const size_t vocab = s->variant ? s->dim : s->wide;
    real *weights = s->variant ? NULL : given_sized(r, vocab * s->dim, s->large);

    if (s->flat && weights)
        memset(weights, 0, vocab * s->dim * sizeof *weights);
    return (kvsi_matrix){KVSI_REAL_TYPE, vocab, s->dim, weights, NULL, 0, 0, NULL, NULL};
}

/* Checks the most likely tokens.  Their log-probabilities have the bits that head_loss computes for
 * them, in both orders of sums; head() compares these with the reference. */
static void best_tokens(run *r, const kvsi_head *h, size_t top)
{
    const size_t count = h->count;
    int32_t *ids = levels_hold(r, (count * top + 1) * sizeof *ids), *targets, *guesses;
    real *losses;
    kvsi_head same = *h;
    kvsi_head_top best = {.x = h->x,
                          .w = h->w,
                          .rows = h->rows,
                          .count = count,
                          .n = h->n,
                          .top = top,
                          .ids = ids,
                          .logprobs = levels_hold(r, (count * top + 1) * sizeof(real)),
                          .cap = h->cap};

    targets = levels_hold(r, (count + 1) * sizeof *targets);
    guesses = levels_hold(r, (count + 1) * sizeof *guesses);
    losses = levels_hold(r, (count + 1) * sizeof *losses);
    same.targets = targets;
    same.row_guess = guesses;
    same.row_loss = losses;
    same.d_x = same.d_w = NULL;
    for (same.many = best.many = 0; best.many < 2; same.many = ++best.many) {
        r->c.ops->head_top(&r->c, &best);
        for (size_t i = 0; i < top; i += top / 3 + 1) {
            for (size_t row = 0; row < count; row++)
                targets[row] = ids[row * top + i];
            r->c.ops->head_loss(&r->c, &same);
            for (size_t row = 0; row < count; row++) {
                assert_true(best.logprobs[row * top + i] == -losses[row]);
                assert_true(i > 0 || guesses[row] == targets[row]);
            }
        }
    }
    if (top <= 2) { /* with more, some are so close that rounding changes their order */
        real *values = levels_written(r, "best tokens", count * top);

        for (size_t i = 0; i < count * top; i++)
            values[i] = (real)ids[i];
    }
}

static void head(run *r, const void *asked)
{
    const shape *s = asked;
    const size_t n = s->n, dim = s->dim, count = s->head_rows;
    const real *x = given_sized(r, n * dim, s->large);
    const kvsi_matrix w = given_head(r, s);
    int32_t *guesses = levels_hold(r, 2 * count * sizeof *guesses);
    kvsi_head h = {.x = x,
                   .w = &w,
                   .rows = given_rows(r, count, n),
                   .targets = levels_given_ids(r, count, w.rows),
                   .count = count,
                   .n = n,
                   .row_loss = levels_written(r, "row_loss", count),
                   .row_guess = guesses,
                   .cap = (real)s->cap};

    r->c.ops->head_logits(&r->c, levels_written(r, "logits", count * w.rows), x, &w, h.rows, count,
                          h.cap);
    r->c.ops->head_loss(&r->c, &h); /* without gradients */
    h.row_loss = levels_written(r, "row_loss with gradients", count);
    h.row_guess = guesses + count;
    h.d_x = levels_written(r, "d_x", n * dim);
    h.d_w = w.data ? levels_added(r, "d_w", w.rows * dim) : NULL;
    r->c.ops->head_loss(&r->c, &h);
    list_guesses(r, guesses, 2 * count);
    best_tokens(r, &h, 1);
    best_tokens(r, &h, 2);
    best_tokens(r, &h, w.rows);
}

static int by_value(const void *a, const void *b)
{
    const real x = *(const real *)a, y = *(const real *)b;

    return (x < y) - (x > y);
}

/* The first `top` values are those of an ordinary sort; equal values are in the order of ids. */
static void best_are_sorted(void **state)
{
    enum { COUNT = 500 };
    real values[COUNT], sorted[COUNT];
    int32_t ids[COUNT];

    (void)state;
    support_fill(values, COUNT, 3, 1);
    for (size_t i = 0; i < COUNT; i++)
        values[i] = sorted[i] = (real)(int)(4 * values[i]); /* many are equal */
    qsort(sorted, COUNT, sizeof *sorted, by_value);
    for (size_t top = 0; top <= COUNT; top += top < 10 ? 1 : 49) {
        ids[top < COUNT ? top : 0] = -7;
        kvsi_top_ids(ids, top, values, COUNT);
        assert_true(top == COUNT || ids[top] == -7);
        for (size_t i = 0; i < top; i++) {
            assert_true(values[ids[i]] == sorted[i]);
            assert_true(i == 0 || sorted[i] < sorted[i - 1] || ids[i] > ids[i - 1]);
        }
    }
}

/* In bf16 the gradient of the logits is rounded again, and a difference of one float32 rounding may
 * turn a value into its neighbour, up to 2^-7 of it away.  Results are sums of several terms. */
#define HEAD_TOLERANCE_BF16 4e-3

static void head_matches(void **state)
{
    static const size_t vocabs[] = {3, 1000}, counts[] = {0, 1, 5, 70};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(vocabs); i++)
        for (size_t j = 0; j < ARRAY_SIZE(counts); j++)
            for (size_t k = 0; k < ARRAY_SIZE(dims); k++) {
                shape s = {.n = 80, .dim = dims[k], .wide = vocabs[i], .head_rows = counts[j]};

                check_shape(head, &s, "head");
                check_shape_in(KVSI_PRECISION_BF16, HEAD_TOLERANCE_BF16, head, &s, "head, bf16");
                s.cap = 30; /* a smaller one makes some logits equal */
                check_shape(head, &s, "head");
                s.cap = 0;
                if (SUPPORT_SANITIZED && s.head_rows * s.dim * s.wide > 10000000)
                    continue;
                s.large = 100;
                check_shape(head, &s, "head");
                s.flat = 1;
                check_shape(head, &s, "head");
            }
}

static void head_with_tiles_matches(void **state)
{
    static const size_t counts[] = {5, 70};

    (void)state;
    for (size_t j = 0; j < ARRAY_SIZE(counts); j++) {
        const shape s = {.n = 80, .dim = 24, .wide = 67, .head_rows = counts[j], .slow = 1};

        check_shape(head, &s, "head");
        check_shape_in(KVSI_PRECISION_BF16, HEAD_TOLERANCE_BF16, head, &s, "head, bf16");
    }
}

static void head_without_matrix_matches(void **state)
{
    static const size_t counts[] = {0, 1, 5, 70};

    (void)state;
    for (size_t j = 0; j < ARRAY_SIZE(counts); j++)
        for (size_t k = 1; k < ARRAY_SIZE(dims); k++) { /* one logit has no loss */
            shape s = {.n = 80, .dim = dims[k], .head_rows = counts[j], .variant = 1, .slow = 1};

            s.wide = s.dim;
            check_shape(head, &s, "head without matrix");
            s.cap = 2;
            check_shape(head, &s, "head without matrix");
            s.cap = 0;
            s.large = 100;
            check_shape(head, &s, "head without matrix");
        }
}

/* ---- optimizer ---- */

static void optimizer(run *r, const void *asked)
{
    const shape *s = asked;
    const size_t n = s->n;
    real *p = levels_added(r, "p", n), *m = levels_added(r, "m", n), *v = levels_added(r, "v", n);
    real *norm_of_g = levels_written(r, "sum of squares and scale", 2);

    for (size_t i = 0; i < n; i++)
        v[i] *= v[i];
    for (int step = 1; step <= 3; step++) {
        const real *g = levels_given(r, n);
        const kvsi_adamw h = {0.01, 0.9, 0.95, 1e-8, 0.1, 1 - pow(0.9, step), 1 - pow(0.95, step)};
        double sum = NAN, scale = NAN;

        r->c.ops->sum_squares(&r->c, &sum, g, n);
        r->c.ops->clip_scale(&r->c, &scale, &sum, 0.5, 0.3);
        r->c.ops->adamw(&r->c, p, g, m, v, n, &h, &scale);
        norm_of_g[0] = (real)(sum / (double)n);
        norm_of_g[1] = (real)scale;
    }
}

static void optimizer_matches(void **state)
{
    static const size_t counts[] = {1, 3, 24, 257, 100003};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(counts); i++)
        check_plain(optimizer, (shape){.n = counts[i], .dim = 1, .wide = 1}, "optimizer");
}

/* ---- numbers that are none ---- */

/* A diverged training run is detected by NaN in its loss: no operation may hide NaN, as comparisons
 * and clipped exponentials easily do. */
static void check_nan(const kvsi_ops *ops)
{
    const kvsi_limits limits = {.tokens = 1,
                                .sequences = 1,
                                .head_rows = 1,
                                .dim = 8,
                                .heads = 1,
                                .kv_heads = 1,
                                .head_size = 8,
                                .ffn = 8,
                                .vocab = 8};
    const int32_t zero = 0;
    const kvsi_dropout dropped = {.rate = 0.999};
    kvsi_matrix w = {KVSI_REAL_TYPE, 8, 8, NULL, NULL, 0, 0, NULL, NULL};
    kvsi_norm norm = {.eps = 1e-5};
    real x[2 * 8] = {(real)NAN}, out[8], loss;
    int32_t guess;
    kvsi_head h = {.x = x,
                   .w = &w,
                   .rows = &zero,
                   .targets = &zero,
                   .count = 1,
                   .row_loss = &loss,
                   .row_guess = &guess,
                   .n = 1};
    run r;

    levels_start(&r, ops, &limits);
    norm.gain = w.data = levels_given(&r, 8 * 8);
    ops->norm_forward(&r.c, out, x, &norm, 1, 8);
    assert_true(isnan(out[7]));
    norm.bias = norm.gain;
    ops->norm_forward(&r.c, out, x, &norm, 1, 8);
    assert_true(isnan(out[7]));
    for (int f = KVSI_ACTIVATION_SILU; f <= KVSI_ACTIVATION_RELU; f++)
        for (int gated = 0; gated < 2; gated++) {
            ops->activation_forward(&r.c, out, x, &(kvsi_mlp){(kvsi_activation)f, gated, 8}, 1);
            assert_true(isnan(out[0]));
        }
    ops->unit_rows_forward(&r.c, out, x, 1, 8);
    assert_true(isnan(out[0]));
    ops->dropout(&r.c, out, 8, &dropped);
    assert_true(isnan(out[0]));
    ops->head_loss(&r.c, &h);
    assert_true(isnan(loss));
    w.data = NULL;
    ops->head_loss(&r.c, &h);
    assert_true(isnan(loss));
    levels_finish(&r);
}

static void nan_is_not_hidden(void **state)
{
    const kvsi_ops *levels[LEVELS_MAX];
    const size_t count = levels_fast(levels);

    (void)state;
    check_nan(&kvsi_reference_ops);
    for (size_t i = 0; i < count; i++)
        check_nan(levels[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_level_is_tested),
        cmocka_unit_test(embed_matches),
        cmocka_unit_test(norm_matches),
        cmocka_unit_test(filter_matches),
        cmocka_unit_test(linear_matches),
        cmocka_unit_test(linear_with_tiles_matches),
        cmocka_unit_test(long_sums_match),
        cmocka_unit_test(pairs_come_apart),
        cmocka_unit_test(weights_of_every_type_match),
        cmocka_unit_test(activations_match),
        cmocka_unit_test(exact_gelu_is_accurate),
        cmocka_unit_test(arrays_match),
        cmocka_unit_test(bfloat16_has_the_bits_of_the_reference),
        cmocka_unit_test(unit_rows_match),
        cmocka_unit_test(head_matches),
        cmocka_unit_test(head_with_tiles_matches),
        cmocka_unit_test(best_are_sorted),
        cmocka_unit_test(head_without_matrix_matches),
        cmocka_unit_test(optimizer_matches),
        cmocka_unit_test(nan_is_not_hidden),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
