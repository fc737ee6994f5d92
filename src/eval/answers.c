#include "eval/answers.h"

#include "base/memory.h"
#include "eval/aggregate.h"
#include "eval/grade_math.h"

#include <math.h>
#include <string.h>

/* Log-likelihoods that differ by less may be in another order with another order of summation. */
static const double NEAR = 2e-4;

kvs_status kvsi_eval_answer_init(kvsi_eval_answer *answer, const kvsi_eval_document *document,
                                 kvs_err *err)
{
    answer->sums = kvsi_alloc(document->count, sizeof *answer->sums);
    answer->greedy = kvsi_alloc(document->count, sizeof *answer->greedy);
    if (!answer->sums || !answer->greedy)
        return kvsi_no_memory(err, "the answer to document %zu", document->id);
    return KVS_OK;
}

void kvsi_eval_answer_release(kvsi_eval_answer *answer)
{
    kvsi_free(answer->sums);
    kvsi_free(answer->greedy);
    kvsi_free(answer->text);
    *answer = (kvsi_eval_answer){0};
}

kvs_status kvsi_eval_grade(kvsi_eval_answer *answer, const kvsi_eval_task *task,
                           const kvsi_eval_document *document, kvs_err *err)
{
    const int minerva = strncmp(task->name, "minerva", strlen("minerva")) == 0;
    const char *solution = json_string_value(json_object_get(document->json, "solution"));
    kvsi_math_grade grade = {0};
    kvs_err cause;
    kvs_status st;

    st = (minerva ? kvsi_grade_minerva : kvsi_grade_hendrycks)(&grade, answer->text,
                                                               solution ? solution : "", &cause);
    if (st != KVS_OK)
        kvsi_fail(err, st, "'%.200s', line %zu: document %zu: %.250s", document->file,
                  document->line, document->id, cause.message);
    answer->right = grade.verdict == KVSI_RIGHT;
    answer->undecided = grade.verdict == KVSI_UNDECIDED;
    kvsi_math_grade_release(&grade);
    return st;
}

/* ---- one document ---- */

const char *kvsi_eval_metric(const kvsi_eval_task *task, size_t index)
{
    static const char *const choices[] = {"acc", "acc_norm"};
    static const char *const word[] = {"perplexity", "acc"};

    if (task->kind == KVSI_EVAL_CHOICES)
        return index < (task->normalized ? 2 : 1) ? choices[index] : NULL;
    if (task->kind == KVSI_EVAL_LAST_WORD)
        return index < 2 ? word[index] : NULL;
    return index < 1 ? "exact_match" : NULL;
}

const char *kvsi_eval_main_metric(const kvsi_eval_task *task)
{
    return task->kind == KVSI_EVAL_GENERATE ? "exact_match" : "acc";
}

/* The first of the greatest of sums[i] / lengths[i]; `lengths` NULL = sums[i]. */
static size_t best_choice(const double *sums, const size_t *lengths, size_t count)
{
    size_t best = 0;

    for (size_t i = 1; i < count; i++) {
        const double here = lengths ? sums[i] / (double)lengths[i] : sums[i];
        const double there = lengths ? sums[best] / (double)lengths[best] : sums[best];

        if (here > there)
            best = i;
    }
    return best;
}

double kvsi_eval_value(const char *metric, const kvsi_eval_document *document,
                       const kvsi_eval_answer *answer)
{
    if (answer->text)
        return answer->right;
    if (strcmp(metric, "perplexity") == 0)
        return answer->sums[0];
    if (document->count == 1)
        return answer->greedy[0];
    return best_choice(answer->sums, strcmp(metric, "acc_norm") == 0 ? document->lengths : NULL,
                       document->count) == document->gold;
}

int kvsi_eval_is_near_tie(const kvsi_eval_document *document, const kvsi_eval_answer *answer)
{
    size_t best;

    if (!answer->sums || document->count < 2)
        return 0;
    best = best_choice(answer->sums, NULL, document->count);
    for (size_t i = 0; i < document->count; i++)
        if (i != best && answer->sums[best] - answer->sums[i] <= NEAR)
            return 1;
    return 0;
}

/* ---- all documents ---- */

kvs_status kvsi_eval_score_task(kvsi_eval_score *out, const char *metric,
                                const kvsi_eval_task *task, const kvsi_eval_answer *answers,
                                int threads, kvs_err *err)
{
    double *values = kvsi_alloc(task->count, sizeof *values);
    kvs_status st = KVS_OK;

    if (!values)
        return kvsi_no_memory(err, "%zu documents", task->count);
    for (size_t i = 0; i < task->count; i++)
        values[i] = kvsi_eval_value(metric, &task->documents[i], &answers[i]);
    if (strcmp(metric, "perplexity") == 0) {
        out->value = kvsi_eval_perplexity(values, task->count);
        st = kvsi_eval_perplexity_error(&out->error, values, task->count, threads, err);
    } else {
        *out = (kvsi_eval_score){kvsi_eval_mean(values, task->count),
                                 kvsi_eval_error(values, task->count)};
    }
    kvsi_free(values);
    return st;
}
