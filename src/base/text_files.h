/* base/text_files.h - the text files that a list of paths stands for. */
#ifndef KVSI_BASE_TEXT_FILES_H
#define KVSI_BASE_TEXT_FILES_H

#include "base/status.h"

typedef struct kvsi_text_files {
    char **paths;
    size_t count, capacity;
    int *copies; /* file descriptors of copies of piped input */
    size_t copy_count, copy_capacity;
} kvsi_text_files;

/* Lists the files of `paths` in their order.  A folder stands for the .txt, .md, .jsonl and .json
 * files in it and in its subfolders, also compressed ones, in the order of their names; names that
 * start with a dot are left out, and so are links to folders.  "-" stands for standard input; it
 * and pipes are copied first (base/spool.h), and the list has the paths of the copies. */
kvs_status kvsi_text_files_list(kvsi_text_files *out, const char *const *paths, size_t count,
                                kvs_err *err);
void kvsi_text_files_release(kvsi_text_files *files);

#endif
