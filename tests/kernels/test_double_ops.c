/* Every reference operation except attention, in double: gradients against differences, and values
 * computed by hand. */
#include "differences.h"

#include <math.h>
#include <string.h>

_Static_assert(sizeof(real) == sizeof(double), "these differences need KVSI_REAL=double");

#define ARRAY_SIZE(a) (sizeof(a) / sizeof *(a))

static const kvsi_ops *const op = &kvsi_reference_ops;

/* ---- gradients ---- */

enum { N = 5, DIM = 7, ROWS = 4, FFN = 3, VOCAB = 8, HEAD_ROWS = 3 };

static const int32_t ids[N] = {2, 0, 2, 6, 2};
static const int32_t head_rows[HEAD_ROWS] = {4, 0, 2}, head_targets[HEAD_ROWS] = {3, 6, 3};
static const double eps = 0.1; /* large enough to matter */
static const kvsi_dropout third = {.rate = 1.0 / 3, .seed = 5, .index = 6};

static void embed_forward(trial *t)
{
    const kvsi_matrix table = {.type = KVSI_REAL_TYPE, .rows = VOCAB, .cols = DIM, .data = t->x[0]};

    op->embed_forward(&t->c, t->y, &table, ids, N, 0);
}

static void embed_backward(trial *t)
{
    op->embed_backward(&t->c, t->d_x[0], t->d_y, ids, N, DIM);
}

static void norm_forward(trial *t)
{
    const kvsi_norm norm = {.gain = t->x[1], .eps = eps};

    op->norm_forward(&t->c, t->y, t->x[0], &norm, N, DIM);
}

static void norm_backward(trial *t)
{
    const kvsi_norm norm = {.gain = t->x[1], .eps = eps};

    op->norm_backward(&t->c, t->d_x[0], t->d_x[1], NULL, t->d_y, t->x[0], &norm, N, DIM);
}

static void offset_norm_forward(trial *t)
{
    const kvsi_norm norm = {.gain = t->x[1], .eps = eps, .gain_offset = 1};

    op->norm_forward(&t->c, t->y, t->x[0], &norm, N, DIM);
}

static void offset_norm_backward(trial *t)
{
    const kvsi_norm norm = {.gain = t->x[1], .eps = eps, .gain_offset = 1};

    op->norm_backward(&t->c, t->d_x[0], t->d_x[1], NULL, t->d_y, t->x[0], &norm, N, DIM);
}

static void layer_norm_forward(trial *t)
{
    const kvsi_norm norm = {t->x[1], t->x[2], eps, 0};

    op->norm_forward(&t->c, t->y, t->x[0], &norm, N, DIM);
}

static void layer_norm_backward(trial *t)
{
    const kvsi_norm norm = {t->x[1], t->x[2], eps, 0};

    op->norm_backward(&t->c, t->d_x[0], t->d_x[1], t->d_x[2], t->d_y, t->x[0], &norm, N, DIM);
}

static void linear_forward(trial *t)
{
    const kvsi_matrix w = {KVSI_REAL_TYPE, ROWS, DIM, t->x[1], NULL, 0, 0, NULL, NULL};

    op->linear_forward(&t->c, t->y, t->x[0], &w, N, NULL);
}

static void linear_backward(trial *t)
{
    const kvsi_matrix w = {KVSI_REAL_TYPE, ROWS, DIM, t->x[1], NULL, 0, 0, NULL, NULL};

    op->linear_backward_input(&t->c, t->d_x[0], t->d_y, &w, N, 0);
    op->linear_backward_weight(&t->c, t->d_x[1], t->d_y, t->x[0], N, ROWS, DIM);
}

static void residual_forward(trial *t)
{
    const kvsi_matrix w = {KVSI_REAL_TYPE, ROWS, DIM, t->x[1], t->x[2], 0, 0, NULL, NULL};

    op->linear_forward(&t->c, t->y, t->x[0], &w, N, t->x[3]);
}

static void residual_backward(trial *t)
{
    const kvsi_matrix w = {KVSI_REAL_TYPE, ROWS, DIM, t->x[1], t->x[2], 0, 0, NULL, NULL};

    op->linear_backward_input(&t->c, t->d_x[0], t->d_y, &w, N, 1);
    op->linear_backward_weight(&t->c, t->d_x[1], t->d_y, t->x[0], N, ROWS, DIM);
    op->linear_backward_bias(&t->c, t->d_x[2], t->d_y, N, ROWS);
    memcpy(t->d_x[3], t->d_y,
           N * ROWS * sizeof *t->d_y); /* by definition, so it has no operation */
}

#define ACTIVATION(name, f, is_gated)                                                              \
    static void name##_forward(trial *t)                                                           \
    {                                                                                              \
        op->activation_forward(&t->c, t->y, t->x[0],                                               \
                               &(kvsi_mlp){.function = (f), .gated = (is_gated), .width = FFN},    \
                               N);                                                                 \
    }                                                                                              \
    static void name##_backward(trial *t)                                                          \
    {                                                                                              \
        op->activation_backward(&t->c, t->d_x[0], t->d_y, t->x[0],                                 \
                                &(kvsi_mlp){.function = (f), .gated = (is_gated), .width = FFN},   \
                                N);                                                                \
    }
ACTIVATION(silu, KVSI_ACTIVATION_SILU, 0)
ACTIVATION(gelu, KVSI_ACTIVATION_GELU, 0)
ACTIVATION(gelu_tanh, KVSI_ACTIVATION_GELU_TANH, 0)
ACTIVATION(relu, KVSI_ACTIVATION_RELU, 0)
ACTIVATION(gated_silu, KVSI_ACTIVATION_SILU, 1)
ACTIVATION(gated_gelu, KVSI_ACTIVATION_GELU, 1)
ACTIVATION(gated_gelu_tanh, KVSI_ACTIVATION_GELU_TANH, 1)
ACTIVATION(gated_relu, KVSI_ACTIVATION_RELU, 1)

static void dropout_forward(trial *t)
{
    memcpy(t->y, t->x[0], N * DIM * sizeof *t->y);
    op->dropout(&t->c, t->y, N * DIM, &third);
}

static void dropout_backward(trial *t)
{
    memcpy(t->d_x[0], t->d_y, N * DIM * sizeof *t->d_y);
    op->dropout(&t->c, t->d_x[0], N * DIM, &third);
}

static void scale_forward(trial *t)
{
    memcpy(t->y, t->x[0], N * DIM * sizeof *t->y);
    op->scale(&t->c, t->y, 0.75, N * DIM);
}

static void scale_backward(trial *t)
{
    memcpy(t->d_x[0], t->d_y, N * DIM * sizeof *t->d_y);
    op->scale(&t->c, t->d_x[0], 0.75, N * DIM);
}

/* Filters of sequences of 1, 0, 3 and 1 rows; x[1] has the parameters, x[2] the factor. */
enum { FILTER_WINDOW = 2 };

static const kvsi_span filtered[] = {
    {.start = 0, .len = 1}, {.start = 1, .len = 0}, {.start = 1, .len = 3}, {.start = 4, .len = 1}};

static kvsi_filter filter_of(const trial *t, int with_factor)
{
    return (kvsi_filter){.width = DIM,
                         .window = FILTER_WINDOW,
                         .parameters = t->x[1],
                         .factor = with_factor ? t->x[2] : NULL,
                         .gradient = t->d_x[1],
                         .d_factor = with_factor ? t->d_x[2] : NULL,
                         .tail = KVSI_TAIL_MLP,
                         .sequences = ARRAY_SIZE(filtered),
                         .spans = filtered};
}

#define FILTER(name, with_factor)                                                                  \
    static void name##_forward(trial *t)                                                           \
    {                                                                                              \
        const kvsi_filter f = filter_of(t, with_factor);                                           \
                                                                                                   \
        op->filter_forward(&t->c, t->y, t->x[0], &f, N);                                           \
    }                                                                                              \
    static void name##_backward(trial *t)                                                          \
    {                                                                                              \
        const kvsi_filter f = filter_of(t, with_factor);                                           \
                                                                                                   \
        op->filter_backward(&t->c, t->d_x[0], t->d_y, t->x[0], &f, N);                             \
    }
FILTER(filter, 0)
FILTER(factor, 1)

static void unit_rows_forward(trial *t)
{
    op->unit_rows_forward(&t->c, t->y, t->x[0], ROWS, DIM);
}

static void unit_rows_backward(trial *t)
{
    op->unit_rows_backward(&t->c, t->d_x[0], t->d_y, t->x[0], ROWS, DIM);
}

static const operation operations[] = {
    {"embed", N *DIM, {{"table", VOCAB *DIM, ADDS}}, embed_forward, embed_backward},
    {"norm", N *DIM, {{"x", N *DIM, ADDS}, {"gain", DIM, ADDS}}, norm_forward, norm_backward},
    {"norm with offset",
     N *DIM,
     {{"x", N *DIM, ADDS}, {"gain", DIM, ADDS}},
     offset_norm_forward,
     offset_norm_backward},
    {"layer norm",
     N *DIM,
     {{"x", N *DIM, ADDS}, {"gain", DIM, ADDS}, {"bias", DIM, ADDS}},
     layer_norm_forward,
     layer_norm_backward},
    {"linear",
     N *ROWS,
     {{"x", N *DIM, OVERWRITES}, {"w", ROWS *DIM, ADDS}},
     linear_forward,
     linear_backward},
    {"linear with bias and residual",
     N *ROWS,
     {{"x", N *DIM, ADDS},
      {"w", ROWS *DIM, ADDS},
      {"bias", ROWS, ADDS},
      {"residual", N *ROWS, OVERWRITES}},
     residual_forward,
     residual_backward},
#define PLAIN(name)                                                                                \
    {                                                                                              \
#name, N *FFN, {{"x", N *FFN, OVERWRITES } }, name##_forward, name##_backward              \
    }
#define GATED(name)                                                                                \
    {                                                                                              \
#name, N *FFN, {{"gate_up", N * 2 * FFN, OVERWRITES } }, name##_forward, name##_backward   \
    }
    PLAIN(silu),
    PLAIN(gelu),
    PLAIN(gelu_tanh),
    PLAIN(relu),
    GATED(gated_silu),
    GATED(gated_gelu),
    GATED(gated_gelu_tanh),
    GATED(gated_relu),
    {"dropout", N *DIM, {{"x", N *DIM, OVERWRITES}}, dropout_forward, dropout_backward},
    {"scale", N *DIM, {{"x", N *DIM, OVERWRITES}}, scale_forward, scale_backward},
    {"filter",
     N *DIM,
     {{"x", N *DIM, OVERWRITES}, {"taps", DIM *(FILTER_WINDOW + 1), ADDS}},
     filter_forward,
     filter_backward},
    {"filter with a factor",
     N *DIM,
     {{"x", N *DIM, OVERWRITES}, {"taps", DIM *(FILTER_WINDOW + 1), ADDS}, {"factor", 1, ADDS}},
     factor_forward,
     factor_backward},
    {"unit_rows", ROWS *DIM, {{"x", ROWS *DIM, ADDS}}, unit_rows_forward, unit_rows_backward},
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
                                  .training = 1};

static void gradients_match_differences(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(operations); i++) {
        trial t = differences_start(&small, i);

        differences_check(&t, &operations[i]);
    }
}

/* ---- gradients of the head ---- */

typedef struct head_kind {
    int with_matrix;
    double cap;
} head_kind;

/* t->asked: the kind of head. */
static void call_head(trial *t, int with_gradients)
{
    const head_kind *kind = t->asked;
    const int *with_matrix = &kind->with_matrix;
    const kvsi_matrix w = {KVSI_REAL_TYPE,
                           *with_matrix ? VOCAB : DIM,
                           DIM,
                           *with_matrix ? t->x[1] : NULL,
                           NULL,
                           0,
                           0,
                           NULL,
                           NULL};
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
        .d_w = with_gradients && *with_matrix ? t->d_x[1] : NULL,
        .cap = kind->cap,
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

/* The gradients are of the sum of the losses: d_y is 1 for every row. */
static void head_gradients_match_differences(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        const head_kind kind = {i % 2, i / 2 * 1.5};
        const operation o = {
            "head_loss",
            HEAD_ROWS,
            {{"x", N * DIM, OVERWRITES}, {"w", kind.with_matrix ? VOCAB * DIM : 0, ADDS}},
            head_forward,
            head_backward,
        };
        trial t = differences_start(&small, 100);

        t.asked = &kind;
        t.d_y = differences_normal(&t, HEAD_ROWS);
        for (size_t r = 0; r < HEAD_ROWS; r++)
            t.d_y[r] = 1;
        differences_check(&t, &o);
    }
}

/* ---- values worked out by hand ---- */

static void norms_by_hand(void **state)
{
    const real x[] = {3, 4}, y[] = {1, 3}; /* mean of squares 12.5; mean 2, variance 1 */
    const real gain[] = {8, -4}, bias[] = {1, 2};
    kvsi_context c = {.ops = op, .threads = 1};
    real out[2];

    (void)state;
    op->norm_forward(&c, out, x, &(kvsi_norm){gain, NULL, 3.5, 0}, 1, 2);
    differences_expect("norm", out, (const double[]){6, -4}, 2);
    op->norm_forward(&c, out, x, &(kvsi_norm){gain, NULL, 3.5, 1}, 1, 2);
    differences_expect("norm with offset", out, (const double[]){6.75, -3}, 2);
    op->norm_forward(&c, out, y, &(kvsi_norm){gain, bias, 3, 0}, 1, 2);
    differences_expect("layer norm", out, (const double[]){-3, 0}, 2);
}

/* Taps 0.5 and 1 + 1 in the first channel, -1 and 1 - 1 in the second; a row (10, 20) was before
 * the first sequence of rows, and nothing before the second. */
static void filter_by_hand(void **state)
{
    const real x[] = {1, 2, 3, 4, 5, 6}, parameters[] = {0.5, 1, -1, -1}, factor = 3;
    real tail[] = {10, 20}, y[6];
    const kvsi_span spans[] = {{.start = 0, .len = 2, .past = 1, .tails[KVSI_TAIL_MLP] = tail},
                               {.start = 2, .len = 1}};
    const kvsi_filter f = {.width = 2,
                           .window = 1,
                           .parameters = parameters,
                           .factor = &factor,
                           .tail = KVSI_TAIL_MLP,
                           .sequences = 2,
                           .spans = spans};
    kvsi_context c = {.ops = op, .threads = 1};

    (void)state;
    op->filter_forward(&c, y, x, &f, 3);
    differences_expect("filtered", y, (const double[]){21, -60, 19.5, -6, 30, 0}, 6);
    differences_expect("kept row", tail, (const double[]){3, 4}, 2);
}

static void linear_by_hand(void **state)
{
    const real x[] = {3, 4}, w[] = {1, 0, 0, 1, 1, 1}, bias[] = {0.5, 0.25, -7};
    const kvsi_matrix plain = {KVSI_REAL_TYPE, 3, 2, w, NULL, 0, 0, NULL, NULL};
    const kvsi_matrix biased = {KVSI_REAL_TYPE, 3, 2, w, bias, 0, 0, NULL, NULL};
    const real residual[] = {10, 20, 30};
    kvsi_context c = {.ops = op, .threads = 1};
    real y[3];

    (void)state;
    op->linear_forward(&c, y, x, &plain, 1, NULL);
    differences_expect("linear", y, (const double[]){3, 4, 7}, 3);
    op->linear_forward(&c, y, x, &plain, 1, residual);
    differences_expect("linear with residual", y, (const double[]){13, 24, 37}, 3);
    op->linear_forward(&c, y, x, &biased, 1, NULL);
    differences_expect("linear with bias", y, (const double[]){3.5, 4.25, 0}, 3);
}

/* GELU's values are x Phi(x), and 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))). */
static void activations_by_hand(void **state)
{
    const real gate_up[] = {log(3.0), 0, 8, 5}, x[] = {1, -2, 0};
    kvsi_context c = {.ops = op, .threads = 1};
    real y[3];

    (void)state;
    op->activation_forward(&c, y, gate_up, &(kvsi_mlp){KVSI_ACTIVATION_SILU, 1, 2}, 1);
    differences_expect("swiglu", y, (const double[]){6 * log(3.0), 0}, 2);
    op->activation_forward(&c, y, x, &(kvsi_mlp){KVSI_ACTIVATION_GELU, 0, 3}, 1);
    differences_expect("gelu", y, (const double[]){0.8413447460685429, -0.04550026389635842, 0}, 3);
    op->activation_forward(&c, y, x, &(kvsi_mlp){KVSI_ACTIVATION_GELU_TANH, 0, 3}, 1);
    differences_expect("tanh gelu", y,
                       (const double[]){0.8411919906082768, -0.04540230591222494, 0}, 3);
    op->activation_forward(&c, y, x, &(kvsi_mlp){KVSI_ACTIVATION_RELU, 0, 3}, 1);
    differences_expect("relu", y, (const double[]){1, 0, 0}, 3);
}

static void rows_by_hand(void **state)
{
    const real x[] = {3, -4, 0, 0}, d_y[] = {10, 5, 1, 1}, table[] = {1, 2, 10, 20};
    const int32_t second[] = {1, 0};
    kvsi_context c = {.ops = op, .threads = 1};
    const kvsi_matrix matrix = {.type = KVSI_REAL_TYPE, .rows = 2, .cols = 2, .data = table};
    real y[4] = {NAN, NAN, NAN, NAN}, d_x[] = {100, 100, 7, 7};

    (void)state;
    op->unit_rows_forward(&c, y, x, 2, 2);
    differences_expect("unit rows", y, (const double[]){0.6, -0.8, 0, 0}, 4);
    op->unit_rows_backward(&c, d_x, d_y, x, 2, 2); /* (10, 5) - 2 * (0.6, -0.8), divided by 5 */
    differences_expect("their gradient", d_x, (const double[]){101.76, 101.32, 7, 7}, 4);
    op->add(&c, y, d_y, 4);
    differences_expect("sum", y, (const double[]){10.6, 4.2, 1, 1}, 4);
    op->embed_forward(&c, y, &matrix, second, 2, 0);
    differences_expect("embed", y, (const double[]){10, 20, 1, 2}, 4);
    op->embed_forward(&c, y, &matrix, (const int32_t[]){0, 0}, 2, 1);
    differences_expect("embed, added", y, (const double[]){11, 22, 2, 4}, 4);
}

/* Element e is kept iff word e % 4 of block e / 4 is not below rate * 2^32. */
static void dropout_by_hand(void **state)
{
    enum { COUNT = 1003 };
    const kvsi_dropout d = {.rate = 0.25, .seed = UINT64_C(0x123456789a), .index = 7};
    kvsi_context c = {.ops = op, .threads = 1};
    real x[COUNT];
    size_t kept = 0;

    (void)state;
    for (size_t e = 0; e < COUNT; e++)
        x[e] = (real)(e + 1);
    op->dropout(&c, x, COUNT, &d);
    for (size_t e = 0; e < COUNT; e++) {
        uint32_t words[4];
        double expected;

        kvsi_random_words(words, d.seed, 4, d.index, (uint32_t)e / 4);
        expected = words[e % 4] >= UINT32_C(0x40000000) ? (double)(e + 1) / 0.75 : 0;
        differences_expect("what dropout leaves", &x[e], &expected, 1);
        kept += x[e] != 0;
    }
    assert_true(kept > 690 && kept < 810); /* 752 expected, deviation 14 */
}

/* Logits log 1, log 2, log 5 for row 1; row 0 has no target. */
static void head_by_hand(void **state)
{
    const real x[] = {7, 1}, w[] = {0, log(2.0), log(5.0)};
    const kvsi_matrix matrix = {KVSI_REAL_TYPE, 3, 1, w, NULL, 0, 0, NULL, NULL};
    const kvsi_matrix none = {KVSI_REAL_TYPE, 3, 3, NULL, NULL, 0, 0, NULL, NULL};
    const int32_t rows[] = {1, 1}, targets[] = {0, 2};
    real losses[2], logits[6], workspace[3], best_logprobs[4];
    int32_t guesses[2], best_ids[4];
    const kvsi_head_top best = {.x = x,
                                .w = &matrix,
                                .rows = rows,
                                .count = 2,
                                .n = 2,
                                .top = 2,
                                .ids = best_ids,
                                .logprobs = best_logprobs};
    kvsi_head head = {.x = x,
                      .w = &matrix,
                      .rows = rows,
                      .targets = targets,
                      .count = 2,
                      .row_loss = losses,
                      .row_guess = guesses,
                      .n = 2};
    kvsi_context c = {.ops = op,
                      .threads = 1,
                      .workspace = (unsigned char *)workspace,
                      .workspace_bytes = sizeof workspace};

    (void)state;
    op->head_logits(&c, logits, x, &matrix, (const int32_t[]){1, 0}, 2, 0);
    differences_expect("logits", logits,
                       (const double[]){0, log(2.0), log(5.0), 0, 7 * log(2.0), 7 * log(5.0)}, 6);
    op->head_loss(&c, &head);
    differences_expect("losses", losses, (const double[]){log(8.0), log(8.0 / 5)}, 2);
    assert_int_equal(guesses[0], 2);
    assert_int_equal(guesses[1], 2);
    op->head_top(&c, &best);
    differences_expect("the best", best_logprobs,
                       (const double[]){log(5.0 / 8), log(2.0 / 8), log(5.0 / 8), log(2.0 / 8)}, 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(best_ids[i], 2 - i % 2);

    op->head_logits(&c, logits, w, &none, (const int32_t[]){0, 0}, 2, 0);
    differences_expect("logits without a matrix", logits,
                       (const double[]){0, log(2.0), log(5.0), 0, log(2.0), log(5.0)}, 6);
    head = (kvsi_head){w, &none, (const int32_t[]){0}, targets, 1, losses, guesses, 1, NULL, NULL,
                       0, 0};
    op->head_loss(&c, &head);
    differences_expect("loss without a matrix", losses, (const double[]){log(8.0)}, 1);
}

/* Logits of 0 and 2 atanh(1/2), which a cap of 2 makes 1. */
static void capped_head_by_hand(void **state)
{
    const real x[] = {1}, w[] = {0, log(3.0)};
    const kvsi_matrix matrix = {KVSI_REAL_TYPE, 2, 1, w, NULL, 0, 0, NULL, NULL};
    const int32_t row = 0, target = 1;
    real loss, logits[2], workspace[2], logprobs[2];
    int32_t guess, best_ids[2];
    const kvsi_head head = {.x = x,
                            .w = &matrix,
                            .rows = &row,
                            .targets = &target,
                            .count = 1,
                            .row_loss = &loss,
                            .row_guess = &guess,
                            .n = 1,
                            .cap = 2};
    const kvsi_head_top best = {.x = x,
                                .w = &matrix,
                                .rows = &row,
                                .count = 1,
                                .n = 1,
                                .top = 2,
                                .ids = best_ids,
                                .logprobs = logprobs,
                                .cap = 2};
    kvsi_context c = {.ops = op,
                      .threads = 1,
                      .workspace = (unsigned char *)workspace,
                      .workspace_bytes = sizeof workspace};
    const double sum = log(1 + exp(1.0));

    (void)state;
    op->head_logits(&c, logits, x, &matrix, &row, 1, 2);
    differences_expect("capped logits", logits, (const double[]){0, 1}, 2);
    op->head_loss(&c, &head);
    differences_expect("their loss", &loss, (const double[]){sum - 1}, 1);
    op->head_top(&c, &best);
    differences_expect("the best of them", logprobs, (const double[]){1 - sum, -sum}, 2);
}

/* ---- the optimizer ---- */

/* The values come from PyTorch, in float64:
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
    differences_expect("weights", p, weights, 4);
    differences_expect("means", m, means, 4);
    differences_expect("squares", v, squares, 4);
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
        {25, 0.5, 0.25, 0.05}, /* 2.5 is ten times the limit */
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
        cmocka_unit_test(norms_by_hand),
        cmocka_unit_test(filter_by_hand),
        cmocka_unit_test(linear_by_hand),
        cmocka_unit_test(activations_by_hand),
        cmocka_unit_test(rows_by_hand),
        cmocka_unit_test(dropout_by_hand),
        cmocka_unit_test(head_by_hand),
        cmocka_unit_test(capped_head_by_hand),
        cmocka_unit_test(adamw_matches_pytorch),
        cmocka_unit_test(clipping),
        cmocka_unit_test(squares_are_summed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
