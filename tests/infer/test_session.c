/* The public session functions: chunks of any size give the same logits, and limits are checked. */
#include "config/config.h"
#include "infer/session.h"
#include "session.h"

#include <math.h>
#include <string.h>

enum { VOCAB = 29, CONTEXT = 600, LENGTH = 560 }; /* longer than one pass */

static int set_up(void **state)
{
    const session_options options = {.model_seed = 3, .ids_seed = 5};
    kvs_model_config config;

    kvsi_model_config_init(&config);
    config.vocab = VOCAB;
    config.dim = 32;
    config.heads = 4;
    config.kv_heads = 2;
    config.layers = 2;
    config.context = CONTEXT;
    config.shift.targets = KVS_SHIFT_K | KVS_SHIFT_V;
    return session_set_up(state, &config, &options);
}

static void feed_in_chunks(session_fixture *f, size_t chunk, float *logits)
{
    kvs_session_reset(f->session);
    for (size_t at = 0; at < LENGTH; at += chunk)
        assert_int_equal(kvs_session_feed(f->session, f->ids + at,
                                          LENGTH - at < chunk ? LENGTH - at : chunk, logits, NULL),
                         KVS_OK);
    assert_int_equal(kvs_session_length(f->session), LENGTH);
}

static void any_chunking_gives_the_same_logits(void **state)
{
    const size_t chunks[] = {1, 3, 64, 257};
    session_fixture *f = *state;
    float whole[VOCAB], parts[VOCAB];

    feed_in_chunks(f, LENGTH, whole);
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
        feed_in_chunks(f, chunks[i], parts);
        support_expect_close(parts, whole, VOCAB, 1e-5, "chunks of %zu", chunks[i]);
    }
}

static void one_large_pass_gives_the_same_logits(void **state)
{
    session_fixture *f = *state;
    float chunks[VOCAB], whole[VOCAB];
    kvs_session *session;
    kvs_runner *runner;

    feed_in_chunks(f, LENGTH, chunks);
    assert_int_equal(kvs_runner_create(&runner, f->model,
                                       &(kvs_runner_options){.size = sizeof(kvs_runner_options),
                                                             .sequences = 1,
                                                             .tokens = LENGTH},
                                       NULL),
                     KVS_OK);
    assert_int_equal(kvs_session_create(&session, runner->model,
                                        &(kvs_session_options){.size = sizeof(kvs_session_options),
                                                               .runner = runner},
                                        NULL),
                     KVS_OK);
    assert_int_equal(kvs_session_feed(session, f->ids, LENGTH, whole, NULL), KVS_OK);
    support_expect_close(whole, chunks, VOCAB, 1e-5, "one pass of %d tokens", LENGTH);
    assert_int_equal(kvs_session_rewind(session, 301, NULL), KVS_OK);
    assert_int_equal(kvs_session_rewind(f->session, 301, NULL), KVS_OK);
    assert_int_equal(kvs_session_logits(whole, session, NULL), KVS_OK);
    assert_int_equal(kvs_session_logits(chunks, f->session, NULL), KVS_OK);
    support_expect_close(whole, chunks, VOCAB, 1e-5, "rewound");
    kvs_session_free(session);
    kvs_runner_free(runner);
}

static void nothing_fed_changes_nothing(void **state)
{
    session_fixture *f = *state;
    float logits[VOCAB] = {42};

    assert_int_equal(kvs_session_feed(f->session, NULL, 0, logits, NULL), KVS_OK);
    assert_int_equal(kvs_session_length(f->session), 0);
    assert_true(logits[0] == 42);
}

static void a_full_context_is_refused(void **state)
{
    session_fixture *f = *state;
    float before[VOCAB], after[VOCAB];
    kvs_err err;

    feed_in_chunks(f, LENGTH - 1, before);
    assert_int_equal(kvs_session_feed(f->session, f->ids, CONTEXT - LENGTH + 1, NULL, &err),
                     KVS_E_LIMIT);
    assert_non_null(strstr(err.message, "560 of 600"));
    assert_int_equal(kvs_session_length(f->session), LENGTH);
    assert_int_equal(kvs_session_feed(f->session, f->ids, CONTEXT - LENGTH, after, &err), KVS_OK);
    assert_int_equal(kvs_session_length(f->session), CONTEXT);
}

static void bad_ids_and_capacities_are_refused(void **state)
{
    const int32_t bad[] = {1, VOCAB}, negative[] = {-1};
    session_fixture *f = *state;
    kvs_session *session;
    kvs_err err;

    assert_int_equal(kvs_session_feed(f->session, bad, 2, NULL, &err), KVS_E_INVALID);
    assert_non_null(strstr(err.message, "token 1 is id 29"));
    assert_int_equal(kvs_session_feed(f->session, negative, 1, NULL, &err), KVS_E_INVALID);
    assert_int_equal(kvs_session_length(f->session), 0);
    assert_int_equal(kvs_session_create(&session, f->model,
                                        &(kvs_session_options){.size = sizeof(kvs_session_options),
                                                               .capacity = CONTEXT + 1},
                                        &err),
                     KVS_E_LIMIT);
    assert_null(session);
}

/* Returns the log-probability of a token, and sets *best to the most likely one. */
static double log_probability(const float *logits, int32_t token, int32_t *best)
{
    double sum = 0;

    *best = 0;
    for (int32_t v = 1; v < VOCAB; v++)
        *best = logits[v] > logits[*best] ? v : *best;
    for (size_t v = 0; v < VOCAB; v++)
        sum += exp((double)logits[v] - (double)logits[*best]);
    return (double)logits[token] - (double)logits[*best] - log(sum);
}

static void scores_are_those_of_the_logits(void **state)
{
    session_fixture *f = *state;
    int32_t targets[LENGTH], best[LENGTH], only_best[LENGTH];
    double logprobs[LENGTH];
    float logits[VOCAB], last[VOCAB];

    for (size_t i = 0; i < LENGTH; i++)
        targets[i] = i % 3 == 2 ? -1 : f->ids[(i + 1) % LENGTH];
    assert_int_equal(kvs_runner_feed(NULL,
                                     &(kvs_feed){.size = sizeof(kvs_feed),
                                                 .session = f->session,
                                                 .ids = f->ids,
                                                 .count = LENGTH,
                                                 .targets = targets,
                                                 .logprobs = logprobs,
                                                 .best = best},
                                     1, NULL),
                     KVS_OK);
    assert_int_equal(kvs_session_logits(last, f->session, NULL), KVS_OK);
    kvs_session_reset(f->session);
    for (size_t i = 0; i < LENGTH; i++) {
        int32_t expected;
        double logprob;

        assert_int_equal(kvs_session_feed(f->session, f->ids + i, 1, logits, NULL), KVS_OK);
        logprob = log_probability(logits, targets[i] < 0 ? 0 : targets[i], &expected);
        assert_int_equal(best[i], expected);
        if (fabs(logprobs[i] - (targets[i] < 0 ? 0 : logprob)) > 1e-4) /* logits up to 10 */
            fail_msg("token %zu: %.9g, but %.9g from its logits", i, logprobs[i], logprob);
    }
    support_expect_close(last, logits, VOCAB, 1e-5, "logits after scoring");
    kvs_session_reset(f->session);
    assert_int_equal(kvs_runner_feed(NULL,
                                     &(kvs_feed){.size = sizeof(kvs_feed),
                                                 .session = f->session,
                                                 .ids = f->ids,
                                                 .count = LENGTH,
                                                 .targets = NULL,
                                                 .logprobs = NULL,
                                                 .best = only_best},
                                     1, NULL),
                     KVS_OK);
    assert_memory_equal(only_best, best, sizeof best);
}

static void bad_targets_are_refused(void **state)
{
    const int32_t targets[] = {-1, VOCAB};
    session_fixture *f = *state;
    double logprobs[2];
    float logits[VOCAB];
    kvs_err err;

    assert_int_equal(kvs_runner_feed(NULL,
                                     &(kvs_feed){.size = sizeof(kvs_feed),
                                                 .session = f->session,
                                                 .ids = f->ids,
                                                 .count = 2,
                                                 .targets = targets,
                                                 .logprobs = logprobs,
                                                 .best = NULL},
                                     1, &err),
                     KVS_E_INVALID);
    assert_string_equal(err.message, "target 1 is id 29, expected at most 28");
    assert_int_equal(kvs_session_length(f->session), 0);
    assert_int_equal(kvs_session_logits(logits, f->session, &err), KVS_E_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(any_chunking_gives_the_same_logits, set_up,
                                        session_tear_down),
        cmocka_unit_test_setup_teardown(one_large_pass_gives_the_same_logits, set_up,
                                        session_tear_down),
        cmocka_unit_test_setup_teardown(nothing_fed_changes_nothing, set_up, session_tear_down),
        cmocka_unit_test_setup_teardown(a_full_context_is_refused, set_up, session_tear_down),
        cmocka_unit_test_setup_teardown(scores_are_those_of_the_logits, set_up, session_tear_down),
        cmocka_unit_test_setup_teardown(bad_targets_are_refused, set_up, session_tear_down),
        cmocka_unit_test_setup_teardown(bad_ids_and_capacities_are_refused, set_up,
                                        session_tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
