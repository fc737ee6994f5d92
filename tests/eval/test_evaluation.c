/* Whole evaluations of a small model on files that the test writes: interruption and resume,
 * threads, sizes of passes, and what is refused. */
#include "base/files.h"
#include "base/folders.h"
#include "base/json.h"
#include "base/memory.h"
#include "kvshift/kvshift_eval.h"
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DOCUMENTS = 12, CONTEXT = 320 };

static char *data;
static kvs_tokenizer *tokenizer;

static void write_at(const char *folder, const char *name, const char *text)
{
    char *dir = kvsi_path_join(data, folder), *path;
    int made;
    kvs_err err;

    assert_int_equal(kvsi_dir_make(dir, &made, &err), KVS_OK);
    path = kvsi_path_join(dir, name);
    assert_int_equal(kvsi_file_write_text(path, text, &err), KVS_OK);
    kvsi_free(path);
    kvsi_free(dir);
}

static void write_data(void)
{
    kvsi_text arc = {0}, lambada = {0}, math = {0};

    for (int i = 0; i < DOCUMENTS; i++) {
        kvsi_text_format(&arc,
                         "{\"id\": \"q%d\", \"question\": {\"stem\": \"What is number %d?\", "
                         "\"choices\": [{\"text\": \"a word\", \"label\": \"A\"}, {\"text\": "
                         "\"the %d\", \"label\": \"B\"}, {\"text\": \"thing\", \"label\": "
                         "\"C\"}]}, \"answerKey\": \"%c\"}\n",
                         i, i, i, 'A' + i % 3);
        kvsi_text_format(&lambada, "{\"text\": \"it was the story of %d and of word%d\"}\n", i, i);
        kvsi_text_format(&math,
                         "{\"problem\": \"Add %d and 1.\", \"solution\": \"It is "
                         "$\\\\boxed{%d}$.\", \"type\": \"Algebra\", \"level\": \"Level 1\"}\n",
                         i, i + 1);
    }
    assert_false(arc.failed || lambada.failed || math.failed);
    write_at("arc", "ARC-Easy-Test.jsonl", arc.data);
    write_at("arc", "ARC-Easy-Dev.jsonl", arc.data);
    write_at("lambada", "lambada_test.jsonl", lambada.data);
    write_at("math", "test.jsonl", math.data);
    kvsi_text_release(&arc);
    kvsi_text_release(&lambada);
    kvsi_text_release(&math);
}

static kvs_model *make_model(kvs_runtime **rt, int threads, int exact, uint64_t seed)
{
    const support_sizes sizes = {.vocab = 260, .dim = 32, .ffn = 48, .context = CONTEXT};
    const kvs_model_config config =
        support_config(&(kvs_model_config){.body = KVSI_BODY_LLAMA,
                                           SUPPORT_SHIFT(KVS_SHIFT_K | KVS_SHIFT_V, FREE, 1)},
                       &sizes);
    const kvs_runtime_options how = {.size = sizeof how, .threads = threads, .exact = exact};
    kvs_err err;

    assert_int_equal(kvs_runtime_create(rt, &how, &err), KVS_OK);
    return support_model(*rt, &config, seed);
}

static int set_up(void **state)
{
    kvs_err err;

    support_dir_setup(state);
    data = kvsi_path_join(support_dir, "data");
    write_data();
    return kvs_tokenizer_load(&tokenizer, "bytes", &err) == KVS_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    kvsi_free(data);
    kvs_tokenizer_free(tokenizer);
    return support_dir_teardown(state);
}

/* ---- runs ---- */

/* Stops after so many calls. */
static int stop_later(void *user, const kvs_eval_progress *p)
{
    int *left = user;

    assert_true(p->done <= p->documents && p->work >= 0);
    return --*left < 0;
}

static kvs_eval_options usual(const char *out)
{
    kvs_eval_options o;

    kvs_eval_options_init(&o, sizeof o);
    o.tasks = "arc_easy,lambada_openai,hendrycks_math_algebra";
    o.data = data;
    o.num_fewshot = 0;
    o.out = out;
    o.model_name = "dir/small";
    return o;
}

static char *place(const char *name)
{
    char *path = kvsi_path_join(support_dir, name);

    assert_non_null(path);
    return path;
}

/* The results file without what differs between runs. */
static json_t *read_results(const char *path)
{
    json_t *object;
    kvs_err err;

    if (kvsi_json_read(&object, path, 1 << 24, &err) != KVS_OK)
        fail_msg("%s", err.message);
    json_object_del(object, "date");
    json_object_del(object, "total_evaluation_time_seconds");
    return object;
}

/* Compares all files of two folders whose names differ in their dates only. */
static void expect_same_files(const char *one, const char *other)
{
    kvsi_name_list x, y;
    kvs_err err;

    assert_int_equal(kvsi_dir_list(&x, one, "", &err), KVS_OK);
    assert_int_equal(kvsi_dir_list(&y, other, "", &err), KVS_OK);
    assert_int_equal(x.count, 5);
    assert_int_equal(y.count, 5);
    assert_string_equal(x.names[0], ".completed.json"); /* names the others */
    for (size_t i = 1; i < x.count; i++) {
        char *p = kvsi_path_join(one, x.names[i]), *q = kvsi_path_join(other, y.names[i]);

        if (strncmp(x.names[i], "results_", 8) == 0) {
            json_t *a = read_results(p), *b = read_results(q);

            assert_true(json_equal(a, b));
            json_decref(a);
            json_decref(b);
        } else {
            char *a, *b;
            size_t a_size, b_size;

            assert_int_equal(strncmp(x.names[i], y.names[i], strlen("samples_arc")), 0);
            assert_int_equal(kvsi_file_read(&a, &a_size, p, 1 << 24, &err), KVS_OK);
            assert_int_equal(kvsi_file_read(&b, &b_size, q, 1 << 24, &err), KVS_OK);
            assert_string_equal(a, b);
            kvsi_free(a);
            kvsi_free(b);
        }
        kvsi_free(p);
        kvsi_free(q);
    }
    kvsi_name_list_release(&x);
    kvsi_name_list_release(&y);
}

static void an_interrupted_evaluation_continues(void **state)
{
    char *whole = place("whole"), *parts = place("parts");
    char *whole_files = place("whole/dir__small"), *parts_files = place("parts/dir__small");
    kvs_eval_options o = usual(whole);
    kvs_runtime *rt, *other_rt;
    kvs_model *model = make_model(&rt, 1, 1, 5), *other = make_model(&other_rt, 2, 1, 5);
    kvs_eval *eval;
    int stops = 0;
    kvs_status st = KVS_E_STOPPED;
    kvs_err err;

    (void)state;
    if (kvs_eval_run(&eval, model, tokenizer, &o, &err) != KVS_OK)
        fail_msg("%s", err.message);
    assert_non_null(kvs_eval_path(eval));
    assert_true(kvsi_file_exists(kvs_eval_path(eval)));
    kvs_eval_free(eval);

    /* the same in small passes, other threads, stopped again and again */
    o.out = parts;
    o.pass_tokens = 40;
    o.pass_sequences = 3;
    o.memory = 1;
    for (; st == KVS_E_STOPPED && stops < 1000; stops++) {
        int left = 2 + stops;

        o.progress = stop_later;
        o.user = &left;
        o.resume = stops > 0;
        st = kvs_eval_run(&eval, stops % 2 ? other : model, tokenizer, &o, &err);
    }
    if (st != KVS_OK)
        fail_msg("%s", err.message);
    kvs_eval_free(eval);
    assert_true(stops > 5);
    expect_same_files(whole_files, parts_files);
    kvs_model_free(model);
    kvs_model_free(other);
    kvs_runtime_free(rt);
    kvs_runtime_free(other_rt);
    kvsi_free(whole);
    kvsi_free(parts);
    kvsi_free(whole_files);
    kvsi_free(parts_files);
}

/* Leaves a journal behind, adds a line that is not complete, and tries to continue it with other
 * settings. */
static void another_evaluation_is_refused(void **state)
{
    char *out = place("refused"), *path = place("refused/dir__small/journal.jsonl");
    kvs_runtime *rt, *other_rt;
    kvs_model *model = make_model(&rt, 1, 1, 5), *other = make_model(&other_rt, 1, 1, 6);
    kvs_eval_options o = usual(out);
    kvs_eval *eval;
    int left = 1;
    FILE *journal;
    kvs_err err;

    (void)state;
    o.pass_tokens = 40;
    o.progress = stop_later;
    o.user = &left;
    assert_int_equal(kvs_eval_run(&eval, model, tokenizer, &o, &err), KVS_E_STOPPED);
    o.progress = NULL;
    assert_int_equal(kvs_eval_run(&eval, model, tokenizer, &o, &err), KVS_E_EXISTS);
    assert_non_null(strstr(err.message, "--resume"));
    journal = fopen(path, "a");
    assert_non_null(journal);
    assert_true(fputs("{\"part\": 0, \"doc", journal) != EOF && fclose(journal) == 0);
    o.resume = 1;
    assert_int_equal(kvs_eval_run(&eval, other, tokenizer, &o, &err), KVS_E_INVALID);
    assert_non_null(strstr(err.message, "is of another evaluation: weights is "));
    o.max_length = 300;
    assert_int_equal(kvs_eval_run(&eval, model, tokenizer, &o, &err), KVS_E_INVALID);
    assert_non_null(strstr(err.message, "max_length is 320 there and 300 here"));
    o.max_length = 0;
    o.num_fewshot = 1;
    o.tasks = "arc_easy";
    assert_int_equal(kvs_eval_run(&eval, model, tokenizer, &o, &err), KVS_E_INVALID);
    assert_non_null(strstr(err.message, "tasks.arc_easy is "));
    o = usual(out);
    o.resume = 1;
    if (kvs_eval_run(&eval, model, tokenizer, &o, &err) != KVS_OK)
        fail_msg("%s", err.message);
    kvs_eval_free(eval);
    assert_false(kvsi_file_exists(path));
    kvs_model_free(model);
    kvs_model_free(other);
    kvs_runtime_free(rt);
    kvs_runtime_free(other_rt);
    kvsi_free(out);
    kvsi_free(path);
}

static void rows_and_json_agree(void **state)
{
    kvs_eval_options o = usual(NULL);
    kvs_runtime *rt;
    kvs_model *model = make_model(&rt, 1, 1, 5);
    const kvs_eval_row *row;
    kvs_eval *eval;
    json_t *object;
    size_t count = 0;
    kvs_err err;

    (void)state;
    o.tasks = "arc_easy,hendrycks_math";
    if (kvs_eval_run(&eval, model, tokenizer, &o, &err) != KVS_OK)
        fail_msg("%s", err.message);
    assert_null(kvs_eval_path(eval));
    assert_int_equal(
        kvsi_json_parse(&object, kvs_eval_json(eval), strlen(kvs_eval_json(eval)), "it", &err),
        KVS_OK);
    for (; (row = kvs_eval_row_at(eval, count)); count++) {
        const json_t *task = json_object_get(json_object_get(object, "results"), row->name);
        char key[64];

        snprintf(key, sizeof key, "%s,none", row->metric);
        assert_true(json_number_value(json_object_get(task, key)) == row->value);
        snprintf(key, sizeof key, "%s_stderr,none", row->metric);
        assert_true(json_number_value(json_object_get(task, key)) == row->error);
        assert_int_equal(row->documents, DOCUMENTS);
    }
    assert_int_equal(count, 4); /* the group, acc, acc_norm, exact_match */
    json_decref(object);
    kvs_eval_free(eval);
    kvs_model_free(model);
    kvs_runtime_free(rt);
}

static void one_document_has_no_error(void **state)
{
    kvs_eval_options o = usual(NULL);
    kvs_runtime *rt;
    kvs_model *model = make_model(&rt, 1, 1, 5);
    kvs_eval *eval;
    kvs_err err;

    (void)state;
    o.limit = 1;
    o.tasks = "arc_easy,lambada_openai";
    assert_int_equal(kvs_eval_run(&eval, model, tokenizer, &o, &err), KVS_OK);
    assert_non_null(strstr(kvs_eval_json(eval), "\"acc_stderr,none\": \"N/A\""));
    assert_non_null(strstr(kvs_eval_json(eval), "\"perplexity_stderr,none\": \"N/A\""));
    kvs_eval_free(eval);
    kvs_model_free(model);
    kvs_runtime_free(rt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_interrupted_evaluation_continues),
        cmocka_unit_test(another_evaluation_is_refused),
        cmocka_unit_test(rows_and_json_agree),
        cmocka_unit_test(one_document_has_no_error),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
