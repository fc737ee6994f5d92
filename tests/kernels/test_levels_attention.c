/* Every CPU level against the reference in attention: forward, backward and with a cache, on shapes
 * that are odd, tiny, or cross tile edges. */
#include "kernels/forms.h"
#include "levels.h"

#include <math.h>
#include <stdio.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof *(a))

/* ---- shapes ---- */

enum { SEQUENCES_MAX = 4, PAST = 130, CAPACITY = 200 };

typedef enum scores { ORDINARY, LARGE, EQUAL } scores;

typedef struct shape {
    size_t heads, kv_heads, head_size;
    size_t sequences, lengths[SEQUENCES_MAX];
    int cached;
    size_t past[SEQUENCES_MAX]; /* with a cache */
    unsigned targets;
    kvsi_shift_form form;
    size_t window;
    size_t rotary; /* channels */
    int sloped;
    kvsi_qk_norm norm;
    int offset; /* gains of 1 + w */
    double cap;
    size_t relative, extent; /* relative positions */
    int grows;               /* scores have factors */
    size_t sliding_window;
    double dropout;
    scores scores;
    int slow; /* packed sequences at the slow levels too, see levels.h */
} shape;

/* The arguments of the operation; `spans` and `a` point to each other, so it must not be moved. */
typedef struct problem {
    kvsi_span spans[SEQUENCES_MAX];
    kvsi_attention a;
    real *qkv;
} problem;

static size_t tokens_of(const shape *s)
{
    size_t tokens = 0;

    for (size_t i = 0; i < s->sequences; i++)
        tokens += s->lengths[i];
    return tokens;
}

static size_t width_of(const shape *s)
{
    return (s->heads + 2 * s->kv_heads) * s->head_size;
}

/* Parameters per head. */
static size_t numbers_of(const shape *s)
{
    return s->targets ? kvsi_form_get(s->form)->params(s->window, s->head_size) : 0;
}

/* ---- inputs ---- */

/* The gates of q, k and v lie side by side in one block, with gaps where a target has none. */
static kvsi_shift given_shift(run *r, const shape *s, unsigned target, size_t heads,
                              const real *gates)
{
    const size_t column = target == KVS_SHIFT_Q   ? 0
                          : target == KVS_SHIFT_K ? s->heads
                                                  : s->heads + s->kv_heads;

    if (!(s->targets & target))
        return (kvsi_shift){0};
    return (kvsi_shift){.form = s->form,
                        .window = s->window,
                        /* clamp: some numbers fall outside its range, some inside */
                        .parameters = levels_given(r, heads * numbers_of(s)),
                        .gates = gates + column,
                        .gate_stride = s->heads + 2 * s->kv_heads};
}

static real *given_rotations(run *r, const shape *s)
{
    const size_t d = s->rotary, half = d / 2;
    real *rotations = levels_hold(r, CAPACITY * d * sizeof *rotations);

    for (size_t t = 0; t < CAPACITY; t++)
        for (size_t i = 0; i < half; i++) {
            const double angle = (double)t * pow(10000.0, -2.0 * (double)i / (double)d);

            rotations[t * d + i] = (real)cos(angle);
            rotations[t * d + half + i] = (real)sin(angle);
        }
    return rotations;
}

/* From almost 0 to slopes that leave only a few keys. */
static real *given_slopes(run *r, const shape *s)
{
    real *slopes = levels_hold(r, s->heads * sizeof *slopes);

    for (size_t h = 0; h < s->heads; h++)
        slopes[h] = (real)pow(2, -8.0 * (double)h / (double)s->heads);
    return slopes;
}

/* Factors of scores, some of them below 1. */
static real *given_growth(run *r)
{
    real *growth = levels_hold(r, CAPACITY * sizeof *growth);

    for (size_t t = 0; t < CAPACITY; t++)
        growth[t] = (real)(0.5 + 0.4 * log((double)(t + 1)));
    return growth;
}

static kvsi_relative given_relative(run *r, const shape *s)
{
    return (kvsi_relative){
        .size = s->relative,
        .extent = s->extent,
        .rows = levels_given(r, tokens_of(s) * s->heads * s->relative),
        .table = levels_given(r, s->relative * s->extent),
    };
}

/* A cache with `past` rows per head; the rest is NaN. */
static real *given_cache(run *r, const char *name, const shape *s, size_t past)
{
    const size_t d = s->head_size, n = s->kv_heads * CAPACITY * d;
    real *cache = levels_given(r, n);

    for (size_t i = 0; i < n; i++)
        if (i / d % CAPACITY >= past)
            cache[i] = (real)NAN;
    return levels_listed(r, name, cache, n, 1);
}

static real *given_tail(run *r, const char *name, const kvsi_shift *shift, size_t row, size_t past)
{
    const size_t n = shift->window * row;
    real *tail;

    if (shift->window == 0)
        return NULL;
    tail = levels_added(r, name, n);
    for (size_t i = 0; i < n; i++)
        if (past + i / row < shift->window)
            tail[i] = 0; /* before the start */
    return tail;
}

static void give_spans(run *r, problem *p, const shape *s)
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
        span->tails[KVSI_TAIL_Q] = given_tail(r, "tail of q", &p->a.q_shift, q, span->past);
        span->tails[KVSI_TAIL_K] = given_tail(r, "tail of k", &p->a.k_shift, kv, span->past);
        span->tails[KVSI_TAIL_V] = given_tail(r, "tail of v", &p->a.v_shift, kv, span->past);
    }
}

/* LARGE and EQUAL are about the scores, so only queries and keys are changed: large values would
 * cancel in the gradient, where p * (d_p - sum of p * d_p) multiplies the rounding of d_p. */
static real *given_qkv(run *r, const shape *s)
{
    const size_t width = width_of(s), n = tokens_of(s) * width;
    const size_t keys_at = s->heads * s->head_size, values_at = width - s->kv_heads * s->head_size;
    real *qkv = levels_given(r, n);

    for (size_t i = 0; i < n; i++) {
        if (s->scores == LARGE && i % width < values_at)
            qkv[i] = levels_whole(qkv[i], 100);
        if (s->scores == EQUAL && i % width < keys_at)
            qkv[i] = 0;
    }
    return qkv;
}

static void give_problem(run *r, problem *p, const shape *s)
{
    const size_t q = s->heads, kv = s->kv_heads;
    const real *gates = levels_given(r, tokens_of(s) * (q + 2 * kv));
    const real *gains = levels_given(r, (q + kv) * s->head_size);

    p->a = (kvsi_attention){.heads = q,
                            .kv_heads = kv,
                            .head_size = s->head_size,
                            .scale = (real)(1.0 / sqrt((double)s->head_size)),
                            .q_shift = given_shift(r, s, KVS_SHIFT_Q, q, gates),
                            .k_shift = given_shift(r, s, KVS_SHIFT_K, kv, gates),
                            .v_shift = given_shift(r, s, KVS_SHIFT_V, kv, gates),
                            .score_cap = (real)s->cap,
                            .qk_norm = s->norm,
                            .q_gain = s->norm ? gains : NULL,
                            .k_gain = s->norm ? gains + q * s->head_size : NULL,
                            .gain_offset = (real)s->offset,
                            .norm_eps = 1e-3,
                            .rotary = s->rotary,
                            .rotations = s->rotary > 0 ? given_rotations(r, s) : NULL,
                            .slopes = s->sloped ? given_slopes(r, s) : NULL,
                            .relative = given_relative(r, s),
                            .growth = s->grows ? given_growth(r) : NULL,
                            .sliding_window = s->sliding_window,
                            .dropout = {.rate = s->dropout, .seed = 11, .index = 12},
                            .sequences = s->sequences,
                            .spans = p->spans,
                            .tokens = tokens_of(s),
                            .training = !s->cached};
    p->qkv = given_qkv(r, s);
    give_spans(r, p, s);
}

/* ---- the calls ---- */

static void attention_forward(run *r, const void *asked)
{
    const shape *s = asked;
    const size_t rows = tokens_of(s) * s->heads;
    problem p;

    give_problem(r, &p, s);
    r->c.ops->attention_forward(&r->c, levels_written(r, "out", rows * s->head_size),
                                levels_written(r, "logsum", rows), p.qkv, &p.a);
}

static size_t gains_of(const shape *s, size_t heads)
{
    return s->norm == KVSI_QK_NORM_HEAD ? s->head_size : heads * s->head_size;
}

/* Memory for the gradients of the shifts, in the layout of their parameters.  Gradients of taps are
 * sums over d_qkv, the last output so far, whose magnitude sets their tolerance. */
static void list_gradients(run *r, problem *p, const shape *s)
{
    const size_t columns = s->heads + 2 * s->kv_heads, d_qkv = r->count;
    const size_t heads[] = {s->heads, s->kv_heads, s->kv_heads};
    const size_t at[] = {0, s->heads, s->heads + s->kv_heads};
    kvsi_shift *shifts[] = {&p->a.q_shift, &p->a.k_shift, &p->a.v_shift};
    const char *names[] = {"gradient of q_shift", "gradient of k_shift", "gradient of v_shift"};
    real *d_gates = levels_written(r, "d_gates", tokens_of(s) * columns);

    r->outputs[r->count - 1].gaps = 1;
    for (size_t k = 0; k < 3; k++)
        if (shifts[k]->window > 0) {
            shifts[k]->gradient = levels_added(r, names[k], heads[k] * numbers_of(s));
            r->outputs[r->count - 1].terms = d_qkv;
            shifts[k]->d_gates = d_gates + at[k];
        }
    if (s->relative > 0) {
        p->a.relative.d_rows =
            levels_written(r, "gradient of r", tokens_of(s) * s->heads * s->relative);
        r->outputs[r->count - 1].terms = r->count - d_qkv;
        p->a.relative.d_table = levels_added(r, "gradient of the table", s->relative * s->extent);
        r->outputs[r->count - 1].terms = r->count - d_qkv;
    }
    if (!s->norm)
        return;
    p->a.d_q_gain = levels_added(r, "gradient of q_gain", gains_of(s, s->heads));
    r->outputs[r->count - 1].terms = d_qkv;
    p->a.d_k_gain = levels_added(r, "gradient of k_gain", gains_of(s, s->kv_heads));
    r->outputs[r->count - 1].terms = d_qkv;
}

/* All levels get the reference's forward results: a log-sum in the thousands has three decimals in
 * float, and a difference in the last one would affect every probability. */
static void attention_backward(run *r, const void *asked)
{
    const shape *s = asked;
    const size_t rows = tokens_of(s) * s->heads;
    const real *d_out = levels_given(r, rows * s->head_size);
    real *d_qkv = levels_written(r, "d_qkv", tokens_of(s) * width_of(s));
    real *out, *logsum;
    problem p;

    give_problem(r, &p, s);
    list_gradients(r, &p, s);
    if (r->c.ops == &kvsi_reference_ops) {
        r->kept = levels_hold(r, rows * (s->head_size + 1) * sizeof *out);
        r->c.ops->attention_forward(&r->c, r->kept, (real *)r->kept + rows * s->head_size, p.qkv,
                                    &p.a);
    }
    out = r->kept;
    logsum = out + rows * s->head_size;
    r->c.ops->attention_backward(&r->c, d_qkv, d_out, out, logsum, p.qkv, &p.a);
}

/* Levels and reference round the same operands to bfloat16, but probabilities and gradients of
 * scores after sums in different orders, so that some of them differ by one rounding, 2^-8 of
 * the value. */
#define TOLERANCE_BF16 (1.0 / 256)

/* Sequences this short are computed without packed operands, and so are those with a cache. */
enum { UNPACKED_MAX = 31 };

static int is_short(const shape *s)
{
    for (size_t i = 0; i < s->sequences; i++)
        if (s->lengths[i] > UNPACKED_MAX)
            return 0;
    return 1;
}

static void check_shape_in(kvsi_precision precision, double tolerance, const shape *s)
{
    char what[256];
    levels_case c = {.call = attention_forward,
                     .asked = s,
                     .what = what,
                     .limits = {.tokens = tokens_of(s),
                                .sequences = s->sequences,
                                .head_rows = 1,
                                .dim = s->heads * s->head_size,
                                .heads = s->heads,
                                .kv_heads = s->kv_heads,
                                .head_size = s->head_size,
                                .ffn = 1,
                                .vocab = 1,
                                .shift_params = numbers_of(s),
                                .qk_norm = s->norm,
                                .relative_size = s->relative,
                                .training = !s->cached,
                                .precision = precision},
                     .precision = precision,
                     .tolerance = tolerance,
                     .slow = s->slow || s->cached || is_short(s)};

    snprintf(
        what, sizeof what,
        "attention, %zu/%zu heads of %zu, %zu sequences (%zu %zu %zu %zu), past %zu, shift %s %s "
        "%zu, rotary %zu, sloped %d, norm %d, offset %d, cap %g, relative %zu of %zu, grows %d, "
        "sliding window %zu, dropout %g, scores %d, precision %d",
        s->heads, s->kv_heads, s->head_size, s->sequences, s->lengths[0], s->lengths[1],
        s->lengths[2], s->lengths[3], s->past[0], kvsi_shift_targets_name(s->targets),
        kvsi_shift_form_name(s->form), s->window, s->rotary, s->sloped, (int)s->norm, s->offset,
        s->cap, s->relative, s->extent, s->grows, s->sliding_window, s->dropout, s->scores,
        (int)precision);
    levels_check(&c);
    if (s->cached)
        return;
    c.call = attention_backward;
    levels_check(&c);
}

static void check_shape(const shape *s)
{
    check_shape_in(KVSI_PRECISION_F32, LEVELS_TOLERANCE, s);
}

/* ---- lengths, heads, and the variants of the shift ---- */

static const shape lengths[] = {
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

static shape with_heads(shape s, size_t which)
{
    s.heads = head_shapes[which].heads;
    s.kv_heads = head_shapes[which].kv_heads;
    s.head_size = head_shapes[which].head_size;
    return s;
}

/* The common case: keys and values shifted by one token, then rotated. */
static shape usual(shape s)
{
    s.targets = KVS_SHIFT_K | KVS_SHIFT_V;
    s.form = KVSI_SHIFT_FREE;
    s.window = 1;
    s.rotary = s.head_size;
    return s;
}

static void shapes_match(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(lengths); i++)
        for (size_t j = 0; j < ARRAY_SIZE(head_shapes); j++) {
            const shape s = usual(with_heads(lengths[i], j));

            check_shape(&s);
        }
}

/* Lengths from the shortest that is computed with packed operands on, and around tiles. */
static void bf16_matches(void **state)
{
    static const shape some[] = {
        {.sequences = 4, .lengths = {32, 33, 63, 65}},
        {.sequences = 1, .lengths = {200}},
        {.sequences = 2, .lengths = {97, 128}},
    };
    static const size_t head_sizes[] = {6, 64, 80, 32, 128}, groups[] = {1, 3};
    const size_t lengths_count = SUPPORT_SANITIZED ? 2 : ARRAY_SIZE(some);
    const size_t sizes_count = SUPPORT_SANITIZED ? 3 : ARRAY_SIZE(head_sizes);

    (void)state;
    for (size_t i = 0; i < lengths_count; i++)
        for (size_t j = 0; j < sizes_count; j++)
            for (size_t k = 0; k < ARRAY_SIZE(groups); k++) {
                shape s = some[i];

                s.kv_heads = SUPPORT_SANITIZED && groups[k] > 1 ? 1 : 2;
                s.heads = s.kv_heads * groups[k];
                s.head_size = head_sizes[j];
                s = usual(s);
                check_shape_in(KVSI_PRECISION_BF16, TOLERANCE_BF16, &s);
                s.sliding_window = 40;
                s.dropout = 0.1;
                s.sloped = k == 0;
                s.cap = k == 0 ? 2 : 0;
                check_shape_in(KVSI_PRECISION_BF16, TOLERANCE_BF16, &s);
            }
}

/* Both precisions have packed operands at levels with tiles.  Rows come in blocks of 96, keys in
 * tiles of 64, channels in panels of 32; the sliding window leaves out whole tiles of keys. */
static void tiles_match(void **state)
{
    static const shape some[] = {
        {.kv_heads = 2, .heads = 2, .head_size = 6, .sequences = 2, .lengths = {32, 63}},
        {.kv_heads = 1, .heads = 3, .head_size = 40, .sequences = 2, .lengths = {33, 65}},
        {.kv_heads = 1, .heads = 1, .head_size = 64, .sequences = 1, .lengths = {130}},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(some); i++) {
        shape s = usual(some[i]);

        s.slow = 1;
        check_shape(&s);
        check_shape_in(KVSI_PRECISION_BF16, TOLERANCE_BF16, &s);
        s.sliding_window = 40;
        s.dropout = 0.1;
        s.sloped = s.heads == 2; /* slopes leave few keys */
        s.cap = s.heads == 3 ? 2 : 0;
        check_shape(&s);
        check_shape_in(KVSI_PRECISION_BF16, TOLERANCE_BF16, &s);
    }
}

/* Every target, form and window; no channels rotate, or some. */
static void check_variants(shape s)
{
    static const unsigned targets[] = {KVS_SHIFT_K, KVS_SHIFT_V, KVS_SHIFT_K | KVS_SHIFT_V,
                                       KVS_SHIFT_Q | KVS_SHIFT_K | KVS_SHIFT_V};
    static const size_t rotaries[] = {0, 10};

    for (size_t k = 0; k < ARRAY_SIZE(rotaries); k++) {
        s.rotary = rotaries[k];
        s.targets = 0;
        s.window = 0;
        s.form = KVSI_SHIFT_FREE;
        check_shape(&s);
        for (size_t i = 0; i < ARRAY_SIZE(targets); i++)
            for (s.form = 0; kvsi_form_get(s.form); s.form++)
                for (s.window = 1; s.window <= kvsi_form_get(s.form)->window_max; s.window++) {
                    s.targets = targets[i];
                    check_shape(&s);
                }
    }
}

static void variants_match(void **state)
{
    (void)state;
    check_variants((shape){.heads = 4,
                           .kv_heads = 2,
                           .head_size = 24,
                           .sequences = 3,
                           .lengths = {1, 2, SUPPORT_SANITIZED ? 67 : 97}});
    check_variants(
        (shape){.heads = 2, .kv_heads = 1, .head_size = 24, .sequences = 1, .lengths = {9}});
    check_variants((shape){.heads = 4,
                           .kv_heads = 2,
                           .head_size = 24,
                           .norm = KVSI_QK_NORM_HEAD,
                           .sequences = 3,
                           .lengths = {1, 2, SUPPORT_SANITIZED ? 67 : 97}});
}

/* ---- norms and caps ---- */

static void norms_match(void **state)
{
    static const unsigned targets[] = {0, KVS_SHIFT_K | KVS_SHIFT_V,
                                       KVS_SHIFT_Q | KVS_SHIFT_K | KVS_SHIFT_V};
    static const kvsi_shift_form forms[] = {KVSI_SHIFT_FREE, KVSI_SHIFT_DATA};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(lengths); i++)
        for (size_t j = 0; j < ARRAY_SIZE(head_shapes); j++)
            for (kvsi_qk_norm norm = KVSI_QK_NORM_HEAD; norm <= KVSI_QK_NORM_LAYER; norm++) {
                shape s = usual(with_heads(lengths[i], j));

                if (SUPPORT_SANITIZED && (i + j + norm) % 4 != 0)
                    continue;
                s.norm = norm;
                s.targets = targets[(i + j) % ARRAY_SIZE(targets)];
                s.form = forms[j % ARRAY_SIZE(forms)];
                s.window = s.targets ? 1 : 0;
                s.rotary = j % 3 == 0 ? 0 : s.head_size;
                s.offset = (i + j) % 2;
                check_shape(&s);
                if (s.sequences == 1 && !is_short(&s))
                    check_shape_in(KVSI_PRECISION_BF16, TOLERANCE_BF16, &s);
            }
}

/* Caps that change all scores, some, and next to none. */
static void caps_match(void **state)
{
    static const double caps[] = {0.3, 2, 50};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(lengths); i++)
        for (size_t j = 0; j < ARRAY_SIZE(head_shapes); j++) {
            shape s = usual(with_heads(lengths[i], j));

            if (SUPPORT_SANITIZED && (i + j) % 2 == 0)
                continue;
            s.cap = caps[(i + j) % ARRAY_SIZE(caps)];
            check_shape(&s);
            s.sliding_window = 50;
            s.sloped = 1;
            s.dropout = 0.3;
            check_shape(&s);
        }
}

/* ---- relative positions and growing scores ---- */

/* Extents below and above the size of a tile, and of one token. */
static void check_relative(shape s, size_t index)
{
    static const size_t extents[] = {70, 1, 20, 300}, sizes[] = {6, 1, 16};

    s.rotary = 0;
    s.relative = sizes[index % ARRAY_SIZE(sizes)];
    s.extent = extents[index % ARRAY_SIZE(extents)];
    check_shape(&s);
    s.grows = 1;
    s.sliding_window = 50;
    s.norm = index % 2 == 0 ? KVSI_QK_NORM_HEAD : KVSI_QK_NORM_FULL;
    s.cap = index % 3 == 0 ? 2 : 0;
    s.dropout = 0.3;
    check_shape(&s);
    s.relative = 0;
    s.rotary = index % 2 == 0 ? s.head_size / 2 * 2 : 0;
    s.sloped = 1;
    check_shape(&s);
}

static void relative_positions_match(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(lengths); i++)
        for (size_t j = 0; j < ARRAY_SIZE(head_shapes); j++)
            if (!SUPPORT_SANITIZED || (i + j) % 4 == 0)
                check_relative(usual(with_heads(lengths[i], j)), i + j);
    for (size_t j = 0; j < ARRAY_SIZE(head_shapes); j++) {
        shape s = usual(with_heads((shape){.sequences = 2, .lengths = {100, 190}}, j));

        s.rotary = 0;
        s.relative = 6;
        s.extent = 90;
        s.grows = 1;
        check_shape_in(KVSI_PRECISION_BF16, TOLERANCE_BF16, &s);
    }
}

/* ---- windows, slopes, dropout ---- */

static const size_t some_heads[] = {2, 6, 9}; /* groups of 1, 2 and 8 */

/* With the address sanitizer only every second pair of lengths and heads is computed, so that each
 * of the lengths and heads is in some pair. */
static int is_left_out(size_t length, size_t head)
{
    return SUPPORT_SANITIZED && (length + head) % 2 == 0;
}

/* Windows end inside tiles of scores and on their edges; the last one holds every key. */
static void check_windows(shape s)
{
    static const size_t windows[] = {1, 50, 64, 100, 500};

    for (size_t i = 0; i < ARRAY_SIZE(windows); i++) {
        s.sliding_window = windows[i];
        s.sloped = 0;
        s.dropout = 0;
        check_shape(&s);
        s.sloped = 1;
        s.dropout = 0.3;
        check_shape(&s);
    }
}

static void sliding_windows_match(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(lengths); i++)
        for (size_t j = 0; j < ARRAY_SIZE(some_heads); j++)
            if (!is_left_out(i, j))
                check_windows(usual(with_heads(lengths[i], some_heads[j])));
}

static void slopes_and_dropout_match(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(lengths); i++)
        for (size_t j = 0; j < ARRAY_SIZE(some_heads); j++) {
            shape s = usual(with_heads(lengths[i], some_heads[j]));

            if (is_left_out(i, j))
                continue;
            s.rotary = 0;
            s.sloped = 1;
            check_shape(&s);
            s.sloped = 0;
            s.dropout = 0.1;
            check_shape(&s);
            s.dropout = 0.9;
            check_shape(&s);
        }
}

/* ---- with a cache ---- */

/* A chunk may be shorter than the window, or empty, or fill its cache to the end. */
static const shape chunks[] = {
    {.cached = 1, .sequences = 1, .lengths = {1}, .past = {PAST}},
    {.cached = 1, .sequences = 1, .lengths = {5}, .past = {PAST}},
    {.cached = 1, .sequences = 1, .lengths = {70}, .past = {PAST}},
    {.cached = 1, .sequences = 4, .lengths = {1, 5, 0, 70}, .past = {1, PAST, 7, 0}},
};

static void chunks_match(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(chunks); i++) {
        shape s = chunks[i];

        s.heads = 4;
        s.kv_heads = 2;
        s.head_size = 24;
        if (!SUPPORT_SANITIZED || s.sequences > 1) /* the last one has chunks of every length */
            check_variants(s);
        for (size_t j = 0; j < ARRAY_SIZE(head_shapes); j++) {
            s = usual(with_heads(s, j));
            check_shape(&s);
        }
    }
}

static void chunks_with_norms_and_caps_match(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(chunks); i++)
        for (size_t j = 0; j < ARRAY_SIZE(head_shapes); j++) {
            shape s = usual(with_heads(chunks[i], j));

            s.norm = j % 2 == 0 ? KVSI_QK_NORM_FULL : KVSI_QK_NORM_LAYER;
            s.targets |= i % 2 == 0 ? KVS_SHIFT_Q : 0;
            s.offset = j % 3 == 0;
            s.cap = 2;
            check_shape(&s);
        }
}

static void chunks_with_relative_positions_match(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(chunks); i++)
        for (size_t j = 0; j < ARRAY_SIZE(head_shapes); j++)
            check_relative(usual(with_heads(chunks[i], j)), i + j);
}

static void chunks_with_windows_match(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(chunks); i++)
        for (size_t j = 0; j < ARRAY_SIZE(some_heads); j++)
            check_windows(usual(with_heads(chunks[i], some_heads[j])));
}

/* ---- extreme numbers ---- */

/* Scores in the thousands: softmax must not overflow.  Head size 64, without shift and
 * rotation, keeps them exact in float (see levels_whole).  Not with a window of one key: its weight
 * is 1 for any score, so gradients are 0, and keys of size 100 amplify their rounding. */
static void large_and_equal_scores_match(void **state)
{
    static const size_t some_windows[] = {0, 2, 50};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(lengths); i++)
        for (size_t j = 0; j < ARRAY_SIZE(some_windows); j++) {
            shape s = lengths[i];

            s.heads = 4;
            s.kv_heads = 2;
            s.head_size = 64;
            s.sliding_window = some_windows[j];
            s.scores = LARGE;
            check_shape(&s);
            s.scores = EQUAL;
            check_shape(&s);
        }
}

/* A diverged training run is detected by NaN in its loss: attention must not hide it. */
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
    const kvsi_span span = {.len = 1};
    const kvsi_attention a = {.heads = 1,
                              .kv_heads = 1,
                              .head_size = 8,
                              .scale = 1,
                              .sequences = 1,
                              .spans = &span,
                              .tokens = 1};
    real qkv[3 * 8] = {(real)NAN}, out[8], logsum;
    run r;

    levels_start(&r, ops, &limits);
    ops->attention_forward(&r.c, out, &logsum, qkv, &a);
    assert_true(isnan(out[0]) && isnan(logsum));
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
        cmocka_unit_test(shapes_match),
        cmocka_unit_test(bf16_matches),
        cmocka_unit_test(tiles_match),
        cmocka_unit_test(variants_match),
        cmocka_unit_test(norms_match),
        cmocka_unit_test(caps_match),
        cmocka_unit_test(sliding_windows_match),
        cmocka_unit_test(slopes_and_dropout_match),
        cmocka_unit_test(chunks_match),
        cmocka_unit_test(chunks_with_norms_and_caps_match),
        cmocka_unit_test(relative_positions_match),
        cmocka_unit_test(chunks_with_relative_positions_match),
        cmocka_unit_test(chunks_with_windows_match),
        cmocka_unit_test(large_and_equal_scores_match),
        cmocka_unit_test(nan_is_not_hidden),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
