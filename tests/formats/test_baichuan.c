/* A model in Baichuan-M1's layout gives PyTorch's logits (goldens/make_baichuan.py), fed at once
 * and token by token, far beyond its sliding window. */
#include "base/memory.h"
#include "formats/safetensors.h"
#include "kvshift/kvshift_lab.h"
#include "support.h"

/* Relative to the largest logit.  Weights are exact in float, so only rounding of float arithmetic
 * remains: at most 3.8e-6 was observed. */
static const double LIMIT = 1e-5;

static const char DIR[] = KVSI_TESTS_DIR "/goldens/baichuan";

typedef struct expectation {
    kvsi_safetensors *file;
    const int32_t *ids;
    const float *prefill, *decode; /* [tokens, vocab] */
    size_t tokens, vocab;
} expectation;

static const void *find(const expectation *e, const char *name, kvsi_dtype dtype)
{
    const kvsi_file_tensor *tensor = kvsi_safetensors_find(e->file, name);

    assert_non_null(tensor);
    assert_int_equal(tensor->dtype, dtype);
    return tensor->data;
}

static expectation open_expectation(void)
{
    expectation e = {0};

    assert_int_equal(kvsi_safetensors_open(
                         &e.file, KVSI_TESTS_DIR "/goldens/baichuan/expected.safetensors", NULL),
                     KVS_OK);
    e.ids = find(&e, "ids", KVSI_I32);
    e.prefill = find(&e, "prefill", KVSI_F32);
    e.decode = find(&e, "decode", KVSI_F32);
    e.tokens = kvsi_safetensors_find(e.file, "prefill")->shape[0];
    e.vocab = kvsi_safetensors_find(e.file, "prefill")->shape[1];
    return e;
}

static kvs_model *load(kvs_runtime *rt, const expectation *e)
{
    const kvs_model_config *config;
    kvs_model *model;
    kvs_err err;

    if (kvs_model_load(&model, rt, DIR, NULL, &err) != KVS_OK)
        fail_msg("%s", err.message);
    config = kvs_model_get_config(model);
    assert_int_equal(config->vocab, e->vocab);
    assert_true(e->tokens > 3 * config->sliding_window && config->sliding_window > 0);
    assert_int_not_equal(kvsi_model_config_heads(config, 0), kvsi_model_config_heads(config, 1));
    assert_int_equal(config->head, KVSI_HEAD_NORMALISED);
    return model;
}

/* Every prefix of the sequence at once, on every CPU level. */
static void prefill_matches_pytorch(void **state)
{
    expectation e = open_expectation();
    float logits[64];

    (void)state;
    for (size_t l = 0; support_level(l); l++) {
        kvs_runtime *rt = support_runtime(support_level(l));
        kvs_model *model = load(rt, &e);
        kvs_session *session;

        assert_int_equal(kvs_session_create(&session, model, NULL, NULL), KVS_OK);
        for (size_t n = 1; n <= e.tokens; n++) {
            kvs_session_reset(session);
            assert_int_equal(kvs_session_feed(session, e.ids, n, logits, NULL), KVS_OK);
            support_expect_close(logits, e.prefill + (n - 1) * e.vocab, e.vocab, LIMIT,
                                 "%s: prefill of %zu", support_level(l), n);
        }
        kvs_session_free(session);
        kvs_model_free(model);
        kvs_runtime_free(rt);
    }
    kvsi_safetensors_close(e.file);
}

static void decoding_matches_pytorch(void **state)
{
    expectation e = open_expectation();
    float logits[64];

    (void)state;
    for (size_t l = 0; support_level(l); l++) {
        kvs_runtime *rt = support_runtime(support_level(l));
        kvs_model *model = load(rt, &e);
        kvs_session *session;

        assert_int_equal(kvs_session_create(&session, model, NULL, NULL), KVS_OK);
        for (size_t t = 0; t < e.tokens; t++) {
            assert_int_equal(kvs_session_feed(session, e.ids + t, 1, logits, NULL), KVS_OK);
            support_expect_close(logits, e.decode + t * e.vocab, e.vocab, LIMIT,
                                 "%s: decoding token %zu", support_level(l), t);
        }
        kvs_session_free(session);
        kvs_model_free(model);
        kvs_runtime_free(rt);
    }
    kvsi_safetensors_close(e.file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prefill_matches_pytorch),
        cmocka_unit_test(decoding_matches_pytorch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
