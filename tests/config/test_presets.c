/* Presets: every model has training settings, and the paper's models have the paper's values. */
#include "kvshift/kvshift_lab.h"
#include "support.h"

#include <string.h>

static kvs_err err;

static void every_model_can_be_trained(void **state)
{
    const char *name;

    (void)state;
    for (size_t i = 0; (name = kvs_preset_name(i)) != NULL; i++) {
        kvs_model_config model;
        kvs_train_config train;

        assert_int_equal(kvsi_model_config_preset(&model, name, &err), KVS_OK);
        assert_int_equal(kvsi_train_config_preset(&train, name, &err), KVS_OK);
        assert_int_equal(kvs_model_config_finish(&model, &err), KVS_OK);
        assert_int_equal(kvs_train_config_check(&train, &err), KVS_OK);
        assert_true(train.warmup < train.steps);
        /* A micro-batch has some thousand tokens; one sequence of the longest context has more. */
        assert_true(train.batch / train.accumulate == 1 ||
                    train.batch / train.accumulate * model.context <= 4096);
    }
    {
        kvs_train_config train;

        assert_int_equal(kvsi_train_config_preset(&train, "paper-3b", &err), KVS_E_INVALID);
        assert_string_equal(err.message, "unknown preset 'paper-3b'; did you mean 'paper-13b'?");
        assert_int_equal(kvsi_train_config_preset(&train, "list", &err), KVS_E_INVALID);
        for (size_t i = 0; kvs_preset_name(i); i++)
            assert_non_null(strstr(err.message, kvs_preset_name(i)));
    }
}

static void the_papers_are_the_papers(void **state)
{
    static const struct {
        const char *name;
        size_t tokens_per_step;
        double lr, gigatokens;
        uint64_t warmup;
    } paper[] = {{"paper-1.5b", 1048576, 2e-4, 10, 1000},
                 {"paper-2.9b", 16777216, 8e-4, 500, 600},
                 {"paper-6.7b", 1048576, 2e-4, 10, 1000},
                 {"paper-13b", 2097152, 2e-4, 10, 1000},
                 {"paper-19b", 2949120, 2e-4, 200, 3000}};

    (void)state;
    for (size_t i = 0; i < sizeof paper / sizeof *paper; i++) {
        kvs_model_config model;
        kvs_train_config train;
        double tokens;

        assert_int_equal(kvsi_model_config_preset(&model, paper[i].name, &err), KVS_OK);
        assert_int_equal(kvsi_train_config_preset(&train, paper[i].name, &err), KVS_OK);
        assert_int_equal(train.batch * model.context, paper[i].tokens_per_step);
        assert_true(train.lr == paper[i].lr);
        assert_int_equal(train.warmup, paper[i].warmup);
        assert_int_equal(train.schedule, KVSI_SCHEDULE_CONSTANT);
        assert_true(train.beta1 == 0.9 && train.beta2 == 0.95 && train.weight_decay == 0.1);
        assert_true(model.rope_base == 100000);
        /* To the nearest step. */
        tokens = (double)train.steps * (double)paper[i].tokens_per_step;
        assert_true(tokens > paper[i].gigatokens * 1e9 - (double)paper[i].tokens_per_step);
        assert_true(tokens < paper[i].gigatokens * 1e9 + (double)paper[i].tokens_per_step);
    }
}

/* Without a task a plan is for text in full windows. */
static void a_plan_needs_no_task(void **state)
{
    kvs_runtime *rt = NULL;
    kvs_model_config model;
    kvs_train_config train;
    kvs_plan plan;

    (void)state;
    assert_int_equal(kvs_runtime_create(&rt, NULL, &err), KVS_OK);
    assert_int_equal(kvsi_model_config_preset(&model, "paper-2.9b", &err), KVS_OK);
    assert_int_equal(kvsi_train_config_preset(&train, "paper-2.9b", &err), KVS_OK);
    assert_int_equal(kvs_train_plan(&plan, rt, &model, NULL, &train, &err), KVS_OK);
    assert_true(plan.tokens_per_step == 16777216);
    assert_true((double)plan.pass_bytes < 32e9); /* as for one sequence, not for 4096 */
    kvs_runtime_free(rt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_model_can_be_trained),
        cmocka_unit_test(the_papers_are_the_papers),
        cmocka_unit_test(a_plan_needs_no_task),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
