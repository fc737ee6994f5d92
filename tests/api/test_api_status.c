/* Statuses, versions, and the values of constants, which programs contain. */
#include "api.h"

#include <kvshift/kvshift_files.h>

static void test_texts(void **state)
{
    (void)state;
    for (int status = KVS_E_STOPPED; status <= KVS_OK; status++) {
        const char *text = kvs_status_text((kvs_status)status);

        assert_non_null(text);
        assert_string_not_equal(text, "");
        assert_string_not_equal(text, kvs_status_text((kvs_status)-1000));
        for (int other = KVS_E_STOPPED; other < status; other++)
            assert_string_not_equal(text, kvs_status_text((kvs_status)other));
    }
    assert_non_null(kvs_status_text((kvs_status)1000));
}

static void test_build(void **state)
{
    const kvs_build_info *build = kvs_build();
    char version[32];

    (void)state;
    assert_non_null(build);
    snprintf(version, sizeof version, "%d.%d.%d", KVS_VERSION_MAJOR, KVS_VERSION_MINOR,
             KVS_VERSION_PATCH);
    assert_string_equal(build->version, version);
    assert_non_null(build->commit);
    assert_non_null(build->compiler);
    assert_non_null(build->openmp);
}

/* script/bindings --check compares what is hashed; this is only the call. */
static void test_layout(void **state)
{
    (void)state;
    assert_true(kvs_layout_hash() != 0);
    assert_true(kvs_layout_hash() == kvs_layout_hash());
}

/* abidiff does not compare enums without a name, and reports changes of a named enum only if a
 * function uses its type. */
static void test_constants(void **state)
{
    (void)state;
    assert_int_equal(KVS_OK, 0);
    assert_int_equal(KVS_E_INVALID, -1);
    assert_int_equal(KVS_E_NOMEM, -2);
    assert_int_equal(KVS_E_IO, -3);
    assert_int_equal(KVS_E_FORMAT, -4);
    assert_int_equal(KVS_E_UNSUPPORTED, -5);
    assert_int_equal(KVS_E_LIMIT, -6);
    assert_int_equal(KVS_E_DIVERGED, -7);
    assert_int_equal(KVS_E_EXISTS, -8);
    assert_int_equal(KVS_E_STOPPED, -9);
    assert_int_equal(KVS_ENCODE_NO_SPECIAL, 1);
    assert_int_equal(KVS_SHIFT_K, 1);
    assert_int_equal(KVS_SHIFT_V, 2);
    assert_int_equal(KVS_SHIFT_Q, 4);
    assert_int_equal(KVS_SCORE_STEP_BY_STEP, 1);
    assert_int_equal(KVS_PROGRESS_STOP, 1);
    assert_int_equal(KVS_PROGRESS_SAVE, 2);
    assert_int_equal(KVS_LENGTH_BUCKETS_MAX, 4);
    assert_int_equal(KVS_DTYPE_Q4_0, 5);
    assert_int_equal(KVS_FORMAT_LLAMA2C_V1, 5);
    assert_int_equal(sizeof(kvs_err), sizeof(kvs_status) + 512);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_build),
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_constants),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
