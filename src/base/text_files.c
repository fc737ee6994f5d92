#include "base/text_files.h"

#include "base/array.h"
#include "base/documents.h"
#include "base/files.h"
#include "base/folders.h"
#include "base/memory.h"
#include "base/spool.h"

#include <sys/stat.h>
#include <unistd.h>

enum { FILES_MAX = 1 << 20, DEPTH_MAX = 32 };

static kvs_status add(kvsi_text_files *files, const char *path, kvs_err *err)
{
    if (files->count == FILES_MAX)
        return kvsi_fail(err, KVS_E_LIMIT, "more than %d text files, with '%s'", FILES_MAX, path);
    TRY(kvsi_array_reserve(&files->paths, &files->capacity, files->count + 1, sizeof *files->paths,
                           err));
    files->paths[files->count] = kvsi_strdup(path);
    if (!files->paths[files->count])
        return kvsi_no_memory(err, "'%s'", path);
    files->count++;
    return KVS_OK;
}

static kvs_status add_folder(kvsi_text_files *files, const char *dir, int depth, kvs_err *err);

static kvs_status add_entry(kvsi_text_files *files, const char *dir, const char *name, int depth,
                            kvs_err *err)
{
    char *path = kvsi_path_join(dir, name);
    struct stat info;
    kvs_status st = KVS_OK;

    if (!path)
        return kvsi_no_memory(err, "'%s'", dir);
    if (lstat(path, &info) != 0)
        st = kvsi_fail_errno(err, "open", path);
    else if (S_ISDIR(info.st_mode))
        st = add_folder(files, path, depth + 1, err);
    else if (kvsi_documents_is_text(name) && !kvsi_is_folder(path))
        st = add(files, path, err);
    kvsi_free(path);
    return st;
}

static kvs_status add_folder(kvsi_text_files *files, const char *dir, int depth, kvs_err *err)
{
    kvsi_name_list names = {0};
    kvs_status st;

    if (depth > DEPTH_MAX)
        return kvsi_fail(err, KVS_E_LIMIT, "'%s' is more than %d folders deep", dir, DEPTH_MAX);
    TRY_OUT(kvsi_dir_list(&names, dir, "", err));
    for (size_t i = 0; i < names.count; i++)
        if (names.names[i][0] != '.')
            TRY_OUT(add_entry(files, dir, names.names[i], depth, err));
out:
    kvsi_name_list_release(&names);
    return st;
}

static kvs_status add_copy(kvsi_text_files *files, const char *path, kvs_err *err)
{
    char copy[KVSI_SPOOL_PATH];

    TRY(kvsi_array_reserve(&files->copies, &files->copy_capacity, files->copy_count + 1,
                           sizeof *files->copies, err));
    TRY(kvsi_spool(copy, &files->copies[files->copy_count], path, err));
    files->copy_count++;
    return add(files, copy, err);
}

static kvs_status add_path(kvsi_text_files *files, const char *path, kvs_err *err)
{
    const size_t before = files->count;

    if (kvsi_spool_is_needed(path))
        return add_copy(files, path, err);
    if (!kvsi_is_folder(path))
        return add(files, path, err);
    TRY(add_folder(files, path, 1, err));
    if (files->count == before)
        return kvsi_fail(err, KVS_E_IO,
                         "the folder '%s' has no text: expected .txt, .md, .jsonl or .json files, "
                         "plain or as .gz or .zst",
                         path);
    return KVS_OK;
}

kvs_status kvsi_text_files_list(kvsi_text_files *out, const char *const *paths, size_t count,
                                kvs_err *err)
{
    kvs_status st = KVS_OK;

    *out = (kvsi_text_files){0};
    for (size_t i = 0; st == KVS_OK && i < count; i++)
        st = add_path(out, paths[i], err);
    if (st != KVS_OK)
        kvsi_text_files_release(out);
    return st;
}

void kvsi_text_files_release(kvsi_text_files *files)
{
    for (size_t i = 0; i < files->count; i++)
        kvsi_free(files->paths[i]);
    for (size_t i = 0; i < files->copy_count; i++)
        close(files->copies[i]);
    kvsi_free(files->paths);
    kvsi_free(files->copies);
    *files = (kvsi_text_files){0};
}
