/* Runtimes and CPU levels. */
#include "api.h"

static void test_create(void **state)
{
    kvs_runtime *rt;
    kvs_runtime_options options;
    int usable;

    (void)state;
    expect_needed(out, kvs_runtime_create(NULL, NULL, &err));
    expect_ok(kvs_runtime_create(&rt, NULL, &err));
    assert_true(kvs_runtime_threads(rt) >= 1);
    assert_non_null(kvs_runtime_cpu_level(rt));
    kvs_runtime_free(rt);

    kvs_runtime_options_init(&options, sizeof options);
    assert_int_equal(options.threads, 0);
    options.threads = -1;
    expect_no_handle(rt, KVS_E_INVALID, "thread", kvs_runtime_create(&rt, &options, &err));
    assert_int_equal(kvs_runtime_create(&rt, &options, NULL), KVS_E_INVALID);
    options.threads = 2;
    options.cpu_level = "";
    expect_no_handle(rt, KVS_E_INVALID, "", kvs_runtime_create(&rt, &options, &err));
    options.cpu_level = "abacus";
    expect_no_handle(rt, KVS_E_INVALID, "abacus", kvs_runtime_create(&rt, &options, &err));
    options.cpu_level = "auto";
    expect_ok(kvs_runtime_create(&rt, &options, &err));
    assert_int_equal(kvs_runtime_threads(rt), 2);
    kvs_runtime_free(rt);
    options.precision = "fp8";
    expect_no_handle(rt, KVS_E_INVALID, "unknown precision 'fp8', expected f32 or bf16",
                     kvs_runtime_create(&rt, &options, &err));
    options.precision = "bf16";
    expect_ok(kvs_runtime_create(&rt, &options, &err));
    kvs_runtime_free(rt);
    for (size_t i = 0; kvs_cpu_level_name(i, &usable); i++) { /* the levels of this build */
        options.cpu_level = kvs_cpu_level_name(i, NULL);
        if (!usable) {
            expect_no_handle(rt, KVS_E_UNSUPPORTED, options.cpu_level,
                             kvs_runtime_create(&rt, &options, &err));
            continue;
        }
        expect_ok(kvs_runtime_create(&rt, &options, &err));
        assert_string_equal(kvs_runtime_cpu_level(rt), options.cpu_level);
        kvs_runtime_free(rt);
    }
}

static void test_options(void **state)
{
    kvs_runtime *rt;

    (void)state;
    expect_init(kvs_runtime_options);
    expect_sizes(kvs_runtime_options, offsetof(kvs_runtime_options, shard_parameters),
                 p->threads = 1, kvs_runtime_create(&rt, o, &err), kvs_runtime_free(rt));
}

static void test_null(void **state)
{
    (void)state;
    expect_zero(kvs_runtime_threads(NULL));
    expect_null(kvs_runtime_cpu_level(NULL));
    expect_nothing(kvs_runtime_free(NULL));
}

static void test_levels(void **state)
{
    size_t count = 0;
    int usable = -1, best = 0;

    (void)state;
    for (; kvs_cpu_level_name(count, &usable); count++) {
        assert_true(usable == 0 || usable == 1);
        assert_string_equal(kvs_cpu_level_name(count, NULL), kvs_cpu_level_name(count, &usable));
        assert_int_equal(kvs_cpu_level_missing(count) == NULL, usable);
        best |= usable;
    }
    assert_true(count >= 1);
    assert_true(best); /* the last level runs on every machine */
    expect_null(kvs_cpu_level_name(count, NULL));
    expect_null(kvs_cpu_level_name(SIZE_MAX, &usable));
    expect_null(kvs_cpu_level_missing(count));
    expect_null(kvs_cpu_level_missing(SIZE_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_create),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_null),
        cmocka_unit_test(test_levels),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
