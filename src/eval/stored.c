/* Finds the results of a model, and the samples that belong to them. */
#include "eval/stored.h"

#include "base/array.h"
#include "base/files.h"
#include "base/folders.h"
#include "base/memory.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { RESULTS_LIMIT = 64 << 20 }; /* bytes of a results file */

kvs_status kvsi_stored_remark(kvsi_stored *stored, kvs_err *err, const char *format, ...)
{
    char text[1024];
    size_t capacity = stored->remark_count;
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    TRY(kvsi_array_reserve(&stored->remarks, &capacity, stored->remark_count + 1,
                           sizeof *stored->remarks, err));
    stored->remarks[stored->remark_count] = kvsi_strdup(text);
    if (!stored->remarks[stored->remark_count])
        return kvsi_no_memory(err, "a remark on '%s'", stored->path);
    stored->remark_count++;
    return KVS_OK;
}

const kvsi_stored_task *kvsi_stored_task_at(const kvsi_stored *stored, const char *name)
{
    for (size_t i = 0; i < stored->count; i++)
        if (strcmp(stored->tasks[i].name, name) == 0)
            return stored->tasks + i;
    return NULL;
}

/* ---- one results file ------------------------------------------------------------------------ */

/* The group that lists `name` among its members; NULL = none. */
static const char *parent_of(const json_t *groups, const char *name)
{
    const char *group;
    json_t *members, *member;
    size_t i;

    json_object_foreach((json_t *)groups, group, members)
        json_array_foreach(members, i, member)
            if (json_is_string(member) && strcmp(json_string_value(member), name) == 0 &&
                strcmp(group, name) != 0)
                return group;
    return NULL;
}

/* Groups may be nested, in a hostile file also in a circle. */
static const char *outermost_group(const json_t *groups, const char *name)
{
    const char *outermost = NULL;
    const char *group = parent_of(groups, name);

    for (size_t depth = 0; group && depth < 8; depth++) {
        outermost = group;
        group = parent_of(groups, group);
    }
    return outermost;
}

/* "DIR/results_DATE.json" and "arc_easy" are "DIR/samples_arc_easy_DATE.jsonl". */
static char *samples_path(const char *results, const char *task)
{
    const char *slash = strrchr(results, '/'), *date = strrchr(results, '_');
    const size_t folder = slash ? (size_t)(slash - results) + 1 : 0;
    kvsi_text path = {0};
    char *copy = NULL;

    if (!date || (slash && date < slash) || strchr(task, '/'))
        return NULL;
    kvsi_text_add_bytes(&path, results, folder);
    kvsi_text_format(&path, "samples_%s_", task);
    kvsi_text_add_bytes(&path, date + 1, strlen(date + 1) - strlen(".json"));
    kvsi_text_add(&path, ".jsonl");
    if (!path.failed)
        copy = kvsi_strdup(path.data);
    kvsi_text_release(&path);
    return copy;
}

/* The score that the harness computes from the samples. */
static double score_of(const kvsi_stored_task *task, size_t metric)
{
    double sum = 0;

    for (size_t i = 0; i < task->count; i++)
        sum += task->documents[i].metrics[metric];
    sum /= (double)task->count;
    return strcmp(task->metrics[metric], "perplexity") == 0 ? exp(-sum) : sum;
}

/* Results that do not follow from their samples are of another run, or were changed. */
static kvs_status check_scores(kvsi_stored *stored, const kvsi_stored_task *task,
                               const json_t *result, kvs_err *err)
{
    for (size_t m = 0; m < task->metric_count; m++) {
        char key[128];
        const double ours = score_of(task, m);
        const json_t *theirs;

        snprintf(key, sizeof key, "%s,%s", task->metrics[m], task->filter);
        theirs = json_object_get(result, key);
        if (json_is_number(theirs) && isfinite(ours) &&
            fabs(json_number_value(theirs) - ours) > 1e-6 * fmax(1, fabs(ours)))
            TRY(kvsi_stored_remark(
                stored, err, "%s: the results say %s %.6g, but its %zu samples give %.6g",
                task->name, task->metrics[m], json_number_value(theirs), task->count, ours));
    }
    if (task->filtered > 0)
        TRY(kvsi_stored_remark(stored, err,
                               "%s: %zu samples of other filters than '%s' are left out",
                               task->name, task->filtered, task->filter));
    return KVS_OK;
}

/* Adds a task of the results, unless newer results have it or it has no samples. */
static kvs_status add_task(kvsi_stored *stored, const json_t *root, const char *path,
                           const char *name, const json_t *result, kvs_err *err)
{
    const json_t *shots = json_object_get(json_object_get(root, "n-shot"), name);
    const char *group = outermost_group(json_object_get(root, "group_subtasks"), name);
    kvsi_stored_task *task;
    char *file = samples_path(path, name);

    if (kvsi_stored_task_at(stored, name) || !file || !kvsi_file_exists(file)) {
        kvsi_free(file);
        return KVS_OK;
    }
    if (kvsi_array_reserve(&stored->tasks, &stored->capacity, stored->count + 1,
                           sizeof *stored->tasks, err) != KVS_OK) {
        kvsi_free(file);
        return err ? err->status : KVS_E_NOMEM;
    }
    task = stored->tasks + stored->count++;
    *task = (kvsi_stored_task){.name = kvsi_strdup(name),
                               .group = group ? kvsi_strdup(group) : NULL,
                               .file = file,
                               .shots = -1};
    if (!task->name || (group && !task->group))
        return kvsi_no_memory(err, "the task '%s'", name);
    if (json_is_integer(shots) && json_integer_value(shots) >= 0 &&
        json_integer_value(shots) < 100000)
        task->shots = (int)json_integer_value(shots);
    TRY(kvsi_stored_read_samples(task, err));
    return check_scores(stored, task, result, err);
}

static const char *model_of(const json_t *root)
{
    const char *name = json_string_value(json_object_get(root, "model_name"));

    return name ? name : "";
}

/* A file of other models in the same folder is left out, and a remark says so. */
static kvs_status add_results(kvsi_stored *stored, const char *path, kvs_err *err)
{
    json_t *root = NULL, *results, *result;
    const char *name;
    kvs_status st;

    TRY_OUT(kvsi_json_read_wide(&root, path, RESULTS_LIMIT, err));
    results = json_object_get(root, "results");
    if (!json_is_object(results)) {
        st = kvsi_fail(err, KVS_E_FORMAT, "'%s': key 'results': expected an object", path);
        goto out;
    }
    if (!stored->model) {
        stored->model = kvsi_strdup(model_of(root));
        if (!stored->model) {
            st = kvsi_no_memory(err, "'%s'", path);
            goto out;
        }
    } else if (strcmp(stored->model, model_of(root)) != 0) {
        st = kvsi_stored_remark(stored, err, "'%s' is of another model, '%s', and is left out",
                                path, model_of(root));
        goto out;
    }
    json_object_foreach(results, name, result)
        TRY_OUT(add_task(stored, root, path, name, result, err));
out:
    json_decref(root);
    return st;
}

/* ---- folders --------------------------------------------------------------------------------- */

/* Reads all results of a folder, newest first; *found counts them. */
static kvs_status add_folder(kvsi_stored *stored, size_t *found, const char *dir, kvs_err *err)
{
    kvsi_name_list names = {0};
    kvs_status st;

    TRY_OUT(kvsi_dir_list(&names, dir, "results_", err));
    for (size_t i = names.count; i-- > 0;) {
        char *path;

        if (!kvsi_ends_with(names.names[i], ".json"))
            continue;
        path = kvsi_path_join(dir, names.names[i]);
        st = path ? add_results(stored, path, err) : kvsi_no_memory(err, "'%s'", dir);
        kvsi_free(path);
        if (st != KVS_OK)
            goto out;
        ++*found;
    }
out:
    kvsi_name_list_release(&names);
    return st;
}

static int has_results(const char *dir)
{
    kvsi_name_list names = {0};
    int has = 0;

    if (kvsi_is_folder(dir) && kvsi_dir_list(&names, dir, "results_", NULL) == KVS_OK)
        for (size_t i = 0; i < names.count; i++)
            has |= kvsi_ends_with(names.names[i], ".json");
    kvsi_name_list_release(&names);
    return has;
}

/* The harness puts results into a folder of the model's name inside the one it was given. */
static kvs_status find_subfolder(char **out, const char *dir, kvs_err *err)
{
    kvsi_name_list names = {0};
    kvs_status st;

    *out = NULL;
    TRY_OUT(kvsi_dir_list(&names, dir, "", err));
    for (size_t i = 0; i < names.count; i++) {
        char *path = kvsi_path_join(dir, names.names[i]);

        if (path && has_results(path) && *out) {
            st = kvsi_fail(err, KVS_E_INVALID,
                           "'%s' has results of several models, expected one of its folders such "
                           "as '%s'",
                           dir, *out);
            kvsi_free(path);
            goto out;
        }
        if (path && has_results(path))
            *out = path;
        else
            kvsi_free(path);
    }
    if (!*out)
        st = kvsi_fail(err, KVS_E_IO, "'%s' has no results_*.json, nor has a folder in it", dir);
out:
    kvsi_name_list_release(&names);
    if (st != KVS_OK) {
        kvsi_free(*out);
        *out = NULL;
    }
    return st;
}

static kvs_status read_path(kvsi_stored *stored, const char *path, kvs_err *err)
{
    char *inner = NULL;
    size_t found = 0;
    kvs_status st;

    if (!kvsi_is_folder(path)) {
        if (!kvsi_ends_with(path, ".json"))
            return kvsi_fail(err, KVS_E_INVALID, "'%s' is neither a folder nor a results_*.json",
                             path);
        return add_results(stored, path, err);
    }
    TRY(add_folder(stored, &found, path, err));
    if (found > 0)
        return KVS_OK;
    TRY(find_subfolder(&inner, path, err));
    st = add_folder(stored, &found, inner, err);
    kvsi_free(inner);
    return st;
}

/* The last part of a path, without slashes at its end. */
static char *last_part(const char *path)
{
    size_t end = strlen(path), start;
    char *part;

    while (end > 1 && path[end - 1] == '/')
        end--;
    start = end;
    while (start > 0 && path[start - 1] != '/')
        start--;
    part = kvsi_alloc(end - start + 1, 1);
    if (part)
        memcpy(part, path + start, end - start);
    return part;
}

kvs_status kvsi_stored_open(kvsi_stored *out, const char *path, kvs_err *err)
{
    kvs_status st = KVS_OK;

    *out = (kvsi_stored){.path = kvsi_strdup(path)};
    if (!out->path) {
        st = kvsi_no_memory(err, "'%s'", path);
        goto out;
    }
    TRY_OUT(read_path(out, path, err));
    if (out->count == 0) {
        st = kvsi_fail(err, KVS_E_IO,
                       "'%s' has results without samples_TASK_DATE.jsonl beside them, which "
                       "'--out' of kvshift and '--log_samples' of the harness write",
                       path);
        goto out;
    }
    out->name = last_part(*out->model ? out->model : path);
    out->label = out->name ? kvsi_strdup(out->name) : NULL;
    if (!out->label)
        st = kvsi_no_memory(err, "'%s'", path);
out:
    if (st != KVS_OK)
        kvsi_stored_close(out);
    return st;
}

void kvsi_stored_close(kvsi_stored *stored)
{
    for (size_t i = 0; i < stored->count; i++)
        kvsi_stored_task_release(stored->tasks + i);
    for (size_t i = 0; i < stored->remark_count; i++)
        kvsi_free(stored->remarks[i]);
    kvsi_free(stored->tasks);
    kvsi_free(stored->remarks);
    kvsi_free(stored->path);
    kvsi_free(stored->model);
    kvsi_free(stored->name);
    kvsi_free(stored->label);
    *stored = (kvsi_stored){0};
}

/* ---- several --------------------------------------------------------------------------------- */

static int label_is_shared(const kvsi_stored *list, size_t count, size_t index)
{
    for (size_t i = 0; i < count; i++)
        if (i != index && strcmp(list[i].label, list[index].label) == 0)
            return 1;
    return 0;
}

/* Results with the same label get their path as label. */
static kvs_status make_labels_unique(kvsi_stored *list, size_t count, kvs_err *err)
{
    char **labels = kvsi_alloc(count, sizeof *labels);
    kvs_status st = KVS_OK;

    if (!labels)
        return kvsi_no_memory(err, "%zu labels", count);
    for (size_t i = 0; i < count && st == KVS_OK; i++) {
        labels[i] = kvsi_strdup(label_is_shared(list, count, i) ? list[i].path : list[i].label);
        if (!labels[i])
            st = kvsi_no_memory(err, "'%s'", list[i].path);
        for (size_t j = 0; j < i && st == KVS_OK; j++)
            if (strcmp(list[i].path, list[j].path) == 0)
                st = kvsi_fail(err, KVS_E_INVALID, "'%s' is given twice", list[i].path);
    }
    for (size_t i = 0; i < count; i++) {
        if (st == KVS_OK) {
            kvsi_free(list[i].label);
            list[i].label = labels[i];
        } else {
            kvsi_free(labels[i]);
        }
    }
    kvsi_free(labels);
    return st;
}

kvs_status kvsi_stored_open_all(kvsi_stored **out, const char *const *paths, size_t count,
                                kvs_err *err)
{
    kvsi_stored *list = kvsi_alloc(count, sizeof *list);
    kvs_status st = KVS_OK;

    *out = NULL;
    if (!list)
        return kvsi_no_memory(err, "%zu results", count);
    for (size_t i = 0; i < count; i++)
        TRY_OUT(kvsi_stored_open(list + i, paths[i], err));
    TRY_OUT(make_labels_unique(list, count, err));
    *out = list;
    list = NULL;
out:
    kvsi_stored_close_all(list, count);
    return st;
}

void kvsi_stored_close_all(kvsi_stored *list, size_t count)
{
    for (size_t i = 0; list && i < count; i++)
        kvsi_stored_close(list + i);
    kvsi_free(list);
}
