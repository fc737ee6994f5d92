/* The run folder by itself: records as JSON, and the states of a run. */
#include "base/files.h"
#include "base/memory.h"
#include "run/csv.h"
#include "run/record.h"
#include "run/result.h"
#include "run/run.h"
#include "run/run_read.h"
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static kvs_err err;

static void write_file(const char *dir, const char *name, const char *text)
{
    char *path = kvsi_path_join(dir, name);

    assert_int_equal(kvsi_file_write_text(path, text, &err), KVS_OK);
    kvsi_free(path);
}

/* ---- records ---- */

/* All doubles are different, so that exchanged fields are detected. */
static kvs_step_record full_record(void)
{
    return (kvs_step_record){.step = 7,
                             .loss = 1.5,
                             .accuracy = 0.25,
                             .lr = 0.125,
                             .grad_norm = 2.5,
                             .eval_loss = 3.5,
                             .eval_accuracy = 0.5,
                             .k_shift = {1, 2},
                             .v_shift = {3, 4},
                             .q_shift = {5, 6},
                             .tokens = 40,
                             .seconds = 0.75};
}

static const char full_line[] =
    "{\"step\":7,\"loss\":1.5,\"lr\":0.125,\"accuracy\":0.25,\"grad_norm\":2.5,\"tokens\":40,"
    "\"seconds\":0.75,\"eval_loss\":3.5,\"eval_accuracy\":0.5,\"k_shift_sum\":1.0,"
    "\"k_shift_current\":2.0,\"v_shift_sum\":3.0,\"v_shift_current\":4.0,\"q_shift_sum\":5.0,"
    "\"q_shift_current\":6.0}";

static void assert_line(const kvs_step_record *record, const char *expected)
{
    json_t *json = kvsi_record_to_json(record);
    char *text = json_dumps(json, JSON_COMPACT);

    assert_string_equal(text, expected);
    free(text);
    json_decref(json);
}

static void a_record_has_every_field(void **state)
{
    kvs_step_record record = full_record();

    (void)state;
    assert_line(&record, full_line);
}

static void values_that_are_not_finite_are_null_or_left_out(void **state)
{
    kvs_step_record record = full_record();

    (void)state;
    record.loss = record.lr = record.grad_norm = record.seconds = INFINITY;
    record.accuracy = record.eval_loss = record.eval_accuracy = NAN;
    record.k_shift = record.v_shift = record.q_shift = (kvs_shift_mean){NAN, NAN};
    assert_line(&record, "{\"step\":7,\"loss\":null,\"lr\":null,\"grad_norm\":null,\"tokens\":40,"
                         "\"seconds\":null}");
}

static void a_record_is_read_back(void **state)
{
    const kvs_step_record expected = full_record();
    kvs_step_record record;
    json_t *json;

    (void)state;
    assert_int_equal(kvsi_json_parse(&json, full_line, strlen(full_line), "line", &err), KVS_OK);
    assert_int_equal(kvsi_record_from_json(&record, json, "line", &err), KVS_OK);
    assert_int_equal(record.step, 7);
    assert_int_equal(record.tokens, 40);
    for (size_t i = 0; i < KVSI_RECORD_FIELDS; i++)
        assert_true(kvsi_record_value(&record, &kvsi_record_fields[i]) ==
                    kvsi_record_value(&expected, &kvsi_record_fields[i]));
    for (size_t i = 0; i < KVSI_RECORD_FIELDS; i++) {
        const kvsi_record_field *f = &kvsi_record_fields[i];

        json_object_set_new(json, f->key, json_string("x"));
        assert_int_equal(kvsi_record_from_json(&record, json, "line", &err), KVS_E_FORMAT);
        assert_non_null(strstr(err.message, f->key));
        json_object_del(json, f->key);
        assert_int_equal(kvsi_record_from_json(&record, json, "line", &err),
                         strcmp(f->key, "step") == 0 ? KVS_E_FORMAT : KVS_OK);
        json_object_set_new(json, "step", json_integer(7));
    }
    assert_true(isnan(record.loss) && isnan(record.q_shift.current));
    assert_int_equal(record.tokens, 0);
    json_decref(json);
}

static void the_table_has_the_columns_and_numbers_of_the_log(void **state)
{
    char *dir = support_make_dir(), *path = kvsi_path_join(dir, KVSI_RUN_CSV), *text;
    kvsi_text log = {0};
    size_t size;

    (void)state;
    kvsi_text_format(&log, "{\"kvshift\":\"x\"}\n%s\n{\"step\":8,\"loss\":null}\n", full_line);
    write_file(dir, KVSI_RUN_LOG, log.data);
    assert_int_equal(kvsi_csv_write(dir, &err), KVS_OK);
    assert_int_equal(kvsi_file_read(&text, &size, path, 4096, &err), KVS_OK);
    assert_string_equal(text,
                        "step,loss,lr,accuracy,grad_norm,tokens,seconds,eval_loss,eval_accuracy,"
                        "k_shift_sum,k_shift_current,v_shift_sum,v_shift_current,q_shift_sum,"
                        "q_shift_current\n"
                        "7,1.5,0.125,0.25,2.5,40,0.75,3.5,0.5,1,2,3,4,5,6\n"
                        "8,,,,,,,,,,,,,,\n");
    kvsi_text_release(&log);
    kvsi_free(text);
    kvsi_free(path);
    support_remove_dir(dir);
}

static void every_field_is_documented(void **state)
{
    char *text;
    size_t size;

    (void)state;
    assert_int_equal(
        kvsi_file_read(&text, &size, KVSI_TESTS_DIR "/../docs/run-folder.md", 1 << 20, &err),
        KVS_OK);
    for (size_t i = 0; i < KVSI_RECORD_FIELDS; i++) {
        const kvsi_record_field *f = &kvsi_record_fields[i];
        char quoted[64];

        snprintf(quoted, sizeof quoted, "`%s`", f->key);
        if (!strstr(text, quoted))
            fail_msg("docs/run-folder.md lacks %s", quoted);
        snprintf(quoted, sizeof quoted, "`%s`", f->tag ? f->tag : "shift/k_sum");
        if (!strstr(text, quoted))
            fail_msg("docs/run-folder.md lacks %s", quoted);
    }
    kvsi_free(text);
}

/* ---- the log ---- */

static void a_line_that_is_being_written_is_not_read(void **state)
{
    char *dir = support_make_dir();
    kvs_step_record record;
    kvsi_run_log log;
    int found;

    (void)state;
    write_file(dir, KVSI_RUN_LOG, "{\"kvshift\":\"x\"}\n{\"step\":3}\n{\"step\":4");
    assert_int_equal(kvsi_run_log_open(&log, dir, &err), KVS_OK);
    assert_int_equal(log.lines, 2);
    assert_string_equal(json_string_value(json_object_get(log.settings, "kvshift")), "x");
    assert_int_equal(kvsi_run_log_next(&log, &record, &found, &err), KVS_OK);
    assert_true(found);
    assert_int_equal(record.step, 3);
    assert_int_equal(kvsi_run_log_next(&log, &record, &found, &err), KVS_OK);
    assert_false(found);
    kvsi_run_log_close(&log);
    support_remove_dir(dir);
}

/* ---- the result ---- */

static void a_result_is_read_back(void **state)
{
    const kvs_train_result result = {
        .steps = 5, .final = {.loss = 0.5, .accuracy = NAN}, .seconds = 1.5, .tokens = 60};
    char *dir = support_make_dir();
    kvs_train_result back = {.size = sizeof(kvs_train_result)};
    int found;

    (void)state;
    assert_int_equal(kvsi_result_read(&back, &found, dir, &err), KVS_OK);
    assert_false(found);
    assert_int_equal(kvsi_result_steps(dir), 0);
    assert_int_equal(kvsi_result_write(dir, &result, &err), KVS_OK);
    assert_int_equal(kvsi_result_read(&back, &found, dir, &err), KVS_OK);
    assert_true(found);
    assert_int_equal(back.steps, 5);
    assert_int_equal(back.step_at_99, 0);
    assert_true(back.final.loss == 0.5 && isnan(back.final.accuracy) && back.seconds == 1.5);
    assert_int_equal(kvsi_result_steps(dir), 5);
    support_remove_dir(dir);
}

/* ---- states ---- */

static void a_run_is_new_then_begun_then_done(void **state)
{
    const kvs_train_result result = {.steps = 5};
    char *dir = support_make_dir();
    const char *file;

    (void)state;
    assert_int_equal(kvsi_run_state(dir, 5), KVS_RUN_NEW);
    assert_int_equal(kvs_run_find(&file, dir, &err), KVS_OK);
    assert_null(file);
    write_file(dir, KVSI_RUN_LOG, "");
    assert_int_equal(kvsi_run_state(dir, 5), KVS_RUN_BEGUN);
    assert_int_equal(kvs_run_find(&file, dir, &err), KVS_OK);
    assert_string_equal(file, "train.jsonl");
    assert_int_equal(kvsi_result_write(dir, &result, &err), KVS_OK);
    assert_int_equal(kvsi_run_state(dir, 5), KVS_RUN_DONE);
    assert_int_equal(kvsi_run_state(dir, 6), KVS_RUN_BEGUN);
    assert_int_equal(kvsi_run_mark_diverged(dir, "step 3", &err), KVS_OK);
    assert_int_equal(kvsi_run_state(dir, 5), KVS_RUN_DIVERGED);
    support_remove_dir(dir);
}

static void a_model_alone_is_a_run_too(void **state)
{
    char *dir = support_make_dir();
    const char *file;

    (void)state;
    write_file(dir, KVSI_RUN_MODEL, "");
    assert_int_equal(kvs_run_find(&file, dir, &err), KVS_OK);
    assert_string_equal(file, "model.safetensors");
    support_remove_dir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_has_every_field),
        cmocka_unit_test(values_that_are_not_finite_are_null_or_left_out),
        cmocka_unit_test(a_record_is_read_back),
        cmocka_unit_test(the_table_has_the_columns_and_numbers_of_the_log),
        cmocka_unit_test(every_field_is_documented),
        cmocka_unit_test(a_line_that_is_being_written_is_not_read),
        cmocka_unit_test(a_result_is_read_back),
        cmocka_unit_test(a_run_is_new_then_begun_then_done),
        cmocka_unit_test(a_model_alone_is_a_run_too),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
