/* Grading of MATH: the text and the solution are separated by the first NUL. */
#include "eval/grade_math.h"
#include "fuzz.h"

#include <string.h>

/* A text that is equal to the answer must be right if it was taken whole. */
static void check(const kvsi_math_grade *grade, int hendrycks)
{
    fuzz_expect(grade->answer && grade->gold, "a grade has both answers");
    if (grade->answer[0] && strcmp(grade->answer, grade->gold) == 0)
        fuzz_expect(grade->verdict == KVSI_RIGHT, "equal answers are right");
    if (hendrycks)
        fuzz_expect(grade->verdict != KVSI_UNDECIDED, "hendrycks_math decides all");
}

kvs_status fuzz_run(const char *data, size_t size, kvs_err *err)
{
    const char *middle = memchr(data, '\0', size);
    const size_t first = middle ? (size_t)(middle - data) : size;
    kvsi_text text = {0}, solution = {0};
    kvsi_math_grade a = {0}, b = {0};
    kvs_status st;

    put_bytes(&text, data, first);
    put_bytes(&solution, data + (first < size ? first + 1 : size),
              first < size ? size - first - 1 : 0);
    TRY_OUT(kvsi_grade_hendrycks(&a, text.data, solution.data, err));
    check(&a, 1);
    TRY_OUT(kvsi_grade_minerva(&b, text.data, solution.data, err));
    check(&b, 0);
out:
    kvsi_math_grade_release(&a);
    kvsi_math_grade_release(&b);
    kvsi_text_release(&text);
    kvsi_text_release(&solution);
    return st;
}

static void seed(const char *name, const char *text, const char *solution)
{
    kvsi_text input = {0};

    put_bytes(&input, text, strlen(text) + 1);
    put_bytes(&input, solution, strlen(solution));
    fuzz_seed(name, &input);
}

void fuzz_seeds(void)
{
    seed("fraction", "so $x=\\dfrac12\\text{ cm}$", "it is $\\boxed{\\frac{1}{2}}$.");
    seed("slash", "-1/2", "\\boxed -1/2$");
    seed("sentence", "Final Answer: The final answer is $\\sqrt[3]8 = 2$ cm. I hope it is correct.",
         "\\boxed{\\text{ 2,000 }}");
    seed("tuple", "Final Answer: The final answer is \\left(1,\\frac92\\right). ",
         "\\boxed{(1,4.5)}");
}
