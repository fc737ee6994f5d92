/* eval/units.h - units of stored results: a task, or a group of tasks such as mmlu, whose documents
 * count together; and the documents that two models have in common. */
#ifndef KVSI_EVAL_UNITS_H
#define KVSI_EVAL_UNITS_H

#include "eval/stored.h"

/* Tasks of one model.  A group has the tasks of its name. */
typedef struct kvsi_unit {
    const char *name; /* borrowed */
    kvsi_stored_kind kind;
    const kvsi_stored_task **tasks; /* its subjects; one if it is no group */
    size_t task_count;
    size_t documents; /* of all tasks */
    int shots;        /* of all tasks; -1 = not known or not the same */
} kvsi_unit;

/* In the order of the results.  With `subjects`, every task is a unit of its own. */
kvs_status kvsi_units_of(kvsi_unit **out, size_t *count, const kvsi_stored *stored, int subjects,
                         kvs_err *err);
void kvsi_units_free(kvsi_unit *units, size_t count); /* NULL does nothing */
const kvsi_unit *kvsi_unit_find(const kvsi_unit *units, size_t count, const char *name);

/* The metric that a table shows if it shows one: accuracy, normalised for HellaSwag and
 * ARC-Challenge, as is usual; exact_match for MATH.  NULL = the unit has no metric. */
const char *kvsi_unit_metric(const kvsi_unit *unit);
/* Whether all tasks of the unit have the metric. */
int kvsi_unit_has(const kvsi_unit *unit, const char *metric);

/* The mean of a metric over the documents, or exp(-mean) of the perplexity. */
typedef struct kvsi_unit_score {
    double value;
    double error; /* standard error: of a group pooled over subjects, as the harness does; NaN for
                     the perplexity */
    size_t count, right; /* documents; those with 1, if all values are 0 or 1 */
    int binary;
} kvsi_unit_score;

kvsi_unit_score kvsi_unit_score_of(const kvsi_unit *unit, const char *metric);

/* ---- pairs ---- */

typedef struct kvsi_pair {
    const kvsi_stored_document *a, *b;
    const kvsi_stored_task *task_a, *task_b;
    size_t subject; /* number of the task within the unit of the first model */
} kvsi_pair;

typedef struct kvsi_pairs {
    kvsi_pair *pairs; /* subject by subject */
    size_t count, capacity;
    size_t subjects;
    size_t only_a, only_b; /* documents without a partner */
    size_t other_prompts;  /* pairs with different requests */
    size_t by_prompt;      /* pairs with other keys but the same id, prompt and target */
} kvsi_pairs;

/* Documents with the same key.  If a task has none, documents with the same id, prompt_hash and
 * target_hash, since other fields of a document may differ between copies of a benchmark.  With
 * `same_prompts`, pairs with different requests are left out. */
kvs_status kvsi_pairs_create(kvsi_pairs *out, const kvsi_unit *a, const kvsi_unit *b,
                             int same_prompts, kvs_err *err);
void kvsi_pairs_release(kvsi_pairs *pairs);

#endif
