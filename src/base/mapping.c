#include "base/mapping.h"

#include "base/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static kvs_status map(kvsi_mapping *out, int fd, const char *path, kvs_err *err)
{
    struct stat info;
    void *data;

    if (fstat(fd, &info) != 0)
        return kvsi_fail_errno(err, "read", path);
    if (!S_ISREG(info.st_mode))
        return kvsi_fail(err, KVS_E_IO, "cannot read '%s': not a regular file", path);
    if (info.st_size == 0) /* an empty file cannot be mapped */
        return KVS_OK;
    data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED)
        return kvsi_fail_errno(err, "map", path);
    *out = (kvsi_mapping){data, (size_t)info.st_size};
    return KVS_OK;
}

kvs_status kvsi_mapping_open(kvsi_mapping *out, const char *path, kvs_err *err)
{
    /* With O_NONBLOCK opening a pipe does not wait for a writer, so that it can be refused. */
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    kvs_status st;

    *out = (kvsi_mapping){0};
    if (fd < 0)
        return kvsi_fail_errno(err, "open", path);
    st = map(out, fd, path, err);
    close(fd);
    return st;
}

void kvsi_mapping_close(kvsi_mapping *mapping)
{
    if (mapping->data)
        munmap((void *)mapping->data, mapping->size);
    *mapping = (kvsi_mapping){0};
}
