#include "base/folders.h"

#include "base/array.h"
#include "base/files.h"
#include "base/memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A rename survives a power failure only after the parent folder is synced. */
static kvs_status sync_holder(const char *path, kvs_err *err)
{
    char *holder = kvsi_strdup(path), *slash;
    int fd;
    kvs_status st = KVS_OK;

    if (!holder)
        return kvsi_no_memory(err, "'%s'", path);
    slash = strrchr(holder, '/');
    if (slash)
        *slash = '\0';
    fd = open(slash ? holder : ".", O_RDONLY | O_DIRECTORY);
    if (fd < 0 || fsync(fd) != 0)
        st = kvsi_fail_errno(err, "sync the folder of", path);
    if (fd >= 0)
        close(fd);
    kvsi_free(holder);
    return st;
}

kvs_status kvsi_dir_publish(const char *from, const char *to, kvs_err *err)
{
    if (rename(from, to) != 0)
        return kvsi_fail_errno(err, "rename a folder to", to);
    return sync_holder(to, err);
}

kvs_status kvsi_dir_remove(const char *path, kvs_err *err)
{
    kvsi_name_list list;
    kvs_status st = kvsi_dir_list(&list, path, "", err);

    for (size_t i = 0; st == KVS_OK && i < list.count; i++) {
        char *file = kvsi_path_join(path, list.names[i]);

        if (!file)
            st = kvsi_no_memory(err, "'%s'", path);
        else if (unlink(file) != 0)
            st = kvsi_fail_errno(err, "remove", file);
        kvsi_free(file);
    }
    if (st == KVS_OK && rmdir(path) != 0 && errno != ENOENT)
        st = kvsi_fail_errno(err, "remove folder", path);
    kvsi_name_list_release(&list);
    return st;
}

kvs_status kvsi_dir_link(const char *link, const char *target, kvs_err *err)
{
    const size_t size = strlen(link) + 16;
    char *temporary = kvsi_alloc(size, 1);
    kvs_status st = KVS_OK;

    if (!temporary)
        return kvsi_no_memory(err, "'%s'", link);
    snprintf(temporary, size, "%s.tmp", link);
    unlink(temporary); /* left by a killed process */
    if (symlink(target, temporary) != 0 || rename(temporary, link) != 0)
        st = kvsi_fail_errno(err, "make the link", link);
    kvsi_free(temporary);
    return st;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static kvs_status append(kvsi_name_list *list, size_t *capacity, const char *name, kvs_err *err)
{
    TRY(kvsi_array_reserve(&list->names, capacity, list->count + 1, sizeof *list->names, err));
    list->names[list->count] = kvsi_strdup(name);
    return list->names[list->count++] ? KVS_OK : kvsi_no_memory(err, "the name '%s'", name);
}

kvs_status kvsi_dir_list(kvsi_name_list *out, const char *path, const char *prefix, kvs_err *err)
{
    DIR *dir = opendir(path);
    kvsi_name_list list = {0};
    const struct dirent *entry;
    size_t capacity = 0;
    kvs_status st = KVS_OK;

    *out = (kvsi_name_list){0};
    if (!dir)
        return errno == ENOENT ? KVS_OK : kvsi_fail_errno(err, "read folder", path);
    while (st == KVS_OK && (entry = readdir(dir)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            strncmp(entry->d_name, prefix, strlen(prefix)) == 0)
            st = append(&list, &capacity, entry->d_name, err);
    closedir(dir);
    if (st != KVS_OK) {
        kvsi_name_list_release(&list);
        return st;
    }
    if (list.count > 0)
        qsort(list.names, list.count, sizeof *list.names, by_name);
    *out = list;
    return KVS_OK;
}

void kvsi_name_list_release(kvsi_name_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        kvsi_free(list->names[i]);
    kvsi_free(list->names);
    *list = (kvsi_name_list){0};
}
