/* base/files.h - files and paths.  New files appear only when complete: written under a temporary
 * name, synced, renamed. */
#ifndef KVSI_BASE_FILES_H
#define KVSI_BASE_FILES_H

#include "base/status.h"
#include "base/text.h"

#include <stdio.h>

/* "cannot ACTION 'PATH': REASON" with the reason of errno.  Call it before anything changes
 * errno. */
kvs_status kvsi_fail_errno(kvs_err *err, const char *action, const char *path);

#ifdef __clang_analyzer__ /* as for kvsi_fail */
#define kvsi_fail_errno(err, action, path) ((void)kvsi_fail_errno(err, action, path), KVS_E_IO)
#endif

/* Reads a regular file of at most `limit` bytes into fresh memory (kvsi_free), NUL-terminated. */
kvs_status kvsi_file_read(char **out, size_t *size, const char *path, size_t limit, kvs_err *err);

/* The next line, with its newline, in line->data; *found = 0 at the end.  A line of more than
 * `limit` bytes is refused before it is read completely.  `path` is for messages. */
kvs_status kvsi_read_line(kvsi_text *line, int *found, FILE *from, const char *path, size_t limit,
                          kvs_err *err);

/* A file being written: it appears at `path` on commit and not before. */
typedef struct kvsi_new_file kvsi_new_file;
kvs_status kvsi_new_file_open(kvsi_new_file **out, const char *path, kvs_err *err);
kvs_status kvsi_new_file_write(kvsi_new_file *file, const void *data, size_t size, kvs_err *err);
/* Overwrites data written before, such as a header whose counts are known at the end. */
kvs_status kvsi_new_file_write_at(kvsi_new_file *file, uint64_t offset, const void *data,
                                  size_t size, kvs_err *err);
kvs_status kvsi_new_file_commit(kvsi_new_file *file,
                                kvs_err *err);   /* closes the handle either way */
void kvsi_new_file_abandon(kvsi_new_file *file); /* NULL does nothing */

kvs_status kvsi_file_write_text(const char *path, const char *text, kvs_err *err);

/* 0 only if it surely does not exist.  If that cannot be found out, as when the disk fails, the
 * caller goes on to open the file and reports why it cannot. */
int kvsi_file_exists(const char *path);
int kvsi_is_folder(const char *path);
/* Makes the folder and its parents; *made = whether the last one is new. */
kvs_status kvsi_dir_make(const char *path, int *made, kvs_err *err);
/* dir/name, in fresh memory (kvsi_free); NULL if out of memory. */
char *kvsi_path_join(const char *dir, const char *name);
/* The parent folder, "." for a bare name; also in fresh memory. */
char *kvsi_path_parent(const char *path);
/* The path of a folder's tokenizer: the first of tokenizer.json, .model, .bin and .gguf that
 * exists. In fresh memory; NULL if there is none or memory runs out. */
char *kvsi_find_tokenizer(const char *dir);

#endif
