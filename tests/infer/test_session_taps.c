/* Sessions with taps of their own compute what a model with these taps computes. */
#include "base/memory.h"
#include "config/config.h"
#include "infer/session.h"
#include "kernels/forms.h"
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { VOCAB = 19, CONTEXT = 600, LENGTH = 560, HEADS = 4, KV_HEADS = 2, LAYERS = 2 };
enum { KV = KVS_SHIFT_K | KVS_SHIFT_V, QKV = KV | KVS_SHIFT_Q };

static const double LIMIT = 1e-5; /* as in test_sessions.c */

typedef struct fixture {
    kvs_runtime *rt;
    kvs_model *model;
    size_t window;
    int32_t ids[LENGTH];
} fixture;

static fixture start_on(kvs_runtime *rt, unsigned targets, kvsi_shift_form form, size_t window,
                        size_t sliding_window)
{
    static const support_sizes sizes = {.vocab = VOCAB, .dim = 24, .ffn = 40, .context = CONTEXT};
    const kvs_model_config special = {
        .shift = {.targets = targets, .form = form, .window = window},
        .kv_heads = KV_HEADS,
        .sliding_window = sliding_window,
        .rotary_fraction = form == KVSI_SHIFT_HARD ? 1.0 / 3 : 0, /* 0 = the default */
    };
    const kvs_model_config config = support_config(&special, &sizes);
    fixture f = {.rt = rt, .window = window};

    f.model = support_model(f.rt, &config, 8);
    support_fill_ids(f.ids, LENGTH, 4, VOCAB);
    return f;
}

static fixture start(const char *level, unsigned targets, kvsi_shift_form form, size_t window,
                     size_t sliding_window)
{
    return start_on(support_runtime(level), targets, form, window, sliding_window);
}

static void finish(fixture *f)
{
    kvs_model_free(f->model);
    kvs_runtime_free(f->rt);
}

static kvs_session *new_session(const kvs_model *model, kvs_runner *runner, kvs_dtype cache)
{
    const kvs_session_options options = {.size = sizeof options, .runner = runner, .cache = cache};
    kvs_session *s;

    assert_int_equal(kvs_session_create(&s, model, &options, NULL), KVS_OK);
    return s;
}

static void feed(kvs_session *s, const int32_t *ids, size_t count, float *logits)
{
    assert_int_equal(kvs_session_feed(s, ids, count, logits, NULL), KVS_OK);
}

static void set(kvs_session *s, size_t layer, unsigned target, size_t head, const double *taps)
{
    kvs_err err;

    if (kvs_session_set_taps(s, layer, target, head, taps, &err) != KVS_OK)
        fail_msg("%s", err.message);
}

/* Sets taps inside [0,1] whose sum is 1, different for every head. */
static void new_taps(double *taps, const fixture *f, size_t head)
{
    double sum = 0;

    for (size_t j = 0; j < f->window; j++)
        sum += taps[j] = (float)(0.0625 + 0.03125 * (double)(head + j));
    taps[f->window] = (float)(1 - sum);
}

/* ---- comparison with a model that has these taps ---- */

/* Returns a copy of the model in which one head has other taps.  The form of the shift must be
 * free, clamp or channel. */
static kvs_model *changed_model(const fixture *f, size_t layer, unsigned target, size_t head,
                                const double *taps)
{
    const int channels = f->model->config.shift.form == KVSI_SHIFT_CHANNEL;
    const size_t number = f->window + 1, size = f->model->config.dim / HEADS;
    const size_t each = channels ? size * number : number;
    kvs_model *model = support_model(f->rt, &f->model->config, 8);
    float values[HEADS * 16 * KVSI_TAPS_MAX];
    char name[64];
    size_t count = 0;

    snprintf(name, sizeof name, "model.layers.%zu.self_attn.%c_shift", layer,
             target == KVS_SHIFT_K   ? 'k'
             : target == KVS_SHIFT_V ? 'v'
                                     : 'q');
    for (size_t i = 0; count == 0; i++) {
        size_t size_of;

        if (strcmp(kvs_model_tensor_name(model, i, &size_of), name) == 0)
            count = size_of;
    }
    assert_true(count <= sizeof values / sizeof *values);
    assert_int_equal(kvs_model_read_tensor(values, count, model, name, NULL), KVS_OK);
    for (size_t i = 0; i < each; i++)
        values[head * each + i] = (float)taps[i % number];
    assert_int_equal(kvs_model_write_tensor(model, name, values, count, NULL), KVS_OK);
    return model;
}

/* Uses a session for prefill, decoding, a rewind and a copy, and returns how many rows of logits
 * were written. */
static size_t exercise(kvs_session *s, const fixture *f, float (*logits)[VOCAB])
{
    /* This is long enough for a sliding window to drop rows. */
    const size_t length = f->model->config.sliding_window > 0 ? 530 : 90;
    kvs_session *copy;
    size_t n = 0;

    feed(s, f->ids, 1, logits[n++]);
    feed(s, f->ids + 1, length - 1, logits[n++]);
    for (size_t i = 0; i < 4; i++)
        feed(s, f->ids + length + i, 1, logits[n++]);
    assert_int_equal(kvs_session_rewind(s, length - 20, NULL), KVS_OK);
    assert_int_equal(kvs_session_logits(logits[n++], s, NULL), KVS_OK);
    feed(s, f->ids, 3, logits[n++]);
    assert_int_equal(kvs_session_copy(&copy, s, length - 30, NULL, NULL), KVS_OK);
    feed(copy, f->ids, 3, logits[n++]);
    kvs_session_free(copy);
    kvs_session_reset(s);
    feed(s, f->ids, 12, logits[n++]);
    kvs_session_reset(s);
    return n;
}

enum { EXERCISES = 10 };

static void check_changed(fixture *f, size_t layer, unsigned target, size_t head, kvs_dtype cache)
{
    kvs_session *s = new_session(f->model, NULL, cache), *other;
    float found[EXERCISES][VOCAB], expected[EXERCISES][VOCAB], plain[EXERCISES][VOCAB];
    double taps[KVSI_TAPS_MAX];
    kvs_model *changed;

    new_taps(taps, f, head);
    changed = changed_model(f, layer, target, head, taps);
    other = new_session(changed, NULL, cache);
    assert_int_equal(exercise(s, f, plain), EXERCISES);
    set(s, layer, target, head, taps);
    exercise(s, f, found);
    exercise(other, f, expected);
    assert_memory_equal(found, expected, sizeof found);
    assert_memory_not_equal(found, plain, sizeof found);
    set(s, layer, target, head, NULL);
    exercise(s, f, found);
    assert_memory_equal(found, plain, sizeof found);
    kvs_session_free(s);
    kvs_session_free(other);
    kvs_model_free(changed);
}

static void taps_are_those_of_a_changed_model(void **state)
{
    (void)state;
    for (size_t l = 0; support_level(l); l++) {
        fixture f = start(support_level(l), KV, KVSI_SHIFT_FREE, 1, 0);

        check_changed(&f, 0, KVS_SHIFT_K, 1, KVS_DTYPE_F32);
        check_changed(&f, 1, KVS_SHIFT_V, 0, KVS_DTYPE_F32);
        check_changed(&f, 1, KVS_SHIFT_K, 1, KVS_DTYPE_F16);
        finish(&f);
    }
}

static void taps_can_be_set_for_other_forms_windows_and_targets(void **state)
{
    static const kvsi_shift_form forms[] = {KVSI_SHIFT_FREE, KVSI_SHIFT_CLAMP, KVSI_SHIFT_CHANNEL};

    (void)state;
    for (size_t i = 0; i < 3; i++)
        for (size_t window = 1; window <= 3; window += 2) {
            fixture f = start(NULL, QKV, forms[i], window, window == 3 ? 5 : 0);

            check_changed(&f, 0, KVS_SHIFT_Q, 3, KVS_DTYPE_F32);
            check_changed(&f, 1, KVS_SHIFT_V, 1, KVS_DTYPE_F32);
            finish(&f);
        }
}

/* ---- sessions whose taps are set to those of the model ---- */

/* Sets all taps of these targets to those of the model. */
static void set_all(kvs_session *s, const fixture *f, unsigned targets)
{
    for (size_t layer = 0; layer < LAYERS; layer++)
        for (unsigned target = 1; target <= 4; target *= 2)
            for (size_t head = 0; targets & target && head < (target == 4 ? HEADS : KV_HEADS);
                 head++) {
                double taps[KVSI_TAPS_MAX];

                assert_int_equal(kvs_model_taps(taps, NULL, f->model, layer, target, head, NULL),
                                 KVS_OK);
                set(s, layer, target, head, taps);
            }
}

/* If all channels of a head have the same taps, setting these taps changes no bit. */
static void the_models_taps_change_nothing(void **state)
{
    static const kvsi_shift_form forms[] = {KVSI_SHIFT_FREE, KVSI_SHIFT_GATE, KVSI_SHIFT_CLAMP};

    (void)state;
    for (size_t l = 0; support_level(l); l++)
        for (size_t i = 0; i < 3; i++) {
            fixture f = start(support_level(l), QKV, forms[i], 1, 0);
            kvs_session *s = new_session(f.model, NULL, KVS_DTYPE_F32);
            float found[EXERCISES][VOCAB], expected[EXERCISES][VOCAB];

            exercise(s, &f, expected);
            set_all(s, &f, QKV);
            exercise(s, &f, found);
            assert_memory_equal(found, expected, sizeof found);
            kvs_session_free(s);
            finish(&f);
        }
}

/* In these forms the channels of a head have different taps.  kvs_model_taps() returns their means,
 * and setting these has an effect on that head only. */
static void means_of_taps_change_only_their_head(void **state)
{
    static const kvsi_shift_form forms[] = {KVSI_SHIFT_CHANNEL, KVSI_SHIFT_HARD,
                                            KVSI_SHIFT_RESIDUAL};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        fixture f = start(NULL, KV, forms[i], 1, 0);
        kvs_session *s = new_session(f.model, NULL, KVS_DTYPE_F32);
        float logits[4][VOCAB];
        double taps[2];

        feed(s, f.ids, 20, logits[0]);
        kvs_session_reset(s);
        set_all(s, &f, KV);
        feed(s, f.ids, 20, logits[1]);
        assert_memory_not_equal(logits[0], logits[1], sizeof logits[0]);
        kvs_session_reset(s);
        for (size_t layer = 0; layer < LAYERS; layer++)
            for (size_t head = 0; head < KV_HEADS; head++) {
                set(s, layer, KVS_SHIFT_V, head, NULL);
                if (layer + head > 0)
                    set(s, layer, KVS_SHIFT_K, head, NULL);
            }
        feed(s, f.ids, 20, logits[2]);
        assert_memory_not_equal(logits[0], logits[2], sizeof logits[0]);
        assert_memory_not_equal(logits[1], logits[2], sizeof logits[0]);
        kvs_session_free(s);

        /* A new session in which only this head is set gives the same logits. */
        s = new_session(f.model, NULL, KVS_DTYPE_F32);
        assert_int_equal(kvs_model_taps(taps, NULL, f.model, 0, KVS_SHIFT_K, 0, NULL), KVS_OK);
        set(s, 0, KVS_SHIFT_K, 0, taps);
        feed(s, f.ids, 20, logits[3]);
        assert_memory_equal(logits[2], logits[3], sizeof logits[2]);
        kvs_session_free(s);
        finish(&f);
    }
}

/* ---- decoding, several sessions in a call, and copies ---- */

/* The limit 0 means equal bits. */
static void check_decoding(kvs_runtime *rt, kvsi_shift_form form, kvs_dtype cache, double limit)
{
    fixture f = start_on(rt, KV, form, 1, 0);
    kvs_session *prefill = new_session(f.model, NULL, cache);
    kvs_session *decode = new_session(f.model, NULL, cache);
    float expected[VOCAB], found[VOCAB];
    double taps[2];

    for (size_t head = 0; head < KV_HEADS; head++) {
        new_taps(taps, &f, head);
        set(prefill, head, KVS_SHIFT_K, head, taps);
        set(decode, head, KVS_SHIFT_K, head, taps);
    }
    for (size_t i = 0; i < 90; i++)
        feed(decode, f.ids + i, 1, found);
    feed(prefill, f.ids, 90, expected);
    support_expect_close(found, expected, VOCAB, limit, "decoding with taps, form %d", (int)form);
    kvs_session_free(prefill);
    kvs_session_free(decode);
    finish(&f);
}

/* With a cache in F16, a last bit of a key in float32 can decide how it is rounded, which changes
 * logits by more than any useful limit.  In exact mode there is no such bit. */
static void decoding_with_taps_equals_prefill(void **state)
{
    (void)state;
    for (int form = KVSI_SHIFT_FREE; form <= KVSI_SHIFT_RESIDUAL; form++)
        if (form != KVSI_SHIFT_DATA) {
            check_decoding(support_runtime(NULL), (kvsi_shift_form)form, KVS_DTYPE_F32, LIMIT);
            check_decoding(support_exact_runtime(), (kvsi_shift_form)form, KVS_DTYPE_F16, 0);
        }
}

/* One call feeds sessions with the model's taps and with different taps.  The logits of each
 * session have the bits that they have in a call for this session alone.  Sessions with equal taps
 * share a pass. */
static void check_several_sessions(fixture *f)
{
    enum { SESSIONS = 5 };
    const kvs_runner_options options = {.size = sizeof options, .sequences = SESSIONS};
    kvs_session *alone[SESSIONS], *together[SESSIONS];
    float expected[2][SESSIONS][VOCAB], found[2][SESSIONS][VOCAB];
    kvs_runner *runner;
    double taps[2];

    assert_int_equal(kvs_runner_create(&runner, f->model, &options, NULL), KVS_OK);
    for (size_t k = 0; k < SESSIONS; k++) {
        alone[k] = new_session(f->model, NULL, KVS_DTYPE_F32);
        together[k] = new_session(f->model, runner, KVS_DTYPE_F32);
        for (size_t i = 0; i < 2 && k > 0; i++) {
            /* Sessions 1 and 4 have equal taps, which were set in a different order. */
            const size_t head = k == 4 ? 1 - i : i;

            new_taps(taps, f, head + (k % 4 == 1 || k == 4 ? 0 : k));
            set(alone[k], 0, KVS_SHIFT_V, head, taps);
            set(together[k], 0, KVS_SHIFT_V, head, taps);
        }
    }
    for (size_t round = 0; round < 2; round++) {
        const size_t count = round == 0 ? 30 : 1, at = round == 0 ? 0 : 30;
        kvs_feed feeds[SESSIONS];

        for (size_t k = 0; k < SESSIONS; k++) {
            feed(alone[k], f->ids + at, count, expected[round][k]);
            feeds[k] = (kvs_feed){.size = sizeof(kvs_feed),
                                  .session = together[k],
                                  .ids = f->ids + at,
                                  .count = count,
                                  .logits = found[round][k]};
        }
        assert_int_equal(kvs_runner_feed(runner, feeds, SESSIONS, NULL), KVS_OK);
        assert_memory_equal(found[round], expected[round], sizeof expected[round]);
        assert_memory_equal(found[round][1], found[round][4], sizeof found[round][1]);
        for (size_t k = 1; k < 4; k++)
            assert_memory_not_equal(found[round][k], found[round][k - 1], sizeof found[round][k]);
    }
    assert_true(kvsi_state_same_taps(&together[1]->state, &together[4]->state));
    assert_false(kvsi_state_same_taps(&together[1]->state, &together[2]->state));
    assert_false(kvsi_state_same_taps(&together[1]->state, &together[0]->state));
    for (size_t k = 0; k < SESSIONS; k++) {
        kvs_session_free(alone[k]);
        kvs_session_free(together[k]);
    }
    kvs_runner_free(runner);
}

static void taps_do_not_affect_other_sessions(void **state)
{
    (void)state;
    for (size_t l = 0; support_level(l); l++) {
        fixture f = start(support_level(l), KV, KVSI_SHIFT_FREE, 1, 0);

        check_several_sessions(&f);
        finish(&f);
    }
}

/* A copy has the taps of the session, and changing the copy's taps does not change the session. */
static void copies_are_independent(void **state)
{
    fixture f = start(NULL, KV, KVSI_SHIFT_GATE, 1, 0);
    kvs_session *s = new_session(f.model, NULL, KVS_DTYPE_F32), *copy, *plain;
    float logits[4][VOCAB];
    double taps[2];

    (void)state;
    new_taps(taps, &f, 0);
    plain = new_session(f.model, NULL, KVS_DTYPE_F32);
    feed(plain, f.ids, 20, logits[0]);
    set(s, 1, KVS_SHIFT_K, 1, taps);
    assert_int_equal(kvs_session_copy(&copy, s, 0, NULL, NULL), KVS_OK);
    feed(s, f.ids, 20, logits[1]);
    feed(copy, f.ids, 20, logits[2]);
    assert_memory_equal(logits[1], logits[2], sizeof logits[1]);
    assert_memory_not_equal(logits[0], logits[1], sizeof logits[1]);
    kvs_session_reset(copy);
    set(copy, 1, KVS_SHIFT_K, 1, NULL);
    feed(copy, f.ids, 20, logits[2]);
    assert_memory_equal(logits[0], logits[2], sizeof logits[0]);
    kvs_session_reset(s);
    feed(s, f.ids, 20, logits[3]);
    assert_memory_equal(logits[1], logits[3], sizeof logits[1]);
    kvs_session_free(s);
    kvs_session_free(copy);
    kvs_session_free(plain);
    finish(&f);
}

/* ---- calls that are refused, and memory ---- */

static void sessions_with_own_taps_cannot_be_saved(void **state)
{
    fixture f = start(NULL, KV, KVSI_SHIFT_FREE, 1, 0);
    kvs_session *s = new_session(f.model, NULL, KVS_DTYPE_F32);
    const double taps[] = {0.25, 0.5};
    char path[512];
    kvs_err err;

    (void)state;
    snprintf(path, sizeof path, "%s/a.session", support_dir);
    set(s, 0, KVS_SHIFT_K, 0, taps);
    assert_int_equal(kvs_session_save(s, path, &err), KVS_E_UNSUPPORTED);
    assert_string_equal(err.message, "a session with taps of its own cannot be saved");
    set(s, 0, KVS_SHIFT_K, 0, NULL);
    assert_int_equal(kvs_session_save(s, path, &err), KVS_OK);
    kvs_session_free(s);
    finish(&f);
}

static void wrong_arguments_are_refused(void **state)
{
    fixture f = start(NULL, KV, KVSI_SHIFT_FREE, 1, 0), data, none;
    kvs_session *s = new_session(f.model, NULL, KVS_DTYPE_F32), *other;
    const double taps[] = {0.25, 0.5}, bad[] = {0.25, NAN}, large[] = {1e300, 0};
    const size_t live = kvsi_memory_live();
    kvs_err err;

    (void)state;
    assert_int_equal(kvs_session_set_taps(NULL, 0, KVS_SHIFT_K, 0, taps, &err), KVS_E_INVALID);
    assert_string_equal(err.message, "session is NULL");
    assert_int_equal(kvs_session_set_taps(s, LAYERS, KVS_SHIFT_K, 0, taps, &err), KVS_E_INVALID);
    assert_int_equal(kvs_session_set_taps(s, 0, KVS_SHIFT_K, KV_HEADS, taps, &err), KVS_E_INVALID);
    assert_int_equal(kvs_session_set_taps(s, 0, KVS_SHIFT_Q, 0, taps, &err), KVS_E_INVALID);
    assert_int_equal(kvs_session_set_taps(s, 0, KV, 0, taps, &err), KVS_E_INVALID);
    assert_int_equal(kvs_session_set_taps(s, 0, KVS_SHIFT_K, 0, bad, &err), KVS_E_INVALID);
    assert_string_equal(err.message, "tap 1 is nan, expected a finite number");
    assert_int_equal(kvs_session_set_taps(s, 0, KVS_SHIFT_K, 0, large, &err), KVS_E_INVALID);
    assert_int_equal(kvs_session_set_taps(s, 0, KVS_SHIFT_K, 0, NULL, &err), KVS_OK);
    assert_int_equal(kvsi_memory_live(),
                     live); /* a session with the model's taps has no memory for taps */
    feed(s, f.ids, 3, NULL);
    assert_int_equal(kvs_session_set_taps(s, 0, KVS_SHIFT_K, 0, taps, &err), KVS_E_INVALID);
    assert_string_equal(err.message,
                        "the session has 3 tokens; only taps of an empty one can be replaced");
    kvs_session_free(s);
    finish(&f);

    data = start(NULL, KV, KVSI_SHIFT_DATA, 1, 0);
    other = new_session(data.model, NULL, KVS_DTYPE_F32);
    assert_int_equal(kvs_session_set_taps(other, 0, KVS_SHIFT_K, 0, taps, &err), KVS_E_UNSUPPORTED);
    kvs_session_free(other);
    finish(&data);

    none = start(NULL, 0, KVSI_SHIFT_FREE, 1, 0);
    other = new_session(none.model, NULL, KVS_DTYPE_F32);
    assert_int_equal(kvs_session_set_taps(other, 0, KVS_SHIFT_K, 0, taps, &err), KVS_E_INVALID);
    kvs_session_free(other);
    finish(&none);
}

static void steps_do_not_allocate(void **state)
{
    fixture f = start(NULL, KV, KVSI_SHIFT_FREE, 1, 0);
    kvs_session *s = new_session(f.model, NULL, KVS_DTYPE_F32);
    const double taps[] = {0.25, 0.5};
    const size_t live = kvsi_memory_live();
    uint64_t before;

    (void)state;
    set(s, 0, KVS_SHIFT_K, 0, taps);
    before = kvsi_memory_allocations();
    feed(s, f.ids, 300, NULL);
    feed(s, f.ids, 1, NULL);
    kvs_session_reset(s);
    assert_int_equal(kvsi_memory_allocations(), before);
    set(s, 0, KVS_SHIFT_K, 0, NULL);
    assert_int_equal(kvsi_memory_live(), live);
    kvs_session_free(s);
    finish(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(taps_are_those_of_a_changed_model),
        cmocka_unit_test(taps_can_be_set_for_other_forms_windows_and_targets),
        cmocka_unit_test(the_models_taps_change_nothing),
        cmocka_unit_test(means_of_taps_change_only_their_head),
        cmocka_unit_test(decoding_with_taps_equals_prefill),
        cmocka_unit_test(taps_do_not_affect_other_sessions),
        cmocka_unit_test(copies_are_independent),
        cmocka_unit_test_setup_teardown(sessions_with_own_taps_cannot_be_saved, support_dir_setup,
                                        support_dir_teardown),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(steps_do_not_allocate),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
