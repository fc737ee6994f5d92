/* Settings, and configurations of models and of training. */
#include "api.h"

static void check_setting(const kvs_setting *setting)
{
    static const char *const types[] = {"flag",   "count",   "number", "choice",
                                        "counts", "numbers", "text"};
    size_t type = 0;

    assert_non_null(setting->name);
    assert_non_null(setting->type);
    while (type < sizeof types / sizeof *types && strcmp(types[type], setting->type) != 0)
        type++;
    assert_true(type < sizeof types / sizeof *types);
    assert_non_null(setting->group);
    assert_non_null(setting->help);
    assert_non_null(setting->value);
    assert_int_equal(setting->choices != NULL, strcmp(setting->type, "choice") == 0);
}

/* Every setting can be read, and set to the value that was read. */
static void test_model_settings(void **state)
{
    kvs_model_config *config;
    const kvs_setting *setting;
    size_t count = 0;

    (void)state;
    expect_ok(kvs_model_config_create(&config, NULL, &err));
    for (; (setting = kvs_model_setting(count)); count++) {
        char value[256];
        const int number = strcmp(setting->type, "flag") == 0 ||
                           strcmp(setting->type, "count") == 0 ||
                           strcmp(setting->type, "number") == 0;

        check_setting(setting);
        expect_ok(kvs_model_config_get(value, sizeof value, config, setting->name, &err));
        if (strcmp(setting->name, "vocab") != 0) /* its default is 0, which cannot be set */
            expect_ok(kvs_model_config_set(config, setting->name, value, &err));
        assert_true((!isnan(kvs_model_config_number(config, setting->name))) == number);
    }
    assert_true(count > 20);
    assert_null(kvs_model_setting(SIZE_MAX));
    kvs_model_config_free(config);
}

static void test_train_settings(void **state)
{
    kvs_train_config *config;
    const kvs_setting *setting;
    size_t count = 0;

    (void)state;
    expect_ok(kvs_train_config_create(&config, NULL, &err));
    for (; (setting = kvs_train_setting(count)); count++) {
        char value[256];

        check_setting(setting);
        expect_ok(kvs_train_config_get(value, sizeof value, config, setting->name, &err));
        expect_ok(kvs_train_config_set(config, setting->name, value, &err));
    }
    assert_true(count > 20);
    assert_null(kvs_train_setting(SIZE_MAX));
    expect_ok(kvs_train_config_check(config, &err));
    kvs_train_config_free(config);
}

static void test_presets(void **state)
{
    size_t count = 0;

    (void)state;
    for (; kvs_preset_name(count); count++) {
        kvs_model_config *model;
        kvs_train_config *train;

        expect_ok(kvs_model_config_create(&model, kvs_preset_name(count), &err));
        expect_ok(kvs_train_config_create(&train, kvs_preset_name(count), &err));
        kvs_model_config_free(model);
        kvs_train_config_free(train);
    }
    assert_true(count > 5);
    assert_null(kvs_preset_name(SIZE_MAX));
}

static void test_model_create(void **state)
{
    kvs_model_config *config, *copy;
    char value[16];

    (void)state;
    expect_needed(out, kvs_model_config_create(NULL, NULL, &err));
    expect_no_handle(config, KVS_E_INVALID, "no-such-preset",
                     kvs_model_config_create(&config, "no-such-preset", &err));
    expect_no_handle(config, KVS_E_INVALID, "", kvs_model_config_create(&config, "", &err));
    assert_int_equal(kvs_model_config_create(&config, "", NULL), KVS_E_INVALID);

    config = api_config();
    expect_needed(out, kvs_model_config_copy(NULL, config, &err));
    expect_no_handle(copy, KVS_E_INVALID, "config is NULL",
                     kvs_model_config_copy(&copy, NULL, &err));
    expect_ok(kvs_model_config_copy(&copy, config, &err));
    expect_ok(kvs_model_config_set(config, "shift", "none", &err));
    expect_ok(kvs_model_config_get(value, sizeof value, copy, "shift", &err));
    assert_string_equal(value, "kv");
    kvs_model_config_free(copy);
    kvs_model_config_free(config);
    expect_nothing(kvs_model_config_free(NULL));
}

static void test_model_set(void **state)
{
    kvs_model_config *config = api_config();
    char value[16];

    (void)state;
    expect_needed(config, kvs_model_config_set(NULL, "dim", "8", &err));
    expect_needed(name, kvs_model_config_set(config, NULL, "8", &err));
    expect_needed(value, kvs_model_config_set(config, "dim", NULL, &err));
    expect_invalid("no-such-name", kvs_model_config_set(config, "no-such-name", "8", &err));
    expect_invalid("", kvs_model_config_set(config, "", "8", &err));
    expect_invalid("dim", kvs_model_config_set(config, "dim", "", &err));
    expect_invalid("dim", kvs_model_config_set(config, "dim", "wide", &err));
    expect_invalid("dim", kvs_model_config_set(config, "dim", "0", &err));
    expect_invalid("dim", kvs_model_config_set(config, "dim", "-8", &err));
    expect_invalid("dim", kvs_model_config_set(config, "dim", "8x", &err));
    expect_invalid("dim", kvs_model_config_set(config, "dim", "1e300", &err));
    expect_invalid("shift", kvs_model_config_set(config, "shift", "sideways", &err));
    expect_invalid("tied", kvs_model_config_set(config, "tied", "perhaps", &err));
    assert_int_equal(kvs_model_config_set(config, "dim", "x", NULL), KVS_E_INVALID);

    expect_needed(config, kvs_model_config_set_number(NULL, "dim", 8, &err));
    expect_needed(name, kvs_model_config_set_number(config, NULL, 8, &err));
    expect_invalid("no-such-name", kvs_model_config_set_number(config, "no-such-name", 8, &err));
    expect_invalid("dim", kvs_model_config_set_number(config, "dim", 8.5, &err));
    expect_invalid("dim", kvs_model_config_set_number(config, "dim", -1, &err));
    expect_invalid("dim", kvs_model_config_set_number(config, "dim", NAN, &err));
    expect_invalid("dim", kvs_model_config_set_number(config, "dim", INFINITY, &err));
    expect_invalid("tied", kvs_model_config_set_number(config, "tied", 2, &err));
    expect_invalid("shift", kvs_model_config_set_number(config, "shift", 1, &err));
    /* The failed calls changed nothing. */
    assert_true(kvs_model_config_number(config, "dim") == API_DIM);
    expect_ok(kvs_model_config_set_number(config, "tied", 1, &err));
    assert_true(kvs_model_config_number(config, "tied") == 1);

    expect_needed(out, kvs_model_config_get(NULL, 8, config, "dim", &err));
    expect_needed(config, kvs_model_config_get(value, sizeof value, NULL, "dim", &err));
    expect_needed(name, kvs_model_config_get(value, sizeof value, config, NULL, &err));
    expect_invalid("no-such-name",
                   kvs_model_config_get(value, sizeof value, config, "no-such-name", &err));
    expect_status(KVS_E_LIMIT, "", kvs_model_config_get(value, 2, config, "dim", &err));
    expect_status(KVS_E_LIMIT, "", kvs_model_config_get(value, 0, config, "dim", &err));
    expect_ok(kvs_model_config_get(value, 3, config, "dim", &err));
    assert_string_equal(value, "16");

    expect_nan(kvs_model_config_number(NULL, "dim"));
    expect_nan(kvs_model_config_number(config, NULL));
    expect_nan(kvs_model_config_number(config, ""));
    expect_nan(kvs_model_config_number(config, "no-such-name"));
    expect_nan(kvs_model_config_number(config, "shift"));
    kvs_model_config_free(config);
}

static void test_model_finish(void **state)
{
    kvs_model_config *config;

    (void)state;
    expect_needed(config, kvs_model_config_finish(NULL, &err));
    expect_ok(kvs_model_config_create(&config, NULL, &err));
    expect_invalid("vocab", kvs_model_config_finish(config, &err));
    expect_ok(kvs_model_config_set_number(config, "vocab", 10, &err));
    expect_ok(kvs_model_config_set_number(config, "heads", 3, &err));
    expect_invalid("heads", kvs_model_config_finish(config, &err));
    expect_ok(kvs_model_config_set_number(config, "heads", 2, &err));
    expect_ok(kvs_model_config_finish(config, &err));
    assert_true(kvs_model_config_number(config, "kv-heads") == 2);
    expect_ok(kvs_model_config_finish(config, &err));
    kvs_model_config_free(config);
}

static void test_train_config(void **state)
{
    kvs_train_config *config, *copy;
    char value[16];

    (void)state;
    expect_needed(out, kvs_train_config_create(NULL, NULL, &err));
    expect_no_handle(config, KVS_E_INVALID, "no-such-preset",
                     kvs_train_config_create(&config, "no-such-preset", &err));
    expect_ok(kvs_train_config_create(&config, NULL, &err));
    expect_needed(out, kvs_train_config_copy(NULL, config, &err));
    expect_no_handle(copy, KVS_E_INVALID, "config is NULL",
                     kvs_train_config_copy(&copy, NULL, &err));
    expect_ok(kvs_train_config_copy(&copy, config, &err));

    expect_needed(config, kvs_train_config_set(NULL, "lr", "1", &err));
    expect_needed(name, kvs_train_config_set(config, NULL, "1", &err));
    expect_needed(value, kvs_train_config_set(config, "lr", NULL, &err));
    expect_invalid("no-such-name", kvs_train_config_set(config, "no-such-name", "1", &err));
    expect_invalid("lr", kvs_train_config_set(config, "lr", "", &err));
    expect_invalid("lr", kvs_train_config_set(config, "lr", "nan", &err));
    expect_invalid("steps", kvs_train_config_set(config, "steps", "-1", &err));
    expect_needed(config, kvs_train_config_set_number(NULL, "lr", 1, &err));
    expect_needed(name, kvs_train_config_set_number(config, NULL, 1, &err));
    expect_invalid("lr", kvs_train_config_set_number(config, "lr", -1, &err));
    expect_invalid("steps", kvs_train_config_set_number(config, "steps", 0.5, &err));
    expect_ok(kvs_train_config_set(config, "lr", "2e-3", &err));
    assert_true(kvs_train_config_number(config, "lr") == 2e-3);
    assert_true(kvs_train_config_number(copy, "lr") == 1e-3);

    expect_needed(out, kvs_train_config_get(NULL, 8, config, "lr", &err));
    expect_needed(config, kvs_train_config_get(value, sizeof value, NULL, "lr", &err));
    expect_needed(name, kvs_train_config_get(value, sizeof value, config, NULL, &err));
    expect_invalid("", kvs_train_config_get(value, sizeof value, config, "", &err));
    expect_status(KVS_E_LIMIT, "", kvs_train_config_get(value, 1, config, "lr", &err));
    expect_nan(kvs_train_config_number(NULL, "lr"));
    expect_nan(kvs_train_config_number(config, NULL));
    expect_nan(kvs_train_config_number(config, "schedule"));

    expect_needed(config, kvs_train_config_check(NULL, &err));
    expect_ok(kvs_train_config_check(config, &err));
    expect_ok(kvs_train_config_set_number(config, "accumulate", 3, &err));
    /* 3 does not divide the batch. */
    expect_invalid("accumulate", kvs_train_config_check(config, &err));

    expect_nan(kvs_learning_rate(NULL, 1));
    assert_true(kvs_learning_rate(config, 1) > 0);
    assert_true(kvs_learning_rate(config, UINT64_MAX) >= 0);
    assert_true(kvs_learning_rate(config, 0) >= 0);
    kvs_train_config_free(copy);
    kvs_train_config_free(config);
    expect_nothing(kvs_train_config_free(NULL));
}

static void test_model_load(void **state)
{
    kvs_model_config *config;

    (void)state;
    expect_needed(out, kvs_model_config_load(NULL, api_dir, &err));
    expect_no_handle(config, KVS_E_INVALID, "path is NULL",
                     kvs_model_config_load(&config, NULL, &err));
    config = NULL;
    assert_int_not_equal(kvs_model_config_load(&config, "", &err), KVS_OK);
    assert_null(config);
    expect_no_handle(config, KVS_E_IO, "no-such-file",
                     kvs_model_config_load(&config, api_path("no-such-file"), &err));
    expect_no_handle(config, KVS_E_FORMAT, "config.json",
                     kvs_model_config_load(&config, api_write("config.json", "{"), &err));
    expect_ok(kvs_model_save(api_model, api_dir, &err));
    expect_ok(kvs_model_config_load(&config, api_dir, &err));
    assert_true(kvs_model_config_number(config, "dim") == API_DIM);
    kvs_model_config_free(config);
    expect_ok(kvs_model_config_load(&config, api_path("config.json"), &err));
    kvs_model_config_free(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model_settings), cmocka_unit_test(test_train_settings),
        cmocka_unit_test(test_presets),        cmocka_unit_test(test_model_create),
        cmocka_unit_test(test_model_set),      cmocka_unit_test(test_model_finish),
        cmocka_unit_test(test_train_config),   cmocka_unit_test(test_model_load),
    };

    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
