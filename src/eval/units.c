#include "eval/units.h"

#include "base/array.h"
#include "base/memory.h"
#include "base/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- units ----------------------------------------------------------------------------------- */

static const char *unit_name(const kvsi_stored_task *task, int subjects)
{
    return task->group && !subjects ? task->group : task->name;
}

static kvs_status add_task(kvsi_unit *unit, const kvsi_stored_task *task, kvs_err *err)
{
    size_t capacity = unit->task_count;

    TRY(kvsi_array_reserve(&unit->tasks, &capacity, unit->task_count + 1, sizeof *unit->tasks,
                           err));
    if (unit->task_count > 0 && unit->shots != task->shots)
        unit->shots = -1;
    unit->tasks[unit->task_count++] = task;
    unit->documents += task->count;
    return KVS_OK;
}

/* A group is where its first task is.  Tasks of another kind than the first are left out; no group
 * of the harness has any. */
kvs_status kvsi_units_of(kvsi_unit **out, size_t *count, const kvsi_stored *stored, int subjects,
                         kvs_err *err)
{
    kvsi_unit *units = kvsi_alloc(stored->count, sizeof *units);
    size_t made = 0;
    kvs_status st = KVS_OK;

    *out = NULL;
    *count = 0;
    if (!units)
        return kvsi_no_memory(err, "%zu tasks", stored->count);
    for (size_t i = 0; i < stored->count; i++) {
        const kvsi_stored_task *task = stored->tasks + i;
        kvsi_unit *unit = (kvsi_unit *)kvsi_unit_find(units, made, unit_name(task, subjects));

        if (!unit) {
            unit = units + made++;
            *unit = (kvsi_unit){
                .name = unit_name(task, subjects), .kind = task->kind, .shots = task->shots};
        }
        if (unit->kind == task->kind)
            TRY_OUT(add_task(unit, task, err));
    }
    *out = units;
    *count = made;
    units = NULL;
out:
    kvsi_units_free(units, made);
    return st;
}

void kvsi_units_free(kvsi_unit *units, size_t count)
{
    for (size_t i = 0; units && i < count; i++)
        kvsi_free(units[i].tasks);
    kvsi_free(units);
}

const kvsi_unit *kvsi_unit_find(const kvsi_unit *units, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(units[i].name, name) == 0)
            return units + i;
    return NULL;
}

int kvsi_unit_has(const kvsi_unit *unit, const char *metric)
{
    for (size_t t = 0; t < unit->task_count; t++)
        if (kvsi_stored_metric(unit->tasks[t], metric) == unit->tasks[t]->metric_count)
            return 0;
    return unit->task_count > 0;
}

const char *kvsi_unit_metric(const kvsi_unit *unit)
{
    const int normalised =
        strcmp(unit->name, "hellaswag") == 0 || strcmp(unit->name, "arc_challenge") == 0;

    if (normalised && kvsi_unit_has(unit, "acc_norm"))
        return "acc_norm";
    if (kvsi_unit_has(unit, "acc"))
        return "acc";
    if (kvsi_unit_has(unit, "exact_match"))
        return "exact_match";
    return unit->task_count > 0 && unit->tasks[0]->metric_count > 0 ? unit->tasks[0]->metrics[0]
                                                                    : NULL;
}

/* The error of a group is sqrt( [sum_i (n_i - 1) n_i e_i^2 / (N - k)] / N ) for k subjects of n_i
 * documents and errors e_i. */
kvsi_unit_score kvsi_unit_score_of(const kvsi_unit *unit, const char *metric)
{
    kvsi_unit_score score = {.value = NAN, .error = NAN, .binary = 1};
    double sum = 0, squares = 0;

    for (size_t t = 0; t < unit->task_count; t++) {
        const kvsi_stored_task *task = unit->tasks[t];
        const size_t m = kvsi_stored_metric(task, metric);
        kvsi_running running = {0};

        for (size_t i = 0; m < task->metric_count && i < task->count; i++) {
            const double value = task->documents[i].metrics[m];

            if (isnan(value))
                continue;
            sum += value;
            score.right += value == 1;
            score.binary &= value == 0 || value == 1;
            kvsi_running_add(&running, value);
        }
        squares += running.squares;
        score.count += running.count;
    }
    if (score.count > 0)
        score.value = sum / (double)score.count;
    if (score.count > unit->task_count)
        score.error =
            sqrt(squares / (double)(score.count - unit->task_count) / (double)score.count);
    if (strcmp(metric, "perplexity") == 0) {
        score.value = exp(-score.value);
        score.error = NAN;
        score.binary = 0;
    }
    return score;
}

/* ---- pairs ----------------------------------------------------------------------------------- */

static kvs_status add_pair(kvsi_pairs *out, kvsi_pair pair, int same_prompts, kvs_err *err)
{
    if (pair.a->requests != pair.b->requests) {
        out->other_prompts++;
        if (same_prompts)
            return KVS_OK;
    }
    TRY(kvsi_array_reserve(&out->pairs, &out->capacity, out->count + 1, sizeof *out->pairs, err));
    out->pairs[out->count++] = pair;
    return KVS_OK;
}

static int by_id(const void *a, const void *b)
{
    const kvsi_stored_document *x = *(const kvsi_stored_document *const *)a,
                               *y = *(const kvsi_stored_document *const *)b;

    return (x->id > y->id) - (x->id < y->id);
}

/* Pointers to the documents, in the order of their ids (kvsi_free). */
static const kvsi_stored_document **sort_by_id(const kvsi_stored_task *task)
{
    const kvsi_stored_document **list = kvsi_alloc(task->count, sizeof *list);

    for (size_t i = 0; list && i < task->count; i++)
        list[i] = task->documents + i;
    if (list)
        qsort(list, task->count, sizeof *list, by_id);
    return list;
}

static kvs_status pair_by_prompt(kvsi_pairs *out, const kvsi_stored_task *a,
                                 const kvsi_stored_task *b, size_t subject, int same_prompts,
                                 kvs_err *err)
{
    const kvsi_stored_document **x = sort_by_id(a), **y = sort_by_id(b);
    const size_t before = out->count;
    kvs_status st = KVS_OK;
    size_t i = 0, j = 0;

    if (!x || !y) {
        st = kvsi_no_memory(err, "%zu documents", a->count + b->count);
        goto out;
    }
    while (i < a->count && j < b->count) {
        const size_t p = x[i]->id, q = y[j]->id;

        if (p == q && x[i]->prompt == y[j]->prompt && x[i]->prompt != 0)
            TRY_OUT(add_pair(out, (kvsi_pair){x[i], y[j], a, b, subject}, same_prompts, err));
        i += p <= q;
        j += q <= p;
    }
    out->by_prompt += out->count - before;
    out->only_a += a->count - (out->count - before);
    out->only_b += b->count - (out->count - before);
out:
    kvsi_free(x);
    kvsi_free(y);
    return st;
}

/* Both lists are sorted by key; documents with equal keys are paired in the order of their ids. */
static kvs_status pair_by_key(kvsi_pairs *out, const kvsi_stored_task *a, const kvsi_stored_task *b,
                              size_t subject, int same_prompts, kvs_err *err)
{
    size_t paired = 0, i = 0, j = 0;

    while (i < a->count && j < b->count) {
        const int order = strcmp(a->documents[i].key, b->documents[j].key);

        if (order == 0) {
            paired++;
            TRY(add_pair(out, (kvsi_pair){a->documents + i, b->documents + j, a, b, subject},
                         same_prompts, err));
        }
        i += order <= 0;
        j += order >= 0;
    }
    if (paired == 0)
        return pair_by_prompt(out, a, b, subject, same_prompts, err);
    out->only_a += a->count - paired;
    out->only_b += b->count - paired;
    return KVS_OK;
}

static const kvsi_stored_task *task_of(const kvsi_unit *unit, const char *name)
{
    for (size_t t = 0; t < unit->task_count; t++)
        if (strcmp(unit->tasks[t]->name, name) == 0)
            return unit->tasks[t];
    return NULL;
}

kvs_status kvsi_pairs_create(kvsi_pairs *out, const kvsi_unit *a, const kvsi_unit *b,
                             int same_prompts, kvs_err *err)
{
    kvs_status st = KVS_OK;

    *out = (kvsi_pairs){.subjects = a->task_count};
    for (size_t t = 0; t < a->task_count; t++) {
        const kvsi_stored_task *ours = a->tasks[t], *theirs = task_of(b, ours->name);

        if (theirs)
            TRY_OUT(pair_by_key(out, ours, theirs, t, same_prompts, err));
        else
            out->only_a += ours->count;
    }
    for (size_t t = 0; t < b->task_count; t++)
        if (!task_of(a, b->tasks[t]->name))
            out->only_b += b->tasks[t]->count;
out:
    if (st != KVS_OK)
        kvsi_pairs_release(out);
    return st;
}

void kvsi_pairs_release(kvsi_pairs *pairs)
{
    kvsi_free(pairs->pairs);
    *pairs = (kvsi_pairs){0};
}
