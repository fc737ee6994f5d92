/* eval/data_files.h - finds the files of a benchmark's splits in its folder.
 *
 * A file's split is in its name or in that of a folder: a word that starts with train, dev, val or
 * test ("ARC-Easy-Test.jsonl", "test/anatomy_test.csv", "train-00000-of-00002.jsonl"). */
#ifndef KVSI_EVAL_DATA_FILES_H
#define KVSI_EVAL_DATA_FILES_H

#include "base/status.h"

#include <stddef.h>

typedef enum kvsi_split { /* bits */
                          KVSI_SPLIT_TRAIN = 1,
                          KVSI_SPLIT_DEV = 2,
                          KVSI_SPLIT_VALIDATION = 4,
                          KVSI_SPLIT_TEST = 8,
} kvsi_split;

typedef struct kvsi_data_file {
    char *path;
    const char *name; /* the part of the path below the folder */
    int split;        /* 0 = none is named */
} kvsi_data_file;

typedef struct kvsi_data_folder {
    char *path;
    kvsi_data_file *files; /* of all subfolders, sorted by path */
    size_t count, capacity;
} kvsi_data_folder;

/* Lists dir/name.  *found = 0: there is no such folder. */
kvs_status kvsi_data_folder_open(kvsi_data_folder *out, const char *dir, const char *name,
                                 int *found, kvs_err *err);
void kvsi_data_folder_release(kvsi_data_folder *folder);

/* Which files belong together: those of one subject. */
typedef int kvsi_data_filter(const char *name, const void *what);

/* The name of the split, for messages. */
const char *kvsi_split_name(int split);
/* Whether a folder of the name, the name itself or the name without its split is `part`:
 * "anatomy/test.jsonl", "test/anatomy.csv", "anatomy_test.csv". */
int kvsi_data_name_has_part(const char *name, const char *part);

/* The files of a split (bits: any of these) among those that `filter` (NULL = all) accepts, as
 * indices into folder->files: one, or the numbered parts of one, or none.  If the same name exists
 * with several endings, .jsonl is taken before .json, and .json before .csv.  Where several files
 * are left, one whose name starts with `preferred` (or NULL) is taken; otherwise that is an error.
 * `out` has folder->count entries. */
kvs_status kvsi_data_folder_find(const kvsi_data_folder *folder, int split,
                                 kvsi_data_filter *filter, const void *what, const char *preferred,
                                 size_t *out, size_t *count, kvs_err *err);

#endif
