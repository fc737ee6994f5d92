/* Activations of a model. */
#include "api.h"

static int count_visits(void *user, const kvs_activation *activation)
{
    assert_non_null(activation->name);
    assert_non_null(activation->values);
    assert_true(activation->rank >= 1 && activation->rank <= 4);
    ++*(size_t *)user;
    return 0;
}

static int stop(void *user, const kvs_activation *activation)
{
    (void)activation;
    ++*(size_t *)user;
    return 1;
}

static void test_names(void **state)
{
    size_t count = 0;

    (void)state;
    while (kvs_activation_name(count))
        count++;
    assert_true(count > 5);
    assert_null(kvs_activation_name(SIZE_MAX));
}

static void test_trace(void **state)
{
    static const int32_t ids[] = {1, 2, 3}, wrong[] = {1, API_VOCAB}, negative[] = {-1};
    static const char *const null[] = {NULL}, *const unknown[] = {"no.such.name"},
                             *const empty[] = {""};
    static int32_t many[API_CONTEXT + 1];
    const char *one[1];
    char name[128];
    size_t visits = 0, all;

    (void)state;
    expect_needed(model, kvs_model_trace(NULL, ids, 3, NULL, 0, count_visits, &visits, &err));
    expect_needed(ids, kvs_model_trace(api_model, NULL, 3, NULL, 0, count_visits, &visits, &err));
    expect_needed(visit, kvs_model_trace(api_model, ids, 3, NULL, 0, NULL, &visits, &err));
    expect_needed(names, kvs_model_trace(api_model, ids, 3, NULL, 1, count_visits, &visits, &err));
    expect_invalid("NULL",
                   kvs_model_trace(api_model, ids, 3, null, 1, count_visits, &visits, &err));
    expect_invalid("no.such.name",
                   kvs_model_trace(api_model, ids, 3, unknown, 1, count_visits, &visits, &err));
    expect_invalid("", kvs_model_trace(api_model, ids, 3, empty, 1, count_visits, &visits, &err));
    expect_invalid("20",
                   kvs_model_trace(api_model, wrong, 2, NULL, 0, count_visits, &visits, &err));
    expect_invalid("-1",
                   kvs_model_trace(api_model, negative, 1, NULL, 0, count_visits, &visits, &err));
    expect_invalid("", kvs_model_trace(api_model, ids, 0, NULL, 0, count_visits, &visits, &err));
    expect_status(
        KVS_E_LIMIT, "16",
        kvs_model_trace(api_model, many, API_CONTEXT + 1, NULL, 0, count_visits, &visits, &err));
    assert_int_equal(visits, 0);
    expect_ok(kvs_model_trace(api_model, ids, 3, NULL, 0, count_visits, &visits, &err));
    all = visits;
    assert_true(all > 10);
    expect_status(KVS_E_STOPPED, "",
                  kvs_model_trace(api_model, ids, 3, NULL, 0, stop, &visits, &err));
    assert_int_equal(visits, all + 1);

    /* Names with the number of a layer, with a number that is too large, and with "*". */
    one[0] = name;
    visits = 0;
    snprintf(name, sizeof name, "blocks.%d.attn.hook_pattern", API_LAYERS - 1);
    expect_ok(kvs_model_trace(api_model, ids, 3, one, 1, count_visits, &visits, &err));
    assert_int_equal(visits, 1);
    snprintf(name, sizeof name, "blocks.%d.attn.hook_pattern", API_LAYERS);
    expect_invalid(name, kvs_model_trace(api_model, ids, 3, one, 1, count_visits, &visits, &err));
    snprintf(name, sizeof name, "blocks.*.attn.hook_pattern");
    expect_ok(kvs_model_trace(api_model, ids, 3, one, 1, count_visits, &visits, &err));
    assert_int_equal(visits, 1 + API_LAYERS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_trace),
    };

    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
