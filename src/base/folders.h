/* base/folders.h - whole folders: rename into place, list, remove, link. */
#ifndef KVSI_BASE_FOLDERS_H
#define KVSI_BASE_FOLDERS_H

#include "base/status.h"

/* Renames a complete folder to its final name, which must not exist, and syncs the parent. */
kvs_status kvsi_dir_publish(const char *from, const char *to, kvs_err *err);
/* Removes a folder and its files; a subfolder is an error, a missing folder is not. */
kvs_status kvsi_dir_remove(const char *path, kvs_err *err);
/* Creates or atomically replaces the symbolic link `link` to `target`. */
kvs_status kvsi_dir_link(const char *link, const char *target, kvs_err *err);

typedef struct kvsi_name_list {
    char **names; /* sorted */
    size_t count;
} kvsi_name_list;

/* Entries of a folder that start with `prefix`; a missing folder has none. */
kvs_status kvsi_dir_list(kvsi_name_list *out, const char *path, const char *prefix, kvs_err *err);
void kvsi_name_list_release(kvsi_name_list *list);

#endif
