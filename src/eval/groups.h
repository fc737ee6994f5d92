/* eval/groups.h - names of tasks and groups: what `--tasks LIST` stands for. */
#ifndef KVSI_EVAL_GROUPS_H
#define KVSI_EVAL_GROUPS_H

#include "base/status.h"

#include <stddef.h>

/* A group of tasks whose documents are counted together. */
typedef struct kvsi_eval_group {
    const char *name;     /* "mmlu", "mmlu_stem", "mmlu_continuation::stem" */
    const char *alias;    /* "stem" */
    const char *version;  /* "2"; NULL: a part of mmlu_continuation, which has none */
    int normalized;       /* acc_norm is averaged too */
    int depth;            /* 0, or 1 for a group within a group */
    const char **members; /* names of the groups or tasks in it; only those that were found */
    size_t member_count;
    size_t *tasks; /* all its tasks, as indices into the section's */
    size_t task_count;
    size_t official; /* published documents of all its subjects, also of those not found */
} kvsi_eval_group;

/* Tasks that are run with one number of few-shot examples; no name occurs twice. */
typedef struct kvsi_eval_section {
    const char *title; /* "few-shot"; NULL = a list of the user */
    long shots;        /* -1 = as the user asks, or the task's default */
    const char **tasks;
    size_t task_count;
    kvsi_eval_group *groups; /* a group stands before the groups in it */
    size_t group_count;
} kvsi_eval_section;

/* A column of the paper's tables. */
typedef struct kvsi_eval_column {
    const char *title; /* "ARC-E" */
    size_t section;
    const char *name;   /* a task or group of that section */
    const char *metric; /* "acc", "exact_match" */
} kvsi_eval_column;

typedef struct kvsi_eval_plan {
    kvsi_eval_section *sections;
    size_t section_count;
    const kvsi_eval_column *columns; /* of "paper" and "paper-mmlu"; NULL for other lists */
    size_t column_count;
    struct kvsi_arena *memory;
} kvsi_eval_plan;

/* `names` is a list with commas of tasks and groups, or "paper" or "paper-mmlu" alone.  Groups
 * cover the subjects that have files below `data`.  An unknown name is refused with the nearest
 * one. */
kvs_status kvsi_eval_plan_make(kvsi_eval_plan **out, const char *names, const char *data,
                               kvs_err *err);
void kvsi_eval_plan_free(kvsi_eval_plan *plan);

/* Name 0, 1, ... of all tasks and groups, for help and messages; NULL past the end.  The text is
 * valid until the next call in the same thread. */
const char *kvsi_eval_name_at(size_t index);

/* The family and subject (NULL if it has none) of a task's name. */
struct kvsi_eval_family;
struct kvsi_eval_subject;
kvs_status kvsi_eval_task_named(const struct kvsi_eval_family **family,
                                const struct kvsi_eval_subject **subject, const char *name,
                                kvs_err *err);

#endif
