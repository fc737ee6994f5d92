/* kvs_score() and kvs_perplexity(), compared with the logits of a session. */
#include "kvshift/kvshift_lab.h"
#include "session.h"

#include <math.h>
#include <string.h>

typedef struct score_result {
    double sum;
    int greedy;
} score_result;

enum { VOCAB = 19, CONTEXT = 40, LENGTH = 33 };

static int set_up(void **state)
{
    const session_options options = {.model_seed = 11, .ids_seed = 3, .capacity = LENGTH - 1};
    kvs_model_config config;

    kvsi_model_config_init(&config);
    config.vocab = VOCAB;
    config.dim = 32;
    config.layers = 2;
    config.heads = 4;
    config.kv_heads = 2;
    config.context = CONTEXT;
    config.shift.targets = KVS_SHIFT_K | KVS_SHIFT_V;
    return session_set_up(state, &config, &options);
}

/* Returns the log-probability of token `at` given all tokens before it, by definition, and sets
 * *best to the most likely token there. */
static double expected_logprob(session_fixture *f, size_t at, int32_t *best)
{
    float logits[VOCAB];
    double sum = 0;

    kvs_session_reset(f->session);
    assert_int_equal(kvs_session_feed(f->session, f->ids, at, logits, NULL), KVS_OK);
    *best = 0;
    for (int32_t v = 0; v < VOCAB; v++) {
        sum += exp((double)logits[v] - (double)logits[f->ids[at]]);
        *best = logits[v] > logits[*best] ? v : *best;
    }
    return -log(sum);
}

/* 1e-5: float rounding of log-probabilities of this size, for any order of summation. */
static void scores_are_those_of_a_session(void **state)
{
    session_fixture *f = *state;
    double logprobs[2][LENGTH];
    score_result result[2];

    for (size_t context = 1; context < LENGTH; context += 5) {
        double sum = 0;
        int greedy = 1;

        for (unsigned flags = 0; flags < 2; flags++)
            assert_int_equal(kvs_score(&result[flags].sum, &result[flags].greedy, logprobs[flags],
                                       f->session, f->ids, LENGTH, context, flags, NULL),
                             KVS_OK);
        for (size_t i = context; i < LENGTH; i++) {
            int32_t best;
            const double expected = expected_logprob(f, i, &best);

            sum += expected;
            greedy = greedy && best == f->ids[i];
            for (int k = 0; k < 2; k++)
                assert_true(fabs(logprobs[k][i - context] - expected) < 1e-5);
        }
        for (int k = 0; k < 2; k++) {
            assert_true(fabs(result[k].sum - sum) < 1e-5 * fabs(sum));
            assert_int_equal(result[k].greedy, greedy);
        }
    }
}

static void the_sum_is_that_of_perplexity(void **state)
{
    session_fixture *f = *state;
    const kvs_perplexity_options options = {.window = CONTEXT, .stride = CONTEXT};
    kvs_perplexity_result ppl;
    score_result score;

    assert_int_equal(kvs_perplexity(&ppl, f->model, f->ids, LENGTH, &options, NULL), KVS_OK);
    assert_int_equal(
        kvs_score(&score.sum, &score.greedy, NULL, f->session, f->ids, LENGTH, 1, 0, NULL), KVS_OK);
    assert_int_equal(ppl.tokens, LENGTH - 1);
    assert_true(fabs(score.sum + ppl.loss * (double)ppl.tokens) < 1e-5 * fabs(score.sum));
}

/* Returns sum_i p_i log(p_i / q_i) after the first `at` tokens, by definition, and increments *same
 * if both models prefer the same token. */
static double expected_divergence(session_fixture *f, const kvs_model *reference, size_t at,
                                  int *same)
{
    const kvs_model *models[] = {f->model, reference};
    double divergence = 0;
    float logits[2][VOCAB];

    for (int k = 0; k < 2; k++) {
        kvs_session *session;

        assert_int_equal(
            kvs_session_create(
                &session, models[k],
                &(kvs_session_options){.size = sizeof(kvs_session_options), .capacity = LENGTH},
                NULL),
            KVS_OK);
        assert_int_equal(kvs_session_feed(session, f->ids, at, logits[k], NULL), KVS_OK);
        kvs_session_free(session);
    }
    for (int32_t v = 0; v < VOCAB; v++) {
        const double log_p = kvs_logits_logprob(logits[1], VOCAB, v);

        divergence += exp(log_p) * (log_p - kvs_logits_logprob(logits[0], VOCAB, v));
    }
    *same += kvs_logits_best(logits[0], VOCAB) == kvs_logits_best(logits[1], VOCAB);
    return divergence;
}

/* The windows overlap at the end of the test, so that some rows do not count.  1e-5 as above. */
static void divergence_is_that_of_the_logits(void **state)
{
    session_fixture *f = *state;
    kvs_model *other = support_model(f->rt, kvs_model_get_config(f->model), 12);
    kvs_perplexity_options options = {.window = CONTEXT, .stride = CONTEXT, .reference = other};
    kvs_perplexity_result found, alone;
    double sum = 0;
    int same = 0;

    assert_int_equal(kvs_perplexity(&found, f->model, f->ids, LENGTH, &options, NULL), KVS_OK);
    assert_int_equal(kvs_perplexity(&alone, other, f->ids, LENGTH,
                                    &(kvs_perplexity_options){.window = CONTEXT, .stride = CONTEXT},
                                    NULL),
                     KVS_OK);
    for (size_t at = 1; at < LENGTH; at++)
        sum += expected_divergence(f, other, at, &same);
    assert_true(found.divergence > 1e-3);
    assert_true(fabs(found.divergence * (LENGTH - 1) - sum) < 1e-5 * sum);
    assert_true(fabs(found.same_best * (LENGTH - 1) - same) < 1e-9);
    assert_true(found.reference_loss == alone.loss);
    options.window = 8;
    options.stride = 4;
    options.reference = f->model;
    assert_int_equal(kvs_perplexity(&found, f->model, f->ids, LENGTH, &options, NULL), KVS_OK);
    assert_int_equal(found.tokens, LENGTH - 1);
    assert_true(fabs(found.divergence) < 1e-12 && found.same_best == 1);
    kvs_model_free(other);
}

static void the_likeliest_continuation_is_greedy(void **state)
{
    session_fixture *f = *state;
    score_result result;
    float logits[VOCAB];

    for (size_t i = 4; i < 12; i++) {
        kvs_session_reset(f->session);
        assert_int_equal(kvs_session_feed(f->session, f->ids, i, logits, NULL), KVS_OK);
        f->ids[i] = kvs_logits_best(logits, VOCAB);
    }
    for (unsigned flags = 0; flags < 2; flags++) {
        f->ids[11] = kvs_logits_best(logits, VOCAB);
        assert_int_equal(
            kvs_score(&result.sum, &result.greedy, NULL, f->session, f->ids, 12, 4, flags, NULL),
            KVS_OK);
        assert_true(result.greedy);
        f->ids[11] = (f->ids[11] + 1) % VOCAB;
        assert_int_equal(
            kvs_score(&result.sum, &result.greedy, NULL, f->session, f->ids, 12, 4, flags, NULL),
            KVS_OK);
        assert_false(result.greedy);
    }
}

static void what_cannot_be_scored_is_refused(void **state)
{
    session_fixture *f = *state;
    int32_t more[LENGTH + 1];
    score_result result;
    kvs_err err;

    memcpy(more, f->ids, LENGTH * sizeof *more);
    more[LENGTH] = 0;
    assert_int_equal(
        kvs_score(&result.sum, &result.greedy, NULL, f->session, more, LENGTH + 1, 3, 0, &err),
        KVS_E_LIMIT);
    assert_string_equal(err.message,
                        "context and continuation have 34 tokens, the model takes at most 33");
    assert_int_equal(kvs_score(&result.sum, &result.greedy, NULL, f->session, more, 4, 0, 0, &err),
                     KVS_E_INVALID);
    assert_int_equal(kvs_score(&result.sum, &result.greedy, NULL, f->session, more, 4, 4, 0, &err),
                     KVS_E_INVALID);
    assert_int_equal(kvs_score(&result.sum, &result.greedy, NULL, f->session, more, 4, 3, 2, &err),
                     KVS_E_INVALID);
    for (unsigned flags = 0; flags < 2; flags++) {
        more[3] = VOCAB;
        assert_int_equal(
            kvs_score(&result.sum, &result.greedy, NULL, f->session, more, 4, 3, flags, &err),
            KVS_E_INVALID);
        assert_string_equal(err.message, "token 3 is id 19, expected 0 to 18");
        assert_int_equal(
            kvs_score(&result.sum, &result.greedy, NULL, f->session, more, 5, 3, flags, &err),
            KVS_E_INVALID);
        more[3] = -1;
        assert_int_equal(
            kvs_score(&result.sum, &result.greedy, NULL, f->session, more, 4, 3, flags, &err),
            KVS_E_INVALID);
    }
}

/* Texts do not affect each other, and the result covers all predictions of all texts. */
static void texts_are_measured_apart(void **state)
{
    session_fixture *f = *state;
    const size_t starts[] = {0, 12, 13, 13, LENGTH}; /* one text has one token, one is empty */
    const kvs_perplexity_options options = {.window = 8, .stride = 3, .starts = starts, .texts = 4};
    const kvs_perplexity_options alone = {.window = 8, .stride = 3};
    kvs_perplexity_result all, first, last;

    assert_int_equal(kvs_perplexity(&all, f->model, f->ids, LENGTH, &options, NULL), KVS_OK);
    assert_int_equal(kvs_perplexity(&first, f->model, f->ids, 12, &alone, NULL), KVS_OK);
    assert_int_equal(kvs_perplexity(&last, f->model, f->ids + 13, LENGTH - 13, &alone, NULL),
                     KVS_OK);
    assert_int_equal(all.tokens, first.tokens + last.tokens);
    assert_int_equal(all.fed, first.fed + last.fed);
    assert_int_equal(first.fed, 8 + 8); /* tokens 0 to 7, then 3 to 10 */
    assert_true(fabs(all.loss * (double)all.tokens - first.loss * (double)first.tokens -
                     last.loss * (double)last.tokens) < 1e-9 * (double)all.tokens);
}

static void texts_outside_the_ids_are_refused(void **state)
{
    session_fixture *f = *state;
    const size_t bad[][3] = {{0, 5, LENGTH + 1}, {4, 2, LENGTH}, {3, 4, 5}};
    kvs_perplexity_result result;

    for (size_t i = 0; i < 3; i++) { /* the last has nothing to predict */
        const kvs_perplexity_options options = {
            .window = 8, .stride = 3, .starts = bad[i], .texts = 2};

        assert_int_equal(kvs_perplexity(&result, f->model, f->ids, LENGTH, &options, NULL),
                         KVS_E_INVALID);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(scores_are_those_of_a_session, set_up, session_tear_down),
        cmocka_unit_test_setup_teardown(the_sum_is_that_of_perplexity, set_up, session_tear_down),
        cmocka_unit_test_setup_teardown(divergence_is_that_of_the_logits, set_up,
                                        session_tear_down),
        cmocka_unit_test_setup_teardown(the_likeliest_continuation_is_greedy, set_up,
                                        session_tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_be_scored_is_refused, set_up,
                                        session_tear_down),
        cmocka_unit_test_setup_teardown(texts_are_measured_apart, set_up, session_tear_down),
        cmocka_unit_test_setup_teardown(texts_outside_the_ids_are_refused, set_up,
                                        session_tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
