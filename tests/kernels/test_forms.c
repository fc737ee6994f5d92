/* The forms of the shift, their initial taps, and which of them a model's configuration takes. */
#include "kernels/forms.h"
#include "support.h"

#include <math.h>
#include <string.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof *(a))

/* ---- initial taps ---- */

enum { DRAWS = 200 };

static void draw(double *taps, size_t window, kvsi_shift_init init, uint64_t index)
{
    kvsi_random random;

    kvsi_random_init(&random, 1, KVSI_RANDOM_INIT, index);
    kvsi_taps_draw(taps, window, init, &random);
}

/* All but the oldest tap lie in [0, 1); over many draws they fill it. */
static void uniform_taps_sum_to_one(void **state)
{
    (void)state;
    for (size_t window = 1; window <= KVSI_SHIFT_WINDOW_MAX; window++) {
        double least = 1, most = 0;

        for (uint64_t i = 0; i < DRAWS; i++) {
            double taps[KVSI_TAPS_MAX], sum = 0;

            draw(taps, window, KVSI_SHIFT_INIT_UNIFORM, i);
            for (size_t j = 0; j <= window; j++)
                sum += taps[j];
            assert_true(fabs(sum - 1) < 1e-15 * (double)(window + 1));
            for (size_t j = 1; j <= window; j++) {
                assert_true(taps[j] >= 0 && taps[j] < 1);
                least = fmin(least, taps[j]);
                most = fmax(most, taps[j]);
            }
        }
        assert_true(least < 0.05 && most > 0.95);
    }
}

static void softmax_taps_are_positive_and_sum_to_one(void **state)
{
    (void)state;
    for (size_t window = 1; window <= KVSI_SHIFT_WINDOW_MAX; window++) {
        double means[KVSI_TAPS_MAX] = {0};

        for (uint64_t i = 0; i < DRAWS; i++) {
            double taps[KVSI_TAPS_MAX], sum = 0;

            draw(taps, window, KVSI_SHIFT_INIT_SOFTMAX, i);
            for (size_t j = 0; j <= window; j++) {
                assert_true(taps[j] > 0);
                sum += taps[j];
                means[j] += taps[j] / DRAWS;
            }
            assert_true(fabs(sum - 1) < 1e-15 * (double)(window + 1));
        }
        for (size_t j = 0; j <= window; j++) /* no tap is preferred; a mean deviates by < 0.02 */
            assert_true(fabs(means[j] - 1 / (double)(window + 1)) < 0.07);
    }
}

static void identity_taps_are_exact(void **state)
{
    (void)state;
    for (size_t window = 1; window <= KVSI_SHIFT_WINDOW_MAX; window++) {
        double taps[KVSI_TAPS_MAX];

        draw(taps, window, KVSI_SHIFT_INIT_IDENTITY, 0);
        for (size_t j = 0; j <= window; j++)
            assert_true(taps[j] == (j == window ? 1 : 0));
    }
}

/* ---- the table ---- */

static void numbers_of_a_head(void **state)
{
    static const struct {
        kvsi_shift_form form;
        size_t window, expected; /* of a head of 8 channels */
    } cases[] = {
        {KVSI_SHIFT_FREE, 1, 2},  {KVSI_SHIFT_FREE, 3, 4},     {KVSI_SHIFT_GATE, 1, 1},
        {KVSI_SHIFT_CLAMP, 2, 3}, {KVSI_SHIFT_CHANNEL, 1, 16}, {KVSI_SHIFT_CHANNEL, 3, 32},
        {KVSI_SHIFT_DATA, 1, 0},  {KVSI_SHIFT_HARD, 1, 0},     {KVSI_SHIFT_RESIDUAL, 3, 32},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        assert_int_equal(kvsi_form_get(cases[i].form)->params(cases[i].window, 8),
                         cases[i].expected);
    assert_null(kvsi_form_get(KVSI_SHIFT_RESIDUAL + 1));
}

/* Converts taps for all channels of a head into the parameters of a form and back. */
static void through_form(real *taps, kvsi_shift_form which, const double *wanted, size_t window,
                         size_t head_size)
{
    const kvsi_form *form = kvsi_form_get(which);
    const size_t rows = form->per_channel ? head_size : 1;
    const size_t each = form->params(window, head_size) / rows;
    double numbers[KVSI_TAPS_MAX];
    real learned[KVSI_TAPS_MAX * 8];

    for (size_t r = 0; r < rows; r++) {
        form->from_taps(numbers, wanted, window);
        for (size_t j = 0; j < each; j++)
            learned[r * each + j] = (real)numbers[j];
    }
    form->taps(taps, learned, window, head_size);
}

static void identity_comes_through_exactly(void **state)
{
    static const kvsi_shift_form forms[] = {KVSI_SHIFT_FREE, KVSI_SHIFT_CLAMP, KVSI_SHIFT_CHANNEL};
    enum { SIZE = 6 };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(forms); i++)
        for (size_t window = 1; window <= KVSI_SHIFT_WINDOW_MAX; window++) {
            double wanted[KVSI_TAPS_MAX];
            real taps[KVSI_TAPS_MAX * SIZE];

            assert_true(kvsi_form_get(forms[i])->can_be_identity);
            draw(wanted, window, KVSI_SHIFT_INIT_IDENTITY, 0);
            through_form(taps, forms[i], wanted, window, SIZE);
            for (size_t k = 0; k < (window + 1) * SIZE; k++)
                assert_true(taps[k] == (k / SIZE == window ? 1 : 0));
        }
}

static void gates_give_their_taps_back(void **state)
{
    static const double currents[] = {0.01, 0.25, 0.5, 0.9, 0.999};
    enum { SIZE = 4 };
    real taps[2 * SIZE];

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(currents); i++) {
        through_form(taps, KVSI_SHIFT_GATE, (const double[]){1 - currents[i], currents[i]}, 1,
                     SIZE);
        for (size_t k = 0; k < SIZE; k++) {
            assert_true(fabs((double)taps[k] - (1 - currents[i])) < 1e-6);
            assert_true(fabs((double)taps[SIZE + k] - currents[i]) < 1e-6);
        }
    }
    through_form(taps, KVSI_SHIFT_GATE, (const double[]){1, 0}, 1, SIZE); /* not representable */
    assert_true(taps[0] < 1 && taps[0] > 0.99f);
}

/* Channel i of the token j before the last of window + 1 is taps[j * head_size + i]. */
static void taps_by_hand(void **state)
{
    const real gate = logf(3), three[] = {-0.5f, 0.25f, 1.5f}, six[] = {1, 2, 3, 4, 5, 6};
    const real unchanged[] = {-0.5f, -0.5f, 0.25f, 0.25f, 1.5f, 1.5f};
    const real clamped[] = {0, 0, 0.25f, 0.25f, 1, 1};
    const real channel[] = {1, 4, 2, 5, 3, 6}, residual[] = {1, 4, 2, 5, 4, 7};
    const real hard[] = {0, 0, 1, 1, 1, 1, 0, 0};
    real taps[8];

    (void)state;
    kvsi_form_get(KVSI_SHIFT_FREE)->taps(taps, three, 2, 2);
    assert_memory_equal(taps, unchanged, sizeof unchanged);
    kvsi_form_get(KVSI_SHIFT_CLAMP)->taps(taps, three, 2, 2);
    assert_memory_equal(taps, clamped, sizeof clamped);
    kvsi_form_get(KVSI_SHIFT_CHANNEL)->taps(taps, six, 2, 2);
    assert_memory_equal(taps, channel, sizeof channel);
    kvsi_form_get(KVSI_SHIFT_RESIDUAL)->taps(taps, six, 2, 2);
    assert_memory_equal(taps, residual, sizeof residual);
    kvsi_form_get(KVSI_SHIFT_HARD)->taps(taps, NULL, 1, 4);
    assert_memory_equal(taps, hard, sizeof hard);
    kvsi_form_get(KVSI_SHIFT_GATE)->taps(taps, &gate, 1, 1);
    assert_true(fabsf(taps[0] - 0.25f) < 1e-6f && fabsf(taps[1] - 0.75f) < 1e-6f);
}

/* ---- configurations ---- */

/* Two layers of four heads of eight channels. */
static const support_sizes sizes = {.vocab = 16, .dim = 32, .ffn = 48, .context = 64};

#define KV (KVS_SHIFT_K | KVS_SHIFT_V)
#define SHIFT(how, first, previous)                                                                \
    .shift = {.targets = KV,                                                                       \
              .form = KVSI_SHIFT_##how,                                                            \
              .init = KVSI_SHIFT_INIT_##first,                                                     \
              .window = (previous)}

static kvs_model_config whole(const kvs_model_config *special)
{
    kvs_model_config config = support_config(special, &sizes);

    if (special->vocab > 0)
        config.vocab = special->vocab;
    return config;
}

static void good_configurations_are_taken(void **state)
{
    static const kvs_model_config good[] = {
        {SHIFT(FREE, IDENTITY, 3)},
        {SHIFT(CLAMP, IDENTITY, 3)},
        {SHIFT(CHANNEL, IDENTITY, 3)},
        {SHIFT(CHANNEL, SOFTMAX, 2)},
        {SHIFT(GATE, SOFTMAX, 1)},
        {SHIFT(DATA, UNIFORM, 1)},
        {SHIFT(HARD, UNIFORM, 1), .rotary_fraction = 0.5},
        {SHIFT(HARD, UNIFORM, 1), .positions = KVSI_POSITIONS_ALIBI},
        {.positions = KVSI_POSITIONS_ALIBI, .slopes = 1, .slope = {0.5}},
        {.positions = KVSI_POSITIONS_ALIBI, .slopes = 4, .slope = {0.5, 1, 2, 3}},
        {.sliding_window = 8, .sliding_heads = 2, .sliding_layers = 2},
        {.head = KVSI_HEAD_NONE, .vocab = 32},
        {.head = KVSI_HEAD_NORMALISED, .tied = 1},
        {.dropout_embedding = 0.99, .dropout_attention = 0.99, .dropout_residual = 0.99},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
        kvs_model_config config = whole(&good[i]);
        kvs_err err;

        if (kvs_model_config_finish(&config, &err) != KVS_OK)
            fail_msg("good configuration %zu: %s", i, err.message);
    }
}

static void expect_refusal(const kvs_model_config *special, const char *one, const char *other)
{
    kvs_model_config config = whole(special);
    kvs_err err = {KVS_OK, ""};

    if (kvs_model_config_finish(&config, &err) != KVS_E_INVALID)
        fail_msg("'%s' and '%s': taken", one, other);
    if (!strstr(err.message, one) || !strstr(err.message, other))
        fail_msg("expected '%s' and '%s' in '%s'", one, other, err.message);
}

/* Each configuration differs from a valid one in the value that the message must name. */
static const struct {
    const char *one, *other;
    kvs_model_config config;
} refused[] = {
    {"'identity'", "'gate'", {SHIFT(GATE, IDENTITY, 1)}},
    {"'identity'", "'data'", {SHIFT(DATA, IDENTITY, 1)}},
    {"'identity'", "'hard'", {SHIFT(HARD, IDENTITY, 1), .rotary_fraction = 0.5}},
    {"'softmax'", "'data'", {SHIFT(DATA, SOFTMAX, 1)}},
    {"'softmax'", "'hard'", {SHIFT(HARD, SOFTMAX, 1), .rotary_fraction = 0.5}},
    {"window is 2", "'gate'", {SHIFT(GATE, UNIFORM, 2)}},
    {"window is 2", "'data'", {SHIFT(DATA, UNIFORM, 2)}},
    {"window is 2", "'hard'", {SHIFT(HARD, UNIFORM, 2), .rotary_fraction = 0.5}},
    {"window is 4", "1 to 3", {SHIFT(FREE, UNIFORM, 4)}},
    {"'hard'", "found 1", {SHIFT(HARD, UNIFORM, 1)}},
    {"'hard'", "found 0.75", {SHIFT(HARD, UNIFORM, 1), .rotary_fraction = 0.75}},
    {"slopes", "rope", {.slopes = 1, .slope = {0.5}}},
    {"3 slopes", "4 heads", {.positions = KVSI_POSITIONS_ALIBI, .slopes = 3}},
    {"slope 1", "inf", {.positions = KVSI_POSITIONS_ALIBI, .slopes = 4, .slope = {1, INFINITY}}},
    {"rotary fraction", "none", {.positions = KVSI_POSITIONS_NONE, .rotary_fraction = 0.5}},
    {"turn 3 of 8", "even", {.rotary_fraction = 0.375}},
    {"turn 2.4 of 8", "even", {.rotary_fraction = 0.3}},
    {"sliding", "window", {.sliding_heads = 2}},
    {"sliding", "window", {.sliding_layers = 1}},
    {"sliding layer", "2 layers", {.sliding_window = 8, .sliding_layers = 4}},
    {"dim 32", "heads 3", {.sliding_window = 8, .sliding_heads = 3}},
    {"head none", "tie", {.head = KVSI_HEAD_NONE, .tied = 1}},
    {"32 logits", "vocabulary of 33", {.head = KVSI_HEAD_NONE, .vocab = 33}},
    {"dropout embedding", "is 1", {.dropout_embedding = 1}},
    {"dropout attention", "is 1", {.dropout_attention = 1}},
    {"dropout residual", "is 1", {.dropout_residual = 1}},
    {"identity projections", "kv heads", {.identity_projections = 1, .kv_heads = 2}},
    {"identity projections",
     "kv heads",
     {.identity_projections = 1, .sliding_window = 8, .sliding_heads = 8, .sliding_kv_heads = 2}},
};

static void bad_configurations_are_refused_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
        expect_refusal(&refused[i].config, refused[i].one, refused[i].other);
}

/* As many slopes as heads, but more than a configuration holds. */
static void too_many_slopes_are_refused(void **state)
{
    kvs_model_config config = {.positions = KVSI_POSITIONS_ALIBI, .heads = KVSI_SLOPES_MAX + 1};
    kvs_err err;

    (void)state;
    config = whole(&config);
    config.dim = config.heads;
    assert_int_equal(kvs_model_config_finish(&config, &err), KVS_OK);
    config.slopes = config.heads;
    assert_int_equal(kvs_model_config_finish(&config, &err), KVS_E_INVALID);
    assert_non_null(strstr(err.message, "65 slopes"));
}

/* ---- names ---- */

static void short_names_of_shifts(void **state)
{
    static const struct {
        const char *name;
        unsigned targets;
        kvsi_shift_form form; /* unchanged if the name does not define it */
    } names[] = {
        {"none", 0, KVSI_SHIFT_CHANNEL},
        {"k", KVS_SHIFT_K, KVSI_SHIFT_CHANNEL},
        {"v", KVS_SHIFT_V, KVSI_SHIFT_CHANNEL},
        {"kv", KV, KVSI_SHIFT_CHANNEL},
        {"qkv", KVS_SHIFT_Q | KV, KVSI_SHIFT_CHANNEL},
        {"gate", KV, KVSI_SHIFT_GATE},
        {"clamp", KV, KVSI_SHIFT_CLAMP},
        {"smear", KVS_SHIFT_K, KVSI_SHIFT_GATE},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        kvs_model_config config = {.shift = {.form = KVSI_SHIFT_CHANNEL, .window = 2}};

        assert_int_equal(kvs_model_config_set(&config, "shift", names[i].name, NULL), KVS_OK);
        assert_int_equal(config.shift.targets, names[i].targets);
        assert_int_equal(config.shift.form, names[i].form);
        assert_int_equal(config.shift.window, 2);
    }
}

static void unknown_names_are_refused(void **state)
{
    kvs_model_config config = {.vocab = 0};
    kvs_err err;

    (void)state;
    assert_int_equal(kvs_model_config_set(&config, "shift", "channel", &err), KVS_E_INVALID);
    assert_non_null(strstr(err.message, "'channel'"));
    assert_int_equal(kvs_model_config_set(&config, "shift-form", "smear", &err), KVS_E_INVALID);
    assert_non_null(strstr(err.message, "'smear'"));
}

static void forms_have_names(void **state)
{
    static const char *const names[] = {"free", "gate", "clamp", "channel", "data", "hard"};
    kvs_model_config config = {.vocab = 0};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        assert_int_equal(kvs_model_config_set(&config, "shift-form", names[i], NULL), KVS_OK);
        assert_int_equal(config.shift.form, i);
        assert_string_equal(kvsi_shift_form_name(config.shift.form), names[i]);
    }
    assert_null(kvsi_shift_form_name(KVSI_SHIFT_RESIDUAL + 1));
}

/* Settings of filters and positions that would have no effect. */
static void settings_without_effect_are_refused(void **state)
{
    static const struct {
        kvs_model_config special;
        const char *words;
    } cases[] = {
        {{.filter_window = 2}, "filters, found none"},
        {{.mlp_factor = 1}, "filters 'mlp' or 'branches', found 'none'"},
        {{.mlp_factor = 1, .filters = KVSI_FILTER_ATTENTION}, "found 'attention'"},
        {{.no_mlp = 1, .filters = KVSI_FILTER_MLP}, "need a body with an MLP"},
        {{.body = KVSI_BODY_GPT2, .filters = KVSI_FILTER_ATTENTION}, "body llama, found gpt2"},
        {{.relative_size = 3}, "positions relative, found rope"},
        {{.relative_extent = 3}, "positions relative, found rope"},
        {{.score_growth_start = 3}, "needs a growth, found 0"},
        {{.sliding_head_size = 3}, "need a sliding window"},
    };
    const support_sizes small = {.vocab = 8, .dim = 32, .ffn = 8, .context = 8};
    kvs_err err;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        kvs_model_config config = support_config(&cases[i].special, &small);

        assert_int_equal(kvs_model_config_finish(&config, &err), KVS_E_INVALID);
        if (!strstr(err.message, cases[i].words))
            fail_msg("'%s' does not contain '%s'", err.message, cases[i].words);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uniform_taps_sum_to_one),
        cmocka_unit_test(softmax_taps_are_positive_and_sum_to_one),
        cmocka_unit_test(identity_taps_are_exact),
        cmocka_unit_test(numbers_of_a_head),
        cmocka_unit_test(identity_comes_through_exactly),
        cmocka_unit_test(gates_give_their_taps_back),
        cmocka_unit_test(taps_by_hand),
        cmocka_unit_test(good_configurations_are_taken),
        cmocka_unit_test(bad_configurations_are_refused_by_name),
        cmocka_unit_test(too_many_slopes_are_refused),
        cmocka_unit_test(short_names_of_shifts),
        cmocka_unit_test(unknown_names_are_refused),
        cmocka_unit_test(forms_have_names),
        cmocka_unit_test(settings_without_effect_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
