/* Published models: their reference log-probabilities and greedy texts, and the same tensors and
 * logits from every format of one model.
 *
 * They are in $KVSHIFT_SHARED/data; without them the tests are skipped. */
#include "base/files.h"
#include "base/json.h"
#include "base/memory.h"
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { REFERENCE_LIMIT = 1 << 20 };

/* A path below data/ in fresh memory; skips the test with a message if it does not exist. */
static char *find(const char *name)
{
    const char *shared = getenv("KVSHIFT_SHARED");
    char *data = kvsi_path_join(shared ? shared : "", "data"), *path = kvsi_path_join(data, name);
    const int there = shared && kvsi_file_exists(path);

    kvsi_free(data);
    if (there)
        return path;
    print_message("skipped: no data/%s below $KVSHIFT_SHARED\n", name);
    kvsi_free(path);
    skip();
    return NULL;
}

static kvs_model *load(kvs_runtime *rt, const char *path)
{
    kvs_model *model;
    kvs_err err;

    if (kvs_model_load(&model, rt, path, NULL, &err) != KVS_OK)
        fail_msg("%s", err.message);
    return model;
}

static int32_t id_at(const json_t *ids, size_t index)
{
    return (int32_t)json_integer_value(json_array_get(ids, index));
}

static double log_probability(const float *logits, size_t vocab, int32_t id)
{
    double sum = 0;

    for (size_t v = 0; v < vocab; v++)
        sum += exp((double)logits[v] - (double)logits[id]);
    return -log(sum);
}

static int32_t best_of(const float *logits, size_t vocab)
{
    size_t best = 0;

    for (size_t v = 1; v < vocab; v++)
        best = logits[v] > logits[best] ? v : best;
    return (int32_t)best;
}

/* Feeds the prompt token by token, then continues greedily. */
static void check_case(const kvs_model *model, const json_t *reference)
{
    const json_t *ids = json_object_get(reference, "ids");
    const json_t *expected = json_object_get(reference, "next_token_logprobs");
    const json_t *greedy = json_object_get(reference, "greedy_continuation_ids");
    const size_t vocab = kvs_model_get_config(model)->vocab, count = json_array_size(ids);
    float *logits = kvsi_alloc(vocab, sizeof *logits);
    kvs_session *session;

    assert_int_equal(kvs_session_create(&session, model, NULL, NULL), KVS_OK);
    for (size_t i = 0; i < count + json_array_size(greedy); i++) {
        const int32_t id = i < count ? id_at(ids, i) : id_at(greedy, i - count);

        if (i > 0 && i < count)
            assert_true(fabs(log_probability(logits, vocab, id) -
                             json_number_value(json_array_get(expected, i - 1))) < 1e-3);
        if (i >= count)
            assert_int_equal(best_of(logits, vocab), id);
        assert_int_equal(kvs_session_feed(session, &id, 1, logits, NULL), KVS_OK);
    }
    kvs_session_free(session);
    kvsi_free(logits);
}

/* On every CPU level; only on the best one if the model is large. */
static void check_reference(const char *model_name, const char *reference_name, int all_levels)
{
    char *model_path = find(model_name), *path = find(reference_name);
    json_t *reference, *cases;

    assert_int_equal(kvsi_json_read(&reference, path, REFERENCE_LIMIT, NULL), KVS_OK);
    cases = json_object_get(reference, "cases");
    assert_true(json_array_size(cases) > 0);
    for (size_t level = 0; support_level(level) && (level == 0 || all_levels); level++) {
        kvs_runtime *rt = support_runtime(support_level(level));
        kvs_model *model = load(rt, model_path);

        for (size_t i = 0; i < json_array_size(cases); i++)
            check_case(model, json_array_get(cases, i));
        kvs_model_free(model);
        kvs_runtime_free(rt);
    }
    json_decref(reference);
    kvsi_free(path);
    kvsi_free(model_path);
}

static void tinystories_writes_as_its_authors_model(void **state)
{
    (void)state;
    check_reference("tinystories656K-hf", "tinystories656K-hf/reference.json", 1);
}

static void stories260k_writes_as_llama2c(void **state)
{
    (void)state;
    check_reference("stories260K/stories260K.bin", "stories260K/reference.json", 1);
    check_reference("stories260K/stories260K_v1.bin", "stories260K/reference.json", 0);
    check_reference("stories260K/stories260K.gguf", "stories260K/reference.json", 0);
}

static void stories15m_writes_as_llama2c(void **state)
{
    (void)state;
    check_reference("stories15M/stories15M.bin", "stories15M/reference.json", 0);
}

/* ---- comparison of a model in three file formats ---- */

static void expect_same_tensors(const kvs_model *a, const kvs_model *b)
{
    const char *name;
    size_t count;

    for (size_t i = 0; (name = kvs_model_tensor_name(a, i, &count)); i++) {
        float *first = kvsi_alloc(count, sizeof *first), *second = kvsi_alloc(count, sizeof *first);

        assert_int_equal(kvs_model_read_tensor(first, count, a, name, NULL), KVS_OK);
        assert_int_equal(kvs_model_read_tensor(second, count, b, name, NULL), KVS_OK);
        assert_memory_equal(first, second, count * sizeof *first);
        kvsi_free(first);
        kvsi_free(second);
    }
}

static void expect_same_logits(const kvs_model *a, const kvs_model *b)
{
    enum { TOKENS = 40, VOCAB = 512 };
    const kvs_model *models[] = {a, b};
    static float logits[2][VOCAB];
    int32_t ids[TOKENS];

    support_fill_ids(ids, TOKENS, 1, VOCAB);
    for (size_t i = 0; i < 2; i++) {
        kvs_session *session;

        assert_int_equal(kvs_model_get_config(models[i])->vocab, VOCAB);
        assert_int_equal(kvs_session_create(&session, models[i], NULL, NULL), KVS_OK);
        assert_int_equal(kvs_session_feed(session, ids, TOKENS, logits[i], NULL), KVS_OK);
        kvs_session_free(session);
    }
    assert_memory_equal(logits[0], logits[1], sizeof logits[0]);
}

/* The GGUF file has the table of the tied head twice; common tensors are equal bit for bit. */
static void three_forms_are_one_model(void **state)
{
    static const char *const others[] = {"stories260K/stories260K_v1.bin",
                                         "stories260K/stories260K.gguf"};
    char *path = find("stories260K/stories260K.bin");
    kvs_runtime *rt = support_runtime(NULL);
    kvs_model *legacy = load(rt, path);

    (void)state;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char *other_path = find(others[i]);
        kvs_model *other = load(rt, other_path);

        expect_same_tensors(legacy, other);
        expect_same_logits(legacy, other);
        kvs_model_free(other);
        kvsi_free(other_path);
    }
    kvs_model_free(legacy);
    kvs_runtime_free(rt);
    kvsi_free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tinystories_writes_as_its_authors_model),
        cmocka_unit_test(stories260k_writes_as_llama2c),
        cmocka_unit_test(stories15m_writes_as_llama2c),
        cmocka_unit_test(three_forms_are_one_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
