/* A sequence gives the same logits however it is cut into chunks and whatever runs beside it; the
 * state between chunks holds the raw rows that the shift looks back on, and nothing leaks. */
#include "base/memory.h"
#include "base/random.h"
#include "kernels/forms.h"
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { VOCAB = 19, CONTEXT = 160, LENGTH = 150 }; /* longer than any block of keys */

static const double LIMIT = 1e-5; /* float rounding, relative to the largest number */

/* ---- the models: every variant on every CPU level ---- */

enum {
    K = KVS_SHIFT_K,
    V = KVS_SHIFT_V,
    KV = KVS_SHIFT_K | KVS_SHIFT_V,
    QKV = KVS_SHIFT_K | KVS_SHIFT_V | KVS_SHIFT_Q
};

typedef struct variant {
    const char *name;
    unsigned targets;
    kvs_shift_form form;
    size_t window, dim, heads, kv_heads;
} variant;

static const variant variants[] = {
    {"none", 0, KVS_SHIFT_FREE, 1, 24, 4, 2},
    {"k", K, KVS_SHIFT_FREE, 1, 24, 4, 2},
    {"v", V, KVS_SHIFT_FREE, 1, 24, 4, 2},
    {"kv", KV, KVS_SHIFT_FREE, 1, 24, 4, 4},
    {"kv grouped", KV, KVS_SHIFT_FREE, 1, 24, 4, 2},
    {"kv, one kv head of 24", KV, KVS_SHIFT_FREE, 1, 48, 2, 1},
    {"qkv", QKV, KVS_SHIFT_FREE, 1, 24, 4, 2},
    {"gate", KV, KVS_SHIFT_GATE, 1, 24, 4, 2},
    {"clamp", KV, KVS_SHIFT_CLAMP, 1, 24, 4, 2},
    {"kv window 2", KV, KVS_SHIFT_FREE, 2, 24, 4, 2},
    {"qkv window 3", QKV, KVS_SHIFT_FREE, 3, 24, 4, 2},
};

static kvs_model *make_model(kvs_runtime *rt, const variant *v)
{
    kvs_model_config config;

    kvs_model_config_init(&config);
    config.vocab = VOCAB;
    config.dim = v->dim;
    config.layers = 2;
    config.heads = v->heads;
    config.kv_heads = v->kv_heads;
    config.ffn = 40;
    config.context = CONTEXT;
    config.shift.targets = v->targets;
    config.shift.form = v->form;
    config.shift.window = v->window;
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

static void for_each_model(void (*check)(const kvs_model *model, const char *name))
{
    for (size_t l = 0; support_level(l); l++) {
        kvs_runtime *rt = support_runtime(support_level(l));

        for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
            kvs_model *model = make_model(rt, &variants[i]);
            char name[64];

            snprintf(name, sizeof name, "%s, %s", support_level(l), variants[i].name);
            check(model, name);
            kvs_model_free(model);
        }
        kvs_runtime_free(rt);
    }
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
    assert_int_equal(kvsi_state_init(state, model, capacity, NULL), KVS_OK);
}

/* `count` tokens behind those that the state holds; state NULL = a fresh sequence. */
static void feed(kvsi_pass *pass, kvsi_state *state, const int32_t *ids, size_t count, real *logits)
{
    const size_t starts[] = {0, count};
    const kvs_batch batch = {.sequences = 1, .starts = starts, .ids = ids};

    support_run(pass, &batch, state ? &state : NULL, logits);
}

/* Logits of a sequence run alone, in one go. */
static real *alone(const kvs_model *model, const int32_t *ids, size_t count)
{
    kvsi_pass *pass = support_pass(model, count, 1, 0);
    real *logits = numbers(count * VOCAB);

    feed(pass, NULL, ids, count, logits);
    kvsi_pass_free(pass);
    return logits;
}

/* ---- chunks ---- */

/* How long the next chunk is, for a way of cutting: fixed beginnings, then random ones. */
static size_t next_chunk(size_t cut, size_t index, kvsi_random *random)
{
    static const size_t beginnings[][6] = {
        {1, 1, 1, 1, 1, 1}, /* and so on, one token at a time */
        {0, LENGTH},        {1, 0, LENGTH},  {2, 1, 0, 0, 1, LENGTH},
        {1, 2, 3, LENGTH},  {64, 1, LENGTH}, {LENGTH - 1, 1},
    };

    if (cut < sizeof beginnings / sizeof *beginnings)
        return beginnings[cut][index < 6 ? index : 5];
    return kvsi_random_below(random, kvsi_random_below(random, 4) == 0 ? 80 : 5);
}

enum { CUTS = 15 };

static void check_chunks(const kvs_model *model, const char *name)
{
    int32_t ids[LENGTH];
    kvsi_pass *pass = support_pass(model, LENGTH, 1, 0);
    real *logits = numbers(LENGTH * VOCAB), *whole;
    kvsi_state state;

    support_fill_ids(ids, LENGTH, 3, VOCAB);
    whole = alone(model, ids, LENGTH);
    make_state(&state, model, LENGTH);
    for (size_t cut = 0; cut < CUTS; cut++) {
        kvsi_random random;

        kvsi_random_init(&random, 5, KVSI_RANDOM_DATA, cut);
        kvsi_state_reset(&state);
        for (size_t index = 0; state.length < LENGTH; index++) {
            const size_t at = state.length, left = LENGTH - at;
            const size_t wanted = next_chunk(cut, index, &random);
            const size_t count = wanted < left ? wanted : left;

            feed(pass, &state, ids + at, count, logits + at * VOCAB);
            assert_int_equal(state.length, at + count);
        }
        support_expect_close(logits, whole, LENGTH * VOCAB, LIMIT, "%s, cut %zu", name, cut);
    }
    kvsi_state_release(&state);
    kvsi_free(whole);
    kvsi_free(logits);
    kvsi_pass_free(pass);
}

static void any_chunks_equal_one_pass(void **state)
{
    (void)state;
    for_each_model(check_chunks);
}

static void zero_tails(kvsi_state *state)
{
    const kvs_model_config *c = &state->model->config;
    const size_t rows = c->layers * c->shift.window * sizeof(real);
    const size_t kv_row = c->kv_heads * (c->dim / c->heads);
    kvsi_context context = state->model->context;

    if (state->tail_q)
        context.ops->zero(&context, state->tail_q, rows * c->dim);
    if (state->tail_k)
        context.ops->zero(&context, state->tail_k, rows * kv_row);
    if (state->tail_v)
        context.ops->zero(&context, state->tail_v, rows * kv_row);
}

/* Shows that the comparison above sees a state that forgets. */
static void check_forgetting(const kvs_model *model, const char *name)
{
    enum { FIRST = 7, ALL = 12 };
    int32_t ids[ALL];
    kvsi_pass *pass = support_pass(model, ALL, 1, 0);
    real *logits = numbers(ALL * VOCAB), *whole;
    const unsigned targets = model->config.shift.targets;
    kvsi_state state;
    double error;

    support_fill_ids(ids, ALL, 4, VOCAB);
    whole = alone(model, ids, ALL);
    make_state(&state, model, ALL);
    assert_int_equal(state.tail_q != NULL, (targets & KVS_SHIFT_Q) != 0);
    assert_int_equal(state.tail_k != NULL, (targets & KVS_SHIFT_K) != 0);
    assert_int_equal(state.tail_v != NULL, (targets & KVS_SHIFT_V) != 0);
    feed(pass, &state, ids, FIRST, logits);
    zero_tails(&state);
    feed(pass, &state, ids + FIRST, ALL - FIRST, logits + FIRST * VOCAB);
    error = support_error(logits, whole, ALL * VOCAB);
    if (targets ? error < 1e-3 : error > LIMIT)
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
}

/* ---- what the state holds ---- */

static float *tensor(const kvs_model *model, const char *name, size_t *count)
{
    const kvsi_parameter *p = kvsi_layout_find(&model->layout, name);
    float *values;

    assert_non_null(p);
    assert_non_null(values = kvsi_alloc(p->count, sizeof *values));
    assert_int_equal(kvs_model_read_tensor(model, name, values, p->count, NULL), KVS_OK);
    *count = p->count;
    return values;
}

/* The first layer's raw projection of a token, from the definition: it depends on the token alone.
 * `target` is 'q', 'k' or 'v'.  Returns the length of the row. */
static size_t raw_projection(real *out, const kvs_model *model, char target, int32_t id)
{
    const size_t dim = model->config.dim;
    size_t embeds, gains, weights, rows;
    char name[KVSI_NAME_SIZE];
    float *embed = tensor(model, "model.embed_tokens.weight", &embeds);
    float *gain = tensor(model, "model.layers.0.input_layernorm.weight", &gains), *w;
    const float *x = embed + (size_t)id * dim;
    double squares = 0;

    snprintf(name, sizeof name, "model.layers.0.self_attn.%c_proj.weight", target);
    w = tensor(model, name, &weights);
    rows = weights / dim;
    for (size_t i = 0; i < dim; i++)
        squares += (double)x[i] * (double)x[i];
    for (size_t r = 0; r < rows; r++) {
        double sum = 0;
        for (size_t i = 0; i < dim; i++)
            sum += (double)w[r * dim + i] * (double)x[i] * (double)gain[i];
        out[r] = (real)(sum / sqrt(squares / (double)dim + model->config.norm_eps));
    }
    kvsi_free(embed);
    kvsi_free(gain);
    kvsi_free(w);
    return rows;
}

enum { ROW_MAX = 48 };

/* The first layer's tail after `length` tokens: raw rows, oldest first, zeros before the start. */
static void check_tail(const kvs_model *model, const real *tail, char target, const int32_t *ids,
                       size_t length, const char *name)
{
    const size_t window = model->config.shift.window;
    kvsi_context c = model->context;

    for (size_t j = 0; tail && j < window; j++) {
        real expected[ROW_MAX], found[ROW_MAX];
        const size_t row = raw_projection(expected, model, target, ids[0]);

        if (length + j >= window)
            raw_projection(expected, model, target, ids[length + j - window]);
        else
            memset(expected, 0, sizeof expected);
        c.ops->download(&c, found, tail + j * row, row * sizeof *found);
        c.ops->sync(&c);
        support_expect_close(found, expected, row, LIMIT, "%s: row %zu of the %c tail after %zu",
                             name, j, target, length);
    }
}

/* What the first layer multiplies the current token's K or V with, in one head. */
static real current_tap(const kvs_model *model, char target, size_t head)
{
    const kvs_shift_config *shift = &model->config.shift;
    const kvsi_form *form = kvsi_form_get(shift->form);
    const size_t per_head = form->numbers(shift->window);
    real learned[KVSI_TAPS_MAX], taps[KVSI_TAPS_MAX];
    char name[KVSI_NAME_SIZE];
    size_t count;
    float *values;

    if (!(shift->targets & (unsigned)(target == 'k' ? KVS_SHIFT_K : KVS_SHIFT_V)))
        return 1;
    snprintf(name, sizeof name, "model.layers.0.self_attn.%c_shift", target);
    values = tensor(model, name, &count);
    for (size_t i = 0; i < per_head; i++)
        learned[i] = (real)values[head * per_head + i];
    kvsi_free(values);
    form->taps(taps, learned, shift->window);
    return taps[shift->window];
}

/* The first layer's cache of the first token: its own raw row times the current tap, for nothing
 * came before it, and position 0 does not rotate. */
static void check_first_entry(const kvs_model *model, const real *cache, size_t capacity,
                              char target, int32_t id, const char *name)
{
    const size_t d = model->config.dim / model->config.heads;
    kvsi_context c = model->context;
    real expected[ROW_MAX], found[ROW_MAX];

    raw_projection(expected, model, target, id);
    for (size_t h = 0; h < model->config.kv_heads; h++) {
        const real tap = current_tap(model, target, h);

        for (size_t i = 0; i < d; i++)
            expected[h * d + i] *= tap;
        c.ops->download(&c, found, cache + h * capacity * d, d * sizeof *found);
        c.ops->sync(&c);
        support_expect_close(found, expected + h * d, d, LIMIT, "%s: first %c of head %zu", name,
                             target, h);
    }
}

static void check_contents(const kvs_model *model, const char *name)
{
    enum { ALL = 10 };
    static const size_t chunks[] = {0, 1, 1, 0, 2, 5, 1};
    int32_t ids[ALL];
    kvsi_pass *pass = support_pass(model, ALL, 1, 0);
    real *logits = numbers(ALL * VOCAB);
    kvsi_state state;

    support_fill_ids(ids, ALL, 6, VOCAB);
    make_state(&state, model, ALL);
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
        feed(pass, &state, ids + state.length, chunks[i], logits);
        check_tail(model, state.tail_q, 'q', ids, state.length, name);
        check_tail(model, state.tail_k, 'k', ids, state.length, name);
        check_tail(model, state.tail_v, 'v', ids, state.length, name);
    }
    assert_int_equal(state.length, ALL);
    check_first_entry(model, state.k, state.capacity, 'k', ids[0], name);
    check_first_entry(model, state.v, state.capacity, 'v', ids[0], name);
    kvsi_state_release(&state);
    kvsi_free(logits);
    kvsi_pass_free(pass);
}

static void tails_are_raw_and_first_tokens_alone(void **state)
{
    (void)state;
    for_each_model(check_contents);
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

/* Nothing comes before the first token of a sequence: it might as well be the only one. */
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
    support_result together = support_train(model, &batch);
    real *gradients = numbers(total);
    double loss = 0;

    check_first_rows(model, together.logits, ids, name);
    for (size_t s = 0; s < SEQUENCES; s++) {
        const size_t at = starts[s], own[] = {0, starts[s + 1] - at};
        const kvs_batch one = {
            .sequences = 1, .starts = own, .ids = ids + at, .targets = targets + at};
        support_result result = support_train(model, &one);

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

/* Changes one token of sequence 2 and looks at the others' logits, bit by bit. */
static void check_neighbours(const kvs_model *model, const char *name)
{
    int32_t ids[TOKENS], targets[TOKENS];
    const kvs_batch batch = make_batch(ids, targets);
    const size_t changed[] = {starts[2], starts[3] - 1}; /* each end of it */
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

/* Current tap 1, all others 0. */
static void set_identity(kvs_model *model)
{
    const size_t taps = model->config.shift.window + 1;

    for (size_t i = 0; i < model->layout.count; i++) {
        const kvsi_parameter *p = &model->layout.list[i];
        float values[64] = {0};

        if (p->group != KVSI_SHIFTS)
            continue;
        for (size_t j = taps - 1; j < p->count; j += taps)
            values[j] = 1;
        assert_int_equal(kvs_model_write_tensor(model, p->name, values, p->count, NULL), KVS_OK);
    }
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

static void check_identity(kvs_runtime *rt)
{
    static const unsigned shifted[] = {KV, QKV};
    int32_t ids[TOKENS], targets[TOKENS];
    const kvs_batch batch = make_batch(ids, targets);
    kvs_model *plain = make_model(rt, &variants[0]);
    support_result expected = support_train(plain, &batch);

    for (size_t window = 1; window <= KVS_SHIFT_WINDOW_MAX; window++)
        for (size_t i = 0; i < sizeof shifted / sizeof *shifted; i++) {
            variant v = variants[0];
            kvs_model *model;
            support_result result;
            char name[64];

            v.targets = shifted[i];
            v.window = window;
            model = make_model(rt, &v);
            set_identity(model);
            result = support_train(model, &batch);
            snprintf(name, sizeof name, "%s, %s, window %zu", kvs_runtime_cpu_level(rt),
                     kvs_shift_targets_name(v.targets), window);
            expect_same_bits(model, &result, plain, &expected, name);
            support_result_release(&result);
            kvs_model_free(model);
        }
    support_result_release(&expected);
    kvs_model_free(plain);
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
    for (size_t s = 0; s < 2; s++) { /* both go on as if nothing had been asked, to the very end */
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
    kvs_model *model = make_model(rt, &variants[0]);
    kvsi_pass *pass = support_pass(model, CONTEXT + 1, 1, 0);
    kvsi_state too_long;
    kvs_err err;

    (void)state;
    assert_int_equal(kvsi_pass_load(pass, &batch, NULL, &err), KVS_E_LIMIT);
    assert_non_null(strstr(err.message, "161"));
    assert_non_null(strstr(err.message, "160"));
    assert_int_equal(kvsi_state_init(&too_long, model, CONTEXT + 1, &err), KVS_E_LIMIT);
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
