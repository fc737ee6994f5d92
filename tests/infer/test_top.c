/* Results that a feed returns for each token: the most likely next tokens, and log-probabilities.
 * They agree with the logits, and their bits do not depend on how the tokens are split into calls
 * and passes. */
#include "base/json.h"
#include "base/memory.h"
#include "formats/hf.h"
#include "infer/session.h"
#include "model_files.h"
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VOCAB = 37, CONTEXT = 320, LENGTH = 300, TOP = 5 };

static const double LIMIT = 1e-5; /* float rounding, relative to the largest logit */

typedef struct fixture {
    kvs_runtime *rt;
    kvs_model *model;
    int32_t ids[LENGTH + 1];
} fixture;

static fixture start(const char *level)
{
    /* At this width the bits of a product differ between few and many rows. */
    static const support_sizes sizes = {.vocab = VOCAB, .dim = 64, .ffn = 64, .context = CONTEXT};
    const kvs_model_config special = {SUPPORT_SHIFT(KVS_SHIFT_K | KVS_SHIFT_V, FREE, 1),
                                      .kv_heads = 2};
    const kvs_model_config config = support_config(&special, &sizes);
    fixture f = {.rt = support_runtime(level)};

    f.model = support_model(f.rt, &config, 6);
    support_fill_ids(f.ids, LENGTH + 1, 2, VOCAB);
    return f;
}

static void finish(fixture *f)
{
    kvs_model_free(f->model);
    kvs_runtime_free(f->rt);
}

static void on_every_level(void (*check)(fixture *f))
{
    for (size_t l = 0; support_level(l); l++) {
        fixture f = start(support_level(l));

        check(&f);
        finish(&f);
    }
}

static kvs_session *new_session(const fixture *f, kvs_runner *runner)
{
    const kvs_session_options options = {.size = sizeof options, .runner = runner};
    kvs_session *s;

    assert_int_equal(kvs_session_create(&s, f->model, &options, NULL), KVS_OK);
    return s;
}

/* Everything that a feed can return for each token. */
typedef struct results {
    double logprobs[LENGTH], own[LENGTH], top_logprobs[LENGTH * VOCAB];
    int32_t best[LENGTH], top_ids[LENGTH * VOCAB];
} results;

static results *new_results(void)
{
    results *r = test_malloc(sizeof *r);

    memset(r, 0x55, sizeof *r); /* no result has this value */
    return r;
}

/* Returns a feed of the tokens `at` to `at` + count - 1, which asks for no results. */
static kvs_feed feed_of(const fixture *f, kvs_session *s, size_t at, size_t count)
{
    return (kvs_feed){.size = sizeof(kvs_feed), .session = s, .ids = f->ids + at, .count = count};
}

/* Asks for all results; the target of each token is the next one. */
static void ask(kvs_feed *feed, const fixture *f, results *r, size_t at, size_t top)
{
    feed->targets = f->ids + at + 1;
    feed->logprobs = r->logprobs + at;
    feed->own_logprobs = r->own + at;
    feed->best = r->best + at;
    feed->top = top;
    feed->top_ids = r->top_ids + at * top;
    feed->top_logprobs = r->top_logprobs + at * top;
}

static void feed_one(const kvs_feed *feed)
{
    kvs_err err;

    if (kvs_runner_feed(NULL, feed, 1, &err) != KVS_OK)
        fail_msg("%s", err.message);
}

/* Numbers of tokens in consecutive calls; after the last number all calls have the first one.  Some
 * passes have few tokens and some have many, and some calls take several passes. */
static const size_t splits[][6] = {{LENGTH}, {1}, {8, 40}, {9, 1, 1, 8, 20, 2}, {256, 7}};

enum { SPLITS = sizeof splits / sizeof *splits };

static size_t call_size(const size_t *split, size_t call, size_t at)
{
    const size_t count = call < 6 && split[call] > 0 ? split[call] : split[0];

    return count < LENGTH - at ? count : LENGTH - at;
}

/* ---- comparison with the logits ---- */

/* Compares two values that were computed from the same row of logits. */
static void expect_near(double found, double expected, const float *logits)
{
    double largest = 1;

    for (size_t i = 0; i < VOCAB; i++)
        largest = fmax(largest, fabs((double)logits[i]));
    if (!(fabs(found - expected) < LIMIT * largest))
        fail_msg("%.9g, expected %.9g; the largest logit is %.3g", found, expected, largest);
}

/* Feeds the tokens one by one; logits[at] receives the logits after token `at`. */
static void logits_of_all(const fixture *f, float (*logits)[VOCAB])
{
    kvs_session *s = new_session(f, NULL);

    for (size_t at = 0; at < LENGTH; at++)
        assert_int_equal(kvs_session_feed(s, f->ids + at, 1, logits[at], NULL), KVS_OK);
    kvs_session_free(s);
}

/* Checks the most likely tokens after token `at`.  Rounding may change the order of tokens that are
 * almost equally likely, so only their log-probabilities are compared. */
static void expect_top(const results *r, size_t at, size_t top, const float *logits)
{
    double best[VOCAB], last = 0;
    int32_t ids[VOCAB];
    int seen[VOCAB] = {0};

    assert_int_equal(kvs_logits_top(ids, best, top, logits, VOCAB), top);
    for (size_t i = 0; i < top; i++) {
        const int32_t id = r->top_ids[at * top + i];
        const double logprob = r->top_logprobs[at * top + i];

        assert_true(id >= 0 && id < VOCAB && !seen[id]++);
        assert_true(logprob <= last);
        expect_near(logprob, best[i], logits);
        expect_near(logprob, kvs_logits_logprob(logits, VOCAB, id), logits);
        last = logprob;
    }
}

static void check_all_splits(fixture *f)
{
    float(*logits)[VOCAB] = test_malloc(LENGTH * sizeof *logits);

    logits_of_all(f, logits);
    for (size_t i = 0; i < SPLITS; i++) {
        kvs_session *s = new_session(f, NULL);
        results *r = new_results();

        for (size_t at = 0, call = 0, count; at < LENGTH; at += count, call++) {
            kvs_feed feed = feed_of(f, s, at, count = call_size(splits[i], call, at));

            ask(&feed, f, r, at, TOP);
            feed_one(&feed);
        }
        assert_true(isnan(r->own[0]));
        for (size_t at = 0; at < LENGTH; at++) {
            expect_top(r, at, TOP, logits[at]);
            assert_int_equal(r->best[at], r->top_ids[at * TOP]);
            if (at > 0)
                expect_near(r->own[at], kvs_logits_logprob(logits[at - 1], VOCAB, f->ids[at]),
                            logits[at - 1]);
        }
        kvs_session_free(s);
        test_free(r);
    }
    test_free(logits);
}

static void results_are_those_of_the_logits(void **state)
{
    (void)state;
    on_every_level(check_all_splits);
}

/* ---- bits of log-probabilities ---- */

/* There are three ways to ask for the log-probability of a token: as a target of the token before
 * it, as the token's own log-probability, and as one of the most likely tokens.  All have the same
 * bits, also if the token before was fed in another call.  Other results in the same feed do not
 * change them. */
static void check_bits(fixture *f)
{
    for (size_t i = 0; i < SPLITS; i++) {
        kvs_session *s[5];
        results *all = new_results(), *scored = new_results(), *own = new_results();
        results *second = new_results();

        for (int k = 0; k < 5; k++)
            s[k] = new_session(f, NULL);
        for (size_t at = 0, call = 0, count; at < LENGTH; at += count, call++) {
            kvs_feed feed = feed_of(f, s[0], at, count = call_size(splits[i], call, at));
            int32_t others[LENGTH];

            ask(&feed, f, all, at, TOP);
            feed_one(&feed);
            feed = feed_of(f, s[1], at, count);
            feed.targets = f->ids + at + 1;
            feed.logprobs = scored->logprobs + at;
            feed_one(&feed);
            feed = feed_of(f, s[2], at, count);
            feed.own_logprobs = own->own + at;
            feed_one(&feed);
            for (size_t t = 0; t < count; t++)
                others[t] = all->top_ids[(at + t) * TOP + 1];
            feed = feed_of(f, s[3], at, count);
            feed.targets = others;
            feed.logprobs = second->logprobs + at;
            feed_one(&feed);
            for (size_t t = 0; t < count; t++)
                others[t] = (at + t) % 50 == 49 ? f->ids[at + t + 1] : -1;
            feed = feed_of(f, s[4], at, count);
            feed.targets = others;
            feed.logprobs = own->logprobs + at;
            feed_one(&feed);
        }
        assert_memory_equal(all->logprobs, scored->logprobs, sizeof all->logprobs);
        assert_memory_equal(own->own + 1, scored->logprobs, (LENGTH - 1) * sizeof(double));
        assert_memory_equal(all->own, own->own, sizeof own->own);
        for (size_t at = 0; at < LENGTH; at++)
            assert_true(all->top_logprobs[at * TOP + 1] == second->logprobs[at]);
        for (size_t at = 0; at < LENGTH; at++) /* one of 50 tokens has a target */
            assert_true(own->logprobs[at] == (at % 50 == 49 ? all->logprobs[at] : 0));
        for (int k = 0; k < 5; k++)
            kvs_session_free(s[k]);
        test_free(all);
        test_free(scored);
        test_free(own);
        test_free(second);
    }
}

static void all_ways_to_ask_give_the_same_bits(void **state)
{
    (void)state;
    on_every_level(check_bits);
}

/* Returns the model of the fixture with quantized weights, which are used from the mapped file. */
static kvs_model *quantized(const fixture *f, uint32_t type)
{
    kvs_load_options mapped = {.size = sizeof mapped, .mapped = 1};
    json_t *json = kvsi_hf_config_to_json(&f->model->config);
    char *config = json_dumps(json, JSON_COMPACT), *path;
    kvs_model *opened = NULL;
    kvsi_text file = {0};

    put_gguf(&file, f->model, "kvshift", config, type);
    path = write_file(support_dir, "model.gguf", file.data, file.length);
    assert_int_equal(kvs_model_load(&opened, f->rt, path, &mapped, NULL), KVS_OK);
    kvsi_free(path);
    kvsi_text_release(&file);
    free(config);
    json_decref(json);
    return opened;
}

static void quantized_weights_give_the_same_bits(void **state)
{
    static const uint32_t types[] = {8, 2}; /* Q8_0, Q4_0 */

    (void)state;
    for (size_t l = 0; strcmp(support_level(l), "reference") != 0; l++)
        for (size_t i = 0; i < 2; i++) {
            fixture f = start(support_level(l)), opened = f;

            opened.model = quantized(&f, types[i]);
            check_bits(&opened);
            kvs_model_free(opened.model);
            finish(&f);
        }
}

/* Other sessions in the same pass, which ask for other results, change no bit.  All feeds have more
 * than 8 tokens, so that every pass has many rows. */
static void check_shared_passes(fixture *f)
{
    const kvs_runner_options options = {.size = sizeof options, .sequences = 3, .tokens = 100};
    results *alone = new_results(), *together = new_results(), *other = new_results();
    kvs_session *s[4];
    kvs_runner *runner;

    assert_int_equal(kvs_runner_create(&runner, f->model, &options, NULL), KVS_OK);
    for (int k = 0; k < 4; k++)
        s[k] = new_session(f, runner);
    for (size_t at = 0; at < 90; at += 30) {
        kvs_feed feeds[3], feed = feed_of(f, s[0], at, 30);

        ask(&feed, f, alone, at, TOP);
        feed_one(&feed);
        for (int k = 0; k < 3; k++)
            feeds[k] = feed_of(f, s[k + 1], at, k == 1 ? 30 : 20);
        ask(&feeds[0], f, other, at, 11);
        ask(&feeds[1], f, together, at, TOP);
        assert_int_equal(kvs_runner_feed(runner, feeds, 3, NULL), KVS_OK);
    }
    assert_memory_equal(alone->own, together->own, 90 * sizeof *alone->own);
    assert_memory_equal(alone->logprobs, together->logprobs, 90 * sizeof *alone->logprobs);
    assert_memory_equal(alone->top_ids, together->top_ids, 90 * TOP * sizeof *alone->top_ids);
    assert_memory_equal(alone->top_logprobs, together->top_logprobs, 90 * TOP * sizeof(double));
    assert_int_equal(alone->top_ids[90 * TOP], 0x55555555); /* nothing is written after the end */
    for (int k = 0; k < 4; k++)
        kvs_session_free(s[k]);
    kvs_runner_free(runner);
    test_free(alone);
    test_free(together);
    test_free(other);
}

static void other_sessions_in_a_pass_change_nothing(void **state)
{
    (void)state;
    on_every_level(check_shared_passes);
}

/* The first token of a feed gets its own log-probability from the last pass of its session, which
 * had few or many tokens.  Session 3 is empty. */
static void first_tokens_of_feeds_have_log_probabilities(void **state)
{
    enum { SESSIONS = 14 };
    const kvs_runner_options options = {.size = sizeof options, .sequences = SESSIONS};
    fixture f = start(NULL);
    kvs_session *s[SESSIONS];
    double last[SESSIONS], own[SESSIONS];
    kvs_feed feeds[SESSIONS];
    kvs_runner *runner;

    (void)state;
    assert_int_equal(kvs_runner_create(&runner, f.model, &options, NULL), KVS_OK);
    for (size_t k = 0; k < SESSIONS; k++) {
        const size_t count = k == 3 ? 0 : k % 4 == 2 ? 20 : 1 + k % 4;
        double logprobs[20];
        kvs_feed feed;

        s[k] = new_session(&f, runner);
        feed = feed_of(&f, s[k], k, count);
        feed.targets = f.ids + k + 1;
        feed.logprobs = logprobs;
        feed_one(&feed);
        last[k] = count > 0 ? logprobs[count - 1] : NAN;
        feeds[k] = feed_of(&f, s[k], k + count, 1);
        feeds[k].own_logprobs = own + k;
    }
    assert_int_equal(kvs_runner_feed(runner, feeds, SESSIONS, NULL), KVS_OK);
    for (size_t k = 0; k < SESSIONS; k++)
        assert_true(k == 3 ? isnan(own[k]) : own[k] == last[k]);
    for (size_t k = 0; k < SESSIONS; k++)
        kvs_session_free(s[k]);
    kvs_runner_free(runner);
    finish(&f);
}

/* Copies and loaded sessions continue with the same bits.  A rewind feeds up to 64 tokens again,
 * which may change the rounding. */
static void copies_and_files_continue(void **state)
{
    fixture f = start(NULL);
    float logits[VOCAB];
    char path[512];
    double own[4];

    (void)state;
    snprintf(path, sizeof path, "%s/a.session", support_dir);
    for (size_t length = 3; length <= 70; length += 67) {
        kvs_session *s[4];
        kvs_feed feed;

        s[0] = new_session(&f, NULL);
        assert_int_equal(kvs_session_feed(s[0], f.ids, length, NULL, NULL), KVS_OK);
        assert_int_equal(kvs_session_copy(&s[1], s[0], SIZE_MAX, NULL, NULL), KVS_OK);
        assert_int_equal(kvs_session_save(s[0], path, NULL), KVS_OK);
        assert_int_equal(kvs_session_load(&s[2], f.model, path, NULL, NULL), KVS_OK);
        s[3] = new_session(&f, NULL);
        assert_int_equal(kvs_session_feed(s[3], f.ids, LENGTH, NULL, NULL), KVS_OK);
        assert_int_equal(kvs_session_rewind(s[3], length, NULL), KVS_OK);
        assert_int_equal(kvs_session_logits(logits, s[3], NULL), KVS_OK);
        for (int k = 0; k < 4; k++) {
            feed = feed_of(&f, s[k], length, 1);
            feed.own_logprobs = own + k;
            feed_one(&feed);
            kvs_session_free(s[k]);
        }
        assert_true(own[1] == own[0] && own[2] == own[0]);
        expect_near(own[3], own[0], logits);
    }
    finish(&f);
}

/* ---- sizes and memory ---- */

/* Asks for as many tokens as the vocabulary has, which takes several slices of rows, and then for
 * more than it has. */
static void check_large_tops(fixture *f)
{
    results *r = new_results();
    kvs_session *s = new_session(f, NULL);
    kvs_feed feed = feed_of(f, s, 0, 280);
    int32_t ids[2 * (VOCAB + 3)];
    double logprobs[2 * (VOCAB + 3)];

    feed.top = VOCAB;
    feed.top_ids = r->top_ids;
    feed.top_logprobs = r->top_logprobs;
    assert_true(256 * VOCAB > s->runner->pass->limits.top);
    feed_one(&feed);
    for (size_t at = 0; at < 280; at++) {
        float logits[VOCAB];
        double sum = 0;

        for (size_t i = 0; i < VOCAB; i++) {
            logits[r->top_ids[at * VOCAB + i]] = (float)r->top_logprobs[at * VOCAB + i];
            sum += exp(r->top_logprobs[at * VOCAB + i]);
        }
        expect_near(sum, 1, logits);
        expect_top(r, at, VOCAB, logits);
    }
    feed = feed_of(f, s, 280, 2);
    feed.top = VOCAB + 3;
    feed.top_ids = ids;
    feed.top_logprobs = logprobs;
    feed_one(&feed);
    for (size_t row = 0; row < 2; row++)
        for (size_t i = 0; i < VOCAB + 3; i++) {
            assert_true((ids[row * (VOCAB + 3) + i] == -1) == (i >= VOCAB));
            assert_true((logprobs[row * (VOCAB + 3) + i] == -INFINITY) == (i >= VOCAB));
        }
    kvs_session_free(s);
    test_free(r);
}

static void top_may_exceed_the_vocabulary(void **state)
{
    (void)state;
    on_every_level(check_large_tops);
}

static void steps_do_not_allocate(void **state)
{
    fixture f = start(NULL);
    results *r = new_results();
    kvs_session *s = new_session(&f, NULL);
    uint64_t before;

    (void)state;
    before = kvsi_memory_allocations();
    for (size_t at = 0, count; at < LENGTH; at += count) {
        kvs_feed feed = feed_of(&f, s, at, count = at == 0 ? 280 : 1);

        ask(&feed, &f, r, at, VOCAB);
        feed_one(&feed);
    }
    assert_int_equal(kvsi_memory_allocations(), before);
    kvs_session_free(s);
    test_free(r);
    finish(&f);
}

/* ---- struct sizes and wrong arguments ---- */

/* Feeds may be structs of an older, smaller version, or of a newer, larger one if the fields that
 * this version does not know are 0. */
static void feeds_may_have_another_struct_size(void **state)
{
    struct larger {
        kvs_feed feed;
        size_t unknown;
    } large[2] = {0};
    enum { SMALL = offsetof(kvs_feed, top) };
    unsigned char small[2 * SMALL];
    fixture f = start(NULL);
    kvs_session *s[] = {new_session(&f, NULL), new_session(&f, NULL)};
    double own[2][2];
    kvs_err err;

    (void)state;
    for (size_t k = 0; k < 2; k++) {
        large[k].feed = feed_of(&f, s[k], k, 2);
        large[k].feed.own_logprobs = own[k];
        large[k].feed.size = SMALL;
        memcpy(small + k * SMALL, &large[k], SMALL);
        large[k].feed.size = sizeof *large;
        large[k].feed.top = 100; /* the smaller struct does not have it */
    }
    assert_int_equal(kvs_runner_feed(NULL, (const kvs_feed *)(const void *)small, 2, &err), KVS_OK);
    assert_true(isnan(own[0][0]) && isnan(own[1][0]) && own[0][1] < 0 && own[1][1] < 0);
    large[0].feed.top = large[1].feed.top = 0;
    assert_int_equal(kvs_runner_feed(NULL, &large[0].feed, 2, &err), KVS_OK);
    assert_true(own[1][0] < 0);
    large[1].unknown = 1;
    assert_int_equal(kvs_runner_feed(NULL, &large[0].feed, 2, &err), KVS_E_UNSUPPORTED);
    large[1].feed.size = sizeof(kvs_feed);
    assert_int_equal(kvs_runner_feed(NULL, &large[0].feed, 2, &err), KVS_E_INVALID);
    assert_non_null(strstr(err.message, "sequence 1: kvs_feed has another size"));
    large[0].feed.size = 0;
    assert_int_equal(kvs_runner_feed(NULL, &large[0].feed, 2, &err), KVS_E_INVALID);
    assert_int_equal(kvs_session_length(s[0]), 4);
    kvs_session_free(s[0]);
    kvs_session_free(s[1]);
    finish(&f);
}

static void wrong_arguments_are_refused(void **state)
{
    fixture f = start(NULL);
    kvs_session *s = new_session(&f, NULL);
    kvs_feed feed = feed_of(&f, s, 0, 2), empty = {0};
    float logits[VOCAB];
    kvs_err err;

    (void)state;
    feed.top = 3;
    assert_int_equal(kvs_runner_feed(NULL, &feed, 1, &err), KVS_E_INVALID);
    assert_string_equal(err.message, "top_ids is NULL");
    feed = feed_of(&f, NULL, 0, 2);
    assert_int_equal(kvs_runner_feed(NULL, &feed, 1, &err), KVS_E_INVALID);
    assert_int_equal(kvs_runner_feed(s->runner, &feed, 1, &err), KVS_E_INVALID);
    assert_string_equal(err.message, "session is NULL");
    feed.session = s;
    feed.ids = NULL;
    assert_int_equal(kvs_runner_feed(NULL, &feed, 1, &err), KVS_E_INVALID);
    assert_string_equal(err.message, "ids is NULL");
    assert_int_equal(kvs_runner_feed(NULL, &empty, 1, &err), KVS_E_INVALID);
    assert_int_equal(kvs_runner_feed(NULL, NULL, 1, &err), KVS_E_INVALID);
    assert_int_equal(kvs_runner_feed(NULL, NULL, 0, &err), KVS_OK);
    assert_int_equal(kvs_session_feed(NULL, f.ids, 1, NULL, &err), KVS_E_INVALID);
    assert_int_equal(kvs_session_feed(s, NULL, 1, NULL, &err), KVS_E_INVALID);
    assert_int_equal(kvs_session_feed(s, NULL, 0, NULL, &err), KVS_OK);
    assert_int_equal(kvs_session_logits(logits, NULL, &err), KVS_E_INVALID);
    assert_int_equal(kvs_session_logits(NULL, s, &err), KVS_E_INVALID);
    assert_int_equal(kvs_session_length(s), 0);
    kvs_session_free(s);
    finish(&f);
}

/* ---- kvs_logits_top() ---- */

static void logits_top_sorts_by_logit_and_id(void **state)
{
    const float logits[] = {1, 3, 2, 3, -INFINITY, 2};
    const int32_t expected[] = {1, 3, 2, 5, 0, 4};
    double logprobs[8];
    int32_t ids[8];

    (void)state;
    for (size_t top = 1; top <= 8; top++) {
        const size_t found = top < 6 ? top : 6;

        memset(ids, 0, sizeof ids);
        assert_int_equal(kvs_logits_top(ids, NULL, top, logits, 6), found);
        assert_memory_equal(ids, expected, found * sizeof *ids);
        assert_int_equal(kvs_logits_top(ids, logprobs, top, logits, 6), found);
        for (size_t i = 0; i < found; i++)
            assert_true(logprobs[i] == kvs_logits_logprob(logits, 6, expected[i]));
    }
    assert_int_equal(kvs_logits_top(ids, NULL, 0, logits, 6), 0);
    assert_int_equal(kvs_logits_top(ids, NULL, 3, logits, 0), 0);
    assert_int_equal(kvs_logits_top(NULL, NULL, 3, logits, 6), 0);
    assert_int_equal(kvs_logits_top(ids, NULL, 3, NULL, 6), 0);
    assert_int_equal(kvs_logits_best(logits, 6), 1);
    assert_int_equal(kvs_logits_best(logits, 0), -1);
    assert_int_equal(kvs_logits_best(NULL, 6), -1);
    assert_true(isnan(kvs_logits_logprob(logits, 6, 6)) && isnan(kvs_logits_logprob(NULL, 6, 0)));
    assert_true(isnan(kvs_logits_logprob(logits, 6, -1)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_those_of_the_logits),
        cmocka_unit_test(all_ways_to_ask_give_the_same_bits),
        cmocka_unit_test_setup_teardown(quantized_weights_give_the_same_bits, support_dir_setup,
                                        support_dir_teardown),
        cmocka_unit_test(other_sessions_in_a_pass_change_nothing),
        cmocka_unit_test(first_tokens_of_feeds_have_log_probabilities),
        cmocka_unit_test_setup_teardown(copies_and_files_continue, support_dir_setup,
                                        support_dir_teardown),
        cmocka_unit_test(top_may_exceed_the_vocabulary),
        cmocka_unit_test(steps_do_not_allocate),
        cmocka_unit_test(feeds_may_have_another_struct_size),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(logits_top_sorts_by_logit_and_id),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
