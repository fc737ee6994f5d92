/* Log-likelihoods of many requests: the same bits with and without shared prefixes, for any size of
 * passes and memory, and those of kvs_score(). */
#include "base/memory.h"
#include "eval/score.h"
#include "support.h"

#include <math.h>
#include <string.h>

enum { REQUESTS = 60, LONGEST = 90, VOCAB = 70, CONTEXT = 96 };

/* Requests in families: each starts with a part of an earlier one. */
typedef struct fixture {
    int32_t ids[REQUESTS][LONGEST + 1];
    kvsi_score_request requests[REQUESTS];
    size_t done[REQUESTS], done_count;
} fixture;

static uint32_t number(uint32_t *state, uint32_t below)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 8) % below;
}

static void fill(fixture *f, uint32_t seed)
{
    memset(f, 0, sizeof *f);
    for (size_t r = 0; r < REQUESTS; r++) {
        const size_t from = r > 0 ? number(&seed, (uint32_t)r) : 0;
        const size_t shared = r > 0 ? number(&seed, (uint32_t)f->requests[from].count + 1) : 0;
        const size_t count = 2 + number(&seed, LONGEST - 1);

        for (size_t i = 0; i < count; i++)
            f->ids[r][i] = i < shared ? f->ids[from][i] : (int32_t)number(&seed, VOCAB);
        if (r % 5 == 4) { /* differs from the one before in the last id only */
            memcpy(f->ids[r], f->ids[r - 1], sizeof f->ids[r]);
            f->requests[r] = f->requests[r - 1];
            f->requests[r].ids = f->ids[r];
            f->ids[r][f->requests[r].count - 1] = (int32_t)number(&seed, VOCAB);
            continue;
        }
        f->requests[r] =
            (kvsi_score_request){.ids = f->ids[r],
                                 .count = count,
                                 .context_count = 1 + number(&seed, (uint32_t)count - 1)};
    }
}

static kvs_status note_done(void *user, const size_t *indexes, size_t count, kvs_err *err)
{
    fixture *f = user;

    (void)err;
    for (size_t i = 0; i < count; i++)
        f->done[f->done_count++] = indexes[i];
    return KVS_OK;
}

static kvsi_score_totals score(fixture *f, const kvs_model *model, kvsi_score_options how)
{
    char seen[REQUESTS] = {0};
    kvsi_score_totals totals, counted;
    kvs_err err;

    how.done = note_done;
    how.user = f;
    f->done_count = 0;
    if (kvsi_score_requests(&totals, f->requests, REQUESTS, model, &how, &err) != KVS_OK)
        fail_msg("%s", err.message);
    assert_int_equal(f->done_count, REQUESTS);
    for (size_t i = 0; i < REQUESTS; i++)
        seen[f->done[i]] = 1;
    for (size_t i = 0; i < REQUESTS; i++)
        assert_true(seen[i]);
    assert_int_equal(kvsi_score_count(&counted, f->requests, REQUESTS, &err), KVS_OK);
    assert_int_equal(counted.needed, totals.needed);
    if (!how.alone)
        assert_int_equal(counted.fed, totals.fed);
    else
        assert_int_equal(totals.fed, totals.needed);
    return totals;
}

static void expect_same(const fixture *found, const fixture *expected)
{
    for (size_t i = 0; i < REQUESTS; i++) {
        if (found->requests[i].sum != expected->requests[i].sum)
            fail_msg("request %zu: %.17g, expected %.17g", i, found->requests[i].sum,
                     expected->requests[i].sum);
        assert_int_equal(found->requests[i].greedy, expected->requests[i].greedy);
    }
}

static void check_model(kvs_runtime *rt, const kvs_model_config *special)
{
    const support_sizes sizes = {.vocab = VOCAB, .dim = 32, .ffn = 48, .context = CONTEXT};
    const kvs_model_config config = support_config(special, &sizes);
    kvs_model *model = support_model(rt, &config, 5);
    fixture *f = kvsi_alloc(1, sizeof *f), *again = kvsi_alloc(1, sizeof *f);
    const kvsi_score_options usual = {.tokens = 64, .sequences = 16, .memory = 1e9};
    kvsi_score_options how = usual;
    kvsi_score_totals totals;
    kvs_session *session;
    kvs_err err;

    assert_true(f && again);
    fill(f, 7);
    *again = *f;
    for (size_t i = 0; i < REQUESTS; i++)
        again->requests[i].ids = f->requests[i].ids;
    totals = score(f, model, usual);
    assert_true(totals.fed < totals.needed);
    how.alone = 1;
    score(again, model, how);
    expect_same(again, f);
    how = (kvsi_score_options){.tokens = 5, .sequences = 3, .memory = 1};
    score(again, model, how);
    expect_same(again, f);
    how = (kvsi_score_options){.tokens = 300, .sequences = 60, .memory = 3e5};
    score(again, model, how);
    expect_same(again, f);
    assert_int_equal(kvs_session_create(&session, model, NULL, &err), KVS_OK);
    for (size_t i = 0; i < REQUESTS; i++) {
        const kvsi_score_request *r = &f->requests[i];
        double sum;
        int greedy;

        assert_int_equal(
            kvs_score(&sum, &greedy, NULL, session, r->ids, r->count, r->context_count, 0, &err),
            KVS_OK);
        assert_true(sum == r->sum);
        assert_int_equal(greedy, r->greedy);
    }
    kvs_session_free(session);
    kvsi_free(f);
    kvsi_free(again);
    kvs_model_free(model);
}

static void results_do_not_depend_on_sharing(void **state)
{
    static const kvs_model_config models[] = {
        {.body = KVSI_BODY_LLAMA, SUPPORT_SHIFT(KVS_SHIFT_K | KVS_SHIFT_V, FREE, 1)},
        {.body = KVSI_BODY_LLAMA},
        {.body = KVSI_BODY_LLAMA,
         .sliding_window = 20,
         SUPPORT_SHIFT(KVS_SHIFT_K | KVS_SHIFT_V, FREE, 2)},
        {.body = KVSI_BODY_GPT2},
    };
    const char *level;

    (void)state;
    for (size_t l = 0; (level = support_level(l)); l++)
        for (int threads = SUPPORT_SANITIZED ? 2 : 1; threads <= 2; threads++) {
            const kvs_runtime_options how = {
                .size = sizeof how, .cpu_level = level, .threads = threads, .exact = 1};
            kvs_runtime *rt;
            kvs_err err;

            assert_int_equal(kvs_runtime_create(&rt, &how, &err), KVS_OK);
            for (size_t m = 0; m < sizeof models / sizeof *models; m++)
                check_model(rt, &models[m]);
            kvs_runtime_free(rt);
        }
}

static void bad_requests_are_refused(void **state)
{
    const support_sizes sizes = {.vocab = VOCAB, .dim = 32, .ffn = 48, .context = 8};
    const kvs_model_config config =
        support_config(&(kvs_model_config){.body = KVSI_BODY_LLAMA}, &sizes);
    kvs_runtime *rt = support_runtime(NULL);
    kvs_model *model = support_model(rt, &config, 5);
    const kvsi_score_options how = {.tokens = 8, .sequences = 2, .memory = 1e9};
    const int32_t ids[12] = {1, 2, VOCAB};
    const struct {
        size_t count, context_count;
        const char *message;
    } cases[] = {{2, 2, "2 ids and a context of 2"},
                 {2, 0, "a context of 0"},
                 {11, 1, "takes at most 9"},
                 {3, 1, "token 2 is id 70"}};
    kvs_err err;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kvsi_score_request r = {
            .ids = ids, .count = cases[i].count, .context_count = cases[i].context_count};

        assert_int_not_equal(kvsi_score_requests(NULL, &r, 1, model, &how, &err), KVS_OK);
        assert_non_null(strstr(err.message, cases[i].message));
    }
    kvs_model_free(model);
    kvs_runtime_free(rt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_do_not_depend_on_sharing),
        cmocka_unit_test(bad_requests_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
