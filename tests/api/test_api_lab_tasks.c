/* The research API: tasks, plans, perplexity, reports. */
#include "api.h"

#include <kvshift/kvshift_lab.h>

static kvs_task_config *task_config(const char *task)
{
    kvs_task_config *config;

    expect_ok(kvs_task_config_create(&config, task, &err));
    return config;
}

static kvs_data *task_data(const char *task)
{
    kvs_task_config *config = task_config(task);
    kvs_data *data;

    expect_ok(kvs_task_create(&data, config, NULL, &err));
    kvs_task_config_free(config);
    return data;
}

/* ---- tasks ---- */

static void test_names(void **state)
{
    size_t count = 0;

    (void)state;
    for (; kvs_task_name(count); count++) {
        kvs_task_config *config = task_config(kvs_task_name(count));
        size_t settings = 0;
        const kvs_setting *setting;

        for (; (setting = kvs_task_setting(kvs_task_name(count), settings)); settings++) {
            char value[256];

            expect_ok(kvs_task_config_get(value, sizeof value, config, setting->name, &err));
            expect_ok(kvs_task_config_set(config, setting->name, value, &err));
        }
        assert_true(settings > 0);
        kvs_task_config_free(config);
    }
    assert_int_equal(count, 4);
    assert_null(kvs_task_name(SIZE_MAX));
    expect_null(kvs_task_setting("induction", SIZE_MAX));
    expect_null(kvs_task_setting("no-such-task", 0));
    expect_null(kvs_task_setting("", 0));
    expect_null(kvs_task_setting(NULL, 0));
}

static void test_config(void **state)
{
    kvs_task_config *config, *copy;
    const char *name = kvs_task_setting("ngram", 0)->name;
    char value[64];

    (void)state;
    expect_needed(out, kvs_task_config_create(NULL, "ngram", &err));
    expect_no_handle(config, KVS_E_INVALID, "task is NULL",
                     kvs_task_config_create(&config, NULL, &err));
    expect_no_handle(config, KVS_E_INVALID, "no-such-task",
                     kvs_task_config_create(&config, "no-such-task", &err));
    expect_no_handle(config, KVS_E_INVALID, "", kvs_task_config_create(&config, "", &err));
    config = task_config("ngram");
    expect_needed(out, kvs_task_config_copy(NULL, config, &err));
    expect_no_handle(copy, KVS_E_INVALID, "config is NULL",
                     kvs_task_config_copy(&copy, NULL, &err));
    expect_ok(kvs_task_config_copy(&copy, config, &err));
    kvs_task_config_free(copy);

    expect_needed(config, kvs_task_config_set(NULL, name, "8", &err));
    expect_needed(name, kvs_task_config_set(config, NULL, "8", &err));
    expect_needed(value, kvs_task_config_set(config, name, NULL, &err));
    expect_invalid("no-such-name", kvs_task_config_set(config, "no-such-name", "8", &err));
    expect_invalid(name, kvs_task_config_set(config, name, "", &err));
    expect_needed(config, kvs_task_config_set_number(NULL, name, 8, &err));
    expect_needed(name, kvs_task_config_set_number(config, NULL, 8, &err));
    expect_invalid(name, kvs_task_config_set_number(config, name, NAN, &err));
    expect_needed(out, kvs_task_config_get(NULL, 8, config, name, &err));
    expect_needed(config, kvs_task_config_get(value, sizeof value, NULL, name, &err));
    expect_needed(name, kvs_task_config_get(value, sizeof value, config, NULL, &err));
    expect_status(KVS_E_LIMIT, "", kvs_task_config_get(value, 0, config, name, &err));
    expect_nan(kvs_task_config_number(NULL, name));
    expect_nan(kvs_task_config_number(config, NULL));
    expect_nan(kvs_task_config_number(config, "no-such-name"));
    kvs_task_config_free(config);
    expect_nothing(kvs_task_config_free(NULL));
}

static void test_create(void **state)
{
    kvs_task_config *config = task_config("induction");
    kvs_data *data;

    (void)state;
    expect_init(kvs_task_options);
    expect_needed(out, kvs_task_create(NULL, config, NULL, &err));
    expect_no_handle(data, KVS_E_INVALID, "config is NULL",
                     kvs_task_create(&data, NULL, NULL, &err));
    expect_sizes(kvs_task_options, offsetof(kvs_task_options, tokenizer), p->vocab = 1000,
                 kvs_task_create(&data, config, o, &err), kvs_data_free(data));
    kvs_task_config_free(config);
}

static void test_words(void **state)
{
    kvs_data *igsm = task_data("igsm"), *ngram = task_data("ngram");
    int32_t *ids = malloc(kvs_data_max_length(igsm) * sizeof *ids);
    kvs_igsm_grade grade;
    char word[32] = "unset";
    size_t count;

    (void)state;
    assert_non_null(ids);
    expect_nothing(kvs_task_word(NULL, 8, igsm, 1));
    expect_nothing(kvs_task_word(word, 0, igsm, 1));
    assert_string_equal(word, "unset");
    expect_nothing(kvs_task_word(word, sizeof word, NULL, 1));
    assert_string_equal(word, "");
    kvs_task_word(word, sizeof word, igsm, 1);
    assert_string_not_equal(word, "");
    kvs_task_word(word, sizeof word, igsm, -1);
    kvs_task_word(word, sizeof word, igsm, INT32_MAX);
    kvs_task_word(word, 2, ngram, 1);

    assert_true(kvs_ngram_ceiling(ngram) > 0);
    expect_nan(kvs_ngram_ceiling(igsm));
    expect_nan(kvs_ngram_ceiling(NULL));

    count = kvs_igsm_problem(ids, igsm, 1, 0);
    assert_true(count > 0 && count <= kvs_data_max_length(igsm));
    expect_zero(kvs_igsm_problem(NULL, igsm, 1, 0));
    expect_zero(kvs_igsm_problem(ids, NULL, 1, 0));
    expect_zero(kvs_igsm_problem(ids, ngram, 1, 0));
    assert_true(kvs_igsm_end(igsm) >= 0);
    expect_none(kvs_igsm_end(NULL));
    expect_none(kvs_igsm_end(ngram));

    expect_needed(out, kvs_igsm_grade_answer(NULL, igsm, 1, 0, ids, count, &err));
    expect_needed(data, kvs_igsm_grade_answer(&grade, NULL, 1, 0, ids, count, &err));
    expect_needed(ids, kvs_igsm_grade_answer(&grade, igsm, 1, 0, NULL, count, &err));
    expect_invalid("", kvs_igsm_grade_answer(&grade, ngram, 1, 0, ids, count, &err));
    expect_ok(kvs_igsm_grade_answer(&grade, igsm, 1, 0, NULL, 0, &err));
    assert_int_equal(grade.solved, 0);
    ids[0] = -1;
    ids[1] = INT32_MAX;
    expect_ok(kvs_igsm_grade_answer(&grade, igsm, 1, 0, ids, 2, &err));
    assert_int_equal(grade.strict, 0);
    free(ids);
    kvs_data_free(igsm);
    kvs_data_free(ngram);
}

/* ---- sizes and plans ---- */

static void test_sizes(void **state)
{
    const kvs_model_config *config = kvs_model_get_config(api_model);
    kvs_model_config *open;
    kvs_model_sizes sizes;
    kvs_model *gated;
    double length;

    (void)state;
    expect_needed(out, kvs_model_config_sizes(NULL, config, &err));
    expect_needed(config, kvs_model_config_sizes(&sizes, NULL, &err));
    expect_ok(kvs_model_config_sizes(&sizes, config, &err));
    assert_int_equal(sizes.parameters, kvs_model_parameters(api_model));
    assert_int_equal(kvs_model_config_heads(config, API_LAYERS - 1), API_HEADS);
    assert_int_equal(kvs_model_config_kv_heads(config, 0), API_HEADS);
    expect_zero(kvs_model_config_heads(NULL, 0));
    expect_zero(kvs_model_config_heads(config, API_LAYERS));
    expect_zero(kvs_model_config_heads(config, SIZE_MAX));
    expect_zero(kvs_model_config_kv_heads(NULL, 0));
    expect_zero(kvs_model_config_kv_heads(config, API_LAYERS));

    expect_needed(length, kvs_model_gate_length(NULL, api_model, 0, KVS_SHIFT_K, 0, &err));
    expect_needed(model, kvs_model_gate_length(&length, NULL, 0, KVS_SHIFT_K, 0, &err));
    expect_status(KVS_E_UNSUPPORTED, "",
                  kvs_model_gate_length(&length, api_model, 0, KVS_SHIFT_K, 0, &err));
    open = api_config();
    expect_ok(kvs_model_config_set(open, "shift-form", "data", &err));
    expect_ok(kvs_model_create(&gated, api_runtime, open, 1, &err));
    expect_invalid("layer",
                   kvs_model_gate_length(&length, gated, API_LAYERS, KVS_SHIFT_K, 0, &err));
    expect_invalid("head", kvs_model_gate_length(&length, gated, 0, KVS_SHIFT_K, 2, &err));
    expect_invalid("", kvs_model_gate_length(&length, gated, 0, 0, 0, &err));
    expect_ok(kvs_model_gate_length(&length, gated, 0, KVS_SHIFT_K, 0, &err));
    kvs_model_free(gated);
    kvs_model_config_free(open);
}

static void test_plans(void **state)
{
    const kvs_model_config *config = kvs_model_get_config(api_model);
    kvs_train_config *train;
    kvs_plan plan;
    kvs_cluster cluster = {.ranks = 2, .flops = 1e12, .link_bytes = 1e9, .memory_bytes = 1e10};
    kvs_cluster_plan result;

    (void)state;
    expect_ok(kvs_train_config_create(&train, NULL, &err));
    expect_needed(out, kvs_train_plan(NULL, api_runtime, config, NULL, train, &err));
    expect_needed(rt, kvs_train_plan(&plan, NULL, config, NULL, train, &err));
    expect_needed(config, kvs_train_plan(&plan, api_runtime, NULL, NULL, train, &err));
    expect_needed(train, kvs_train_plan(&plan, api_runtime, config, NULL, NULL, &err));
    expect_ok(kvs_train_plan(&plan, api_runtime, config, NULL, train, &err));
    assert_int_equal(plan.parameters, kvs_model_parameters(api_model));

    expect_needed(out,
                  kvs_train_plan_cluster(NULL, api_runtime, config, NULL, train, &cluster, &err));
    expect_needed(rt, kvs_train_plan_cluster(&result, NULL, config, NULL, train, &cluster, &err));
    expect_needed(config,
                  kvs_train_plan_cluster(&result, api_runtime, NULL, NULL, train, &cluster, &err));
    expect_needed(train,
                  kvs_train_plan_cluster(&result, api_runtime, config, NULL, NULL, &cluster, &err));
    expect_needed(cluster,
                  kvs_train_plan_cluster(&result, api_runtime, config, NULL, train, NULL, &err));
    expect_ok(kvs_train_plan_cluster(&result, api_runtime, config, NULL, train, &cluster, &err));
    assert_int_equal(result.plan.ranks, 2);
    cluster.ranks = 0;
    expect_invalid(
        "rank", kvs_train_plan_cluster(&result, api_runtime, config, NULL, train, &cluster, &err));
    cluster.ranks = 2;
    cluster.flops = 0;
    expect_invalid(
        "", kvs_train_plan_cluster(&result, api_runtime, config, NULL, train, &cluster, &err));
    kvs_train_config_free(train);
}

/* ---- perplexity ---- */

static void test_perplexity(void **state)
{
    static const int32_t ids[] = {1, 2, 3, 4, 5, 6}, wrong[] = {1, API_VOCAB, 2};
    static const size_t starts[] = {0, 3, 6}, falling[] = {0, 4, 2}, past[] = {0, 3, 7};
    kvs_perplexity_options options = {.window = 4, .stride = 2};
    kvs_perplexity_result result;

    (void)state;
    expect_needed(out, kvs_perplexity(NULL, api_model, ids, 6, &options, &err));
    expect_needed(model, kvs_perplexity(&result, NULL, ids, 6, &options, &err));
    expect_needed(ids, kvs_perplexity(&result, api_model, NULL, 6, &options, &err));
    expect_needed(options, kvs_perplexity(&result, api_model, ids, 6, NULL, &err));
    expect_invalid("", kvs_perplexity(&result, api_model, ids, 0, &options, &err));
    expect_invalid("", kvs_perplexity(&result, api_model, ids, 1, &options, &err));
    expect_invalid("20", kvs_perplexity(&result, api_model, wrong, 3, &options, &err));
    options.window = 1;
    expect_invalid("window", kvs_perplexity(&result, api_model, ids, 6, &options, &err));
    options.window = API_CONTEXT + 1;
    expect_invalid("window", kvs_perplexity(&result, api_model, ids, 6, &options, &err));
    options.window = 4;
    options.stride = 0;
    expect_invalid("stride", kvs_perplexity(&result, api_model, ids, 6, &options, &err));
    options.stride = 5;
    expect_invalid("stride", kvs_perplexity(&result, api_model, ids, 6, &options, &err));
    options.stride = 2;
    options.texts = 2;
    expect_invalid("starts", kvs_perplexity(&result, api_model, ids, 6, &options, &err));
    options.starts = falling;
    expect_invalid("text 1", kvs_perplexity(&result, api_model, ids, 6, &options, &err));
    options.starts = past;
    expect_invalid("text 1", kvs_perplexity(&result, api_model, ids, 6, &options, &err));
    options.starts = starts;
    options.cache = KVS_DTYPE_Q4_0;
    expect_invalid("", kvs_perplexity(&result, api_model, ids, 6, &options, &err));
    options.cache = KVS_DTYPE_F32;
    options.reference = api_model;
    expect_ok(kvs_perplexity(&result, api_model, ids, 6, &options, &err));
    assert_int_equal(result.tokens, 4);
    assert_true(result.same_best == 1);
}

/* ---- reports ---- */

static void write_run(const char *name, const kvs_data *data)
{
    kvs_train_options options;
    kvs_train_config *config;

    expect_ok(kvs_train_config_create(&config, NULL, &err));
    expect_ok(kvs_train_config_set_number(config, "steps", 2, &err));
    expect_ok(kvs_train_config_set_number(config, "warmup", 1, &err));
    expect_ok(kvs_train_config_set_number(config, "batch", 2, &err));
    expect_ok(kvs_train_config_set_number(config, "eval-sequences", 2, &err));
    kvs_train_options_init(&options, sizeof options);
    options.out = api_path(name);
    expect_ok(kvs_train(NULL, api_model, data, config, &options, &err));
    kvs_train_config_free(config);
}

static void test_reports(void **state)
{
    static const size_t starts[] = {0, 4, 8};
    static const int32_t ids[] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const char *const null[] = {NULL}, *const empty[] = {""};
    const char *dirs[1], *missing[1];
    char dir[256], no_dir[256];
    kvs_batch batch;
    kvs_data *data;
    kvs_report *report;
    kvs_report_options options = {.title = NULL};

    (void)state;
    snprintf(dir, sizeof dir, "%s", api_path("reported"));
    snprintf(no_dir, sizeof no_dir, "%s", api_path("no-such-run"));
    dirs[0] = dir;
    missing[0] = no_dir;
    kvs_batch_init(&batch, sizeof batch);
    batch.sequences = 2;
    batch.starts = starts;
    batch.ids = ids;
    expect_ok(kvs_data_create_arrays(&data, &batch, &batch, API_VOCAB, &err));
    write_run("reported", data);
    kvs_data_free(data);

    expect_needed(out, kvs_report_create(NULL, dirs, 1, &err));
    expect_no_handle(report, KVS_E_INVALID, "dirs is NULL",
                     kvs_report_create(&report, NULL, 1, &err));
    expect_no_handle(report, KVS_E_INVALID, "NULL", kvs_report_create(&report, null, 1, &err));
    expect_no_handle(report, KVS_E_INVALID, "", kvs_report_create(&report, dirs, 0, &err));
    assert_int_not_equal(kvs_report_create(&report, empty, 1, &err), KVS_OK);
    assert_null(report);
    expect_no_handle(report, KVS_E_IO, "no-such-run", kvs_report_create(&report, missing, 1, &err));
    expect_ok(kvs_report_create(&report, dirs, 1, &err));
    assert_string_equal(kvs_report_run(report, 0)->name, "reported");
    expect_null(kvs_report_run(report, 1));
    expect_null(kvs_report_run(report, SIZE_MAX));
    expect_null(kvs_report_run(NULL, 0));
    expect_null(kvs_report_arm(report, SIZE_MAX));
    expect_null(kvs_report_arm(NULL, 0));
    expect_null(kvs_report_difference(report, SIZE_MAX));
    expect_null(kvs_report_difference(NULL, 0));
    expect_null(kvs_report_remark(report, SIZE_MAX));
    expect_null(kvs_report_remark(NULL, 0));
    assert_non_null(kvs_report_text(report));
    expect_null(kvs_report_text(NULL));
    expect_needed(report, kvs_report_write(NULL, &options, &err));
    expect_needed(options, kvs_report_write(report, NULL, &err));
    expect_ok(kvs_report_write(report, &options, &err)); /* no file is requested */
    options.json = api_path("no-folder/report.json");
    expect_status(KVS_E_IO, "no-folder", kvs_report_write(report, &options, &err));
    options.json = api_path("report.json");
    expect_ok(kvs_report_write(report, &options, &err));
    kvs_report_free(report);
    expect_nothing(kvs_report_free(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),      cmocka_unit_test(test_config),
        cmocka_unit_test(test_create),     cmocka_unit_test(test_words),
        cmocka_unit_test(test_sizes),      cmocka_unit_test(test_plans),
        cmocka_unit_test(test_perplexity), cmocka_unit_test(test_reports),
    };

    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
