/* Packed copies of the weights: a training has the same bits with and without them, and they follow
 * every change of the weights. */
#include "data/tasks/tasks.h"
#include "kvshift/kvshift.h"
#include "kvshift/kvshift_lab.h"
#include "levels.h"
#include "train/trainer.h"

#include <string.h>

enum { VOCAB = 150, STEPS = 3, VALUES_MAX = 1 << 15 };

typedef struct training {
    const char *name, *level;
    kvs_model_config model;
    kvs_train_config train;
    int threads;
} training;

static kvs_model_config config_of(kvsi_body body, kvsi_head_kind head, int tied, int no_mlp)
{
    kvs_model_config c;

    kvsi_model_config_init(&c);
    kvsi_model_config_set_body(&c, body);
    c.vocab = VOCAB;
    c.dim = 40;
    c.ffn = 70;
    c.layers = 2;
    c.heads = 4;
    c.kv_heads = 2;
    c.context = 64;
    c.shift.targets = KVS_SHIFT_K | KVS_SHIFT_V;
    c.tied = tied;
    c.head = head;
    c.no_mlp = no_mlp;
    return c;
}

static kvs_data *make_task(void)
{
    kvsi_induction_config c;
    kvs_data *task;

    kvsi_induction_config_init(&c);
    c.vocab = VOCAB;
    c.pool = 20;
    c.max_length = 30;
    c.loss = KVSI_LOSS_ALL;
    assert_int_equal(kvsi_induction_create(&task, &c, NULL), KVS_OK);
    return task;
}

static void step(kvs_trainer *trainer)
{
    assert_int_equal(kvsi_trainer_step(trainer, &(kvs_step_record){0}, NULL), KVS_OK);
}

/* Trains, evaluates, changes a matrix, and trains again.  Returns the planned memory of passes. */
static uint64_t run_training(const training *t, kvs_model **model, kvs_runtime *rt,
                             kvs_evaluation *evaluation)
{
    static float values[VALUES_MAX];
    kvs_data *task = make_task();
    kvs_trainer *trainer;
    kvs_plan plan;
    const char *name;
    size_t count;

    assert_int_equal(kvs_model_create(model, rt, &t->model, 1, NULL), KVS_OK);
    assert_int_equal(kvs_train_plan(&plan, rt, &t->model, task, &t->train, NULL), KVS_OK);
    assert_int_equal(kvs_trainer_create(&trainer, *model, task, &t->train, NULL), KVS_OK);
    for (int i = 0; i < STEPS; i++)
        step(trainer);
    *evaluation = (kvs_evaluation){.size = sizeof *evaluation};
    assert_int_equal(kvs_trainer_evaluate(evaluation, trainer, 7, NULL), KVS_OK);
    for (size_t i = 0; (name = kvs_model_tensor_name(*model, i, &count)); i++) {
        assert_true(count <= VALUES_MAX);
        assert_int_equal(kvs_model_read_tensor(values, count, *model, name, NULL), KVS_OK);
        for (size_t k = 0; k < count; k++)
            values[k] *= 0.5f;
        assert_int_equal(kvs_model_write_tensor(*model, name, values, count, NULL), KVS_OK);
    }
    step(trainer);
    kvs_trainer_free(trainer);
    kvs_data_free(task);
    return plan.pass_bytes;
}

static void expect_same_weights(const kvs_model *a, const kvs_model *b, const training *t)
{
    static float left[VALUES_MAX], right[VALUES_MAX];
    const char *name;
    size_t count;

    for (size_t i = 0; (name = kvs_model_tensor_name(a, i, &count)); i++) {
        assert_int_equal(kvs_model_read_tensor(left, count, a, name, NULL), KVS_OK);
        assert_int_equal(kvs_model_read_tensor(right, count, b, name, NULL), KVS_OK);
        if (memcmp(left, right, count * sizeof *left) != 0)
            fail_msg("%s, level %s, %s, %d threads: '%s' differs with packed weights", t->name,
                     t->level, kvsi_precision_name(t->train.precision), t->threads, name);
    }
}

/* `t` without and with packed weights. */
static void compare(training *t)
{
    const kvs_runtime_options options = {
        .size = sizeof options, .threads = t->threads, .cpu_level = t->level};
    kvs_model *plain, *packed;
    kvs_evaluation evaluation[2];
    uint64_t bytes[2];
    kvs_runtime *rt;

    assert_int_equal(kvs_runtime_create(&rt, &options, NULL), KVS_OK);
    t->train.pack_weights = KVSI_PACK_NO;
    bytes[0] = run_training(t, &plain, rt, &evaluation[0]);
    t->train.pack_weights = KVSI_PACK_YES;
    bytes[1] = run_training(t, &packed, rt, &evaluation[1]);
    expect_same_weights(plain, packed, t);
    assert_true(evaluation[0].loss == evaluation[1].loss);
    assert_true(bytes[0] < bytes[1]);
    kvs_model_free(plain);
    kvs_model_free(packed);
    kvs_runtime_free(rt);
}

static void same_bits(void **state)
{
    const struct {
        const char *name;
        kvs_model_config config;
    } models[] = {
        {"llama", config_of(KVSI_BODY_LLAMA, KVSI_HEAD_LINEAR, 0, 0)},
        {"llama, tied", config_of(KVSI_BODY_LLAMA, KVSI_HEAD_LINEAR, 1, 0)},
        {"normalised head", config_of(KVSI_BODY_LLAMA, KVSI_HEAD_NORMALISED, 0, 0)},
        {"no head, no MLP", config_of(KVSI_BODY_LLAMA, KVSI_HEAD_NONE, 0, 1)},
        {"gpt2", config_of(KVSI_BODY_GPT2, KVSI_HEAD_LINEAR, 1, 0)},
    };
    const kvsi_ops *levels[LEVELS_MAX];
    const size_t count = levels_fast(levels);

    (void)state;
    for (size_t i = 0; i < count * 2 * (sizeof models / sizeof *models); i++) {
        training t = {.name = models[i / 2 / count].name,
                      .level = levels[i / 2 % count]->name,
                      .model = models[i / 2 / count].config,
                      .threads = (int)(i % 3) + 1};

        kvsi_train_config_init(&t.train);
        t.train.batch = 6;
        t.train.accumulate = i % 4 < 2 ? 3 : 1;
        t.train.recompute = i % 5 == 0;
        t.train.precision = i % 2 == 0 ? KVSI_PRECISION_F32 : KVSI_PRECISION_BF16;
        if (t.model.head == KVSI_HEAD_NONE)
            t.model.dim = VOCAB + 2;
        compare(&t);
    }
}

/* What `auto` does: packs if there are several passes, without recomputation. */
static void automatic(void **state)
{
    static const struct {
        size_t accumulate;
        int recompute, deterministic, packs;
        kvsi_shard_stage shard;
    } cases[] = {
        {1, 0, 0, 0, KVSI_SHARD_NONE},      {2, 0, 0, 1, KVSI_SHARD_NONE},
        {2, 1, 0, 0, KVSI_SHARD_NONE},      {1, 0, 1, 1, KVSI_SHARD_NONE},
        {2, 0, 0, 1, KVSI_SHARD_GRADIENTS}, {2, 0, 0, 0, KVSI_SHARD_PARAMETERS},
    };
    const kvs_model_config model = config_of(KVSI_BODY_LLAMA, KVSI_HEAD_LINEAR, 0, 0);
    kvs_data *task = make_task();
    kvs_runtime *rt;

    (void)state;
    assert_int_equal(kvs_runtime_create(&rt, NULL, NULL), KVS_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t bytes[3];
        kvs_train_config train;
        kvs_plan plan;

        kvsi_train_config_init(&train);
        train.batch = 8;
        train.accumulate = cases[i].accumulate;
        train.recompute = cases[i].recompute;
        train.deterministic = cases[i].deterministic;
        train.shard = cases[i].shard;
        for (int how = KVSI_PACK_AUTO; how <= KVSI_PACK_NO; how++) {
            kvs_err err = {0};

            train.pack_weights = (kvsi_pack_weights)how;
            if (how == KVSI_PACK_YES && train.shard == KVSI_SHARD_PARAMETERS) {
                assert_int_equal(kvs_train_plan(&plan, rt, &model, task, &train, &err),
                                 KVS_E_INVALID);
                assert_string_equal(err.message, "pack-weights is 'yes', expected 'auto' or 'no' "
                                                 "with shard 'parameters'");
                continue;
            }
            assert_int_equal(kvs_train_plan(&plan, rt, &model, task, &train, NULL), KVS_OK);
            bytes[how] = plan.pass_bytes;
        }
        if (cases[i].packs)
            assert_int_equal(bytes[KVSI_PACK_AUTO], bytes[KVSI_PACK_YES]);
        else
            assert_int_equal(bytes[KVSI_PACK_AUTO], bytes[KVSI_PACK_NO]);
    }
    kvs_data_free(task);
    kvs_runtime_free(rt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits),
        cmocka_unit_test(automatic),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
