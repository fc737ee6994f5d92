#include "base/files.h"

#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

kvs_status(kvsi_fail_errno)(kvs_err *err, const char *action, const char *path)
{
    const int code = errno;
    char reason[128];

    if (strerror_r(code, reason, sizeof reason) != 0)
        snprintf(reason, sizeof reason, "error %d", code);
    return kvsi_fail(err, code == ENOMEM ? KVS_E_NOMEM : KVS_E_IO, "cannot %s '%s': %s", action,
                     path, reason);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The size of an open file, which must be regular and within the limit. */
static kvs_status check_size(size_t *size, int fd, const char *path, size_t limit, kvs_err *err)
{
    struct stat info;

    if (fstat(fd, &info) != 0)
        return kvsi_fail_errno(err, "read", path);
    if (!S_ISREG(info.st_mode))
        return kvsi_fail(err, KVS_E_IO, "cannot read '%s': not a regular file", path);
    if ((uintmax_t)info.st_size > limit)
        return kvsi_fail(err, KVS_E_LIMIT, "'%s' has %ju bytes, expected at most %zu", path,
                         (uintmax_t)info.st_size, limit);
    *size = (size_t)info.st_size;
    return KVS_OK;
}

static kvs_status read_all(int fd, char *data, size_t size, const char *path, kvs_err *err)
{
    for (size_t done = 0; done < size;) {
        const ssize_t got = read(fd, data + done, size - done);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return kvsi_fail_errno(err, "read", path);
        if (got == 0)
            return kvsi_fail(err, KVS_E_IO, "'%s' ended after %zu of %zu bytes", path, done, size);
        done += (size_t)got;
    }
    return KVS_OK;
}

kvs_status kvsi_file_read(char **out, size_t *size, const char *path, size_t limit, kvs_err *err)
{
    kvs_status st = KVS_OK;
    size_t length = 0;
    char *data = NULL;
    /* With O_NONBLOCK opening a pipe does not wait for a writer, so that it can be refused. */
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    *out = NULL;
    if (fd < 0)
        return kvsi_fail_errno(err, "open", path);
    TRY_OUT(check_size(&length, fd, path, limit, err));
    data = kvsi_alloc(length + 1, 1);
    if (!data) {
        st = kvsi_no_memory(err, "'%s'", path);
        goto out;
    }
    TRY_OUT(read_all(fd, data, length, path, err));
    *out = data;
    *size = length;
    data = NULL;
out:
    kvsi_free(data);
    close(fd);
    return st;
}

kvs_status kvsi_read_line(kvsi_text *line, int *found, FILE *from, const char *path, size_t limit,
                          kvs_err *err)
{
    int c = 0;

    *found = 0;
    line->length = 0;
    kvsi_text_add(line, "");
    while (c != '\n' && !line->failed && (c = getc_unlocked(from)) != EOF) {
        const char byte = (char)c;

        if (line->length == limit)
            return kvsi_fail(err, KVS_E_LIMIT, "'%s' has a line of more than %zu bytes", path,
                             limit);
        kvsi_text_add_bytes(line, &byte, 1);
    }
    if (ferror(from))
        return kvsi_fail_errno(err, "read", path);
    *found = line->length > 0;
    return kvsi_text_check(line, err);
}

/* ---- writing --------------------------------------------------------------------------------- */

struct kvsi_new_file {
    FILE *stream;
    char *path, *temporary; /* `temporary` exists on disk while `stream` is open */
};

/* Renaming over a device, a pipe or a folder would do damage or fail late. */
static kvs_status check_target(const char *path, kvs_err *err)
{
    struct stat info;

    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return kvsi_fail(err, KVS_E_IO, "cannot write '%s': not a regular file", path);
    return KVS_OK;
}

static void free_new_file(kvsi_new_file *file)
{
    kvsi_free(file->path);
    kvsi_free(file->temporary);
    kvsi_free(file);
}

static kvs_status open_temporary(kvsi_new_file *file, kvs_err *err)
{
    /* A file of this name can only be left over from an earlier process with our process id. */
    const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC;
    const int fd = open(file->temporary, flags, 0666);
    kvs_status st;

    if (fd < 0)
        return kvsi_fail_errno(err, "create", file->path);
    file->stream = fdopen(fd, "wb");
    if (file->stream)
        return KVS_OK;
    st = kvsi_fail_errno(err, "create", file->path);
    close(fd);
    unlink(file->temporary);
    return st;
}

kvs_status kvsi_new_file_open(kvsi_new_file **out, const char *path, kvs_err *err)
{
    const size_t size = strlen(path) + 32;
    kvs_status st = KVS_OK;
    kvsi_new_file *file;

    *out = NULL;
    file = kvsi_alloc(1, sizeof *file);
    if (!file)
        return kvsi_no_memory(err, "'%s'", path);
    TRY_OUT(check_target(path, err));
    file->path = kvsi_strdup(path);
    file->temporary = kvsi_alloc(size, 1);
    if (!file->path || !file->temporary) {
        st = kvsi_no_memory(err, "'%s'", path);
        goto out;
    }
    snprintf(file->temporary, size, "%s.tmp-%ld", path, (long)getpid());
    TRY_OUT(open_temporary(file, err));
    *out = file;
    file = NULL;
out:
    if (file)
        free_new_file(file);
    return st;
}

kvs_status kvsi_new_file_write(kvsi_new_file *file, const void *data, size_t size, kvs_err *err)
{
    if (fwrite(data, 1, size, file->stream) != size)
        return kvsi_fail_errno(err, "write", file->path);
    return KVS_OK;
}

kvs_status kvsi_new_file_write_at(kvsi_new_file *file, uint64_t offset, const void *data,
                                  size_t size, kvs_err *err)
{
    if (fseeko(file->stream, (off_t)offset, SEEK_SET) != 0 ||
        fwrite(data, 1, size, file->stream) != size || fseeko(file->stream, 0, SEEK_END) != 0)
        return kvsi_fail_errno(err, "write", file->path);
    return KVS_OK;
}

/* Without this a crash could lose the new name although the data is on disk. */
static kvs_status sync_parent(const char *path, kvs_err *err)
{
    char *parent = kvsi_path_parent(path);
    kvs_status st = KVS_OK;
    int fd;

    if (!parent)
        return kvsi_no_memory(err, "'%s'", path);
    fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* The folder is not readable, or the file system does not support this: ignore it. */
    if (fd >= 0 && fsync(fd) != 0 && errno != EINVAL && errno != EROFS)
        st = kvsi_fail_errno(err, "sync", parent);
    if (fd >= 0)
        close(fd);
    kvsi_free(parent);
    return st;
}

kvs_status kvsi_new_file_commit(kvsi_new_file *file, kvs_err *err)
{
    FILE *stream = file->stream;
    kvs_status st = KVS_OK;

    if (fflush(stream) != 0 || fsync(fileno(stream)) != 0)
        st = kvsi_fail_errno(err, "write", file->path);
    if (fclose(stream) != 0 && st == KVS_OK)
        st = kvsi_fail_errno(err, "write", file->path);
    if (st == KVS_OK && rename(file->temporary, file->path) != 0)
        st = kvsi_fail_errno(err, "create", file->path);
    if (st == KVS_OK)
        st = sync_parent(file->path, err);
    else
        unlink(file->temporary);
    free_new_file(file);
    return st;
}

void kvsi_new_file_abandon(kvsi_new_file *file)
{
    if (!file)
        return;
    fclose(file->stream);
    unlink(file->temporary);
    free_new_file(file);
}

kvs_status kvsi_file_write_text(const char *path, const char *text, kvs_err *err)
{
    kvsi_new_file *file = NULL;
    kvs_status st;

    TRY_OUT(kvsi_new_file_open(&file, path, err));
    TRY_OUT(kvsi_new_file_write(file, text, strlen(text), err));
    st = kvsi_new_file_commit(file, err);
    file = NULL;
out:
    kvsi_new_file_abandon(file);
    return st;
}

/* ---- folders and paths ----------------------------------------------------------------------- */

int kvsi_file_exists(const char *path)
{
    return access(path, F_OK) == 0 ||
           (errno != ENOENT && errno != ENOTDIR && errno != ENAMETOOLONG);
}

/* Where stat() fails, as on a network file system whose handle is stale, opening tells it too. */
int kvsi_is_folder(const char *path)
{
    struct stat info;
    int fd;

    if (stat(path, &info) == 0)
        return S_ISDIR(info.st_mode);
    if (errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG)
        return 0;
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* Makes the folder named by the first `length` bytes; returns 0, with errno, on failure. */
static int make_prefix(char *path, size_t length, int *made)
{
    const char next = path[length];
    int there, reason;

    path[length] = '\0';
    *made = mkdir(path, 0777) == 0;
    reason = errno;
    there = *made || kvsi_is_folder(path);
    path[length] = next;
    errno = reason == EEXIST ? ENOTDIR : reason; /* something else exists there */
    return there;
}

/* Removes the folders that end at slashes `first` to `last` of the path, the deepest first. */
static void remove_prefixes(char *path, size_t first, size_t last)
{
    for (size_t at = last; at >= first; at--) {
        if (path[at] == '/') {
            path[at] = '\0';
            rmdir(path);
        }
    }
}

kvs_status kvsi_dir_make(const char *path, int *made, kvs_err *err)
{
    char *parts = kvsi_strdup(path);
    size_t end = strlen(path), first_made = 0;
    kvs_status st = KVS_OK;

    *made = 0;
    if (!parts)
        return kvsi_no_memory(err, "'%s'", path);
    while (end > 1 && parts[end - 1] == '/')
        parts[--end] = '\0';
    for (size_t at = end > 0; at <= end; at++) {
        if (at < end && parts[at] != '/')
            continue;
        if (!make_prefix(parts, at, made)) {
            st = kvsi_fail_errno(err, "make folder", path);
            if (first_made)
                remove_prefixes(parts, first_made, at - 1);
            break;
        }
        if (*made && !first_made)
            first_made = at;
    }
    kvsi_free(parts);
    return st;
}

char *kvsi_path_join(const char *dir, const char *name)
{
    const size_t length = strlen(dir);
    const char *slash = length > 0 && dir[length - 1] != '/' ? "/" : "";
    const size_t size = length + strlen(name) + 2;
    char *path = kvsi_alloc(size, 1);

    if (path)
        snprintf(path, size, "%s%s%s", dir, slash, name);
    return path;
}

char *kvsi_path_parent(const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t length;
    char *parent;

    if (!slash)
        return kvsi_strdup(".");
    length = slash == path ? 1 : (size_t)(slash - path);
    parent = kvsi_alloc(length + 1, 1);
    if (parent)
        memcpy(parent, path, length);
    return parent;
}

char *kvsi_find_tokenizer(const char *dir)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer.model", "tokenizer.bin",
                                        "tokenizer.gguf"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *path = kvsi_path_join(dir, names[i]);

        if (path && kvsi_file_exists(path))
            return path;
        kvsi_free(path);
    }
    return NULL;
}
