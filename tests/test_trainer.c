/* Training: the same bits on any number of threads, micro-batches that add up, decay where it
 * belongs, no allocation inside a step, weights that survive saving, and the headline itself. */
#include "base/files.h"
#include "base/memory.h"
#include "data/task.h"
#include "formats/hf.h"
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static kvs_task *make_task(kvs_loss_rows loss)
{
    kvs_induction_config config;
    kvs_task *task;

    kvs_induction_config_init(&config);
    config.vocab = 64;
    config.pool = 40;
    config.max_length = 32;
    config.loss = loss;
    assert_int_equal(kvs_induction_create(&task, &config, NULL), KVS_OK);
    return task;
}

static kvs_model *make_model(kvs_runtime *rt, unsigned shift, size_t layers)
{
    kvs_model_config config;
    kvs_model *model;

    kvs_model_config_init(&config);
    config.vocab = 64;
    config.dim = 32;
    config.heads = 4;
    config.kv_heads = 2;
    config.layers = layers;
    config.context = 31;
    config.shift.targets = shift;
    assert_int_equal(kvs_model_create(&model, rt, &config, 7, NULL), KVS_OK);
    return model;
}

static kvs_runtime *make_runtime(int threads)
{
    const kvs_runtime_options options = {.threads = threads};
    kvs_runtime *rt;

    assert_int_equal(kvs_runtime_create(&rt, &options, NULL), KVS_OK);
    return rt;
}

static kvs_train_config small_config(void)
{
    kvs_train_config config;

    kvs_train_config_init(&config);
    config.batch = 24;
    config.steps = 5;
    config.warmup = 2;
    return config;
}

/* All parameters after some steps; the caller frees them. */
static float *train_weights(int threads, const kvs_train_config *config, kvs_loss_rows loss,
                            size_t *count)
{
    kvs_runtime *rt = make_runtime(threads);
    kvs_task *task = make_task(loss);
    kvs_model *model = make_model(rt, KVS_SHIFT_K | KVS_SHIFT_V, 2);
    kvs_trainer *trainer;
    float *weights;

    *count = kvsi_layout_total(&model->layout);
    weights = kvsi_alloc(*count, sizeof *weights);
    assert_int_equal(kvs_trainer_create(&trainer, model, task, config, NULL), KVS_OK);
    for (uint64_t i = 0; i < config->steps; i++)
        assert_int_equal(kvs_trainer_step(trainer, NULL, NULL), KVS_OK);
    memcpy(weights, model->parameters, *count * sizeof *weights);
    kvs_trainer_free(trainer);
    kvs_model_free(model);
    kvs_task_free(task);
    kvs_runtime_free(rt);
    return weights;
}

static void same_bits_on_any_number_of_threads(void **state)
{
    const kvs_train_config config = small_config();
    const int threads[] = {2, 3, 5};
    size_t count;
    float *one = train_weights(1, &config, KVS_LOSS_ALL, &count);

    (void)state;
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
        float *many = train_weights(threads[i], &config, KVS_LOSS_ALL, &count);
        assert_memory_equal(one, many, count * sizeof *one);
        kvsi_free(many);
    }
    kvsi_free(one);
}

static void another_seed_gives_other_weights(void **state)
{
    kvs_train_config config = small_config();
    size_t count;
    float *one = train_weights(2, &config, KVS_LOSS_ANSWER, &count), *other;

    (void)state;
    config.seed = 2;
    other = train_weights(2, &config, KVS_LOSS_ANSWER, &count);
    assert_true(memcmp(one, other, count * sizeof *one) != 0);
    kvsi_free(one);
    kvsi_free(other);
}

/* Micro-batches have different numbers of targets here; their sums must not care. */
static void micro_batches_add_up(void **state)
{
    kvs_train_config config = small_config();
    size_t count;
    float *whole, *parts;

    (void)state;
    config.steps = 1; /* later steps amplify rounding: Adam divides by the gradient's size */
    config.warmup = 0;
    config.eps = 1e-3;
    whole = train_weights(2, &config, KVS_LOSS_ALL, &count);
    config.accumulate = 6;
    parts = train_weights(2, &config, KVS_LOSS_ALL, &count);
    for (size_t i = 0; i < count; i++)
        assert_true(fabsf(whole[i] - parts[i]) < 1e-6f);
    kvsi_free(whole);
    kvsi_free(parts);
}

static void read_shift(float *out, const kvs_train_config *config)
{
    kvs_runtime *rt = make_runtime(1);
    kvs_task *task = make_task(KVS_LOSS_ANSWER);
    kvs_model *model = make_model(rt, KVS_SHIFT_K | KVS_SHIFT_V, 1);
    kvs_trainer *trainer;

    assert_int_equal(kvs_trainer_create(&trainer, model, task, config, NULL), KVS_OK);
    assert_int_equal(kvs_trainer_step(trainer, NULL, NULL), KVS_OK);
    assert_int_equal(kvs_model_read_tensor(model, "model.layers.0.self_attn.k_shift", out, 4, NULL),
                     KVS_OK);
    kvs_trainer_free(trainer);
    kvs_model_free(model);
    kvs_task_free(task);
    kvs_runtime_free(rt);
}

static void shift_is_decayed_only_on_request(void **state)
{
    kvs_train_config config = small_config();
    float without[4], with_decay[4], asked[4];

    (void)state;
    config.weight_decay = 0;
    read_shift(without, &config);
    config.weight_decay = 0.5;
    read_shift(with_decay, &config);
    config.shift_decay = 1;
    read_shift(asked, &config);
    assert_memory_equal(without, with_decay, sizeof without);
    assert_memory_not_equal(without, asked, sizeof without);
}

static void no_allocation_inside_a_step(void **state)
{
    const kvs_train_config config = small_config();
    kvs_runtime *rt = make_runtime(2);
    kvs_task *task = make_task(KVS_LOSS_ALL);
    kvs_model *model = make_model(rt, KVS_SHIFT_K | KVS_SHIFT_V | KVS_SHIFT_Q, 2);
    kvs_trainer *trainer;
    kvs_session *session;
    float logits[64];
    uint64_t before;

    (void)state;
    assert_int_equal(kvs_trainer_create(&trainer, model, task, &config, NULL), KVS_OK);
    assert_int_equal(kvs_session_create(&session, model, 0, NULL), KVS_OK);
    before = kvsi_memory_allocations();
    for (int32_t i = 0; i < 10; i++) {
        assert_int_equal(kvs_trainer_step(trainer, NULL, NULL), KVS_OK);
        assert_int_equal(kvs_session_feed(session, &i, 1, logits, NULL), KVS_OK);
    }
    assert_int_equal(kvsi_memory_allocations(), before);
    kvs_session_free(session);
    kvs_trainer_free(trainer);
    kvs_model_free(model);
    kvs_task_free(task);
    kvs_runtime_free(rt);
}

/* Batches whose draw is too long for the planned memory are cut, and count in full all the same. */
static void unlucky_batches_are_cut(void **state)
{
    kvs_train_config config = small_config();
    kvs_runtime *rt = make_runtime(1);
    kvs_task *task = make_task(KVS_LOSS_ANSWER);
    kvs_model *model = make_model(rt, KVS_SHIFT_K, 1);
    kvs_trainer *trainer;
    kvs_step_record whole, cut;

    (void)state;
    config.lr = 0;
    assert_int_equal(kvs_trainer_create(&trainer, model, task, &config, NULL), KVS_OK);
    assert_int_equal(kvs_trainer_step(trainer, &whole, NULL), KVS_OK);
    kvs_trainer_free(trainer);
    task->mean_tokens = 0.1; /* a plan that only just holds the longest sequence */
    assert_int_equal(kvs_trainer_create(&trainer, model, task, &config, NULL), KVS_OK);
    assert_int_equal(kvs_trainer_step(trainer, &cut, NULL), KVS_OK);
    assert_true(whole.tokens > 2 * task->max_tokens);
    assert_int_equal(whole.tokens, cut.tokens);
    assert_true(fabs(whole.loss - cut.loss) < 1e-6 * whole.loss);
    assert_true(fabs(whole.grad_norm - cut.grad_norm) < 1e-5 * whole.grad_norm);
    kvs_trainer_free(trainer);
    kvs_model_free(model);
    kvs_task_free(task);
    kvs_runtime_free(rt);
}

static void a_step_that_diverges_changes_nothing(void **state)
{
    const kvs_train_config config = small_config();
    kvs_runtime *rt = make_runtime(2);
    kvs_task *task = make_task(KVS_LOSS_ANSWER);
    kvs_model *model = make_model(rt, KVS_SHIFT_V, 1);
    const size_t bytes = kvsi_layout_total(&model->layout) * sizeof(float);
    float gain[32], *before = kvsi_alloc(bytes, 1);
    kvs_trainer *trainer;
    kvs_err err;

    (void)state;
    for (size_t i = 0; i < 32; i++)
        gain[i] = NAN;
    assert_int_equal(kvs_model_write_tensor(model, "model.norm.weight", gain, 32, NULL), KVS_OK);
    assert_int_equal(kvs_trainer_create(&trainer, model, task, &config, NULL), KVS_OK);
    memcpy(before, model->parameters, bytes);
    assert_int_equal(kvs_trainer_step(trainer, NULL, &err), KVS_E_DIVERGED);
    assert_non_null(strstr(err.message, "step 1"));
    assert_memory_equal(before, model->parameters, bytes);
    kvsi_free(before);
    kvs_trainer_free(trainer);
    kvs_model_free(model);
    kvs_task_free(task);
    kvs_runtime_free(rt);
}

static void rates_follow_the_schedule(void **state)
{
    kvs_train_config c;

    (void)state;
    kvs_train_config_init(&c);
    c.lr = 1;
    c.lr_floor = 0.2;
    c.warmup = 10;
    c.steps = 110;
    assert_true(fabs(kvs_learning_rate(&c, 1) - 0.1) < 1e-12);
    assert_true(fabs(kvs_learning_rate(&c, 10) - 1) < 1e-12);
    assert_true(fabs(kvs_learning_rate(&c, 110) - 1) < 1e-12);
    c.schedule = KVS_SCHEDULE_LINEAR;
    assert_true(fabs(kvs_learning_rate(&c, 60) - 0.6) < 1e-12);
    assert_true(fabs(kvs_learning_rate(&c, 110) - 0.2) < 1e-12);
    c.schedule = KVS_SCHEDULE_COSINE;
    assert_true(fabs(kvs_learning_rate(&c, 60) - 0.6) < 1e-12);
    assert_true(fabs(kvs_learning_rate(&c, 35) - (0.2 + 0.8 * (1 + sqrt(0.5)) / 2)) < 1e-12);
    assert_true(fabs(kvs_learning_rate(&c, 110) - 0.2) < 1e-12);
    assert_true(fabs(kvs_learning_rate(&c, 200) - 0.2) < 1e-12);
    c.warmup = 0;
    assert_true(fabs(kvs_learning_rate(&c, 110) - 0.2) < 1e-12);
}

/* ---- whole runs ---- */

static double evaluate(kvs_model *model, const kvs_task *task)
{
    const kvs_train_config config = small_config();
    kvs_trainer *trainer;
    double loss;

    assert_int_equal(kvs_trainer_create(&trainer, model, task, &config, NULL), KVS_OK);
    assert_int_equal(kvs_trainer_evaluate(trainer, 100, &loss, NULL, NULL), KVS_OK);
    kvs_trainer_free(trainer);
    return loss;
}

static void assert_same_config(const kvs_model_config *a, const kvs_model_config *b)
{
    json_t *one = kvsi_hf_config_to_json(a), *other = kvsi_hf_config_to_json(b);

    assert_true(json_equal(one, other));
    json_decref(one);
    json_decref(other);
}

static void saved_models_come_back_the_same(void **state)
{
    const unsigned targets = KVS_SHIFT_K | KVS_SHIFT_V | KVS_SHIFT_Q;
    kvs_runtime *rt = make_runtime(2);
    kvs_task *task = make_task(KVS_LOSS_ANSWER);
    kvs_model *model = make_model(rt, targets, 2), *loaded;
    kvs_train_job job = {.model = model, .task = task, .config = small_config()};
    kvs_train_result result;
    char *dir = support_make_dir(), *run = kvsi_path_join(dir, "a/run");
    kvs_err err;

    (void)state;
    job.eval_sequences = 100;
    job.out = run;
    assert_int_equal(kvs_train(&job, &result, &err), KVS_OK);
    assert_int_equal(kvs_model_load(&loaded, rt, run, &err), KVS_OK);
    assert_memory_equal(model->parameters, loaded->parameters,
                        kvsi_layout_total(&model->layout) * sizeof(float));
    assert_same_config(&model->config, &loaded->config);
    assert_true(evaluate(model, task) == evaluate(loaded, task));
    assert_int_equal(kvs_train(&job, &result, &err), KVS_E_IO); /* never over an earlier run */
    assert_non_null(strstr(err.message, "already holds a run"));
    kvs_model_free(loaded);
    kvs_model_free(model);
    kvs_task_free(task);
    kvs_runtime_free(rt);
    kvsi_free(run);
    support_remove_dir(dir);
}

static double learn(unsigned shift, size_t layers, uint64_t steps)
{
    kvs_runtime *rt = make_runtime(2);
    kvs_task *task = make_task(KVS_LOSS_ANSWER);
    kvs_model *model = make_model(rt, shift, layers);
    kvs_train_job job = {.model = model, .task = task};
    kvs_train_result result;

    kvs_train_config_init(&job.config);
    job.config.steps = steps;
    job.config.batch = 128;
    job.config.lr = 4e-3;
    job.eval_sequences = 1000;
    assert_int_equal(kvs_train(&job, &result, NULL), KVS_OK);
    kvs_model_free(model);
    kvs_task_free(task);
    kvs_runtime_free(rt);
    return result.final_accuracy;
}

static void one_layer_learns_induction_only_with_the_shift(void **state)
{
    const double shifted = learn(KVS_SHIFT_K | KVS_SHIFT_V, 1, 300), plain = learn(0, 1, 300);

    (void)state;
    if (shifted < 0.99 || plain > 0.25)
        fail_msg("accuracy %.3f with the shift, %.3f without", shifted, plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_on_any_number_of_threads),
        cmocka_unit_test(another_seed_gives_other_weights),
        cmocka_unit_test(micro_batches_add_up),
        cmocka_unit_test(shift_is_decayed_only_on_request),
        cmocka_unit_test(no_allocation_inside_a_step),
        cmocka_unit_test(unlucky_batches_are_cut),
        cmocka_unit_test(a_step_that_diverges_changes_nothing),
        cmocka_unit_test(rates_follow_the_schedule),
        cmocka_unit_test(saved_models_come_back_the_same),
        cmocka_unit_test(one_layer_learns_induction_only_with_the_shift),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
