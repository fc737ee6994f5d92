/* Log-likelihoods, greedy flags, choices and generated texts of lm-evaluation-harness 0.4.13, for
 * the documents that $KVSHIFT_SHARED/data/eval-reference/expected.json lists; skipped where there
 * is none. */
#include "base/files.h"
#include "base/folders.h"
#include "base/json.h"
#include "base/memory.h"
#include "kvshift/kvshift_eval.h"
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *data, *reference; /* $KVSHIFT_SHARED/data, and eval-reference there */
static size_t compared;        /* log-likelihoods and texts */
static double largest;         /* difference of log-likelihoods, as a part of what is allowed */

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static void compare_sums(const json_t *expected, const json_t *found, const char *what)
{
    const json_t *sums = json_object_get(expected, "loglikelihoods");
    const json_t *greedy = json_object_get(expected, "is_greedy");

    assert_int_equal(json_array_size(found), json_array_size(sums));
    for (size_t i = 0; i < json_array_size(sums); i++) {
        const double want = json_number_value(json_array_get(sums, i));
        const json_t *pair = json_array_get(found, i);
        const double have = strtod(json_string_value(json_array_get(pair, 0)), NULL);
        const double part = fabs(have - want) / (1e-4 + 1e-6 * fabs(want));
        const char *flag = json_is_true(json_array_get(greedy, i)) ? "True" : "False";

        if (!(part <= 1))
            fail_msg("%s, request %zu: %.9g, expected %.9g", what, i, have, want);
        assert_string_equal(json_string_value(json_array_get(pair, 1)), flag);
        largest = part > largest ? part : largest;
        compared++;
    }
}

/* Compares the samples of one task with the documents that the reference lists. */
static void compare_task(const json_t *expected, const char *folder, const char *case_name)
{
    const char *name = text_of(expected, "task");
    char prefix[200], what[300];
    kvsi_name_list files;
    kvsi_text line = {0};
    const json_t *docs = json_object_get(expected, "docs");
    char *path;
    FILE *file;
    int found;
    kvs_err err;

    snprintf(prefix, sizeof prefix, "samples_%s_2", name);
    assert_int_equal(kvsi_dir_list(&files, folder, prefix, &err), KVS_OK);
    assert_int_equal(files.count, 1);
    path = kvsi_path_join(folder, files.names[0]);
    file = fopen(path, "r");
    assert_non_null(file);
    for (size_t i = 0; i < json_array_size(docs); i++) {
        const json_t *doc = json_array_get(docs, i), *resps;
        json_t *sample;

        assert_int_equal(kvsi_read_line(&line, &found, file, path, 1 << 26, &err), KVS_OK);
        assert_true(found);
        assert_int_equal(kvsi_json_parse(&sample, line.data, line.length, path, &err), KVS_OK);
        snprintf(what, sizeof what, "%s: %s, document %zu", case_name, name, i);
        assert_true(json_equal(json_object_get(sample, "doc_id"), json_object_get(doc, "doc_id")));
        assert_string_equal(text_of(sample, "prompt_hash"), text_of(doc, "prompt_sha256"));
        resps = json_object_get(sample, "filtered_resps");
        if (text_of(doc, "generated")) {
            if (strcmp(json_string_value(json_array_get(resps, 0)), text_of(doc, "generated")) != 0)
                fail_msg("%s: '%s', expected '%s'", what,
                         json_string_value(json_array_get(resps, 0)), text_of(doc, "generated"));
            assert_true(json_number_value(json_object_get(sample, "exact_match")) ==
                        json_number_value(json_object_get(doc, "exact_match")));
            compared++;
        } else {
            compare_sums(doc, resps, what);
        }
        json_decref(sample);
    }
    fclose(file);
    kvsi_text_release(&line);
    kvsi_free(path);
    kvsi_name_list_release(&files);
}

/* Evaluates the listed documents of a case. */
static void run_case(const json_t *c, const kvs_model *model, const kvs_tokenizer *tokenizer,
                     size_t number)
{
    const json_t *leaves = json_object_get(c, "subtasks"), *leaf;
    kvsi_text tasks = {0};
    char name[100], folder_name[40];
    char *out, *folder, *own_data = NULL;
    size_t listed = 0, i;
    kvs_eval_options o;
    kvs_eval *eval;
    kvs_err err;

    snprintf(name, sizeof name, "%s %d-shot", text_of(c, "task"),
             (int)json_integer_value(json_object_get(c, "num_fewshot")));
    snprintf(folder_name, sizeof folder_name, "case-%zu", number);
    if (leaves) {
        json_array_foreach(leaves, i, leaf) {
            kvsi_text_format(&tasks, "%s%s", i > 0 ? "," : "", text_of(leaf, "task"));
            listed = json_array_size(json_object_get(leaf, "docs"));
        }
    } else {
        kvsi_text_add(&tasks, text_of(c, "task"));
        listed = json_array_size(json_object_get(c, "docs"));
    }
    assert_true(listed > 0);
    if (text_of(c, "data"))
        own_data = kvsi_path_join(reference, text_of(c, "data"));
    out = kvsi_path_join(support_dir, folder_name);
    folder = kvsi_path_join(out, "model");
    kvs_eval_options_init(&o, sizeof o);
    o.tasks = tasks.data;
    o.data = own_data ? own_data : data;
    o.num_fewshot = (long)json_integer_value(json_object_get(c, "num_fewshot"));
    o.limit = (double)listed;
    o.out = out;
    if (kvs_eval_run(&eval, model, tokenizer, &o, &err) != KVS_OK)
        fail_msg("%s: %s", name, err.message);
    kvs_eval_free(eval);
    if (leaves)
        json_array_foreach(leaves, i, leaf)
            compare_task(leaf, folder, name);
    else
        compare_task(c, folder, name);
    kvsi_text_release(&tasks);
    kvsi_free(own_data);
    kvsi_free(out);
    kvsi_free(folder);
}

static void run_model(const char *which)
{
    const kvs_runtime_options how = {.size = sizeof how, .threads = 2, .exact = 1};
    char *path = kvsi_path_join(reference, "expected.json"), *folder;
    char *tokenizer_path;
    kvs_runtime *rt;
    kvs_model *model;
    kvs_tokenizer *tokenizer;
    json_t *expected, *c;
    size_t i;
    kvs_err err;

    folder = kvsi_path_join(reference, which);
    tokenizer_path = kvsi_path_join(folder, "tokenizer.json");
    if (kvsi_json_read(&expected, path, 1 << 26, &err) != KVS_OK)
        fail_msg("%s", err.message);
    assert_int_equal(kvs_runtime_create(&rt, &how, &err), KVS_OK);
    assert_int_equal(kvs_model_load(&model, rt, folder, NULL, &err), KVS_OK);
    assert_int_equal(kvs_tokenizer_load(&tokenizer, tokenizer_path, &err), KVS_OK);
    compared = 0;
    largest = 0;
    json_array_foreach(json_object_get(expected, "cases"), i, c) {
        if (strcmp(text_of(c, "model"), which) == 0)
            run_case(c, model, tokenizer, i);
    }
    print_message("%s: %zu results, the largest difference is %.2f of what is allowed\n", which,
                  compared, largest);
    assert_true(compared > 1000);
    json_decref(expected);
    kvs_tokenizer_free(tokenizer);
    kvs_model_free(model);
    kvs_runtime_free(rt);
    kvsi_free(tokenizer_path);
    kvsi_free(folder);
    kvsi_free(path);
}

static void plain_model(void **state)
{
    (void)state;
    run_model("plain");
}

static void shifted_model(void **state)
{
    (void)state;
    run_model("shifted");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(plain_model, support_dir_setup, support_dir_teardown),
        cmocka_unit_test_setup_teardown(shifted_model, support_dir_setup, support_dir_teardown),
    };
    const char *shared = getenv("KVSHIFT_SHARED");
    int failed;

    data = shared ? kvsi_path_join(shared, "data") : NULL;
    reference = data ? kvsi_path_join(data, "eval-reference") : NULL;
    if (!reference || !kvsi_is_folder(reference)) {
        print_message("skipped: no $KVSHIFT_SHARED/data/eval-reference\n");
        kvsi_free(data);
        kvsi_free(reference);
        return 0;
    }
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    kvsi_free(data);
    kvsi_free(reference);
    return failed;
}
