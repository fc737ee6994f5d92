/* A sequence gives the same logits however it is split into chunks and whatever else is in the
 * batch; the state between chunks holds the raw rows that the shift needs, and sequences do not
 * affect each other. */
#include "base/memory.h"
#include "base/random.h"
#include "family.h"
#include "kernels/forms.h"
#include "model/layer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    VOCAB = 19,
    DIM = 24,
    WIDE = 96,
    CONTEXT = 160,
    LENGTH = 150
}; /* longer than any block of keys */

static const double LIMIT = 1e-5; /* float rounding, relative to the largest number */

/* ---- the models: the family on every CPU level ---- */

enum {
    K = KVS_SHIFT_K,
    V = KVS_SHIFT_V,
    KV = KVS_SHIFT_K | KVS_SHIFT_V,
    QKV = KVS_SHIFT_K | KVS_SHIFT_V | KVS_SHIFT_Q
};

static const family_scope scope = {
    .sizes = {.vocab = VOCAB, .dim = DIM, .ffn = 40, .context = CONTEXT},
    .levels = SUPPORT_SANITIZED ? 1 : 0};

static kvs_model *make_model(kvs_runtime *rt, const kvs_model_config *special)
{
    const kvs_model_config config = support_config(special, &scope.sizes);

    return support_model(rt, &config, 11);
}

static void for_each_level(void (*check)(kvs_runtime *rt))
{
    for (size_t l = 0; support_level(l); l++) {
        kvs_runtime *rt = support_runtime(support_level(l));

        check(rt);
        kvs_runtime_free(rt);
    }
}

static void for_each_model(family_check *check)
{
    family_each_model(&scope, check);
}

static void for_each_shift(family_check *check)
{
    family_each_shift(&scope, check);
}

/* ---- running ---- */

static real *numbers(size_t count)
{
    real *memory = kvsi_alloc(count, sizeof *memory);

    assert_non_null(memory);
    return memory;
}

static void make_state(kvsi_state *state, const kvs_model *model, size_t capacity)
{
    assert_int_equal(kvsi_state_init(state, model, capacity, KVSI_REAL_TYPE, NULL), KVS_OK);
}

/* Feeds `count` tokens after those of the state; state NULL = a new sequence. */
static void feed(kvsi_pass *pass, kvsi_state *state, const int32_t *ids, size_t count, real *logits)
{
    const size_t starts[] = {0, count};
    const kvs_batch batch = {.sequences = 1, .starts = starts, .ids = ids};

    support_run(pass, &batch, state ? &state : NULL, logits);
}

/* Logits of a sequence alone, in one pass. */
static real *alone(const kvs_model *model, const int32_t *ids, size_t count)
{
    kvsi_pass *pass = support_pass(model, count, 1, 0);
    real *logits = numbers(count * VOCAB);

    feed(pass, NULL, ids, count, logits);
    kvsi_pass_free(pass);
    return logits;
}

/* ---- chunks ---- */

/* Length of the next chunk, for each kind of split: single tokens, also across blocks of 64 keys;
 * fixed starts; random ones. */
static size_t next_chunk(size_t cut, size_t index, kvsi_random *random)
{
    static const size_t beginnings[][6] = {
        {0, LENGTH},       {1, 0, LENGTH},  {2, 1, 0, 0, 1, LENGTH},
        {1, 2, 3, LENGTH}, {64, 1, LENGTH}, {LENGTH - 1, 1},
    };

    if (cut == 0)
        return index % 21 == 20 ? 43 : 1;
    if (cut - 1 < sizeof beginnings / sizeof *beginnings)
        return beginnings[cut - 1][index < 6 ? index : 5];
    return kvsi_random_below(random, kvsi_random_below(random, 4) == 0 ? 80 : 5);
}

enum { CUTS = 12 };

static void compare_chunks(const kvs_model *model, const char *name, size_t length)
{
    int32_t ids[LENGTH];
    kvsi_pass *pass = support_pass(model, length, 1, 0);
    real *logits = numbers(length * VOCAB), *whole;
    kvsi_state state;

    support_fill_ids(ids, length, 3, VOCAB);
    whole = alone(model, ids, length);
    make_state(&state, model, length);
    for (size_t cut = 0; cut < CUTS; cut++) {
        kvsi_random random;

        kvsi_random_init(&random, 5, KVSI_RANDOM_DATA, cut);
        kvsi_state_reset(&state);
        for (size_t index = 0; state.length < length; index++) {
            const size_t at = state.length, left = length - at;
            const size_t wanted = next_chunk(cut, index, &random);
            const size_t count = wanted < left ? wanted : left;

            feed(pass, &state, ids + at, count, logits + at * VOCAB);
            assert_int_equal(state.length, at + count);
        }
        support_expect_close(logits, whole, length * VOCAB, LIMIT, "%s, cut %zu", name, cut);
    }
    kvsi_state_release(&state);
    kvsi_free(whole);
    kvsi_free(logits);
    kvsi_pass_free(pass);
}

static void check_chunks(const kvs_model *model, const char *name)
{
    compare_chunks(model, name, LENGTH);
}

static void check_short_chunks(const kvs_model *model, const char *name)
{
    compare_chunks(model, name, LENGTH / 5);
}

static void any_chunks_equal_one_pass(void **state)
{
    (void)state;
    for_each_model(check_chunks);
    for_each_shift(check_short_chunks);
}

static kvsi_span span_of(const kvsi_state *state, size_t layer)
{
    kvsi_span span = {0};

    kvsi_state_attach(&span, state, layer);
    return span;
}

static void zero_tails(const kvsi_state *state)
{
    const kvs_model_config *config = &state->model->config;
    kvsi_context c = state->model->context;

    for (size_t l = 0; l < config->layers; l++) {
        const kvsi_layer_shape shape = kvsi_layer_shape_of(config, l);
        const size_t heads = config->shift.window * shape.head_size, kv = heads * shape.kv_heads;
        const size_t filtered = config->filter_window * config->dim;
        const size_t counts[KVSI_TAILS] = {heads * shape.heads, kv, kv, filtered, filtered};
        const kvsi_span span = span_of(state, l);

        for (size_t i = 0; i < KVSI_TAILS; i++)
            if (span.tails[i])
                c.ops->zero(&c, span.tails[i], counts[i] * sizeof(real));
    }
}

/* Checks that the comparison above detects a state whose tails were lost. */
static void check_forgetting(const kvs_model *model, const char *name)
{
    enum { FIRST = 7, ALL = 12 };
    int32_t ids[ALL];
    kvsi_pass *pass = support_pass(model, ALL, 1, 0);
    real *logits = numbers(ALL * VOCAB), *whole;
    const unsigned targets = model->config.shift.targets, filters = model->config.filters;
    kvsi_state state;
    kvsi_span span;
    double error;

    support_fill_ids(ids, ALL, 4, VOCAB);
    whole = alone(model, ids, ALL);
    make_state(&state, model, ALL);
    span = span_of(&state, 0);
    assert_int_equal(span.tails[KVSI_TAIL_Q] != NULL, (targets & KVS_SHIFT_Q) != 0);
    assert_int_equal(span.tails[KVSI_TAIL_K] != NULL, (targets & KVS_SHIFT_K) != 0);
    assert_int_equal(span.tails[KVSI_TAIL_V] != NULL, (targets & KVS_SHIFT_V) != 0);
    assert_int_equal(span.tails[KVSI_TAIL_ATTENTION] != NULL,
                     (filters & KVSI_FILTER_ATTENTION) != 0);
    assert_int_equal(span.tails[KVSI_TAIL_MLP] != NULL, (filters & KVSI_FILTER_MLP) != 0);
    feed(pass, &state, ids, FIRST, logits);
    zero_tails(&state);
    feed(pass, &state, ids + FIRST, ALL - FIRST, logits + FIRST * VOCAB);
    error = support_error(logits, whole, ALL * VOCAB);
    if (targets || filters ? error < 1e-3 : error > LIMIT)
        fail_msg("%s: without its tails the logits change by %g", name, error);
    kvsi_state_release(&state);
    kvsi_free(whole);
    kvsi_free(logits);
    kvsi_pass_free(pass);
}

static void a_forgotten_tail_shows(void **state)
{
    (void)state;
    for_each_model(check_forgetting);
    for_each_shift(check_forgetting);
}

/* ---- contents of the state ---- */

/* One tensor in file order, newly allocated; NULL if the model has none of that name. */
static float *tensor(const kvs_model *model, const char *name)
{
    const kvsi_parameter *p = kvsi_layout_find(&model->layout, name);
    float *values;

    if (!p)
        return NULL;
    assert_non_null(values = kvsi_alloc(p->count, sizeof *values));
    assert_int_equal(kvs_model_read_tensor(values, p->count, model, name, NULL), KVS_OK);
    support_merge(values, model, p);
    return values;
}

/* The first layer's tensors that keys and values are computed from; NULL = absent. */
typedef struct first_layer {
    const kvs_model_config *config;
    kvsi_layer_shape shape;
    float *embed, *embed_gain, *embed_bias, *positions, *gain, *norm_bias;
    float *q, *k, *v;                /* Llama: [rows, DIM] each */
    float *qkv, *biases;             /* GPT-2: [DIM, qkv_width] and [qkv_width] */
    float *q_bias, *k_bias, *v_bias; /* Llama */
    float *k_norm;                   /* [kv_heads, head_size], as their norm uses them */
    float *k_shift, *v_shift;
} first_layer;

/* The gains of all key heads; NULL = there is no norm. */
static float *key_gains(const kvs_model *model)
{
    const kvsi_layer_shape shape = kvsi_layer_shape_of(&model->config, 0);
    const size_t d = shape.head_size;
    float *gains = kvsi_alloc(shape.kv_heads * d, sizeof *gains);

    assert_non_null(gains);
    for (size_t h = 0; h < shape.kv_heads; h++) {
        const int layer = model->config.qk_norm == KVSI_QK_NORM_LAYER;
        const int full = model->config.qk_norm == KVSI_QK_NORM_FULL;
        char name[80] = "model.layers.0.self_attn.k_norm.weight";
        float *part;

        if (layer)
            snprintf(name, sizeof name, "model.layers.0.self_attn.k_layernorm.norms.%zu.weight", h);
        part = tensor(model, name);
        if (!part) {
            kvsi_free(gains);
            return NULL;
        }
        memcpy(gains + h * d, part + (full ? h * d : 0), d * sizeof *gains);
        kvsi_free(part);
    }
    return gains;
}

static void open_layer(first_layer *l, const kvs_model *model)
{
    const int gpt2 = model->config.body == KVSI_BODY_GPT2;

    *l = (first_layer){
        .config = &model->config,
        .shape = kvsi_layer_shape_of(&model->config, 0),
        .embed = tensor(model, gpt2 ? "transformer.wte.weight" : "model.embed_tokens.weight"),
        .embed_gain = tensor(model, "model.embed_norm.weight"),
        .embed_bias = tensor(model, "model.embed_norm.bias"),
        .positions =
            tensor(model, gpt2 ? "transformer.wpe.weight" : "model.embed_positions.weight"),
        .gain = tensor(model, gpt2 ? "transformer.h.0.ln_1.weight"
                                   : "model.layers.0.input_layernorm.weight"),
        .norm_bias = tensor(model, gpt2 ? "transformer.h.0.ln_1.bias"
                                        : "model.layers.0.input_layernorm.bias"),
        .q = tensor(model, "model.layers.0.self_attn.q_proj.weight"),
        .k = tensor(model, "model.layers.0.self_attn.k_proj.weight"),
        .v = tensor(model, "model.layers.0.self_attn.v_proj.weight"),
        .qkv = tensor(model, "transformer.h.0.attn.c_attn.weight"),
        .biases = tensor(model, "transformer.h.0.attn.c_attn.bias"),
        .q_bias = tensor(model, "model.layers.0.self_attn.q_proj.bias"),
        .k_bias = tensor(model, "model.layers.0.self_attn.k_proj.bias"),
        .v_bias = tensor(model, "model.layers.0.self_attn.v_proj.bias"),
        .k_norm = key_gains(model),
        .k_shift = tensor(model, gpt2 ? "transformer.h.0.attn.k_shift"
                                      : "model.layers.0.self_attn.k_shift"),
        .v_shift = tensor(model, gpt2 ? "transformer.h.0.attn.v_shift"
                                      : "model.layers.0.self_attn.v_shift"),
    };
}

static void close_layer(first_layer *l)
{
    float *all[] = {l->embed,   l->embed_gain, l->embed_bias, l->positions, l->gain,   l->norm_bias,
                    l->q,       l->k,          l->v,          l->qkv,       l->biases, l->k_shift,
                    l->v_shift, l->q_bias,     l->k_bias,     l->v_bias,    l->k_norm};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        kvsi_free(all[i]);
}

/* x becomes its norm, if there is one. */
static void norm(double *x, const first_layer *l, const float *gain, const float *bias)
{
    const double offset = l->config->gain_offset ? 1 : 0;
    double mean = 0, squares = 0;

    for (size_t i = 0; bias && i < DIM; i++) /* RMSNorm leaves it in */
        mean += x[i] / DIM;
    for (size_t i = 0; i < DIM; i++)
        squares += (x[i] - mean) * (x[i] - mean);
    for (size_t i = 0; gain && i < DIM; i++) {
        x[i] = (x[i] - mean) / sqrt(squares / DIM + l->config->norm_eps);
        x[i] = x[i] * (offset + (double)gain[i]) + (bias ? (double)bias[i] : 0);
    }
}

/* The input of the layer's projections, from the definition: token and position, normalised. */
static void layer_input(double *x, const first_layer *l, int32_t id, size_t position)
{
    const double scale = l->config->embedding_scale > 0 ? l->config->embedding_scale : 1;

    for (size_t i = 0; i < DIM; i++)
        x[i] = scale * (double)l->embed[(size_t)id * DIM + i];
    norm(x, l, l->embed_gain, l->embed_bias);
    for (size_t i = 0; l->positions && i < DIM; i++)
        x[i] += (double)l->positions[position * DIM + i];
    norm(x, l, l->gain, l->norm_bias);
}

/* The raw projection of a token: it depends on the token and its position alone.  `target` is 'q',
 * 'k' or 'v'.  Returns the length of the row. */
static size_t raw_projection(real *out, const first_layer *l, char target, int32_t id,
                             size_t position)
{
    const size_t kv_row = l->shape.kv_heads * l->shape.head_size;
    const size_t q_row = l->shape.q_width, rows = target == 'q' ? q_row : kv_row;
    const size_t first = target == 'q' ? 0 : target == 'k' ? q_row : q_row + kv_row;
    const float *w = target == 'q' ? l->q : target == 'k' ? l->k : l->v;
    const float *bias = target == 'q' ? l->q_bias : target == 'k' ? l->k_bias : l->v_bias;
    double x[DIM];

    layer_input(x, l, id, position);
    for (size_t r = 0; r < rows; r++) {
        double sum = l->biases ? (double)l->biases[first + r] : bias ? (double)bias[r] : 0;

        for (size_t i = 0; i < DIM; i++)
            sum += x[i] * (double)(w ? w[r * DIM + i] : l->qkv[i * l->shape.qkv_width + first + r]);
        out[r] = (real)sum;
    }
    return rows;
}

/* The tail after `length` tokens: raw rows, oldest first, zeros before the start. */
static void check_tail(const first_layer *l, kvsi_context c, const real *tail, char target,
                       const int32_t *ids, size_t length, const char *name)
{
    const size_t window = l->config->shift.window;

    for (size_t j = 0; tail && j < window; j++) {
        real expected[WIDE], found[WIDE];
        const size_t row = raw_projection(expected, l, target, ids[0], 0);

        if (length + j >= window)
            raw_projection(expected, l, target, ids[length + j - window], length + j - window);
        else
            memset(expected, 0, sizeof expected);
        c.ops->download(&c, found, tail + j * row, row * sizeof *found);
        c.ops->sync(&c);
        support_expect_close(found, expected, row, LIMIT, "%s: row %zu of the %c tail after %zu",
                             name, j, target, length);
    }
}

/* The taps for the current token's K or V in one head: one per channel. */
static void current_taps(real *out, const first_layer *l, const float *learned, size_t head,
                         const double *x)
{
    const kvsi_shift_config *shift = &l->config->shift;
    const kvsi_form *form = kvsi_form_get(shift->form);
    const size_t size = l->shape.head_size, count = form->params(shift->window, size);
    real numbers[KVSI_TAPS_MAX * WIDE], taps[KVSI_TAPS_MAX * WIDE];
    double logit = 0;

    if (form->taps) {
        for (size_t i = 0; i < count; i++)
            numbers[i] = (real)learned[head * count + i];
        form->taps(taps, numbers, shift->window, size);
        memcpy(out, taps + shift->window * size, size * sizeof *out);
        return;
    }
    for (size_t i = 0; i < DIM; i++)
        logit += (double)learned[head * DIM + i] * x[i];
    for (size_t i = 0; i < size; i++)
        out[i] = (real)(1 - 1 / (1 + exp(-logit)));
}

/* The norm of a key, if the layer has one, and the scale of rotated vectors. */
static void finish_key(real *row, const first_layer *l)
{
    const size_t size = l->shape.head_size, all = l->shape.kv_heads * size;
    const size_t together = l->config->qk_norm == KVSI_QK_NORM_FULL ? all : size;
    const double scale = family_rotation_scale(l->config);
    const double offset = l->config->gain_offset ? 1 : 0;

    for (size_t from = 0; l->k_norm && from < all; from += together) {
        double mean = 0, squares = 0;

        for (size_t i = from; i < from + together; i++)
            mean += l->config->qk_norm == KVSI_QK_NORM_LAYER ? (double)row[i] / (double)size : 0;
        for (size_t i = from; i < from + together; i++)
            squares += ((double)row[i] - mean) * ((double)row[i] - mean);
        for (size_t i = from; i < from + together; i++)
            row[i] = (real)(((double)row[i] - mean) /
                            sqrt(squares / (double)together + l->config->norm_eps) *
                            (offset + (double)l->k_norm[i]));
    }
    for (size_t i = 0; scale > 1 && i < all; i++)
        row[i] = (real)((double)row[i] * scale);
}

/* The cache of the first token: its raw row times the current tap, because there is no token before
 * it and position 0 does not rotate. */
static void check_first_entry(const first_layer *l, kvsi_context c, const kvsi_span *span,
                              char target, int32_t id, const char *name)
{
    const size_t size = l->shape.head_size;
    const real *cache = target == 'k' ? span->k : span->v;
    const int shifted = (l->config->shift.targets & (unsigned)(target == 'k' ? K : V)) != 0;
    real expected[WIDE], found[WIDE], taps[WIDE];
    double x[DIM];

    layer_input(x, l, id, 0);
    raw_projection(expected, l, target, id, 0);
    for (size_t h = 0; h < l->shape.kv_heads; h++) {
        if (shifted)
            current_taps(taps, l, target == 'k' ? l->k_shift : l->v_shift, h, x);
        for (size_t i = 0; shifted && i < size; i++)
            expected[h * size + i] *= taps[i];
    }
    if (target == 'k')
        finish_key(expected, l);
    for (size_t h = 0; h < l->shape.kv_heads; h++) {
        c.ops->download(&c, found, cache + h * span->capacity * size, size * sizeof *found);
        c.ops->sync(&c);
        support_expect_close(found, expected + h * size, size, LIMIT, "%s: first %c of head %zu",
                             name, target, h);
    }
}

static void check_contents(const kvs_model *model, const char *name)
{
    enum { ALL = 10 };
    static const size_t chunks[] = {0, 1, 1, 0, 2, 5, 1};
    const kvsi_context c = model->context;
    int32_t ids[ALL];
    kvsi_pass *pass = support_pass(model, ALL, 1, 0);
    real *logits = numbers(ALL * VOCAB);
    kvsi_state state;
    first_layer layer;
    kvsi_span span;

    support_fill_ids(ids, ALL, 6, VOCAB);
    open_layer(&layer, model);
    make_state(&state, model, ALL);
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
        feed(pass, &state, ids + state.length, chunks[i], logits);
        span = span_of(&state, 0);
        check_tail(&layer, c, span.tails[KVSI_TAIL_Q], 'q', ids, state.length, name);
        check_tail(&layer, c, span.tails[KVSI_TAIL_K], 'k', ids, state.length, name);
        check_tail(&layer, c, span.tails[KVSI_TAIL_V], 'v', ids, state.length, name);
    }
    assert_int_equal(state.length, ALL);
    span = span_of(&state, 0);
    check_first_entry(&layer, c, &span, 'k', ids[0], name);
    check_first_entry(&layer, c, &span, 'v', ids[0], name);
    kvsi_state_release(&state);
    close_layer(&layer);
    kvsi_free(logits);
    kvsi_pass_free(pass);
}

static void tails_are_raw_and_first_tokens_alone(void **state)
{
    (void)state;
    for_each_model(check_contents);
    for_each_shift(check_contents);
}

/* ---- batches ---- */

static const size_t starts[] = {0, 1, 3, 100, 100, 130}; /* lengths 1, 2, 97, 0, 30 */
enum { SEQUENCES = sizeof starts / sizeof *starts - 1, TOKENS = 130 };

static kvs_batch make_batch(int32_t *ids, int32_t *targets)
{
    support_fill_ids(ids, TOKENS, 8, VOCAB);
    support_fill_ids(targets, TOKENS, 9, VOCAB);
    for (size_t t = 4; t < TOKENS; t += 3)
        targets[t] = -1;
    return (kvs_batch){.sequences = SEQUENCES, .starts = starts, .ids = ids, .targets = targets};
}

/* The first token of a sequence gives the same logits as alone. */
static void check_first_rows(const kvs_model *model, const real *logits, const int32_t *ids,
                             const char *name)
{
    for (size_t s = 0; s < SEQUENCES; s++) {
        real *expected;

        if (starts[s] == starts[s + 1])
            continue;
        expected = alone(model, ids + starts[s], 1);
        support_expect_close(logits + starts[s] * VOCAB, expected, VOCAB, LIMIT,
                             "%s: first row of sequence %zu", name, s);
        kvsi_free(expected);
    }
}

static void check_ragged(const kvs_model *model, const char *name)
{
    int32_t ids[TOKENS], targets[TOKENS];
    const kvs_batch batch = make_batch(ids, targets);
    const size_t total = kvsi_layout_total(&model->layout);
    support_result together = support_train(model, &batch, NULL);
    real *gradients = numbers(total);
    double loss = 0;

    check_first_rows(model, together.logits, ids, name);
    for (size_t s = 0; s < SEQUENCES; s++) {
        const size_t at = starts[s], own[] = {0, starts[s + 1] - at};
        const kvs_batch one = {
            .sequences = 1, .starts = own, .ids = ids + at, .targets = targets + at};
        support_result result = support_train(model, &one, NULL);

        support_expect_close(together.logits + at * VOCAB, result.logits, own[1] * VOCAB, LIMIT,
                             "%s: logits of sequence %zu", name, s);
        loss += result.loss;
        for (size_t i = 0; i < total; i++)
            gradients[i] += result.gradients[i];
        support_result_release(&result);
    }
    if (!(fabs(together.loss - loss) <= LIMIT * loss))
        fail_msg("%s: loss %.9g, its sequences alone have %.9g", name, together.loss, loss);
    for (size_t i = 0; i < model->layout.count; i++) {
        const kvsi_parameter *p = &model->layout.list[i];

        support_expect_close(together.gradients + p->offset, gradients + p->offset, p->count, LIMIT,
                             "%s: gradient of %s", name, p->name);
    }
    kvsi_free(gradients);
    support_result_release(&together);
}

static void a_ragged_batch_equals_its_sequences_alone(void **state)
{
    (void)state;
    for_each_model(check_ragged);
}

/* Changes one token of sequence 2 and compares the others' logits bit by bit. */
static void check_neighbours(const kvs_model *model, const char *name)
{
    int32_t ids[TOKENS], targets[TOKENS];
    const kvs_batch batch = make_batch(ids, targets);
    const size_t changed[] = {starts[2], starts[3] - 1}; /* its first and last token */
    kvsi_pass *pass = support_pass(model, TOKENS, SEQUENCES, 0);
    real *before = numbers(TOKENS * VOCAB), *after = numbers(TOKENS * VOCAB);

    support_run(pass, &batch, NULL, before);
    for (size_t i = 0; i < sizeof changed / sizeof *changed; i++) {
        const size_t first = starts[2] * VOCAB, last = starts[3] * VOCAB;
        const size_t row = changed[i] * VOCAB;

        ids[changed[i]] = (ids[changed[i]] + 1) % VOCAB;
        support_run(pass, &batch, NULL, after);
        if (support_error(after + row, before + row, VOCAB) < 1e-3)
            fail_msg("%s: another token gives the same logits", name);
        if (memcmp(after, before, first * sizeof *after) != 0 ||
            memcmp(after + last, before + last, (TOKENS * VOCAB - last) * sizeof *after) != 0)
            fail_msg("%s: token %zu changes another sequence", name, changed[i]);
    }
    kvsi_free(before);
    kvsi_free(after);
    kvsi_pass_free(pass);
}

static void sequences_do_not_touch_each_other(void **state)
{
    (void)state;
    for_each_model(check_neighbours);
}

/* Four sequences at different lengths, continued in one pass, then in another. */
static void check_batched_decoding(const kvs_model *model, const char *name)
{
    enum { COUNT = 4, ROUNDS = 3, LONGEST = 80 };
    static const size_t prompts[COUNT] = {0, 1, 2, 70};
    static const size_t rounds[ROUNDS][COUNT] = {{1, 1, 1, 1}, {3, 0, 1, 2}, {1, 1, 2, 1}};
    kvsi_pass *pass = support_pass(model, LONGEST, COUNT, 0);
    kvsi_state states[COUNT], *all[COUNT];
    int32_t ids[COUNT][LONGEST], row[LONGEST];
    real *expected[COUNT], *logits = numbers(LONGEST * VOCAB);

    for (size_t s = 0; s < COUNT; s++) {
        support_fill_ids(ids[s], LONGEST, 20 + s, VOCAB);
        expected[s] = alone(model, ids[s], LONGEST);
        make_state(&states[s], model, LONGEST);
        all[s] = &states[s];
        feed(pass, &states[s], ids[s], prompts[s], logits);
    }
    for (size_t r = 0; r < ROUNDS; r++) {
        size_t at[COUNT + 1] = {0}, past[COUNT];
        const kvs_batch batch = {.sequences = COUNT, .starts = at, .ids = row};

        for (size_t s = 0; s < COUNT; s++) {
            past[s] = states[s].length;
            at[s + 1] = at[s] + rounds[r][s];
            memcpy(row + at[s], ids[s] + past[s], rounds[r][s] * sizeof *row);
        }
        support_run(pass, &batch, all, logits);
        for (size_t s = 0; s < COUNT; s++)
            support_expect_close(logits + at[s] * VOCAB, expected[s] + past[s] * VOCAB,
                                 rounds[r][s] * VOCAB, LIMIT, "%s: sequence %zu, round %zu", name,
                                 s, r);
    }
    for (size_t s = 0; s < COUNT; s++) {
        kvsi_state_release(&states[s]);
        kvsi_free(expected[s]);
    }
    kvsi_free(logits);
    kvsi_pass_free(pass);
}

static void states_decoded_together_equal_each_alone(void **state)
{
    (void)state;
    for_each_model(check_batched_decoding);
}

/* ---- identity ---- */

/* Adds a shift to a plain model: its weights are kept, the shift has its initial ones. */
static kvs_model *retrofit(kvs_runtime *rt, const kvs_model *plain, const kvsi_shift_config *shift)
{
    kvs_model_config config = plain->config;
    kvs_model *model;
    const char *name;
    size_t count;

    config.shift = *shift;
    assert_int_equal(kvs_model_create(&model, rt, &config, 1, NULL), KVS_OK);
    for (size_t i = 0; (name = kvs_model_tensor_name(plain, i, &count)); i++) {
        float *values = tensor(plain, name);

        assert_int_equal(kvs_model_write_tensor(model, name, values, count, NULL), KVS_OK);
        kvsi_free(values);
    }
    return model;
}

static void expect_same_bits(const kvs_model *shifted, const support_result *found,
                             const kvs_model *plain, const support_result *expected,
                             const char *name)
{
    if (memcmp(found->logits, expected->logits, TOKENS * VOCAB * sizeof *found->logits) != 0)
        fail_msg("%s: logits differ", name);
    if (memcmp(&found->loss, &expected->loss, sizeof found->loss) != 0)
        fail_msg("%s: loss %.17g, expected %.17g", name, found->loss, expected->loss);
    for (size_t i = 0; i < plain->layout.count; i++) {
        const kvsi_parameter *p = &plain->layout.list[i];
        const kvsi_parameter *q = kvsi_layout_find(&shifted->layout, p->name);

        assert_non_null(q);
        if (memcmp(found->gradients + q->offset, expected->gradients + p->offset,
                   p->count * sizeof(real)) != 0)
            fail_msg("%s: gradients of %s differ", name, p->name);
    }
}

static void check_retrofit(kvs_runtime *rt, const kvs_model *plain, const kvsi_shift_config *shift,
                           const kvs_batch *batch, const support_result *expected)
{
    kvs_model *model = retrofit(rt, plain, shift);
    support_result result = support_train(model, batch, NULL);
    char name[128];

    snprintf(name, sizeof name, "%s, %s %s %s window %zu", kvs_runtime_cpu_level(rt),
             kvsi_body_name(plain->config.body), kvsi_shift_targets_name(shift->targets),
             kvsi_shift_form_name(shift->form), shift->window);
    assert_true(model->layout.count > plain->layout.count);
    expect_same_bits(model, &result, plain, expected, name);
    support_result_release(&result);
    kvs_model_free(model);
}

/* A form that can be the identity, with every window. */
static void check_identity_form(kvs_runtime *rt, const kvs_model *plain, kvsi_shift_form form,
                                const kvs_batch *batch, const support_result *expected)
{
    static const unsigned targets[] = {KV, QKV};

    for (size_t window = 1; window <= kvsi_form_get(form)->window_max; window++)
        for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
            const kvsi_shift_config shift = {.targets = targets[i],
                                             .form = form,
                                             .init = KVSI_SHIFT_INIT_IDENTITY,
                                             .window = window};

            check_retrofit(rt, plain, &shift, batch, expected);
        }
}

static void check_identity(kvs_runtime *rt)
{
    static const kvs_model_config plain_models[] = {
        {.kv_heads = 2},
        {.positions = KVSI_POSITIONS_ALIBI,
         .kv_heads = 2,
         .sliding_window = 9,
         .sliding_layers = 1 << 1,
         .sliding_heads = 2,
         .sliding_kv_heads = 1},
        {.body = KVSI_BODY_GPT2, .positions = KVSI_POSITIONS_LEARNED, .kv_heads = 2},
    };
    int32_t ids[TOKENS], targets[TOKENS];
    const kvs_batch batch = make_batch(ids, targets);

    for (size_t i = 0; i < sizeof plain_models / sizeof *plain_models; i++) {
        kvs_model *plain = make_model(rt, &plain_models[i]);
        support_result expected = support_train(plain, &batch, NULL);

        check_identity_form(rt, plain, KVSI_SHIFT_FREE, &batch, &expected);
        check_identity_form(rt, plain, KVSI_SHIFT_CLAMP, &batch, &expected);
        check_identity_form(rt, plain, KVSI_SHIFT_CHANNEL, &batch, &expected);
        support_result_release(&expected);
        kvs_model_free(plain);
    }
}

static void identity_equals_no_shift_bit_for_bit(void **state)
{
    (void)state;
    for_each_level(check_identity);
}

/* ---- refusals ---- */

/* Loads one more token for the first state and `more` for the second, which must be refused. */
static void expect_refusal(kvsi_pass *pass, kvsi_state *const *states, const int32_t *ids,
                           size_t more, kvs_status status, const char *first, const char *second)
{
    const size_t at[] = {0, 1, 1 + more};
    const kvs_batch batch = {.sequences = 2, .starts = at, .ids = ids};
    kvs_err err = {0};

    assert_int_equal(kvsi_pass_load(pass, &batch, states, &err), status);
    assert_int_equal(err.status, status);
    if (!strstr(err.message, first) || !strstr(err.message, second))
        fail_msg("'%s' does not name %s and %s", err.message, first, second);
}

static void check_refusals(const kvs_model *model, const char *name)
{
    enum { ALL = 13, CAPACITY = 11, FIRST = 9 };
    int32_t ids[ALL], wrong[2];
    kvsi_pass *pass = support_pass(model, ALL, 2, 0);
    real *logits = numbers(ALL * VOCAB), *expected;
    kvsi_state states[2], *both[] = {&states[0], &states[1]};

    support_fill_ids(ids, ALL, 30, VOCAB);
    expected = alone(model, ids, ALL);
    for (size_t s = 0; s < 2; s++) {
        make_state(both[s], model, CAPACITY);
        feed(pass, both[s], ids, FIRST, logits);
    }
    expect_refusal(pass, both, ids, 3, KVS_E_LIMIT, "12", "11");
    wrong[0] = ids[FIRST];
    wrong[1] = -1;
    expect_refusal(pass, both, wrong, 1, KVS_E_INVALID, "-1", "18");
    wrong[1] = VOCAB;
    expect_refusal(pass, both, wrong, 1, KVS_E_INVALID, "19", "18");
    for (size_t s = 0; s < 2; s++) { /* both continue to the end as if nothing had happened */
        assert_int_equal(states[s].length, FIRST);
        feed(pass, both[s], ids + FIRST, CAPACITY - FIRST, logits);
        support_expect_close(logits, expected + FIRST * VOCAB, (CAPACITY - FIRST) * VOCAB, LIMIT,
                             "%s: after a refusal", name);
        kvsi_state_release(both[s]);
    }
    kvsi_free(expected);
    kvsi_free(logits);
    kvsi_pass_free(pass);
}

static void a_refused_chunk_changes_nothing(void **state)
{
    (void)state;
    for_each_model(check_refusals);
}

static void sequences_longer_than_the_context_are_refused(void **state)
{
    static const int32_t ids[CONTEXT + 1];
    const size_t at[] = {0, CONTEXT + 1};
    const kvs_batch batch = {.sequences = 1, .starts = at, .ids = ids};
    kvs_runtime *rt = support_runtime("reference");
    kvs_model *model = make_model(rt, &(kvs_model_config){.kv_heads = 2});
    kvsi_pass *pass = support_pass(model, CONTEXT + 1, 1, 0);
    kvsi_state too_long;
    kvs_err err;

    (void)state;
    assert_int_equal(kvsi_pass_load(pass, &batch, NULL, &err), KVS_E_LIMIT);
    assert_non_null(strstr(err.message, "161"));
    assert_non_null(strstr(err.message, "160"));
    assert_int_equal(kvsi_state_init(&too_long, model, CONTEXT + 1, KVSI_REAL_TYPE, &err),
                     KVS_E_LIMIT);
    assert_non_null(strstr(err.message, "161"));
    assert_non_null(strstr(err.message, "160"));
    kvsi_pass_free(pass);
    kvs_model_free(model);
    kvs_runtime_free(rt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_chunks_equal_one_pass),
        cmocka_unit_test(a_forgotten_tail_shows),
        cmocka_unit_test(tails_are_raw_and_first_tokens_alone),
        cmocka_unit_test(a_ragged_batch_equals_its_sequences_alone),
        cmocka_unit_test(sequences_do_not_touch_each_other),
        cmocka_unit_test(states_decoded_together_equal_each_alone),
        cmocka_unit_test(identity_equals_no_shift_bit_for_bit),
        cmocka_unit_test(a_refused_chunk_changes_nothing),
        cmocka_unit_test(sequences_longer_than_the_context_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
