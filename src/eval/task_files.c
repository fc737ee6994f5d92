#include "eval/task_files.h"

#include "base/files.h"
#include "base/memory.h"
#include "eval/records.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

/* ---- which files belong to a task ------------------------------------------------------------ */

static int names_subject(const char *name, const kvsi_eval_subject *subject)
{
    return kvsi_data_name_has_part(name, subject->name) ||
           (subject->file && kvsi_data_name_has_part(name, subject->file));
}

static int is_of_subject(const char *name, const void *subject)
{
    return names_subject(name, subject);
}

static int is_of_no_subject(const char *name, const void *what)
{
    const kvsi_eval_family *family = what;

    for (size_t i = 0; i < family->subject_count; i++)
        if (names_subject(name, &family->subjects[i]))
            return 0;
    return 1;
}

static int has_part(const char *name, const void *part)
{
    const size_t length = strlen(part);

    for (; *name; name++)
        if (strncasecmp(name, part, length) == 0)
            return 1;
    return 0;
}

/* ---- folders --------------------------------------------------------------------------------- */

static kvs_status open_folder(kvsi_data_folder *folder, const kvsi_eval_family *family,
                              const char *data, kvs_err *err)
{
    int found = 0;

    if (!kvsi_is_folder(data))
        return kvsi_fail(err, KVS_E_IO, "there is no data folder '%s'", data);
    for (size_t i = 0; family->folders[i] && !found; i++)
        TRY(kvsi_data_folder_open(folder, data, family->folders[i], &found, err));
    if (found)
        return KVS_OK;
    return kvsi_fail(err, KVS_E_IO, "there is no folder '%s/%s'%s%s%s", data, family->folders[0],
                     family->folders[1] ? " or '" : "",
                     family->folders[1] ? family->folders[1] : "", family->folders[1] ? "'" : "");
}

/* Finds the files of a split; *filtered as in kvsi_task_files. */
static kvs_status find_split(const kvsi_data_folder *folder, const kvsi_eval_family *family,
                             const kvsi_eval_subject *subject, int split, size_t *found,
                             size_t *count, int *filtered, kvs_err *err)
{
    *filtered = 0;
    if (!subject)
        return kvsi_data_folder_find(folder, split, family->part ? has_part : NULL, family->part,
                                     family->preferred, found, count, err);
    TRY(kvsi_data_folder_find(folder, split, is_of_subject, subject, NULL, found, count, err));
    if (*count > 0 || !family->subject_field)
        return KVS_OK;
    *filtered = 1;
    return kvsi_data_folder_find(folder, split, is_of_no_subject, family, NULL, found, count, err);
}

static kvs_status copy_paths(kvsi_task_files *out, const kvsi_data_folder *folder,
                             const size_t *found, size_t count, kvs_err *err)
{
    out->paths = kvsi_alloc(count, sizeof *out->paths);
    if (!out->paths)
        return kvsi_no_memory(err, "names of files");
    for (size_t i = 0; i < count; i++) {
        out->paths[i] = kvsi_strdup(folder->files[found[i]].path);
        if (!out->paths[i])
            return kvsi_no_memory(err, "names of files");
        out->count++;
    }
    return KVS_OK;
}

static kvs_status no_files(const kvsi_data_folder *folder, const kvsi_eval_family *family,
                           const kvsi_eval_subject *subject, const int *splits, kvs_err *err)
{
    const char *what = subject ? subject->name : family->part;

    return kvsi_fail(err, KVS_E_IO,
                     "'%s' has no .jsonl, .json or .csv file for the split %s%s%s%s%s%s%s",
                     folder->path, kvsi_split_name(splits[0]), splits[1] ? " or " : "",
                     splits[1] ? kvsi_split_name(splits[1]) : "", what ? " with '" : "",
                     what ? what : "", what ? "' in its name" : "",
                     family->subject_field && subject ? ", and none of all subjects" : "");
}

static kvs_status find_in_folder(kvsi_task_files *out, const kvsi_data_folder *folder,
                                 const kvsi_eval_family *family, const kvsi_eval_subject *subject,
                                 const int *splits, kvs_err *err)
{
    size_t *found = kvsi_alloc(folder->count, sizeof *found), count = 0;
    kvs_status st = KVS_OK;

    if (!found)
        return kvsi_no_memory(err, "names of files");
    for (size_t i = 0; splits[i] && count == 0; i++)
        TRY_OUT(find_split(folder, family, subject, splits[i], found, &count, &out->filtered, err));
    if (count > 0)
        st = copy_paths(out, folder, found, count, err);
    else
        st = no_files(folder, family, subject, splits, err);
out:
    kvsi_free(found);
    return st;
}

/* The one file of fixed examples. */
static kvs_status find_shots_file(kvsi_task_files *out, const char *data, const char *name,
                                  kvs_err *err)
{
    char *path = kvsi_path_join(data, name);

    out->paths = kvsi_alloc(1, sizeof *out->paths);
    if (!path || !out->paths) {
        kvsi_free(path);
        return kvsi_no_memory(err, "names of files");
    }
    out->paths[0] = path;
    out->count = 1;
    if (!kvsi_file_exists(path))
        return kvsi_fail(err, KVS_E_IO,
                         "there is no file '%s' of few-shot examples; docs/evaluation.md says how "
                         "it is made",
                         path);
    return KVS_OK;
}

kvs_status kvsi_task_files_find(kvsi_task_files *out, const kvsi_eval_family *family,
                                const kvsi_eval_subject *subject, const char *data, int shots,
                                kvs_err *err)
{
    const int evaluated[] = {family->evaluated, 0};
    kvsi_data_folder folder;
    kvs_status st;

    *out = (kvsi_task_files){0};
    if (shots && family->shots_file)
        return find_shots_file(out, data, family->shots_file, err);
    TRY(open_folder(&folder, family, data, err));
    st = find_in_folder(out, &folder, family, subject, shots ? family->pools : evaluated, err);
    kvsi_data_folder_release(&folder);
    return st;
}

void kvsi_task_files_release(kvsi_task_files *files)
{
    for (size_t i = 0; i < files->count; i++)
        kvsi_free(files->paths[i]);
    kvsi_free(files->paths);
    *files = (kvsi_task_files){0};
}

/* ---- files of several subjects --------------------------------------------------------------- */

kvs_status kvsi_eval_record_is_of(int *is, const json_t *record, const kvsi_eval_source *source,
                                  kvs_err *err)
{
    const char *text;

    *is = 0;
    TRY(kvsi_record_text(&text, record, source->family->subject_field, source, err));
    *is =
        strcmp(text, source->subject->title ? source->subject->title : source->subject->name) == 0;
    return KVS_OK;
}

/* Marks the subjects that the file's documents have. */
static kvs_status mark_subjects(char *found, const kvsi_eval_family *family, const char *path,
                                kvs_err *err)
{
    kvsi_records records;
    kvs_status st = KVS_OK;

    TRY(kvsi_records_read(&records, path, family->columns, err));
    for (size_t i = 0; i < records.count; i++)
        for (size_t k = 0; k < family->subject_count; k++) {
            const kvsi_eval_source source = {.file = path,
                                             .line = records.items[i].line,
                                             .family = family,
                                             .subject = &family->subjects[k]};
            int is;

            TRY_OUT(kvsi_eval_record_is_of(&is, records.items[i].fields, &source, err));
            found[k] |= (char)is;
        }
out:
    kvsi_records_release(&records);
    return st;
}

kvs_status kvsi_task_subjects_found(char *found, const kvsi_eval_family *family, const char *data,
                                    kvs_err *err)
{
    kvsi_data_folder folder;
    size_t *files, count;
    int filtered, marked = 0;
    kvs_status st = KVS_OK;

    TRY(open_folder(&folder, family, data, err));
    files = kvsi_alloc(folder.count, sizeof *files);
    if (!files) {
        kvsi_data_folder_release(&folder);
        return kvsi_no_memory(err, "names of files");
    }
    for (size_t i = 0; i < family->subject_count; i++) {
        TRY_OUT(find_split(&folder, family, &family->subjects[i], family->evaluated, files, &count,
                           &filtered, err));
        if (!filtered)
            found[i] |= (char)(count > 0);
        for (size_t k = 0; filtered && !marked && k < count; k++)
            TRY_OUT(mark_subjects(found, family, folder.files[files[k]].path, err));
        marked |= filtered;
    }
out:
    kvsi_free(files);
    kvsi_data_folder_release(&folder);
    return st;
}
