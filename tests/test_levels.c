/* Every processor level against the plain reference: the same call, on the same numbers, on shapes
 * that are odd, tiny, or cross the edges of tiles. */
#include "base/memory.h"
#include "base/random.h"
#include "kernels/forms.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h> /* needs those before it */
/* clang-format on */

/* Of the largest number of an output.  A float rounds by 6e-8; the longest sums here have about a
 * thousand terms, added in another order than the reference's (which adds in double), and an
 * exponential multiplies the error of its argument, up to about 10, into its result: some hundred
 * roundings in all, of random sign. */
#define TOLERANCE 2e-5

#define ARRAY_SIZE(a) (sizeof(a) / sizeof *(a))

/* ---- one call at one level ---- */

enum { LEVELS_MAX = 8, BLOCKS_MAX = 64, OUTPUTS_MAX = 24, GUARD = 4096, THREADS = 2 };

typedef struct output {
    const char *name;
    const float *values;
    size_t count;
    int gaps; /* may keep the NaN it came with, where the reference does */
} output;

typedef struct run {
    kvsi_context c;
    kvsi_limits limits;
    kvsi_random random; /* the same stream at every level, so the same inputs */
    void *blocks[BLOCKS_MAX];
    output outputs[OUTPUTS_MAX];
    size_t held, count; /* of blocks, of outputs */
} run;

typedef void operation(run *r, const void *asked); /* asked: the shape */

static void *hold(run *r, size_t bytes)
{
    void *block = kvsi_alloc(bytes, 1);

    assert_non_null(block);
    assert_true(r->held < BLOCKS_MAX);
    r->blocks[r->held++] = block;
    return block;
}

/* Input: normal numbers. */
static float *given(run *r, size_t n)
{
    float *x = hold(r, n * sizeof *x);

    for (size_t i = 0; i < n; i++)
        x[i] = (float)kvsi_random_normal(&r->random);
    return x;
}

static int32_t *given_ids(run *r, size_t n, size_t bound)
{
    int32_t *ids = hold(r, n * sizeof *ids);

    for (size_t i = 0; i < n; i++)
        ids[i] = (int32_t)kvsi_random_below(&r->random, (uint32_t)bound);
    return ids;
}

static float *listed(run *r, const char *name, float *values, size_t n, int gaps)
{
    assert_true(r->count < OUTPUTS_MAX);
    r->outputs[r->count++] = (output){name, values, n, gaps};
    return values;
}

/* Output that the operation adds to. */
static float *added(run *r, const char *name, size_t n)
{
    return listed(r, name, given(r, n), n, 0);
}

/* Output that the operation overwrites. */
static float *written(run *r, const char *name, size_t n)
{
    float *x = hold(r, n * sizeof *x);

    for (size_t i = 0; i < n; i++)
        x[i] = NAN;
    return listed(r, name, x, n, 0);
}

/* The workspace has exactly the bytes asked for, full of NaN, and a guard behind it. */
static kvsi_context new_context(run *r, const kvsi_ops *ops)
{
    const size_t bytes = ops->workspace_bytes(&r->limits, THREADS);
    kvsi_context c = {.ops = ops, .threads = THREADS, .workspace_bytes = bytes};

    c.workspace = hold(r, bytes + GUARD);
    memset(c.workspace, 0xff, bytes + GUARD);
    return c;
}

static void check_guard(const kvsi_context *c, const char *what)
{
    for (size_t i = 0; i < GUARD; i++)
        if (c->workspace[c->workspace_bytes + i] != 0xff)
            fail_msg("%s: %s wrote to byte %zu behind its workspace of %zu", c->ops->name, what, i,
                     c->workspace_bytes);
}

static void start(run *r, const kvsi_ops *ops, const kvsi_limits *limits)
{
    *r = (run){.limits = *limits};
    kvsi_random_init(&r->random, 7, KVSI_RANDOM_DATA, 0);
    r->c = new_context(r, ops);
}

static void finish(run *r)
{
    for (size_t i = 0; i < r->held; i++)
        kvsi_free(r->blocks[i]);
}

static void compare(const char *level, const char *what, const output *got, const output *want)
{
    double largest = 0;

    for (size_t i = 0; i < want->count; i++)
        largest = fmax(largest, fabs((double)want->values[i]));
    for (size_t i = 0; i < want->count; i++) {
        const double x = (double)got->values[i], y = (double)want->values[i];

        if (want->gaps && isnan(x) && isnan(y))
            continue;
        if (!(fabs(x - y) <= TOLERANCE * largest))
            fail_msg("%s: %s: %s[%zu] is %.9g, the reference has %.9g; the largest of %zu is %.9g",
                     level, what, want->name, i, x, y, want->count, largest);
    }
}

/* Every level but the reference that this processor can run; returns how many. */
static size_t fast_levels(const kvsi_ops *levels[LEVELS_MAX])
{
    size_t count = 0;
    const char *level;
    int usable;

    for (size_t i = 0; (level = kvs_cpu_level_name(i, &usable)); i++)
        if (usable && strcmp(level, kvsi_reference_ops.name) != 0) {
            assert_true(count < LEVELS_MAX);
            assert_int_equal(kvsi_ops_find(&levels[count++], level, NULL), KVS_OK);
        }
    return count;
}

static void check(operation *call, const void *asked, const kvsi_limits *limits, const char *what)
{
    const kvsi_ops *levels[LEVELS_MAX];
    const size_t count = fast_levels(levels);
    run want, got;

    start(&want, &kvsi_reference_ops, limits);
    call(&want, asked);
    check_guard(&want.c, what);
    for (size_t i = 0; i < count; i++) {
        start(&got, levels[i], limits);
        call(&got, asked);
        check_guard(&got.c, what);
        assert_int_equal(got.count, want.count);
        for (size_t k = 0; k < want.count; k++)
            compare(levels[i]->name, what, &got.outputs[k], &want.outputs[k]);
        finish(&got);
    }
    finish(&want);
}

static void a_level_is_tested(void **state)
{
    const kvsi_ops *levels[LEVELS_MAX];

    (void)state;
    assert_true(fast_levels(levels) > 0);
}

/* ---- row by row operations ---- */

/* Of one operation; each uses what it needs. */
typedef struct shape {
    size_t n, dim, wide; /* wide: outputs of a linear layer, ffn or vocabulary */
    size_t head_rows;
    double large; /* not 0: about how large inputs are, see their operation */
    int flat;     /* all scores are equal */
} shape;

static const size_t row_counts[] = {1, 5, 70}, dims[] = {1, 3, 24, 257};

static void check_shape(operation *call, const shape *s, const char *name)
{
    const kvsi_limits limits = {.tokens = s->n,
                                .sequences = 1,
                                .head_rows = s->head_rows,
                                .dim = s->dim,
                                .heads = 1,
                                .kv_heads = 1,
                                .head_size = s->dim,
                                .ffn = s->wide,
                                .vocab = s->wide,
                                .window = 1,
                                .training = 1};
    char what[160];

    snprintf(what, sizeof what, "%s, n %zu, dim %zu, wide %zu, head rows %zu, large %g, flat %d",
             name, s->n, s->dim, s->wide, s->head_rows, s->large, s->flat);
    check(call, s, &limits, what);
}

static void embed(run *r, const void *asked)
{
    const shape *s = asked;
    const int32_t *ids = given_ids(r, s->n, s->wide);
    const float *table = given(r, s->wide * s->dim), *d_y = given(r, s->n * s->dim);
    float *y = written(r, "y", s->n * s->dim), *d_table = added(r, "d_table", s->wide * s->dim);

    r->c.ops->embed_forward(&r->c, y, table, ids, s->n, s->dim);
    r->c.ops->embed_backward(&r->c, d_table, d_y, ids, s->n, s->dim);
}

static void norm(run *r, const void *asked)
{
    const shape *s = asked;
    const size_t n = s->n, dim = s->dim;
    const float *x = given(r, n * dim), *gain = given(r, dim), *d_y = given(r, n * dim);
    float *y = written(r, "y", n * dim);
    float *d_x = added(r, "d_x", n * dim), *d_gain = added(r, "d_gain", dim);

    r->c.ops->norm_forward(&r->c, y, x, gain, n, dim, 1e-5);
    r->c.ops->norm_backward(&r->c, d_x, d_gain, d_y, x, gain, n, dim, 1e-5);
}

static void linear(run *r, const void *asked)
{
    const shape *s = asked;
    const size_t n = s->n, rows = s->wide, cols = s->dim;
    const kvsi_matrix w = {KVSI_ELEMENT_REAL, rows, cols, given(r, rows * cols)};
    const float *x = given(r, n * cols), *residual = given(r, n * rows), *d_y = given(r, n * rows);
    float *y = written(r, "y", n * rows), *sum = written(r, "y with residual", n * rows);
    float *d_x = written(r, "d_x", n * cols), *d_w = added(r, "d_w", rows * cols);

    r->c.ops->linear_forward(&r->c, y, x, &w, n, NULL);
    r->c.ops->linear_forward(&r->c, sum, x, &w, n, residual);
    r->c.ops->linear_backward_input(&r->c, d_x, d_y, &w, n);
    r->c.ops->linear_backward_weight(&r->c, d_w, d_y, x, n, rows, cols);
}

static void swiglu(run *r, const void *asked)
{
    const shape *s = asked;
    const size_t n = s->n, ffn = s->wide;
    const float *d_y = given(r, n * ffn);
    float *gate_up = given(r, n * 2 * ffn);
    float *y = written(r, "y", n * ffn), *d_gate_up = written(r, "d_gate_up", n * 2 * ffn);

    for (size_t i = 0; s->large > 0 && i < n * 2 * ffn; i += 2)
        gate_up[i] *= (float)s->large;
    r->c.ops->swiglu_forward(&r->c, y, gate_up, n, ffn);
    r->c.ops->swiglu_backward(&r->c, d_gate_up, d_y, gate_up, n, ffn);
}

static void embed_matches(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(row_counts); i++)
        for (size_t j = 0; j < ARRAY_SIZE(dims); j++) {
            check_shape(embed, &(shape){.n = row_counts[i], .dim = dims[j], .wide = 3}, "embed");
            check_shape(embed, &(shape){.n = row_counts[i], .dim = dims[j], .wide = 1000}, "embed");
        }
}

static void norm_matches(void **state)
{
    (void)state;
    for (size_t j = 0; j < ARRAY_SIZE(dims); j++) {
        for (size_t i = 0; i < ARRAY_SIZE(row_counts); i++)
            check_shape(norm, &(shape){.n = row_counts[i], .dim = dims[j], .wide = 1}, "norm");
        check_shape(norm, &(shape){.n = 3000, .dim = dims[j], .wide = 1}, "norm"); /* many pieces */
    }
}

static void linear_matches(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(row_counts); i++)
        for (size_t j = 0; j < ARRAY_SIZE(dims); j++)
            for (size_t k = 0; k < ARRAY_SIZE(dims); k++)
                check_shape(linear, &(shape){.n = row_counts[i], .dim = dims[j], .wide = dims[k]},
                            "linear");
    check_shape(linear, &(shape){.n = 300, .dim = 70, .wide = 530}, "linear"); /* several tiles */
}

/* Gates of a few hundred are beyond what exp can give in float. */
static void swiglu_matches(void **state)
{
    static const double large[] = {0, 10, 200};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(row_counts); i++)
        for (size_t j = 0; j < ARRAY_SIZE(dims); j++)
            for (size_t k = 0; k < ARRAY_SIZE(large); k++)
                check_shape(
                    swiglu,
                    &(shape){.n = row_counts[i], .dim = 1, .wide = dims[j], .large = large[k]},
                    "swiglu");
}

/* ---- head ---- */

/* Whole numbers up to `large`: products and sums of them are exact in float, so large scores differ
 * from the reference's by nothing, and what the softmax makes of them can be compared. */
static float whole(float x, double large)
{
    return (float)fmax(-large, fmin(large, round((double)x * large / 2)));
}

static float *given_sized(run *r, size_t n, double large)
{
    float *x = given(r, n);

    for (size_t i = 0; large > 0 && i < n; i++)
        x[i] = whole(x[i], large);
    return x;
}

/* Different rows, not in order. */
static int32_t *given_rows(run *r, size_t count, size_t n)
{
    int32_t *rows = hold(r, count * sizeof *rows);

    for (size_t i = 0; i < count; i++)
        rows[i] = (int32_t)((3 + 7 * i) % n); /* 7 does not divide n */
    return rows;
}

/* Guesses as numbers, so that they are compared too: below 25000, TOLERANCE asks for equality.
 * Where logits are equal, the first of them is the guess. */
static void list_guesses(run *r, const int32_t *guesses, size_t count)
{
    float *values = written(r, "row_guess", count);

    for (size_t i = 0; i < count; i++)
        values[i] = (float)guesses[i];
}

static void head(run *r, const void *asked)
{
    const shape *s = asked;
    const size_t n = s->n, dim = s->dim, vocab = s->wide, count = s->head_rows;
    const float *x = given_sized(r, n * dim, s->large);
    float *weights = given_sized(r, vocab * dim, s->large);
    const kvsi_matrix w = {KVSI_ELEMENT_REAL, vocab, dim, weights};
    const int32_t *rows = given_rows(r, count, n);
    int32_t *guesses = hold(r, 2 * count * sizeof *guesses);
    float *logits = written(r, "logits", count * vocab);
    kvsi_head h = {.x = x,
                   .w = &w,
                   .rows = rows,
                   .targets = given_ids(r, count, vocab),
                   .count = count,
                   .n = n,
                   .row_loss = written(r, "row_loss", count),
                   .row_guess = guesses};

    if (s->flat)
        memset(weights, 0, vocab * dim * sizeof *weights);
    r->c.ops->head_logits(&r->c, logits, x, &w, rows, count);
    r->c.ops->head_loss(&r->c, &h); /* without gradients */
    h.row_loss = written(r, "row_loss with gradients", count);
    h.row_guess = guesses + count;
    h.d_x = written(r, "d_x", n * dim);
    h.d_w = added(r, "d_w", vocab * dim);
    r->c.ops->head_loss(&r->c, &h);
    list_guesses(r, guesses, 2 * count);
}

static void head_matches(void **state)
{
    static const size_t vocabs[] = {3, 1000}, counts[] = {0, 1, 5, 70};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(vocabs); i++)
        for (size_t j = 0; j < ARRAY_SIZE(counts); j++)
            for (size_t k = 0; k < ARRAY_SIZE(dims); k++) {
                shape s = {.n = 80, .dim = dims[k], .wide = vocabs[i], .head_rows = counts[j]};

                check_shape(head, &s, "head");
                s.large = 100;
                check_shape(head, &s, "head");
                s.flat = 1;
                check_shape(head, &s, "head");
            }
}

/* ---- optimizer ---- */

static void optimizer(run *r, const void *asked)
{
    const shape *s = asked;
    const size_t n = s->n;
    float *p = added(r, "p", n), *m = added(r, "m", n), *v = added(r, "v", n);
    float *norm_of_g = written(r, "sum of squares and scale", 2);

    for (size_t i = 0; i < n; i++)
        v[i] *= v[i];
    for (int step = 1; step <= 3; step++) {
        const float *g = given(r, n);
        const kvsi_adamw h = {0.01, 0.9, 0.95, 1e-8, 0.1, 1 - pow(0.9, step), 1 - pow(0.95, step)};
        double sum = NAN, scale = NAN;

        r->c.ops->sum_squares(&r->c, &sum, g, n);
        r->c.ops->clip_scale(&r->c, &scale, &sum, 0.5, 0.3);
        r->c.ops->adamw(&r->c, p, g, m, v, n, &h, &scale);
        norm_of_g[0] = (float)(sum / (double)n);
        norm_of_g[1] = (float)scale;
    }
}

static void optimizer_matches(void **state)
{
    static const size_t counts[] = {1, 3, 24, 257, 100003};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(counts); i++)
        check_shape(optimizer, &(shape){.n = counts[i], .dim = 1, .wide = 1}, "optimizer");
}

/* ---- attention ---- */

enum { SEQUENCES_MAX = 4, PAST = 130, CAPACITY = 200 };

typedef enum scores { ORDINARY, LARGE, EQUAL } scores;

typedef struct attention_shape {
    size_t heads, kv_heads, head_size;
    size_t sequences, lengths[SEQUENCES_MAX];
    int cached;
    size_t past[SEQUENCES_MAX]; /* with a cache */
    unsigned targets;
    kvs_shift_form form;
    size_t window;
    int rotated;
    scores scores;
} attention_shape;

/* What the operation is given; `spans` and `a` point into one another, so it stays where it is. */
typedef struct problem {
    kvsi_span spans[SEQUENCES_MAX];
    kvsi_attention a;
    float *qkv;
} problem;

static size_t tokens_of(const attention_shape *s)
{
    size_t tokens = 0;

    for (size_t i = 0; i < s->sequences; i++)
        tokens += s->lengths[i];
    return tokens;
}

static size_t width_of(const attention_shape *s)
{
    return (s->heads + 2 * s->kv_heads) * s->head_size;
}

static kvsi_shift given_shift(run *r, const attention_shape *s, unsigned target, size_t heads)
{
    const size_t n = heads * kvsi_form_get(s->form)->numbers(s->window);

    if (!(s->targets & target))
        return (kvsi_shift){0};
    /* clamp: some numbers fall outside its range, some inside */
    return (kvsi_shift){s->form, s->window, given(r, n), NULL};
}

static float *given_rotations(run *r, const attention_shape *s)
{
    const size_t d = s->head_size, half = d / 2;
    float *rotations = hold(r, CAPACITY * d * sizeof *rotations);

    for (size_t t = 0; t < CAPACITY; t++)
        for (size_t i = 0; i < half; i++) {
            const double angle = (double)t * pow(10000.0, -2.0 * (double)i / (double)d);

            rotations[t * d + i] = (float)cos(angle);
            rotations[t * d + half + i] = (float)sin(angle);
        }
    return rotations;
}

/* A cache with `past` rows a head; what lies behind them is nobody's, so NaN. */
static float *given_cache(run *r, const char *name, const attention_shape *s, size_t past)
{
    const size_t d = s->head_size, n = s->kv_heads * CAPACITY * d;
    float *cache = given(r, n);

    for (size_t i = 0; i < n; i++)
        if (i / d % CAPACITY >= past)
            cache[i] = NAN;
    return listed(r, name, cache, n, 1);
}

static float *given_tail(run *r, const char *name, const kvsi_shift *shift, size_t row, size_t past)
{
    const size_t n = shift->window * row;
    float *tail;

    if (shift->window == 0)
        return NULL;
    tail = added(r, name, n);
    for (size_t i = 0; i < n; i++)
        if (past + i / row < shift->window)
            tail[i] = 0; /* nothing came before */
    return tail;
}

static void give_spans(run *r, problem *p, const attention_shape *s)
{
    const size_t q = s->heads * s->head_size, kv = s->kv_heads * s->head_size;
    size_t at = 0;

    for (size_t i = 0; i < s->sequences; i++) {
        kvsi_span *span = &p->spans[i];

        *span = (kvsi_span){.start = at, .len = s->lengths[i]};
        at += s->lengths[i];
        if (!s->cached)
            continue;
        span->past = s->past[i];
        span->capacity = CAPACITY;
        span->k = given_cache(r, "cached k", s, span->past);
        span->v = given_cache(r, "cached v", s, span->past);
        span->tail_q = given_tail(r, "tail of q", &p->a.q_shift, q, span->past);
        span->tail_k = given_tail(r, "tail of k", &p->a.k_shift, kv, span->past);
        span->tail_v = given_tail(r, "tail of v", &p->a.v_shift, kv, span->past);
    }
}

/* LARGE and EQUAL are about the scores, so only queries and keys are changed: large values would
 * cancel in the gradient, where p * (d_p - sum of p * d_p) multiplies the rounding of d_p. */
static float *given_qkv(run *r, const attention_shape *s)
{
    const size_t width = width_of(s), n = tokens_of(s) * width;
    const size_t keys_at = s->heads * s->head_size, values_at = width - s->kv_heads * s->head_size;
    float *qkv = given(r, n);

    for (size_t i = 0; i < n; i++) {
        if (s->scores == LARGE && i % width < values_at)
            qkv[i] = whole(qkv[i], 100);
        if (s->scores == EQUAL && i % width < keys_at)
            qkv[i] = 0;
    }
    return qkv;
}

static void give_problem(run *r, problem *p, const attention_shape *s)
{
    p->a = (kvsi_attention){.heads = s->heads,
                            .kv_heads = s->kv_heads,
                            .head_size = s->head_size,
                            .scale = (float)(1.0 / sqrt((double)s->head_size)),
                            .q_shift = given_shift(r, s, KVS_SHIFT_Q, s->heads),
                            .k_shift = given_shift(r, s, KVS_SHIFT_K, s->kv_heads),
                            .v_shift = given_shift(r, s, KVS_SHIFT_V, s->kv_heads),
                            .rotations = s->rotated ? given_rotations(r, s) : NULL,
                            .sequences = s->sequences,
                            .spans = p->spans,
                            .tokens = tokens_of(s)};
    p->qkv = given_qkv(r, s);
    give_spans(r, p, s);
}

static void attention_forward(run *r, const void *asked)
{
    const attention_shape *s = asked;
    const size_t rows = tokens_of(s) * s->heads;
    problem p;

    give_problem(r, &p, s);
    r->c.ops->attention_forward(&r->c, written(r, "out", rows * s->head_size),
                                written(r, "logsum", rows), p.qkv, &p.a);
}

static void list_gradient(run *r, const char *name, kvsi_shift *shift, size_t heads)
{
    if (shift->window > 0)
        shift->gradient =
            added(r, name, heads * kvsi_form_get(shift->form)->numbers(shift->window));
}

/* Both levels get the reference's forward results: a log-sum in the thousands keeps three decimals
 * in float, and a difference in the last would multiply into every probability. */
static void attention_backward(run *r, const void *asked)
{
    const attention_shape *s = asked;
    const size_t rows = tokens_of(s) * s->heads;
    kvsi_context reference = new_context(r, &kvsi_reference_ops);
    const float *d_out = given(r, rows * s->head_size);
    float *out = given(r, rows * s->head_size), *logsum = given(r, rows);
    problem p;

    give_problem(r, &p, s);
    list_gradient(r, "gradient of q_shift", &p.a.q_shift, s->heads);
    list_gradient(r, "gradient of k_shift", &p.a.k_shift, s->kv_heads);
    list_gradient(r, "gradient of v_shift", &p.a.v_shift, s->kv_heads);
    kvsi_reference_ops.attention_forward(&reference, out, logsum, p.qkv, &p.a);
    r->c.ops->attention_backward(&r->c, written(r, "d_qkv", tokens_of(s) * width_of(s)), d_out, out,
                                 logsum, p.qkv, &p.a);
}

static void check_attention(const attention_shape *s)
{
    kvsi_limits limits = {.tokens = tokens_of(s),
                          .sequences = s->sequences,
                          .head_rows = 1,
                          .dim = s->heads * s->head_size,
                          .heads = s->heads,
                          .kv_heads = s->kv_heads,
                          .head_size = s->head_size,
                          .ffn = 1,
                          .vocab = 1,
                          .window = s->window};
    char what[200];

    snprintf(
        what, sizeof what,
        "attention, %zu/%zu heads of %zu, %zu sequences (%zu %zu %zu %zu), past %zu, shift %s %s "
        "%zu, rotated %d, scores %d",
        s->heads, s->kv_heads, s->head_size, s->sequences, s->lengths[0], s->lengths[1],
        s->lengths[2], s->lengths[3], s->past[0], kvs_shift_targets_name(s->targets),
        kvs_shift_form_name(s->form), s->window, s->rotated, s->scores);
    check(attention_forward, s, &limits, what);
    limits.training = 1;
    if (!s->cached)
        check(attention_backward, s, &limits, what);
}

static const attention_shape lengths[] = {
    {.sequences = 1, .lengths = {1}},   {.sequences = 3, .lengths = {1, 2, 97}},
    {.sequences = 1, .lengths = {200}}, {.sequences = 1, .lengths = {65}},
    {.sequences = 1, .lengths = {128}},
};

static const struct {
    size_t heads, kv_heads, head_size;
} head_shapes[] = {
    {1, 1, 2}, {1, 1, 6},  {1, 1, 24}, {1, 1, 64}, {1, 1, 128},
    {4, 2, 6}, {4, 2, 24}, {4, 2, 64}, {8, 1, 2},  {8, 1, 24},
};

static attention_shape with_heads(attention_shape s, size_t which)
{
    s.heads = head_shapes[which].heads;
    s.kv_heads = head_shapes[which].kv_heads;
    s.head_size = head_shapes[which].head_size;
    return s;
}

static void attention_shapes_match(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(lengths); i++)
        for (size_t j = 0; j < ARRAY_SIZE(head_shapes); j++) {
            attention_shape s = with_heads(lengths[i], j);

            s.targets = KVS_SHIFT_K | KVS_SHIFT_V;
            s.window = 1;
            s.rotated = 1;
            check_attention(&s);
        }
}

/* Every target, form and window, with and without rotation. */
static void check_variants(attention_shape s)
{
    static const unsigned targets[] = {KVS_SHIFT_K, KVS_SHIFT_V, KVS_SHIFT_K | KVS_SHIFT_V,
                                       KVS_SHIFT_Q | KVS_SHIFT_K | KVS_SHIFT_V};

    for (s.rotated = 0; s.rotated < 2; s.rotated++) {
        s.targets = 0;
        s.window = 0;
        s.form = KVS_SHIFT_FREE;
        check_attention(&s);
        for (size_t i = 0; i < ARRAY_SIZE(targets); i++)
            for (s.form = 0; kvsi_form_get(s.form); s.form++)
                for (s.window = 1; s.window <= kvsi_form_get(s.form)->window_max; s.window++) {
                    s.targets = targets[i];
                    check_attention(&s);
                }
    }
}

static void attention_variants_match(void **state)
{
    (void)state;
    check_variants((attention_shape){
        .heads = 4, .kv_heads = 2, .head_size = 24, .sequences = 3, .lengths = {1, 2, 97}});
}

/* A chunk may be shorter than the window, or empty, or fill its cache to the end. */
static void cached_attention_matches(void **state)
{
    static const attention_shape chunks[] = {
        {.sequences = 1, .lengths = {1}, .past = {PAST}},
        {.sequences = 1, .lengths = {5}, .past = {PAST}},
        {.sequences = 1, .lengths = {70}, .past = {PAST}},
        {.sequences = 4, .lengths = {1, 5, 0, 70}, .past = {1, PAST, 7, 0}},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(chunks); i++) {
        attention_shape s = chunks[i];

        s.cached = 1;
        s.heads = 4;
        s.kv_heads = 2;
        s.head_size = 24;
        check_variants(s);
        for (size_t j = 0; j < ARRAY_SIZE(head_shapes); j++) {
            s = with_heads(s, j);
            s.targets = KVS_SHIFT_K | KVS_SHIFT_V;
            s.form = KVS_SHIFT_FREE;
            s.window = 1;
            s.rotated = 1;
            check_attention(&s);
        }
    }
}

/* Scores in the thousands: softmax must not overflow.  Head size 64, without shift and
 * rotation, keeps them exact in float (see whole). */
static void large_and_equal_scores_match(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
        attention_shape s = lengths[i];

        s.heads = 4;
        s.kv_heads = 2;
        s.head_size = 64;
        s.scores = LARGE;
        check_attention(&s);
        s.scores = EQUAL;
        check_attention(&s);
    }
}

/* A diverged training run shows as NaN in its loss: no operation may turn it into a number, as
 * comparisons and clipped exponentials easily do. */
static void check_nan(const kvsi_ops *ops)
{
    const kvsi_limits limits = {1, 1, 1, 8, 1, 1, 8, 8, 8, 0, 0};
    const int32_t zero = 0;
    const kvsi_span span = {.len = 1};
    const kvsi_attention a = {.heads = 1,
                              .kv_heads = 1,
                              .head_size = 8,
                              .scale = 1,
                              .sequences = 1,
                              .spans = &span,
                              .tokens = 1};
    kvsi_matrix w = {KVSI_ELEMENT_REAL, 8, 8, NULL};
    float x[3 * 8] = {NAN}, out[8], loss, logsum;
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

    start(&r, ops, &limits);
    w.data = given(&r, 8 * 8);
    ops->norm_forward(&r.c, out, x, w.data, 1, 8, 1e-5);
    assert_true(isnan(out[7]));
    ops->swiglu_forward(&r.c, out, x, 1, 8);
    assert_true(isnan(out[0]));
    ops->attention_forward(&r.c, out, &logsum, x, &a);
    assert_true(isnan(out[0]) && isnan(logsum));
    ops->head_loss(&r.c, &h);
    assert_true(isnan(loss));
    finish(&r);
}

static void nan_is_not_hidden(void **state)
{
    const kvsi_ops *levels[LEVELS_MAX];
    const size_t count = fast_levels(levels);

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
        cmocka_unit_test(linear_matches),
        cmocka_unit_test(swiglu_matches),
        cmocka_unit_test(head_matches),
        cmocka_unit_test(optimizer_matches),
        cmocka_unit_test(attention_shapes_match),
        cmocka_unit_test(attention_variants_match),
        cmocka_unit_test(cached_attention_matches),
        cmocka_unit_test(large_and_equal_scores_match),
        cmocka_unit_test(nan_is_not_hidden),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
