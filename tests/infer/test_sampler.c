/* Choosing tokens, and the loss of a text. */
#include "kvshift/kvshift_lab.h"
#include "support.h"

#include <math.h>

enum { COUNT = 5, DRAWS = 20000 };

static const float logits[COUNT] = {0.0f, 1.0f, 3.0f, 2.0f, -1.0f};

/* How often each token is drawn. */
static void draw(double *share, const kvs_sampling *options)
{
    kvs_sampler *sampler;
    size_t counts[COUNT] = {0};

    assert_int_equal(kvs_sampler_create(&sampler, COUNT, options, NULL), KVS_OK);
    for (int i = 0; i < DRAWS; i++)
        counts[kvs_sampler_next(sampler, logits)]++;
    for (int i = 0; i < COUNT; i++)
        share[i] = (double)counts[i] / DRAWS;
    kvs_sampler_free(sampler);
}

static kvs_sampling sampling(double temperature, size_t top_k, double top_p, double min_p)
{
    return (kvs_sampling){.size = sizeof(kvs_sampling),
                          .temperature = temperature,
                          .top_k = top_k,
                          .top_p = top_p,
                          .min_p = min_p,
                          .seed = 7};
}

/* The expected shares: softmax at the temperature over the tokens that are kept. */
static void expect_shares(kvs_sampling options, const int *kept)
{
    double share[COUNT], total = 0;

    draw(share, &options);
    for (int i = 0; i < COUNT; i++)
        total += kept[i] ? exp((double)logits[i] / options.temperature) : 0;
    for (int i = 0; i < COUNT; i++) {
        const double p = kept[i] ? exp((double)logits[i] / options.temperature) / total : 0;
        assert_true(fabs(share[i] - p) <= 4 * sqrt(p * (1 - p) / DRAWS) + 1e-12);
    }
}

static void tokens_are_drawn_by_their_probability(void **state)
{
    (void)state;
    expect_shares(sampling(1, 0, 1, 0), (int[]){1, 1, 1, 1, 1});
    expect_shares(sampling(2.5, 0, 1, 0), (int[]){1, 1, 1, 1, 1});
    expect_shares(sampling(1, 2, 1, 0), (int[]){0, 0, 1, 1, 0});
    expect_shares(sampling(1, 0, 0.85, 0), (int[]){0, 0, 1, 1, 0}); /* .64 + .24 */
    expect_shares(sampling(1, 0, 0.9, 0), (int[]){0, 1, 1, 1, 0});
    expect_shares(sampling(1, 0, 1, 0.1), (int[]){0, 1, 1, 1, 0}); /* exp(-2) = .135 */
    expect_shares(sampling(1, 0, 1e-9, 0), (int[]){0, 0, 1, 0, 0});
    expect_shares(sampling(1, 3, 0.9, 0), (int[]){0, 0, 1, 1, 0}); /* of the three: .67 + .24 */
    expect_shares(sampling(1, 4, 0.999, 0.1), (int[]){0, 1, 1, 1, 0});
}

/* Cuts of a whole vocabulary keep exactly the tokens that sorting it would keep. */
static void cuts_of_many_tokens_are_exact(void **state)
{
    enum { MANY = 5000, KEPT = 40, TRIES = 2000 };
    static float many[MANY];
    const kvs_sampling options = sampling(3, KEPT, 1, 0);
    kvs_sampler *sampler;

    (void)state;
    support_fill(many, MANY, 5, 3);
    for (size_t i = 0; i < MANY; i += 7)
        many[i] = 4; /* hundreds of equal logits: the first ones are kept */
    assert_int_equal(kvs_sampler_create(&sampler, MANY, &options, NULL), KVS_OK);
    for (int t = 0; t < TRIES; t++) {
        const int32_t id = kvs_sampler_next(sampler, many);
        size_t better = 0;

        for (int32_t i = 0; i < MANY; i++)
            better += many[i] > many[id] || (many[i] == many[id] && i < id);
        assert_true(better < KEPT);
    }
    kvs_sampler_free(sampler);
}

/* After the penalty, token `expected` has the largest logit. */
static void expect_best(const kvs_sampling *options, const int32_t *seen, size_t count,
                        const float *from, int32_t expected)
{
    kvs_sampler *sampler;

    assert_int_equal(kvs_sampler_create(&sampler, COUNT, options, NULL), KVS_OK);
    assert_int_equal(kvs_sampler_accept(sampler, seen, count, NULL), KVS_OK);
    assert_int_equal(kvs_sampler_next(sampler, from), expected);
    kvs_sampler_free(sampler);
}

static void seen_tokens_are_made_less_likely(void **state)
{
    const float all_negative[COUNT] = {-3, -1, -1.5f, -2.5f, -4};
    const int32_t seen[] = {2, 2, 1, 0};
    kvs_sampling options = sampling(0, 0, 1, 0);

    (void)state;
    options.repeat_penalty = 1.4; /* 3 / 1.4 = 2.14 > 2, but twice it would not be */
    expect_best(&options, seen, 4, logits, 2);
    options.repeat_penalty = 1.6;
    expect_best(&options, seen, 4, logits, 3);
    options.repeat_last = 2; /* 2 has left the window */
    expect_best(&options, seen, 4, logits, 2);
    options.repeat_last = 3;
    expect_best(&options, seen, 4, logits, 3);
    expect_best(&options, seen + 2, 1, all_negative, 2); /* -1 * 1.6 < -1.5 */
    options.repeat_penalty = 0.5;                        /* below 1: prefers seen tokens */
    options.repeat_last = 0;
    expect_best(&options, seen + 2, 2, (const float[]){1, 1.5f, 2.5f, 0, 0}, 1);
}

static void chosen_tokens_count_as_seen(void **state)
{
    const float flat[COUNT] = {5, 4, 3, 2, 1};
    kvs_sampling options = sampling(0, 0, 1, 0);
    const int32_t beyond[] = {COUNT, 0, 1000000}, bad = -1;
    kvs_sampler *sampler;

    (void)state;
    options.repeat_penalty = 100;
    options.repeat_last = 2;
    assert_int_equal(kvs_sampler_create(&sampler, COUNT, &options, NULL), KVS_OK);
    for (int i = 0; i < 9; i++)
        assert_int_equal(kvs_sampler_next(sampler, flat), i % 3);
    assert_int_equal(kvs_sampler_accept(sampler, &bad, 1, NULL), KVS_E_INVALID);
    /* Ids without a logit (a model may have more rows than its tokenizer has tokens) count in the
     * window of two: here it holds 0 and such an id, then that id and 1. */
    assert_int_equal(kvs_sampler_accept(sampler, beyond, 3, NULL), KVS_OK);
    assert_int_equal(kvs_sampler_next(sampler, flat), 1);
    assert_int_equal(kvs_sampler_next(sampler, flat), 0);
    kvs_sampler_free(sampler);
    options.repeat_penalty = 1;
    expect_best(&options, beyond, 3, flat, 0);
}

/* With the penalty, tokens are drawn with the probabilities of the penalised logits. */
static void penalised_tokens_are_drawn_by_their_probability(void **state)
{
    enum { SAMPLERS = 20000 };
    const int32_t seen[] = {2, 4};
    const double worse[COUNT] = {0, 1, 1.5, 2, -2};
    size_t counts[COUNT] = {0};
    double total = 0;

    (void)state;
    for (uint64_t i = 0; i < SAMPLERS; i++) {
        kvs_sampling options = sampling(1, 0, 1, 0);
        kvs_sampler *sampler;

        options.seed = i;
        options.repeat_penalty = 2;
        assert_int_equal(kvs_sampler_create(&sampler, COUNT, &options, NULL), KVS_OK);
        assert_int_equal(kvs_sampler_accept(sampler, seen, 2, NULL), KVS_OK);
        counts[kvs_sampler_next(sampler, logits)]++;
        kvs_sampler_free(sampler);
    }
    for (int i = 0; i < COUNT; i++)
        total += exp(worse[i]);
    for (int i = 0; i < COUNT; i++) {
        const double p = exp(worse[i]) / total;
        assert_true(fabs((double)counts[i] / SAMPLERS - p) <= 4 * sqrt(p * (1 - p) / SAMPLERS));
    }
}

/* NaN logits of a broken model: any token, but no crash. */
static void logits_that_are_no_numbers_do_no_harm(void **state)
{
    const float broken[COUNT] = {NAN, NAN, INFINITY, NAN, NAN};
    const kvs_sampling options = sampling(1, 2, 0.9, 0.1);
    kvs_sampler *sampler;

    (void)state;
    assert_int_equal(kvs_sampler_create(&sampler, COUNT, &options, NULL), KVS_OK);
    for (int i = 0; i < 9; i++)
        assert_in_range(kvs_sampler_next(sampler, broken), 0, COUNT - 1);
    kvs_sampler_free(sampler);
}

static void temperature_zero_takes_the_first_of_the_best(void **state)
{
    const float equal[COUNT] = {1, 5, 5, 2, 5};
    const kvs_sampling options = sampling(0, 0, 1, 0);
    kvs_sampler *sampler;

    (void)state;
    assert_int_equal(kvs_sampler_create(&sampler, COUNT, &options, NULL), KVS_OK);
    assert_int_equal(kvs_sampler_next(sampler, equal), 1);
    kvs_sampler_free(sampler);
}

static void bad_options_are_refused(void **state)
{
    kvs_sampling bad[] = {sampling(-1, 0, 1, 0),   sampling(1, 0, 0, 0),   sampling(1, 0, 1.5, 0),
                          sampling(1, 0, 1, -0.1), sampling(NAN, 0, 1, 0), sampling(1, 0, 1, 0),
                          sampling(1, 0, 1, 0)};

    (void)state;
    bad[5].repeat_penalty = -1;
    bad[6].repeat_last = SIZE_MAX;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        kvs_sampler *sampler;

        assert_int_equal(kvs_sampler_create(&sampler, COUNT, &bad[i], NULL), KVS_E_INVALID);
        assert_null(sampler);
    }
}

/* ---- perplexity ---- */

enum { VOCAB = 17, CONTEXT = 24, LENGTH = 61 };

typedef struct fixture {
    kvs_runtime *rt;
    kvs_model *model;
    int32_t ids[LENGTH];
} fixture;

static int set_up(void **state)
{
    fixture *f = test_malloc(sizeof *f);
    kvs_model_config config;

    kvsi_model_config_init(&config);
    config.vocab = VOCAB;
    config.dim = 16;
    config.context = CONTEXT;
    config.shift.targets = KVS_SHIFT_K | KVS_SHIFT_V;
    f->rt = support_runtime(NULL);
    f->model = support_model(f->rt, &config, 11);
    support_fill_ids(f->ids, LENGTH, 3, VOCAB);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;

    kvs_model_free(f->model);
    kvs_runtime_free(f->rt);
    test_free(f);
    return 0;
}

/* Loss of token `at`, from a session that sees the tokens from `start` on. */
static double loss_of(const fixture *f, size_t start, size_t at)
{
    kvs_session *session;
    float row[VOCAB];
    double sum = 0;

    assert_int_equal(kvs_session_create(&session, f->model, NULL, NULL), KVS_OK);
    assert_int_equal(kvs_session_feed(session, f->ids + start, at - start, row, NULL), KVS_OK);
    kvs_session_free(session);
    for (size_t v = 0; v < VOCAB; v++)
        sum += exp((double)row[v] - (double)row[f->ids[at]]);
    return log(sum);
}

/* Every token except the first is predicted once, by the first window that contains it. */
static void expect_perplexity(const fixture *f, size_t window, size_t stride)
{
    const kvs_perplexity_options options = {.window = window, .stride = stride};
    kvs_perplexity_result result;
    double losses[LENGTH] = {0}, sum = 0, squares = 0;
    const double n = LENGTH - 1;
    size_t start = 0;

    for (size_t at = 1; at < LENGTH; at++) {
        while (at > start + window)
            start += stride;
        losses[at] = loss_of(f, start, at);
        sum += losses[at];
    }
    for (size_t at = 1; at < LENGTH; at++)
        squares += (losses[at] - sum / n) * (losses[at] - sum / n);
    assert_int_equal(kvs_perplexity(&result, f->model, f->ids, LENGTH, &options, NULL), KVS_OK);
    assert_int_equal(result.tokens, LENGTH - 1);
    assert_true(fabs(result.loss - sum / (LENGTH - 1)) < 1e-5 * result.loss);
    assert_true(fabs(result.perplexity - exp(result.loss)) < 1e-9 * result.perplexity);
    assert_true(fabs(result.loss_error - sqrt(squares / (n - 1) / n)) < 1e-4 * result.loss_error);
}

static void every_token_is_predicted_once(void **state)
{
    expect_perplexity(*state, CONTEXT, CONTEXT);
    expect_perplexity(*state, CONTEXT, 5);
    expect_perplexity(*state, 7, 7);
    expect_perplexity(*state, 2, 1);
}

static void one_token_has_no_error(void **state)
{
    const fixture *f = *state;
    const kvs_perplexity_options options = {.window = CONTEXT, .stride = CONTEXT};
    kvs_perplexity_result result;

    assert_int_equal(kvs_perplexity(&result, f->model, f->ids, 2, &options, NULL), KVS_OK);
    assert_int_equal(result.tokens, 1);
    assert_true(isfinite(result.loss) && isnan(result.loss_error));
}

static void bad_windows_are_refused(void **state)
{
    const fixture *f = *state;
    const kvs_perplexity_options bad[] = {{.window = 1, .stride = 1},
                                          {.window = CONTEXT + 1, .stride = 1},
                                          {.window = 8, .stride = 9},
                                          {.window = 8}};
    const kvs_perplexity_options good = {.window = 8, .stride = 8};
    kvs_perplexity_result result;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(kvs_perplexity(&result, f->model, f->ids, LENGTH, &bad[i], NULL),
                         KVS_E_INVALID);
    assert_int_equal(kvs_perplexity(&result, f->model, f->ids, 1, &good, NULL), KVS_E_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_are_drawn_by_their_probability),
        cmocka_unit_test(cuts_of_many_tokens_are_exact),
        cmocka_unit_test(seen_tokens_are_made_less_likely),
        cmocka_unit_test(chosen_tokens_count_as_seen),
        cmocka_unit_test(penalised_tokens_are_drawn_by_their_probability),
        cmocka_unit_test(logits_that_are_no_numbers_do_no_harm),
        cmocka_unit_test(temperature_zero_takes_the_first_of_the_best),
        cmocka_unit_test(bad_options_are_refused),
        cmocka_unit_test_setup_teardown(every_token_is_predicted_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_token_has_no_error, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bad_windows_are_refused, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
