/* Models: creating, loading, tensors, taps, activations. */
#include "api.h"

#include <sys/stat.h>

static void test_dtype(void **state)
{
    kvs_dtype dtype;

    (void)state;
    for (int i = KVS_DTYPE_KEEP; i <= KVS_DTYPE_Q4_0; i++) {
        expect_ok(kvs_dtype_parse(&dtype, kvs_dtype_name((kvs_dtype)i), &err));
        assert_int_equal(dtype, i);
    }
    assert_null(kvs_dtype_name((kvs_dtype)-1));
    assert_null(kvs_dtype_name((kvs_dtype)(KVS_DTYPE_Q4_0 + 1)));
    expect_needed(out, kvs_dtype_parse(NULL, "f32", &err));
    expect_needed(name, kvs_dtype_parse(&dtype, NULL, &err));
    expect_invalid("f33", kvs_dtype_parse(&dtype, "f33", &err));
    expect_invalid("", kvs_dtype_parse(&dtype, "", &err));
}

static void test_create(void **state)
{
    kvs_model_config *config = api_config(), *empty;
    kvs_model *model;

    (void)state;
    expect_needed(out, kvs_model_create(NULL, api_runtime, config, 1, &err));
    expect_no_handle(model, KVS_E_INVALID, "rt is NULL",
                     kvs_model_create(&model, NULL, config, 1, &err));
    expect_no_handle(model, KVS_E_INVALID, "config is NULL",
                     kvs_model_create(&model, api_runtime, NULL, 1, &err));
    expect_ok(kvs_model_config_create(&empty, NULL, &err));
    expect_no_handle(model, KVS_E_INVALID, "vocab",
                     kvs_model_create(&model, api_runtime, empty, 1, &err));
    kvs_model_config_free(empty);
    /* The configuration is not finished: kvs_model_create() sets automatic values itself. */
    expect_ok(kvs_model_create(&model, api_runtime, config, UINT64_MAX, &err));
    kvs_model_free(model);
    kvs_model_config_free(config);
    expect_nothing(kvs_model_free(NULL));
}

static void test_load(void **state)
{
    kvs_model *model;

    (void)state;
    expect_init(kvs_load_options);
    expect_ok(kvs_model_save(api_model, api_dir, &err));
    expect_needed(out, kvs_model_load(NULL, api_runtime, api_dir, NULL, &err));
    expect_no_handle(model, KVS_E_INVALID, "rt is NULL",
                     kvs_model_load(&model, NULL, api_dir, NULL, &err));
    expect_no_handle(model, KVS_E_INVALID, "path is NULL",
                     kvs_model_load(&model, api_runtime, NULL, NULL, &err));
    expect_no_handle(model, KVS_E_IO, "no-such-file",
                     kvs_model_load(&model, api_runtime, api_path("no-such-file"), NULL, &err));
    model = NULL;
    assert_int_not_equal(kvs_model_load(&model, api_runtime, "", NULL, &err), KVS_OK);
    assert_null(model);
    expect_no_handle(
        model, KVS_E_FORMAT, "text.gguf",
        kvs_model_load(&model, api_runtime, api_write("text.gguf", "no model"), NULL, &err));
    expect_sizes(kvs_load_options, sizeof *o, (void)p,
                 kvs_model_load(&model, api_runtime, api_dir, o, &err), kvs_model_free(model));
}

static void test_save(void **state)
{
    (void)state;
    expect_needed(model, kvs_model_save(NULL, api_dir, &err));
    expect_needed(dir, kvs_model_save(api_model, NULL, &err));
    expect_status(KVS_E_IO, "no-folder", kvs_model_save(api_model, api_path("no-folder"), &err));
    assert_int_not_equal(kvs_model_save(api_model, "", &err), KVS_OK);
}

/* A mapped model refuses to change its weights, but its EOS ids can be set. */
static void test_mapped(void **state)
{
    kvs_load_options options;
    kvs_model *mapped, *other;
    kvs_model_config *config = api_config();
    const int32_t eos = 1;
    size_t count;
    const char *name;
    float *values;

    (void)state;
    expect_ok(kvs_model_save(api_model, api_dir, &err));
    kvs_load_options_init(&options, sizeof options);
    options.mapped = 1;
    expect_ok(kvs_model_load(&mapped, api_runtime, api_dir, &options, &err));
    name = kvs_model_tensor_name(mapped, 0, &count);
    values = malloc(count * sizeof *values);
    assert_non_null(values);
    expect_ok(kvs_model_read_tensor(values, count, mapped, name, &err));
    expect_status(KVS_E_UNSUPPORTED, "", kvs_model_write_tensor(mapped, name, values, count, &err));
    expect_no_handle(other, KVS_E_UNSUPPORTED, "",
                     kvs_model_retrofit(&other, api_runtime, mapped, config, &err));
    expect_ok(kvs_model_set_eos(mapped, &eos, 1, &err));
    free(values);
    kvs_model_free(mapped);
    kvs_model_config_free(config);
}

static void test_retrofit(void **state)
{
    kvs_model_config *config = api_config();
    kvs_model *plain, *model;

    (void)state;
    expect_ok(kvs_model_config_set(config, "shift", "none", &err));
    expect_ok(kvs_model_create(&plain, api_runtime, config, 1, &err));
    expect_no_handle(model, KVS_E_INVALID, "shift",
                     kvs_model_retrofit(&model, api_runtime, plain, config, &err));
    expect_ok(kvs_model_config_set(config, "shift", "k", &err));
    expect_needed(out, kvs_model_retrofit(NULL, api_runtime, plain, config, &err));
    expect_no_handle(model, KVS_E_INVALID, "rt is NULL",
                     kvs_model_retrofit(&model, NULL, plain, config, &err));
    expect_no_handle(model, KVS_E_INVALID, "model is NULL",
                     kvs_model_retrofit(&model, api_runtime, NULL, config, &err));
    expect_no_handle(model, KVS_E_INVALID, "config is NULL",
                     kvs_model_retrofit(&model, api_runtime, plain, NULL, &err));
    expect_no_handle(model, KVS_E_INVALID, "shift", /* the model already has a shift */
                     kvs_model_retrofit(&model, api_runtime, api_model, config, &err));
    expect_ok(kvs_model_retrofit(&model, api_runtime, plain, config, &err));
    kvs_model_free(model);
    kvs_model_free(plain);
    kvs_model_config_free(config);
}

static void test_adapt(void **state)
{
    kvs_adapter_options options;
    kvs_model *model, *again;

    (void)state;
    expect_init(kvs_adapter_options);
    kvs_adapter_options_init(&options, sizeof options);
    assert_true(options.size == sizeof options && options.rank == 8 && !options.on);
    options.rank = 2;
    expect_needed(out, kvs_model_adapt(NULL, api_runtime, api_model, &options, &err));
    expect_no_handle(model, KVS_E_INVALID, "rt is NULL",
                     kvs_model_adapt(&model, NULL, api_model, &options, &err));
    expect_no_handle(model, KVS_E_INVALID, "model is NULL",
                     kvs_model_adapt(&model, api_runtime, NULL, &options, &err));
    options.on = "nothing";
    expect_no_handle(model, KVS_E_INVALID, "'nothing'",
                     kvs_model_adapt(&model, api_runtime, api_model, &options, &err));
    options.on = "q_proj";
    options.rank = 1 << 20;
    expect_no_handle(model, KVS_E_INVALID, "lora rank is 1048576",
                     kvs_model_adapt(&model, api_runtime, api_model, &options, &err));
    options.rank = 2;
    expect_ok(kvs_model_adapt(&model, api_runtime, api_model, &options, &err));
    assert_true(kvs_model_parameters(model) > kvs_model_parameters(api_model));
    expect_no_handle(again, KVS_E_INVALID, "already has adapters",
                     kvs_model_adapt(&again, api_runtime, model, NULL, &err));
    kvs_model_free(model);
    expect_sizes(kvs_adapter_options, sizeof *o, p->rank = 2,
                 kvs_model_adapt(&model, api_runtime, api_model, o, &err), kvs_model_free(model));
}

static void test_properties(void **state)
{
    const kvs_model_config *config = kvs_model_get_config(api_model);

    (void)state;
    assert_true(kvs_model_config_number(config, "vocab") == API_VOCAB);
    assert_true(kvs_model_config_number(config, "kv-heads") == API_HEADS);
    assert_true(kvs_model_parameters(api_model) > API_VOCAB * API_DIM);
    assert_int_equal(kvs_model_logit_count(api_model), API_VOCAB);
    expect_null(kvs_model_get_config(NULL));
    expect_zero(kvs_model_parameters(NULL));
    expect_zero(kvs_model_logit_count(NULL));
}

static void test_eos(void **state)
{
    static const int32_t two[] = {3, 4}, wrong[] = {API_VOCAB}, negative[] = {-1};
    static int32_t many[65];
    const int32_t *ids = two;

    (void)state;
    assert_int_equal(kvs_model_eos(api_model, &ids), 0);
    expect_zero(kvs_model_eos(NULL, &ids));
    expect_zero(kvs_model_eos(api_model, NULL));
    expect_needed(model, kvs_model_set_eos(NULL, two, 2, &err));
    expect_needed(ids, kvs_model_set_eos(api_model, NULL, 2, &err));
    expect_invalid("20", kvs_model_set_eos(api_model, wrong, 1, &err));
    expect_invalid("-1", kvs_model_set_eos(api_model, negative, 1, &err));
    expect_status(KVS_E_LIMIT, "64", kvs_model_set_eos(api_model, many, 65, &err));
    expect_ok(kvs_model_set_eos(api_model, two, 2, &err));
    assert_int_equal(kvs_model_eos(api_model, &ids), 2);
    assert_int_equal(ids[1], 4);
    assert_int_equal(kvs_model_eos(api_model, NULL), 2);
    expect_ok(kvs_model_set_eos(api_model, NULL, 0, &err));
    assert_int_equal(kvs_model_eos(api_model, &ids), 0);
}

static void test_tensors(void **state)
{
    size_t count = 0, size, sum = 0;
    float *values;
    const char *name;

    (void)state;
    for (; kvs_model_tensor_name(api_model, count, &size); count++)
        sum += size;
    assert_int_equal(sum, kvs_model_parameters(api_model));
    expect_null(kvs_model_tensor_name(api_model, count, NULL));
    expect_null(kvs_model_tensor_name(api_model, SIZE_MAX, NULL));
    expect_null(kvs_model_tensor_name(NULL, 0, &size));

    name = kvs_model_tensor_name(api_model, 0, &size);
    values = malloc(size * sizeof *values);
    assert_non_null(values);
    expect_needed(out, kvs_model_read_tensor(NULL, size, api_model, name, &err));
    expect_needed(model, kvs_model_read_tensor(values, size, NULL, name, &err));
    expect_needed(name, kvs_model_read_tensor(values, size, api_model, NULL, &err));
    expect_invalid("no-such-tensor",
                   kvs_model_read_tensor(values, size, api_model, "no-such-tensor", &err));
    expect_invalid("", kvs_model_read_tensor(values, size, api_model, "", &err));
    expect_invalid(name, kvs_model_read_tensor(values, size - 1, api_model, name, &err));
    expect_invalid(name, kvs_model_read_tensor(values, 0, api_model, name, &err));
    expect_invalid(name, kvs_model_read_tensor(values, SIZE_MAX, api_model, name, &err));
    expect_ok(kvs_model_read_tensor(values, size, api_model, name, &err));

    expect_needed(model, kvs_model_write_tensor(NULL, name, values, size, &err));
    expect_needed(name, kvs_model_write_tensor(api_model, NULL, values, size, &err));
    expect_needed(values, kvs_model_write_tensor(api_model, name, NULL, size, &err));
    expect_invalid("no-such-tensor",
                   kvs_model_write_tensor(api_model, "no-such-tensor", values, size, &err));
    expect_invalid(name, kvs_model_write_tensor(api_model, name, values, size + 1, &err));
    expect_ok(kvs_model_write_tensor(api_model, name, values, size, &err));
    free(values);
}

static void test_taps(void **state)
{
    double taps[2], deviations[2];

    (void)state;
    expect_needed(taps, kvs_model_taps(NULL, NULL, api_model, 0, KVS_SHIFT_K, 0, &err));
    expect_needed(model, kvs_model_taps(taps, NULL, NULL, 0, KVS_SHIFT_K, 0, &err));
    expect_invalid("layer",
                   kvs_model_taps(taps, NULL, api_model, API_LAYERS, KVS_SHIFT_K, 0, &err));
    expect_invalid("layer", kvs_model_taps(taps, NULL, api_model, SIZE_MAX, KVS_SHIFT_K, 0, &err));
    expect_invalid("head", kvs_model_taps(taps, NULL, api_model, 0, KVS_SHIFT_K, API_HEADS, &err));
    expect_invalid("head", kvs_model_taps(taps, NULL, api_model, 0, KVS_SHIFT_K, SIZE_MAX, &err));
    expect_invalid("", kvs_model_taps(taps, NULL, api_model, 0, 0, 0, &err));
    expect_invalid("", kvs_model_taps(taps, NULL, api_model, 0, 8, 0, &err));
    expect_invalid("",
                   kvs_model_taps(taps, NULL, api_model, 0, KVS_SHIFT_K | KVS_SHIFT_V, 0, &err));
    expect_invalid("", kvs_model_taps(taps, NULL, api_model, 0, KVS_SHIFT_Q, 0, &err));
    expect_ok(kvs_model_taps(taps, deviations, api_model, 1, KVS_SHIFT_V, 1, &err));
    assert_true(isfinite(taps[0]) && isfinite(taps[1]));
    expect_ok(kvs_model_taps(taps, NULL, api_model, 0, KVS_SHIFT_K, 0, &err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dtype),  cmocka_unit_test(test_create),
        cmocka_unit_test(test_load),   cmocka_unit_test(test_save),
        cmocka_unit_test(test_mapped), cmocka_unit_test(test_retrofit),
        cmocka_unit_test(test_adapt),  cmocka_unit_test(test_properties),
        cmocka_unit_test(test_eos),    cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_taps),
    };

    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
