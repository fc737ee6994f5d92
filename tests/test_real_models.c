/* A model that others trained, read as it is: its reference log-probabilities and greedy texts.
 *
 * It is in $KVSHIFT_SHARED/data; where it is not, the test is skipped. */
#include "base/files.h"
#include "base/json.h"
#include "base/memory.h"
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { REFERENCE_LIMIT = 1 << 20 };

/* The model's folder in fresh memory; NULL after saying that it is not there. */
static char *find_model(const char *name)
{
    const char *shared = getenv("KVSHIFT_SHARED");
    char *data = kvsi_path_join(shared ? shared : "", "data"), *dir = kvsi_path_join(data, name);
    char *config = kvsi_path_join(dir, "config.json");
    const int there = shared && kvsi_file_exists(config);

    kvsi_free(data);
    kvsi_free(config);
    if (there)
        return dir;
    print_message("skipped: no data/%s below $KVSHIFT_SHARED\n", name);
    kvsi_free(dir);
    return NULL;
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

/* Token by token through the prompt, then on greedily. */
static void check_case(const kvs_model *model, const json_t *reference)
{
    const json_t *ids = json_object_get(reference, "ids");
    const json_t *expected = json_object_get(reference, "next_token_logprobs");
    const json_t *greedy = json_object_get(reference, "greedy_continuation_ids");
    const size_t vocab = kvs_model_get_config(model)->vocab, count = json_array_size(ids);
    float *logits = kvsi_alloc(vocab, sizeof *logits);
    kvs_session *session;

    assert_int_equal(kvs_session_create(&session, model, 0, NULL), KVS_OK);
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

static void tinystories_writes_as_its_authors_model(void **state)
{
    char *dir = find_model("tinystories656K-hf"), *path;
    kvs_runtime *rt;
    kvs_model *model;
    json_t *reference, *cases;
    kvs_err err;

    (void)state;
    if (!dir)
        skip();
    path = kvsi_path_join(dir, "reference.json");
    assert_int_equal(kvsi_json_read(&reference, path, REFERENCE_LIMIT, &err), KVS_OK);
    for (size_t level = 0; support_level(level); level++) {
        rt = support_runtime(support_level(level));
        assert_int_equal(kvs_model_load(&model, rt, dir, &err), KVS_OK);
        cases = json_object_get(reference, "cases");
        assert_true(json_array_size(cases) > 0);
        for (size_t i = 0; i < json_array_size(cases); i++)
            check_case(model, json_array_get(cases, i));
        kvs_model_free(model);
        kvs_runtime_free(rt);
    }
    json_decref(reference);
    kvsi_free(path);
    kvsi_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tinystories_writes_as_its_authors_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
