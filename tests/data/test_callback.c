/* Data whose sequences a callback writes.  Drawing and training use exactly these sequences.  If
 * the callback stops or writes a wrong sequence, the call fails and changes neither the model nor
 * the optimizer, on any number of ranks, and the run can be resumed. */
#include "base/files.h"
#include "base/memory.h"
#include "data/data.h"
#include "kvshift/kvshift_files.h"
#include "training.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { VOCAB = 24, LONGEST = 8, BATCH = 8 };

/* The mistakes that the callback of this test can make in one sequence.  STOPS means that it
 * returns length 0, which ends the training. */
typedef enum fault { NOTHING, STOPS, TOO_LONG, BAD_ID, FORGETS_ID, BAD_TARGET } fault;

/* The mistake of a callback, and the number of the sequence in which it makes it. */
typedef struct script {
    fault fault;
    kvs_stream stream;
    uint64_t at; /* index of the sequence */
} script;

/* The callback.  Sequences are "a b ... a", whose last target is b; the length is 3 to LONGEST. */
static size_t sequence(void *user, uint64_t seed, kvs_stream stream, uint64_t index, int32_t *ids,
                       int32_t *targets, uint8_t *scored)
{
    script *s = user;
    const fault now = s->stream == stream && s->at == index ? s->fault : NOTHING;
    const size_t length = 3 + (size_t)(index * 7 + seed) % (LONGEST - 2);

    for (size_t i = 0; i < LONGEST; i++)
        assert_int_equal(scored[i], 0);
    for (size_t i = 0; i < length; i++) {
        ids[i] = (int32_t)((index * 5 + (uint64_t)stream * 3 + i * (1 + index % 4)) % (VOCAB - 1));
        targets[i] = -1;
    }
    ids[length - 1] = ids[0];
    targets[length - 1] = ids[1];
    scored[length - 1] = 1;
    if (now == BAD_ID)
        ids[1] = VOCAB;
    if (now == FORGETS_ID)
        ids[2] = -1;
    if (now == BAD_TARGET)
        targets[1] = -2;
    return now == STOPS ? 0 : now == TOO_LONG ? LONGEST + 1 : length;
}

static kvs_data *make(script *s)
{
    kvs_data_source source;
    kvs_data *data;
    kvs_err err;

    kvs_data_source_init(&source, sizeof source);
    source.vocab = VOCAB;
    source.max_length = LONGEST;
    source.mean_length = 5.5;
    source.name = "pairs";
    source.sequence = sequence;
    source.user = s;
    if (kvs_data_create_callback(&data, &source, &err) != KVS_OK)
        fail_msg("%s", err.message);
    return data;
}

static kvs_train_config training(void)
{
    kvs_train_config c;

    kvsi_train_config_init(&c);
    c.batch = BATCH;
    c.steps = 6;
    c.warmup = 2;
    c.seed = 11;
    return c;
}

static kvs_model_config model_config(void)
{
    static const support_sizes sizes = {.vocab = VOCAB, .dim = 16, .ffn = 24, .context = LONGEST};
    const kvs_model_config special = {.layers = 1, SUPPORT_SHIFT(KVS_SHIFT_K, FREE, 1)};

    return support_own_config(&special, &sizes);
}

static kvs_model *make_model(kvs_runtime *rt)
{
    const kvs_model_config config = model_config();
    kvs_model *model;

    assert_int_equal(kvs_model_create(&model, rt, &config, 5, NULL), KVS_OK);
    return model;
}

/* ---- drawing --------------------------------------------------------------------------------- */

static void sequences_are_those_of_the_callback(void **state)
{
    script s = {.fault = NOTHING};
    kvs_data *data = make(&s);
    int32_t ids[LONGEST], targets[LONGEST], own_ids[LONGEST], own_targets[LONGEST];
    uint8_t scored[LONGEST], own_scored[LONGEST];

    (void)state;
    assert_int_equal(kvs_data_vocab(data), VOCAB);
    assert_int_equal(kvs_data_max_length(data), LONGEST);
    for (uint64_t i = 0; i < 60; i++) {
        const kvs_stream stream = i % 2 == 0 ? KVS_STREAM_TRAIN : KVS_STREAM_EVAL;
        size_t length;

        memset(own_scored, 0, sizeof own_scored);
        memset(scored, 0x55, sizeof scored);
        length = sequence(&s, 4, stream, i, own_ids, own_targets, own_scored);
        assert_int_equal(kvs_data_sequence(ids, targets, scored, data, 4, stream, i), length);
        assert_memory_equal(ids, own_ids, length * sizeof *ids);
        assert_memory_equal(targets, own_targets, length * sizeof *targets);
        assert_memory_equal(scored, own_scored, length);
    }
    kvs_data_free(data);
}

static const struct {
    fault fault;
    kvs_status status;
    const char *message; /* what follows "'pairs'" if the fault is at training sequence 19 */
} faults[] = {
    {STOPS, KVS_E_STOPPED, " stopped at training sequence 19"},
    {TOO_LONG, KVS_E_INVALID, ": training sequence 19 has 9 tokens, expected at most 8"},
    {BAD_ID, KVS_E_INVALID, ": training sequence 19 has id 24 at position 1, expected 0 to 23"},
    {FORGETS_ID, KVS_E_INVALID, ": training sequence 19 has id -1 at position 2, expected 0 to 23"},
    {BAD_TARGET, KVS_E_INVALID,
     ": training sequence 19 has target -2 at position 1, expected -1 to 23"},
};

enum { FAULTS = sizeof faults / sizeof *faults };

static void a_wrong_sequence_has_length_0(void **state)
{
    int32_t ids[LONGEST], targets[LONGEST];
    uint8_t scored[LONGEST];

    (void)state;
    for (size_t f = 0; f < FAULTS; f++) {
        script s = {.fault = faults[f].fault, .stream = KVS_STREAM_EVAL, .at = 3};
        kvs_data *data = make(&s);

        assert_int_equal(kvs_data_sequence(ids, targets, scored, data, 1, KVS_STREAM_EVAL, 3), 0);
        assert_true(kvs_data_sequence(ids, targets, scored, data, 1, KVS_STREAM_EVAL, 4) > 0);
        kvs_data_free(data);
    }
}

/* ---- training -------------------------------------------------------------------------------- */

/* A training of two steps, a step that fails at sequence 19 = 2 * BATCH + 3, and the same step
 * again without the fault.  Its bits must be those of a training in which no step failed. */
typedef struct trial {
    script scripts[RANKS_MAX];
    size_t ranks;
    fault fault;
    kvsi_shard_stage shard;
    int deterministic;
    double losses[4];
    float weights[RANKS_MAX][8]; /* the taps after the last step */
    kvs_status failed, evaluated;
    char message[RANKS_MAX][512];
    uint64_t steps;
    int changed[RANKS_MAX]; /* the failed step changed weights or moments of the rank */
} trial;

/* Returns a hash of the weights and moments of this rank. */
static uint64_t fingerprint(kvs_trainer *trainer)
{
    const kvsi_training_state s = kvsi_trainer_state(trainer);
    const size_t count = s.layout->total;
    uint64_t sum = 0;

    for (size_t i = 0; i < count; i++) {
        uint32_t bits[3];

        memcpy(&bits[0], &s.mean[i], sizeof bits[0]);
        memcpy(&bits[1], &s.square[i], sizeof bits[1]);
        memcpy(&bits[2], &s.model->parameters[i], sizeof bits[2]);
        for (size_t k = 0; k < 3; k++)
            sum = (sum ^ bits[k]) * UINT64_C(0x100000001b3);
    }
    return sum;
}

static kvs_data *data_of_rank(size_t rank, void *user)
{
    trial *t = user;

    return make(&t->scripts[rank]);
}

static kvs_status steps_with_a_fault(const training_rank *r, void *user, kvs_err *err)
{
    trial *t = user;
    const size_t rank = r->comm->rank;
    script *s = &t->scripts[rank];
    kvs_evaluation evaluation = {.size = sizeof evaluation};
    const kvs_step_record *record;
    kvs_err why = {0};
    kvs_status failed;
    uint64_t before;

    for (size_t i = 0; i < 2; i++) {
        TRY(kvs_trainer_step(&record, r->trainer, err));
        if (rank == 0)
            t->losses[i] = record->loss;
    }
    s->fault = t->fault;
    s->at = 19;
    before = fingerprint(r->trainer);
    failed = t->fault == NOTHING ? KVS_OK : kvs_trainer_step(&record, r->trainer, &why);
    if (rank == 0) {
        t->failed = failed;
        t->steps = kvs_trainer_steps(r->trainer);
    }
    t->changed[rank] = fingerprint(r->trainer) != before;
    snprintf(t->message[rank], sizeof t->message[0], "%s", why.message);
    s->stream = KVS_STREAM_EVAL; /* the evaluation fails at its sequence 19 */
    if (t->fault != NOTHING) {
        failed = kvs_trainer_evaluate(&evaluation, r->trainer, 64, &why);
        if (rank == 0)
            t->evaluated = failed;
    }
    s->fault = NOTHING;
    TRY(kvs_trainer_step(&record, r->trainer, err));
    if (rank == 0)
        t->losses[2] = record->loss;
    TRY(kvs_trainer_evaluate(&evaluation, r->trainer, 64, err));
    if (rank == 0)
        t->losses[3] = evaluation.loss;
    return kvs_model_read_tensor(t->weights[rank], 8, r->model, "model.layers.0.self_attn.k_shift",
                                 err);
}

static void run_trial(trial *t)
{
    training_setup setup = {.model = model_config(),
                            .model_seed = 5,
                            .config = training(),
                            .make_data = data_of_rank,
                            .steps = steps_with_a_fault,
                            .user = t};
    training_result result;

    setup.config.shard = t->shard;
    setup.config.deterministic = t->deterministic;
    result = training_on_ranks(t->ranks, &setup);
    if (result.err.status != KVS_OK)
        fail_msg("%zu ranks: %s", t->ranks, result.err.message);
    kvsi_free(result.weights);
}

/* Checks that each fault fails a step and an evaluation, and changes nothing else. */
static void check_faults(size_t ranks, kvsi_shard_stage shard, int deterministic)
{
    trial usual = {.ranks = ranks, .shard = shard, .deterministic = deterministic};

    run_trial(&usual);
    assert_true(usual.losses[3] > 0);
    for (size_t f = 0; f < FAULTS; f++) {
        trial t = {.ranks = ranks,
                   .shard = shard,
                   .deterministic = deterministic,
                   .fault = faults[f].fault};

        run_trial(&t);
        assert_int_equal(t.failed, faults[f].status);
        assert_int_equal(t.evaluated, faults[f].status);
        assert_int_equal(t.steps, 2);
        for (size_t r = 0; r < ranks; r++) {
            assert_false(t.changed[r]);
            if (!strstr(t.message[r], faults[f].message))
                fail_msg("rank %zu of %zu: '%s', expected '%s'", r, ranks, t.message[r],
                         faults[f].message);
        }
        assert_memory_equal(t.losses, usual.losses, sizeof t.losses);
        assert_memory_equal(t.weights, usual.weights, sizeof t.weights);
    }
}

static void a_wrong_sequence_changes_nothing(void **state)
{
    (void)state;
    check_faults(1, KVSI_SHARD_NONE, 0);
    check_faults(1, KVSI_SHARD_NONE, 1);
}

static void a_wrong_sequence_changes_nothing_on_any_rank(void **state)
{
    (void)state;
    check_faults(2, KVSI_SHARD_NONE, 0);
    check_faults(2, KVSI_SHARD_OPTIMIZER, 0);
    check_faults(4, KVSI_SHARD_GRADIENTS, 1);
    check_faults(4, KVSI_SHARD_PARAMETERS, 0);
}

/* ---- whole runs ------------------------------------------------------------------------------ */

static void read_weights(float out[8], const kvs_model *model)
{
    assert_int_equal(kvs_model_read_tensor(out, 8, model, "model.layers.0.self_attn.k_shift", NULL),
                     KVS_OK);
}

/* Trains in the folder; `taps` receives the final taps. */
static kvs_status run_in(const char *dir, script *s, kvs_resume resume, float taps[8], kvs_err *err)
{
    kvs_train_config config = training();
    kvs_runtime *rt = support_runtime(NULL);
    kvs_model *model = make_model(rt);
    kvs_data *data = make(s);
    kvs_train_options options;
    kvs_status st;

    config.eval_sequences = 20;
    config.checkpoint_every = 2;
    kvs_train_options_init(&options, sizeof options);
    options.out = dir;
    options.resume = resume;
    st = kvs_train(NULL, model, data, &config, &options, err);
    read_weights(taps, model);
    kvs_data_free(data);
    kvs_model_free(model);
    kvs_runtime_free(rt);
    return st;
}

static void a_run_that_stops_can_be_resumed(void **state)
{
    char *base = support_make_dir(), *whole = kvsi_path_join(base, "whole");
    script usual = {.fault = NOTHING};
    float expected[8], found[8];
    kvs_err err;

    (void)state;
    if (run_in(whole, &usual, KVS_RESUME_NEVER, expected, &err) != KVS_OK)
        fail_msg("%s", err.message);
    for (size_t f = 0; f < FAULTS; f++)
        for (int late = 0; late < 2; late++) { /* in step 2, before any checkpoint, or in step 5 */
            char name[32], *dir;
            script s = {.fault = faults[f].fault, .at = late ? 35 : 12};

            snprintf(name, sizeof name, "%zu-%d", f, late);
            dir = kvsi_path_join(base, name);
            assert_int_equal(run_in(dir, &s, KVS_RESUME_NEVER, found, &err), faults[f].status);
            assert_non_null(strstr(err.message, "training sequence"));
            s.fault = NOTHING;
            if (run_in(dir, &s, KVS_RESUME_AUTO, found, &err) != KVS_OK)
                fail_msg("%s", err.message);
            assert_memory_equal(found, expected, sizeof found);
            kvsi_free(dir);
        }
    kvsi_free(whole);
    support_remove_dir(base);
}

/* A batch without any target has no mean loss. */
static size_t no_targets(void *user, uint64_t seed, kvs_stream stream, uint64_t index, int32_t *ids,
                         int32_t *targets, uint8_t *scored)
{
    (void)user, (void)seed, (void)stream, (void)scored;
    ids[0] = (int32_t)(index % VOCAB);
    targets[0] = -1;
    return 1;
}

static void a_step_needs_a_target(void **state)
{
    kvs_runtime *rt = support_runtime(NULL);
    kvs_model *model = make_model(rt);
    const kvs_train_config config = training();
    kvs_data_source source;
    kvs_data *data;
    kvs_trainer *trainer;
    uint64_t before;
    kvs_err err;

    (void)state;
    kvs_data_source_init(&source, sizeof source);
    source.vocab = VOCAB;
    source.max_length = 2;
    source.sequence = no_targets;
    assert_int_equal(kvs_data_create_callback(&data, &source, NULL), KVS_OK);
    assert_int_equal(kvs_trainer_create(&trainer, model, data, &config, NULL), KVS_OK);
    before = fingerprint(trainer);
    assert_int_equal(kvs_trainer_step(NULL, trainer, &err), KVS_E_INVALID);
    assert_string_equal(err.message, "step 1: none of its 8 sequences has a target");
    assert_true(fingerprint(trainer) == before);
    assert_int_equal(kvs_trainer_steps(trainer), 0);
    kvs_trainer_free(trainer);
    kvs_data_free(data);
    kvs_model_free(model);
    kvs_runtime_free(rt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sequences_are_those_of_the_callback),
        cmocka_unit_test(a_wrong_sequence_has_length_0),
        cmocka_unit_test(a_wrong_sequence_changes_nothing),
        cmocka_unit_test(a_wrong_sequence_changes_nothing_on_any_rank),
        cmocka_unit_test(a_run_that_stops_can_be_resumed),
        cmocka_unit_test(a_step_needs_a_target),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
