/* The reference attention in double: gradients against differences for every target, form and
 * window of the shift and everything else that changes scores; and values computed by hand. */
#include "differences.h"
#include "kernels/forms.h"

#include <math.h>
#include <stdio.h>

_Static_assert(sizeof(real) == sizeof(double), "these differences need KVSI_REAL=double");

#define ARRAY_SIZE(a) (sizeof(a) / sizeof *(a))

static const kvsi_ops *const op = &kvsi_reference_ops;

/* ---- gradients ---- */

enum { HEADS = 4, KV_HEADS = 2, HEAD_SIZE = 4, TOKENS = 1 + 2 + 7, LONGEST = 7 };

static const kvsi_span ragged[] = {
    {.start = 0, .len = 1}, {.start = 1, .len = 2}, {.start = 3, .len = 7}};

typedef struct shifting {
    unsigned targets;
    kvsi_shift_form form;
    size_t window;
} shifting;

/* Attention's settings besides the shift. */
typedef struct setting {
    const char *name;
    size_t rotary;
    int sloped;
    kvsi_qk_norm norm;
    double gain_offset;
    size_t sliding_window;
    double dropout, cap;
    size_t relative, extent; /* relative positions */
    int grows;               /* scores have factors */
} setting;

static const setting settings[] = {
    {.name = "plain"},
    {.name = "rotated", .rotary = HEAD_SIZE},
    {.name = "half rotated", .rotary = HEAD_SIZE / 2},
    {.name = "sloped", .sloped = 1},
    {.name = "normed", .norm = KVSI_QK_NORM_HEAD},
    {.name = "normed together", .norm = KVSI_QK_NORM_FULL},
    {.name = "normed together, rotated, gains of 1 + w",
     .norm = KVSI_QK_NORM_FULL,
     .rotary = HEAD_SIZE,
     .gain_offset = 1},
    {.name = "LayerNorm", .norm = KVSI_QK_NORM_LAYER},
    {.name = "LayerNorm, half rotated, gains of 1 + w",
     .norm = KVSI_QK_NORM_LAYER,
     .rotary = HEAD_SIZE / 2,
     .gain_offset = 1},
    {.name = "capped", .cap = 3},
    {.name = "capped, sloped, normed, window of 2, dropout",
     .cap = 3,
     .sloped = 1,
     .norm = KVSI_QK_NORM_HEAD,
     .gain_offset = 1,
     .sliding_window = 2,
     .dropout = 0.4},
    {.name = "normed, rotated, window of 2, dropout",
     .norm = KVSI_QK_NORM_HEAD,
     .rotary = HEAD_SIZE,
     .sliding_window = 2,
     .dropout = 0.4},
    {.name = "relative", .relative = 3, .extent = 5},
    {.name = "relative of more distances than tokens", .relative = 2, .extent = 20},
    {.name = "growing", .grows = 1},
    {.name = "growing, rotated, normed together",
     .grows = 1,
     .rotary = HEAD_SIZE,
     .norm = KVSI_QK_NORM_FULL},
    {.name = "relative, growing, normed, capped, window of 4, dropout",
     .relative = 3,
     .extent = 3,
     .grows = 1,
     .norm = KVSI_QK_NORM_HEAD,
     .cap = 3,
     .sliding_window = 4,
     .dropout = 0.4},
    {.name = "window of 2", .sliding_window = 2},
    {.name = "window of 100", .sliding_window = 100},
    {.name = "dropout", .dropout = 0.4},
    {.name = "half rotated, sloped, window of 2, dropout",
     .rotary = HEAD_SIZE / 2,
     .sloped = 1,
     .sliding_window = 2,
     .dropout = 0.4},
};

static const unsigned bits[] = {KVS_SHIFT_Q, KVS_SHIFT_K, KVS_SHIFT_V};
static const size_t heads_of[] = {HEADS, KV_HEADS, KV_HEADS};

static size_t shifted_heads(const shifting *s)
{
    size_t heads = 0;

    for (size_t k = 0; k < 3; k++)
        heads += s->targets & bits[k] ? heads_of[k] : 0;
    return heads;
}

/* x[0] is qkv, x[1..3] are the shift parameters of q, k, v, and x[4] the gates of all three, with
 * the columns of one target after those of the other. */
static void set_shifts(kvsi_attention *a, const trial *t, const shifting *s)
{
    kvsi_shift *shifts[] = {&a->q_shift, &a->k_shift, &a->v_shift};
    size_t column = 0;

    for (size_t k = 0; k < 3; k++)
        if (s->targets & bits[k]) {
            *shifts[k] = (kvsi_shift){.form = s->form,
                                      .window = s->window,
                                      .parameters = t->x[k + 1],
                                      .gradient = t->d_x[k + 1],
                                      .gates = t->x[4] + column,
                                      .d_gates = t->d_x[4] + column,
                                      .gate_stride = shifted_heads(s)};
            column += heads_of[k];
        }
}

typedef struct question {
    const shifting *shifting;
    kvsi_attention attention; /* without the shifts and gains */
} question;

/* The shifts point into the trial's memory, which exists only now. */
static kvsi_attention attention_of(const trial *t)
{
    const question *asked = t->asked;
    kvsi_attention a = asked->attention;

    set_shifts(&a, t, asked->shifting);
    if (a.qk_norm != KVSI_QK_NORM_NONE) {
        a.q_gain = t->x[5];
        a.d_q_gain = t->d_x[5];
        a.k_gain = t->x[6];
        a.d_k_gain = t->d_x[6];
    }
    a.relative.rows = t->x[7];
    a.relative.d_rows = t->d_x[7];
    a.relative.table = t->x[8];
    a.relative.d_table = t->d_x[8];
    return a;
}

static void attention_forward(trial *t)
{
    const kvsi_attention a = attention_of(t);
    real logsum[TOKENS * HEADS];

    op->attention_forward(&t->c, t->y, logsum, t->x[0], &a);
}

static void attention_backward(trial *t)
{
    const kvsi_attention a = attention_of(t);
    real logsum[TOKENS * HEADS];

    op->attention_forward(&t->c, t->y, logsum, t->x[0], &a);
    op->attention_backward(&t->c, t->d_x[0], t->d_y, t->y, logsum, t->x[0], &a);
}

static question ask(const shifting *s, const setting *with, real *rotations)
{
    static const real slopes[HEADS] = {0.5, 0.25, 1, -0.125};
    static const real growth[LONGEST] = {1, 1, 0.7, 1.2, 1.5, -0.3, 2};
    const size_t half = with->rotary / 2;

    for (size_t t = 0; t < LONGEST; t++)
        for (size_t i = 0; i < half; i++) {
            rotations[t * with->rotary + i] = cos((double)t / (double)(1 + 3 * i));
            rotations[t * with->rotary + half + i] = sin((double)t / (double)(1 + 3 * i));
        }
    return (question){s,
                      {.heads = HEADS,
                       .kv_heads = KV_HEADS,
                       .head_size = HEAD_SIZE,
                       .scale = 0.5,
                       .score_cap = with->cap,
                       .qk_norm = with->norm,
                       .gain_offset = with->gain_offset,
                       .rotary = with->rotary,
                       .rotations = with->rotary > 0 ? rotations : NULL,
                       .slopes = with->sloped ? slopes : NULL,
                       .relative = {.size = with->relative, .extent = with->extent},
                       .growth = with->grows ? growth : NULL,
                       .sliding_window = with->sliding_window,
                       .dropout = {.rate = with->dropout, .seed = 3, .index = 4},
                       .sequences = ARRAY_SIZE(ragged),
                       .spans = ragged,
                       .norm_eps = 0.01,
                       .tokens = TOKENS}};
}

/* Clamped parameters inside and outside the range, far from its edges, where the slope jumps. */
static void set_clamped(real *numbers, size_t n)
{
    static const double clamped[] = {0.3, -0.4, 1.3, 0.8, 0.6};

    for (size_t i = 0; i < n; i++)
        numbers[i] = clamped[i % ARRAY_SIZE(clamped)];
}

static size_t gains_of(kvsi_qk_norm norm, size_t heads)
{
    return norm == KVSI_QK_NORM_NONE   ? 0
           : norm == KVSI_QK_NORM_HEAD ? HEAD_SIZE
                                       : heads * HEAD_SIZE;
}

static void check_attention(const shifting *s, const setting *with, uint64_t seed)
{
    const kvsi_form *form = kvsi_form_get(s->form);
    const size_t numbers = form->params(s->window, HEAD_SIZE);
    const kvsi_limits limits = {.tokens = TOKENS,
                                .sequences = ARRAY_SIZE(ragged),
                                .head_rows = 1,
                                .dim = HEADS * HEAD_SIZE,
                                .heads = HEADS,
                                .kv_heads = KV_HEADS,
                                .head_size = HEAD_SIZE,
                                .ffn = 1,
                                .vocab = 1,
                                .shift_params = numbers,
                                .qk_norm = with->norm,
                                .relative_size = with->relative,
                                .training = 1};
    operation o = {.outputs = TOKENS * HEADS * HEAD_SIZE,
                   .operands = {{"qkv", TOKENS * (HEADS + 2 * KV_HEADS) * HEAD_SIZE, OVERWRITES},
                                {"q_shift", 0, ADDS},
                                {"k_shift", 0, ADDS},
                                {"v_shift", 0, ADDS},
                                {"gates", 0, OVERWRITES},
                                {"q_gain", gains_of(with->norm, HEADS), ADDS},
                                {"k_gain", gains_of(with->norm, KV_HEADS), ADDS},
                                {"r", TOKENS * HEADS * with->relative, OVERWRITES},
                                {"table", with->relative * with->extent, ADDS}},
                   .forward = attention_forward,
                   .backward = attention_backward};
    trial t = differences_start(&limits, seed);
    real rotations[LONGEST * HEAD_SIZE];
    const question asked = ask(s, with, rotations);

    snprintf(o.name, sizeof o.name, "attention, shift %s %s window %zu, %s",
             kvsi_shift_targets_name(s->targets), kvsi_shift_form_name(s->form), s->window,
             with->name);
    if (form->gated)
        o.operands[4].count = TOKENS * shifted_heads(s);
    for (size_t k = 0; k < 3; k++) {
        const size_t n = s->targets & bits[k] ? heads_of[k] * numbers : 0;

        o.operands[k + 1].count = n;
        t.x[k + 1] = differences_normal(&t, n);
        if (s->form == KVSI_SHIFT_CLAMP)
            set_clamped(t.x[k + 1], n);
    }
    t.asked = &asked;
    differences_check(&t, &o);
}

static void check_settings(const shifting *s, uint64_t seed)
{
    for (size_t i = 0; i < ARRAY_SIZE(settings); i++)
        check_attention(s, &settings[i], seed + i);
}

static void attention_gradients_match_differences(void **state)
{
    static const unsigned targets[] = {KVS_SHIFT_K, KVS_SHIFT_V, KVS_SHIFT_K | KVS_SHIFT_V,
                                       KVS_SHIFT_Q | KVS_SHIFT_K | KVS_SHIFT_V};

    (void)state;
    check_settings(&(shifting){0}, 0);
    for (size_t i = 0; i < ARRAY_SIZE(targets); i++)
        for (kvsi_shift_form form = 0; kvsi_form_get(form); form++)
            for (size_t w = 1; w <= kvsi_form_get(form)->window_max; w++)
                check_settings(&(shifting){targets[i], form, w}, 1000 * i + 100 * form + 10 * w);
}

/* ---- values worked out by hand: shifts ---- */

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
    const kvsi_span span = {.len = 3, .k = k, .v = v, .capacity = 3, .tails[KVSI_TAIL_V] = tail};
    const kvsi_attention a = {.heads = 1,
                              .kv_heads = 1,
                              .head_size = 2,
                              .scale = 0.5,
                              .v_shift = {KVSI_SHIFT_FREE, 2, .parameters = taps},
                              .sequences = 1,
                              .spans = &span,
                              .tokens = 3};
    kvsi_context c = {.ops = op,
                      .threads = 1,
                      .workspace = (unsigned char *)workspace,
                      .workspace_bytes = sizeof workspace};

    (void)state;
    op->attention_forward(&c, out, logsum, qkv, &a);
    differences_expect("shifted values", v, shifted, 6);
    differences_expect("output", out, mixed, 6);
    differences_expect("logsum", logsum, logsums, 3);
    differences_expect("kept raw rows", tail, (const double[]){2, -2, 3, -3}, 4);
}

/* Two heads of size 2, three tokens; queries and keys are 0, the values are shifted. */
static void expect_shifted(const char *what, const kvsi_shift *shift, const double *expected)
{
    static const real qkv[] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 10, 20, /* one token per line */
                               0, 0, 0, 0, 0, 0, 0, 0, 3, 4, 30, 40, /* */
                               0, 0, 0, 0, 0, 0, 0, 0, 5, 6, 50, 60};
    real k[12], v[12], tail[4] = {0}, out[12], logsum[6], workspace[100];
    const kvsi_span span = {.len = 3, .k = k, .v = v, .capacity = 3, .tails[KVSI_TAIL_V] = tail};
    const kvsi_attention a = {.heads = 2,
                              .kv_heads = 2,
                              .head_size = 2,
                              .scale = 1,
                              .v_shift = *shift,
                              .sequences = 1,
                              .spans = &span,
                              .tokens = 3};
    kvsi_context c = {.ops = op,
                      .threads = 1,
                      .workspace = (unsigned char *)workspace,
                      .workspace_bytes = sizeof workspace};

    op->attention_forward(&c, out, logsum, qkv, &a);
    differences_expect(what, v, expected, 12);
    differences_expect("kept raw rows", tail, (const double[]){5, 6, 50, 60}, 4);
}

/* The expected values have one head per line, token by token. */
static void channel_hard_and_data_by_hand(void **state)
{
    /* two taps per channel, the older first */
    const real numbers[] = {10, 1, 100, 2, -1, 1, 0, 3};
    /* a = 3/4, 1/2, 3/4 in head 0, 1/2, 1/4, 3/4 in head 1; other values are in between */
    const real l = log(3.0), gates[] = {99, l, 0, 99, 0, -l, 99, l, l};
    const kvsi_shift channel = {KVSI_SHIFT_CHANNEL, 1, .parameters = numbers};
    const kvsi_shift hard = {KVSI_SHIFT_HARD, 1, .parameters = NULL};
    const kvsi_shift data = {KVSI_SHIFT_DATA, 1, .gates = gates + 1, .gate_stride = 3};

    (void)state;
    expect_shifted("channel", &channel,
                   (const double[]){1, 4, 13, 208, 35, 412, /* */
                                    10, 60, 20, 120, 20, 180});
    expect_shifted("hard", &hard,
                   (const double[]){1, 0, 3, 2, 5, 4, /* */
                                    10, 0, 30, 20, 50, 40});
    expect_shifted("data", &data,
                   (const double[]){0.25, 0.5, 2, 3, 3.5, 4.5, /* */
                                    5, 10, 25, 35, 35, 45});
}

/* ---- values worked out by hand: norms and caps ---- */

/* Keys of two heads of size 2 and one token. */
static void expect_normed(kvsi_qk_norm norm, const double *expected)
{
    const real qkv[] = {0, 0, 0, 0, 1, 5, -3, 1, 0, 0, 0, 0};
    const real gains[] = {1, 3, 0, -2};
    real k[4], v[4], out[4], logsum[2], workspace[100];
    const kvsi_span span = {.len = 1, .k = k, .v = v, .capacity = 1};
    const kvsi_attention a = {.heads = 2,
                              .kv_heads = 2,
                              .head_size = 2,
                              .scale = 1,
                              .qk_norm = norm,
                              .q_gain = gains,
                              .k_gain = gains,
                              .gain_offset = 1,
                              .sequences = 1,
                              .spans = &span,
                              .tokens = 1};
    kvsi_context c = {.ops = op,
                      .threads = 1,
                      .workspace = (unsigned char *)workspace,
                      .workspace_bytes = sizeof workspace};

    op->attention_forward(&c, out, logsum, qkv, &a);
    differences_expect("normed keys", k, expected, 4);
}

/* Heads (1, 5) and (-3, 1): means of squares 13, 5 and 9; means 3 and -1, deviations 2. */
static void norms_by_hand(void **state)
{
    (void)state;
    expect_normed(KVSI_QK_NORM_HEAD,
                  (const double[]){2 / sqrt(13.0), 20 / sqrt(13.0), -6 / sqrt(5.0), 4 / sqrt(5.0)});
    expect_normed(KVSI_QK_NORM_FULL, (const double[]){2.0 / 3, 20.0 / 3, -1, -1.0 / 3});
    expect_normed(KVSI_QK_NORM_LAYER, (const double[]){-2, 4, -1, -1});
}

/* Keys 0 and a number whose score, 2 atanh(1/2), is capped to 1; a slope of 1/2 is subtracted from
 * the first one after that. */
static void caps_by_hand(void **state)
{
    const real slope = 0.5, qkv[] = {0, 0, 10, 4, log(3.0) / 2, 20};
    const double first = exp(-0.5), second = exp(1.0);
    const double expected[] = {10, (10 * first + 20 * second) / (first + second)};
    real out[2], logsum[2], workspace[100];
    const kvsi_span span = {.len = 2};
    const kvsi_attention a = {.heads = 1,
                              .kv_heads = 1,
                              .head_size = 1,
                              .scale = 0.5,
                              .score_cap = 2,
                              .slopes = &slope,
                              .sequences = 1,
                              .spans = &span,
                              .tokens = 2};
    kvsi_context c = {.ops = op,
                      .threads = 1,
                      .workspace = (unsigned char *)workspace,
                      .workspace_bytes = sizeof workspace};

    (void)state;
    op->attention_forward(&c, out, logsum, qkv, &a);
    differences_expect("capped", out, expected, 2);
    differences_expect("logsum", logsum, (const double[]){0, log(first + second)}, 2);
}

/* ---- values worked out by hand: positions ---- */

/* Keys of one head and three tokens, shifted with taps -1, 2 and rotated: position t turns by t
 * quarters, (x, y) -> (-y, x). */
static void expect_keys(const real *qkv, size_t head_size, size_t rotary, const double *expected)
{
    const real taps[] = {-1, 2}, rotations[] = {1, 0, 0, 1, -1, 0};
    real k[12], v[12], tail[4] = {0}, out[12], logsum[3], workspace[100];
    const kvsi_span span = {.len = 3, .k = k, .v = v, .capacity = 3, .tails[KVSI_TAIL_K] = tail};
    const kvsi_attention a = {.heads = 1,
                              .kv_heads = 1,
                              .head_size = head_size,
                              .scale = 1,
                              .k_shift = {KVSI_SHIFT_FREE, 1, .parameters = taps},
                              .rotary = rotary,
                              .rotations = rotations,
                              .sequences = 1,
                              .spans = &span,
                              .tokens = 3};
    kvsi_context c = {.ops = op,
                      .threads = 1,
                      .workspace = (unsigned char *)workspace,
                      .workspace_bytes = sizeof workspace};

    op->attention_forward(&c, out, logsum, qkv, &a);
    differences_expect("shifted and rotated keys", k, expected, 3 * head_size);
}

/* The previous key takes the position of the current one: it is shifted first, rotated after.
 * Channels beyond the first two are shifted only. */
static void rotation_follows_the_shift(void **state)
{
    const real two[] = {0, 0, 1, 2, 0, 0, 0, 0, 30, 40, 0, 0, 0, 0, 500, 600, 0, 0};
    const real four[] = {0, 0, 0, 0, 1,   2,   1, 2, 0, 0, 0, 0, /* */
                         0, 0, 0, 0, 30,  40,  3, 4, 0, 0, 0, 0, /* */
                         0, 0, 0, 0, 500, 600, 5, 6, 0, 0, 0, 0};

    (void)state;
    expect_keys(two, 2, 2, (const double[]){2, 4, -78, 59, -970, -1160});
    expect_keys(four, 4, 2, (const double[]){2, 4, 2, 4, -78, 59, 5, 6, -970, -1160, 7, 8});
}

/* Two heads of size 1 that share their keys, which are 0: only the slopes log 2 and log 3 determine
 * the weights, so that values 1, 10, 100 are weighted by powers of 1/2 and of 1/3. */
static void slopes_and_window_by_hand(void **state)
{
    const real qkv[] = {0, 0, 0, 1, 0, 0, 0, 10, 0, 0, 0, 100}, slopes[] = {log(2.0), log(3.0)};
    real out[6], logsum[6], workspace[100];
    const kvsi_span span = {.len = 3};
    kvsi_attention a = {.heads = 2,
                        .kv_heads = 1,
                        .head_size = 1,
                        .scale = 1,
                        .slopes = slopes,
                        .sequences = 1,
                        .spans = &span,
                        .tokens = 3};
    kvsi_context c = {.ops = op,
                      .threads = 1,
                      .workspace = (unsigned char *)workspace,
                      .workspace_bytes = sizeof workspace};

    (void)state;
    op->attention_forward(&c, out, logsum, qkv, &a);
    differences_expect(
        "sloped", out,
        (const double[]){1, 1, 21.0 / 3, 31.0 / 4, (1 + 20 + 400) / 7.0, (1 + 30 + 900) / 13.0}, 6);
    differences_expect(
        "logsum", logsum,
        (const double[]){0, 0, log(3.0 / 2), log(4.0 / 3), log(7.0 / 4), log(13.0 / 9)}, 6);
    a.sliding_window = 2;
    op->attention_forward(&c, out, logsum, qkv, &a);
    differences_expect("sloped, window of 2", out,
                       (const double[]){1, 1, 21.0 / 3, 31.0 / 4, 210.0 / 3, 310.0 / 4}, 6);
    a.sliding_window = 1;
    op->attention_forward(&c, out, logsum, qkv, &a);
    differences_expect("window of 1", out, (const double[]){1, 1, 10, 10, 100, 100}, 6);
}

/* Equal weights, so that an output is the mean over the keys of factor * value.  Rows
 * and keys are counted in their sequence, which has an index of its own. */
static void dropout_by_hand(void **state)
{
    enum { FIRST = 2, SECOND = 6, N = FIRST + SECOND };
    const kvsi_span spans[] = {{.start = 0, .len = FIRST}, {.start = FIRST, .len = SECOND}};
    const kvsi_dropout d = {.rate = 0.5, .seed = UINT64_C(0x987654321), .index = 65536 * 3 + 1};
    const kvsi_attention a = {.heads = 2,
                              .kv_heads = 1,
                              .head_size = 1,
                              .scale = 1,
                              .dropout = d,
                              .sequences = 2,
                              .spans = spans,
                              .tokens = N};
    real qkv[N * 4] = {0}, out[N * 2], logsum[N * 2], workspace[100];
    kvsi_context c = {.ops = op,
                      .threads = 1,
                      .workspace = (unsigned char *)workspace,
                      .workspace_bytes = sizeof workspace};

    (void)state;
    for (size_t t = 0; t < N; t++)
        qkv[t * 4 + 3] = pow(2, (double)t);
    op->attention_forward(&c, out, logsum, qkv, &a);
    for (size_t i = 0; i < N * 2; i++) {
        const size_t t = i / 2, start = t < FIRST ? 0 : FIRST, keys = t - start + 1;
        const double none = log((double)keys);
        double expected = 0;

        for (size_t s = 0; s < keys; s++) {
            uint32_t words[4];

            kvsi_random_words(words, d.seed, (uint32_t)(5 + 8 * (i - 2 * start)),
                              d.index + (start > 0 ? 65536 : 0), (uint32_t)s / 4);
            if (words[s % 4] >= UINT32_C(0x80000000))
                expected += 2 * pow(2, (double)(start + s)) / (double)keys;
        }
        differences_expect("output with dropout", &out[i], &expected, 1);
        differences_expect("logsum, which has none", &logsum[i], &none, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_gradients_match_differences),
        cmocka_unit_test(shift_by_hand),
        cmocka_unit_test(channel_hard_and_data_by_hand),
        cmocka_unit_test(norms_by_hand),
        cmocka_unit_test(caps_by_hand),
        cmocka_unit_test(rotation_follows_the_shift),
        cmocka_unit_test(slopes_and_window_by_hand),
        cmocka_unit_test(dropout_by_hand),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
