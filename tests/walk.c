#include "walk.h"

#include <string.h>

/* ---- the truth ---- */

walk_truth walk_truth_of(const kvs_model *model, const char *name, kvs_dtype cache, double limit)
{
    const kvsi_pass_limits limits = {.tokens = model->config.context,
                                     .sequences = 1,
                                     .head_rows = 1,
                                     .cache = cache == KVS_DTYPE_F16    ? KVSI_F16
                                              : cache == KVS_DTYPE_Q8_0 ? KVSI_Q8_0
                                                                        : KVSI_REAL_TYPE};
    walk_truth truth = {.model = model, .name = name, .cache = cache, .limit = limit};

    assert_true(model->config.vocab <= WALK_VOCAB_MAX && model->config.context <= WALK_LONGEST);
    assert_int_equal(kvsi_pass_create(&truth.pass, model, &limits, NULL), KVS_OK);
    return truth;
}

void walk_truth_release(walk_truth *truth)
{
    kvsi_pass_free(truth->pass);
    truth->pass = NULL;
}

static void expected_logits(real *logits, const walk_truth *truth, const int32_t *ids, size_t count)
{
    const size_t starts[] = {0, count};
    const kvs_batch batch = {.sequences = 1, .starts = starts, .ids = ids};
    const int32_t last = (int32_t)count - 1;
    real scratch[WALK_VOCAB_MAX];

    assert_int_equal(kvsi_pass_load(truth->pass, &batch, NULL, NULL), KVS_OK);
    kvsi_pass_forward(truth->pass);
    assert_int_equal(kvsi_pass_logits(truth->pass, logits, scratch, &last, 1, NULL), KVS_OK);
}

void tracked_expect(const tracked *t, const char *after)
{
    const size_t vocab = t->truth->model->config.vocab;
    real expected[WALK_VOCAB_MAX], found[WALK_VOCAB_MAX];
    float logits[WALK_VOCAB_MAX];

    assert_int_equal(kvs_session_length(t->session), t->length);
    assert_memory_equal(kvs_session_ids(t->session), t->ids, t->length * sizeof *t->ids);
    if (t->length == 0) {
        assert_int_equal(kvs_session_logits(logits, t->session, NULL), KVS_E_INVALID);
        return;
    }
    expected_logits(expected, t->truth, t->ids, t->length);
    assert_int_equal(kvs_session_logits(logits, t->session, NULL), KVS_OK);
    for (size_t i = 0; i < vocab; i++)
        found[i] = (real)logits[i];
    if (t->truth->limit == 0 && memcmp(found, expected, vocab * sizeof *found) != 0)
        fail_msg("%s: %zu tokens after %s: other bits", t->truth->name, t->length, after);
    support_expect_close(found, expected, vocab, t->truth->limit, "%s: %zu tokens after %s",
                         t->truth->name, t->length, after);
}

/* ---- steps ---- */

static size_t below(kvsi_random *random, size_t limit)
{
    return kvsi_random_below(random, (uint32_t)limit);
}

void tracked_draw(tracked *t, size_t count, kvsi_random *random)
{
    for (size_t i = 0; i < count; i++)
        t->ids[t->length++] = (int32_t)below(random, t->truth->model->config.vocab);
}

void tracked_feed(tracked *t, size_t count, kvsi_random *random)
{
    const size_t at = t->length;

    tracked_draw(t, count, random);
    assert_int_equal(kvs_session_feed(t->session, t->ids + at, count, NULL, NULL), KVS_OK);
}

void tracked_rewind(tracked *t, size_t length)
{
    kvs_err err;

    if (kvs_session_rewind(t->session, length, &err) != KVS_OK)
        fail_msg("rewind from %zu to %zu: %s", t->length, length, err.message);
    t->length = length;
}

void tracked_go_back_all_the_way(tracked *t)
{
    const size_t window = t->truth->model->config.sliding_window, reach = window > 64 ? window : 64;
    const size_t earliest = kvs_session_earliest(t->session);

    assert_true(earliest == 1 || earliest + reach <= t->length);
    tracked_rewind(t, earliest);
    tracked_expect(t, "a rewind as far as it goes");
}

static size_t random_length(const tracked *t, kvsi_random *random)
{
    const size_t earliest = kvs_session_earliest(t->session);

    return earliest >= t->length ? t->length : earliest + below(random, t->length - earliest + 1);
}

static void fork_over(tracked *t)
{
    kvs_session *copy;

    assert_int_equal(kvs_session_copy(&copy, t->session, SIZE_MAX, NULL, NULL), KVS_OK);
    kvs_session_free(t->session);
    t->session = copy;
}

static void save_and_load(tracked *t, const char *path)
{
    kvs_session *copy;
    kvs_err err;

    assert_int_equal(kvs_session_save(t->session, path, NULL), KVS_OK);
    if (kvs_session_load(&copy, t->truth->model, path, NULL, &err) != KVS_OK)
        fail_msg("%s", err.message);
    assert_int_equal(kvs_session_capacity(copy), kvs_session_capacity(t->session));
    assert_int_equal(kvs_session_earliest(copy), kvs_session_earliest(t->session));
    kvs_session_free(t->session);
    t->session = copy;
}

/* ---- walks ---- */

enum step { FEED, FEED_FEW, FEED_ONE, REWIND, REWIND_FEW, FORK, FILED, EMPTY, STEPS };

static const char *const step_names[STEPS] = {"feeding",  "feeding a few",  "feeding one",
                                              "a rewind", "a small rewind", "a fork",
                                              "a file",   "nothing"};

static void take_step(tracked *t, enum step step, const char *path, kvsi_random *random)
{
    const size_t room = kvs_session_capacity(t->session) - t->length;
    const size_t most = step == FEED ? 180 : step == FEED_FEW ? 6 : step == FEED_ONE ? 1 : 0;
    const size_t count = most > 1 ? 1 + below(random, most) : most;

    switch (step) {
    case REWIND:
        tracked_rewind(t, random_length(t, random));
        break;
    case REWIND_FEW:
        if (t->length > 3)
            tracked_rewind(t, t->length - 1 - below(random, 3));
        break;
    case FORK:
        fork_over(t);
        break;
    case FILED:
        save_and_load(t, path);
        break;
    default:
        tracked_feed(t, count < room ? count : room, random);
    }
}

void walk(const walk_truth *truth, size_t steps, const char *path)
{
    const size_t context = truth->model->config.context;
    const kvs_session_options options = {.size = sizeof(kvs_session_options),
                                         .cache = truth->cache};
    tracked t = {.truth = truth};
    kvsi_random random;

    kvsi_random_init(&random, 7, KVSI_RANDOM_DATA, 1);
    assert_int_equal(kvs_session_create(&t.session, truth->model, &options, NULL), KVS_OK);
    tracked_feed(&t, 1, &random);
    tracked_expect(&t, "a prompt of one token");
    tracked_feed(&t, context - 7, &random);
    tracked_go_back_all_the_way(&t);
    tracked_feed(&t, context - 7 - t.length, &random);
    for (size_t i = 0; i < steps; i++) {
        const enum step step =
            i < STEPS ? (enum step)((i + 3) % STEPS) : (enum step)below(&random, STEPS);

        take_step(&t, step, path, &random);
        tracked_expect(&t, step_names[step]);
    }
    tracked_rewind(&t, 0);
    tracked_expect(&t, "a rewind to the start");
    tracked_feed(&t, 70, &random);
    tracked_rewind(&t, 70);
    tracked_rewind(&t, 65);
    tracked_rewind(&t, 64);
    tracked_feed(&t, 1, &random);
    tracked_expect(&t, "rewinds one behind the other");
    kvs_session_free(t.session);
}
