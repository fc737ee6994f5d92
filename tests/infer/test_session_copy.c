/* A copy of the first tokens of a session has the bits of a session that was rewound to them, and
 * the two are independent. */
#include "base/memory.h"
#include "family.h"
#include "infer/session.h"
#include "session.h"

#include <string.h>

enum { VOCAB = 19, DIM = 24, CONTEXT = 600, SHORT = 140 };

static const family_scope long_scope = {
    .sizes = {.vocab = VOCAB, .dim = DIM, .ffn = 40, .context = CONTEXT}, .levels = 1};
static const family_scope short_scope = {
    .sizes = {.vocab = VOCAB, .dim = DIM, .ffn = 40, .context = SHORT}, .levels = 1};

static kvs_session *session_of(const kvs_model *model, kvs_dtype cache, const int32_t *ids,
                               size_t count)
{
    const kvs_session_options options = {.size = sizeof options, .cache = cache};
    kvs_session *s;

    assert_int_equal(kvs_session_create(&s, model, &options, NULL), KVS_OK);
    assert_int_equal(kvs_session_feed(s, ids, count, NULL, NULL), KVS_OK);
    return s;
}

/* Reads the logits before feeding, after one more token and after 12 more. */
static void use(float logits[3][VOCAB], kvs_session *s, const int32_t *ids)
{
    memset(logits, 0, 3 * sizeof *logits);
    if (kvs_session_length(s) > 0)
        assert_int_equal(kvs_session_logits(logits[0], s, NULL), KVS_OK);
    assert_int_equal(kvs_session_feed(s, ids, 1, logits[1], NULL), KVS_OK);
    assert_int_equal(kvs_session_feed(s, ids, 12, logits[2], NULL), KVS_OK);
}

/* Copies `length` tokens of a session, with the same capacity and with a smaller one, and compares
 * the copies with a session of the same tokens that is rewound to that length. */
static void check_length(const kvs_session *s, kvs_session *rewound, size_t length,
                         const int32_t *ids, const char *name)
{
    const kvs_session_options small = {.size = sizeof small, .capacity = length + 13};
    float expected[3][VOCAB], found[3][VOCAB];
    kvs_session *copy;
    kvs_err err;

    assert_int_equal(kvs_session_rewind(rewound, length, NULL), KVS_OK);
    use(expected, rewound, ids);
    for (int k = 0; k < 2; k++) {
        if (kvs_session_copy(&copy, s, length, k ? &small : NULL, &err) != KVS_OK)
            fail_msg("%s, %zu tokens: %s", name, length, err.message);
        assert_int_equal(kvs_session_length(copy), length);
        assert_int_equal(kvs_session_capacity(copy), k ? length + 13 : kvs_session_capacity(s));
        assert_memory_equal(kvs_session_ids(copy), kvs_session_ids(s), length * sizeof *ids);
        use(found, copy, ids);
        support_expect_close(found[0], expected[0], sizeof found / sizeof **found, 0,
                             "%s: a copy of %zu tokens", name, length);
        kvs_session_free(copy);
    }
}

/* Checks copies of lengths around the snapshots, the shortest one and the longest one. */
static void check_copies_of(const kvs_model *model, const char *name, kvs_dtype cache)
{
    static const size_t back[] = {0, 1, 20, SHORT - 20 - 64, 64};
    const size_t count = model->config.context - 20;
    int32_t ids[CONTEXT];
    kvs_session *s;
    float before[VOCAB], after[VOCAB];
    size_t earliest;

    support_fill_ids(ids, CONTEXT, 5, VOCAB);
    s = session_of(model, cache, ids, count);
    earliest = kvs_session_earliest(s);
    assert_int_equal(kvs_session_logits(before, s, NULL), KVS_OK);
    for (size_t i = 0; i < sizeof back / sizeof *back + 2; i++) {
        const size_t n = sizeof back / sizeof *back;
        const size_t length = i == n ? 0 : i == n + 1 ? earliest : count - back[i];
        kvs_session *rewound;

        if (length > 0 && length < earliest)
            continue;
        rewound = session_of(model, cache, ids, count);
        check_length(s, rewound, length, ids, name);
        kvs_session_free(rewound);
    }
    assert_int_equal(kvs_session_logits(after, s, NULL), KVS_OK);
    assert_memory_equal(before, after, sizeof before);
    kvs_session_free(s);
}

static void check_copies(const kvs_model *model, const char *name)
{
    check_copies_of(model, name, KVS_DTYPE_F32);
}

static void check_half_copies(const kvs_model *model, const char *name)
{
    check_copies_of(model, name, KVS_DTYPE_F16);
}

static void check_sliding_copies(const kvs_model *model, const char *name)
{
    if (model->config.sliding_window == 0)
        return;
    check_copies(model, name);
    check_half_copies(model, name);
}

static void copies_equal_rewound_sessions(void **state)
{
    (void)state;
    family_each_model(&short_scope, check_copies);
    family_each_shift(&short_scope, check_copies);
}

static void copies_of_f16_caches_equal_rewound_sessions(void **state)
{
    (void)state;
    family_each_model(&short_scope, check_half_copies);
}

static void copies_equal_rewound_sessions_on_every_level(void **state)
{
    const kvs_model_config special = {SUPPORT_SHIFT(7, FREE, 3), .kv_heads = 2, .sliding_window = 5,
                                      .sliding_layers = 1 << 1};
    const kvs_model_config config = support_config(&special, &short_scope.sizes);

    (void)state;
    for (size_t l = 0; support_level(l); l++) {
        kvs_runtime *rt = support_runtime(support_level(l));
        kvs_model *model = support_model(rt, &config, 4);

        check_copies(model, support_level(l));
        check_half_copies(model, support_level(l));
        kvs_model_free(model);
        kvs_runtime_free(rt);
    }
}

static void copies_of_sliding_windows_equal_rewound_sessions(void **state)
{
    (void)state;
    family_each_model(&long_scope, check_sliding_copies);
}

/* ---- copies of one session, which has 500 tokens ---- */

static int set_up(void **state)
{
    const session_options options = {.model_seed = 2, .ids_seed = 5};
    const kvs_model_config special = {SUPPORT_SHIFT(KVS_SHIFT_K | KVS_SHIFT_V, FREE, 2),
                                      .kv_heads = 2, .sliding_window = 5};
    const kvs_model_config config = support_config(&special, &long_scope.sizes);
    session_fixture *f;

    session_set_up(state, &config, &options);
    f = *state;
    assert_int_equal(kvs_session_feed(f->session, f->ids, 500, NULL, NULL), KVS_OK);
    return 0;
}

/* The limits are those of rewinds, and a copy that is refused allocates nothing. */
static void limits_are_those_of_rewinds(void **state)
{
    session_fixture *f = *state;
    const size_t earliest = kvs_session_earliest(f->session), live = kvsi_memory_live();
    kvs_session_options options = {.size = sizeof options};
    kvs_session *copy;
    kvs_err err;

    assert_true(earliest > 1);
    for (size_t length = 0; length <= 501; length++) {
        const kvs_status expected = length > 500                      ? KVS_E_INVALID
                                    : length > 0 && length < earliest ? KVS_E_LIMIT
                                                                      : KVS_OK;

        copy = f->session;
        assert_int_equal(kvs_session_copy(&copy, f->session, length, NULL, &err), expected);
        assert_int_equal(copy != NULL, expected == KVS_OK);
        kvs_session_free(copy);
    }
    assert_int_equal(kvs_session_copy(&copy, f->session, earliest - 1, NULL, &err), KVS_E_LIMIT);
    assert_non_null(strstr(err.message, "of 500, a sliding window of 5 leaves enough"));
    assert_int_equal(kvs_session_copy(&copy, f->session, 501, NULL, &err), KVS_E_INVALID);
    assert_string_equal(err.message, "cannot copy 501 tokens, there are 500");
    options.capacity = 499;
    assert_int_equal(kvs_session_copy(&copy, f->session, 500, &options, &err), KVS_E_LIMIT);
    assert_string_equal(err.message, "a copy of 500 tokens in a session for 499");
    assert_int_equal(kvs_session_copy(&copy, f->session, 499, &options, &err), KVS_OK);
    kvs_session_free(copy);
    options.capacity = CONTEXT + 1;
    assert_int_equal(kvs_session_copy(&copy, f->session, 499, &options, &err), KVS_E_LIMIT);
    assert_null(copy);
    assert_int_equal(kvs_session_copy(&copy, NULL, 0, NULL, &err), KVS_E_INVALID);
    assert_null(copy);
    assert_int_equal(kvs_session_copy(NULL, f->session, 0, NULL, &err), KVS_E_INVALID);
    assert_int_equal(kvsi_memory_live(), live);
}

static void caches_keep_their_type(void **state)
{
    session_fixture *f = *state;
    kvs_session_options options = {.size = sizeof options, .cache = KVS_DTYPE_F16};
    kvs_session *halves = session_of(f->model, KVS_DTYPE_F16, f->ids, 10), *copy;
    kvs_err err;

    assert_int_equal(kvs_session_copy(&copy, f->session, 500, &options, &err), KVS_E_UNSUPPORTED);
    assert_string_equal(err.message, "a cache of type F32 cannot become one of type F16");
    assert_int_equal(kvs_session_copy(&copy, halves, 5, &options, &err), KVS_OK);
    assert_int_equal(copy->state.cache, KVSI_F16);
    kvs_session_free(copy);
    options.cache = KVS_DTYPE_Q8_0;
    assert_int_equal(kvs_session_copy(&copy, halves, 5, &options, &err), KVS_E_UNSUPPORTED);
    options.cache = KVS_DTYPE_Q4_0;
    assert_int_equal(kvs_session_copy(&copy, halves, 5, &options, &err), KVS_E_INVALID);
    kvs_session_free(halves);
}

/* A copy uses the given runner; without one, the runner that the session shares; otherwise it has a
 * runner of its own. */
static void copies_have_a_runner(void **state)
{
    session_fixture *f = *state;
    kvs_session_options options = {.size = sizeof options};
    kvs_session *shared, *copy;
    kvs_model *other;
    kvs_runner *runner;

    assert_int_equal(kvs_runner_create(&runner, f->model, NULL, NULL), KVS_OK);
    options.runner = runner;
    assert_int_equal(kvs_session_copy(&shared, f->session, 490, &options, NULL), KVS_OK);
    assert_ptr_equal(shared->runner, runner);
    assert_int_equal(kvs_session_copy(&copy, shared, SIZE_MAX, NULL, NULL), KVS_OK);
    assert_ptr_equal(copy->runner, runner);
    kvs_session_free(copy);
    assert_int_equal(kvs_session_copy(&copy, f->session, SIZE_MAX, NULL, NULL), KVS_OK);
    assert_true(copy->owns_runner && copy->runner != f->session->runner);
    kvs_session_free(copy);
    kvs_session_free(shared);
    kvs_runner_free(runner);

    other = support_model(f->rt, &f->model->config, 3);
    assert_int_equal(kvs_runner_create(&options.runner, other, NULL, NULL), KVS_OK);
    assert_int_equal(kvs_session_copy(&copy, f->session, 490, &options, NULL), KVS_E_INVALID);
    assert_null(copy);
    kvs_runner_free(options.runner);
    kvs_model_free(other);
}

static void null_is_refused(void **state)
{
    session_fixture *f = *state;
    kvs_session *s = f->session;
    kvs_runner *runner;
    kvs_err err;

    assert_int_equal(kvs_session_create(NULL, f->model, NULL, &err), KVS_E_INVALID);
    assert_int_equal(kvs_session_create(&s, NULL, NULL, &err), KVS_E_INVALID);
    assert_null(s);
    assert_string_equal(err.message, "model is NULL");
    assert_int_equal(kvs_session_load(&s, f->model, NULL, NULL, &err), KVS_E_INVALID);
    assert_int_equal(kvs_session_load(NULL, f->model, "a", NULL, &err), KVS_E_INVALID);
    assert_int_equal(kvs_session_load(&s, NULL, "a", NULL, &err), KVS_E_INVALID);
    assert_int_equal(kvs_session_save(NULL, "a", &err), KVS_E_INVALID);
    assert_int_equal(kvs_session_save(f->session, NULL, &err), KVS_E_INVALID);
    assert_int_equal(kvs_session_rewind(NULL, 0, &err), KVS_E_INVALID);
    assert_int_equal(kvs_runner_create(NULL, f->model, NULL, &err), KVS_E_INVALID);
    assert_int_equal(kvs_runner_create(&runner, NULL, NULL, &err), KVS_E_INVALID);
    assert_int_equal(kvs_runner_create(&runner, f->model,
                                       &(kvs_runner_options){.size = sizeof(kvs_runner_options),
                                                             .tokens = SIZE_MAX},
                                       &err),
                     KVS_E_LIMIT);
    assert_null(runner);
    assert_int_equal(kvs_score(NULL, NULL, NULL, NULL, f->ids, 3, 1, 0, &err), KVS_E_INVALID);
    assert_int_equal(kvs_score(NULL, NULL, NULL, f->session, NULL, 3, 1, 0, &err), KVS_E_INVALID);
    kvs_session_free(NULL);
    kvs_session_reset(NULL);
    kvs_runner_free(NULL);
    assert_null(kvs_session_get_model(NULL));
    assert_null(kvs_session_ids(NULL));
    assert_int_equal(kvs_session_length(NULL), 0);
    assert_int_equal(kvs_session_capacity(NULL), 0);
    assert_int_equal(kvs_session_earliest(NULL), 0);
    assert_int_equal(kvs_session_bytes(NULL, NULL), 0);
    assert_int_equal(kvs_session_length(f->session), 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_equal_rewound_sessions),
        cmocka_unit_test(copies_of_f16_caches_equal_rewound_sessions),
        cmocka_unit_test(copies_equal_rewound_sessions_on_every_level),
        cmocka_unit_test(copies_of_sliding_windows_equal_rewound_sessions),
        cmocka_unit_test_setup_teardown(limits_are_those_of_rewinds, set_up, session_tear_down),
        cmocka_unit_test_setup_teardown(caches_keep_their_type, set_up, session_tear_down),
        cmocka_unit_test_setup_teardown(copies_have_a_runner, set_up, session_tear_down),
        cmocka_unit_test_setup_teardown(null_is_refused, set_up, session_tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
