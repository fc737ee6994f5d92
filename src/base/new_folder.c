#include "base/new_folder.h"

#include "base/files.h"
#include "base/folders.h"
#include "base/memory.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SUFFIX = 32 };

static char *with_suffix(const char *path, const char *word)
{
    const size_t size = strlen(path) + SUFFIX;
    char *text = kvsi_alloc(size, 1);

    if (text)
        snprintf(text, size, "%s.%s-%ld", path, word, (long)getpid());
    return text;
}

/* Nothing may exist at the path, except a folder of the same kind that may be replaced. */
static kvs_status check_place(kvsi_new_folder *folder, const kvsi_folder_kind *kind, int overwrite,
                              kvs_err *err)
{
    kvsi_name_list list;
    const char *stranger = NULL;
    int found = 0;
    kvs_status st = KVS_OK;

    TRY(kvsi_dir_list(&list, folder->path, "", err));
    for (size_t i = 0; i < list.count; i++) {
        found = found || strcmp(list.names[i], kind->proof) == 0;
        if (!kind->is_part(list.names[i]))
            stranger = list.names[i];
    }
    if (found && !overwrite)
        st = kvsi_fail(err, KVS_E_EXISTS, "'%s' already holds a %s", folder->path, kind->name);
    else if (stranger || (list.count > 0 && !found))
        st = kvsi_fail(err, KVS_E_INVALID,
                       "folder '%s' holds '%s', expected a new or empty folder%s%s%s", folder->path,
                       stranger ? stranger : list.names[0], overwrite ? " or a " : "",
                       overwrite ? kind->name : "", overwrite ? " alone" : "");
    folder->replaces = found;
    kvsi_name_list_release(&list);
    return st;
}

/* The length of the prefix of `path` that names the first missing folder. */
static size_t first_missing(char *path)
{
    size_t end = strlen(path);

    for (size_t i = 1; i < end; i++) {
        if (path[i] != '/')
            continue;
        path[i] = '\0';
        if (!kvsi_file_exists(path))
            end = i;
        path[i] = '/';
    }
    return end;
}

kvs_status kvsi_new_folder_begin(kvsi_new_folder *folder, const char *path,
                                 const kvsi_folder_kind *kind, int overwrite, kvs_err *err)
{
    size_t length = strlen(path);
    kvs_status st = KVS_OK;
    int made;

    *folder = (kvsi_new_folder){.path = kvsi_strdup(path)};
    if (!folder->path)
        return kvsi_no_memory(err, "'%s'", path);
    while (length > 1 && folder->path[length - 1] == '/')
        folder->path[--length] = '\0';
    TRY_OUT(check_place(folder, kind, overwrite, err));
    folder->temporary = with_suffix(folder->path, "tmp");
    if (!folder->temporary) {
        st = kvsi_no_memory(err, "'%s'", path);
        goto out;
    }
    TRY_OUT(kvsi_dir_remove(folder->temporary,
                            err)); /* left by an earlier process with our process id */
    folder->first_new = first_missing(folder->temporary);
    TRY_OUT(kvsi_dir_make(folder->temporary, &made, err));
    return KVS_OK;
out:
    kvsi_free(folder->temporary);
    folder->temporary = NULL;
    kvsi_new_folder_abandon(folder);
    return st;
}

static void release(kvsi_new_folder *folder)
{
    kvsi_free(folder->path);
    kvsi_free(folder->temporary);
    *folder = (kvsi_new_folder){0};
}

void kvsi_new_folder_abandon(kvsi_new_folder *folder)
{
    char *path = folder->temporary;

    if (path) {
        kvsi_dir_remove(path, NULL);
        for (size_t end = strlen(path) - 1; end >= folder->first_new; end--) {
            if (path[end] != '/')
                continue;
            path[end] = '\0';
            rmdir(path);
        }
    }
    release(folder);
}

kvs_status kvsi_new_folder_commit(kvsi_new_folder *folder, kvs_err *err)
{
    char *old = NULL;
    kvs_status st;

    if (folder->replaces) {
        old = with_suffix(folder->path, "old");
        if (!old) {
            st = kvsi_no_memory(err, "'%s'", folder->path);
            goto out;
        }
        TRY_OUT(kvsi_dir_publish(folder->path, old, err));
    }
    st = kvsi_dir_publish(folder->temporary, folder->path, err);
    if (st != KVS_OK && old)
        kvsi_dir_publish(old, folder->path, NULL); /* undo */
    else if (st == KVS_OK && old)
        st = kvsi_dir_remove(old, err);
out:
    kvsi_free(old);
    if (st == KVS_OK)
        release(folder);
    else
        kvsi_new_folder_abandon(folder);
    return st;
}
