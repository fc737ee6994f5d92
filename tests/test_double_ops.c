/* Gradients of the reference operations, in double, against central differences of their forward
 * pass; and a few values worked out by hand, since differences cannot tell a wrong forward pass
 * from a right one. */
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

_Static_assert(sizeof(real) == sizeof(double), "these differences need KVSI_REAL=double");

/* A step of 1e-5 leaves h^2 f''' ~ 1e-10 and rounding of about 1e-16 * |loss| / h ~ 1e-10. */
#define STEP 1e-5
#define TOLERANCE 1e-7

#define ARRAY_SIZE(a) (sizeof(a) / sizeof *(a))

static const kvsi_ops *const op = &kvsi_reference_ops;

/* ---- the checker ---- */

enum { OPERANDS_MAX = 4 };

typedef struct trial {
    kvsi_context c;
    kvsi_random random;
    const kvsi_attention *attention;
    real *y, *d_y;                             /* output, and the gradient that comes back */
    real *x[OPERANDS_MAX], *d_x[OPERANDS_MAX]; /* operands, and what the backward pass gives */
} trial;

typedef enum effect { OVERWRITES, ADDS } effect;

/* What an operation reads and differentiates.  A count of 0: not in this case. */
typedef struct operand {
    const char *name;
    size_t count;
    effect effect; /* of the backward pass on this gradient */
} operand;

typedef struct operation {
    char name[80];
    size_t outputs;
    operand operands[OPERANDS_MAX];
    void (*forward)(trial *t);
    void (*backward)(trial *t);
} operation;

static void fill_normal(real *x, size_t n, kvsi_random *random)
{
    for (size_t i = 0; i < n; i++)
        x[i] = kvsi_random_normal(random);
}

static real *new_normal(size_t n, kvsi_random *random)
{
    real *x = kvsi_alloc(n, sizeof *x);

    assert_non_null(x);
    fill_normal(x, n, random);
    return x;
}

/* The loss whose gradient is checked: <d_y, y>. */
static double loss_of(trial *t, const operation *o)
{
    double loss = 0;

    o->forward(t);
    for (size_t i = 0; i < o->outputs; i++)
        loss += t->d_y[i] * t->y[i];
    return loss;
}

static double difference(trial *t, const operation *o, real *x)
{
    const real middle = *x;
    double above, below;

    *x = middle + STEP;
    above = loss_of(t, o);
    *x = middle - STEP;
    below = loss_of(t, o);
    *x = middle;
    return (above - below) / (2 * STEP);
}

/* `start` is what was in d_x before the backward pass. */
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
        const double before = of->effect == ADDS ? start[i] : 0;
        const double found = t->d_x[which][i] - before;

        if (!(fabs(found - expected[i]) <= TOLERANCE * largest))
            fail_msg("%s: gradient %zu of %s is %.12g, differences say %.12g", o->name, i, of->name,
                     found, expected[i]);
    }
    kvsi_free(expected);
}

/* Gives the backward pass gradients to add to, or NaN where it must overwrite. */
static void start_gradients(trial *t, const operation *o, real **start)
{
    for (size_t k = 0; k < OPERANDS_MAX; k++) {
        const operand *of = &o->operands[k];

        start[k] = new_normal(of->count, &t->random);
        t->d_x[k] = new_normal(of->count, &t->random);
        for (size_t i = 0; i < of->count; i++)
            t->d_x[k][i] = of->effect == ADDS ? start[k][i] : NAN;
    }
}

/* The caller has set t->x (NULL = draw them), t->d_y (likewise) and the workspace. */
static void check_operation(trial *t, const operation *o)
{
    real *start[OPERANDS_MAX];

    for (size_t k = 0; k < OPERANDS_MAX; k++)
        t->x[k] = t->x[k] ? t->x[k] : new_normal(o->operands[k].count, &t->random);
    t->d_y = t->d_y ? t->d_y : new_normal(o->outputs, &t->random);
    t->y = new_normal(o->outputs, &t->random);
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
}

static trial new_trial(const kvsi_limits *limits, uint64_t seed)
{
    trial t = {.c = {.ops = op, .threads = 1}};

    t.c.workspace_bytes = op->workspace_bytes(limits, 1);
    t.c.workspace = kvsi_alloc(t.c.workspace_bytes, 1);
    assert_non_null(t.c.workspace);
    kvsi_random_init(&t.random, seed, KVSI_RANDOM_DATA, 0);
    return t;
}

/* ---- every operation but attention ---- */

enum { N = 5, DIM = 6, ROWS = 4, FFN = 3, VOCAB = 7, HEAD_ROWS = 3 };

static const int32_t ids[N] = {2, 0, 2, 6, 2};
static const int32_t head_rows[HEAD_ROWS] = {4, 0, 2}, head_targets[HEAD_ROWS] = {3, 6, 3};
static const double eps = 0.1; /* large enough to be seen */

static void embed_forward(trial *t)
{
    op->embed_forward(&t->c, t->y, t->x[0], ids, N, DIM);
}

static void embed_backward(trial *t)
{
    op->embed_backward(&t->c, t->d_x[0], t->d_y, ids, N, DIM);
}

static void norm_forward(trial *t)
{
    op->norm_forward(&t->c, t->y, t->x[0], t->x[1], N, DIM, eps);
}

static void norm_backward(trial *t)
{
    op->norm_backward(&t->c, t->d_x[0], t->d_x[1], t->d_y, t->x[0], t->x[1], N, DIM, eps);
}

static void linear_forward(trial *t)
{
    const kvsi_matrix w = {KVSI_ELEMENT_REAL, ROWS, DIM, t->x[1]};

    op->linear_forward(&t->c, t->y, t->x[0], &w, N, NULL);
}

static void linear_backward(trial *t)
{
    const kvsi_matrix w = {KVSI_ELEMENT_REAL, ROWS, DIM, t->x[1]};

    op->linear_backward_input(&t->c, t->d_x[0], t->d_y, &w, N);
    op->linear_backward_weight(&t->c, t->d_x[1], t->d_y, t->x[0], N, ROWS, DIM);
}

static void residual_forward(trial *t)
{
    const kvsi_matrix w = {KVSI_ELEMENT_REAL, ROWS, DIM, t->x[1]};

    op->linear_forward(&t->c, t->y, t->x[0], &w, N, t->x[2]);
}

static void residual_backward(trial *t)
{
    linear_backward(t);
    memcpy(t->d_x[2], t->d_y,
           N * ROWS * sizeof *t->d_y); /* by definition, so it has no operation */
}

static void swiglu_forward(trial *t)
{
    op->swiglu_forward(&t->c, t->y, t->x[0], N, FFN);
}

static void swiglu_backward(trial *t)
{
    op->swiglu_backward(&t->c, t->d_x[0], t->d_y, t->x[0], N, FFN);
}

static void call_head(trial *t, int with_gradients)
{
    const kvsi_matrix w = {KVSI_ELEMENT_REAL, VOCAB, DIM, t->x[1]};
    int32_t guesses[HEAD_ROWS];
    const kvsi_head head = {
        .x = t->x[0],
        .w = &w,
        .rows = head_rows,
        .targets = head_targets,
        .count = HEAD_ROWS,
        .row_loss = t->y,
        .row_guess = guesses,
        .n = N,
        .d_x = with_gradients ? t->d_x[0] : NULL,
        .d_w = with_gradients ? t->d_x[1] : NULL,
    };

    op->head_loss(&t->c, &head);
}

static void head_forward(trial *t)
{
    call_head(t, 0);
}

static void head_backward(trial *t)
{
    call_head(t, 1);
}

static const operation operations[] = {
    {"embed", N *DIM, {{"table", VOCAB *DIM, ADDS}}, embed_forward, embed_backward},
    {"norm", N *DIM, {{"x", N *DIM, ADDS}, {"gain", DIM, ADDS}}, norm_forward, norm_backward},
    {"linear",
     N *ROWS,
     {{"x", N *DIM, OVERWRITES}, {"w", ROWS *DIM, ADDS}},
     linear_forward,
     linear_backward},
    {"linear with residual",
     N *ROWS,
     {{"x", N *DIM, OVERWRITES}, {"w", ROWS *DIM, ADDS}, {"residual", N *ROWS, OVERWRITES}},
     residual_forward,
     residual_backward},
    {"swiglu", N *FFN, {{"gate_up", N * 2 * FFN, OVERWRITES}}, swiglu_forward, swiglu_backward},
};

static const operation head_loss = {
    "head_loss",  HEAD_ROWS,     {{"x", N *DIM, OVERWRITES}, {"w", VOCAB *DIM, ADDS}},
    head_forward, head_backward,
};

static const kvsi_limits small = {.tokens = N,
                                  .sequences = 1,
                                  .head_rows = HEAD_ROWS,
                                  .dim = DIM,
                                  .heads = 1,
                                  .kv_heads = 1,
                                  .head_size = DIM,
                                  .ffn = FFN,
                                  .vocab = VOCAB,
                                  .window = 1,
                                  .training = 1};

static void gradients_match_differences(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(operations); i++) {
        trial t = new_trial(&small, i);

        check_operation(&t, &operations[i]);
        kvsi_free(t.c.workspace);
    }
}

/* Its gradients are of the sum of the losses: what comes back is 1 for every row. */
static void head_gradients_match_differences(void **state)
{
    trial t = new_trial(&small, 100);

    (void)state;
    t.d_y = new_normal(HEAD_ROWS, &t.random);
    for (size_t r = 0; r < HEAD_ROWS; r++)
        t.d_y[r] = 1;
    check_operation(&t, &head_loss);
    kvsi_free(t.c.workspace);
}

/* ---- attention: every target, form and window ---- */

enum { HEADS = 4, KV_HEADS = 2, HEAD_SIZE = 4, TOKENS = 1 + 2 + 7, LONGEST = 7 };

static const kvsi_span ragged[] = {
    {.start = 0, .len = 1}, {.start = 1, .len = 2}, {.start = 3, .len = 7}};

typedef struct variant {
    unsigned targets;
    kvs_shift_form form;
    size_t window;
} variant;

static kvsi_attention attention_of(const trial *t, const variant *v, const real *rotations)
{
    const kvsi_shift shift = {.form = v->form, .window = v->window};
    kvsi_attention a = {.heads = HEADS,
                        .kv_heads = KV_HEADS,
                        .head_size = HEAD_SIZE,
                        .scale = 0.5,
                        .rotations = rotations,
                        .sequences = ARRAY_SIZE(ragged),
                        .spans = ragged,
                        .tokens = TOKENS};
    kvsi_shift *shifts[] = {&a.q_shift, &a.k_shift, &a.v_shift};
    const unsigned bits[] = {KVS_SHIFT_Q, KVS_SHIFT_K, KVS_SHIFT_V};

    for (size_t k = 0; k < 3; k++)
        if (v->targets & bits[k]) {
            *shifts[k] = shift;
            shifts[k]->parameters = t->x[k + 1];
        }
    return a;
}

/* x[0] is qkv, x[1..3] are the learned numbers of q, k, v. */
static void attention_forward(trial *t)
{
    real logsum[TOKENS * HEADS];

    op->attention_forward(&t->c, t->y, logsum, t->x[0], t->attention);
}

static void attention_backward(trial *t)
{
    kvsi_attention a = *t->attention;
    real logsum[TOKENS * HEADS];

    a.q_shift.gradient = t->d_x[1];
    a.k_shift.gradient = t->d_x[2];
    a.v_shift.gradient = t->d_x[3];
    op->attention_forward(&t->c, t->y, logsum, t->x[0], &a);
    op->attention_backward(&t->c, t->d_x[0], t->d_y, t->y, logsum, t->x[0], &a);
}

/* Clamped numbers lie inside and outside the range, far from its edges, where there is a kink. */
static void set_numbers(real *numbers, size_t n, kvs_shift_form form)
{
    static const double clamped[] = {0.3, -0.4, 1.3, 0.8, 0.6};

    for (size_t i = 0; form == KVS_SHIFT_CLAMP && i < n; i++)
        numbers[i] = clamped[i % ARRAY_SIZE(clamped)];
}

static void check_attention(const variant *v, const real *rotations, uint64_t seed)
{
    const kvsi_limits limits = {.tokens = TOKENS,
                                .sequences = ARRAY_SIZE(ragged),
                                .head_rows = 1,
                                .dim = HEADS * HEAD_SIZE,
                                .heads = HEADS,
                                .kv_heads = KV_HEADS,
                                .head_size = HEAD_SIZE,
                                .ffn = 1,
                                .vocab = 1,
                                .window = v->window,
                                .training = 1};
    const size_t numbers = kvsi_form_get(v->form)->numbers(v->window);
    const size_t q = v->targets & KVS_SHIFT_Q ? HEADS * numbers : 0;
    const size_t k = v->targets & KVS_SHIFT_K ? KV_HEADS * numbers : 0;
    const size_t value = v->targets & KVS_SHIFT_V ? KV_HEADS * numbers : 0;
    operation o = {.outputs = TOKENS * HEADS * HEAD_SIZE,
                   .operands = {{"qkv", TOKENS * (HEADS + 2 * KV_HEADS) * HEAD_SIZE, OVERWRITES},
                                {"q_shift", q, ADDS},
                                {"k_shift", k, ADDS},
                                {"v_shift", value, ADDS}},
                   .forward = attention_forward,
                   .backward = attention_backward};
    trial t = new_trial(&limits, seed);
    kvsi_attention a;

    snprintf(o.name, sizeof o.name, "attention, shift %s %s window %zu%s",
             kvs_shift_targets_name(v->targets), kvs_shift_form_name(v->form), v->window,
             rotations ? ", rotated" : "");
    for (size_t i = 0; i < OPERANDS_MAX; i++)
        t.x[i] = new_normal(o.operands[i].count, &t.random);
    for (size_t i = 1; i < OPERANDS_MAX; i++)
        set_numbers(t.x[i], o.operands[i].count, v->form);
    a = attention_of(&t, v, rotations);
    t.attention = &a;
    check_operation(&t, &o);
    kvsi_free(t.c.workspace);
}

static void attention_gradients_match_differences(void **state)
{
    static const unsigned targets[] = {KVS_SHIFT_K, KVS_SHIFT_V, KVS_SHIFT_K | KVS_SHIFT_V,
                                       KVS_SHIFT_Q | KVS_SHIFT_K | KVS_SHIFT_V};
    const variant none = {0};
    real rotations[LONGEST * HEAD_SIZE];

    (void)state;
    for (size_t t = 0; t < LONGEST; t++)
        for (size_t i = 0; i < HEAD_SIZE / 2; i++) {
            rotations[t * HEAD_SIZE + i] = cos((double)t / (double)(1 + 3 * i));
            rotations[t * HEAD_SIZE + HEAD_SIZE / 2 + i] = sin((double)t / (double)(1 + 3 * i));
        }
    check_attention(&none, NULL, 1);
    check_attention(&none, rotations, 2);
    for (size_t i = 0; i < ARRAY_SIZE(targets); i++)
        for (kvs_shift_form form = 0; kvsi_form_get(form); form++)
            for (size_t w = 1; w <= kvsi_form_get(form)->window_max; w++) {
                const variant v = {targets[i], form, w};

                check_attention(&v, NULL, 1000 * i + 100 * form + 10 * w);
                check_attention(&v, rotations, 1000 * i + 100 * form + 10 * w + 1);
            }
}

/* ---- values worked out by hand ---- */

static void expect_values(const char *what, const real *found, const double *expected, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabs(found[i] - expected[i]) <= 1e-14 * fmax(1, fabs(expected[i]))))
            fail_msg("%s: number %zu is %.17g, expected %.17g", what, i, found[i], expected[i]);
}

/* One head of size 2, three tokens.  Keys are 0, log 2, log 4 in their first number and queries are
 * (2, 0) with scale 1/2: row t weighs its keys 1 : 2 : 4.  Values: window 2, taps 100, 10, 1. */
static void shift_by_hand(void **state)
{
    const double two = log(2.0), four = log(4.0);
    const real qkv[] = {2, 0, 0,   0, 1, -1, /* q, k, v of token 0 */
                        2, 0, two, 9, 2, -2, 2, 0, four, 9, 3, -3};
    const real taps[] = {100, 10, 1};
    const double shifted[] = {1, -1, 12, -12, 123, -123};
    const double mixed[] = {1, -1, 25.0 / 3, -25.0 / 3, 517.0 / 7, -517.0 / 7};
    const double logsums[] = {0, log(3.0), log(7.0)};
    real k[6], v[6], tail[4] = {0}, out[6], logsum[3], workspace[100];
    const kvsi_span span = {.len = 3, .k = k, .v = v, .capacity = 3, .tail_v = tail};
    const kvsi_attention a = {.heads = 1,
                              .kv_heads = 1,
                              .head_size = 2,
                              .scale = 0.5,
                              .v_shift = {KVS_SHIFT_FREE, 2, taps, NULL},
                              .sequences = 1,
                              .spans = &span,
                              .tokens = 3};
    kvsi_context c = {op, 1, (unsigned char *)workspace, sizeof workspace};

    (void)state;
    op->attention_forward(&c, out, logsum, qkv, &a);
    expect_values("shifted values", v, shifted, 6);
    expect_values("output", out, mixed, 6);
    expect_values("logsum", logsum, logsums, 3);
    expect_values("kept raw rows", tail, (const double[]){2, -2, 3, -3}, 4);
}

/* The previous key takes the position of the current one: it is shifted first, rotated after.
 * Position t turns by t quarters: (x, y) -> (-y, x). */
static void rotation_follows_the_shift(void **state)
{
    const real qkv[] = {0, 0, 1, 2, 0, 0, 0, 0, 30, 40, 0, 0, 0, 0, 500, 600, 0, 0};
    const real taps[] = {-1, 2}, rotations[] = {1, 0, 0, 1, -1, 0};
    const double expected[] = {2, 4, -78, 59, -970, -1160};
    real k[6], v[6], tail[2] = {0}, out[6], logsum[3], workspace[100];
    const kvsi_span span = {.len = 3, .k = k, .v = v, .capacity = 3, .tail_k = tail};
    const kvsi_attention a = {.heads = 1,
                              .kv_heads = 1,
                              .head_size = 2,
                              .scale = 1,
                              .k_shift = {KVS_SHIFT_FREE, 1, taps, NULL},
                              .rotations = rotations,
                              .sequences = 1,
                              .spans = &span,
                              .tokens = 3};
    kvsi_context c = {op, 1, (unsigned char *)workspace, sizeof workspace};

    (void)state;
    op->attention_forward(&c, out, logsum, qkv, &a);
    expect_values("shifted keys", k, expected, 6);
}

static void forms_by_hand(void **state)
{
    const real gate = log(3.0), numbers[] = {-0.5, 0.25, 1.5};
    real taps[KVSI_TAPS_MAX];

    (void)state;
    kvsi_form_get(KVS_SHIFT_GATE)->taps(taps, &gate, 1);
    expect_values("gate", taps, (const double[]){0.25, 0.75}, 2);
    kvsi_form_get(KVS_SHIFT_CLAMP)->taps(taps, numbers, 2);
    expect_values("clamp", taps, (const double[]){0, 0.25, 1}, 3);
    kvsi_form_get(KVS_SHIFT_FREE)->taps(taps, numbers, 2);
    expect_values("free", taps, (const double[]){-0.5, 0.25, 1.5}, 3);
}

static void forward_by_hand(void **state)
{
    kvsi_context c = {.ops = op, .threads = 1};
    const real x[] = {3, 4}, gain[] = {8, -4}; /* mean of squares 12.5 */
    const real w[] = {1, 0, 0, 1, 1, 1}, gate_up[] = {log(3.0), 0, 8, 5};
    const kvsi_matrix matrix = {KVSI_ELEMENT_REAL, 3, 2, w};
    real y[3];

    (void)state;
    op->norm_forward(&c, y, x, gain, 1, 2, 3.5);
    expect_values("norm", y, (const double[]){6, -4}, 2);
    op->linear_forward(&c, y, x, &matrix, 1, NULL);
    expect_values("linear", y, (const double[]){3, 4, 7}, 3);
    op->linear_forward(&c, y, x, &matrix, 1, (const real[]){10, 20, 30});
    expect_values("linear with residual", y, (const double[]){13, 24, 37}, 3);
    op->swiglu_forward(&c, y, gate_up, 1, 2);
    expect_values("swiglu", y, (const double[]){6 * log(3.0), 0}, 2);
}

/* Logits log 1, log 2, log 5 for row 1; row 0 has none to say. */
static void head_by_hand(void **state)
{
    const real x[] = {7, 1}, w[] = {0, log(2.0), log(5.0)};
    const kvsi_matrix matrix = {KVSI_ELEMENT_REAL, 3, 1, w};
    const int32_t rows[] = {1, 1}, targets[] = {0, 2};
    real losses[2], logits[6], workspace[3];
    int32_t guesses[2];
    const kvsi_head head = {.x = x,
                            .w = &matrix,
                            .rows = rows,
                            .targets = targets,
                            .count = 2,
                            .row_loss = losses,
                            .row_guess = guesses,
                            .n = 2};
    kvsi_context c = {op, 1, (unsigned char *)workspace, sizeof workspace};

    (void)state;
    op->head_logits(&c, logits, x, &matrix, (const int32_t[]){1, 0}, 2);
    expect_values("logits", logits,
                  (const double[]){0, log(2.0), log(5.0), 0, 7 * log(2.0), 7 * log(5.0)}, 6);
    op->head_loss(&c, &head);
    expect_values("losses", losses, (const double[]){log(8.0), log(8.0 / 5)}, 2);
    assert_int_equal(guesses[0], 2);
    assert_int_equal(guesses[1], 2);
}

/* ---- the optimizer ---- */

/* The numbers come from PyTorch, in float64:
 *     p = torch.tensor([0.5, -1.25, 2.0, 0.0])
 *     optimizer = torch.optim.AdamW([p], lr=0.01, betas=(0.9, 0.95), eps=1e-3, weight_decay=0.1)
 *     for g in the three rows below: p.grad = 0.5 * g; optimizer.step()
 * then p, exp_avg, exp_avg_sq. */
static void adamw_matches_pytorch(void **state)
{
    static const real gradients[3][4] = {
        {0.3, -0.02, 4.0, 0.0}, {-0.1, 0.05, -2.0, 1e-3}, {0.7, 0.04, 0.5, -2e-3}};
    static const double weights[] = {0.47763950580681513, -1.2475363764862593, 1.9785421288043119,
                                     -0.00071222256906575089};
    static const double means[] = {0.042649999999999987, 0.003439999999999999, 0.096999999999999989,
                                   -5.4999999999999988e-05};
    static const double squares[] = {0.007259062500000006, 5.420000000000005e-05,
                                     0.23112500000000019, 6.1875000000000056e-08};
    const double scale = 0.5;
    real p[] = {0.5, -1.25, 2.0, 0.0}, m[4] = {0}, v[4] = {0};
    kvsi_context c = {.ops = op, .threads = 1};

    (void)state;
    for (int step = 1; step <= 3; step++) {
        const kvsi_adamw h = {.lr = 0.01,
                              .beta1 = 0.9,
                              .beta2 = 0.95,
                              .eps = 1e-3,
                              .decay = 0.1,
                              .correction1 = 1 - pow(0.9, step),
                              .correction2 = 1 - pow(0.95, step)};

        op->adamw(&c, p, gradients[step - 1], m, v, 4, &h, &scale);
    }
    expect_values("weights", p, weights, 4);
    expect_values("means", m, means, 4);
    expect_values("squares", v, squares, 4);
}

static void clipping(void **state)
{
    static const struct {
        double sum, mean, limit, expected;
    } cases[] = {
        {25, 1, 0, 1},         /* no limit */
        {25, 1, 6, 1},         /* norm 5 is below it */
        {25, 1, 5, 1},         /* at it */
        {25, 1, 1, 0.2},       /* above it */
        {25, 0.1, 1, 0.1},     /* the norm of the mean, 0.5, is below it */
        {25, 0.5, 0.25, 0.05}, /* and 2.5 is ten times too much */
        {0, 0.5, 1, 0.5},      /* no gradient at all */
    };
    kvsi_context c = {.ops = op, .threads = 1};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        double scale = NAN;

        op->clip_scale(&c, &scale, &cases[i].sum, cases[i].mean, cases[i].limit);
        if (!(fabs(scale - cases[i].expected) <= 1e-15))
            fail_msg("clip case %zu: scale is %.17g, expected %.17g", i, scale, cases[i].expected);
    }
}

static void squares_are_summed(void **state)
{
    const real g[] = {3, -4, 0.5};
    double sum = NAN;
    kvsi_context c = {.ops = op, .threads = 1};

    (void)state;
    op->sum_squares(&c, &sum, g, 3);
    assert_true(sum == 25.25);
    op->sum_squares(&c, &sum, g, 0);
    assert_true(sum == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_match_differences),
        cmocka_unit_test(head_gradients_match_differences),
        cmocka_unit_test(attention_gradients_match_differences),
        cmocka_unit_test(shift_by_hand),
        cmocka_unit_test(rotation_follows_the_shift),
        cmocka_unit_test(forms_by_hand),
        cmocka_unit_test(forward_by_hand),
        cmocka_unit_test(head_by_hand),
        cmocka_unit_test(adamw_matches_pytorch),
        cmocka_unit_test(clipping),
        cmocka_unit_test(squares_are_summed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
