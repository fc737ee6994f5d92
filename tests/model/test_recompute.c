/* Recomputing layers in the backward pass: the same bits with less memory, in both precisions. */
#include "data/tasks/tasks.h"
#include "kvshift/kvshift.h"
#include "kvshift/kvshift_lab.h"
#include "support.h"
#include "train/trainer.h"

#include <string.h>

enum { LAYERS = 3, STEPS = 3 };

static kvs_model_config config_of(kvsi_body body, kvsi_shift_form form, int no_mlp)
{
    kvs_model_config c;

    kvsi_model_config_init(&c);
    kvsi_model_config_set_body(&c, body);
    c.vocab = 40;
    c.dim = 24;
    c.layers = LAYERS;
    c.heads = 4;
    c.kv_heads = 2;
    c.context = 64;
    c.shift.targets = KVS_SHIFT_K | KVS_SHIFT_V;
    c.shift.form = form;
    c.no_mlp = no_mlp;
    c.dropout_attention = c.dropout_residual = body == KVSI_BODY_GPT2 ? 0.2 : 0;
    return c;
}

static kvs_model_config with_embedding_norm(kvs_model_config c)
{
    c.embedding_norm = 1;
    return c;
}

static kvs_model_config with_caps(kvs_model_config c)
{
    c.qk_norm = KVSI_QK_NORM_FULL;
    c.score_cap = 0.5;
    c.logit_cap = 2;
    return c;
}

static kvs_data *make_task(void)
{
    kvsi_induction_config c;
    kvs_data *task;

    kvsi_induction_config_init(&c);
    c.vocab = 40;
    c.pool = 20;
    c.max_length = 30;
    c.loss = KVSI_LOSS_ALL;
    assert_int_equal(kvsi_induction_create(&task, &c, NULL), KVS_OK);
    return task;
}

static kvs_model *trained(kvs_runtime *rt, const kvs_model_config *config, const kvs_data *task,
                          kvsi_precision precision, int recompute, uint64_t *planned)
{
    kvs_train_config train;
    kvs_trainer *trainer;
    kvs_model *model;
    kvs_plan plan;

    kvsi_train_config_init(&train);
    train.batch = 6;
    train.recompute = recompute;
    train.precision = precision;
    assert_int_equal(kvs_model_create(&model, rt, config, 1, NULL), KVS_OK);
    assert_int_equal(kvs_train_plan(&plan, rt, kvs_model_get_config(model), task, &train, NULL),
                     KVS_OK);
    assert_int_equal(kvs_trainer_create(&trainer, model, task, &train, NULL), KVS_OK);
    for (int i = 0; i < STEPS; i++)
        assert_int_equal(kvsi_trainer_step(trainer, &(kvs_step_record){0}, NULL), KVS_OK);
    kvs_trainer_free(trainer);
    *planned = plan.pass_bytes;
    return model;
}

static void assert_same_weights(const kvs_model *a, const kvs_model *b)
{
    static float left[1 << 14], right[1 << 14];
    const char *name;
    size_t count;

    for (size_t i = 0; (name = kvs_model_tensor_name(a, i, &count)); i++) {
        assert_true(count <= sizeof left / sizeof *left);
        assert_int_equal(kvs_model_read_tensor(left, count, a, name, NULL), KVS_OK);
        assert_int_equal(kvs_model_read_tensor(right, count, b, name, NULL), KVS_OK);
        assert_memory_equal(left, right, count * sizeof *left);
    }
}

static kvs_model_config with_filters(kvs_model_config config)
{
    config.filters = KVSI_FILTER_ATTENTION | KVSI_FILTER_MLP;
    config.mlp_factor = 1;
    config.positions = KVSI_POSITIONS_RELATIVE;
    config.score_growth = 0.2;
    return config;
}

static void same_bits_from_less_memory(void **state)
{
    const kvs_model_config configs[] = {
        config_of(KVSI_BODY_LLAMA, KVSI_SHIFT_FREE, 0),
        config_of(KVSI_BODY_LLAMA, KVSI_SHIFT_DATA, 0),
        config_of(KVSI_BODY_LLAMA, KVSI_SHIFT_FREE, 1),
        config_of(KVSI_BODY_GPT2, KVSI_SHIFT_FREE, 0),
        with_embedding_norm(config_of(KVSI_BODY_LLAMA, KVSI_SHIFT_FREE, 0)),
        with_caps(config_of(KVSI_BODY_LLAMA, KVSI_SHIFT_FREE, 0)),
        with_filters(config_of(KVSI_BODY_LLAMA, KVSI_SHIFT_RESIDUAL, 0)),
    };
    kvs_runtime *rt;
    kvs_data *task = make_task();

    (void)state;
    assert_int_equal(kvs_runtime_create(&rt, NULL, NULL), KVS_OK);
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        uint64_t bytes[2][2]; /* by precision, then kept and again */

        for (int bf16 = 0; bf16 < 2; bf16++) {
            const kvsi_precision precision = bf16 ? KVSI_PRECISION_BF16 : KVSI_PRECISION_F32;
            kvs_model *kept = trained(rt, &configs[i], task, precision, 0, &bytes[bf16][0]);
            kvs_model *again = trained(rt, &configs[i], task, precision, 1, &bytes[bf16][1]);

            assert_same_weights(kept, again);
            assert_true(bytes[bf16][1] < bytes[bf16][0]);
            kvs_model_free(kept);
            kvs_model_free(again);
        }
        assert_true(bytes[1][0] < bytes[0][0]);
    }
    kvs_data_free(task);
    kvs_runtime_free(rt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_bits_from_less_memory)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
