/* base/new_folder.h - a folder that appears whole: filled under another name, then renamed.
 *
 *     TRY_OUT(kvsi_new_folder_begin(&folder, path, &kind, overwrite, err));
 *     ... write files into folder.temporary ...
 *     st = kvsi_new_folder_commit(&folder, err);
 * out:
 *     kvsi_new_folder_abandon(&folder);
 */
#ifndef KVSI_BASE_NEW_FOLDER_H
#define KVSI_BASE_NEW_FOLDER_H

#include "base/status.h"

#include <stddef.h>

/* What a folder of this kind holds: nothing else is ever replaced. */
typedef struct kvsi_folder_kind {
    const char *name;  /* "corpus", with "a" before it in messages */
    const char *proof; /* the file that every such folder has */
    int (*is_part)(const char *name);
} kvsi_folder_kind;

/* Starts as {0}. */
typedef struct kvsi_new_folder {
    char *path, *temporary;
    int replaces;     /* a folder of the kind that is there */
    size_t first_new; /* bytes of `temporary` that name the first folder that was not there */
} kvsi_new_folder;

/* At `path` there must be nothing, an empty folder or, with `overwrite`, one of the kind, which is
 * KVS_E_EXISTS otherwise. */
kvs_status kvsi_new_folder_begin(kvsi_new_folder *folder, const char *path,
                                 const kvsi_folder_kind *kind, int overwrite, kvs_err *err);
/* Ends it either way. */
kvs_status kvsi_new_folder_commit(kvsi_new_folder *folder, kvs_err *err);
void kvsi_new_folder_abandon(kvsi_new_folder *folder); /* {0}, or one that has ended: nothing */

#endif
