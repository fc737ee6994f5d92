/* A backend whose memory the host cannot read: training, sessions, scoring and checkpoints have the
 * bits of the reference backend, and a failed operation becomes a status. */
#include "base/files.h"
#include "base/memory.h"
#include "convert/convert.h"
#include "data/tasks/tasks.h"
#include "device.h"
#include "family.h"
#include "kvshift/kvshift_lab.h"
#include "model_files.h"
#include "train/trainer.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- results, as bytes ---- */

static void keep(kvsi_text *out, const void *data, size_t bytes)
{
    put_bytes(out, data, bytes);
}

static void keep_tensors(kvsi_text *out, const kvs_model *model)
{
    for (size_t i = 0; i < model->layout.count; i++) {
        const kvsi_parameter *p = &model->layout.list[i];
        float *values = tensor_numbers(model, p, 0);

        keep(out, values, p->count * sizeof *values);
        kvsi_free(values);
    }
}

typedef void work(kvs_runtime *rt, kvsi_text *out, const void *about);

/* Runs a job on the reference backend and on the device. */
static void expect_same(const char *name, work *run, const void *about)
{
    kvsi_text expected = {0}, found = {0};
    kvs_runtime *reference = support_runtime("reference"), *rt;
    device *d = device_create();

    rt = device_runtime(d);
    run(reference, &expected, about);
    run(rt, &found, about);
    assert_true(device_operations(d) > 0 && expected.data && found.data);
    if (found.length != expected.length || memcmp(found.data, expected.data, found.length) != 0)
        fail_msg("%s: the device differs from the reference", name);
    kvs_runtime_free(rt);
    kvs_runtime_free(reference);
    device_free(d);
    kvsi_text_release(&expected);
    kvsi_text_release(&found);
}

/* ---- the device itself ---- */

static void host_reads_trap(void **state)
{
    device *d = device_create();
    kvs_runtime *rt = device_runtime(d);
    const kvs_model_config special = {.kv_heads = 2};
    const support_sizes sizes = {.vocab = 11, .dim = 16, .ffn = 20, .context = 8};
    const kvs_model_config config = support_config(&special, &sizes);
    kvs_model *model = support_model(rt, &config, 1);
    int status = 0;
    pid_t child;

    (void)state;
    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL); /* sanitizers have a handler */
        _exit(model->parameters[0] == 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    kvs_model_free(model);
    kvs_runtime_free(rt);
    device_free(d);
}

/* ---- forward, loss and backward ---- */

enum { TOKENS = 21, SEQUENCES = 3 };

/* One batch, with dropout if the model has it. */
static void run_batch(kvs_runtime *rt, kvsi_text *out, const void *about)
{
    static const size_t starts[SEQUENCES + 1] = {0, 8, 9, TOKENS};
    const kvs_model_config *config = about;
    const support_dropout dropout = {.seed = 3, .number = 5};
    kvs_model *model = support_model(rt, config, 11);
    int32_t ids[TOKENS], targets[TOKENS];
    const kvs_batch batch = {
        .sequences = SEQUENCES, .starts = starts, .ids = ids, .targets = targets};
    support_result result;

    support_fill_ids(ids, TOKENS, 1, config->vocab);
    support_fill_ids(targets, TOKENS, 2, config->vocab);
    result = support_train(model, &batch, &dropout);
    keep(out, &result.loss, sizeof result.loss);
    keep(out, result.logits,
         TOKENS * kvsi_pass_logit_count(&model->config) * sizeof *result.logits);
    keep(out, result.gradients, kvsi_layout_total(&model->layout) * sizeof *result.gradients);
    support_result_release(&result);
    kvs_model_free(model);
}

/* The family is listed for every level; only the configurations are needed here. */
static void check_batch(const kvs_model *model, const char *name)
{
    kvs_model_config config = model->config;

    if (model->context.ops != &kvsi_reference_ops)
        return;
    expect_same(name, run_batch, &config);
    config.dropout_attention = config.dropout_residual = config.dropout_embedding = 0.2;
    expect_same(name, run_batch, &config);
}

static const family_scope scope = {.sizes = {.vocab = 13, .dim = 24, .ffn = 20, .context = 16}};

static void batches_of_all_models(void **state)
{
    (void)state;
    family_each_model(&scope, check_batch);
}

static void batches_of_all_shifts(void **state)
{
    (void)state;
    family_each_shift(&scope, check_batch);
}

/* ---- training ---- */

enum { VOCAB = 40, STEPS = 3 };

typedef struct training {
    kvs_model_config special;
    int recompute, only_shift, deterministic;
    kvsi_precision precision;
    kvsi_pack_weights pack_weights;
    const char *name;
} training;

#define KV_SHIFT SUPPORT_SHIFT(KVS_SHIFT_K | KVS_SHIFT_V, FREE, 1)
#define QKV_DATA SUPPORT_SHIFT(KVS_SHIFT_Q | KVS_SHIFT_K | KVS_SHIFT_V, DATA, 1)
#define DROPOUT .dropout_attention = 0.1, .dropout_residual = 0.2, .dropout_embedding = 0.1

#define ADAPTERS(names) .lora = {.rank = 2, .alpha = 3, .on = (names)}

static const training trainings[] = {
    {.name = "llama", .special = {KV_SHIFT, .kv_heads = 2}},
    {.name = "recomputed", .special = {QKV_DATA, .kv_heads = 2, DROPOUT}, .recompute = 1},
    {.name = "gpt2", .special = {KV_SHIFT, .body = KVSI_BODY_GPT2, .tied = 1, DROPOUT}},
    {.name = "sliding", .special = {KV_SHIFT, .sliding_window = 5}, .deterministic = 1},
    {.name = "only the shift", .special = {KV_SHIFT, .kv_heads = 2}, .only_shift = 1},
    {.name = "adapters", .special = {KV_SHIFT, .kv_heads = 2, ADAPTERS("*_proj")}},
    {.name = "adapters, recomputed",
     .special = {KV_SHIFT, .body = KVSI_BODY_GPT2, .tied = 1, ADAPTERS("c_attn,c_fc")},
     .recompute = 1,
     .deterministic = 1},
    {.name = "adapters, bf16",
     .special = {QKV_DATA, .head = KVSI_HEAD_NORMALISED, ADAPTERS("q_proj,down_proj")},
     .precision = KVSI_PRECISION_BF16,
     .pack_weights = KVSI_PACK_YES},
    {.name = "normalised head", .special = {KV_SHIFT, .head = KVSI_HEAD_NORMALISED}},
    {.name = "bf16", .special = {QKV_DATA, .kv_heads = 2}, .precision = KVSI_PRECISION_BF16},
    {.name = "bf16, recomputed",
     .special = {KV_SHIFT, .body = KVSI_BODY_GPT2},
     .recompute = 1,
     .precision = KVSI_PRECISION_BF16},
    {.name = "packed weights",
     .special = {KV_SHIFT, .body = KVSI_BODY_GPT2, .tied = 1, .kv_heads = 2},
     .pack_weights = KVSI_PACK_YES},
    {.name = "packed weights, normalised head",
     .special = {QKV_DATA, .head = KVSI_HEAD_NORMALISED},
     .recompute = 1,
     .pack_weights = KVSI_PACK_YES},
};

static kvs_model_config config_of(const training *t)
{
    static const support_sizes sizes = {.vocab = VOCAB, .dim = 16, .ffn = 20, .context = 32};

    return support_config(&t->special, &sizes);
}

static kvs_data *make_task(void)
{
    kvsi_induction_config c;
    kvs_data *task;

    kvsi_induction_config_init(&c);
    c.vocab = VOCAB;
    c.pool = 20;
    c.max_length = 20;
    c.loss = KVSI_LOSS_ALL;
    assert_int_equal(kvsi_induction_create(&task, &c, NULL), KVS_OK);
    return task;
}

static kvs_train_config train_config(const training *t)
{
    kvs_train_config c;

    kvsi_train_config_init(&c);
    c.batch = 8;
    c.steps = STEPS;
    c.warmup = 0;
    c.recompute = t->recompute;
    c.only_shift = t->only_shift;
    c.deterministic = t->deterministic;
    c.precision = t->precision;
    c.pack_weights = t->pack_weights;
    return c;
}

static void run_trainer(kvs_runtime *rt, kvsi_text *out, const void *about)
{
    const training *t = about;
    const kvs_model_config config = config_of(t);
    const kvs_train_config train = train_config(t);
    kvs_data *task = make_task();
    kvs_trainer *trainer;
    kvs_evaluation evaluation = {.size = sizeof(kvs_evaluation)};
    kvs_model *model;

    assert_int_equal(kvs_model_create(&model, rt, &config, 7, NULL), KVS_OK);
    assert_int_equal(kvs_trainer_create(&trainer, model, task, &train, NULL), KVS_OK);
    for (int i = 0; i < STEPS; i++) {
        kvs_step_record record;

        assert_int_equal(kvsi_trainer_step(trainer, &record, NULL), KVS_OK);
        keep(out, &record.loss, sizeof record.loss);
        keep(out, &record.grad_norm, sizeof record.grad_norm);
    }
    assert_int_equal(kvs_trainer_evaluate(&evaluation, trainer, 10, NULL), KVS_OK);
    keep(out, &evaluation.loss, sizeof evaluation.loss);
    keep_tensors(out, model);
    kvs_trainer_free(trainer);
    kvs_model_free(model);
    kvs_data_free(task);
}

static void training_steps(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof trainings / sizeof *trainings; i++)
        expect_same(trainings[i].name, run_trainer, &trainings[i]);
}

static int stop_at_2(void *user, const kvs_step_record *record)
{
    (void)user;
    return record->step == 2 ? KVS_PROGRESS_STOP : 0;
}

/* A run that is stopped and resumed from its checkpoint. */
static void run_and_resume(kvs_runtime *rt, kvsi_text *out, const void *about)
{
    const training *t = about;
    const kvs_model_config config = config_of(t);
    char *dir = support_make_dir(), *run = kvsi_path_join(dir, "run");
    kvs_data *task = make_task();
    kvsi_train_job job = {
        .data = task, .out = run, .progress = stop_at_2, .config = train_config(t)};
    kvs_train_result result = {.size = sizeof(kvs_train_result)};
    kvs_err err;

    job.config.eval_sequences = 10;
    job.config.keep = 0;
    for (int part = 0; part < 2; part++) {
        if (kvs_model_create(&job.model, rt, &config, 7, &err) != KVS_OK ||
            kvsi_train(&job, &result, &err) != KVS_OK)
            fail_msg("%s", err.message);
        keep_tensors(out, job.model);
        kvs_model_free(job.model);
        job.progress = NULL;
        job.resume = KVS_RESUME_ALWAYS;
    }
    kvs_data_free(task);
    kvsi_free(run);
    support_remove_dir(dir);
}

static void checkpoints_and_resumption(void **state)
{
    (void)state;
    expect_same("a run", run_and_resume, &trainings[0]);
}

/* ---- running models ---- */

enum { CONTEXT = 140, FED = 70, FEW = 9, WIDTH = 32, SMALL_VOCAB = 19 };

typedef struct running {
    const char *name;
    kvs_model_config special;
    kvs_dtype weights; /* of the file */
    kvs_dtype cache;
    int hf; /* a folder of safetensors, otherwise GGUF */
} running;

static const running runnings[] = {
    {"Q8_0", {.kv_heads = 2}, KVS_DTYPE_Q8_0, KVS_DTYPE_F32, 0},
    {"Q4_0, shifted, f16 cache", {KV_SHIFT, .kv_heads = 2}, KVS_DTYPE_Q4_0, KVS_DTYPE_F16, 0},
    {"BF16, data", {QKV_DATA, .kv_heads = 2}, KVS_DTYPE_BF16, KVS_DTYPE_F32, 1},
    {"F16, sliding", {KV_SHIFT, .sliding_window = 5, .tied = 1}, KVS_DTYPE_F16, KVS_DTYPE_F32, 1},
    {"F32, gpt2",
     {KV_SHIFT, .body = KVSI_BODY_GPT2, .kv_heads = 4},
     KVS_DTYPE_F32,
     KVS_DTYPE_F32,
     1},
};

/* Opens the same random weights in a file. */
static kvs_model *open_model(kvs_runtime *rt, const running *r, const char *dir)
{
    static const support_sizes sizes = {
        .vocab = SMALL_VOCAB, .dim = WIDTH, .ffn = 32, .context = CONTEXT};
    const kvs_model_config config = support_config(&r->special, &sizes);
    char *path = kvsi_path_join(dir, r->hf ? "hf" : "model.gguf");
    kvsi_convert_request options;
    kvs_model *model = NULL;
    kvs_err err;

    kvsi_convert_request_init(&options);
    options.how.config = &config;
    options.how.seed = 5;
    options.out = path;
    options.how.format = r->hf ? KVS_FORMAT_HF : KVS_FORMAT_GGUF;
    options.how.dtype = r->weights;
    options.how.threads = 1;
    if (kvsi_convert(&options, &err) != KVS_OK ||
        kvs_model_load(&model, rt, path,
                       &(kvs_load_options){.size = sizeof(kvs_load_options), .mapped = 1},
                       &err) != KVS_OK)
        fail_msg("%s: %s", r->name, err.message);
    kvsi_free(path);
    return model;
}

static void feed(kvs_session *session, const int32_t *ids, size_t count, kvsi_text *out)
{
    float logits[SMALL_VOCAB];

    assert_int_equal(kvs_session_feed(session, ids, count, logits, NULL), KVS_OK);
    keep(out, logits, sizeof logits);
}

/* Adds the results for each token, of two calls, to `out`. */
static void feed_asking(kvs_session *session, const int32_t *ids, kvsi_text *out)
{
    enum { COUNT = 12, TOP = 3 };

    for (size_t at = 0; at < 2 * COUNT; at += COUNT) {
        double own[COUNT], logprobs[COUNT * TOP];
        int32_t best[COUNT * TOP];
        const kvs_feed feed = {.size = sizeof feed,
                               .session = session,
                               .ids = ids + at,
                               .count = COUNT,
                               .own_logprobs = own,
                               .top = TOP,
                               .top_ids = best,
                               .top_logprobs = logprobs};

        assert_int_equal(kvs_runner_feed(NULL, &feed, 1, NULL), KVS_OK);
        own[0] = isnan(own[0]) ? 1 : own[0]; /* the first token of a session has NaN */
        keep(out, own, sizeof own);
        keep(out, best, sizeof best);
        keep(out, logprobs, sizeof logprobs);
    }
}

/* Uses a session for prefill, decoding, copies, a rewind, a file, its own taps and results for each
 * token. */
static void run_session(kvs_runtime *rt, kvsi_text *out, const void *about)
{
    const running *r = about;
    char *dir = support_make_dir(), *saved = kvsi_path_join(dir, "a.session");
    kvs_model *model = open_model(rt, r, dir);
    const kvs_session_options options = {
        .size = sizeof(kvs_session_options), .capacity = CONTEXT, .cache = r->cache};
    const double taps[] = {0.5, 0.25, 0.125, 0.75};
    kvs_session *session, *other;
    int32_t ids[CONTEXT];

    support_fill_ids(ids, CONTEXT, 9, SMALL_VOCAB);
    assert_int_equal(kvs_session_create(&session, model, &options, NULL), KVS_OK);
    feed(session, ids, FED, out);
    for (size_t i = FED; i < FED + 5; i++)
        feed(session, ids + i, 1, out);
    assert_int_equal(kvs_session_copy(&other, session, SIZE_MAX, NULL, NULL), KVS_OK);
    feed(other, ids, 3, out);
    kvs_session_free(other);
    assert_int_equal(kvs_session_rewind(session, FED - 2, NULL), KVS_OK);
    feed(session, ids + 7, 4, out);
    assert_int_equal(kvs_session_save(session, saved, NULL), KVS_OK);
    feed(session, ids + 1, 2, out);
    assert_int_equal(kvs_session_load(&other, model, saved, NULL, NULL), KVS_OK);
    feed(other, ids + 1, 2, out);
    kvs_session_free(other);
    kvs_session_reset(session);
    feed(session, ids + 2, 6, out);
    assert_int_equal(kvs_session_copy(&other, session, 4, NULL, NULL), KVS_OK);
    feed(other, ids, 2, out);
    kvs_session_free(other);
    kvs_session_reset(session);
    if (kvs_session_set_taps(session, 0, KVS_SHIFT_K, 1, taps, NULL) == KVS_OK)
        feed(session, ids, 9, out);
    kvs_session_reset(session);
    feed_asking(session, ids, out);
    kvs_session_free(session);
    keep_tensors(out, model);
    kvs_model_free(model);
    kvsi_free(saved);
    support_remove_dir(dir);
}

static void keep_pattern(void *user, const kvs_pattern *pattern)
{
    const size_t n = pattern->tokens * pattern->tokens;

    keep(user, pattern->places, n * sizeof *pattern->places);
    keep(user, pattern->contents, n * sizeof *pattern->contents);
}

/* Likelihoods, perplexity with a reference, attention patterns. */
static void run_scores(kvs_runtime *rt, kvsi_text *out, const void *about)
{
    const running *r = about;
    char *dir = support_make_dir();
    kvs_model *model = open_model(rt, r, dir);
    const kvs_perplexity_options options = {
        .window = 32, .stride = 16, .reference = model, .cache = r->cache};
    const kvs_session_options session_options = {
        .size = sizeof(kvs_session_options), .capacity = CONTEXT, .cache = r->cache};
    double logprobs[FED];
    kvs_perplexity_result perplexity;
    double sum;
    int greedy;
    kvs_session *session;
    int32_t ids[FED];

    support_fill_ids(ids, FED, 4, SMALL_VOCAB);
    assert_int_equal(kvs_session_create(&session, model, &session_options, NULL), KVS_OK);
    assert_int_equal(kvs_score(&sum, &greedy, logprobs, session, ids, FED, 20, 0, NULL), KVS_OK);
    keep(out, logprobs, (FED - 20) * sizeof *logprobs);
    keep(out, &sum, sizeof sum);
    kvs_session_free(session);
    assert_int_equal(kvs_perplexity(&perplexity, model, ids, FED, &options, NULL), KVS_OK);
    keep(out, &perplexity.loss, sizeof perplexity.loss);
    keep(out, &perplexity.divergence, sizeof perplexity.divergence);
    assert_int_equal(kvs_patterns(model, ids, 12, keep_pattern, out, NULL), KVS_OK);
    kvs_model_free(model);
    support_remove_dir(dir);
}

static void sessions_and_scores(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof runnings / sizeof *runnings; i++) {
        expect_same(runnings[i].name, run_session, &runnings[i]);
        expect_same(runnings[i].name, run_scores, &runnings[i]);
    }
}

/* A shift is added to a loaded model, and both are saved again. */
static void run_retrofit(kvs_runtime *rt, kvsi_text *out, const void *about)
{
    const kvs_model_config shift = {
        .shift = {.targets = KVS_SHIFT_K, .form = KVSI_SHIFT_FREE, .window = 1}};
    char *dir = support_make_dir();
    kvs_model *model = small_model(rt, 0), *shifted, *loaded;

    (void)about;
    assert_int_equal(kvs_model_retrofit(&shifted, rt, model, &shift, NULL), KVS_OK);
    assert_int_equal(kvs_model_save(shifted, dir, NULL), KVS_OK);
    assert_int_equal(kvs_model_load(&loaded, rt, dir, NULL, NULL), KVS_OK);
    keep_tensors(out, loaded);
    kvs_model_free(loaded);
    kvs_model_free(shifted);
    kvs_model_free(model);
    support_remove_dir(dir);
}

static void files_and_retrofit(void **state)
{
    (void)state;
    expect_same("retrofit", run_retrofit, NULL);
}

/* ---- failures ---- */

/* If any operation fails, the step or the next one returns the status. */
static void failed_training_is_reported(void **state)
{
    const training *t = &trainings[1];
    const kvs_model_config config = config_of(t);
    const kvs_train_config train = train_config(t);
    kvs_data *task = make_task();
    device *d = device_create();
    kvs_runtime *rt = device_runtime(d);
    size_t failed = 0;
    kvs_status st;

    (void)state;
    do {
        kvs_trainer *trainer;
        kvs_model *model;
        kvs_err err = {0};

        device_fail_at(d, SIZE_MAX);
        assert_int_equal(kvs_model_create(&model, rt, &config, 7, NULL), KVS_OK);
        assert_int_equal(kvs_trainer_create(&trainer, model, task, &train, NULL), KVS_OK);
        device_fail_at(d, failed);
        st = kvsi_trainer_step(trainer, NULL, &err);
        if (st == KVS_OK && device_operations(d) > failed)
            st = kvsi_trainer_step(trainer, NULL, &err);
        if (st != KVS_OK) {
            assert_int_equal(st, KVS_E_IO);
            assert_string_equal(err.message, "an operation of backend 'device' failed");
            assert_int_equal(kvsi_trainer_step(trainer, NULL, NULL), KVS_E_IO); /* still fails */
        }
        kvs_trainer_free(trainer);
        kvs_model_free(model);
        failed += 7; /* every seventh operation covers all kinds in less time */
    } while (st != KVS_OK);
    assert_true(failed > 100);
    kvs_data_free(task);
    kvs_runtime_free(rt);
    device_free(d);
}

static void failed_sessions_are_reported(void **state)
{
    device *d = device_create();
    kvs_runtime *rt = device_runtime(d);
    char *dir = support_make_dir(), *saved = kvsi_path_join(dir, "a.session");
    kvs_model *model = open_model(rt, &runnings[3], dir);
    int32_t ids[FED];
    kvs_status st;

    (void)state;
    support_fill_ids(ids, FED, 9, SMALL_VOCAB);
    for (size_t failed = 0, done = 0; !done; failed++) {
        float logits[SMALL_VOCAB];
        kvs_session *session;

        device_fail_at(d, SIZE_MAX);
        assert_int_equal(
            kvs_session_create(
                &session, model,
                &(kvs_session_options){.size = sizeof(kvs_session_options), .capacity = CONTEXT},
                NULL),
            KVS_OK);
        device_fail_at(d, failed);
        st = kvs_session_feed(session, ids, FEW, logits, NULL);
        done = device_operations(d) <= failed;
        assert_int_equal(st, done ? KVS_OK : KVS_E_IO);
        if (done)
            device_fail_at(d, SIZE_MAX); /* the calls below must not fail */
        assert_int_equal(kvs_session_save(session, saved, NULL), done ? KVS_OK : KVS_E_IO);
        assert_int_equal(kvs_session_rewind(session, 5, NULL), KVS_OK); /* reads no results */
        assert_int_equal(kvs_session_logits(logits, session, NULL), done ? KVS_OK : KVS_E_IO);
        kvs_session_free(session);
    }
    device_fail_at(d, SIZE_MAX);
    kvs_model_free(model);
    kvsi_free(saved);
    support_remove_dir(dir);
    kvs_runtime_free(rt);
    device_free(d);
}

static void failed_models_are_not_made(void **state)
{
    const kvs_model_config config = config_of(&trainings[0]);
    device *d = device_create();
    kvs_runtime *rt = device_runtime(d);
    kvs_model *model;

    (void)state;
    device_fail_at(d, 3);
    assert_int_equal(kvs_model_create(&model, rt, &config, 7, NULL), KVS_E_IO);
    assert_null(model);
    kvs_runtime_free(rt);
    device_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(host_reads_trap),
        cmocka_unit_test(batches_of_all_models),
        cmocka_unit_test(batches_of_all_shifts),
        cmocka_unit_test(training_steps),
        cmocka_unit_test(checkpoints_and_resumption),
        cmocka_unit_test(sessions_and_scores),
        cmocka_unit_test(files_and_retrofit),
        cmocka_unit_test(failed_training_is_reported),
        cmocka_unit_test(failed_sessions_are_reported),
        cmocka_unit_test(failed_models_are_not_made),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
