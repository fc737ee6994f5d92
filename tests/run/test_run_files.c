/* The caller's files in a run folder: they are there before the first step and are replaced or
 * appended to on resume; a run that cannot start leaves none of them. */
#include "base/files.h"
#include "base/memory.h"
#include "data/tasks/tasks.h"
#include "support.h"
#include "train/trainer.h"

#include <string.h>

typedef struct fixture {
    kvs_runtime *rt;
    kvs_data *task;
    kvs_model *model;
    char *dir, *run;
} fixture;

static fixture f;
static kvs_err err;

static void start(void)
{
    kvsi_induction_config induction;
    kvs_model_config config;

    kvsi_induction_config_init(&induction);
    induction.vocab = 64;
    induction.pool = 40;
    induction.max_length = 32;
    kvsi_model_config_init(&config);
    config.vocab = 64;
    config.dim = 16;
    config.heads = 2;
    f.rt = support_runtime(NULL);
    f.dir = support_make_dir();
    f.run = kvsi_path_join(f.dir, "run");
    assert_int_equal(kvsi_induction_create(&f.task, &induction, &err), KVS_OK);
    assert_int_equal(kvs_model_create(&f.model, f.rt, &config, 1, &err), KVS_OK);
}

static void end(void)
{
    kvs_model_free(f.model);
    kvs_data_free(f.task);
    kvs_runtime_free(f.rt);
    kvsi_free(f.run);
    support_remove_dir(f.dir);
}

static kvsi_train_job make_job(const kvs_run_file *files, size_t count)
{
    kvsi_train_job job = {
        .model = f.model, .data = f.task, .out = f.run, .files = files, .file_count = count};

    kvsi_train_config_init(&job.config);
    job.config.eval_sequences = 1;
    job.config.checkpoint_every = 1;
    job.config.keep = 0;
    job.config.batch = 2;
    job.config.steps = 1;
    return job;
}

static void assert_file(const char *name, const char *expected)
{
    char *path = kvsi_path_join(f.run, name), *text;
    size_t size;

    assert_int_equal(kvsi_file_read(&text, &size, path, 1000, &err), KVS_OK);
    assert_string_equal(text, expected);
    kvsi_free(text);
    kvsi_free(path);
}

static int note_is_there(void *user, const kvs_step_record *record)
{
    (void)user;
    (void)record;
    assert_file("note", "first\n");
    return 0;
}

static void files_are_there_from_the_start(void **state)
{
    kvs_run_file files[] = {{"note", "first\n", 0}, {"lines", "one\n", 1}};
    kvs_train_result result = {.size = sizeof(kvs_train_result)};
    kvsi_train_job job;

    (void)state;
    start();
    job = make_job(files, 2);
    job.progress = note_is_there;
    assert_int_equal(kvsi_train(&job, &result, &err), KVS_OK);
    files[0].text = "second\n";
    files[1].text = "two\n";
    assert_int_equal(kvsi_train(&job, &result, &err), KVS_E_EXISTS); /* contains a run */
    assert_file("note", "first\n");
    assert_file("lines", "one\n");
    job.resume = KVS_RESUME_ALWAYS;
    job.progress = NULL;
    job.config.steps = 2;
    assert_int_equal(kvsi_train(&job, &result, &err), KVS_OK);
    assert_int_equal(result.steps, 2);
    assert_file("note", "second\n");
    assert_file("lines", "one\ntwo\n");
    end();
}

static void a_file_that_cannot_be_written_leaves_nothing(void **state)
{
    const kvs_run_file replaced[] = {{"note", "x", 0}, {"no/such/folder", "x", 0}};
    const kvs_run_file appended[] = {{"note", "x", 1}, {"no/such/folder", "x", 1}};
    kvs_train_result result = {.size = sizeof(kvs_train_result)};

    (void)state;
    start();
    for (int append = 0; append < 2; append++) {
        const kvsi_train_job job = make_job(append ? appended : replaced, 2);

        assert_int_equal(kvsi_train(&job, &result, &err), KVS_E_IO);
        assert_non_null(strstr(err.message, "no/such/folder"));
        assert_false(kvsi_file_exists(f.run));
    }
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_there_from_the_start),
        cmocka_unit_test(a_file_that_cannot_be_written_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
