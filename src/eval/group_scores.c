/* Metrics of groups of tasks: weighted by the number of documents, with pooled errors. */
#include "base/memory.h"
#include "eval/aggregate.h"
#include "eval/evaluation.h"

#include <string.h>

static const kvsi_eval_part *member(const kvs_eval *eval, size_t section,
                                    const kvsi_eval_group *group, size_t index)
{
    return &eval->parts[eval->section_starts[section] + group->tasks[index]];
}

const char *kvsi_eval_group_metric(const kvs_eval *eval, size_t section,
                                   const kvsi_eval_group *group, size_t index)
{
    const kvsi_eval_task *first = member(eval, section, group, 0)->task;

    if (index == 0)
        return kvsi_eval_main_metric(first);
    return index == 1 && group->normalized && first->normalized ? "acc_norm" : NULL;
}

kvs_status kvsi_eval_score_group(kvsi_eval_group_score *out, const kvs_eval *eval, size_t section,
                                 const kvsi_eval_group *group, const char *metric, kvs_err *err)
{
    const size_t count = group->task_count;
    double *means = kvsi_alloc(count, sizeof *means), *errors = kvsi_alloc(count, sizeof *errors);
    size_t *sizes = kvsi_alloc(count, sizeof *sizes);
    kvs_status st = KVS_OK;

    *out = (kvsi_eval_group_score){0};
    if (!means || !errors || !sizes) {
        st = kvsi_no_memory(err, "group '%s'", group->name);
        goto out;
    }
    for (size_t i = 0; i < count; i++) {
        const kvsi_eval_part *part = member(eval, section, group, i);
        kvsi_eval_score score = {0};

        kvsi_eval_part_score(&score, part, metric);
        means[i] = score.value;
        errors[i] = score.error;
        sizes[i] = part->task->count;
        out->documents += part->task->count;
    }
    out->value = kvsi_eval_weighted_mean(means, sizes, count);
    out->error = kvsi_eval_pooled_error(errors, sizes, count);
    out->task_mean = kvsi_eval_mean(means, count);
out:
    kvsi_free(means);
    kvsi_free(errors);
    kvsi_free(sizes);
    return st;
}
