/* base/new_folder.h - a folder that appears only when complete: filled under another name, renamed.
 *
 *     TRY_OUT(kvsi_new_folder_begin(&folder, path, &kind, overwrite, err));
 *     ... write files into folder.temporary ...
 *     st = kvsi_new_folder_commit(&folder, err);
 * out:
 *     kvsi_new_folder_abandon(&folder); */
#ifndef KVSI_BASE_NEW_FOLDER_H
#define KVSI_BASE_NEW_FOLDER_H

#include "base/status.h"

#include <stddef.h>

/* The contents of a kind of folder.  A folder with anything else is never replaced. */
typedef struct kvsi_folder_kind {
    const char *name;  /* "corpus"; messages write "a corpus" */
    const char *proof; /* a file that every such folder has */
    int (*is_part)(const char *name);
} kvsi_folder_kind;

/* Starts as {0}. */
typedef struct kvsi_new_folder {
    char *path, *temporary;
    int replaces;     /* an existing folder of the kind */
    size_t first_new; /* length of the prefix of `temporary` that names the first new folder */
} kvsi_new_folder;

/* At `path` there must be nothing, an empty folder or, with `overwrite`, a folder of the kind;
 * without `overwrite` the latter is KVS_E_EXISTS. */
kvs_status kvsi_new_folder_begin(kvsi_new_folder *folder, const char *path,
                                 const kvsi_folder_kind *kind, int overwrite, kvs_err *err);
/* Ends the operation either way. */
kvs_status kvsi_new_folder_commit(kvsi_new_folder *folder, kvs_err *err);
void kvsi_new_folder_abandon(kvsi_new_folder *folder); /* no effect on {0} or after commit */

#endif
