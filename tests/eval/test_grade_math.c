/* Grading of MATH: the same verdicts as lm-evaluation-harness 0.4.13 on the texts that
 * make_math_grades.py made, and hostile texts in linear time. */
#include "base/files.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "eval/grade_math.h"
#include "support.h"

#include <string.h>

static const char FILE_NAME[] = KVSI_TESTS_DIR "/eval/data/math_grades.jsonl";

typedef kvs_status grader(kvsi_math_grade *out, const char *generated, const char *solution,
                          kvs_err *err);

static const char *text_of(const json_t *row, const char *key)
{
    const char *text = json_string_value(json_object_get(row, key));

    assert_non_null(text);
    return text;
}

/* Compares with the number under `key`; null = the solution must be refused. */
static kvsi_verdict check(const json_t *row, size_t line, grader *grade, const char *key,
                          int normalized)
{
    const json_t *expected = json_object_get(row, key);
    kvsi_math_grade found = {0};
    kvsi_verdict verdict;
    kvs_err err = {0};
    const kvs_status st = grade(&found, text_of(row, "text"), text_of(row, "solution"), &err);

    if (json_is_null(expected)) {
        assert_int_equal(st, KVS_E_FORMAT);
        assert_non_null(strstr(err.message, "\\boxed"));
        kvsi_math_grade_release(&found);
        return KVSI_WRONG;
    }
    if (st != KVS_OK)
        fail_msg("line %zu, %s: %s", line, key, err.message);
    if (normalized) {
        assert_string_equal(found.answer, text_of(row, "answer"));
        assert_string_equal(found.gold, text_of(row, "gold"));
    }
    if (found.verdict != KVSI_UNDECIDED && found.verdict != json_integer_value(expected))
        fail_msg("line %zu, %s: '%s' against '%s' is %d, expected %d", line, key, found.answer,
                 found.gold, (int)found.verdict, (int)json_integer_value(expected));
    verdict = found.verdict;
    kvsi_math_grade_release(&found);
    return verdict;
}

static void test_as_the_harness(void **state)
{
    char *data, *line;
    size_t size, count = 0, right = 0, undecided = 0;

    (void)state;
    assert_int_equal(kvsi_file_read(&data, &size, FILE_NAME, 1 << 22, NULL), KVS_OK);
    for (line = data; line < data + size; count++) {
        char *end = memchr(line, '\n', (size_t)(data + size - line));
        kvsi_verdict verdict;
        json_t *row;

        assert_non_null(end);
        assert_int_equal(kvsi_json_parse(&row, line, (size_t)(end - line), FILE_NAME, NULL),
                         KVS_OK);
        verdict = check(row, count + 1, kvsi_grade_hendrycks, "hendrycks", 0);
        assert_int_not_equal(verdict, KVSI_UNDECIDED);
        right += verdict == KVSI_RIGHT;
        verdict = check(row, count + 1, kvsi_grade_minerva, "minerva", 1);
        if ((verdict == KVSI_UNDECIDED) != json_is_true(json_object_get(row, "algebra")))
            fail_msg("line %zu: undecided is expected where 'algebra' is true, and only there",
                     count + 1);
        right += verdict == KVSI_RIGHT;
        undecided += verdict == KVSI_UNDECIDED;
        json_decref(row);
        line = end + 1;
    }
    kvsi_free(data);
    print_message("%zu texts, %zu right, %zu undecided\n", count, right, undecided);
    assert_true(count >= 500 && right >= 200 && undecided < count / 4);
}

static void expect_boxed(const char *solution, const char *expected)
{
    char *answer;

    assert_int_equal(kvsi_math_boxed(&answer, solution, NULL), KVS_OK);
    assert_string_equal(answer, expected);
    kvsi_free(answer);
}

static void test_boxed(void **state)
{
    char *answer;
    kvs_err err;

    (void)state;
    expect_boxed("so $x = \\boxed{\\frac{1}{2}}$, not $\\boxed{3}$", "3");
    expect_boxed("\\boxed 5$ or \\boxed{6}", "5");
    assert_int_equal(kvsi_math_boxed(&answer, "no box", &err), KVS_E_FORMAT);
    assert_null(answer);
    assert_int_equal(kvsi_math_boxed(&answer, "a \\boxed{{5} b", &err), KVS_E_FORMAT);
    assert_non_null(strstr(err.message, "found '\\boxed{{5} b'"));
    assert_int_equal(kvsi_minerva_boxed(&answer, "\\boxed{100,000\\text{ cm}}", &err), KVS_OK);
    assert_string_equal(answer, "100000");
    kvsi_free(answer);
}

/* A megabyte of one piece, alone and behind the words that precede an answer. */
static void test_hostile(void **state)
{
    static const char *const pieces[] = {
        "{",
        "}",
        "\\boxed{",
        "\\boxed ",
        "\\fbox",
        "$",
        "\\frac",
        "\\frac1",
        "\\sqrt",
        "sqrt[",
        "sqrt[]",
        "\\text{",
        "\\textbf{",
        "\\overline{",
        "\\text{ ",
        "cm",
        "cm ",
        "\\",
        "=",
        "/",
        "9",
        "9,",
        "1,000,",
        "(",
        "(,",
        "\xc3\xa9",
        "\xff",
        "\n",
        " ",
        "tfrac",
        "\\boxed{}\n",
        "Final Answer: The final answer is",
        " I hope it is correct",
        "Final Answer: The final answer is\n",
        "\\begin{\\",
    };
    /* The address sanitizer reads the whole rest of a text in every call of strstr(). */
#ifdef __SANITIZE_ADDRESS__
    enum { SIZE = 1 << 14 };
#else
    enum { SIZE = 1 << 20 };
#endif

    (void)state;
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        kvsi_text text = {0}, solution = {0};
        grader *const graders[] = {kvsi_grade_hendrycks, kvsi_grade_minerva};

        kvsi_text_add(&text, "Final Answer: The final answer is ");
        kvsi_text_add(&solution, "\\boxed{5}");
        while (text.length < SIZE) {
            kvsi_text_add(&text, pieces[i]);
            kvsi_text_add(&solution, pieces[i]);
        }
        kvsi_text_add(&text, ". ");
        kvsi_text_add(&solution, "\\boxed{5}");
        for (size_t g = 0; g < 2; g++) {
            kvsi_math_grade grade = {0};
            kvs_err err;
            const kvs_status st = graders[g](&grade, text.data, solution.data, &err);

            if (st != KVS_OK && st != KVS_E_FORMAT)
                fail_msg("'%s': %s", pieces[i], err.message);
            kvsi_math_grade_release(&grade);
            assert_int_equal(graders[g](&grade, text.data, "\\boxed{5}", &err), KVS_OK);
            kvsi_math_grade_release(&grade);
        }
        kvsi_text_release(&text);
        kvsi_text_release(&solution);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_the_harness),
        cmocka_unit_test(test_boxed),
        cmocka_unit_test(test_hostile),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
