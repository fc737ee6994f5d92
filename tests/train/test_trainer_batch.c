/* Trainers with batches of the caller.  A step on a batch has the bits of a step on data with the
 * same sequences, for every division of the work.  kvs_trainer_gradients() returns the gradients
 * that a step uses, and they agree with finite differences.  Nothing is allocated in a step, and a
 * wrong batch is refused and changes nothing. */
#include "base/files.h"
#include "base/memory.h"
#include "data/data.h"
#include "kvshift/kvshift_files.h"
#include "training.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { VOCAB = 24, CONTEXT = 12, SEQUENCES = 40, BATCH = 8, STEPS = 4 };

/* ---- sequences ------------------------------------------------------------------------------- */

typedef struct arrays {
    size_t starts[SEQUENCES + 1];
    int32_t ids[SEQUENCES * CONTEXT], targets[SEQUENCES * CONTEXT];
    uint8_t scored[SEQUENCES * CONTEXT];
} arrays;

static kvs_batch view_arrays(const arrays *a, size_t sequences)
{
    kvs_batch b;

    kvs_batch_init(&b, sizeof b);
    b.sequences = sequences;
    b.starts = a->starts;
    b.ids = a->ids;
    b.targets = a->targets;
    b.scored = a->scored;
    return b;
}

/* Fills all sequences: lengths are 4 to CONTEXT, and every third row has a target. */
static kvs_batch make_arrays(arrays *a)
{
    a->starts[0] = 0;
    for (size_t s = 0; s < SEQUENCES; s++)
        a->starts[s + 1] = a->starts[s] + 4 + s * 5 % (CONTEXT - 3);
    support_fill_ids(a->ids, a->starts[SEQUENCES], 3, VOCAB);
    support_fill_ids(a->targets, a->starts[SEQUENCES], 4, VOCAB);
    for (size_t i = 0; i < a->starts[SEQUENCES]; i++) {
        a->targets[i] = i % 3 == 0 ? a->targets[i] : -1;
        a->scored[i] = i % 2;
    }
    return view_arrays(a, SEQUENCES);
}

/* Draws `count` sequences of the training stream, from number `first` on. */
static kvs_batch draw_batch(arrays *a, const kvs_data *data, uint64_t seed, uint64_t first,
                            size_t count)
{
    a->starts[0] = 0;
    for (size_t s = 0; s < count; s++) {
        const size_t at = a->starts[s];

        a->starts[s + 1] = at + kvs_data_sequence(a->ids + at, a->targets + at, a->scored + at,
                                                  data, seed, KVS_STREAM_TRAIN, first + s);
    }
    return view_arrays(a, count);
}

/* ---- a training with a given configuration --------------------------------------------------- */

static const support_sizes model_sizes = {.vocab = VOCAB, .dim = 16, .ffn = 24, .context = CONTEXT};
static const kvs_model_config plain = {.layers = 2,
                                       SUPPORT_SHIFT(KVS_SHIFT_K | KVS_SHIFT_V, FREE, 1)};
static const kvs_model_config dropping = {.layers = 2,
                                          .dropout_embedding = 0.1,
                                          .dropout_attention = 0.2,
                                          .dropout_residual = 0.2,
                                          SUPPORT_SHIFT(KVS_SHIFT_K, DATA, 1)};

typedef struct training_run {
    kvs_model_config model;
    kvs_train_config train;
    int own_batches;        /* steps are kvs_trainer_step_batch() on the sequences of the data */
    int without_data;       /* the trainer has no data */
    size_t sequences;       /* number in each of the own batches; 0 = as in train.batch */
    int asks_for_gradients; /* calls kvs_trainer_gradients() before each step */
    kvs_step_record records[STEPS];
    training_result end;
} training_run;

static kvs_train_config training(void)
{
    kvs_train_config c = training_config(BATCH, STEPS);

    c.seed = 9;
    return c;
}

/* The sequences of make_data(), which does not copy them; main() fills them. */
static arrays all_sequences;

static kvs_data *make_data(void)
{
    const kvs_batch batch = view_arrays(&all_sequences, SEQUENCES);
    kvs_data *data = NULL;

    kvs_data_create_arrays(&data, &batch, &batch, VOCAB, NULL);
    return data;
}

static kvs_data *data_of_trainer(size_t rank, void *user)
{
    const training_run *t = user;

    (void)rank;
    return t->without_data ? NULL : make_data();
}

static kvs_status run_steps(const training_rank *r, void *user, kvs_err *err)
{
    training_run *t = user;
    const size_t count = t->sequences > 0 ? t->sequences : t->train.batch;
    kvs_data *data = make_data();
    const kvs_step_record *record;
    kvs_status st = KVS_OK;
    arrays a;

    for (uint64_t i = 0; i < STEPS; i++) {
        const kvs_batch batch = draw_batch(&a, data, t->train.seed, i * t->train.batch, count);
        double loss;

        if (t->asks_for_gradients)
            TRY_OUT(kvs_trainer_gradients(&loss, r->trainer, &batch, err));
        TRY_OUT(t->own_batches ? kvs_trainer_step_batch(&record, r->trainer, &batch, err)
                               : kvs_trainer_step(&record, r->trainer, err));
        if (r->comm->rank == 0)
            t->records[i] = *record;
        if (kvs_trainer_steps(r->trainer) != i + 1 || record->step != i + 1)
            TRY_OUT(kvsi_fail(err, KVS_E_IO, "step %d is not counted", (int)i));
    }
out:
    kvs_data_free(data);
    return st;
}

static training_run run(size_t ranks, training_run t)
{
    const training_setup setup = {.model = support_own_config(&t.model, &model_sizes),
                                  .model_seed = 5,
                                  .config = t.train,
                                  .make_data = data_of_trainer,
                                  .steps = run_steps,
                                  .user = &t};

    t.end = training_on_ranks(ranks, &setup);
    if (t.end.err.status != KVS_OK)
        fail_msg("%zu ranks: %s", ranks, t.end.err.message);
    return t;
}

/* Trains again, and compares all records and weights with those of an earlier training. */
static void expect_same(const training_run *expected, size_t ranks, training_run given,
                        const char *what)
{
    const training_run found = run(ranks, given);

    for (size_t i = 0; i < STEPS; i++) {
        const kvs_step_record *a = &expected->records[i], *b = &found.records[i];

        if (a->loss != b->loss || a->grad_norm != b->grad_norm || a->tokens != b->tokens ||
            !(a->accuracy == b->accuracy || (isnan(a->accuracy) && isnan(b->accuracy))))
            fail_msg("%s, step %zu: loss %.9g and %.9g, norm %.9g and %.9g", what, i + 1, a->loss,
                     b->loss, a->grad_norm, b->grad_norm);
    }
    training_expect_same_weights(&found.end, &expected->end, what);
    kvsi_free(found.end.weights);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void steps_on_batches_have_the_bits_of_steps_on_data(void **state)
{
    const kvs_model_config *const models[] = {&plain, &dropping};

    (void)state;
    for (size_t m = 0; m < 2; m++)
        for (int way = 0; way < 8; way++) {
            training_run given = {.model = *models[m], .train = training()}, usual;

            given.train.accumulate = way & 1 ? 4 : 1;
            given.train.deterministic = (way & 2) != 0;
            given.train.recompute = (way & 4) != 0;
            usual = run(1, given);
            given.own_batches = 1;
            expect_same(&usual, 1, given, "batches");
            given.without_data = 1;
            expect_same(&usual, 1, given, "batches without data");
            given.asks_for_gradients = 1;
            expect_same(&usual, 1, given, "gradients before every step");
            kvsi_free(usual.end.weights);
        }
}

static void steps_on_batches_have_the_same_bits_on_ranks(void **state)
{
    (void)state;
    for (size_t ranks = 1; ranks <= RANKS_MAX; ranks *= 2)
        for (size_t s = 0; s < TRAINING_SHARDS; s++) {
            training_run given = {.model = dropping, .train = training()}, usual;

            given.train.shard = training_shards[s];
            given.train.accumulate = s % 2 == 0 ? 1 : 8;
            usual = run(ranks, given);
            given.own_batches = 1;
            expect_same(&usual, ranks, given, "batches");
            given.without_data = 1;
            expect_same(&usual, ranks, given, "batches without data");
            kvsi_free(usual.end.weights);
        }
}

/* Some ranks and micro-batches get fewer sequences than others, or none. */
static void small_batches_can_be_divided(void **state)
{
    static const size_t sizes[] = {1, 2, 3, 5, 7};
    static const kvsi_shard_stage shards[] = {KVSI_SHARD_NONE, KVSI_SHARD_GRADIENTS,
                                              KVSI_SHARD_PARAMETERS};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        training_run given = {.model = dropping,
                              .train = training(),
                              .own_batches = 1,
                              .without_data = 1,
                              .sequences = sizes[i]};
        training_run one, exact;

        given.train.deterministic = 1;
        given.train.accumulate = i % 2 == 0 ? 8 : 1;
        exact = run(1, given);
        given.train.deterministic = 0;
        one = run(1, given);
        for (size_t ranks = 1; ranks <= RANKS_MAX; ranks *= 2)
            for (size_t s = 0; s < sizeof shards / sizeof *shards; s++) {
                training_run many;

                given.train.shard = shards[s];
                given.train.deterministic = 1;
                expect_same(&exact, ranks, given, "deterministic");
                given.train.deterministic = 0;
                many = run(ranks, given);
                for (size_t k = 0; k < STEPS; k++) {
                    const kvs_step_record *a = &one.records[k], *b = &many.records[k];

                    assert_int_equal(a->tokens, b->tokens);
                    assert_true(fabs(a->loss - b->loss) <= 1e-5 * a->loss);
                    assert_true(fabs(a->grad_norm - b->grad_norm) <= 1e-4 * a->grad_norm);
                }
                kvsi_free(many.end.weights);
            }
        kvsi_free(one.end.weights);
        kvsi_free(exact.end.weights);
    }
}

/* The loss of a batch that is not full is the mean over its own targets: a trainer whose batch has
 * that size computes the same. */
static void the_loss_of_a_small_batch_is_its_own_mean(void **state)
{
    training_run given = {
        .model = plain, .train = training(), .own_batches = 1, .without_data = 1, .sequences = 4};
    training_run small, exact;

    (void)state;
    small = run(1, given);
    given.train.batch = 4;
    given.sequences = 0;
    exact = run(1, given);
    assert_true(small.records[0].loss == exact.records[0].loss);
    assert_true(small.records[0].grad_norm == exact.records[0].grad_norm);
    kvsi_free(small.end.weights);
    kvsi_free(exact.end.weights);
}

/* ---- a trainer without data ------------------------------------------------------------------ */

typedef struct fixture {
    kvs_runtime *rt;
    kvs_model *model;
    kvs_trainer *trainer;
    arrays arrays;
    kvs_batch batch; /* BATCH sequences */
} fixture;

static kvs_model *make_model(kvs_runtime *rt, const kvs_model_config *special)
{
    const kvs_model_config config = support_own_config(special, &model_sizes);
    kvs_model *model;

    assert_int_equal(kvs_model_create(&model, rt, &config, 5, NULL), KVS_OK);
    return model;
}

static void set_up(fixture *f, const kvs_model_config *special, const kvs_train_config *config)
{
    kvs_err err;

    f->rt = support_runtime(NULL);
    f->model = make_model(f->rt, special);
    f->batch = make_arrays(&f->arrays);
    f->batch.sequences = BATCH;
    if (kvs_trainer_create(&f->trainer, f->model, NULL, config, &err) != KVS_OK)
        fail_msg("%s", err.message);
}

static void tear_down(fixture *f)
{
    kvs_trainer_free(f->trainer);
    kvs_model_free(f->model);
    kvs_runtime_free(f->rt);
}

static double loss_of(fixture *f, const kvs_batch *batch)
{
    kvs_err err;
    double loss;

    if (kvs_trainer_gradients(&loss, f->trainer, batch, &err) != KVS_OK)
        fail_msg("%s", err.message);
    return loss;
}

static void masks_and_next_ids_are_targets(void **state)
{
    const kvs_train_config config = training();
    int32_t written[SEQUENCES * CONTEXT];
    uint8_t mask[SEQUENCES * CONTEXT];
    kvs_batch other;
    double expected;
    fixture f;

    (void)state;
    set_up(&f, &plain, &config);
    other = f.batch;
    other.targets = written;
    for (size_t s = 0; s < BATCH; s++)
        for (size_t i = f.arrays.starts[s]; i < f.arrays.starts[s + 1]; i++) {
            mask[i] = i % 4 != 1;
            written[i] = i + 1 < f.arrays.starts[s + 1] ? f.arrays.ids[i + 1] : -1;
        }
    expected = loss_of(&f, &other);
    f.batch.targets = NULL;
    assert_true(loss_of(&f, &f.batch) == expected);
    for (size_t i = 0; i < f.arrays.starts[BATCH]; i++)
        written[i] = mask[i] ? written[i] : -1;
    f.batch.mask = mask;
    assert_true(loss_of(&f, &other) != expected);
    assert_true(loss_of(&f, &f.batch) == loss_of(&f, &other));
    tear_down(&f);
}

static void nothing_is_allocated(void **state)
{
    kvs_train_config config = training();
    uint64_t before;
    double loss;
    fixture f;

    (void)state;
    config.accumulate = 2;
    set_up(&f, &dropping, &config);
    before = kvsi_memory_allocations();
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(kvs_trainer_step_batch(NULL, f.trainer, &f.batch, NULL), KVS_OK);
        assert_int_equal(kvs_trainer_gradients(&loss, f.trainer, &f.batch, NULL), KVS_OK);
    }
    assert_int_equal(kvsi_memory_allocations(), before);
    tear_down(&f);
}

/* ---- gradients ------------------------------------------------------------------------------- */

static float *read_gradient(const fixture *f, const kvsi_parameter *p)
{
    float *out = kvsi_alloc(p->count, sizeof *out);
    kvs_err err;

    if (kvs_trainer_read_gradient(out, p->count, f->trainer, p->name, &err) != KVS_OK)
        fail_msg("%s", err.message);
    return out;
}

static size_t targets_of(const kvs_batch *b)
{
    size_t count = 0;

    for (size_t i = 0; i < b->starts[b->sequences]; i++)
        count += b->targets[i] >= 0;
    return count;
}

/* The gradients are those of one pass over the whole batch, divided by the number of targets, and
 * their norm is the one that a step reports. */
static void gradients_are_those_of_a_step(void **state)
{
    (void)state;
    for (int way = 0; way < 8; way++) {
        kvs_train_config config = training();
        const support_dropout dropout = {.seed = config.seed, .number = 0};
        const kvs_step_record *record;
        support_result expected;
        double loss, sum = 0;
        fixture f;

        config.accumulate = way & 1 ? 4 : 1;
        config.deterministic = (way & 2) != 0;
        config.shard = way & 4 ? KVSI_SHARD_GRADIENTS : KVSI_SHARD_NONE;
        set_up(&f, &dropping, &config);
        expected = support_train(f.model, &f.batch, &dropout);
        loss = loss_of(&f, &f.batch);
        assert_true(fabs(loss - expected.loss / (double)targets_of(&f.batch)) < 1e-6 * loss);
        for (size_t i = 0; i < f.model->layout.count; i++) {
            const kvsi_parameter *p = &f.model->layout.list[i];
            float *found = read_gradient(&f, p);
            real *gradient = support_gradient(&expected, p);

            for (size_t k = 0; k < p->count; k++) {
                gradient[k] /= (real)targets_of(&f.batch);
                sum += (double)found[k] * (double)found[k];
            }
            support_expect_close(found, gradient, p->count, 1e-5, "way %d, %s", way, p->name);
            kvsi_free(found);
            kvsi_free(gradient);
        }
        assert_int_equal(kvs_trainer_step_batch(&record, f.trainer, &f.batch, NULL), KVS_OK);
        assert_true(record->loss == loss);
        assert_true(fabs(sqrt(sum) - record->grad_norm) < 1e-5 * record->grad_norm);
        support_result_release(&expected);
        tear_down(&f);
    }
}

/* With the usual initial weights some gradients are too small for differences. */
static void enlarge_weights(fixture *f)
{
    kvs_model *large = support_model(f->rt, &f->model->config, 7);

    for (size_t i = 0; i < f->model->layout.count; i++) {
        const kvsi_parameter *p = &f->model->layout.list[i];
        float *values = kvsi_alloc(p->count, sizeof *values);

        assert_int_equal(kvs_model_read_tensor(values, p->count, large, p->name, NULL), KVS_OK);
        assert_int_equal(kvs_model_write_tensor(f->model, p->name, values, p->count, NULL), KVS_OK);
        kvsi_free(values);
    }
    kvs_model_free(large);
}

/* Moves one tensor along its gradient: the slope of the loss is the gradient's norm.  Only public
 * calls are used.  They are in float, so the differences are exact to about 1e-3;
 * test_double_trainer.c checks single values to 1e-8. */
static void gradients_match_differences(void **state)
{
    const kvs_train_config config = training();
    fixture f;

    (void)state;
    set_up(&f, &plain, &config);
    enlarge_weights(&f);
    for (size_t i = 0; i < f.model->layout.count; i++) {
        const kvsi_parameter *p = &f.model->layout.list[i];
        float *values = kvsi_alloc(p->count, sizeof *values);
        float *moved = kvsi_alloc(p->count, sizeof *moved), *gradient;
        double losses[2], norm = 0, step;

        loss_of(&f, &f.batch);
        gradient = read_gradient(&f, p);
        for (size_t k = 0; k < p->count; k++)
            norm += (double)gradient[k] * (double)gradient[k];
        norm = sqrt(norm);
        step = 2e-3 / norm;
        assert_true(norm > 1e-4);
        assert_int_equal(kvs_model_read_tensor(values, p->count, f.model, p->name, NULL), KVS_OK);
        for (int side = 0; side < 2; side++) {
            for (size_t k = 0; k < p->count; k++)
                moved[k] = values[k] + (float)((side == 0 ? -step : step) * (double)gradient[k]);
            assert_int_equal(kvs_model_write_tensor(f.model, p->name, moved, p->count, NULL),
                             KVS_OK);
            losses[side] = loss_of(&f, &f.batch);
        }
        assert_int_equal(kvs_model_write_tensor(f.model, p->name, values, p->count, NULL), KVS_OK);
        if (!(fabs((losses[1] - losses[0]) / (2 * step * norm) - norm) < 5e-3 * norm))
            fail_msg("%s: the slope is %.6g, the gradient's norm %.6g", p->name,
                     (losses[1] - losses[0]) / (2 * step * norm), norm);
        kvsi_free(values);
        kvsi_free(moved);
        kvsi_free(gradient);
    }
    tear_down(&f);
}

/* ---- wrong calls ----------------------------------------------------------------------------- */

/* Checks that kvs_trainer_step_batch() and kvs_trainer_gradients() fail with this message, and that
 * they change neither the weights nor the number of steps. */
static void expect_refused(fixture *f, const kvs_batch *batch, kvs_status status,
                           const char *message)
{
    const size_t bytes = kvsi_layout_total(&f->model->layout) * sizeof(float);
    float *before = kvsi_alloc(bytes, 1);
    const kvs_step_record *record = (const kvs_step_record *)message;
    kvs_err err = {0};
    double loss;

    memcpy(before, f->model->parameters, bytes);
    assert_int_equal(kvs_trainer_step_batch(&record, f->trainer, batch, &err), status);
    assert_null(record);
    if (!strstr(err.message, message))
        fail_msg("'%s' does not contain '%s'", err.message, message);
    err = (kvs_err){0};
    assert_int_equal(kvs_trainer_gradients(&loss, f->trainer, batch, &err), status);
    if (!strstr(err.message, message))
        fail_msg("'%s' does not contain '%s'", err.message, message);
    assert_int_equal(kvs_trainer_steps(f->trainer), 0);
    assert_memory_equal(before, f->model->parameters, bytes);
    kvsi_free(before);
}

static void bad_batches_change_nothing(void **state)
{
    const kvs_train_config config = training();
    int32_t changed[SEQUENCES * CONTEXT];
    uint8_t mask[SEQUENCES * CONTEXT] = {0};
    const size_t longer[] = {0, CONTEXT + 1};
    kvs_batch bad;
    fixture f;

    (void)state;
    set_up(&f, &plain, &config);
    expect_refused(&f, NULL, KVS_E_INVALID, "batch is NULL");
    bad = f.batch;
    bad.size = 0;
    expect_refused(&f, &bad, KVS_E_INVALID, "size is 0");
    bad = f.batch;
    bad.sequences = 0;
    expect_refused(&f, &bad, KVS_E_INVALID, "batch: sequences is 0");
    bad.sequences = BATCH + 1;
    expect_refused(&f, &bad, KVS_E_LIMIT, "batch: 9 sequences, expected at most 8");
    bad.sequences = 1;
    bad.starts = longer;
    expect_refused(&f, &bad, KVS_E_LIMIT, "batch: sequence 0 has 13 tokens, expected at most 12");
    bad = f.batch;
    bad.starts = f.arrays.starts + 1;
    expect_refused(&f, &bad, KVS_E_INVALID, "batch: starts[0] is 4, expected 0");
    bad = f.batch;
    bad.ids = changed;
    memcpy(changed, f.arrays.ids, sizeof changed);
    changed[5] = VOCAB;
    expect_refused(&f, &bad, KVS_E_INVALID,
                   "batch: sequence 1 has id 24 at position 1, expected 0 to 23");
    bad = f.batch;
    bad.targets = changed;
    memcpy(changed, f.arrays.targets, sizeof changed);
    changed[5] = -2;
    expect_refused(&f, &bad, KVS_E_INVALID,
                   "batch: sequence 1 has target -2 at position 1, expected -1 to 23");
    bad = f.batch;
    bad.mask = mask;
    expect_refused(&f, &bad, KVS_E_INVALID, "batch: none of its 8 sequences has a target");
    assert_int_equal(kvs_trainer_step_batch(NULL, f.trainer, &f.batch, NULL), KVS_OK);
    tear_down(&f);
}

/* The memory of a trainer with data is planned for the longest sequence of its data. */
static void batches_may_be_as_long_as_the_data(void **state)
{
    const kvs_train_config config = training();
    kvs_runtime *rt = support_runtime(NULL);
    kvs_model *model = make_model(rt, &plain);
    const size_t starts[] = {0, 4}, longer[] = {0, 5};
    arrays a;
    kvs_batch batch = make_arrays(&a);
    kvs_data *data;
    kvs_trainer *trainer;
    kvs_err err;

    (void)state;
    batch.sequences = 1;
    batch.starts = starts;
    assert_int_equal(kvs_data_create_arrays(&data, &batch, NULL, 0, NULL), KVS_OK);
    assert_int_equal(kvs_trainer_create(&trainer, model, data, &config, NULL), KVS_OK);
    assert_int_equal(kvs_trainer_step_batch(NULL, trainer, &batch, NULL), KVS_OK);
    batch.starts = longer;
    assert_int_equal(kvs_trainer_step_batch(NULL, trainer, &batch, &err), KVS_E_LIMIT);
    assert_string_equal(err.message, "batch: sequence 0 has 5 tokens, expected at most 4");
    kvs_trainer_free(trainer);
    kvs_data_free(data);
    kvs_model_free(model);
    kvs_runtime_free(rt);
}

static void calls_that_need_data_say_so(void **state)
{
    const kvs_train_config config = training();
    kvs_evaluation evaluation = {.size = sizeof evaluation};
    kvs_batch batch;
    kvs_trainer *trainer;
    kvs_data *data;
    kvs_err err;
    fixture f;

    (void)state;
    set_up(&f, &plain, &config);
    assert_int_equal(kvs_trainer_step(NULL, f.trainer, &err), KVS_E_INVALID);
    assert_string_equal(err.message, "the trainer has no data to take a step on");
    assert_int_equal(kvs_trainer_evaluate(&evaluation, f.trainer, 4, &err), KVS_E_INVALID);
    assert_string_equal(err.message, "the trainer has no data to evaluate");
    batch = f.batch;
    assert_int_equal(kvs_data_create_arrays(&data, &batch, NULL, 0, NULL), KVS_OK);
    assert_int_equal(kvs_trainer_create(&trainer, f.model, data, &config, NULL), KVS_OK);
    assert_int_equal(kvs_trainer_evaluate(&evaluation, trainer, 4, &err), KVS_E_INVALID);
    assert_string_equal(err.message, "the trainer has no data to evaluate");
    kvs_trainer_free(trainer);
    kvs_data_free(data);
    tear_down(&f);
}

/* A run can train on arrays without a validation part; it then has no final loss. */
static void a_run_needs_no_evaluation(void **state)
{
    char *dir = support_make_dir(), *out = kvsi_path_join(dir, "run");
    kvs_train_config config = training();
    kvs_train_result result = {.size = sizeof result};
    kvs_train_options options;
    kvs_data *data;
    kvs_err err;
    fixture f;

    (void)state;
    set_up(&f, &plain, &config);
    assert_int_equal(kvs_data_create_arrays(&data, &f.batch, NULL, 0, NULL), KVS_OK);
    kvs_train_options_init(&options, sizeof options);
    options.out = out;
    config.eval_every = 2;
    assert_int_equal(kvs_train(&result, f.model, data, &config, &options, &err), KVS_E_INVALID);
    assert_string_equal(err.message, "eval-every is 2, but the data has nothing to evaluate");
    config.eval_every = 0;
    if (kvs_train(&result, f.model, data, &config, &options, &err) != KVS_OK)
        fail_msg("%s", err.message);
    assert_int_equal(result.steps, STEPS);
    assert_true(isnan(result.final.loss) && isnan(result.final.accuracy));
    kvs_data_free(data);
    tear_down(&f);
    kvsi_free(out);
    support_remove_dir(dir);
}

static void gradients_can_be_read_after_they_are_computed(void **state)
{
    const char *name = "model.norm.weight", *taps = "model.layers.0.self_attn.k_shift";
    kvs_train_config config = training();
    float out[16];
    kvs_err err;
    fixture f;

    (void)state;
    set_up(&f, &plain, &config);
    assert_int_equal(kvs_trainer_read_gradient(out, 16, f.trainer, name, &err), KVS_E_INVALID);
    assert_string_equal(err.message, "there are no gradients; call kvs_trainer_gradients() first");
    loss_of(&f, &f.batch);
    assert_int_equal(kvs_trainer_read_gradient(out, 16, f.trainer, name, &err), KVS_OK);
    assert_int_equal(kvs_trainer_read_gradient(out, 15, f.trainer, name, &err), KVS_E_INVALID);
    assert_string_equal(err.message, "tensor 'model.norm.weight' has 16 values, 15 were given");
    assert_int_equal(kvs_trainer_read_gradient(out, 16, f.trainer, "nothing", &err), KVS_E_INVALID);
    assert_string_equal(err.message, "the model has no tensor 'nothing'");
    assert_int_equal(kvs_trainer_read_gradient(NULL, 16, f.trainer, name, &err), KVS_E_INVALID);
    assert_int_equal(kvs_trainer_read_gradient(out, 16, NULL, name, &err), KVS_E_INVALID);
    assert_int_equal(kvs_trainer_read_gradient(out, 16, f.trainer, NULL, &err), KVS_E_INVALID);
    assert_int_equal(kvs_trainer_step_batch(NULL, f.trainer, &f.batch, NULL), KVS_OK);
    assert_int_equal(kvs_trainer_read_gradient(out, 16, f.trainer, name, &err), KVS_E_INVALID);
    tear_down(&f);

    config.only_shift = 1; /* other tensors have no gradients */
    set_up(&f, &plain, &config);
    loss_of(&f, &f.batch);
    assert_int_equal(kvs_trainer_read_gradient(out, 8, f.trainer, taps, &err), KVS_OK);
    assert_int_equal(kvs_trainer_read_gradient(out, 16, f.trainer, name, &err), KVS_E_INVALID);
    assert_string_equal(err.message,
                        "tensor 'model.norm.weight' has no gradient: only the shift is trained");
    tear_down(&f);
}

static void gradients_that_diverge_are_refused(void **state)
{
    const kvs_train_config config = training();
    float gain[16], out[16];
    double loss;
    kvs_err err;
    fixture f;

    (void)state;
    set_up(&f, &plain, &config);
    for (size_t i = 0; i < 16; i++)
        gain[i] = NAN;
    assert_int_equal(kvs_model_write_tensor(f.model, "model.norm.weight", gain, 16, NULL), KVS_OK);
    assert_int_equal(kvs_trainer_gradients(&loss, f.trainer, &f.batch, &err), KVS_E_DIVERGED);
    assert_non_null(strstr(err.message, "weight 'model.norm.weight'"));
    assert_int_equal(kvs_trainer_read_gradient(out, 16, f.trainer, "model.norm.weight", &err),
                     KVS_E_INVALID);
    tear_down(&f);
}

static kvs_status ask_on_a_rank(const training_rank *r, void *user, kvs_err *err)
{
    kvs_status *found = user;
    arrays a;
    kvs_batch batch = make_arrays(&a);
    double loss;

    (void)err;
    batch.sequences = BATCH;
    found[r->comm->rank] = kvs_trainer_gradients(&loss, r->trainer, &batch, NULL);
    return KVS_OK;
}

static void gradients_need_a_single_process(void **state)
{
    kvs_status found[2] = {KVS_OK, KVS_OK};
    const training_setup setup = {.model = support_own_config(&plain, &model_sizes),
                                  .config = training(),
                                  .steps = ask_on_a_rank,
                                  .user = found};
    training_result result = training_on_ranks(2, &setup);

    (void)state;
    assert_int_equal(result.err.status, KVS_OK);
    assert_int_equal(found[0], KVS_E_UNSUPPORTED);
    assert_int_equal(found[1], KVS_E_UNSUPPORTED);
    kvsi_free(result.weights);
}

static void null_arguments_are_refused(void **state)
{
    const kvs_train_config config = training();
    kvs_evaluation evaluation = {.size = sizeof evaluation};
    kvs_trainer *trainer;
    double loss;
    kvs_err err;
    fixture f;

    (void)state;
    set_up(&f, &plain, &config);
    assert_int_equal(kvs_trainer_create(NULL, f.model, NULL, &config, &err), KVS_E_INVALID);
    assert_string_equal(err.message, "out is NULL");
    assert_int_equal(kvs_trainer_create(&trainer, NULL, NULL, &config, &err), KVS_E_INVALID);
    assert_string_equal(err.message, "model is NULL");
    assert_int_equal(kvs_trainer_create(&trainer, f.model, NULL, NULL, &err), KVS_E_INVALID);
    assert_string_equal(err.message, "config is NULL");
    assert_int_equal(kvs_trainer_step(NULL, NULL, &err), KVS_E_INVALID);
    assert_string_equal(err.message, "trainer is NULL");
    assert_int_equal(kvs_trainer_step_batch(NULL, NULL, &f.batch, &err), KVS_E_INVALID);
    assert_string_equal(err.message, "trainer is NULL");
    assert_int_equal(kvs_trainer_evaluate(NULL, f.trainer, 1, &err), KVS_E_INVALID);
    assert_int_equal(kvs_trainer_evaluate(&evaluation, NULL, 1, &err), KVS_E_INVALID);
    assert_int_equal(kvs_trainer_gradients(NULL, f.trainer, &f.batch, &err), KVS_E_INVALID);
    assert_string_equal(err.message, "loss is NULL");
    assert_int_equal(kvs_trainer_gradients(&loss, NULL, &f.batch, &err), KVS_E_INVALID);
    assert_int_equal(kvs_trainer_steps(NULL), 0);
    kvs_trainer_free(NULL);
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_on_batches_have_the_bits_of_steps_on_data),
        cmocka_unit_test(steps_on_batches_have_the_same_bits_on_ranks),
        cmocka_unit_test(small_batches_can_be_divided),
        cmocka_unit_test(the_loss_of_a_small_batch_is_its_own_mean),
        cmocka_unit_test(masks_and_next_ids_are_targets),
        cmocka_unit_test(nothing_is_allocated),
        cmocka_unit_test(gradients_are_those_of_a_step),
        cmocka_unit_test(gradients_match_differences),
        cmocka_unit_test(bad_batches_change_nothing),
        cmocka_unit_test(batches_may_be_as_long_as_the_data),
        cmocka_unit_test(calls_that_need_data_say_so),
        cmocka_unit_test(a_run_needs_no_evaluation),
        cmocka_unit_test(gradients_can_be_read_after_they_are_computed),
        cmocka_unit_test(gradients_that_diverge_are_refused),
        cmocka_unit_test(gradients_need_a_single_process),
        cmocka_unit_test(null_arguments_are_refused),
    };

    make_arrays(&all_sequences);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
