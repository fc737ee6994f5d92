/* Stored results: reading them, what is refused, pairs, tests and measures. */
#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"
#include "eval/compare.h"
#include "eval/measures.h"
#include "eval/stored.h"
#include "kvshift/kvshift_lab.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h> /* needs those before it */
/* clang-format on */

#define assert_near(a, b, tolerance) assert_true(fabs((a) - (b)) <= (tolerance))

static char root[] = "/tmp/kvshift-test-XXXXXX";
static kvs_err err;

static int make_root(void **state)
{
    (void)state;
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

static char *in_root(const char *name)
{
    static char paths[64][256];
    static size_t next;
    char *path = paths[next++ % 64];

    snprintf(path, sizeof *paths, "%s/%s", root, name);
    return path;
}

static void write_file(const char *name, const char *text)
{
    char *path = in_root(name), *dir = kvsi_path_parent(path);
    int made;

    assert_int_equal(kvsi_dir_make(dir, &made, &err), KVS_OK);
    kvsi_free(dir);
    assert_int_equal(kvsi_file_write_text(path, text, &err), KVS_OK);
}

/* One document of two choices with likelihoods a and b, of which `gold` is right. */
static void add_sample(kvsi_text *out, int id, const char *hash, const char *prompt, double a,
                       double b, int gold)
{
    kvsi_text_format(
        out,
        "{\"doc_id\": %d, \"doc\": {}, \"target\": \"%d\", \"arguments\": {\"gen_args_0\": "
        "{\"arg_0\": \"%s\", \"arg_1\": \" yes\"}, \"gen_args_1\": {\"arg_0\": \"%s\", \"arg_1\": "
        "\" no\"}}, \"filtered_resps\": [[\"%.17g\", \"False\"], [\"%.17g\", \"False\"]], "
        "\"filter\": \"none\", \"metrics\": [\"acc\"], \"doc_hash\": \"%s\", \"acc\": %d.0}\n",
        id, gold, prompt, prompt, a, b, hash, (b > a) == gold);
}

static void write_results(const char *dir, const char *date, const char *task, const char *rest)
{
    char name[256];
    kvsi_text text = {0};

    snprintf(name, sizeof name, "%s/results_%s.json", dir, date);
    kvsi_text_format(&text,
                     "{\"results\": {\"%s\": {}}, \"n-shot\": {\"%s\": 0}, \"model_name\": "
                     "\"models/%s\"%s}",
                     task, task, dir, rest);
    write_file(name, text.data);
    kvsi_text_release(&text);
}

static void write_samples(const char *dir, const char *date, const char *task, kvsi_text *samples)
{
    char name[256];

    snprintf(name, sizeof name, "%s/samples_%s_%s.jsonl", dir, task, date);
    write_file(name, samples->data);
    kvsi_text_release(samples);
}

/* ---- reading --------------------------------------------------------------------------------- */

static void a_folder_gives_each_task_from_its_newest_results(void **state)
{
    kvsi_text samples = {0};
    kvsi_stored stored;

    (void)state;
    add_sample(&samples, 0, "a", "p", -1, -2, 0);
    write_samples("newest", "2026-01-01T00-00-00.000001", "one", &samples);
    write_results("newest", "2026-01-01T00-00-00.000001", "one", "");
    add_sample(&samples, 0, "a", "p", -1, -2, 0);
    write_samples("newest", "2026-01-01T00-00-00.000002", "two", &samples);
    write_results("newest", "2026-01-01T00-00-00.000002", "two", "");
    add_sample(&samples, 0, "a", "p", -2, -1, 0);
    write_samples("newest", "2026-01-01T00-00-00.000003", "one", &samples);
    write_results("newest", "2026-01-01T00-00-00.000003", "one", "");

    assert_int_equal(kvsi_stored_open(&stored, in_root("newest"), &err), KVS_OK);
    assert_int_equal(stored.count, 2);
    assert_string_equal(stored.name, "newest");
    assert_near(kvsi_stored_task_at(&stored, "one")->documents[0].metrics[0], 0, 0);
    assert_near(kvsi_stored_task_at(&stored, "two")->documents[0].metrics[0], 1, 0);
    kvsi_stored_close(&stored);

    assert_int_equal(
        kvsi_stored_open(&stored, in_root("newest/results_2026-01-01T00-00-00.000001.json"), &err),
        KVS_OK);
    assert_int_equal(stored.count, 1);
    assert_near(stored.tasks[0].documents[0].metrics[0], 1, 0);
    kvsi_stored_close(&stored);
}

static void the_folder_of_the_model_inside_is_found(void **state)
{
    kvsi_text samples = {0};
    kvsi_stored stored;

    (void)state;
    add_sample(&samples, 0, "a", "p", -1, -2, 0);
    write_samples("outer/inner", "2026-01-01", "one", &samples);
    write_results("outer/inner", "2026-01-01", "one", "");
    assert_int_equal(kvsi_stored_open(&stored, in_root("outer"), &err), KVS_OK);
    assert_string_equal(stored.name, "inner");
    kvsi_stored_close(&stored);

    write_results("outer/second", "2026-01-01", "one", "");
    assert_int_equal(kvsi_stored_open(&stored, in_root("outer"), &err), KVS_E_INVALID);
    assert_non_null(strstr(err.message, "several models"));
}

static void results_that_disagree_with_their_samples_get_a_remark(void **state)
{
    kvsi_text samples = {0};
    kvsi_stored stored;

    (void)state;
    add_sample(&samples, 0, "a", "p", -1, -2, 0);
    write_samples("wrong", "1", "one", &samples);
    write_file("wrong/results_1.json", "{\"results\": {\"one\": {\"acc,none\": 0.5}}}");
    assert_int_equal(kvsi_stored_open(&stored, in_root("wrong"), &err), KVS_OK);
    assert_int_equal(stored.remark_count, 1);
    assert_non_null(strstr(stored.remarks[0], "the results say acc 0.5"));
    kvsi_stored_close(&stored);
}

/* ---- hostile files --------------------------------------------------------------------------- */

/* Replaces `from` in a valid sample and expects a message with the line and `expected`. */
static void refuse(const char *from, const char *to, const char *expected)
{
    kvsi_text sample = {0}, changed = {0};
    kvsi_stored stored;
    const char *at;

    add_sample(&sample, 0, "first", "p", -1, -2, 0);
    kvsi_text_add(&changed, sample.data);
    sample.length = 0;
    add_sample(&sample, 1, "second", "p", -1, -2, 0);
    at = strstr(sample.data, from);
    assert_non_null(at);
    kvsi_text_add_bytes(&changed, sample.data, (size_t)(at - sample.data));
    kvsi_text_add(&changed, to);
    kvsi_text_add(&changed, at + strlen(from));
    write_samples("bad", "1", "one", &changed);
    write_results("bad", "1", "one", "");
    kvsi_text_release(&sample);
    if (kvsi_stored_open(&stored, in_root("bad"), &err) == KVS_OK)
        fail_msg("'%s' instead of '%s' was accepted", to, from);
    if (!strstr(err.message, expected) || !strstr(err.message, "samples_one_1.jsonl"))
        fail_msg("expected '%s' and the file, found '%s'", expected, err.message);
}

static void malformed_samples_are_refused_with_file_and_line(void **state)
{
    (void)state;
    refuse("\"doc_id\": 1", "\"doc_id\": -1", "line 2': key 'doc_id'");
    refuse("\"doc_id\": 1", "\"doc_id\": \"x\"", "line 2': key 'doc_id'");
    refuse("{\"doc_id\"", "[\"doc_id\"", "line 2': malformed JSON");
    refuse("\"doc_hash\": \"second\"", "\"doc_hash\": 5", "line 2': key 'doc_hash'");
    refuse("\"filtered_resps\": [[", "\"filtered_resps\": 5, \"x\": [[", "key 'filtered_resps'");
    refuse("\"-1\"", "\"nan\"", "key 'filtered_resps': expected a finite");
    refuse("\"-1\"", "\"-1x\"", "key 'filtered_resps': expected a finite");
    refuse("\"-1\"", "{}", "key 'filtered_resps': expected a finite");
    refuse(", [\"-2\", \"False\"]", "", "expected as many responses as requests, 2, found 1");
    refuse("\"gen_args_0\"", "\"gen_args_9\"", "key 'arguments'");
    refuse("\"arg_1\": \" no\"", "\"arg_1\": 5", "key 'arguments'");
    refuse("\"doc_id\": 1", "\"doc_id\": 0, \"doc_id\": 0", "line 2': malformed JSON");
}

static void a_document_twice_and_an_empty_file_are_refused(void **state)
{
    kvsi_text samples = {0};
    kvsi_stored stored;

    (void)state;
    add_sample(&samples, 4, "a", "p", -1, -2, 0);
    add_sample(&samples, 4, "a", "p", -1, -2, 0);
    write_samples("twice", "1", "one", &samples);
    write_results("twice", "1", "one", "");
    assert_int_equal(kvsi_stored_open(&stored, in_root("twice"), &err), KVS_E_FORMAT);
    assert_non_null(strstr(err.message, "document 4 is there twice"));

    kvsi_text_add(&samples, "\n");
    write_samples("empty", "1", "one", &samples);
    write_results("empty", "1", "one", "");
    assert_int_equal(kvsi_stored_open(&stored, in_root("empty"), &err), KVS_E_FORMAT);
    assert_non_null(strstr(err.message, "has no samples"));

    write_file("none/readme", "");
    assert_int_equal(kvsi_stored_open(&stored, in_root("none"), &err), KVS_E_IO);
    write_results("alone", "1", "one", "");
    assert_int_equal(kvsi_stored_open(&stored, in_root("alone"), &err), KVS_E_IO);
    assert_non_null(strstr(err.message, "without samples"));
    write_file("list/results_1.json", "[]");
    assert_int_equal(kvsi_stored_open(&stored, in_root("list"), &err), KVS_E_FORMAT);
    write_file("no/results_1.json", "{\"results\": []}");
    assert_int_equal(kvsi_stored_open(&stored, in_root("no"), &err), KVS_E_FORMAT);
}

/* A task named "../x" must not lead to files elsewhere; groups in a circle must end. */
static void names_of_tasks_are_not_paths(void **state)
{
    kvsi_text samples = {0};
    kvsi_stored stored;

    (void)state;
    write_results("names", "1", "../one", "");
    assert_int_equal(kvsi_stored_open(&stored, in_root("names"), &err), KVS_E_IO);

    add_sample(&samples, 0, "a", "p", -1, -2, 0);
    write_samples("circle", "1", "one", &samples);
    write_results("circle", "1", "one",
                  ", \"group_subtasks\": {\"g\": [\"one\", \"h\", 5], \"h\": [\"g\"], \"k\": 1}");
    assert_int_equal(kvsi_stored_open(&stored, in_root("circle"), &err), KVS_OK);
    assert_non_null(stored.tasks[0].group);
    kvsi_stored_close(&stored);
}

/* ---- comparison ------------------------------------------------------------------------------ */

/* Documents 0 to n-1; the first `right` are right, and `flip` others too. */
static void write_model(const char *dir, int first, int n, int right_from, int right_to,
                        const char *prompt)
{
    kvsi_text samples = {0};

    for (int i = first; i < n; i++) {
        char hash[32];
        const int right = i >= right_from && i < right_to;

        snprintf(hash, sizeof hash, "hash%04d", i * 7919 % 10007);
        add_sample(&samples, i, hash, prompt, right ? -1 : -3, -2, 0);
    }
    write_samples(dir, "1", "one", &samples);
    write_results(dir, "1", "one", "");
}

static const kvsi_compared *row_of(const kvsi_comparison *c, const char *metric)
{
    for (size_t i = 0; i < c->count; i++)
        if (strcmp(c->rows[i].metric, metric) == 0)
            return c->rows + i;
    return NULL;
}

/* First: right in 0 .. 39 of 0 .. 99; second: right in 23 .. 77 of 10 .. 109.  In common are 10 ..
 * 99: 38 are right only in the second and 13 only in the first. */
static void documents_in_both_are_compared(void **state)
{
    const kvsi_compare_options o = {.resamples = 1000, .seed = 1};
    const char *paths[] = {in_root("first"), in_root("second")};
    const kvsi_compared *row;
    kvsi_stored *models;
    kvsi_comparison c;

    (void)state;
    write_model("first", 0, 100, 0, 40, "p");
    write_model("second", 10, 110, 23, 78, "p");
    assert_int_equal(kvsi_stored_open_all(&models, paths, 2, &err), KVS_OK);
    assert_int_equal(kvsi_comparison_create(&c, models, 2, &o, &err), KVS_OK);
    row = row_of(&c, "acc");
    assert_int_equal(row->count, 90);
    assert_int_equal(row->gained, 38);
    assert_int_equal(row->lost, 13);
    assert_near(row->values[0], 30.0 / 90, 1e-15);
    assert_near(row->values[1], 55.0 / 90, 1e-15);
    assert_near(row->p, kvsi_mcnemar_test(38, 13, 90).exact, 1e-15);
    assert_near(row->holm, row->p, 1e-15);
    assert_non_null(strstr(c.remarks[0], "20 documents are left out, 10 only in 'first' and 10"));
    row = row_of(&c, "gold_bpb"); /* " yes" has 3 bytes without its space */
    assert_near(row->difference, -25.0 * 2 / 90 / (3 * log(2)), 1e-12);
    assert_true(row->p < 0.01 && row->interval.high < 0);
    kvsi_comparison_release(&c);
    kvsi_stored_close_all(models, 2);
}

/* One document with a prompt_hash; its doc_hash is the second argument. */
static void write_hashed(const char *dir, const char *hash, const char *prompt)
{
    kvsi_text samples = {0}, changed = {0};

    add_sample(&samples, 3, hash, "p", -1, -2, 0);
    kvsi_text_format(&changed, "{\"prompt_hash\": \"%s\", \"target_hash\": \"t\", %s", prompt,
                     samples.data + 1);
    kvsi_text_release(&samples);
    write_samples(dir, "1", "one", &changed);
    write_results(dir, "1", "one", "");
}

static void documents_of_another_hash_are_paired_by_prompt(void **state)
{
    const kvsi_compare_options o = {.resamples = 100, .seed = 1};
    const char *paths[] = {in_root("hash1"), in_root("hash2"), in_root("hash3")};
    kvsi_stored *models;
    kvsi_comparison c;

    (void)state;
    write_hashed("hash1", "a", "same");
    write_hashed("hash2", "b", "same");
    write_hashed("hash3", "b", "other");
    assert_int_equal(kvsi_stored_open_all(&models, paths, 3, &err), KVS_OK);
    assert_int_equal(kvsi_comparison_create(&c, models, 2, &o, &err), KVS_OK);
    assert_int_equal(row_of(&c, "acc")->count, 1);
    assert_non_null(strstr(c.remarks[0], "1 are paired by number, prompt and target"));
    kvsi_comparison_release(&c);
    kvsi_stored_close_all(models, 3);
    paths[1] = paths[2];
    assert_int_equal(kvsi_stored_open_all(&models, paths, 2, &err), KVS_OK);
    assert_int_equal(kvsi_comparison_create(&c, models, 2, &o, &err), KVS_E_INVALID);
    kvsi_stored_close_all(models, 2);
}

static void different_prompts_are_told_and_can_be_left_out(void **state)
{
    kvsi_compare_options o = {.resamples = 100, .seed = 1};
    const char *paths[] = {in_root("left"), in_root("right")};
    kvsi_stored *models;
    kvsi_comparison c;

    (void)state;
    write_model("left", 0, 20, 0, 10, "p");
    write_model("right", 0, 20, 5, 15, "q");
    assert_int_equal(kvsi_stored_open_all(&models, paths, 2, &err), KVS_OK);
    assert_int_equal(kvsi_comparison_create(&c, models, 2, &o, &err), KVS_OK);
    assert_non_null(strstr(c.remarks[0], "20 of 20 documents have different prompts"));
    kvsi_comparison_release(&c);
    o.same_prompts = 1;
    assert_int_equal(kvsi_comparison_create(&c, models, 2, &o, &err), KVS_E_INVALID);
    assert_non_null(strstr(err.message, "no document in common"));
    kvsi_stored_close_all(models, 2);
}

static void a_score_of_always_the_first_choice_is_called_out(void **state)
{
    kvs_eval_report *report;
    const char *paths[] = {in_root("constant")};

    (void)state;
    write_model("constant", 0, 20, 0, 20, "p");
    assert_int_equal(kvs_eval_show(&report, paths, 1, NULL, &err), KVS_OK);
    assert_non_null(strstr(kvs_eval_report_text(report), "is exactly that of always the first"));
    kvs_eval_report_free(report);
}

/* ---- measures -------------------------------------------------------------------------------- */

/* Two documents of two choices with likelihoods 0 and -log 3: p = 3/4, 1/4.  In the first the right
 * choice is the likelier one, in the second the other.  Brier: 2/16 and 18/16. */
static void calibration_is_as_defined(void **state)
{
    kvsi_text samples = {0};
    kvsi_stored stored;
    kvsi_unit *units;
    kvsi_measures m;
    size_t count;

    (void)state;
    add_sample(&samples, 0, "a", "p", 0, -log(3), 0);
    add_sample(&samples, 1, "b", "p", 0, -log(3), 1);
    write_samples("calibration", "1", "one", &samples);
    write_results("calibration", "1", "one", "");
    assert_int_equal(kvsi_stored_open(&stored, in_root("calibration"), &err), KVS_OK);
    assert_int_equal(kvsi_units_of(&units, &count, &stored, 0, &err), KVS_OK);
    m = kvsi_measures_of(units);
    assert_near(m.brier.mean, (2.0 / 16 + 18.0 / 16) / 2, 1e-12);
    assert_near(m.margin.mean, 0, 1e-12);
    assert_near(m.ece, 0.25, 1e-12); /* confidence 0.75, accuracy 0.5 */
    assert_int_equal(m.bins[11].count, 2);
    assert_near(m.bits.mean, log(3) / log(2) / 2 / 2, 1e-12); /* " no": 2 bytes */
    kvsi_units_free(units, count);
    kvsi_stored_close(&stored);
}

/* A group's error is pooled over subjects: sqrt([sum (n-1) n e^2 / (N - k)] / N). */
static void groups_have_the_error_of_the_harness(void **state)
{
    kvsi_text samples = {0};
    kvsi_unit_score score;
    kvsi_stored stored;
    kvsi_unit *units;
    size_t count;

    (void)state;
    for (int i = 0; i < 4; i++)
        add_sample(&samples, i, i < 2 ? "a" : "b", "p", -1, -2, i == 0);
    write_samples("group", "1", "g_one", &samples);
    for (int i = 0; i < 3; i++)
        add_sample(&samples, i, "a", "p", -1, -2, i < 2);
    write_samples("group", "1", "g_two", &samples);
    write_file("group/results_1.json", "{\"results\": {\"g_one\": {}, \"g_two\": {}}, "
                                       "\"group_subtasks\": {\"g\": [\"g_one\", \"g_two\"]}}");
    assert_int_equal(kvsi_stored_open(&stored, in_root("group"), &err), KVS_OK);
    assert_int_equal(kvsi_units_of(&units, &count, &stored, 0, &err), KVS_OK);
    assert_int_equal(count, 1);
    assert_string_equal(units[0].name, "g");
    score = kvsi_unit_score_of(units, "acc");
    assert_near(score.value, 4.0 / 7, 1e-15);
    /* Sums of squares: 3/4 of 4 documents with mean 3/4, 2/3 of 3 with mean 1/3. */
    assert_near(score.error, sqrt((0.75 + 2.0 / 3) / (7 - 2) / 7), 1e-12);
    kvsi_units_free(units, count);
    kvsi_stored_close(&stored);
}

static void last_words_are_found_in_the_context(void **state)
{
    static const struct {
        const char *context, *word;
        int copied;
    } cases[] = {
        {"the signs were", " signs", 1}, {"the signs", " sign", 0},    {"assign it", " sign", 0},
        {"'sign' he said", " sign", 1},  {"resign, sign", " sign", 1}, {"", " sign", 0},
        {"Sign here", " sign", 0},       {"is it sign?", " sign", 1},
    };
    const size_t cases_count = sizeof cases / sizeof *cases;
    kvsi_text samples = {0};
    kvsi_stored stored;

    (void)state;
    for (size_t i = 0; i < cases_count; i++)
        kvsi_text_format(&samples,
                         "{\"doc_id\": %zu, \"doc\": {}, \"target\": \"%s\", \"arguments\": "
                         "{\"gen_args_0\": {\"arg_0\": \"%s\", \"arg_1\": \"%s\"}}, "
                         "\"filtered_resps\": [[\"-1.5\", \"True\"]], \"metrics\": "
                         "[\"perplexity\", \"acc\"], \"doc_hash\": \"%zu\", \"perplexity\": -1.5, "
                         "\"acc\": 1}\n",
                         i, cases[i].word, cases[i].context, cases[i].word, i);
    write_samples("words", "1", "lambada_openai", &samples);
    write_results("words", "1", "lambada_openai", "");
    assert_int_equal(kvsi_stored_open(&stored, in_root("words"), &err), KVS_OK);
    assert_int_equal(stored.tasks[0].kind, KVSI_STORED_LAST_WORD);
    for (size_t i = 0; i < cases_count; i++)
        assert_int_equal(stored.tasks[0].documents[i].copied, cases[i].copied);
    kvsi_stored_close(&stored);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_gives_each_task_from_its_newest_results),
        cmocka_unit_test(the_folder_of_the_model_inside_is_found),
        cmocka_unit_test(results_that_disagree_with_their_samples_get_a_remark),
        cmocka_unit_test(malformed_samples_are_refused_with_file_and_line),
        cmocka_unit_test(a_document_twice_and_an_empty_file_are_refused),
        cmocka_unit_test(names_of_tasks_are_not_paths),
        cmocka_unit_test(documents_in_both_are_compared),
        cmocka_unit_test(documents_of_another_hash_are_paired_by_prompt),
        cmocka_unit_test(different_prompts_are_told_and_can_be_left_out),
        cmocka_unit_test(a_score_of_always_the_first_choice_is_called_out),
        cmocka_unit_test(calibration_is_as_defined),
        cmocka_unit_test(groups_have_the_error_of_the_harness),
        cmocka_unit_test(last_words_are_found_in_the_context),
    };

    return cmocka_run_group_tests(tests, make_root, remove_root);
}
