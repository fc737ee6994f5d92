/* Sessions, runners, scores. */
#include "api.h"

static const int32_t ids[] = {1, 2, 3, 4, 5};
static int32_t many[API_CONTEXT + 2];

static kvs_session *fed(size_t count)
{
    kvs_session *session;

    expect_ok(kvs_session_create(&session, api_model, NULL, &err));
    expect_ok(kvs_session_feed(session, ids, count, NULL, &err));
    return session;
}

static void test_create(void **state)
{
    kvs_session *session;
    kvs_session_options options;

    (void)state;
    expect_init(kvs_session_options);
    expect_needed(out, kvs_session_create(NULL, api_model, NULL, &err));
    expect_no_handle(session, KVS_E_INVALID, "model is NULL",
                     kvs_session_create(&session, NULL, NULL, &err));
    kvs_session_options_init(&options, sizeof options);
    options.capacity = API_CONTEXT + 1;
    expect_no_handle(session, KVS_E_LIMIT, "16",
                     kvs_session_create(&session, api_model, &options, &err));
    options.capacity = SIZE_MAX;
    expect_no_handle(session, KVS_E_LIMIT, "",
                     kvs_session_create(&session, api_model, &options, &err));
    options.capacity = 3;
    options.cache = KVS_DTYPE_Q4_0;
    expect_no_handle(session, KVS_E_INVALID, "",
                     kvs_session_create(&session, api_model, &options, &err));
    options.cache = (kvs_dtype)99;
    expect_no_handle(session, KVS_E_INVALID, "",
                     kvs_session_create(&session, api_model, &options, &err));
    options.cache = KVS_DTYPE_F16;
    expect_ok(kvs_session_create(&session, api_model, &options, &err));
    assert_int_equal(kvs_session_capacity(session), 3);
    kvs_session_free(session);
    expect_sizes(kvs_session_options, offsetof(kvs_session_options, runner), (void)p,
                 kvs_session_create(&session, api_model, o, &err), kvs_session_free(session));
    expect_nothing(kvs_session_free(NULL));
}

static void test_properties(void **state)
{
    kvs_session *session = fed(3);
    const kvs_model_config *config = kvs_model_get_config(api_model);
    kvs_session_options options;

    (void)state;
    assert_ptr_equal(kvs_session_get_model(session), api_model);
    assert_int_equal(kvs_session_length(session), 3);
    assert_int_equal(kvs_session_capacity(session), API_CONTEXT);
    assert_int_equal(kvs_session_earliest(session), 1);
    assert_memory_equal(kvs_session_ids(session), ids, 3 * sizeof *ids);
    kvs_session_reset(session);
    assert_int_equal(kvs_session_length(session), 0);
    kvs_session_free(session);

    kvs_session_options_init(&options, sizeof options);
    options.capacity = 4;
    assert_true(kvs_session_bytes(config, NULL) > kvs_session_bytes(config, &options));
    options.size = 0;
    expect_zero(kvs_session_bytes(config, &options));
    expect_zero(kvs_session_bytes(NULL, NULL));
    expect_null(kvs_session_get_model(NULL));
    expect_zero(kvs_session_length(NULL));
    expect_zero(kvs_session_capacity(NULL));
    expect_zero(kvs_session_earliest(NULL));
    expect_null(kvs_session_ids(NULL));
    expect_nothing(kvs_session_reset(NULL));
}

static void test_feed(void **state)
{
    static const int32_t wrong[] = {1, API_VOCAB}, negative[] = {-1};
    kvs_session *session = fed(0);
    float logits[API_VOCAB];

    (void)state;
    expect_needed(session, kvs_session_feed(NULL, ids, 1, NULL, &err));
    expect_needed(ids, kvs_session_feed(session, NULL, 1, NULL, &err));
    expect_invalid("20", kvs_session_feed(session, wrong, 2, NULL, &err));
    expect_invalid("-1", kvs_session_feed(session, negative, 1, NULL, &err));
    expect_status(KVS_E_LIMIT, "16", kvs_session_feed(session, many, API_CONTEXT + 1, NULL, &err));
    expect_status(KVS_E_LIMIT, "", kvs_session_feed(session, many, SIZE_MAX, NULL, &err));
    assert_int_equal(kvs_session_length(session), 0);
    expect_needed(logits, kvs_session_logits(NULL, session, &err));
    expect_needed(session, kvs_session_logits(logits, NULL, &err));
    expect_invalid("", kvs_session_logits(logits, session, &err));
    expect_ok(kvs_session_feed(session, NULL, 0, logits, &err));
    expect_ok(kvs_session_feed(session, many, API_CONTEXT, NULL, &err));
    expect_status(KVS_E_LIMIT, "", kvs_session_feed(session, ids, 1, NULL, &err));
    expect_ok(kvs_session_logits(logits, session, &err));
    assert_int_equal(kvs_session_feed(session, NULL, 1, NULL, NULL), KVS_E_INVALID);
    kvs_session_free(session);
}

static void test_rewind(void **state)
{
    kvs_session *session = fed(5);

    (void)state;
    expect_needed(session, kvs_session_rewind(NULL, 0, &err));
    expect_invalid("6", kvs_session_rewind(session, 6, &err));
    expect_invalid("", kvs_session_rewind(session, SIZE_MAX, &err));
    assert_int_equal(kvs_session_length(session), 5);
    expect_ok(kvs_session_rewind(session, 5, &err));
    expect_ok(kvs_session_rewind(session, 2, &err));
    expect_ok(kvs_session_rewind(session, 0, &err));
    assert_int_equal(kvs_session_length(session), 0);
    kvs_session_free(session);
}

static void test_copy(void **state)
{
    kvs_session *session = fed(5), *copy;
    kvs_session_options options;

    (void)state;
    expect_needed(out, kvs_session_copy(NULL, session, SIZE_MAX, NULL, &err));
    expect_no_handle(copy, KVS_E_INVALID, "session is NULL",
                     kvs_session_copy(&copy, NULL, SIZE_MAX, NULL, &err));
    expect_no_handle(copy, KVS_E_INVALID, "6", kvs_session_copy(&copy, session, 6, NULL, &err));
    kvs_session_options_init(&options, sizeof options);
    options.capacity = 4;
    expect_no_handle(copy, KVS_E_LIMIT, "4",
                     kvs_session_copy(&copy, session, SIZE_MAX, &options, &err));
    expect_ok(kvs_session_copy(&copy, session, 4, &options, &err));
    assert_int_equal(kvs_session_length(copy), 4);
    kvs_session_free(copy);
    expect_sizes(kvs_session_options, offsetof(kvs_session_options, runner), (void)p,
                 kvs_session_copy(&copy, session, SIZE_MAX, o, &err), kvs_session_free(copy));
    kvs_session_free(session);
}

static void test_files(void **state)
{
    kvs_session *session = fed(5), *again;

    (void)state;
    expect_needed(session, kvs_session_save(NULL, api_path("s"), &err));
    expect_needed(path, kvs_session_save(session, NULL, &err));
    expect_status(KVS_E_IO, "no-folder", kvs_session_save(session, api_path("no-folder/s"), &err));
    expect_ok(kvs_session_save(session, api_path("s"), &err));
    kvs_session_free(session);

    expect_needed(out, kvs_session_load(NULL, api_model, api_path("s"), NULL, &err));
    expect_no_handle(again, KVS_E_INVALID, "model is NULL",
                     kvs_session_load(&again, NULL, api_path("s"), NULL, &err));
    expect_no_handle(again, KVS_E_INVALID, "path is NULL",
                     kvs_session_load(&again, api_model, NULL, NULL, &err));
    expect_no_handle(again, KVS_E_IO, "no-such-file",
                     kvs_session_load(&again, api_model, api_path("no-such-file"), NULL, &err));
    expect_no_handle(
        again, KVS_E_FORMAT, "text",
        kvs_session_load(&again, api_model, api_write("text", "no session"), NULL, &err));
    expect_sizes(kvs_session_options, offsetof(kvs_session_options, runner), (void)p,
                 kvs_session_load(&again, api_model, api_path("s"), o, &err),
                 (assert_int_equal(kvs_session_length(again), 5), kvs_session_free(again)));
}

static void test_taps(void **state)
{
    static const double taps[] = {0.25, 0.75};
    kvs_session *session = fed(0);

    (void)state;
    expect_needed(session, kvs_session_set_taps(NULL, 0, KVS_SHIFT_K, 0, taps, &err));
    expect_invalid("layer", kvs_session_set_taps(session, API_LAYERS, KVS_SHIFT_K, 0, taps, &err));
    expect_invalid("head", kvs_session_set_taps(session, 0, KVS_SHIFT_K, API_HEADS, taps, &err));
    expect_invalid("", kvs_session_set_taps(session, 0, 0, 0, taps, &err));
    expect_invalid("", kvs_session_set_taps(session, 0, KVS_SHIFT_Q, 0, taps, &err));
    expect_ok(kvs_session_set_taps(session, 0, KVS_SHIFT_K, 0, taps, &err));
    expect_status(KVS_E_UNSUPPORTED, "", kvs_session_save(session, api_path("taps"), &err));
    expect_ok(kvs_session_set_taps(session, 0, KVS_SHIFT_K, 0, NULL, &err));
    expect_ok(kvs_session_feed(session, ids, 1, NULL, &err));
    expect_invalid("empty", kvs_session_set_taps(session, 0, KVS_SHIFT_K, 0, taps, &err));
    kvs_session_free(session);
}

static void test_runner(void **state)
{
    kvs_runner *runner, *small;
    kvs_runner_options options;
    kvs_session_options own;
    kvs_session *a, *b;
    kvs_feed feeds[2];
    float logits[2][API_VOCAB];
    struct {
        kvs_feed feed;
        unsigned char more[API_EXTRA];
    } wide;

    (void)state;
    expect_init(kvs_runner_options);
    expect_init(kvs_feed);
    expect_needed(out, kvs_runner_create(NULL, api_model, NULL, &err));
    expect_no_handle(runner, KVS_E_INVALID, "model is NULL",
                     kvs_runner_create(&runner, NULL, NULL, &err));
    kvs_runner_options_init(&options, sizeof options);
    options.sequences = SIZE_MAX;
    assert_int_not_equal(kvs_runner_create(&runner, api_model, &options, &err), KVS_OK);
    assert_null(runner);
    expect_sizes(kvs_runner_options, offsetof(kvs_runner_options, tokens), (void)p,
                 kvs_runner_create(&small, api_model, o, &err), kvs_runner_free(small));
    options.sequences = 2;
    expect_ok(kvs_runner_create(&runner, api_model, &options, &err));
    kvs_session_options_init(&own, sizeof own);
    own.runner = runner;
    expect_ok(kvs_session_create(&a, api_model, &own, &err));
    expect_ok(kvs_session_create(&b, api_model, &own, &err));

    for (int i = 0; i < 2; i++) {
        kvs_feed_init(&feeds[i], sizeof feeds[i]);
        feeds[i].session = i == 0 ? a : b;
        feeds[i].ids = ids;
        feeds[i].count = 2;
        feeds[i].logits = logits[i];
    }
    expect_needed(feeds, kvs_runner_feed(runner, NULL, 1, &err));
    expect_ok(kvs_runner_feed(runner, NULL, 0, &err));
    feeds[1].session = NULL;
    expect_invalid("1", kvs_runner_feed(runner, feeds, 2, &err));
    feeds[1].session = a; /* the same session twice */
    expect_invalid("1", kvs_runner_feed(runner, feeds, 2, &err));
    feeds[1].session = b;
    feeds[1].ids = NULL;
    expect_invalid("1", kvs_runner_feed(runner, feeds, 2, &err));
    feeds[1].ids = ids;
    feeds[1].size = 0;
    expect_invalid("size", kvs_runner_feed(runner, feeds, 2, &err));
    feeds[0].size = 0;
    expect_invalid("size", kvs_runner_feed(runner, feeds, 2, &err));
    feeds[0].size = feeds[1].size = sizeof feeds[0];
    feeds[1].count = API_CONTEXT + 1;
    feeds[1].ids = many;
    expect_status(KVS_E_LIMIT, "1", kvs_runner_feed(runner, feeds, 2, &err));
    feeds[1].count = 2;
    feeds[1].top = 2; /* without top_ids */
    expect_invalid("1", kvs_runner_feed(runner, feeds, 2, &err));
    feeds[1].top = 0;
    assert_int_equal(kvs_session_length(a), 0);
    assert_int_equal(kvs_session_length(b), 0);
    expect_ok(kvs_runner_feed(NULL, feeds, 2, &err));
    assert_int_equal(kvs_session_length(a), 2);

    memset(&wide, 0, sizeof wide);
    wide.feed = feeds[0];
    wide.feed.size = sizeof wide;
    expect_ok(kvs_runner_feed(runner, &wide.feed, 1, &err));
    wide.more[API_EXTRA - 1] = 1;
    expect_status(KVS_E_UNSUPPORTED, "", kvs_runner_feed(runner, &wide.feed, 1, &err));
    kvs_session_free(a);
    kvs_session_free(b);
    kvs_runner_free(runner);
    expect_nothing(kvs_runner_free(NULL));
}

static void test_score(void **state)
{
    static const int32_t wrong[] = {1, API_VOCAB};
    kvs_session *session = fed(1);
    double sum, logprobs[4];
    int greedy;

    (void)state;
    expect_needed(session, kvs_score(&sum, NULL, NULL, NULL, ids, 5, 1, 0, &err));
    expect_needed(ids, kvs_score(&sum, NULL, NULL, session, NULL, 5, 1, 0, &err));
    expect_invalid("", kvs_score(&sum, NULL, NULL, session, ids, 5, 0, 0, &err));
    expect_invalid("", kvs_score(&sum, NULL, NULL, session, ids, 5, 6, 0, &err));
    expect_invalid("", kvs_score(&sum, NULL, NULL, session, ids, 5, SIZE_MAX, 0, &err));
    expect_invalid("20", kvs_score(&sum, NULL, NULL, session, wrong, 2, 1, 0, &err));
    expect_invalid("flags", kvs_score(&sum, NULL, NULL, session, ids, 5, 1, 1u << 31, &err));
    expect_status(KVS_E_LIMIT, "",
                  kvs_score(&sum, NULL, NULL, session, many, API_CONTEXT + 2, 1, 0, &err));
    expect_ok(kvs_score(&sum, NULL, NULL, session, many, API_CONTEXT + 1, 1, 0, &err));
    expect_ok(kvs_score(&sum, &greedy, logprobs, session, ids, 5, 1, 0, &err));
    assert_true(sum < 0);
    expect_ok(kvs_score(NULL, NULL, NULL, session, ids, 5, 1, KVS_SCORE_STEP_BY_STEP, &err));
    kvs_session_free(session);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_create), cmocka_unit_test(test_properties),
        cmocka_unit_test(test_feed),   cmocka_unit_test(test_rewind),
        cmocka_unit_test(test_copy),   cmocka_unit_test(test_files),
        cmocka_unit_test(test_taps),   cmocka_unit_test(test_runner),
        cmocka_unit_test(test_score),
    };

    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
