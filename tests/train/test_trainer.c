/* Training: the same bits for any number of threads, sums over micro-batches, decay and dropout,
 * training only the shift, accuracy by length, no allocation during a step, saving and loading, and
 * the main result: one layer learns induction with the shift and not without. */
#include "base/files.h"
#include "base/memory.h"
#include "data/data.h"
#include "data/tasks/tasks.h"
#include "formats/hf.h"
#include "support.h"
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static kvs_data *make_task(kvsi_loss_rows loss)
{
    kvsi_induction_config config;
    kvs_data *task;

    kvsi_induction_config_init(&config);
    config.vocab = 64;
    config.pool = 40;
    config.max_length = 32;
    config.loss = loss;
    assert_int_equal(kvsi_induction_create(&task, &config, NULL), KVS_OK);
    return task;
}

static kvs_model *make_model(kvs_runtime *rt, unsigned shift, size_t layers)
{
    kvs_model_config config;
    kvs_model *model;

    kvsi_model_config_init(&config);
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
    const kvs_runtime_options options = {.size = sizeof(kvs_runtime_options), .threads = threads};
    kvs_runtime *rt;

    assert_int_equal(kvs_runtime_create(&rt, &options, NULL), KVS_OK);
    return rt;
}

static kvs_train_config small_config(void)
{
    kvs_train_config config;

    kvsi_train_config_init(&config);
    config.batch = 24;
    config.steps = 5;
    config.warmup = 2;
    return config;
}

/* All parameters after some steps; the caller frees them. */
static float *train_weights(int threads, const kvs_train_config *config, kvsi_loss_rows loss,
                            size_t *count)
{
    kvs_runtime *rt = make_runtime(threads);
    kvs_data *task = make_task(loss);
    kvs_model *model = make_model(rt, KVS_SHIFT_K | KVS_SHIFT_V, 2);
    kvs_trainer *trainer;
    float *weights;

    *count = kvsi_layout_total(&model->layout);
    weights = kvsi_alloc(*count, sizeof *weights);
    assert_int_equal(kvs_trainer_create(&trainer, model, task, config, NULL), KVS_OK);
    for (uint64_t i = 0; i < config->steps; i++)
        assert_int_equal(kvsi_trainer_step(trainer, NULL, NULL), KVS_OK);
    memcpy(weights, model->parameters, *count * sizeof *weights);
    kvs_trainer_free(trainer);
    kvs_model_free(model);
    kvs_data_free(task);
    kvs_runtime_free(rt);
    return weights;
}

static void expect_same_bits(const kvs_train_config *config)
{
    const int threads[] = {2, 3, 5};
    size_t count;
    float *one = train_weights(1, config, KVSI_LOSS_ALL, &count);

    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
        float *many = train_weights(threads[i], config, KVSI_LOSS_ALL, &count);
        assert_memory_equal(one, many, count * sizeof *one);
        kvsi_free(many);
    }
    kvsi_free(one);
}

static void same_bits_on_any_number_of_threads(void **state)
{
    kvs_train_config config = small_config();

    (void)state;
    expect_same_bits(&config);
    config.precision = KVSI_PRECISION_BF16;
    expect_same_bits(&config);
}

static void the_precision_changes_the_weights(void **state)
{
    kvs_train_config config = small_config();
    size_t count;
    float *one = train_weights(2, &config, KVSI_LOSS_ANSWER, &count), *other;

    (void)state;
    config.precision = KVSI_PRECISION_BF16;
    other = train_weights(2, &config, KVSI_LOSS_ANSWER, &count);
    assert_true(memcmp(one, other, count * sizeof *one) != 0);
    kvsi_free(one);
    kvsi_free(other);
}

static void another_seed_gives_other_weights(void **state)
{
    kvs_train_config config = small_config();
    size_t count;
    float *one = train_weights(2, &config, KVSI_LOSS_ANSWER, &count), *other;

    (void)state;
    config.seed = 2;
    other = train_weights(2, &config, KVSI_LOSS_ANSWER, &count);
    assert_true(memcmp(one, other, count * sizeof *one) != 0);
    kvsi_free(one);
    kvsi_free(other);
}

/* Micro-batches have different numbers of targets here. */
static void micro_batches_add_up(void **state)
{
    kvs_train_config config = small_config();
    size_t count;
    float *whole, *parts;

    (void)state;
    config.steps = 1; /* later steps amplify rounding: Adam divides by the gradient's size */
    config.warmup = 0;
    config.eps = 1e-3;
    whole = train_weights(2, &config, KVSI_LOSS_ALL, &count);
    config.accumulate = 6;
    parts = train_weights(2, &config, KVSI_LOSS_ALL, &count);
    for (size_t i = 0; i < count; i++)
        assert_true(fabsf(whole[i] - parts[i]) < 1e-6f);
    kvsi_free(whole);
    kvsi_free(parts);
}

/* One tensor after one step. */
static void step_tensor(float *out, size_t count, const char *name, const kvs_train_config *config)
{
    kvs_runtime *rt = make_runtime(1);
    kvs_data *task = make_task(KVSI_LOSS_ANSWER);
    kvs_model *model = make_model(rt, KVS_SHIFT_K | KVS_SHIFT_V, 1);
    kvs_trainer *trainer;

    assert_int_equal(kvs_trainer_create(&trainer, model, task, config, NULL), KVS_OK);
    assert_int_equal(kvsi_trainer_step(trainer, NULL, NULL), KVS_OK);
    assert_int_equal(kvs_model_read_tensor(out, count, model, name, NULL), KVS_OK);
    kvs_trainer_free(trainer);
    kvs_model_free(model);
    kvs_data_free(task);
    kvs_runtime_free(rt);
}

/* Whether weight decay reaches a tensor: the gradient of the first step does not depend on it. */
static int decays(const char *name, size_t count, double shift_decay, int decay_all)
{
    kvs_train_config config = small_config();
    float without[32], found[32];

    config.weight_decay = 0;
    step_tensor(without, count, name, &config);
    config.weight_decay = 0.5;
    config.shift_decay = shift_decay;
    config.decay_all = decay_all;
    step_tensor(found, count, name, &config);
    for (size_t i = 0; i < count; i++) /* every value of the tensor changes, or none does */
        assert_int_equal(found[i] != without[i], found[0] != without[0]);
    return found[0] != without[0];
}

static void decay_reaches_what_it_should(void **state)
{
    const char *shift = "model.layers.0.self_attn.k_shift", *gain = "model.norm.weight";

    (void)state;
    assert_false(decays(shift, 4, 0, 0));
    assert_true(decays(shift, 4, 0.1, 0));
    assert_true(decays(shift, 4, 0, 1));
    assert_false(decays(gain, 32, 0, 0));
    assert_false(decays(gain, 32, 0.1, 0));
    assert_true(decays(gain, 32, 0, 1));
}

/* Except for eps, the first step of AdamW changes a parameter p by lr * (sign(gradient) + decay *
 * p). So the effect of the shift's own learning rate and decay follows from two values. */
static void the_shift_has_its_own_rate_and_decay(void **state)
{
    enum { COUNT = 4, GAINS = 32 };
    const char *shift = "model.layers.0.self_attn.k_shift", *gain = "model.norm.weight";
    kvs_train_config config = small_config();
    float start[COUNT], same[COUNT], own[COUNT], decayed[COUNT], gains[GAINS], gains_own[GAINS];

    (void)state;
    config.warmup = 0;
    config.lr = 0;
    step_tensor(start, COUNT, shift, &config);
    config.lr = 1e-3;
    step_tensor(same, COUNT, shift, &config);
    step_tensor(gains, GAINS, gain, &config);
    config.shift_lr = 5e-3;
    step_tensor(own, COUNT, shift, &config);
    step_tensor(gains_own, GAINS, gain, &config);
    config.shift_decay = 2;
    step_tensor(decayed, COUNT, shift, &config);
    assert_memory_equal(gains, gains_own, sizeof gains);
    for (size_t i = 0; i < COUNT; i++) {
        /* Numbers near 1, steps near 1e-3, in float: 2e-7 is two units in the last place. */
        assert_true(fabsf(same[i] - start[i]) > 9e-4f);
        assert_true(fabsf((own[i] - start[i]) - 5 * (same[i] - start[i])) < 1e-6f);
        assert_true(fabsf((decayed[i] - own[i]) + 5e-3f * 2 * start[i]) < 2e-7f);
    }
}

/* ---- the shift alone ---- */

/* The norm of the mean gradient, on the first batch, of the parameters from a group on. */
static double norm_from(kvsi_group group, const kvs_model *model, const kvs_data *task,
                        size_t batch, uint64_t seed)
{
    kvsi_batch_buffer buffer;
    support_result result;
    double sum = 0;

    assert_int_equal(kvsi_batch_buffer_init(&buffer, task, batch, NULL), KVS_OK);
    assert_int_equal(kvsi_batch_fill(&buffer, task, seed, KVSI_RANDOM_DATA, 0, batch, NULL),
                     KVS_OK);
    result = support_train(model, &buffer.view, NULL);
    for (size_t i = model->layout.group_start[group]; i < kvsi_layout_total(&model->layout); i++)
        sum += (double)result.gradients[i] * (double)result.gradients[i];
    support_result_release(&result);
    kvsi_batch_buffer_release(&buffer);
    return sqrt(sum) / (double)batch; /* one target per sequence */
}

static void check_no_gradient(kvs_trainer *trainer, const char *frozen)
{
    static const size_t starts[] = {0, 3};
    static const int32_t ids[] = {1, 2, 3}, targets[] = {-1, -1, 4};
    const kvs_batch batch = {
        .size = sizeof batch, .sequences = 1, .starts = starts, .ids = ids, .targets = targets};
    const kvsi_layout *layout = &kvsi_trainer_state(trainer).model->layout;
    float gradient[1];
    double loss;
    kvs_err err;

    assert_int_equal(kvs_trainer_gradients(&loss, trainer, &batch, NULL), KVS_OK);
    assert_int_equal(kvs_trainer_read_gradient(gradient, kvsi_layout_find(layout, frozen)->count,
                                               trainer, frozen, &err),
                     KVS_E_INVALID);
    assert_non_null(strstr(err.message, "has no gradient: only the"));
}

/* Two steps change all parameters from a group on and no others, with the gradients that they have
 * when all are trained.  `frozen` is the name of a tensor that has no gradient. */
static void check_trained_from(kvsi_group group, const kvs_model *model,
                               const kvs_train_config *given, const char *frozen)
{
    kvs_train_config config = *given;
    kvs_data *task = make_task(KVSI_LOSS_ANSWER);
    const double norm = norm_from(group, model, task, config.batch, config.seed);
    const size_t total = kvsi_layout_total(&model->layout);
    const size_t first = model->layout.group_start[group];
    float *before = kvsi_alloc(total, sizeof *before);
    kvs_trainer *trainer;
    kvs_step_record record;

    config.decay_all = 1;
    memcpy(before, model->parameters, total * sizeof *before);
    assert_int_equal(kvs_trainer_create(&trainer, (kvs_model *)model, task, &config, NULL), KVS_OK);
    assert_int_equal(kvsi_trainer_step(trainer, &record, NULL), KVS_OK);
    if (!(fabs(record.grad_norm - norm) < 1e-5 * norm))
        fail_msg("the norm is %.9g, expected %.9g", record.grad_norm, norm);
    assert_int_equal(kvsi_trainer_step(trainer, NULL, NULL), KVS_OK);
    assert_memory_equal(before, model->parameters, first * sizeof *before);
    for (size_t i = first; i < total; i++)
        assert_true(model->parameters[i] != before[i]);
    check_no_gradient(trainer, frozen);
    kvs_trainer_free(trainer);
    kvsi_free(before);
    kvs_data_free(task);
}

static void the_shift_can_be_trained_alone(void **state)
{
    kvs_train_config config = small_config();
    kvs_runtime *rt = make_runtime(2);
    kvs_model *model = make_model(rt, KVS_SHIFT_K | KVS_SHIFT_V, 2);

    (void)state;
    config.only_shift = 1;
    check_trained_from(KVSI_SHIFTS, model, &config, "model.layers.0.mlp.up_proj.weight");
    kvs_model_free(model);
    kvs_runtime_free(rt);
}

/* ---- rates by name ---- */

static int is_changed(const kvs_model *model, const float *before, const char *name)
{
    const kvsi_parameter *p = kvsi_layout_find(&model->layout, name);

    assert_non_null(p);
    return memcmp(before + p->offset, model->parameters + p->offset, p->count * sizeof *before) !=
           0;
}

/* The change of the first value of a tensor by one step with these rates. */
static double first_change(const char *rates, const char *name)
{
    kvs_train_config config = small_config();
    kvs_runtime *rt = make_runtime(2);
    kvs_model *model = make_model(rt, KVS_SHIFT_K | KVS_SHIFT_V, 2);
    kvs_data *task = make_task(KVSI_LOSS_ANSWER);
    const kvsi_parameter *p = kvsi_layout_find(&model->layout, name);
    const float before = model->parameters[p->offset];
    kvs_trainer *trainer;
    double change;

    config.clip = 0; /* frozen tensors are not part of the norm */
    assert_int_equal(kvs_train_config_set(&config, "rates", rates, NULL), KVS_OK);
    assert_int_equal(kvs_trainer_create(&trainer, model, task, &config, NULL), KVS_OK);
    assert_int_equal(kvsi_trainer_step(trainer, NULL, NULL), KVS_OK);
    change = (double)model->parameters[p->offset] - (double)before;
    kvs_trainer_free(trainer);
    kvs_data_free(task);
    kvs_model_free(model);
    kvs_runtime_free(rt);
    return change;
}

static void rates_freeze_tensors_by_name(void **state)
{
    static const char rates[] = "embed_tokens=0,layers.0.*=0";
    kvs_train_config config = small_config();
    kvs_runtime *rt = make_runtime(2);
    kvs_model *model = make_model(rt, KVS_SHIFT_K | KVS_SHIFT_V, 2);
    kvs_data *task = make_task(KVSI_LOSS_ANSWER);
    const size_t total = kvsi_layout_total(&model->layout);
    float *before = kvsi_alloc(total, sizeof *before);
    kvs_trainer *trainer;
    kvs_step_record all, some;

    (void)state;
    memcpy(before, model->parameters, total * sizeof *before);
    assert_int_equal(kvs_trainer_create(&trainer, model, task, &config, NULL), KVS_OK);
    assert_int_equal(kvsi_trainer_step(trainer, &all, NULL), KVS_OK);
    kvs_trainer_free(trainer);
    memcpy(model->parameters, before, total * sizeof *before);
    assert_int_equal(kvs_train_config_set(&config, "rates", rates, NULL), KVS_OK);
    assert_int_equal(kvs_trainer_create(&trainer, model, task, &config, NULL), KVS_OK);
    assert_int_equal(kvsi_trainer_step(trainer, &some, NULL), KVS_OK);
    assert_true(some.grad_norm < all.grad_norm);
    assert_false(is_changed(model, before, "model.embed_tokens.weight"));
    assert_false(is_changed(model, before, "model.layers.0.self_attn.q_proj.weight"));
    assert_false(is_changed(model, before, "model.layers.0.self_attn.k_shift"));
    assert_true(is_changed(model, before, "model.layers.1.self_attn.q_proj.weight"));
    assert_true(is_changed(model, before, "model.layers.1.self_attn.k_shift"));
    kvs_trainer_free(trainer);
    kvsi_free(before);
    kvs_data_free(task);
    kvs_model_free(model);
    kvs_runtime_free(rt);
}

static void rates_scale_the_learning_rate(void **state)
{
    static const char name[] = "model.layers.1.mlp.up_proj.weight";
    const double whole = first_change("lm_head=0.5", name);
    const double tenth = first_change("up_proj=0.1,*=1", name);

    (void)state;
    assert_true(whole != 0);
    assert_true(fabs(tenth / whole - 0.1) < 0.01);
    assert_true(first_change("lm_head=0.5,up_proj=0", name) == 0);
}

static void bad_rates_are_refused(void **state)
{
    static const struct {
        const char *rates, *message;
    } cases[] = {
        {"embed_tokens", "expected NAME=FACTOR"},
        {"embed_tokens=", "expected NAME=FACTOR"},
        {"embed_tokens=-1", "expected NAME=FACTOR"},
        {"embed_tokens=fast", "found 'embed_tokens=fast'"},
        {"lm_head=1,,", "expected NAME=FACTOR"},
        {"nothing=0", "no tensor is named 'nothing'"},
        {"*=0", "every tensor is frozen"},
    };
    kvs_runtime *rt = make_runtime(1);
    kvs_model *model = make_model(rt, KVS_SHIFT_K, 1);
    kvs_data *task = make_task(KVSI_LOSS_ANSWER);

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kvs_train_config config = small_config();
        kvs_trainer *trainer;
        kvs_err err;

        assert_int_equal(kvs_train_config_set(&config, "rates", cases[i].rates, NULL), KVS_OK);
        assert_int_equal(kvs_trainer_create(&trainer, model, task, &config, &err), KVS_E_INVALID);
        if (!strstr(err.message, cases[i].message))
            fail_msg("'%s': %s", cases[i].rates, err.message);
    }
    kvs_data_free(task);
    kvs_model_free(model);
    kvs_runtime_free(rt);
}

/* Values of B that are not 0, so that all adapters have gradients. */
static kvs_model *make_adapted(kvs_runtime *rt, const char *on)
{
    const kvs_adapter_options options = {.size = sizeof options, .rank = 3, .alpha = 4, .on = on};
    kvs_model *plain = make_model(rt, KVS_SHIFT_K | KVS_SHIFT_V, 2), *model;

    assert_int_equal(kvs_model_adapt(&model, rt, plain, &options, NULL), KVS_OK);
    support_fill(model->parameters + model->layout.group_start[KVSI_ADAPTERS],
                 model->layout.group_start[KVSI_SHIFTS] - model->layout.group_start[KVSI_ADAPTERS],
                 3, 0.1);
    kvs_model_free(plain);
    return model;
}

static void adapters_are_trained_with_the_shift(void **state)
{
    static const char *const names[] = {NULL, "v_proj,down_proj", "layers.1.self_attn.*"};
    kvs_runtime *rt = make_runtime(2);

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (size_t j = 0; j < 2; j++) {
            kvs_train_config config = small_config();
            kvs_model *model = make_adapted(rt, names[i]);

            config.recompute = j == 1;
            config.accumulate = 1 + j;
            check_trained_from(KVSI_ADAPTERS, model, &config, "model.norm.weight");
            kvs_model_free(model);
        }
    kvs_runtime_free(rt);
}

/* Frozen matrices have neither gradients nor moments. */
static void frozen_matrices_take_no_memory(void **state)
{
    kvs_runtime *rt = make_runtime(1);
    kvs_model *model = make_adapted(rt, "q_proj");
    kvs_data *task = make_task(KVSI_LOSS_ANSWER);
    const kvs_train_config config = small_config();
    const size_t trained =
        kvsi_layout_total(&model->layout) - model->layout.group_start[KVSI_GAINS];
    kvs_trainer *trainer;
    kvs_plan plan;
    size_t live;

    (void)state;
    assert_int_equal(kvs_train_plan(&plan, rt, &model->config, task, &config, NULL), KVS_OK);
    assert_int_equal(plan.gradient_bytes, trained * sizeof(real));
    assert_int_equal(plan.moment_bytes, 2 * trained * sizeof(real));
    live = kvsi_memory_live();
    assert_int_equal(kvs_trainer_create(&trainer, model, task, &config, NULL), KVS_OK);
    assert_in_range(kvsi_memory_live() - live, plan.total_bytes - plan.weight_bytes,
                    plan.total_bytes - plan.weight_bytes + (1 << 16));
    kvs_trainer_free(trainer);
    kvs_data_free(task);
    kvs_model_free(model);
    kvs_runtime_free(rt);
}

/* A run that goes on from a checkpoint has the bits of one that was never stopped. */
static void adapters_resume_with_the_same_bits(void **state)
{
    kvs_runtime *rt = make_runtime(2);
    kvs_data *task = make_task(KVSI_LOSS_ANSWER);
    const kvs_train_config config = small_config();
    kvs_model *whole = make_adapted(rt, NULL), *half = make_adapted(rt, NULL);
    char *dir = support_make_dir();
    kvs_trainer *trainer;
    uint64_t step;

    (void)state;
    assert_int_equal(kvs_trainer_create(&trainer, whole, task, &config, NULL), KVS_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(kvsi_trainer_step(trainer, NULL, NULL), KVS_OK);
    assert_int_equal(kvs_trainer_save(trainer, dir, 1, NULL), KVS_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(kvsi_trainer_step(trainer, NULL, NULL), KVS_OK);
    kvs_trainer_free(trainer);
    assert_int_equal(kvs_trainer_create(&trainer, half, task, &config, NULL), KVS_OK);
    assert_int_equal(kvs_trainer_load(&step, trainer, dir, NULL), KVS_OK);
    assert_int_equal(step, 2);
    for (int i = 0; i < 3; i++)
        assert_int_equal(kvsi_trainer_step(trainer, NULL, NULL), KVS_OK);
    kvs_trainer_free(trainer);
    assert_memory_equal(half->parameters, whole->parameters,
                        kvsi_layout_total(&whole->layout) * sizeof *whole->parameters);
    support_remove_dir(dir);
    kvs_model_free(half);
    kvs_model_free(whole);
    kvs_data_free(task);
    kvs_runtime_free(rt);
}

static void refuse_to_train_the_shift(kvs_runtime *rt, const kvs_model_config *mc, const char *says)
{
    kvs_train_config config = small_config();
    kvs_data *task = make_task(KVSI_LOSS_ANSWER);
    kvs_trainer *trainer;
    kvs_model *model;
    size_t live;
    kvs_err err;

    assert_int_equal(kvs_model_create(&model, rt, mc, 7, NULL), KVS_OK);
    live = kvsi_memory_live();
    config.only_shift = 1;
    assert_int_equal(kvs_trainer_create(&trainer, model, task, &config, &err), KVS_E_INVALID);
    assert_null(trainer);
    if (!strstr(err.message, says))
        fail_msg("'%s' does not contain '%s'", err.message, says);
    assert_int_equal(kvsi_memory_live(), live);
    kvs_model_free(model);
    kvs_data_free(task);
}

/* only_shift is refused for a model without a shift, and for a shift without parameters. */
static void a_shift_without_numbers_cannot_be_trained(void **state)
{
    kvs_runtime *rt = make_runtime(1);
    kvs_model_config config;

    (void)state;
    kvsi_model_config_init(&config);
    config.vocab = 64;
    config.dim = 32;
    refuse_to_train_the_shift(rt, &config, "shift 'none'");
    config.shift.targets = KVS_SHIFT_K | KVS_SHIFT_V;
    config.shift.form = KVSI_SHIFT_HARD;
    config.rotary_fraction = 0.5;
    refuse_to_train_the_shift(rt, &config, "form 'hard'");
    kvs_runtime_free(rt);
}

/* ---- dropout ---- */

enum { DROP_PAIRS = 20 };

/* All batches of this task are the same, so that losses differ only by the dropout masks. */
static kvs_trainer *make_dropping(kvs_runtime *rt, kvs_data **task, kvs_model **model, double rate,
                                  const kvs_train_config *config)
{
    const kvsi_ngram_config ngram = {.alphabet = 9, .pairs = DROP_PAIRS, .answers = 40, .seed = 1};
    kvs_model_config mc;
    kvs_trainer *trainer;

    assert_int_equal(kvsi_ngram_create(task, &ngram, NULL), KVS_OK);
    kvsi_model_config_init(&mc);
    mc.vocab = kvs_data_vocab(*task);
    mc.dim = 32;
    mc.context = 2;
    mc.init_std = 0.2;
    mc.dropout_embedding = mc.dropout_attention = mc.dropout_residual = rate;
    assert_int_equal(kvs_model_create(model, rt, &mc, 7, NULL), KVS_OK);
    assert_int_equal(kvs_trainer_create(&trainer, *model, *task, config, NULL), KVS_OK);
    return trainer;
}

/* Losses of: two steps that change nothing, two evaluations, then a step of a second trainer. */
static void dropping_losses(double losses[5], double rate, int eval_dropout)
{
    kvs_train_config config = small_config();
    kvs_runtime *rt = make_runtime(2);
    kvs_trainer *trainer;
    kvs_data *task;
    kvs_model *model;
    kvs_step_record record;
    kvs_evaluation evaluation = {.size = sizeof(kvs_evaluation)};

    config.lr = 0;
    config.batch = DROP_PAIRS;
    config.eval_dropout = eval_dropout;
    trainer = make_dropping(rt, &task, &model, rate, &config);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(kvsi_trainer_step(trainer, &record, NULL), KVS_OK);
        assert_int_equal(kvs_trainer_evaluate(&evaluation, trainer, 3 * DROP_PAIRS, NULL), KVS_OK);
        losses[i] = record.loss;
        losses[2 + i] = evaluation.loss;
    }
    kvs_trainer_free(trainer);
    assert_int_equal(kvs_trainer_create(&trainer, model, task, &config, NULL), KVS_OK);
    assert_int_equal(kvsi_trainer_step(trainer, &record, NULL), KVS_OK);
    losses[4] = record.loss;
    kvs_trainer_free(trainer);
    kvs_model_free(model);
    kvs_data_free(task);
    kvs_runtime_free(rt);
}

static void dropout_is_for_training_and_asked_for_in_evaluation(void **state)
{
    double without[5], training[5], both[5];

    (void)state;
    dropping_losses(without, 0, 1);
    dropping_losses(training, 0.3, 0);
    dropping_losses(both, 0.3, 1);
    assert_true(without[0] == without[1]);
    assert_true(training[0] != without[0] && training[1] != without[0]);
    assert_true(training[0] != training[1]); /* every step has another dropout mask */
    assert_true(training[0] == training[4]); /* every run has the same masks */
    assert_true(training[2] == without[2] && training[3] == without[2]);
    assert_true(both[2] != without[2] && both[2] == both[3]);
    assert_true(both[0] == training[0] && both[1] == training[1]);
}

/* ---- accuracy by length ---- */

static int guessed_right(kvs_session *session, const kvs_batch *batch, size_t s)
{
    const size_t from = batch->starts[s], length = batch->starts[s + 1] - from;
    float logits[64];
    int32_t best = 0;

    kvs_session_reset(session);
    assert_int_equal(kvs_session_feed(session, batch->ids + from, length, logits, NULL), KVS_OK);
    for (int32_t i = 1; i < 64; i++)
        best = logits[i] > logits[best] ? i : best;
    return best == batch->targets[from + length - 1];
}

/* Evaluates sequence by sequence with a session, and counts by length. */
static kvs_evaluation evaluate_by_hand(const kvs_model *model, const kvs_data *task, uint64_t seed,
                                       size_t sequences)
{
    kvs_evaluation out = {.buckets = 2, .bucket = {{.from = 3, .to = 17}, {.from = 18, .to = 31}}};
    kvsi_batch_buffer buffer;
    kvs_session *session;

    assert_int_equal(kvsi_batch_buffer_init(&buffer, task, sequences, NULL), KVS_OK);
    assert_int_equal(kvs_session_create(&session, model, NULL, NULL), KVS_OK);
    assert_int_equal(kvsi_batch_fill(&buffer, task, seed, KVSI_RANDOM_EVAL, 0, sequences, NULL),
                     KVS_OK);
    for (size_t s = 0; s < sequences; s++) {
        const size_t length = buffer.starts[s + 1] - buffer.starts[s];
        kvs_length_bucket *bucket = &out.bucket[length > 17];

        bucket->scored++;
        bucket->accuracy += guessed_right(session, &buffer.view, s);
    }
    out.accuracy = (out.bucket[0].accuracy + out.bucket[1].accuracy) / (double)sequences;
    for (size_t b = 0; b < 2; b++)
        out.bucket[b].accuracy /= (double)out.bucket[b].scored;
    kvs_session_free(session);
    kvsi_batch_buffer_release(&buffer);
    return out;
}

static void accuracy_by_length_is_that_of_those_lengths(void **state)
{
    enum { SEQUENCES = 500 }; /* 24 at a time: the last batch is not full */
    kvs_train_config config = small_config();
    kvs_runtime *rt = make_runtime(2);
    kvs_data *answers = make_task(KVSI_LOSS_ANSWER);
    kvs_data *task = make_task(KVSI_LOSS_ALL); /* most rows have a target that is not scored */
    kvs_model *model = make_model(rt, KVS_SHIFT_K | KVS_SHIFT_V, 1);
    kvs_trainer *trainer;
    kvs_evaluation found = {.size = sizeof found}, expected;

    (void)state;
    config.lr = 8e-3;
    assert_int_equal(kvs_trainer_create(&trainer, model, answers, &config, NULL), KVS_OK);
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(kvsi_trainer_step(trainer, NULL, NULL), KVS_OK);
    kvs_trainer_free(trainer);
    assert_int_equal(kvs_trainer_create(&trainer, model, task, &config, NULL), KVS_OK);
    assert_int_equal(kvs_trainer_evaluate(&found, trainer, SEQUENCES, NULL), KVS_OK);
    expected = evaluate_by_hand(model, task, config.seed, SEQUENCES);
    if (expected.accuracy < 0.2 || expected.accuracy > 0.95 ||
        expected.bucket[0].accuracy == expected.bucket[1].accuracy)
        fail_msg("accuracy %.3f is too low for this test", expected.accuracy);
    assert_true(fabs(found.accuracy - expected.accuracy) < 1e-12);
    assert_int_equal(found.buckets, 2);
    for (size_t b = 0; b < 2; b++) {
        assert_int_equal(found.bucket[b].from, expected.bucket[b].from);
        assert_int_equal(found.bucket[b].to, expected.bucket[b].to);
        assert_int_equal(found.bucket[b].scored, expected.bucket[b].scored);
        assert_true(fabs(found.bucket[b].accuracy - expected.bucket[b].accuracy) < 1e-12);
    }
    kvs_trainer_free(trainer);
    kvs_model_free(model);
    kvs_data_free(answers);
    kvs_data_free(task);
    kvs_runtime_free(rt);
}

static void no_allocation_inside_a_step(void **state)
{
    const kvs_train_config config = small_config();
    kvs_runtime *rt = make_runtime(2);
    kvs_data *task = make_task(KVSI_LOSS_ALL);
    kvs_model *model = make_model(rt, KVS_SHIFT_K | KVS_SHIFT_V | KVS_SHIFT_Q, 2);
    kvs_trainer *trainer;
    kvs_session *session;
    float logits[64];
    uint64_t before;

    (void)state;
    assert_int_equal(kvs_trainer_create(&trainer, model, task, &config, NULL), KVS_OK);
    assert_int_equal(kvs_session_create(&session, model, NULL, NULL), KVS_OK);
    before = kvsi_memory_allocations();
    for (int32_t i = 0; i < 10; i++) {
        assert_int_equal(kvsi_trainer_step(trainer, NULL, NULL), KVS_OK);
        assert_int_equal(kvs_session_feed(session, &i, 1, logits, NULL), KVS_OK);
    }
    assert_int_equal(kvsi_memory_allocations(), before);
    kvs_session_free(session);
    kvs_trainer_free(trainer);
    kvs_model_free(model);
    kvs_data_free(task);
    kvs_runtime_free(rt);
}

/* A batch that does not fit the planned memory takes several passes, with the same result. */
static void long_batches_take_several_passes(void **state)
{
    kvs_train_config config = small_config();
    kvs_runtime *rt = make_runtime(1);
    kvs_data *task = make_task(KVSI_LOSS_ANSWER);
    kvs_model *model = make_model(rt, KVS_SHIFT_K, 1);
    kvs_trainer *trainer;
    kvs_step_record whole, cut;

    (void)state;
    config.lr = 0;
    assert_int_equal(kvs_trainer_create(&trainer, model, task, &config, NULL), KVS_OK);
    assert_int_equal(kvsi_trainer_step(trainer, &whole, NULL), KVS_OK);
    kvs_trainer_free(trainer);
    task->mean_tokens = 0.1; /* the plan barely holds the longest sequence */
    assert_int_equal(kvs_trainer_create(&trainer, model, task, &config, NULL), KVS_OK);
    assert_int_equal(kvsi_trainer_step(trainer, &cut, NULL), KVS_OK);
    assert_true(whole.tokens > 2 * task->max_tokens);
    assert_int_equal(whole.tokens, cut.tokens);
    assert_true(fabs(whole.loss - cut.loss) < 1e-6 * whole.loss);
    assert_true(fabs(whole.grad_norm - cut.grad_norm) < 1e-5 * whole.grad_norm);
    kvs_trainer_free(trainer);
    kvs_model_free(model);
    kvs_data_free(task);
    kvs_runtime_free(rt);
}

/* Sets all values of a tensor, and checks that the first step names where that diverges. */
static void expect_divergence(const kvs_train_config *config, const char *tensor, float value,
                              const char *where)
{
    kvs_runtime *rt = make_runtime(2);
    kvs_data *task = make_task(KVSI_LOSS_ANSWER);
    kvs_model *model = make_model(rt, KVS_SHIFT_V, 2);
    const kvsi_parameter *p = kvsi_layout_find(&model->layout, tensor);
    const size_t bytes = kvsi_layout_total(&model->layout) * sizeof(float);
    float *values = kvsi_alloc(p->count, sizeof *values), *before = kvsi_alloc(bytes, 1);
    kvs_trainer *trainer;
    kvs_err err;

    for (size_t i = 0; i < p->count; i++)
        values[i] = value;
    assert_int_equal(kvs_model_write_tensor(model, tensor, values, p->count, NULL), KVS_OK);
    assert_int_equal(kvs_trainer_create(&trainer, model, task, config, NULL), KVS_OK);
    memcpy(before, model->parameters, bytes);
    assert_int_equal(kvsi_trainer_step(trainer, NULL, &err), KVS_E_DIVERGED);
    assert_non_null(strstr(err.message, "step 1 diverged"));
    if (!strstr(err.message, where))
        fail_msg("'%s' does not contain '%s'", err.message, where);
    assert_memory_equal(before, model->parameters, bytes);
    kvsi_free(values);
    kvsi_free(before);
    kvs_trainer_free(trainer);
    kvs_model_free(model);
    kvs_data_free(task);
    kvs_runtime_free(rt);
}

/* A weight of 3.4e38 is finite, and infinite in bfloat16, whose largest value is 3.39e38. */
static void a_step_that_diverges_changes_nothing(void **state)
{
    static const char qkv[] = "model.layers.1.self_attn.q_proj.weight",
                      up[] = "model.layers.0.mlp.up_proj.weight";
    kvs_train_config config = small_config();

    (void)state;
    for (int i = 0; i < 4; i++) {
        config.precision = i % 2 ? KVSI_PRECISION_BF16 : KVSI_PRECISION_F32;
        config.recompute = i / 2;
        expect_divergence(&config, "model.norm.weight", NAN, "first in weight 'model.norm.weight'");
        expect_divergence(&config, qkv, 3.4e38F,
                          config.recompute ? "first in the output of the last layer"
                                           : "first in queries, keys and values of layer 1");
        expect_divergence(&config, up, 3.4e38F,
                          config.recompute ? "first in the input of layer 1"
                                           : "first in the feed-forward part of layer 0");
    }
}

static void rates_follow_the_schedule(void **state)
{
    kvs_train_config c;

    (void)state;
    kvsi_train_config_init(&c);
    c.lr = 1;
    c.lr_floor = 0.2;
    c.warmup = 10;
    c.steps = 110;
    assert_true(fabs(kvs_learning_rate(&c, 1) - 0.1) < 1e-12);
    assert_true(fabs(kvs_learning_rate(&c, 10) - 1) < 1e-12);
    assert_true(fabs(kvs_learning_rate(&c, 110) - 1) < 1e-12);
    c.schedule = KVSI_SCHEDULE_LINEAR;
    assert_true(fabs(kvs_learning_rate(&c, 60) - 0.6) < 1e-12);
    assert_true(fabs(kvs_learning_rate(&c, 110) - 0.2) < 1e-12);
    c.schedule = KVSI_SCHEDULE_COSINE;
    assert_true(fabs(kvs_learning_rate(&c, 60) - 0.6) < 1e-12);
    assert_true(fabs(kvs_learning_rate(&c, 35) - (0.2 + 0.8 * (1 + sqrt(0.5)) / 2)) < 1e-12);
    assert_true(fabs(kvs_learning_rate(&c, 110) - 0.2) < 1e-12);
    assert_true(fabs(kvs_learning_rate(&c, 200) - 0.2) < 1e-12);
    c.warmup = 0;
    assert_true(fabs(kvs_learning_rate(&c, 110) - 0.2) < 1e-12);
}

/* ---- whole runs ---- */

static double evaluate(kvs_model *model, const kvs_data *task)
{
    const kvs_train_config config = small_config();
    kvs_trainer *trainer;
    kvs_evaluation evaluation = {.size = sizeof(kvs_evaluation)};

    assert_int_equal(kvs_trainer_create(&trainer, model, task, &config, NULL), KVS_OK);
    assert_int_equal(kvs_trainer_evaluate(&evaluation, trainer, 100, NULL), KVS_OK);
    kvs_trainer_free(trainer);
    return evaluation.loss;
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
    kvs_data *task = make_task(KVSI_LOSS_ANSWER);
    kvs_model *model = make_model(rt, targets, 2), *loaded;
    kvsi_train_job job = {.model = model, .data = task, .config = small_config()};
    kvs_train_result result = {.size = sizeof(kvs_train_result)};
    char *dir = support_make_dir(), *run = kvsi_path_join(dir, "a/run");
    kvs_err err;

    (void)state;
    job.config.eval_sequences = 100;
    job.out = run;
    assert_int_equal(kvsi_train(&job, &result, &err), KVS_OK);
    assert_int_equal(kvs_model_load(&loaded, rt, run, NULL, &err), KVS_OK);
    assert_memory_equal(model->parameters, loaded->parameters,
                        kvsi_layout_total(&model->layout) * sizeof(float));
    assert_same_config(&model->config, &loaded->config);
    assert_true(evaluate(model, task) == evaluate(loaded, task));
    assert_int_equal(kvsi_train(&job, &result, &err),
                     KVS_E_EXISTS); /* runs are never overwritten */
    assert_non_null(strstr(err.message, "already holds a run"));
    kvs_model_free(loaded);
    kvs_model_free(model);
    kvs_data_free(task);
    kvs_runtime_free(rt);
    kvsi_free(run);
    support_remove_dir(dir);
}

/* ---- files of a run ---- */

/* The first JSON object of a file of the run. */
static json_t *read_object(const char *run, const char *name)
{
    char *path = kvsi_path_join(run, name);
    FILE *file = fopen(path, "r");
    json_t *object;

    assert_non_null(file);
    object = json_loadf(file, JSON_DISABLE_EOF_CHECK, NULL);
    assert_non_null(object);
    fclose(file);
    kvsi_free(path);
    return object;
}

static void check_lengths(const json_t *list, const kvs_evaluation *expected)
{
    assert_int_equal(json_array_size(list), expected->buckets);
    for (size_t i = 0; i < expected->buckets; i++) {
        const kvs_length_bucket *bucket = &expected->bucket[i];
        json_int_t from, to, scored;
        double accuracy;

        assert_int_equal(json_unpack(json_array_get(list, i), "{s:I, s:I, s:I, s:F !}", "from",
                                     &from, "to", &to, "scored", &scored, "accuracy", &accuracy),
                         0);
        assert_int_equal(from, bucket->from);
        assert_int_equal(to, bucket->to);
        assert_int_equal(scored, bucket->scored);
        assert_true(fabs(accuracy - bucket->accuracy) < 1e-8);
    }
}

static void a_run_records_its_switches_and_lengths(void **state)
{
    kvs_runtime *rt = make_runtime(2);
    kvs_data *task = make_task(KVSI_LOSS_ANSWER);
    kvs_model *model = make_model(rt, KVS_SHIFT_K, 1);
    kvsi_train_job job = {.model = model, .data = task, .config = small_config()};
    char *dir = support_make_dir(), *run = kvsi_path_join(dir, "run");
    kvs_train_result result = {.size = sizeof(kvs_train_result)};
    json_t *settings, *outcome;
    double shift_lr, shift_decay;
    int decay_all, only_shift, eval_dropout;

    (void)state;
    job.config.only_shift = job.config.eval_dropout = 1;
    job.config.shift_lr = 0.25;
    job.config.shift_decay = 0.125;
    job.config.eval_sequences = 200;
    job.out = run;
    assert_int_equal(kvsi_train(&job, &result, NULL), KVS_OK);
    settings = read_object(run, "train.jsonl");
    assert_int_equal(json_unpack(settings, "{s:{s:f, s:f, s:b, s:b, s:b}}", "train", "shift_lr",
                                 &shift_lr, "shift_decay", &shift_decay, "decay_all", &decay_all,
                                 "only_shift", &only_shift, "eval_dropout", &eval_dropout),
                     0);
    assert_true(shift_lr == 0.25 && shift_decay == 0.125);
    assert_true(!decay_all && only_shift && eval_dropout);
    outcome = read_object(run, "result.json");
    assert_int_equal(result.final.buckets, 2);
    check_lengths(json_object_get(outcome, "accuracy_by_length"), &result.final);
    assert_true(fabs(json_real_value(json_object_get(outcome, "final_accuracy")) -
                     result.final.accuracy) < 1e-8);
    assert_true(fabs(json_real_value(json_object_get(outcome, "final_loss")) - result.final.loss) <
                1e-6);
    json_decref(settings);
    json_decref(outcome);
    kvs_model_free(model);
    kvs_data_free(task);
    kvs_runtime_free(rt);
    kvsi_free(run);
    support_remove_dir(dir);
}

static double learn(unsigned shift, size_t layers, uint64_t steps)
{
    kvs_runtime *rt = make_runtime(2);
    kvs_data *task = make_task(KVSI_LOSS_ANSWER);
    kvs_model *model = make_model(rt, shift, layers);
    kvsi_train_job job = {.model = model, .data = task};
    kvs_train_result result = {.size = sizeof(kvs_train_result)};

    kvsi_train_config_init(&job.config);
    job.config.steps = steps;
    job.config.batch = 128;
    job.config.lr = 4e-3;
    job.config.eval_sequences = 1000;
    assert_int_equal(kvsi_train(&job, &result, NULL), KVS_OK);
    kvs_model_free(model);
    kvs_data_free(task);
    kvs_runtime_free(rt);
    return result.final.accuracy;
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
        cmocka_unit_test(the_precision_changes_the_weights),
        cmocka_unit_test(another_seed_gives_other_weights),
        cmocka_unit_test(micro_batches_add_up),
        cmocka_unit_test(decay_reaches_what_it_should),
        cmocka_unit_test(the_shift_has_its_own_rate_and_decay),
        cmocka_unit_test(the_shift_can_be_trained_alone),
        cmocka_unit_test(rates_freeze_tensors_by_name),
        cmocka_unit_test(rates_scale_the_learning_rate),
        cmocka_unit_test(bad_rates_are_refused),
        cmocka_unit_test(adapters_are_trained_with_the_shift),
        cmocka_unit_test(frozen_matrices_take_no_memory),
        cmocka_unit_test(adapters_resume_with_the_same_bits),
        cmocka_unit_test(a_shift_without_numbers_cannot_be_trained),
        cmocka_unit_test(dropout_is_for_training_and_asked_for_in_evaluation),
        cmocka_unit_test(accuracy_by_length_is_that_of_those_lengths),
        cmocka_unit_test(no_allocation_inside_a_step),
        cmocka_unit_test(long_batches_take_several_passes),
        cmocka_unit_test(a_step_that_diverges_changes_nothing),
        cmocka_unit_test(rates_follow_the_schedule),
        cmocka_unit_test(saved_models_come_back_the_same),
        cmocka_unit_test(a_run_records_its_switches_and_lengths),
        cmocka_unit_test(one_layer_learns_induction_only_with_the_shift),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
