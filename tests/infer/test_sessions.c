/* The logits of a sequence equal those of its tokens fed at once.  Chunks, copies, rewinds, files
 * and other sequences in a batch do not change them. */
#include "base/files.h"
#include "base/memory.h"
#include "config/config.h"
#include "family.h"
#include "infer/session.h"
#include "walk.h"

#include <stdio.h>
#include <string.h>

enum { VOCAB = 19, DIM = 24, CONTEXT = 600, SHORT = 140, LONGEST = WALK_LONGEST };

static const double LIMIT = 1e-5; /* float rounding, relative to the largest logit */

/* The context of long_scope is so long that every sliding window of the family drops rows: the
 * widest holds 523 tokens.  Only one CPU level is used; test_state.c tests the others. */
static const family_scope long_scope = {
    .sizes = {.vocab = VOCAB, .dim = DIM, .ffn = 40, .context = CONTEXT}, .levels = 1};
static const family_scope short_scope = {
    .sizes = {.vocab = VOCAB, .dim = DIM, .ffn = 40, .context = SHORT}, .levels = 1};

static walk_truth truth_of(const kvs_model *model, const char *name)
{
    return walk_truth_of(model, name, KVS_DTYPE_F32, LIMIT);
}

static size_t below(kvsi_random *random, size_t limit)
{
    return kvsi_random_below(random, (uint32_t)limit);
}

/* ---- walks ---- */

static char *walk_path;

static void take_walk(const kvs_model *model, const char *name, size_t steps)
{
    walk_truth truth = truth_of(model, name);

    walk(&truth, steps, walk_path);
    walk_truth_release(&truth);
}

static void check_long_walk(const kvs_model *model, const char *name)
{
    if (model->config.sliding_window > 0)
        take_walk(model, name, 16);
}

static void check_short_walk(const kvs_model *model, const char *name)
{
    take_walk(model, name, 14);
}

static int make_path(void **state)
{
    char *dir = support_make_dir();

    assert_non_null(walk_path = kvsi_path_join(dir, "a.session"));
    *state = dir;
    return 0;
}

static int remove_path(void **state)
{
    kvsi_free(walk_path);
    support_remove_dir(*state);
    return 0;
}

static void any_way_gives_the_logits_of_one_pass(void **state)
{
    (void)state;
    family_each_model(&long_scope, check_long_walk);
    family_each_model(&short_scope, check_short_walk);
    family_each_shift(&short_scope, check_short_walk);
}

/* ---- windows that drop rows, on every level ---- */

static void check_forgetting(kvs_runtime *rt)
{
    static const support_sizes sizes = {.vocab = VOCAB, .dim = DIM, .ffn = 40, .context = CONTEXT};
    static const kvs_model_config specials[] = {
        {SUPPORT_SHIFT(7, FREE, 3), .kv_heads = 2, .sliding_window = 5},
        {SUPPORT_SHIFT(3, DATA, 1), .sliding_window = 64, .sliding_layers = 1 << 1},
        {.kv_heads = 2, .sliding_window = 1},
    };

    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++) {
        const kvs_model_config config = support_config(&specials[i], &sizes);
        kvs_model *model = support_model(rt, &config, 4);
        char name[64];

        snprintf(name, sizeof name, "%s, sliding by %zu", kvs_runtime_cpu_level(rt),
                 config.sliding_window);
        take_walk(model, name, 8);
        kvs_model_free(model);
    }
}

static void sliding_windows_forget_on_every_level(void **state)
{
    (void)state;
    for (size_t l = 0; support_level(l); l++) {
        kvs_runtime *rt = support_runtime(support_level(l));

        check_forgetting(rt);
        kvs_runtime_free(rt);
    }
}

/* The window is so wide that it keeps more rows than it drops at once. */
static void a_wide_window_forgets_token_by_token(void **state)
{
    static const support_sizes sizes = {.vocab = VOCAB, .dim = DIM, .ffn = 40, .context = LONGEST};
    const kvs_model_config special = {SUPPORT_SHIFT(7, FREE, 1), .kv_heads = 2,
                                      .sliding_window = 200};
    const kvs_model_config config = support_config(&special, &sizes);
    kvs_runtime *rt = support_runtime(NULL);
    kvs_model *model = support_model(rt, &config, 4);
    walk_truth truth = truth_of(model, "sliding by 200");
    tracked t = {.truth = &truth};
    kvsi_random random;

    (void)state;
    kvsi_random_init(&random, 7, KVSI_RANDOM_DATA, 4);
    assert_int_equal(kvs_session_create(&t.session, model, NULL, NULL), KVS_OK);
    tracked_feed(&t, 760, &random);
    assert_int_equal(kvs_session_earliest(t.session), 1);
    for (size_t i = 0; i < 60; i++)
        tracked_feed(&t, 1, &random);
    assert_true(kvs_session_earliest(t.session) > 1);
    tracked_expect(&t, "single tokens");
    tracked_go_back_all_the_way(&t);
    kvs_session_free(t.session);
    walk_truth_release(&truth);
    kvs_model_free(model);
    kvs_runtime_free(rt);
}

/* ---- several sessions in a pass ---- */

enum { SESSIONS = 6, ROUNDS = 12 };

/* Sessions are added and removed between rounds; a pass holds 4 sessions and 50 tokens. */
static void check_shared_passes(const kvs_model *model, const char *name)
{
    walk_truth truth = truth_of(model, name);
    tracked *all = kvsi_alloc(SESSIONS, sizeof *all);
    kvs_feed feeds[SESSIONS];
    float logits[SESSIONS][VOCAB];
    kvs_runner *runner;
    kvsi_random random;

    assert_non_null(all);
    for (size_t s = 0; s < SESSIONS; s++)
        all[s].truth = &truth;
    kvsi_random_init(&random, 9, KVSI_RANDOM_DATA, 2);
    assert_int_equal(
        kvs_runner_create(
            &runner, model,
            &(kvs_runner_options){.size = sizeof(kvs_runner_options), .sequences = 4, .tokens = 50},
            NULL),
        KVS_OK);
    for (size_t round = 0; round < ROUNDS; round++) {
        const size_t changed = below(&random, SESSIONS);

        kvs_session_free(all[changed].session);
        all[changed].session = NULL;
        for (size_t s = 0; s < SESSIONS; s++) {
            const size_t most = below(&random, 3) ? 2 : 90;
            const size_t count = below(&random, most);
            tracked *t = &all[s];

            if (!t->session) {
                t->length = 0;
                assert_int_equal(
                    kvs_session_create(&t->session, runner->model,
                                       &(kvs_session_options){.size = sizeof(kvs_session_options),
                                                              .runner = runner},
                                       NULL),
                    KVS_OK);
            }
            if (t->length + count > model->config.context)
                tracked_rewind(t, kvs_session_earliest(t->session) + 1);
            feeds[s] = (kvs_feed){.size = sizeof(kvs_feed),
                                  .session = t->session,
                                  .count = count,
                                  .logits = logits[s]};
            feeds[s].ids = t->ids + t->length;
            tracked_draw(t, count, &random);
        }
        assert_int_equal(kvs_runner_feed(runner, feeds, SESSIONS, NULL), KVS_OK);
        for (size_t s = 0; s < SESSIONS; s++) {
            float again[VOCAB];

            tracked_expect(&all[s], "a round with other sessions");
            if (feeds[s].count == 0)
                continue;
            assert_int_equal(kvs_session_logits(again, all[s].session, NULL), KVS_OK);
            support_expect_close(logits[s], again, VOCAB, LIMIT, "%s: logits of a feed", name);
        }
    }
    for (size_t s = 0; s < SESSIONS; s++)
        kvs_session_free(all[s].session);
    kvs_runner_free(runner);
    walk_truth_release(&truth);
    kvsi_free(all);
}

static void other_sessions_in_a_pass_change_nothing(void **state)
{
    (void)state;
    family_each_model(&short_scope, check_shared_passes);
}

/* Forks of one prompt continue differently, in alternation. */
static void check_forks(const kvs_model *model, const char *name)
{
    enum { FORKS = 3 };
    walk_truth truth = truth_of(model, name);
    tracked *all = kvsi_alloc(FORKS, sizeof *all);
    kvsi_random random;

    assert_non_null(all);
    all[0].truth = &truth;
    kvsi_random_init(&random, 5, KVSI_RANDOM_DATA, 3);
    assert_int_equal(kvs_session_create(&all[0].session, model,
                                        &(kvs_session_options){.size = sizeof(kvs_session_options),
                                                               .capacity = 100},
                                        NULL),
                     KVS_OK);
    tracked_feed(&all[0], 67, &random);
    for (size_t i = 1; i < FORKS; i++) {
        all[i] = all[0];
        assert_int_equal(
            kvs_session_copy(&all[i].session, all[0].session, SIZE_MAX,
                             &(kvs_session_options){.size = sizeof(kvs_session_options),
                                                    .capacity = 70 + 30 * i},
                             NULL),
            KVS_OK);
        assert_int_equal(kvs_session_capacity(all[i].session), 70 + 30 * i);
        tracked_expect(&all[i], "a fork with another capacity");
    }
    for (size_t round = 0; round < 6; round++)
        for (size_t i = 0; i < FORKS; i++) {
            if (round == 3)
                tracked_rewind(&all[i], 60 + i);
            tracked_feed(&all[i], 1 + round % 3 + i, &random);
            tracked_expect(&all[i], "forks in alternation");
        }
    for (size_t i = 0; i < FORKS; i++)
        kvs_session_free(all[i].session);
    walk_truth_release(&truth);
    kvsi_free(all);
}

static void forks_do_not_touch_each_other(void **state)
{
    (void)state;
    family_each_model(&short_scope, check_forks);
}

/* ---- public calls with a small model ---- */

static kvs_model *small_model(kvs_runtime *rt, size_t sliding_window)
{
    static const support_sizes sizes = {.vocab = VOCAB, .dim = DIM, .ffn = 40, .context = CONTEXT};
    const kvs_model_config special = {SUPPORT_SHIFT(7, FREE, 2), .kv_heads = 2,
                                      .sliding_window = sliding_window};
    const kvs_model_config config = support_config(&special, &sizes);

    return support_model(rt, &config, 2);
}

static void threads_give_the_same_bits(void **state)
{
    enum { RUNS = 3, POINTS = 5 };
    static float logits[RUNS][POINTS][VOCAB];
    int32_t ids[CONTEXT];

    (void)state;
    support_fill_ids(ids, CONTEXT, 3, VOCAB);
    for (int run = 0; run < RUNS; run++) {
        const kvs_runtime_options options = {.size = sizeof(kvs_runtime_options),
                                             .threads = run + 1};
        kvs_session *first, *second;
        kvs_runner *runner;
        kvs_runtime *rt;
        kvs_model *model;

        assert_int_equal(kvs_runtime_create(&rt, &options, NULL), KVS_OK);
        model = small_model(rt, 5);
        assert_int_equal(kvs_runner_create(&runner, model,
                                           &(kvs_runner_options){.size = sizeof(kvs_runner_options),
                                                                 .sequences = 2},
                                           NULL),
                         KVS_OK);
        assert_int_equal(
            kvs_session_create(
                &first, runner->model,
                &(kvs_session_options){.size = sizeof(kvs_session_options), .runner = runner},
                NULL),
            KVS_OK);
        kvs_session_feed(first, ids, 590, logits[run][0], NULL);
        assert_int_equal(kvs_session_rewind(first, 550, NULL), KVS_OK);
        kvs_session_logits(logits[run][1], first, NULL);
        assert_int_equal(kvs_session_copy(&second, first, SIZE_MAX, NULL, NULL), KVS_OK);
        kvs_session_feed(second, ids, 3, logits[run][2], NULL);
        assert_int_equal(kvs_runner_feed(runner,
                                         (kvs_feed[]){{.size = sizeof(kvs_feed),
                                                       .session = first,
                                                       .ids = ids,
                                                       .count = 2,
                                                       .logits = logits[run][3]},
                                                      {.size = sizeof(kvs_feed),
                                                       .session = second,
                                                       .ids = ids,
                                                       .count = 1,
                                                       .logits = logits[run][4]}},
                                         2, NULL),
                         KVS_OK);
        kvs_session_free(first);
        kvs_session_free(second);
        kvs_runner_free(runner);
        kvs_model_free(model);
        kvs_runtime_free(rt);
        assert_memory_equal(logits[run], logits[0], sizeof logits[0]);
    }
}

typedef struct fixture {
    kvs_runtime *rt;
    kvs_model *model;
    kvs_runner *runner;
    kvs_session *sessions[3];
    int32_t ids[CONTEXT];
} fixture;

static int set_up(void **state)
{
    fixture *f = test_malloc(sizeof *f);

    f->rt = support_runtime(NULL);
    f->model = small_model(f->rt, 5);
    support_fill_ids(f->ids, CONTEXT, 5, VOCAB);
    assert_int_equal(
        kvs_runner_create(&f->runner, f->model,
                          &(kvs_runner_options){.size = sizeof(kvs_runner_options), .sequences = 3},
                          NULL),
        KVS_OK);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(
            kvs_session_create(
                &f->sessions[i], f->runner->model,
                &(kvs_session_options){.size = sizeof(kvs_session_options), .runner = f->runner},
                NULL),
            KVS_OK);
        assert_int_equal(kvs_session_feed(f->sessions[i], f->ids + i, 500, NULL, NULL), KVS_OK);
    }
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;

    for (size_t i = 0; i < 3; i++)
        kvs_session_free(f->sessions[i]);
    kvs_runner_free(f->runner);
    kvs_model_free(f->model);
    kvs_runtime_free(f->rt);
    test_free(f);
    return 0;
}

static void steps_do_not_allocate(void **state)
{
    fixture *f = *state;
    const uint64_t before = kvsi_memory_allocations();
    float logits[3][VOCAB];
    double logprob;
    int32_t best;

    for (size_t i = 0; i < 90; i++) { /* the window drops rows meanwhile */
        kvs_feed feeds[3];

        for (size_t s = 0; s < 3; s++)
            feeds[s] = (kvs_feed){.size = sizeof(kvs_feed),
                                  .session = f->sessions[s],
                                  .ids = f->ids + i,
                                  .count = 1,
                                  .logits = logits[s]};
        feeds[1].targets = f->ids + i;
        feeds[1].logprobs = &logprob;
        feeds[2].best = &best;
        assert_int_equal(kvs_runner_feed(f->runner, feeds, 3, NULL), KVS_OK);
    }
    assert_int_equal(kvs_session_rewind(f->sessions[0], 560, NULL), KVS_OK);
    assert_int_equal(kvs_session_feed(f->sessions[0], f->ids, 1, logits[0], NULL), KVS_OK);
    assert_int_equal(kvs_session_logits(logits[1], f->sessions[0], NULL), KVS_OK);
    kvs_session_reset(f->sessions[0]);
    assert_int_equal(kvsi_memory_allocations(), before);
}

static void a_mistake_in_one_changes_none(void **state)
{
    const int32_t bad[] = {0, VOCAB};
    fixture *f = *state;
    float before[3][VOCAB], after[VOCAB];
    kvs_feed feeds[3];
    kvs_err err;

    for (size_t s = 0; s < 3; s++) {
        assert_int_equal(kvs_session_logits(before[s], f->sessions[s], NULL), KVS_OK);
        feeds[s] = (kvs_feed){
            .size = sizeof(kvs_feed), .session = f->sessions[s], .ids = f->ids, .count = 10};
    }
    feeds[1].ids = bad;
    feeds[1].count = 2;
    assert_int_equal(kvs_runner_feed(f->runner, feeds, 3, &err), KVS_E_INVALID);
    assert_string_equal(err.message, "sequence 1: token 1 is id 19, expected 0 to 18");
    feeds[1] = feeds[0];
    assert_int_equal(kvs_runner_feed(f->runner, feeds, 3, &err), KVS_E_INVALID);
    assert_string_equal(err.message, "sequence 1 is the same session as 0");
    feeds[1].session = f->sessions[1];
    feeds[2].count = 101;
    assert_int_equal(kvs_runner_feed(f->runner, feeds, 3, &err), KVS_E_LIMIT);
    assert_string_equal(err.message, "sequence 2: 101 tokens do not fit: 500 of 600 are taken");
    for (size_t s = 0; s < 3; s++) {
        assert_int_equal(kvs_session_length(f->sessions[s]), 500);
        assert_int_equal(kvs_session_logits(after, f->sessions[s], NULL), KVS_OK);
        assert_memory_equal(after, before[s], sizeof after);
    }
    assert_int_equal(kvs_runner_feed(f->runner, feeds, 0, &err), KVS_OK);
}

static void sessions_of_other_models_are_refused(void **state)
{
    fixture *f = *state;
    kvs_model *other = small_model(f->rt, 5);
    kvs_session *stranger;
    kvs_feed feed = {.size = sizeof(kvs_feed), .ids = f->ids, .count = 1};
    kvs_err err;

    assert_int_equal(kvs_session_create(&stranger, other, NULL, NULL), KVS_OK);
    feed.session = stranger;
    assert_int_equal(kvs_runner_feed(f->runner, &feed, 1, &err), KVS_E_INVALID);
    assert_string_equal(err.message, "sequence 0 is a session of another model");
    kvs_session_free(stranger);
    kvs_model_free(other);
}

static void bad_rewinds_and_forks_are_refused(void **state)
{
    fixture *f = *state;
    kvs_session *s = f->sessions[0], *copy = s;
    const size_t earliest = kvs_session_earliest(s);
    float before[VOCAB], after[VOCAB];
    kvs_err err;

    assert_int_equal(kvs_session_logits(before, s, NULL), KVS_OK);
    assert_true(earliest > 1 && earliest <= 500 - 64); /* rows were dropped, but not too many */
    assert_int_equal(kvs_session_rewind(s, 501, &err), KVS_E_INVALID);
    assert_string_equal(err.message, "cannot rewind to 501 tokens, there are 500");
    assert_int_equal(kvs_session_rewind(s, earliest - 1, &err), KVS_E_LIMIT);
    assert_non_null(strstr(err.message, "of 500, a sliding window of 5 leaves enough"));
    assert_int_equal(kvs_session_copy(&copy, s, SIZE_MAX,
                                      &(kvs_session_options){.size = sizeof(kvs_session_options),
                                                             .capacity = 499},
                                      &err),
                     KVS_E_LIMIT);
    assert_string_equal(err.message, "a copy of 500 tokens in a session for 499");
    assert_null(copy);
    assert_int_equal(kvs_session_copy(&copy, s, SIZE_MAX,
                                      &(kvs_session_options){.size = sizeof(kvs_session_options),
                                                             .capacity = CONTEXT + 1},
                                      &err),
                     KVS_E_LIMIT);
    assert_int_equal(kvs_session_length(s), 500);
    assert_int_equal(kvs_session_logits(after, s, NULL), KVS_OK);
    assert_memory_equal(after, before, sizeof after);
    assert_int_equal(kvs_session_rewind(s, 0, &err), KVS_OK);
    assert_int_equal(kvs_session_earliest(s), 1);
}

static void a_runner_needs_room(void **state)
{
    fixture *f = *state;
    kvs_runner *runner;
    kvs_err err;

    assert_int_equal(
        kvs_runner_create(
            &runner, f->model,
            &(kvs_runner_options){.size = sizeof(kvs_runner_options), .sequences = 5, .tokens = 4},
            &err),
        KVS_E_INVALID);
    assert_null(runner);
}

/* The cache of a window does not grow with the context, and its size is as planned. */
static void memory_is_as_planned(void **state)
{
    fixture *f = *state;
    kvs_model_config config = f->model->config;
    const size_t live = kvsi_memory_live();
    const uint64_t planned = kvs_session_bytes(&config, NULL);
    kvs_session *s;
    uint64_t before;

    assert_int_equal(kvs_session_create(&s, f->runner->model,
                                        &(kvs_session_options){.size = sizeof(kvs_session_options),
                                                               .runner = f->runner},
                                        NULL),
                     KVS_OK);
    assert_in_range(kvsi_memory_live() - live, planned, planned + 512); /* and the handle */
    kvs_session_free(s);
    assert_int_equal(kvsi_memory_live(), live);
    before = kvs_session_bytes(
        &config, &(kvs_session_options){.size = sizeof(kvs_session_options), .capacity = 1 << 16});
    config.context = 1 << 20;
    config.shift.targets = 0;
    assert_true(kvs_session_bytes(&config, NULL) < before + (1 << 20) * sizeof(int32_t));
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(any_way_gives_the_logits_of_one_pass, make_path,
                                        remove_path),
        cmocka_unit_test_setup_teardown(sliding_windows_forget_on_every_level, make_path,
                                        remove_path),
        cmocka_unit_test(a_wide_window_forgets_token_by_token),
        cmocka_unit_test(other_sessions_in_a_pass_change_nothing),
        cmocka_unit_test(forks_do_not_touch_each_other),
        cmocka_unit_test(threads_give_the_same_bits),
        WITH_FIXTURE(steps_do_not_allocate),
        WITH_FIXTURE(a_mistake_in_one_changes_none),
        WITH_FIXTURE(sessions_of_other_models_are_refused),
        WITH_FIXTURE(bad_rewinds_and_forks_are_refused),
        WITH_FIXTURE(a_runner_needs_room),
        WITH_FIXTURE(memory_is_as_planned),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
