#include "base/spool.h"

#include "base/files.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char copies[] = "/proc/self/fd/";

enum { BLOCK = 1 << 17 };

int kvsi_is_spooled(const char *path)
{
    return strncmp(path, copies, sizeof copies - 1) == 0;
}

const char *kvsi_spool_name(const char *path)
{
    return kvsi_is_spooled(path) ? "piped input" : path;
}

int kvsi_spool_is_needed(const char *path)
{
    struct stat info;

    return strcmp(path, "-") == 0 || (stat(path, &info) == 0 && S_ISFIFO(info.st_mode));
}

/* Opens a file that is removed at once. */
static kvs_status open_copy(int *fd, kvs_err *err)
{
    const char *folder = getenv("TMPDIR");
    char *path = kvsi_path_join(folder && *folder ? folder : "/tmp", "kvshift-XXXXXX");
    kvs_status st = KVS_OK;

    if (!path)
        return kvsi_no_memory(err, "a temporary file");
    *fd = mkstemp(path);
    if (*fd < 0)
        st = kvsi_fail_errno(err, "create", path);
    else
        unlink(path);
    kvsi_free(path);
    return st;
}

static kvs_status write_block(int fd, const char *block, size_t size, kvs_err *err)
{
    for (size_t done = 0; done < size;) {
        const ssize_t count = write(fd, block + done, size - done);

        if (count < 0 && errno != EINTR)
            return kvsi_fail_errno(err, "write", "the copy of piped input in TMPDIR");
        done += count > 0 ? (size_t)count : 0;
    }
    return KVS_OK;
}

static kvs_status copy(int to, int from, const char *path, kvs_err *err)
{
    char *block = kvsi_alloc(BLOCK, 1);
    kvs_status st = KVS_OK;

    if (!block)
        return kvsi_no_memory(err, "'%s'", path);
    for (;;) {
        const ssize_t got = read(from, block, BLOCK);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            st = kvsi_fail_errno(err, "read", path);
        if (got <= 0)
            break;
        TRY_OUT(write_block(to, block, (size_t)got, err));
    }
out:
    kvsi_free(block);
    return st;
}

kvs_status kvsi_spool(char out[KVSI_SPOOL_PATH], int *fd, const char *path, kvs_err *err)
{
    const int is_input = strcmp(path, "-") == 0;
    int from = STDIN_FILENO;
    kvs_status st;

    *fd = -1;
    if (!is_input)
        from = open(path, O_RDONLY | O_CLOEXEC);
    if (from < 0)
        return kvsi_fail_errno(err, "open", path);
    TRY_OUT(open_copy(fd, err));
    TRY_OUT(copy(*fd, from, is_input ? "standard input" : path, err));
    snprintf(out, KVSI_SPOOL_PATH, "%s%d", copies, *fd);
out:
    if (!is_input)
        close(from);
    if (st != KVS_OK && *fd >= 0) {
        close(*fd);
        *fd = -1;
    }
    return st;
}
