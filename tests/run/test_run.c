/* Whole runs: samples do not change the weights, the log has the shift means, checkpoints have the
 * tokenizer, and stopped or diverged runs leave a checkpoint to continue from. */
#include "base/checksum.h"
#include "base/files.h"
#include "base/folders.h"
#include "base/json.h"
#include "base/memory.h"
#include "data/tasks/tasks.h"
#include "run/checkpoint_files.h"
#include "support.h"
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { VOCAB = 64, STEPS = 6 };

/* One run, and what its callbacks saw. */
typedef struct fixture {
    kvs_runtime *rt;
    kvs_data *task;
    kvs_model *model;
    char *dir, *run;
    kvsi_train_job job;
    kvs_step_record records[STEPS];
    double k_sum[STEPS], k_current[STEPS]; /* read from the tensors after each step */
    uint64_t stop_at, poison_at;           /* steps; 0 = never */
    size_t samples;
    size_t stops; /* benchmarks that are still to be stopped before they have scores */
    char notice[640];
} fixture;

static kvs_model *make_model(kvs_runtime *rt, kvsi_shift_form form)
{
    kvs_model_config config;
    kvs_model *model;

    kvsi_model_config_init(&config);
    config.vocab = VOCAB;
    config.dim = 32;
    config.heads = 4;
    config.kv_heads = 2;
    config.layers = 2;
    config.context = 31;
    config.shift.targets = KVS_SHIFT_K | KVS_SHIFT_V;
    config.shift.form = form;
    assert_int_equal(kvs_model_create(&model, rt, &config, 7, NULL), KVS_OK);
    return model;
}

/* The means over the heads of both layers; the parameters of the form free are the taps. */
static void read_shift(const kvs_model *model, double *sum, double *current)
{
    *sum = *current = 0;
    for (int layer = 0; layer < 2; layer++) {
        char name[64];
        float taps[4]; /* [2 heads, previous and current] */

        snprintf(name, sizeof name, "model.layers.%d.self_attn.k_shift", layer);
        assert_int_equal(kvs_model_read_tensor(taps, 4, model, name, NULL), KVS_OK);
        *sum += ((double)taps[0] + (double)taps[1] + (double)taps[2] + (double)taps[3]) / 4;
        *current += ((double)taps[1] + (double)taps[3]) / 4;
    }
}

static int on_step(void *user, const kvs_step_record *record)
{
    fixture *f = user;
    const size_t i = (size_t)record->step - 1;

    f->records[i] = *record;
    if (f->model->config.shift.form == KVSI_SHIFT_FREE)
        read_shift(f->model, &f->k_sum[i], &f->k_current[i]);
    if (record->step == f->poison_at) {
        const float nothing[32] = {NAN};

        assert_int_equal(kvs_model_write_tensor(f->model, "model.norm.weight", nothing, 32, NULL),
                         KVS_OK);
    }
    return record->step == f->stop_at ? KVS_PROGRESS_STOP : 0;
}

static void on_sample(void *user, const kvs_model *model, uint64_t step, kvs_sample *out)
{
    static const int32_t prompt[] = {11, 12, 13};
    fixture *f = user;
    kvs_session *session;
    float logits[VOCAB];

    assert_int_equal(kvs_session_create(
                         &session, model,
                         &(kvs_session_options){.size = sizeof(kvs_session_options), .capacity = 8},
                         NULL),
                     KVS_OK);
    assert_int_equal(kvs_session_feed(session, prompt, 3, logits, NULL), KVS_OK);
    kvs_session_free(session);
    f->samples++;
    if (step == 2) /* not UTF-8, and a NUL */
        *out = (kvs_sample){"a\xffz", "\xc3\xa9\0\xe2\x82", 3, 5};
    else
        *out = (kvs_sample){.prompt = "", .text = step == 4 ? "" : NULL};
}

static int on_benchmark(void *user, const kvs_model *model, uint64_t step,
                        kvs_benchmark_scores *out)
{
    static const kvs_benchmark_score score = {"task", "acc", 0.5, 0.25, 4};
    fixture *f = user;

    (void)model;
    (void)step;
    if (f->stops > 0) {
        f->stops--;
        return KVS_PROGRESS_STOP;
    }
    *out = (kvs_benchmark_scores){&score, 1};
    return 0;
}

static void on_notice(void *user, const char *line)
{
    fixture *f = user;

    snprintf(f->notice, sizeof f->notice, "%s", line);
}

static fixture *begin(kvsi_shift_form form)
{
    const kvs_runtime_options options = {.size = sizeof(kvs_runtime_options), .threads = 2};
    kvsi_induction_config task;
    fixture *f = kvsi_alloc(1, sizeof *f);

    kvsi_induction_config_init(&task);
    task.vocab = VOCAB;
    task.pool = 40;
    task.max_length = 32;
    assert_int_equal(kvs_runtime_create(&f->rt, &options, NULL), KVS_OK);
    assert_int_equal(kvsi_induction_create(&f->task, &task, NULL), KVS_OK);
    f->model = make_model(f->rt, form);
    f->dir = support_make_dir();
    f->run = kvsi_path_join(f->dir, "run");
    f->job = (kvsi_train_job){.model = f->model,
                              .data = f->task,
                              .out = f->run,
                              .progress = on_step,
                              .sample = on_sample,
                              .notice = on_notice,
                              .user = f};
    kvsi_train_config_init(&f->job.config);
    f->job.config.eval_sequences = 20;
    f->job.config.keep = 0;
    f->job.config.batch = 8;
    f->job.config.steps = STEPS;
    f->job.config.warmup = 0;
    return f;
}

static void end(fixture *f)
{
    kvs_model_free(f->model);
    kvs_data_free(f->task);
    kvs_runtime_free(f->rt);
    kvsi_free(f->run);
    support_remove_dir(f->dir);
    kvsi_free(f);
}

/* Returns the number of steps done. */
static uint64_t train(fixture *f)
{
    kvs_train_result result = {.size = sizeof(kvs_train_result)};
    kvs_err err;

    if (kvsi_train(&f->job, &result, &err) != KVS_OK)
        fail_msg("%s", err.message);
    return result.steps;
}

static char *read_text(const char *dir, const char *name)
{
    char *path = kvsi_path_join(dir, name), *text;
    size_t size;

    assert_int_equal(kvsi_file_read(&text, &size, path, 1 << 20, NULL), KVS_OK);
    kvsi_free(path);
    return text;
}

static int is_there(const char *dir, const char *name)
{
    char *path = kvsi_path_join(dir, name);
    const int there = kvsi_file_exists(path);

    kvsi_free(path);
    return there;
}

/* ---- samples ---- */

static void samples_are_recorded_and_change_nothing(void **state)
{
    fixture *plain = begin(KVSI_SHIFT_FREE), *sampled = begin(KVSI_SHIFT_FREE);
    char *text;

    (void)state;
    sampled->job.config.sample_every = 2;
    train(plain);
    train(sampled);
    assert_int_equal(plain->samples, 0);
    assert_int_equal(sampled->samples, 3);
    assert_memory_equal(plain->model->parameters, sampled->model->parameters,
                        kvsi_layout_total(&plain->model->layout) * sizeof(real));
    assert_false(is_there(plain->run, "samples.jsonl"));
    text = read_text(sampled->run, "samples.jsonl");
    assert_string_equal(text, "{\"step\":2,\"prompt\":\"a\xef\xbf\xbdz\","
                              "\"text\":\"\xc3\xa9\\u0000\xef\xbf\xbd\xef\xbf\xbd\"}\n"
                              "{\"step\":4,\"prompt\":\"\",\"text\":\"\"}\n");
    kvsi_free(text);
    end(plain);
    end(sampled);
}

/* ---- benchmarks ---- */

static void stopped_benchmarks_are_made_when_the_run_goes_on(void **state)
{
    static const char scores[] =
        "\"scores\":[{\"task\":\"task\",\"metric\":\"acc\",\"value\":0.5,\"error\":0.25,"
        "\"documents\":4}]}\n";
    fixture *f = begin(KVSI_SHIFT_FREE);
    char expected[400], *text;

    (void)state;
    f->job.benchmark = on_benchmark;
    f->job.config.eval_tasks_every = 3;
    f->stops = 3;
    for (size_t left = 3; left > 0; left--) { /* stopped at step 3, then twice before step 4 */
        assert_int_equal(train(f), 3);
        assert_int_equal(f->stops, left - 1);
        assert_false(is_there(f->run, "benchmarks.jsonl"));
        f->job.resume = KVS_RESUME_ALWAYS;
    }
    assert_int_equal(train(f), STEPS);
    text = read_text(f->run, "benchmarks.jsonl");
    snprintf(expected, sizeof expected, "{\"step\":3,%s{\"step\":6,%s", scores, scores);
    assert_string_equal(text, expected);
    kvsi_free(text);
    end(f);
}

/* ---- the shift in the log ---- */

static void the_log_has_the_means_of_the_shift(void **state)
{
    fixture *f = begin(KVSI_SHIFT_FREE);
    char *log, *table;

    (void)state;
    f->job.config.eval_every = 4;
    train(f);
    for (size_t i = 0; i < STEPS; i++) {
        const kvs_step_record *r = &f->records[i];

        assert_true(isnan(r->q_shift.sum) && isnan(r->q_shift.current));
        assert_int_equal(!isnan(r->k_shift.sum), i == 0 || i == 3);
        assert_int_equal(!isnan(r->v_shift.current), i == 0 || i == 3);
        if (i == 0 || i == 3) {
            assert_true(fabs(r->k_shift.sum - f->k_sum[i]) < 1e-12);
            assert_true(fabs(r->k_shift.current - f->k_current[i]) < 1e-12);
        }
    }
    assert_true(f->records[0].k_shift.sum != f->records[3].k_shift.sum);
    log = read_text(f->run, "train.jsonl");
    assert_non_null(strstr(log, "\"k_shift_sum\":"));
    assert_non_null(strstr(log, "\"v_shift_current\":"));
    assert_null(strstr(log, "\"q_shift"));
    table = read_text(f->run, "train.csv");
    assert_non_null(strstr(table, ",k_shift_sum,k_shift_current,v_shift_sum,"));
    kvsi_free(log);
    kvsi_free(table);
    end(f);
}

static void a_shift_without_taps_is_left_out(void **state)
{
    fixture *f = begin(KVSI_SHIFT_DATA);
    char *log;

    (void)state;
    f->job.config.eval_every = 1;
    train(f);
    for (size_t i = 0; i < STEPS; i++)
        assert_true(isnan(f->records[i].k_shift.sum) && isnan(f->records[i].v_shift.current));
    log = read_text(f->run, "train.jsonl");
    assert_null(strstr(log, "_shift_sum"));
    kvsi_free(log);
    end(f);
}

/* ---- checkpoints ---- */

/* Names in ckpt/ that start with "step-", with spaces between. */
static void list_checkpoints(char *out, size_t size, const fixture *f)
{
    char *ckpt = kvsi_path_join(f->run, "ckpt");
    kvsi_name_list list;
    size_t at = 0;

    out[0] = '\0';
    assert_int_equal(kvsi_dir_list(&list, ckpt, "step-", NULL), KVS_OK);
    for (size_t i = 0; i < list.count; i++)
        at += (size_t)snprintf(out + at, size - at, "%s%s", i > 0 ? " " : "", list.names[i]);
    kvsi_name_list_release(&list);
    kvsi_free(ckpt);
}

static void tokenizers_go_with_the_model_and_have_a_checksum(void **state)
{
    fixture *f = begin(KVSI_SHIFT_FREE);
    kvs_tokenizer *tokenizer, *back;
    char *newest, *path, *text;
    kvs_err err;

    (void)state;
    assert_int_equal(kvs_tokenizer_load(&tokenizer, "bytes", NULL), KVS_OK);
    f->job.tokenizer = tokenizer;
    f->job.config.checkpoint_every = 3;
    train(f);
    assert_true(is_there(f->run, "tokenizer.json"));
    newest = kvsi_path_join(f->run, "ckpt/latest");
    path = kvsi_path_join(newest, "tokenizer.json");
    assert_int_equal(kvs_tokenizer_load(&back, path, NULL), KVS_OK);
    assert_int_equal(kvs_tokenizer_vocab(back), 256);
    assert_int_equal(kvsi_checkpoint_check(newest, &err), KVS_OK);
    text = read_text(newest, "tokenizer.json");
    text[strlen(text) / 2] ^= 1;
    assert_int_equal(kvsi_file_write_text(path, text, NULL), KVS_OK);
    assert_int_equal(kvsi_checkpoint_check(newest, &err), KVS_E_FORMAT);
    assert_non_null(strstr(err.message, "tokenizer.json' is damaged"));
    remove(path);
    assert_int_equal(kvsi_checkpoint_check(newest, &err), KVS_E_IO);
    kvsi_free(text);
    kvsi_free(path);
    kvsi_free(newest);
    kvs_tokenizer_free(back);
    kvs_tokenizer_free(tokenizer);
    end(f);
}

static void a_run_that_is_stopped_can_go_on(void **state)
{
    fixture *whole = begin(KVSI_SHIFT_FREE), *parts = begin(KVSI_SHIFT_FREE);
    char names[256];

    (void)state;
    train(whole);
    parts->stop_at = 2; /* the only checkpoint is the one of the stop */
    train(parts);
    list_checkpoints(names, sizeof names, parts);
    assert_string_equal(names, "step-00000002");
    parts->stop_at = 0;
    parts->job.resume = KVS_RESUME_ALWAYS;
    train(parts);
    assert_memory_equal(whole->model->parameters, parts->model->parameters,
                        kvsi_layout_total(&whole->model->layout) * sizeof(real));
    end(whole);
    end(parts);
}

/* Replaces a file of a checkpoint and corrects its checksums. */
static void replace_file(const char *checkpoint, const char *name, const char *text)
{
    char *path = kvsi_path_join(checkpoint, name),
         *state = kvsi_path_join(checkpoint, "state.json"),
         *done = kvsi_path_join(checkpoint, "DONE"), sum[KVSI_CHECKSUM_TEXT];
    uint64_t value;
    json_t *json;

    assert_int_equal(kvsi_file_write_text(path, text, NULL), KVS_OK);
    assert_int_equal(kvsi_checksum_file(&value, path, NULL), KVS_OK);
    kvsi_checksum_print(sum, value);
    assert_int_equal(kvsi_json_read(&json, state, 1 << 20, NULL), KVS_OK);
    assert_int_equal(json_object_set_new(json_object_get(json, "files"), name, json_string(sum)),
                     0);
    assert_int_equal(kvsi_json_write(json, state, NULL), KVS_OK);
    assert_int_equal(kvsi_checksum_file(&value, state, NULL), KVS_OK);
    kvsi_checksum_print(sum, value);
    assert_int_equal(kvsi_file_write_text(done, sum, NULL), KVS_OK);
    json_decref(json);
    kvsi_free(path);
    kvsi_free(state);
    kvsi_free(done);
}

static void checkpoints_that_cannot_be_opened_are_skipped(void **state)
{
    static const char *const names[] = {"model.safetensors", "optimizer.safetensors"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        fixture *whole = begin(KVSI_SHIFT_FREE), *parts = begin(KVSI_SHIFT_FREE);
        char *last;

        train(whole);
        parts->job.config.checkpoint_every = 1;
        parts->stop_at = 3;
        train(parts);
        last = kvsi_path_join(parts->run, "ckpt/step-00000003");
        replace_file(last, names[i], "        {\"a\": ");
        parts->stop_at = 0;
        parts->job.resume = KVS_RESUME_ALWAYS;
        train(parts);
        assert_non_null(strstr(parts->notice, "1 damaged checkpoint skipped"));
        assert_non_null(strstr(parts->notice, "step-00000003"));
        assert_non_null(strstr(parts->notice, names[i]));
        assert_non_null(strstr(parts->notice, "step-00000002'"));
        assert_memory_equal(whole->model->parameters, parts->model->parameters,
                            kvsi_layout_total(&whole->model->layout) * sizeof(real));
        assert_int_equal(kvsi_checkpoint_check(last, NULL), KVS_OK); /* it was written again */
        kvsi_free(last);
        end(whole);
        end(parts);
    }
}

/* ---- divergence ---- */

/* The weights become NaN after step 4, which is then saved: the previous checkpoint must still
 * exist, although only one is kept. */
static void a_run_that_diverges_keeps_the_last_good_checkpoint(void **state)
{
    fixture *f = begin(KVSI_SHIFT_FREE);
    kvs_train_result result = {.size = sizeof(kvs_train_result)};
    char names[256];
    kvs_err err;

    (void)state;
    f->poison_at = 4;
    f->job.config.checkpoint_every = 1;
    f->job.config.keep = 1;
    assert_int_equal(kvsi_train(&f->job, &result, &err), KVS_E_DIVERGED);
    assert_non_null(strstr(err.message, "step 5 diverged"));
    assert_non_null(strstr(err.message, "first in weight 'model.norm.weight'"));
    list_checkpoints(names, sizeof names, f);
    assert_string_equal(names, "step-00000003 step-00000004");
    assert_non_null(strstr(f->notice, "last good checkpoint"));
    assert_non_null(strstr(f->notice, "step-00000003"));
    assert_false(is_there(f->run, "model.safetensors"));
    end(f);
}

static void a_last_evaluation_that_diverges_is_no_result(void **state)
{
    fixture *f = begin(KVSI_SHIFT_FREE);
    kvs_train_result result = {.size = sizeof(kvs_train_result)};
    kvs_err err;

    (void)state;
    f->poison_at = STEPS;
    assert_int_equal(kvsi_train(&f->job, &result, &err), KVS_E_DIVERGED);
    assert_non_null(strstr(err.message, "the model of step 6 has diverged"));
    assert_false(is_there(f->run, "result.json"));
    end(f);
}

/* The weights are finite, but so large that the values of a layer are not. */
static void the_first_tensor_that_is_not_finite_is_named(void **state)
{
    fixture *f = begin(KVSI_SHIFT_FREE);
    const size_t count = f->model->config.ffn * f->model->config.dim;
    float *weights = kvsi_alloc(count, sizeof *weights);
    kvs_trainer *trainer;
    kvs_err err;

    (void)state;
    for (size_t i = 0; i < count; i++)
        weights[i] = i % 2 ? 3e38f : -3e38f;
    assert_int_equal(
        kvs_model_write_tensor(f->model, "model.layers.1.mlp.up_proj.weight", weights, count, NULL),
        KVS_OK);
    assert_int_equal(kvs_trainer_create(&trainer, f->model, f->task, &f->job.config, NULL), KVS_OK);
    assert_int_equal(kvsi_trainer_step(trainer, NULL, &err), KVS_E_DIVERGED);
    if (!strstr(err.message, "first in the feed-forward part of layer 1"))
        fail_msg("%s", err.message);
    kvs_trainer_free(trainer);
    kvsi_free(weights);
    end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_are_recorded_and_change_nothing),
        cmocka_unit_test(stopped_benchmarks_are_made_when_the_run_goes_on),
        cmocka_unit_test(the_log_has_the_means_of_the_shift),
        cmocka_unit_test(a_shift_without_taps_is_left_out),
        cmocka_unit_test(tokenizers_go_with_the_model_and_have_a_checksum),
        cmocka_unit_test(a_run_that_is_stopped_can_go_on),
        cmocka_unit_test(checkpoints_that_cannot_be_opened_are_skipped),
        cmocka_unit_test(a_run_that_diverges_keeps_the_last_good_checkpoint),
        cmocka_unit_test(a_last_evaluation_that_diverges_is_no_result),
        cmocka_unit_test(the_first_tensor_that_is_not_finite_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
