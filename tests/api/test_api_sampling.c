/* Logits, samplers, generation. */
#include "api.h"

static void test_logits(void **state)
{
    static const float logits[] = {0, 2, 1, 2};
    int32_t ids[4];
    double logprobs[4];

    (void)state;
    assert_int_equal(kvs_logits_best(logits, 4), 1);
    assert_int_equal(kvs_logits_best(logits, 1), 0);
    expect_none(kvs_logits_best(logits, 0));
    expect_none(kvs_logits_best(NULL, 4));

    assert_true(kvs_logits_logprob(logits, 4, 1) < 0);
    assert_true(kvs_logits_logprob(logits, 4, 1) == kvs_logits_logprob(logits, 4, 3));
    expect_nan(kvs_logits_logprob(NULL, 4, 0));
    expect_nan(kvs_logits_logprob(logits, 4, 4));
    expect_nan(kvs_logits_logprob(logits, 4, -1));
    expect_nan(kvs_logits_logprob(logits, 4, INT32_MIN));
    expect_nan(kvs_logits_logprob(logits, 0, 0));

    assert_int_equal(kvs_logits_top(ids, logprobs, 3, logits, 4), 3);
    assert_int_equal(ids[0], 1);
    assert_int_equal(ids[1], 3);
    assert_int_equal(ids[2], 2);
    assert_true(logprobs[0] == logprobs[1] && logprobs[1] > logprobs[2]);
    assert_int_equal(kvs_logits_top(ids, NULL, SIZE_MAX, logits, 4), 4);
    expect_zero(kvs_logits_top(ids, NULL, 0, logits, 4));
    expect_zero(kvs_logits_top(ids, NULL, 3, logits, 0));
    expect_zero(kvs_logits_top(NULL, logprobs, 3, logits, 4));
    expect_zero(kvs_logits_top(ids, NULL, 3, NULL, 4));
}

static void refuse(kvs_sampling options, const char *name)
{
    kvs_sampler *sampler;

    expect_no_handle(sampler, KVS_E_INVALID, name, kvs_sampler_create(&sampler, 4, &options, &err));
}

static void test_sampler(void **state)
{
    static const float logits[] = {0, 2, 1, -1};
    static const int32_t ids[] = {1, 1000}, negative[] = {-1};
    kvs_sampler *sampler;
    kvs_sampling defaults, options;

    (void)state;
    expect_init(kvs_sampling);
    expect_needed(out, kvs_sampler_create(NULL, 4, NULL, &err));
    expect_no_handle(sampler, KVS_E_INVALID, "", kvs_sampler_create(&sampler, 0, NULL, &err));
    assert_int_not_equal(kvs_sampler_create(&sampler, SIZE_MAX, NULL, &err), KVS_OK);
    assert_null(sampler);

    kvs_sampling_init(&defaults, sizeof defaults);
    options = defaults, options.temperature = -1, refuse(options, "temperature");
    options = defaults, options.temperature = NAN, refuse(options, "temperature");
    options = defaults, options.temperature = INFINITY, refuse(options, "temperature");
    options = defaults, options.top_p = -0.1, refuse(options, "p");
    options = defaults, options.top_p = 1.1, refuse(options, "p");
    options = defaults, options.top_p = NAN, refuse(options, "p");
    options = defaults, options.min_p = -0.1, refuse(options, "p");
    options = defaults, options.min_p = 1.1, refuse(options, "p");
    options = defaults, options.repeat_penalty = -1, refuse(options, "penalty");
    options = defaults, options.repeat_penalty = NAN, refuse(options, "penalty");
    expect_sizes(kvs_sampling, offsetof(kvs_sampling, repeat_penalty), (void)p,
                 kvs_sampler_create(&sampler, 4, o, &err), kvs_sampler_free(sampler));

    options = defaults;
    options.temperature = 0;
    options.repeat_penalty = 4;
    expect_ok(kvs_sampler_create(&sampler, 4, &options, &err));
    assert_int_equal(kvs_sampler_next(sampler, logits), 1);
    assert_int_equal(kvs_sampler_next(sampler, logits), 2); /* 2 / 4 < 1 */
    expect_needed(sampler, kvs_sampler_accept(NULL, ids, 1, &err));
    expect_needed(ids, kvs_sampler_accept(sampler, NULL, 1, &err));
    expect_invalid("-1", kvs_sampler_accept(sampler, negative, 1, &err));
    expect_ok(kvs_sampler_accept(sampler, NULL, 0, &err));
    expect_ok(kvs_sampler_accept(sampler, ids, 2, &err));
    expect_none(kvs_sampler_next(NULL, logits));
    expect_none(kvs_sampler_next(sampler, NULL));
    kvs_sampler_free(sampler);
    expect_nothing(kvs_sampler_free(NULL));
}

static int count_tokens(void *user, const kvs_generated *token)
{
    assert_non_null(token->text);
    assert_int_equal(token->index, *(size_t *)user);
    ++*(size_t *)user;
    return 0;
}

static int stop(void *user, const kvs_generated *token)
{
    (void)token;
    ++*(size_t *)user;
    return 1;
}

static void test_generate(void **state)
{
    static const int32_t prompt[] = {1, 2}, wrong[] = {API_VOCAB};
    static const int32_t many[API_CONTEXT + 1];
    static const char *const stops[] = {"END"};
    kvs_session *session;
    kvs_generate_options options;
    kvs_tokenizer *bytes;
    kvs_sampling sampling;
    kvs_finish finish;
    size_t tokens = 0;

    (void)state;
    expect_init(kvs_generate_options);
    kvs_generate_options_init(&options, sizeof options);
    options.max_tokens = 3;
    options.token = count_tokens;
    options.user = &tokens;
    expect_ok(kvs_session_create(&session, api_model, NULL, &err));
    expect_needed(session, kvs_generate(&finish, NULL, prompt, 2, &options, &err));
    expect_needed(prompt, kvs_generate(&finish, session, NULL, 2, &options, &err));
    expect_invalid("20", kvs_generate(&finish, session, wrong, 1, &options, &err));
    /* The prompt and the session are empty. */
    expect_invalid("", kvs_generate(&finish, session, NULL, 0, &options, &err));
    expect_status(KVS_E_LIMIT, "16",
                  kvs_generate(&finish, session, many, API_CONTEXT + 1, &options, &err));
    options.stops = stops;
    options.stop_count = 1;
    expect_invalid("tokenizer", kvs_generate(&finish, session, prompt, 2, &options, &err));
    expect_ok(kvs_tokenizer_load(&bytes, "bytes", &err));
    options.tokenizer = bytes;
    options.stops = NULL;
    expect_invalid("stop", kvs_generate(&finish, session, prompt, 2, &options, &err));
    options.stop_count = 0;
    options.tokenizer = NULL;
    kvs_tokenizer_free(bytes);
    kvs_sampling_init(&sampling, sizeof sampling);
    sampling.temperature = -1;
    options.sampling = &sampling;
    expect_invalid("temperature", kvs_generate(&finish, session, prompt, 2, &options, &err));
    sampling.size = 0;
    expect_invalid("size", kvs_generate(&finish, session, prompt, 2, &options, &err));
    options.sampling = NULL;
    assert_int_equal(tokens, 0);
    assert_int_equal(kvs_session_length(session), 0);

    expect_ok(kvs_generate(&finish, session, prompt, 2, &options, &err));
    assert_int_equal(finish, KVS_FINISH_LENGTH);
    assert_int_equal(tokens, 3);
    assert_int_equal(kvs_session_length(session), 2 + 3 - 1);
    tokens = 0;
    options.max_tokens = 0; /* no limit: ends when the session is full */
    expect_ok(kvs_generate(NULL, session, NULL, 0, &options, &err));
    assert_true(tokens > 0);
    kvs_session_reset(session);
    options.token = stop;
    expect_status(KVS_E_STOPPED, "", kvs_generate(&finish, session, prompt, 2, &options, &err));
    kvs_session_reset(session);
    expect_sizes(kvs_generate_options, offsetof(kvs_generate_options, ignore_eos),
                 p->max_tokens = 1, kvs_generate(NULL, session, prompt, 2, o, &err),
                 kvs_session_reset(session));
    expect_ok(kvs_generate(NULL, session, prompt, 2, NULL, &err));
    kvs_session_free(session);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_logits),
        cmocka_unit_test(test_sampler),
        cmocka_unit_test(test_generate),
    };

    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
