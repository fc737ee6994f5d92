#include "eval/groups.h"

#include "base/arena.h"
#include "base/memory.h"
#include "base/text.h"
#include "eval/task_files.h"
#include "eval/tasks/family.h"

#include <stdio.h>
#include <string.h>

enum { NAME_SIZE = 128 };

/* ---- tables ---------------------------------------------------------------------------------- */

typedef struct group_row {
    const char *name, *alias, *version;
    const char *parent;          /* the group that it is part of, or NULL */
    const char *prefix, *suffix; /* of the family */
    const char *filter;          /* only subjects of this group; NULL = all */
    int normalized;
} group_row;

#define CLOZE "mmlu_continuation"

static const group_row groups[] = {
    {"mmlu", "mmlu", "2", NULL, "mmlu_", "", NULL, 0},
    {"mmlu_stem", "stem", "2", "mmlu", "mmlu_", "", "stem", 0},
    {"mmlu_other", "other", "2", "mmlu", "mmlu_", "", "other", 0},
    {"mmlu_social_sciences", "social sciences", "2", "mmlu", "mmlu_", "", "social_sciences", 0},
    {"mmlu_humanities", "humanities", "2", "mmlu", "mmlu_", "", "humanities", 0},
    {CLOZE, "mmlu (continuation)", "2", NULL, "mmlu_", "_continuation", NULL, 0},
    {CLOZE "::stem", "stem", NULL, CLOZE, "mmlu_", "_continuation", "stem", 0},
    {CLOZE "::other", "other", NULL, CLOZE, "mmlu_", "_continuation", "other", 0},
    {CLOZE "::social sciences", "social sciences", NULL, CLOZE, "mmlu_", "_continuation",
     "social_sciences", 0},
    {CLOZE "::humanities", "humanities", NULL, CLOZE, "mmlu_", "_continuation", "humanities", 0},
    {"cmmlu", "cmmlu", "1.0", NULL, "cmmlu_", "", NULL, 1},
    {"hendrycks_math", "hendrycks_math", "1.0", NULL, "hendrycks_math_", "", NULL, 0},
    {"minerva_math", "minerva_math", "1.0", NULL, "minerva_math_", "", NULL, 0},
};

enum { GROUPS = sizeof groups / sizeof *groups };

static const kvsi_eval_column paper_columns[] = {
    {"LAMBADA", 0, "lambada_openai", "acc"},
    {"WinoGrande", 0, "winogrande", "acc"},
    {"HellaSwag", 0, "hellaswag", "acc"},
    {"ARC-E", 0, "arc_easy", "acc"},
    {"ARC-C", 0, "arc_challenge", "acc"},
    {"CMMLU", 1, "cmmlu", "acc"},
    {"MMLU", 1, "mmlu", "acc"},
    {"MATH", 0, "hendrycks_math", "exact_match"},
};

static const kvsi_eval_column mmlu_columns[] = {
    {"cloze", 0, CLOZE, "acc"},
    {"zero-shot", 1, "mmlu", "acc"},
    {"few-shot", 2, "mmlu", "acc"},
};

/* Lists that stand for several runs. */
static const struct {
    const char *name;
    const struct {
        const char *title, *tasks;
        long shots;
    } sections[3];
    const kvsi_eval_column *columns;
    size_t column_count;
} tables[] = {
    {"paper",
     {{"zero-shot", "lambada_openai,winogrande,hellaswag,arc_easy,arc_challenge,hendrycks_math", 0},
      {"few-shot", "cmmlu,mmlu", 5}},
     paper_columns,
     sizeof paper_columns / sizeof *paper_columns},
    {"paper-mmlu",
     {{"cloze", CLOZE, 0}, {"zero-shot", "mmlu", 0}, {"few-shot", "mmlu", 5}},
     mmlu_columns,
     sizeof mmlu_columns / sizeof *mmlu_columns},
};

enum { TABLES = sizeof tables / sizeof *tables };

/* ---- names ----------------------------------------------------------------------------------- */

static void task_name(char out[NAME_SIZE], const kvsi_eval_family *family,
                      const kvsi_eval_subject *subject)
{
    snprintf(out, NAME_SIZE, "%s%s%s", family->prefix, subject ? subject->name : "",
             family->suffix ? family->suffix : "");
}

const char *kvsi_eval_name_at(size_t index)
{
    static _Thread_local char name[NAME_SIZE];

    if (index < TABLES)
        return tables[index].name;
    index -= TABLES;
    if (index < GROUPS)
        return groups[index].name;
    index -= GROUPS;
    for (size_t i = 0; i < kvsi_eval_family_count; i++) {
        const kvsi_eval_family *family = &kvsi_eval_families[i];
        const size_t count = family->subject_count > 0 ? family->subject_count : 1;

        if (index < count) {
            task_name(name, family, family->subject_count > 0 ? &family->subjects[index] : NULL);
            return name;
        }
        index -= count;
    }
    return NULL;
}

/* kvsi_nearest_name() keeps the pointers that it gets, so all names are made first. */
typedef struct name_list {
    char (*names)[NAME_SIZE];
    size_t count;
} name_list;

static const char *name_in_list(const void *names, size_t index)
{
    const name_list *list = names;

    return index < list->count ? list->names[index] : NULL;
}

static kvs_status unknown_name(const char *name, kvs_err *err)
{
    name_list list = {0};
    const char *nearest;
    kvs_status st;

    while (kvsi_eval_name_at(list.count))
        list.count++;
    list.names = kvsi_alloc(list.count, sizeof *list.names);
    if (!list.names)
        return kvsi_no_memory(err, "names of tasks");
    for (size_t i = 0; i < list.count; i++)
        snprintf(list.names[i], sizeof *list.names, "%s", kvsi_eval_name_at(i));
    nearest = kvsi_nearest_name(name, name_in_list, &list);
    st = kvsi_fail(err, KVS_E_INVALID, "unknown task '%s'%s%s%s", name,
                   nearest ? "; did you mean '" : "", nearest ? nearest : "",
                   nearest ? "'?" : "; see 'kvshift eval --help'");
    kvsi_free(list.names);
    return st;
}

/* Whether there is such a task. */
static int find_task(const kvsi_eval_family **family, const kvsi_eval_subject **subject,
                     const char *name)
{
    for (size_t i = 0; i < kvsi_eval_family_count; i++) {
        const kvsi_eval_family *f = &kvsi_eval_families[i];
        const size_t count = f->subject_count > 0 ? f->subject_count : 1;

        for (size_t k = 0; k < count; k++) {
            const kvsi_eval_subject *s = f->subject_count > 0 ? &f->subjects[k] : NULL;
            char text[NAME_SIZE];

            task_name(text, f, s);
            if (strcmp(text, name) == 0) {
                *family = f;
                *subject = s;
                return 1;
            }
        }
    }
    return 0;
}

kvs_status kvsi_eval_task_named(const kvsi_eval_family **family, const kvsi_eval_subject **subject,
                                const char *name, kvs_err *err)
{
    if (find_task(family, subject, name))
        return KVS_OK;
    for (size_t i = 0; i < GROUPS; i++)
        if (strcmp(groups[i].name, name) == 0)
            return kvsi_fail(err, KVS_E_INVALID, "'%s' is a group, expected a task", name);
    return unknown_name(name, err);
}

/* ---- plans ----------------------------------------------------------------------------------- */

typedef struct maker {
    kvsi_eval_section *section;
    kvsi_arena *memory;
    const char *data;
} maker;

static const kvsi_eval_family *family_of(const group_row *row)
{
    for (size_t i = 0; i < kvsi_eval_family_count; i++)
        if (kvsi_eval_families[i].subject_count > 0 &&
            strcmp(kvsi_eval_families[i].prefix, row->prefix) == 0 &&
            strcmp(kvsi_eval_families[i].suffix, row->suffix) == 0)
            return &kvsi_eval_families[i];
    return NULL;
}

static int belongs(const group_row *row, const kvsi_eval_subject *subject)
{
    return !row->filter || strcmp(row->filter, subject->group) == 0;
}

/* Adds a task to the section unless it is there; *index = its place. */
static kvs_status add_task(maker *m, const char *name, size_t *index, kvs_err *err)
{
    kvsi_eval_section *section = m->section;

    for (*index = 0; *index < section->task_count; ++*index)
        if (strcmp(section->tasks[*index], name) == 0)
            return KVS_OK;
    section->tasks[*index] = kvsi_arena_copy(m->memory, name, strlen(name));
    if (!section->tasks[*index])
        return kvsi_no_memory(err, "task '%s'", name);
    section->task_count++;
    return KVS_OK;
}

static int has_group(const kvsi_eval_section *section, const char *name)
{
    for (size_t i = 0; i < section->group_count; i++)
        if (strcmp(section->groups[i].name, name) == 0)
            return 1;
    return 0;
}

/* Adds a group with its tasks, unless none of them was found. */
static kvs_status add_group(maker *m, const group_row *row, const char *found, int depth,
                            kvs_err *err)
{
    const kvsi_eval_family *family = family_of(row);
    kvsi_eval_group *group = &m->section->groups[m->section->group_count];
    const size_t most = family->subject_count;

    if (has_group(m->section, row->name))
        return KVS_OK;
    *group = (kvsi_eval_group){
        .name = row->name,
        .alias = row->alias,
        .version = row->version,
        .normalized = row->normalized,
        .depth = depth,
        .members = kvsi_arena_alloc(m->memory, most, sizeof *group->members),
        .tasks = kvsi_arena_alloc(m->memory, most, sizeof *group->tasks),
    };
    if (!group->members || !group->tasks)
        return kvsi_no_memory(err, "group '%s'", row->name);
    for (size_t i = 0; i < most; i++) {
        char name[NAME_SIZE];

        if (!belongs(row, &family->subjects[i]))
            continue;
        group->official += family->subjects[i].official;
        if (!found[i])
            continue;
        task_name(name, family, &family->subjects[i]);
        TRY(add_task(m, name, &group->tasks[group->task_count], err));
        group->members[group->task_count] = m->section->tasks[group->tasks[group->task_count]];
        group->member_count = ++group->task_count;
    }
    m->section->group_count += group->task_count > 0;
    return KVS_OK;
}

/* Adds a group and the groups in it, which are its members then. */
static kvs_status add_groups(maker *m, const group_row *row, kvs_err *err)
{
    const kvsi_eval_family *family = family_of(row);
    char *found = kvsi_alloc(family->subject_count, 1);
    kvsi_eval_group *group = &m->section->groups[m->section->group_count];
    size_t members = 0;
    kvs_status st = KVS_OK;

    if (!found)
        return kvsi_no_memory(err, "group '%s'", row->name);
    TRY_OUT(kvsi_task_subjects_found(found, family, m->data, err));
    TRY_OUT(add_group(m, row, found, 0, err));
    if (group->task_count == 0 && !has_group(m->section, row->name)) {
        st = kvsi_fail(err, KVS_E_IO, "'%s/%s' has no files for the split %s of a subject of '%s'",
                       m->data, family->folders[0], kvsi_split_name(family->evaluated), row->name);
        goto out;
    }
    for (size_t i = 0; i < GROUPS; i++) {
        const size_t before = m->section->group_count;

        if (!groups[i].parent || strcmp(groups[i].parent, row->name) != 0)
            continue;
        TRY_OUT(add_group(m, &groups[i], found, 1, err));
        if (m->section->group_count > before)
            group->members[members++] = groups[i].name;
    }
    if (members > 0)
        group->member_count = members;
out:
    kvsi_free(found);
    return st;
}

static kvs_status add_name(maker *m, const char *name, kvs_err *err)
{
    const kvsi_eval_family *family;
    const kvsi_eval_subject *subject;
    size_t index;

    for (size_t i = 0; i < GROUPS; i++)
        if (strcmp(groups[i].name, name) == 0)
            return has_group(m->section, name) ? KVS_OK : add_groups(m, &groups[i], err);
    for (size_t i = 0; i < TABLES; i++)
        if (strcmp(tables[i].name, name) == 0)
            return kvsi_fail(err, KVS_E_INVALID,
                             "'%s' stands for several runs, expected it without other tasks", name);
    if (!find_task(&family, &subject, name))
        return unknown_name(name, err);
    return add_task(m, name, &index, err);
}

static kvs_status make_section(kvsi_eval_section *section, const char *names, const char *data,
                               kvsi_arena *memory, kvs_err *err)
{
    maker m = {.section = section, .memory = memory, .data = data};
    size_t most = 0;

    while (kvsi_eval_name_at(most))
        most++;
    section->tasks = kvsi_arena_alloc(memory, most, sizeof *section->tasks);
    section->groups = kvsi_arena_alloc(memory, GROUPS + 1, sizeof *section->groups);
    if (!section->tasks || !section->groups)
        return kvsi_no_memory(err, "a list of tasks");
    for (;;) {
        const size_t size = strcspn(names, ",");
        const char *name = kvsi_arena_copy(memory, names, size);

        if (!name)
            return kvsi_no_memory(err, "a list of tasks");
        if (size == 0)
            return kvsi_fail(err, KVS_E_INVALID, "a name in the list of tasks is empty");
        TRY(add_name(&m, name, err));
        if (!names[size])
            return KVS_OK;
        names += size + 1;
    }
}

kvs_status kvsi_eval_plan_make(kvsi_eval_plan **out, const char *names, const char *data,
                               kvs_err *err)
{
    kvsi_eval_plan *plan = kvsi_alloc(1, sizeof *plan);
    kvs_status st = KVS_OK;
    size_t table = 0, count = 0;

    *out = NULL;
    if (plan)
        plan->memory = kvsi_arena_create();
    if (plan && plan->memory)
        plan->sections = kvsi_arena_alloc(plan->memory, 3, sizeof *plan->sections);
    if (!plan || !plan->sections) {
        st = kvsi_no_memory(err, "a list of tasks");
        goto out;
    }
    while (table < TABLES && strcmp(tables[table].name, names) != 0)
        table++;
    if (table == TABLES) {
        plan->sections[0].shots = -1;
        plan->section_count = 1;
        TRY_OUT(make_section(plan->sections, names, data, plan->memory, err));
    } else {
        plan->columns = tables[table].columns;
        plan->column_count = tables[table].column_count;
        for (; count < 3 && tables[table].sections[count].tasks; count++) {
            plan->sections[count].title = tables[table].sections[count].title;
            plan->sections[count].shots = tables[table].sections[count].shots;
            plan->section_count = count + 1;
            TRY_OUT(make_section(&plan->sections[count], tables[table].sections[count].tasks, data,
                                 plan->memory, err));
        }
    }
    *out = plan;
    plan = NULL;
out:
    kvsi_eval_plan_free(plan);
    return st;
}

void kvsi_eval_plan_free(kvsi_eval_plan *plan)
{
    if (!plan)
        return;
    kvsi_arena_free(plan->memory);
    kvsi_free(plan);
}
