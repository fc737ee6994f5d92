/* The store of prefixes: what is found, for whom, with which scores, and what is removed. */
#include "base/memory.h"
#include "kvshift/kvshift.h"
#include "serve/prefixes.h"
#include "support.h"

#include <string.h>

enum { VOCAB = 40, CONTEXT = 256 };

static kvs_runtime *rt;
static kvs_model *model, *sliding;
static kvs_runner *runner, *sliding_runner;
static int32_t ids[CONTEXT];

static int set_up(void **state)
{
    static const support_sizes sizes = {.vocab = VOCAB, .dim = 32, .ffn = 48, .context = CONTEXT};
    const kvs_model_config plain = {SUPPORT_SHIFT(KVS_SHIFT_K | KVS_SHIFT_V, FREE, 1)},
                           window = {SUPPORT_SHIFT(KVS_SHIFT_K | KVS_SHIFT_V, FREE, 1),
                                     .sliding_window = 8};
    kvs_model_config config;

    (void)state;
    rt = support_exact_runtime();
    config = support_config(&plain, &sizes);
    model = support_model(rt, &config, 1);
    config = support_config(&window, &sizes);
    sliding = support_model(rt, &config, 1);
    support_fill_ids(ids, CONTEXT, 3, VOCAB);
    return kvs_runner_create(&runner, model, NULL, NULL) ||
           kvs_runner_create(&sliding_runner, sliding, NULL, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    kvs_runner_free(runner);
    kvs_runner_free(sliding_runner);
    kvs_model_free(model);
    kvs_model_free(sliding);
    kvs_runtime_free(rt);
    return 0;
}

/* A session of `count` tokens: those of `ids`, the last one plus `change`. */
static kvs_session *fed(const kvs_model *of, size_t count, int32_t change)
{
    const kvs_session_options how = {
        .size = sizeof how, .capacity = CONTEXT, .runner = of == model ? runner : sliding_runner};
    kvs_session *session;
    const int32_t last = (ids[count - 1] + change) % VOCAB;
    kvs_err err;

    if (kvs_session_create(&session, of, &how, &err) != KVS_OK ||
        kvs_session_feed(session, ids, count - 1, NULL, &err) != KVS_OK ||
        kvs_session_feed(session, &last, 1, NULL, &err) != KVS_OK)
        fail_msg("%s", err.message);
    return session;
}

static size_t find(kvsi_prefixes *store, uint64_t owner, size_t count, int scored)
{
    const kvs_session *session;
    const kvsi_scores *scores;
    const size_t shared = kvsi_prefixes_find(&session, &scores, store, owner, ids, count, scored);

    assert_int_equal(shared > 0, session != NULL);
    return shared;
}

static void test_find(void **state)
{
    kvsi_prefixes *store;

    (void)state;
    assert_int_equal(kvsi_prefixes_create(&store, 1 << 30, NULL), KVS_OK);
    assert_int_equal(find(store, 1, 10, 0), 0);
    kvsi_prefixes_add(store, 1, fed(model, 100, 0), NULL, KVS_DTYPE_F32);
    assert_int_equal(find(store, 1, 10, 0), 10);
    assert_int_equal(find(store, 1, 100, 0), 100);
    assert_int_equal(find(store, 1, 200, 0), 100);
    assert_int_equal(find(store, 2, 100, 0), 0); /* another owner */
    assert_int_equal(find(store, 1, 100, 1), 0); /* no scores */
    kvsi_prefixes_add(store, 1, fed(model, 120, 1), NULL, KVS_DTYPE_F32);
    assert_int_equal(find(store, 1, 200, 0), 119); /* up to the token that differs */
    /* The first is a prefix of the second, which replaced it; a third adds nothing. */
    assert_int_equal(kvsi_prefixes_stats(store).entries, 1);
    kvsi_prefixes_add(store, 1, fed(model, 50, 0), NULL, KVS_DTYPE_F32);
    assert_int_equal(kvsi_prefixes_stats(store).entries, 1);
    kvsi_prefixes_add(store, 2, fed(model, 50, 0), NULL, KVS_DTYPE_F32);
    assert_int_equal(kvsi_prefixes_stats(store).entries, 2);
    kvsi_prefixes_free(store);
    kvsi_prefixes_free(NULL);
}

static void test_scores(void **state)
{
    kvsi_prefixes *store;
    kvsi_scores scores;
    const kvs_session *session;
    const kvsi_scores *found;

    (void)state;
    assert_int_equal(kvsi_prefixes_create(&store, 1 << 30, NULL), KVS_OK);
    assert_int_equal(kvsi_scores_create(&scores, 60, 3, NULL), KVS_OK);
    for (size_t i = 0; i < 60; i++) {
        scores.own[i] = (double)i;
        scores.top_ids[3 * i] = (int32_t)i;
        scores.top_ids[3 * i + 1] = -1;
        scores.top_logprobs[3 * i] = -(double)i;
    }
    kvsi_prefixes_add(store, 1, fed(model, 100, 0), &scores, KVS_DTYPE_F32);
    kvsi_scores_release(&scores);
    assert_int_equal(find(store, 1, 200, 0), 100);
    assert_int_equal(kvsi_prefixes_find(&session, &found, store, 1, ids, 200, 1), 60);
    assert_int_equal(found->top, 1);
    for (size_t i = 0; i < 60; i++) {
        assert_true(found->own[i] == (double)i && found->top_logprobs[i] == -(double)i);
        assert_int_equal(found->top_ids[i], i);
    }
    /* A longer session without scores does not replace it. */
    kvsi_prefixes_add(store, 1, fed(model, 150, 0), NULL, KVS_DTYPE_F32);
    assert_int_equal(find(store, 1, 200, 0), 150);
    assert_int_equal(find(store, 1, 200, 1), 60);
    kvsi_prefixes_free(store);
}

static void test_limit(void **state)
{
    const kvs_session_options how = {.size = sizeof how, .capacity = 100};
    const uint64_t one = kvs_session_bytes(kvs_model_get_config(model), &how);
    kvsi_prefixes *store;
    const kvs_session *session;
    const kvsi_scores *scores;
    size_t live;

    (void)state;
    assert_int_equal(kvsi_prefixes_create(&store, 3 * one, NULL), KVS_OK);
    live = kvsi_memory_live();
    for (int32_t i = 0; i < 3; i++)
        kvsi_prefixes_add(store, (uint64_t)i, fed(model, 100, 0), NULL, KVS_DTYPE_F32);
    assert_int_equal(kvsi_prefixes_stats(store).entries, 3);
    assert_int_equal(kvsi_prefixes_stats(store).bytes, 3 * one); /* they were made smaller */
    assert_in_range(kvsi_memory_live() - live, 3 * one / 2, 2 * 3 * one);
    assert_int_equal(kvsi_prefixes_find(&session, &scores, store, 0, ids, 100, 0), 100);
    kvsi_prefixes_hit(store, session); /* now 1 was used longest ago */
    kvsi_prefixes_add(store, 3, fed(model, 100, 0), NULL, KVS_DTYPE_F32);
    assert_int_equal(find(store, 0, 100, 0), 100);
    assert_int_equal(find(store, 1, 100, 0), 0);
    assert_int_equal(find(store, 2, 100, 0), 100);
    assert_int_equal(find(store, 3, 100, 0), 100);
    assert_int_equal(kvsi_prefixes_stats(store).evictions, 1);
    assert_int_equal(kvsi_prefixes_stats(store).hits, 1);
    /* One that does not fit removes nothing. */
    kvsi_prefixes_free(store);
    assert_int_equal(kvsi_prefixes_create(&store, one, NULL), KVS_OK);
    kvsi_prefixes_add(store, 0, fed(model, 100, 0), NULL, KVS_DTYPE_F32);
    kvsi_prefixes_add(store, 1, fed(model, 200, 0), NULL, KVS_DTYPE_F32);
    assert_int_equal(find(store, 0, 100, 0), 100);
    assert_int_equal(find(store, 1, 100, 0), 0);
    kvsi_prefixes_free(store);
    assert_int_equal(kvsi_prefixes_create(&store, 0, NULL), KVS_OK); /* switched off */
    kvsi_prefixes_add(store, 0, fed(model, 100, 0), NULL, KVS_DTYPE_F32);
    assert_int_equal(find(store, 0, 100, 0), 0);
    kvsi_prefixes_free(store);
}

/* Every cut that is offered can be copied, with the bits of a session that was fed. */
static void test_cuts(void **state)
{
    const kvs_model *const models[] = {model, sliding};

    (void)state;
    for (size_t m = 0; m < 2; m++) {
        kvs_session *whole = fed(models[m], 200, 0);
        size_t offered = 0;

        for (size_t cut = 1; cut <= 200; cut += 7) {
            const size_t shared = kvsi_shared_prefix(whole, ids, cut);
            float logits[VOCAB], expected[VOCAB];
            kvs_session *copy, *other;
            kvs_err err;

            assert_true(shared == cut || (shared == 0 && models[m] == sliding));
            if (shared == 0)
                continue;
            offered++;
            if (kvs_session_copy(&copy, whole, shared, NULL, &err) != KVS_OK)
                fail_msg("%s", err.message);
            other = fed(models[m], shared, 0);
            assert_int_equal(kvs_session_logits(logits, copy, NULL), KVS_OK);
            assert_int_equal(kvs_session_logits(expected, other, NULL), KVS_OK);
            assert_memory_equal(logits, expected, sizeof logits);
            kvs_session_free(copy);
            kvs_session_free(other);
        }
        assert_true(offered > 5);
        kvs_session_free(whole);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_scores),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_cuts),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
