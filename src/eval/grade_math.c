/* The boxed answer of a solution, which both graders use. */
#include "eval/grade_math.h"

#include "base/memory.h"

#include <string.h>

void kvsi_math_grade_release(kvsi_math_grade *grade)
{
    kvsi_free(grade->answer);
    kvsi_free(grade->gold);
    *grade = (kvsi_math_grade){0};
}

/* The last occurrence of `word`, or NULL. */
static const char *find_last(const char *text, const char *word)
{
    const size_t size = strlen(word);
    const char *last = NULL;

    for (const char *at = strstr(text, word); at; at = strstr(at + size, word))
        last = at;
    return last;
}

/* The brace that closes the first one that is open, or NULL. */
static const char *closing_brace(const char *text)
{
    long open = 0;

    for (; *text; text++) {
        open += *text == '{';
        if (*text == '}' && --open == 0)
            return text;
    }
    return NULL;
}

static kvs_status copy(char **out, const char *text, size_t size, kvs_err *err)
{
    *out = kvsi_alloc(size + 1, 1);
    if (!*out)
        return kvsi_no_memory(err, "an answer of %zu bytes", size);
    memcpy(*out, text, size);
    return KVS_OK;
}

/* "\boxed " anywhere in the solution takes precedence: the answer then ends at the next '$'. */
kvs_status kvsi_math_boxed(char **answer, const char *solution, kvs_err *err)
{
    static const char spaced[] = "\\boxed ", braced[] = "\\boxed{";
    const char *start = find_last(solution, spaced), *end;

    *answer = NULL;
    if (start) {
        start += strlen(spaced);
        return copy(answer, start, strcspn(start, "$"), err);
    }
    start = find_last(solution, "\\boxed");
    if (!start)
        return kvsi_fail(err, KVS_E_FORMAT, "expected '\\boxed{...}' in the solution, found none");
    end = closing_brace(start);
    if (strncmp(start, braced, strlen(braced)) != 0 || !end)
        return kvsi_fail(err, KVS_E_FORMAT, "expected '\\boxed{...}' in the solution, found '%.*s'",
                         (int)strcspn(start, "\n") < 40 ? (int)strcspn(start, "\n") : 40, start);
    start += strlen(braced);
    return copy(answer, start, (size_t)(end - start), err);
}
