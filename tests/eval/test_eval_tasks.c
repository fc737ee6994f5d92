/* Tasks: texts of documents, layouts of files, few-shot draws, groups, and what is refused. */
#include "base/files.h"
#include "base/memory.h"
#include "eval/groups.h"
#include "eval/hashes.h"
#include "eval/python_random.h"
#include "eval/records.h"
#include "support.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- files ----------------------------------------------------------------------------------- */

/* Writes support_dir/name, with its folders. */
static void put_bytes_at(const char *name, const char *text, size_t size)
{
    char *path = kvsi_path_join(support_dir, name), *parent = kvsi_path_parent(path);
    FILE *file;
    int made;

    assert_int_equal(kvsi_dir_make(parent, &made, NULL), KVS_OK);
    file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    kvsi_free(parent);
    kvsi_free(path);
}

static void put(const char *name, const char *text)
{
    put_bytes_at(name, text, strlen(text));
}

static void drop(const char *name)
{
    char *path = kvsi_path_join(support_dir, name);

    assert_int_equal(remove(path), 0);
    kvsi_free(path);
}

static kvsi_eval_task *load(const char *name, long shots, double limit)
{
    const kvsi_eval_load options = {.data = support_dir, .shots = shots, .limit = limit};
    kvsi_eval_task *task;
    kvs_err err;

    if (kvsi_eval_task_load(&task, name, &options, &err) != KVS_OK)
        fail_msg("%s: %s", name, err.message);
    return task;
}

/* Loading fails with a message of one line that contains `expected`. */
static void refuse_shots(const char *name, long shots, const char *expected)
{
    const kvsi_eval_load options = {.data = support_dir, .shots = shots};
    kvsi_eval_task *task;
    kvs_err err = {0};

    assert_int_not_equal(kvsi_eval_task_load(&task, name, &options, &err), KVS_OK);
    assert_null(task);
    assert_null(strchr(err.message, '\n'));
    if (!strstr(err.message, expected))
        fail_msg("expected \"%s\" in \"%s\"", expected, err.message);
}

static void refuse(const char *name, const char *expected)
{
    refuse_shots(name, 0, expected);
}

static void expect_request(const kvsi_eval_task *task, size_t document, size_t request,
                           const char *context, const char *continuation)
{
    const kvsi_eval_request *r;

    assert_true(document < task->count);
    assert_true(request < task->documents[document].count);
    r = &task->documents[document].requests[request];
    assert_string_equal(r->context, context);
    if (continuation)
        assert_string_equal(r->continuation, continuation);
    else
        assert_null(r->continuation);
}

/* ---- texts ----------------------------------------------------------------------------------- */

static void lambada_ends_with_a_word(void **state)
{
    kvsi_eval_task *task;

    (void)state;
    put("lambada/lambada_test.jsonl",
        "{\"text\": \"I don't care about signs\"}\n"
        "{\"text\": \"the rise of\\n\\nPower\"}\n{\"text\": \"one\"}\n"
        "{\"text\": \"two  \"}");
    task = load("lambada_openai", -1, 0);
    assert_int_equal(task->kind, KVSI_EVAL_LAST_WORD);
    assert_int_equal(task->official, 5153);
    expect_request(task, 0, 0, "I don't care about", " signs");
    expect_request(task, 1, 0, "the rise", " of\n\nPower");
    expect_request(task, 2, 0, "", " one");
    expect_request(task, 3, 0, "two ", " ");
    assert_string_equal(task->documents[1].target, " of\n\nPower");
    assert_int_equal(task->documents[1].line, 2);
    kvsi_eval_task_free(task);

    task = load("lambada_openai", 1, 0); /* two spaces before the word of an example */
    assert_non_null(strstr(task->documents[0].requests[0].context, "  "));
    kvsi_eval_task_free(task);
    drop("lambada/lambada_test.jsonl");
}

#define WINO(sentence, one, two, answer)                                                           \
    "{\"qID\": \"x\", \"sentence\": \"" sentence "\", \"option1\": \"" one                         \
    "\", \"option2\": \"" two "\", \"answer\": \"" answer "\"}\n"

static void winogrande_fills_the_gap(void **state)
{
    kvsi_eval_task *task;

    (void)state;
    put("winogrande/dev.jsonl",
        WINO("Sarah was better than Maria so _ always got the easier cases.", "Sarah", "Maria", "2")
            WINO("_ 's _ hat \\u2003", "A", "B", "1"));
    task = load("winogrande", 0, 0);
    assert_int_equal(task->documents[0].count, 2);
    expect_request(task, 0, 0, "Sarah was better than Maria so Sarah",
                   " always got the easier cases.");
    expect_request(task, 0, 1, "Sarah was better than Maria so Maria",
                   " always got the easier cases.");
    expect_request(task, 1, 1, "B", " 's _ hat");
    assert_int_equal(task->documents[0].gold, 1);
    assert_string_equal(task->documents[1].target, "'s _ hat");
    assert_null(json_object_get(task->documents[0].json, "qID"));
    kvsi_eval_task_free(task);
    drop("winogrande/dev.jsonl");
}

static void hellaswag_is_cleaned(void **state)
{
    kvsi_eval_task *task;

    (void)state;
    put("hellaswag/hellaswag_val.jsonl",
        "{\"ind\": 1, \"activity_label\": \"Home\", \"ctx_a\": \"How to x [header] How to y "
        "[title] "
        "Do z. [step] Then\", \"ctx_b\": \"the Man and Bob\", \"ctx\": \"not used\", \"endings\": "
        "[\" A [title]\", \"a.  b   c [substeps] d [unclosed\", \"[x\\ny]\", \"\\u00e9t\\u00e9\"], "
        "\"label\": 2}\n"
        "{\"activity_label\": \"B\", \"ctx\": \"one he\", \"endings\": [\"x\", \"y\"], "
        "\"label\": \"1\"}\n");
    task = load("hellaswag", 0, 0);
    expect_request(task, 0, 0, "Home: How to x How to y. Do z. Then The man and bob", " A. ");
    expect_request(task, 0, 1, "Home: How to x How to y. Do z. Then The man and bob",
                   " a. b  c d [unclosed");
    expect_request(task, 0, 2, "Home: How to x How to y. Do z. Then The man and bob", " [x\ny]");
    assert_int_equal(task->documents[0].lengths[3], 3);
    assert_int_equal(task->documents[0].gold, 2);
    assert_string_equal(task->documents[0].target, "2");
    expect_request(task, 1, 1, "B: one he", " y");
    assert_string_equal(json_string_value(json_object_get(task->documents[0].json, "label")), "2");
    kvsi_eval_task_free(task);
    drop("hellaswag/hellaswag_val.jsonl");
}

static void arc_has_two_layouts(void **state)
{
    static const char ai2[] =
        "{\"id\": \"a\", \"question\": {\"stem\": \"Why? \", \"choices\": "
        "[{\"text\": \"x\", \"label\": \"1\"}, {\"text\": \"y\", \"label\": "
        "\"2\"}, {\"text\": \"z\", \"label\": \"3\"}]}, \"answerKey\": \"3\"}";
    static const char hf[] = "{\"id\": \"a\", \"question\": \"Why? \", \"choices\": {\"text\": "
                             "[\"x\", \"y\", \"z\"], \"label\": [\"1\", \"2\", \"3\"]}, "
                             "\"answerKey\": \"3\"}";
    kvsi_eval_task *task;
    char one[KVSI_SHA256_TEXT], two[KVSI_SHA256_TEXT];

    (void)state;
    put("arc/ARC-Easy/ARC-Easy-Test.jsonl", ai2);
    put("arc/ARC-Easy/ARC-Easy-Test.csv", "is,not,read\n");
    put("arc/ARC-Challenge/test-00000-of-00002.jsonl", hf);
    put("arc/ARC-Challenge/test-00001-of-00002.jsonl", hf);
    task = load("arc_easy", 0, 0);
    assert_int_equal(task->count, 1);
    expect_request(task, 0, 2, "Question: Why? \nAnswer:", " z");
    assert_int_equal(task->documents[0].gold, 2);
    assert_int_equal(kvsi_eval_task_hash(one, task, NULL), KVS_OK);
    kvsi_eval_task_free(task);
    task = load("arc_challenge", 0, 1);
    assert_int_equal(task->available, 2);
    assert_int_equal(task->file_count, 2);
    assert_int_equal(kvsi_eval_task_hash(two, task, NULL), KVS_OK);
    assert_string_equal(one, two); /* the same document, prompt and target */
    kvsi_eval_task_free(task);
    drop("arc/ARC-Easy/ARC-Easy-Test.csv");
    drop("arc/ARC-Easy/ARC-Easy-Test.jsonl");
    drop("arc/ARC-Challenge/test-00000-of-00002.jsonl");
    drop("arc/ARC-Challenge/test-00001-of-00002.jsonl");
}

/* Mixed line ends, a byte order mark, line ends and doubled quotes in cells, outer spaces. */
static void mmlu_is_read_from_csv_and_json(void **state)
{
    static const char question[] = "Line 1\r\n\"two\", x\nA.  a \nB. b\nC. None\nD. d\nAnswer:";
    kvsi_eval_task *task;
    char prompt[512];

    (void)state;
    put("mmlu/test/us_foreign_policy_test.csv", "\xef\xbb\xbf\" Line 1\r\n\"\"two\"\", x \", a "
                                                ",b,None,d,C\r\nQ2,1,2,3,4,A\n\nQ3,1,2,3,4,D");
    put("mmlu/dev/us_foreign_policy_dev.csv", "question,A,B,C,D,answer\nE,1,2,3,4,B\n");
    task = load("mmlu_us_foreign_policy", 0, 0);
    assert_int_equal(task->count, 3);
    snprintf(prompt, sizeof prompt, "%s%s",
             "The following are multiple choice questions (with answers) about us foreign policy."
             "\n\n",
             question);
    expect_request(task, 0, 2, prompt, " C");
    assert_int_equal(task->documents[0].gold, 2);
    assert_int_equal(task->documents[1].line, 3);
    assert_int_equal(task->documents[2].line, 5);
    assert_string_equal(task->alias, "us_foreign_policy");
    kvsi_eval_task_free(task);

    task = load("mmlu_us_foreign_policy", 1, 0);
    expect_request(task, 1, 0,
                   "The following are multiple choice questions (with answers) about us foreign "
                   "policy.\n\nE\nA. 1\nB. 2\nC. 3\nD. 4\nAnswer: B\n\nQ2\nA. 1\nB. 2\nC. 3\nD. 4\n"
                   "Answer:",
                   " A");
    kvsi_eval_task_free(task);

    task = load("mmlu_us_foreign_policy_continuation", 0, 0);
    expect_request(task, 0, 0,
                   "The following are questions (with answers) about us foreign policy.\n\n"
                   "Question: Line 1\r\n\"two\", x\nAnswer:",
                   "  a ");
    assert_int_equal(task->documents[0].lengths[0], 3);
    kvsi_eval_task_free(task);
    drop("mmlu/test/us_foreign_policy_test.csv");

    put("mmlu/test.json",
        "[\n{\"question\": \"Q\", \"subject\": \"anatomy\", \"choices\": [\"a\", "
        "\"b\", \"c\", \"d\"], \"answer\": 1},\n{\"question\": \"R\", \"subject\": "
        "\"us_foreign_policy\",\n \"choices\": [\"a\", \"b\", \"c\", \"d\"], "
        "\"answer\": 3}\n]\n");
    task = load("mmlu_us_foreign_policy_continuation", 0, 0);
    assert_int_equal(task->count, 1);
    expect_request(task, 0, 3,
                   "The following are questions (with answers) about us foreign policy.\n\n"
                   "Question: R\nAnswer:",
                   " d");
    assert_int_equal(task->documents[0].line, 3);
    kvsi_eval_task_free(task);
    refuse("mmlu_virology", "has no documents of 'virology'");
    drop("mmlu/test.json");
    drop("mmlu/dev/us_foreign_policy_dev.csv");
}

static void cmmlu_has_its_own_words(void **state)
{
    kvsi_eval_task *task;

    (void)state;
    put("cmmlu/test/agronomy.csv", ",Question,A,B,C,D,Answer\n0, 问 ,甲,乙,丙,丁,D\n");
    task = load("cmmlu_agronomy", 0, 0);
    expect_request(task, 0, 3,
                   "以下是关于农学的单项选择题，请直接给出正确答案的选项。\n\n问\nA. 甲\nB. 乙\nC. "
                   "丙\nD. 丁\n答案：",
                   " D");
    assert_int_equal(json_object_size(task->documents[0].json), 6);
    kvsi_eval_task_free(task);
    drop("cmmlu/test/agronomy.csv");
}

static void math_is_divided_by_type(void **state)
{
    kvsi_eval_task *task;

    (void)state;
    put("math/test_part.jsonl",
        "{\"problem\": \"1+1?\", \"level\": \"Level 1\", \"type\": \"Algebra\", \"solution\": "
        "\"It is $\\\\boxed{2}$.\", \"idx\": 0}\n"
        "{\"problem\": \"P?\", \"type\": \"Number Theory\", \"solution\": \"$\\\\boxed{3}$.\"}\n");
    put("math/train.jsonl", "{\"problem\": \"T?\", \"type\": \"Algebra\", \"solution\": "
                            "\"$\\\\boxed{\\\\frac{1}{2}}$\"}\n");
    task = load("hendrycks_math_algebra", 1, 0);
    assert_int_equal(task->count, 1);
    expect_request(task, 0, 0, "Problem: T?\nAnswer: \\frac{1}{2}\n\nProblem: 1+1?\nAnswer:", NULL);
    assert_string_equal(task->documents[0].target, "2");
    assert_null(json_object_get(task->documents[0].json, "idx"));
    kvsi_eval_task_free(task);

    task = load("hendrycks_math_num_theory", 0, 0);
    assert_int_equal(task->documents[0].line, 2);
    kvsi_eval_task_free(task);

    refuse_shots("minerva_math_algebra", -1, "minerva/shots.jsonl' of few-shot examples");
    put("minerva/shots.jsonl", "{\"problem\": \"a\", \"solution\": \"b. I hope it is correct.\"}\n"
                               "{\"problem\": \"c\", \"solution\": \"d\"}\n");
    refuse_shots("minerva_math_algebra", -1, "4 few-shot examples need 4 documents");
    task = load("minerva_math_algebra", 2, 0);
    expect_request(task, 0, 0,
                   "Problem:\na\n\nSolution: b. I hope it is correct.\n\nProblem:\nc\n\nSolution: d"
                   "\n\nProblem:\n1+1?\n\nSolution:",
                   NULL);
    kvsi_eval_task_free(task);
    refuse_shots("hendrycks_math_num_theory", 1, "train.jsonl' has no documents of 'num_theory'");
    drop("minerva/shots.jsonl");
    drop("math/train.jsonl");
    drop("math/test_part.jsonl");
}

/* ---- few-shot examples ----------------------------------------------------------------------- */

/* The pool is the evaluated split: n + 1 are drawn, and copies of the document dropped. */
static void an_example_is_never_the_document(void **state)
{
    enum { COUNT = 40, SHOTS = 3 };
    kvsi_python_random random;
    kvsi_text file = {0};
    kvsi_eval_task *task;
    kvs_err err;

    (void)state;
    for (int i = 0; i < COUNT; i++)
        kvsi_text_format(&file, WINO("S%d _ r", "a", "b", "1"), i);
    put("winogrande/dev.jsonl", file.data);
    kvsi_text_release(&file);
    task = load("winogrande", SHOTS, 0);
    kvsi_python_seed(&random, 1234);
    for (size_t i = 0; i < COUNT; i++) {
        kvsi_text expected = {0};
        size_t drawn[SHOTS + 1], kept = 0;

        assert_int_equal(kvsi_python_sample(&random, COUNT, SHOTS + 1, drawn, &err), KVS_OK);
        for (size_t k = 0; k <= SHOTS && kept < SHOTS; k++)
            if (drawn[k] != i) {
                kvsi_text_format(&expected, "S%zu a r\n\n", drawn[k]);
                kept++;
            }
        kvsi_text_format(&expected, "S%zu b", i);
        expect_request(task, i, 1, expected.data, " r");
        kvsi_text_release(&expected);
    }
    kvsi_eval_task_free(task);
    refuse_shots("winogrande", COUNT, "40 few-shot examples need 41 documents");
    drop("winogrande/dev.jsonl");
}

/* All but two documents of the pool are copies of the evaluated one. */
static void copies_of_the_document_are_replaced(void **state)
{
    kvsi_eval_task *task;
    kvsi_text file = {0};

    (void)state;
    put("winogrande/dev.jsonl", WINO("S _ r", "a", "b", "1"));
    for (int i = 0; i < 30; i++)
        kvsi_text_add(&file, WINO("S _ r", "a", "b", "1"));
    kvsi_text_add(&file, WINO("T _ r", "a", "b", "1") WINO("U _ r", "a", "b", "2"));
    put("winogrande/train.jsonl", file.data);
    kvsi_text_release(&file);
    task = load("winogrande", 2, 0);
    assert_null(strstr(task->documents[0].requests[0].context, "S a r\n"));
    assert_non_null(strstr(task->documents[0].requests[0].context, "T a r\n"));
    assert_non_null(strstr(task->documents[0].requests[0].context, "U b r\n"));
    kvsi_eval_task_free(task);
    refuse_shots("winogrande", 3, "3 few-shot examples are asked for, but only 2 differ");
    put("winogrande/train.jsonl", WINO("T _ ", "a", "b", "1") WINO("T _", "a", "b", "1"));
    task = load("winogrande", 1, 0); /* nothing follows the gap: no space and no line ends */
    expect_request(task, 0, 0, "T aS a", " r");
    kvsi_eval_task_free(task);
    drop("winogrande/train.jsonl");
    drop("winogrande/dev.jsonl");
}

static void limits_are_those_of_the_harness(void **state)
{
    static const struct {
        double limit;
        size_t count;
    } cases[] = {{0, 10}, {1, 1}, {3.9, 3}, {10, 10}, {11, 10}, {0.5, 5}, {0.11, 2}, {0.999, 10}};
    kvsi_text file = {0};

    (void)state;
    for (int i = 0; i < 10; i++)
        kvsi_text_format(&file, "{\"text\": \"a %d\"}\n", i);
    put("lambada/test.jsonl", file.data);
    kvsi_text_release(&file);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kvsi_eval_task *task = load("lambada_openai", 0, cases[i].limit);

        assert_int_equal(task->count, cases[i].count);
        assert_int_equal(task->available, 10);
        kvsi_eval_task_free(task);
    }
    drop("lambada/test.jsonl");
}

/* ---- refused --------------------------------------------------------------------------------- */

static void bad_files_are_refused(void **state)
{
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"", "test.jsonl' has no documents"},
        {"\n \r\n\t\n", "test.jsonl' has no documents"},
        {"{\"text\": \"a b\"}\n\n{\"test\": \"a\", \"x\": 1}\n",
         "test.jsonl' line 3: no field 'text': expected 'text', found 'test', 'x'"},
        {"{}", "test.jsonl' line 1: no field 'text': expected 'text', found no field"},
        {"{\"text\": 5}", "test.jsonl' line 1: field 'text': expected text, found a whole number"},
        {"{\"text\": \"a b\"}\r{\"text\": \"a b\"}\r\n{\"text\": \"a",
         "test.jsonl' line 3: malfor"},
        {"{\"text\": \"a\"} {\"text\": \"a\"}", "test.jsonl' line 1: malformed JSON"},
        {"[1]", "test.jsonl' line 1: expected a JSON object"},
        {"{\"text\": \"\\u0000\"}", "test.jsonl' line 1: malformed JSON"},
        {"{\"text\": \"a b\"}\n{\"text\": \"\xff\"}", "test.jsonl' line 2: byte 11 is not UTF-8"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put("lambada/test.jsonl", cases[i].text);
        refuse("lambada_openai", cases[i].expected);
    }
    put_bytes_at("lambada/test.jsonl", "{\"text\": \"a b\"}\n\0", 17);
    refuse("lambada_openai", "test.jsonl' line 2: byte 1 is a NUL");
    put("lambada/test.jsonl", "PAR1");
    refuse("lambada_openai", "is a Parquet file");
    drop("lambada/test.jsonl");
}

static void bad_arrays_are_refused(void **state)
{
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"[]", "test.json' has no documents"},
        {"[\n{\"text\": \"a b\"}\n", "test.json' line 3: the array does not end"},
        {"[\n{\"text\": \"a b\"},\n", "test.json' line 3: the array does not end"},
        {"[{\"text\": \"a b\"}\n{\"text\": \"a b\"}]", "test.json' line 2: expected ',' or ']'"},
        {"[{\"text\": \"a b\"}]\n]", "test.json' line 2: expected the end of the file"},
        {"[{\"text\": \"a b\"},\n3]", "test.json' line 2: expected a JSON object, found '3'"},
        {"[{\"text\": \"a b\"},\n{\"text\": [[", "test.json' line 2: the JSON object that starts"},
        {"{\"text\": \"a b\"}\n{\"text\": 1 2}", "test.json' line 2: malformed JSON"},
    };
    kvsi_eval_task *task;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put("lambada/test.json", cases[i].text);
        refuse("lambada_openai", cases[i].expected);
    }
    put("lambada/test.json", "{\"text\": \"a \\\"}\"}\r\n\r\n{\"text\": \"b ]\"}");
    task = load("lambada_openai", 0, 0);
    assert_int_equal(task->count, 2);
    assert_int_equal(task->documents[1].line, 3);
    kvsi_eval_task_free(task);
    drop("lambada/test.json");
}

static void bad_tables_are_refused(void **state)
{
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"Q,1,2,3,4,A\n\nQ,1,2,3,A\n", "anatomy.csv' line 3: expected 6 cells, found 5"},
        {"Q,1,2,3,4,A\n\"Q\n1\",2,3,4,5,E\n",
         "anatomy.csv' line 2: field 'answer': expected a letter from A to D, found 'E'"},
        {"Q,1,2,3,4,A\n\"Q,1,2,3,4,A\n",
         "anatomy.csv' line 2: the quoted cell that starts here does not end"},
        {"question,A,B,C,D\nQ,1,2,3,4\n", "anatomy.csv' line 2: no field 'answer': expected "},
        {"question,A,A,C,D,answer\n", "anatomy.csv' line 1: two columns have the name 'A'"},
        {"question,A,B,C,D,answer\n", "anatomy.csv' has no documents"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put("mmlu/test/anatomy.csv", cases[i].text);
        refuse("mmlu_anatomy", cases[i].expected);
    }
    drop("mmlu/test/anatomy.csv");
}

static void bad_documents_are_refused(void **state)
{
    static const struct {
        const char *task, *file, *text, *expected;
    } cases[] = {
        {"arc_easy", "arc/ARC-Easy-Test.jsonl",
         "{\"question\": \"Q\", \"choices\": {\"text\": [], \"label\": []}, \"answerKey\": \"A\"}",
         "line 1: field 'text': expected choices, found an empty array"},
        {"arc_easy", "arc/ARC-Easy-Test.jsonl",
         "{\"question\": {\"stem\": \"Q\", \"choices\": []}, \"answerKey\": \"A\"}",
         "line 1: field 'text': expected choices, found an empty array"},
        {"arc_easy", "arc/ARC-Easy-Test.jsonl",
         "{\"question\": {\"stem\": \"Q\", \"choices\": [3]}, \"answerKey\": \"A\"}",
         "line 1: field 'choices': expected objects, place 1 is none"},
        {"arc_easy", "arc/ARC-Easy-Test.jsonl",
         "{\"question\": \"Q\", \"choices\": {\"text\": [\"a\", 3], \"label\": [\"A\"]}, "
         "\"answerKey\": \"A\"}",
         "line 1: field 'text': expected texts, found a whole number at place 2"},
        {"arc_easy", "arc/ARC-Easy-Test.jsonl",
         "{\"question\": \"Q\", \"choices\": {\"text\": [\"a\", \"b\"], \"label\": [\"A\"]}, "
         "\"answerKey\": \"A\"}",
         "line 1: field 'choices': 2 texts, but 1 labels"},
        {"arc_easy", "arc/ARC-Easy-Test.jsonl",
         "{\"question\": \"Q\", \"choices\": {\"text\": [\"a\"], \"label\": [\"A\"]}, "
         "\"answerKey\": \"B\"}",
         "line 1: field 'answerKey': 'B' is not the label of a choice"},
        {"hellaswag", "hellaswag/val.jsonl",
         "{\"activity_label\": \"a\", \"ctx\": \"c\", \"endings\": [], \"label\": 0}",
         "line 1: field 'endings': expected choices, found an empty array"},
        {"hellaswag", "hellaswag/val.jsonl",
         "{\"activity_label\": \"a\", \"ctx\": \"c\", \"endings\": [\"x\"], \"label\": \"\"}",
         "line 1: field 'label': expected 0 to 0, found ''"},
        {"hellaswag", "hellaswag/val.jsonl",
         "{\"activity_label\": \"a\", \"ctx\": \"c\", \"endings\": [\"x\"], \"label\": 1}",
         "line 1: field 'label': expected 0 to 0, found 1"},
        {"hellaswag", "hellaswag/val.jsonl",
         "{\"activity_label\": \"a\", \"endings\": [\"x\"], \"label\": 1}",
         "line 1: no field 'ctx_a': expected 'activity_label', 'ctx_a', 'ctx_b' (or 'ctx')"},
        {"winogrande", "winogrande/dev.jsonl", WINO("no gap", "a", "b", "1"),
         "line 1: field 'sentence': expected a '_', found none"},
        {"winogrande", "winogrande/dev.jsonl", WINO("a _", "a", "b", ""),
         "line 1: field 'answer': expected '1' or '2', found ''"},
        {"mmlu_anatomy", "mmlu/anatomy/test.jsonl",
         "{\"question\": \"Q\", \"choices\": [\"a\"], \"answer\": 0}",
         "line 1: field 'choices': expected 4, found 1"},
        {"hendrycks_math_algebra", "math/test.jsonl",
         "{\"problem\": \"Q\", \"solution\": \"5\", \"type\": \"Algebra\"}",
         "line 1: field 'solution': expected '\\boxed{...}' in the solution, found none"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put(cases[i].file, cases[i].text);
        refuse(cases[i].task, cases[i].expected);
        drop(cases[i].file);
    }
}

static void long_lines_are_refused(void **state)
{
    const size_t size = 100u << 20;
    char *text = kvsi_alloc(size, 1);

    (void)state;
    assert_non_null(text);
    memset(text, 'x', size);
    memcpy(text, "{\"text\": \"a b\"}\n{\"text\": \"", 26);
    put_bytes_at("lambada/test.jsonl", text, size);
    refuse("lambada_openai", "test.jsonl' line 2 has more than 16777216 bytes");
    drop("lambada/test.jsonl");
    memset(text, 'x', size);
    memcpy(text, "Q,1,2,3,4,A\n\"q", 14);
    for (size_t i = 100; i < size; i += 100)
        text[i] = '\n';
    put_bytes_at("mmlu/test/anatomy.csv", text, size);
    refuse("mmlu_anatomy", "anatomy.csv' line 2: a cell of more than 16777216 bytes");
    drop("mmlu/test/anatomy.csv");
    kvsi_free(text);
}

static void missing_files_are_told(void **state)
{
    (void)state;
    refuse("cmmlu_virology",
           "has no .jsonl, .json or .csv file for the split test with 'virology'");
    refuse("lambada_standard", "there is no folder '");
    put("arc/ARC-Easy-Train.jsonl", "{}");
    refuse("arc_easy", "has no .jsonl, .json or .csv file for the split test with 'easy' in its");
    put("lambada/test_a.jsonl", "{\"text\": \"a b\"}");
    put("lambada/test_b.jsonl", "{\"text\": \"a b\"}");
    refuse("lambada_openai", "has several files for the split test, among them 'test_a.jsonl' and "
                             "'test_b.jsonl'; expected one");
    drop("lambada/test_a.jsonl");
    drop("lambada/test_b.jsonl");
    drop("arc/ARC-Easy-Train.jsonl");
    refuse("arc_esy", "unknown task 'arc_esy'; did you mean 'arc_easy'?");
    refuse("mmlu", "'mmlu' is a group, expected a task");
}

/* If there are training files of several sizes, the largest is taken, as the harness does. */
static void the_preferred_training_file_is_taken(void **state)
{
    kvsi_eval_task *task;

    (void)state;
    put("winogrande/dev.jsonl", WINO("S _ r", "a", "b", "1"));
    put("winogrande/train_s.jsonl", WINO("small _ r", "a", "b", "1"));
    put("winogrande/train_xl.jsonl", WINO("large _ r", "a", "b", "1") WINO("x _ r", "a", "b", "1"));
    task = load("winogrande", 1, 0);
    assert_int_equal(task->file_count, 2);
    assert_non_null(strstr(task->files[1].path, "train_xl"));
    kvsi_eval_task_free(task);
    drop("winogrande/dev.jsonl");
    drop("winogrande/train_s.jsonl");
    drop("winogrande/train_xl.jsonl");
}

/* ---- groups ---------------------------------------------------------------------------------- */

static kvsi_eval_plan *plan_of(const char *names)
{
    kvsi_eval_plan *plan;
    kvs_err err;

    if (kvsi_eval_plan_make(&plan, names, support_dir, &err) != KVS_OK)
        fail_msg("%s: %s", names, err.message);
    return plan;
}

static void refuse_plan(const char *names, const char *expected)
{
    kvsi_eval_plan *plan;
    kvs_err err = {0};

    assert_int_not_equal(kvsi_eval_plan_make(&plan, names, support_dir, &err), KVS_OK);
    if (!strstr(err.message, expected))
        fail_msg("expected \"%s\" in \"%s\"", expected, err.message);
}

static void groups_have_the_subjects_found(void **state)
{
    static const char row[] = "Q,1,2,3,4,A\n";
    static const char *const tasks[] = {"mmlu_virology", "mmlu_anatomy", "mmlu_astronomy",
                                        "mmlu_philosophy"};
    const kvsi_eval_section *s;
    kvsi_eval_plan *plan;

    (void)state;
    put("mmlu/test/virology_test.csv", row);
    put("mmlu/test/astronomy_test.csv", row);
    put("mmlu/test/anatomy_test.csv", row);
    put("mmlu/test/philosophy_test.csv", row);
    plan = plan_of("mmlu_virology,mmlu,mmlu_stem");
    assert_int_equal(plan->section_count, 1);
    assert_null(plan->columns);
    s = plan->sections;
    assert_int_equal(s->shots, -1);
    assert_int_equal(s->task_count, 4);
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(s->tasks[i], tasks[i]);
    assert_int_equal(s->group_count, 4); /* there is no subject of the social sciences */
    assert_string_equal(s->groups[0].name, "mmlu");
    assert_int_equal(s->groups[0].official, 14042);
    assert_int_equal(s->groups[0].member_count, 3);
    assert_string_equal(s->groups[0].members[1], "mmlu_other");
    assert_int_equal(s->groups[0].task_count, 4);
    assert_int_equal(s->groups[0].tasks[0], 1); /* stem is first */
    assert_string_equal(s->groups[2].name, "mmlu_other");
    assert_string_equal(s->groups[2].members[0], "mmlu_virology");
    assert_int_equal(s->groups[1].depth, 1);
    kvsi_eval_plan_free(plan);

    plan = plan_of("mmlu_continuation");
    assert_string_equal(plan->sections->groups[1].name, "mmlu_continuation::stem");
    assert_string_equal(plan->sections->tasks[0], "mmlu_anatomy_continuation");
    kvsi_eval_plan_free(plan);

    plan = plan_of("mmlu_stem");
    assert_int_equal(plan->sections->task_count, 2);
    assert_int_equal(plan->sections->group_count, 1);
    kvsi_eval_plan_free(plan);

    plan = plan_of("paper-mmlu");
    assert_int_equal(plan->section_count, 3);
    assert_int_equal(plan->column_count, 3);
    assert_int_equal(plan->sections[2].shots, 5);
    assert_int_equal(plan->sections[1].task_count, 4);
    kvsi_eval_plan_free(plan);

    refuse_plan("mmlu,", "a name in the list of tasks is empty");
    refuse_plan("", "a name in the list of tasks is empty");
    refuse_plan("mmlu_anatmy", "did you mean 'mmlu_anatomy'?");
    refuse_plan("arc_easy,paper", "'paper' stands for several runs");
    refuse_plan("mmlu_social_sciences",
                "has no files for the split test of a subject of 'mmlu_soc");
    drop("mmlu/test/virology_test.csv");
    drop("mmlu/test/astronomy_test.csv");
    drop("mmlu/test/anatomy_test.csv");
    drop("mmlu/test/philosophy_test.csv");
}

static void math_groups_are_found_in_one_file(void **state)
{
    kvsi_eval_plan *plan;

    (void)state;
    put("math/test.jsonl", "{\"type\": \"Precalculus\"}\n{\"type\": \"Algebra\"}\n");
    plan = plan_of("hendrycks_math");
    assert_int_equal(plan->sections->task_count, 2);
    assert_string_equal(plan->sections->tasks[0], "hendrycks_math_algebra");
    assert_string_equal(plan->sections->tasks[1], "hendrycks_math_precalc");
    assert_int_equal(plan->sections->groups[0].official, 5000);
    kvsi_eval_plan_free(plan);
    drop("math/test.jsonl");
}

/* Names are known by their lists only; these are the counts of lm-evaluation-harness. */
static void all_names_are_there(void **state)
{
    size_t count = 0, tasks = 0;

    (void)state;
    for (const char *name; (name = kvsi_eval_name_at(count)); count++)
        tasks += strncmp(name, "cmmlu_", 6) == 0;
    assert_int_equal(tasks, 67);
    assert_int_equal(count, 2 + 13 + 6 + 57 + 57 + 67 + 7 + 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lambada_ends_with_a_word),
        cmocka_unit_test(winogrande_fills_the_gap),
        cmocka_unit_test(hellaswag_is_cleaned),
        cmocka_unit_test(arc_has_two_layouts),
        cmocka_unit_test(mmlu_is_read_from_csv_and_json),
        cmocka_unit_test(cmmlu_has_its_own_words),
        cmocka_unit_test(math_is_divided_by_type),
        cmocka_unit_test(an_example_is_never_the_document),
        cmocka_unit_test(copies_of_the_document_are_replaced),
        cmocka_unit_test(limits_are_those_of_the_harness),
        cmocka_unit_test(bad_files_are_refused),
        cmocka_unit_test(bad_arrays_are_refused),
        cmocka_unit_test(bad_tables_are_refused),
        cmocka_unit_test(bad_documents_are_refused),
        cmocka_unit_test(long_lines_are_refused),
        cmocka_unit_test(missing_files_are_told),
        cmocka_unit_test(the_preferred_training_file_is_taken),
        cmocka_unit_test(groups_have_the_subjects_found),
        cmocka_unit_test(math_groups_are_found_in_one_file),
        cmocka_unit_test(all_names_are_there),
    };

    return cmocka_run_group_tests(tests, support_dir_setup, support_dir_teardown);
}
