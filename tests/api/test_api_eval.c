/* Evaluations: options, results, and arguments that are refused. */
#include "api.h"

#include <kvshift/kvshift_eval.h>
#include <sys/stat.h>

/* A model whose vocabulary covers bytes, in an exact runtime, and one task with two documents. */
typedef struct fixture {
    kvs_runtime *rt;
    kvs_model *model;
    kvs_tokenizer *tokenizer;
    char data[128];
} fixture;

static fixture f;

static int set_up(void **state)
{
    kvs_runtime_options how;
    kvs_model_config *config;
    char path[200];
    FILE *file;

    if (api_setup(state) != 0)
        return -1;
    config = api_config();
    kvs_runtime_options_init(&how, sizeof how);
    how.threads = 1;
    how.exact = 1;
    expect_ok(kvs_runtime_create(&f.rt, &how, &err));
    expect_ok(kvs_model_config_set_number(config, "vocab", 256, &err));
    expect_ok(kvs_model_config_set_number(config, "context", 128, &err));
    expect_ok(kvs_model_config_finish(config, &err));
    expect_ok(kvs_model_create(&f.model, f.rt, config, 1, &err));
    kvs_model_config_free(config);
    expect_ok(kvs_tokenizer_load(&f.tokenizer, "bytes", &err));
    snprintf(f.data, sizeof f.data, "%s/data", api_dir);
    snprintf(path, sizeof path, "%s/lambada", f.data);
    if (mkdir(f.data, 0777) != 0 || mkdir(path, 0777) != 0)
        return -1;
    snprintf(path, sizeof path, "%s/lambada/test.jsonl", f.data);
    file = fopen(path, "w");
    if (!file)
        return -1;
    fputs("{\"text\": \"one two three\"}\n{\"text\": \"four five six\"}\n", file);
    return fclose(file);
}

static int tear_down(void **state)
{
    kvs_tokenizer_free(f.tokenizer);
    kvs_model_free(f.model);
    kvs_runtime_free(f.rt);
    return api_teardown(state);
}

static kvs_eval_options usual(void)
{
    kvs_eval_options o;

    kvs_eval_options_init(&o, sizeof o);
    o.tasks = "lambada_openai";
    o.data = f.data;
    return o;
}

static void test_options(void **state)
{
    kvs_eval_options o;

    (void)state;
    expect_init(kvs_eval_options);
    expect_nothing(kvs_eval_options_init(NULL, sizeof o));
    kvs_eval_options_init(&o, sizeof o);
    assert_int_equal(o.num_fewshot, -1);
    assert_int_equal(o.bos, KVS_EVAL_BOS_TOKENIZER);
}

static void test_results(void **state)
{
    kvs_eval_options o = usual();
    const kvs_eval_row *row;
    kvs_eval *eval;

    (void)state;
    expect_ok(kvs_eval_run(&eval, f.model, f.tokenizer, &o, &err));
    row = kvs_eval_row_at(eval, 0);
    assert_non_null(row);
    assert_string_equal(row->name, "lambada_openai");
    assert_string_equal(row->metric, "perplexity");
    assert_int_equal(row->documents, 2);
    assert_int_equal(row->official, 5153);
    assert_true(row->value > 1 && row->error >= 0);
    assert_string_equal(kvs_eval_row_at(eval, 1)->metric, "acc");
    expect_null(kvs_eval_row_at(eval, 2));
    expect_null(kvs_eval_row_at(NULL, 0));
    assert_non_null(strstr(kvs_eval_json(eval), "\"perplexity,none\""));
    expect_null(kvs_eval_json(NULL));
    assert_null(kvs_eval_path(eval));
    expect_null(kvs_eval_path(NULL));
    expect_null(kvs_eval_path_at(NULL, 0));
    expect_null(kvs_eval_path_at(eval, 0));
    kvs_eval_free(eval);
    expect_nothing(kvs_eval_free(NULL));
}

static void test_refused(void **state)
{
    kvs_eval_options o = usual();
    kvs_eval *eval;

    (void)state;
    expect_needed(out, kvs_eval_run(NULL, f.model, f.tokenizer, &o, &err));
    expect_no_handle(eval, KVS_E_INVALID, "model is NULL",
                     kvs_eval_run(&eval, NULL, f.tokenizer, &o, &err));
    expect_no_handle(eval, KVS_E_INVALID, "tokenizer is NULL",
                     kvs_eval_run(&eval, f.model, NULL, &o, &err));
    expect_no_handle(eval, KVS_E_INVALID, "options is NULL",
                     kvs_eval_run(&eval, f.model, f.tokenizer, NULL, &err));
    expect_no_handle(eval, KVS_E_INVALID, "not exact",
                     kvs_eval_run(&eval, api_model, f.tokenizer, &o, &err));
    o.tasks = NULL;
    expect_no_handle(eval, KVS_E_INVALID, "tasks is NULL",
                     kvs_eval_run(&eval, f.model, f.tokenizer, &o, &err));
    o = usual();
    o.limit = 1;
    o.documents = 1;
    expect_no_handle(eval, KVS_E_INVALID, "exclude each other",
                     kvs_eval_run(&eval, f.model, f.tokenizer, &o, &err));
    o = usual();
    o.data = NULL;
    expect_no_handle(eval, KVS_E_INVALID, "data is NULL",
                     kvs_eval_run(&eval, f.model, f.tokenizer, &o, &err));
    o = usual();
    o.tasks = "lambada_openia";
    expect_no_handle(eval, KVS_E_INVALID, "lambada_openai",
                     kvs_eval_run(&eval, f.model, f.tokenizer, &o, &err));
    o = usual();
    o.num_fewshot = -2;
    expect_no_handle(eval, KVS_E_INVALID, "num_fewshot is -2",
                     kvs_eval_run(&eval, f.model, f.tokenizer, &o, &err));
    o = usual();
    o.limit = -1;
    expect_no_handle(eval, KVS_E_INVALID, "limit is -1",
                     kvs_eval_run(&eval, f.model, f.tokenizer, &o, &err));
    o = usual();
    o.bos = KVS_EVAL_BOS_ALWAYS;
    expect_no_handle(eval, KVS_E_INVALID, "has no BOS",
                     kvs_eval_run(&eval, f.model, f.tokenizer, &o, &err));
    o = usual();
    o.max_length = 129;
    expect_no_handle(eval, KVS_E_LIMIT, "max_length is 129, the model's context is 128",
                     kvs_eval_run(&eval, f.model, f.tokenizer, &o, &err));
    o = usual();
    o.resume = 1;
    expect_no_handle(eval, KVS_E_INVALID, "resume needs",
                     kvs_eval_run(&eval, f.model, f.tokenizer, &o, &err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_results),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
