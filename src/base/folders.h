/* base/folders.h - folders as wholes: published by renaming, listed, removed, pointed to. */
#ifndef KVSI_BASE_FOLDERS_H
#define KVSI_BASE_FOLDERS_H

#include "base/status.h"

/* Renames a filled folder to its final name, which must be free, and syncs what holds it. */
kvs_status kvsi_dir_publish(const char *from, const char *to, kvs_err *err);
/* Removes a folder and the files in it; a folder inside it is an error.  Absent is fine. */
kvs_status kvsi_dir_remove(const char *path, kvs_err *err);
/* Makes or moves the symbolic link `link` to `target` (as it is written), in one step. */
kvs_status kvsi_dir_link(const char *link, const char *target, kvs_err *err);

typedef struct kvsi_name_list {
    char **names; /* sorted */
    size_t count;
} kvsi_name_list;

/* Entries of a folder that start with `prefix`; an absent folder has none. */
kvs_status kvsi_dir_list(kvsi_name_list *out, const char *path, const char *prefix, kvs_err *err);
void kvsi_name_list_release(kvsi_name_list *list);

#endif
