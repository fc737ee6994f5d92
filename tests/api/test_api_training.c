/* Trainers, and runs with a folder. */
#include "api.h"

#include <kvshift/kvshift_files.h>

static const size_t starts[] = {0, 4, 8};
static const int32_t ids[] = {1, 2, 3, 4, 5, 6, 7, 8};

static kvs_data *data;
static kvs_train_config *config;

static kvs_batch two(void)
{
    return api_two_sequences(starts, ids);
}

static int setup(void **state)
{
    static kvs_batch batch;

    if (api_setup(state) != 0)
        return -1;
    batch = two();
    expect_ok(kvs_data_create_arrays(&data, &batch, &batch, API_VOCAB, &err));
    expect_ok(kvs_train_config_create(&config, NULL, &err));
    expect_ok(kvs_train_config_set_number(config, "steps", 3, &err));
    expect_ok(kvs_train_config_set_number(config, "warmup", 1, &err));
    expect_ok(kvs_train_config_set_number(config, "batch", 2, &err));
    expect_ok(kvs_train_config_set_number(config, "eval-sequences", 2, &err));
    return 0;
}

static int teardown(void **state)
{
    kvs_data_free(data);
    kvs_train_config_free(config);
    return api_teardown(state);
}

static void test_create(void **state)
{
    static const size_t long_starts[] = {0, API_CONTEXT + 1};
    static const int32_t long_ids[API_CONTEXT + 1];
    kvs_trainer *trainer;
    kvs_data *other;
    kvs_batch batch = two();

    (void)state;
    expect_needed(out, kvs_trainer_create(NULL, api_model, data, config, &err));
    expect_no_handle(trainer, KVS_E_INVALID, "model is NULL",
                     kvs_trainer_create(&trainer, NULL, data, config, &err));
    expect_no_handle(trainer, KVS_E_INVALID, "config is NULL",
                     kvs_trainer_create(&trainer, api_model, data, NULL, &err));
    expect_ok(kvs_data_create_arrays(&other, &batch, NULL, API_VOCAB + 1, &err));
    expect_no_handle(trainer, KVS_E_INVALID, "21",
                     kvs_trainer_create(&trainer, api_model, other, config, &err));
    kvs_data_free(other);
    batch.sequences = 1;
    batch.starts = long_starts;
    batch.ids = long_ids;
    expect_ok(kvs_data_create_arrays(&other, &batch, NULL, API_VOCAB, &err));
    expect_no_handle(trainer, KVS_E_INVALID, "17",
                     kvs_trainer_create(&trainer, api_model, other, config, &err));
    kvs_data_free(other);
    expect_nothing(kvs_trainer_free(NULL));
}

static void test_steps(void **state)
{
    const kvs_step_record *record;
    kvs_trainer *trainer;
    kvs_batch batch = two();

    (void)state;
    expect_ok(kvs_trainer_create(&trainer, api_model, data, config, &err));
    expect_needed(trainer, kvs_trainer_step(&record, NULL, &err));
    expect_ok(kvs_trainer_step(&record, trainer, &err));
    assert_int_equal(record->step, 1);
    expect_ok(kvs_trainer_step(NULL, trainer, &err));
    assert_int_equal(kvs_trainer_steps(trainer), 2);
    expect_zero(kvs_trainer_steps(NULL));

    expect_needed(trainer, kvs_trainer_step_batch(&record, NULL, &batch, &err));
    expect_needed(batch, kvs_trainer_step_batch(&record, trainer, NULL, &err));
    batch.sequences = 0;
    expect_invalid("sequence", kvs_trainer_step_batch(&record, trainer, &batch, &err));
    batch = two();
    batch.ids = NULL;
    expect_invalid("ids", kvs_trainer_step_batch(&record, trainer, &batch, &err));
    expect_sizes(kvs_batch, offsetof(kvs_batch, scored),
                 (p->sequences = 2, p->starts = starts, p->ids = ids),
                 kvs_trainer_step_batch(&record, trainer, o, &err), (void)0);
    kvs_trainer_free(trainer);

    /* A trainer without data can only train on batches of the caller. */
    expect_ok(kvs_trainer_create(&trainer, api_model, NULL, config, &err));
    expect_invalid("data", kvs_trainer_step(&record, trainer, &err));
    batch = two();
    expect_ok(kvs_trainer_step_batch(&record, trainer, &batch, &err));
    kvs_trainer_free(trainer);
}

static void test_too_many(void **state)
{
    static const size_t three[] = {0, 2, 4, 6};
    const kvs_step_record *record;
    kvs_trainer *trainer;
    kvs_batch batch = two();
    double loss;

    (void)state;
    batch.sequences = 3; /* more than the setting "batch" */
    batch.starts = three;
    expect_ok(kvs_trainer_create(&trainer, api_model, NULL, config, &err));
    expect_status(KVS_E_LIMIT, "3", kvs_trainer_step_batch(&record, trainer, &batch, &err));
    expect_status(KVS_E_LIMIT, "3", kvs_trainer_gradients(&loss, trainer, &batch, &err));
    kvs_trainer_free(trainer);
}

static void test_evaluate(void **state)
{
    kvs_trainer *trainer;
    kvs_evaluation evaluation = {.size = sizeof evaluation};
    struct {
        kvs_evaluation evaluation;
        unsigned char more[API_EXTRA];
    } wide = {.evaluation.size = sizeof wide};

    (void)state;
    expect_ok(kvs_trainer_create(&trainer, api_model, data, config, &err));
    expect_needed(out, kvs_trainer_evaluate(NULL, trainer, 2, &err));
    expect_needed(trainer, kvs_trainer_evaluate(&evaluation, NULL, 2, &err));
    expect_invalid("sequences", kvs_trainer_evaluate(&evaluation, trainer, 0, &err));
    evaluation.size = 0;
    expect_invalid("size", kvs_trainer_evaluate(&evaluation, trainer, 2, &err));
    evaluation.size = offsetof(kvs_evaluation, buckets);
    evaluation.buckets = 77;
    expect_ok(kvs_trainer_evaluate(&evaluation, trainer, 2, &err));
    assert_int_equal(evaluation.buckets, 77); /* not a field of the smaller struct */
    assert_true(evaluation.loss > 0);
    expect_ok(kvs_trainer_evaluate(&wide.evaluation, trainer, 2, &err));
    assert_int_equal(wide.evaluation.size, sizeof wide);
    assert_true(wide.evaluation.loss == evaluation.loss);
    kvs_trainer_free(trainer);
}

static void test_gradients(void **state)
{
    kvs_trainer *trainer;
    kvs_batch batch = two();
    double loss;
    size_t count;
    const char *name = kvs_model_tensor_name(api_model, 0, &count);
    float *values = malloc(count * sizeof *values);

    (void)state;
    assert_non_null(values);
    expect_ok(kvs_trainer_create(&trainer, api_model, NULL, config, &err));
    expect_invalid("gradients", kvs_trainer_read_gradient(values, count, trainer, name, &err));
    expect_needed(trainer, kvs_trainer_gradients(&loss, NULL, &batch, &err));
    expect_needed(batch, kvs_trainer_gradients(&loss, trainer, NULL, &err));
    batch.starts = NULL;
    expect_invalid("starts", kvs_trainer_gradients(&loss, trainer, &batch, &err));
    batch = two();
    expect_ok(kvs_trainer_gradients(&loss, trainer, &batch, &err));
    assert_true(loss > 0);
    assert_int_equal(kvs_trainer_steps(trainer), 0);

    expect_needed(out, kvs_trainer_read_gradient(NULL, count, trainer, name, &err));
    expect_needed(trainer, kvs_trainer_read_gradient(values, count, NULL, name, &err));
    expect_needed(name, kvs_trainer_read_gradient(values, count, trainer, NULL, &err));
    expect_invalid("no-such-tensor",
                   kvs_trainer_read_gradient(values, count, trainer, "no-such-tensor", &err));
    expect_invalid(name, kvs_trainer_read_gradient(values, count + 1, trainer, name, &err));
    expect_invalid(name, kvs_trainer_read_gradient(values, 0, trainer, name, &err));
    expect_ok(kvs_trainer_read_gradient(values, count, trainer, name, &err));
    kvs_trainer_free(trainer);
    free(values);
}

static void test_checkpoints(void **state)
{
    kvs_trainer *trainer;
    uint64_t step = 9;

    (void)state;
    expect_ok(kvs_trainer_create(&trainer, api_model, data, config, &err));
    expect_needed(trainer, kvs_trainer_save(NULL, api_path("ckpt"), 0, &err));
    expect_needed(dir, kvs_trainer_save(trainer, NULL, 0, &err));
    expect_needed(trainer, kvs_trainer_load(&step, NULL, api_path("ckpt"), &err));
    expect_needed(dir, kvs_trainer_load(&step, trainer, NULL, &err));
    expect_ok(kvs_trainer_load(&step, trainer, api_path("ckpt"), &err)); /* no checkpoint yet */
    assert_int_equal(step, 0);
    expect_ok(kvs_trainer_step(NULL, trainer, &err));
    expect_status(KVS_E_IO, "file",
                  kvs_trainer_save(trainer, api_write("file", "not a folder"), 0, &err));
    expect_ok(kvs_trainer_save(trainer, api_path("ckpt"), 0, &err));
    expect_ok(kvs_trainer_step(NULL, trainer, &err));
    expect_ok(kvs_trainer_load(&step, trainer, api_path("ckpt"), &err));
    assert_int_equal(step, 1);
    assert_int_equal(kvs_trainer_steps(trainer), 1);
    expect_ok(kvs_trainer_load(NULL, trainer, api_path("ckpt"), &err));
    kvs_trainer_free(trainer);
}

static int stop_after_one(void *user, const kvs_step_record *record)
{
    *(uint64_t *)user = record->step;
    return KVS_PROGRESS_STOP;
}

static void test_train(void **state)
{
    kvs_train_options options;
    kvs_train_result result = {.size = sizeof result};
    uint64_t last = 0;
    const char *file = "unset";

    (void)state;
    expect_init(kvs_train_options);
    kvs_train_options_init(&options, sizeof options);
    expect_needed(model, kvs_train(&result, NULL, data, config, &options, &err));
    expect_needed(data, kvs_train(&result, api_model, NULL, config, &options, &err));
    expect_needed(config, kvs_train(&result, api_model, data, NULL, &options, &err));
    result.size = 0;
    expect_invalid("size", kvs_train(&result, api_model, data, config, &options, &err));
    result.size = offsetof(kvs_train_result, final);
    options.resume = KVS_RESUME_ALWAYS; /* needs a folder */
    expect_invalid("", kvs_train(&result, api_model, data, config, &options, &err));
    options.resume = (kvs_resume)9;
    expect_invalid("resume", kvs_train(&result, api_model, data, config, &options, &err));
    options.resume = KVS_RESUME_NEVER;
    options.file_count = 1;
    expect_invalid("files", kvs_train(&result, api_model, data, config, &options, &err));
    options.file_count = 0;
    expect_ok(kvs_train(&result, api_model, data, config, &options, &err));
    assert_int_equal(result.steps, 3);
    expect_sizes(kvs_train_options, offsetof(kvs_train_options, sample), (void)p,
                 kvs_train(NULL, api_model, data, config, o, &err), (void)0);

    expect_needed(file, kvs_run_find(NULL, api_dir, &err));
    expect_no_handle(file, KVS_E_INVALID, "dir is NULL", kvs_run_find(&file, NULL, &err));
    expect_ok(kvs_run_find(&file, api_path("run"), &err));
    assert_null(file);
    options.out = api_path("run");
    options.progress = stop_after_one;
    options.user = &last;
    expect_ok(kvs_train(NULL, api_model, data, config, &options, &err));
    assert_int_equal(last, 1);
    expect_ok(kvs_run_find(&file, api_path("run"), &err));
    assert_non_null(file);
    options.out = api_path("run");
    expect_status(KVS_E_EXISTS, "", kvs_train(NULL, api_model, data, config, &options, &err));
    options.resume = KVS_RESUME_AUTO;
    expect_ok(kvs_train(NULL, api_model, data, config, &options, &err));
    assert_int_equal(last, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_create),    cmocka_unit_test(test_steps),
        cmocka_unit_test(test_too_many),  cmocka_unit_test(test_evaluate),
        cmocka_unit_test(test_gradients), cmocka_unit_test(test_checkpoints),
        cmocka_unit_test(test_train),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
