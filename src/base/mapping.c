#include "base/mapping.h"

#include "base/files.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- paths of open mappings, for the handler of SIGBUS -----------------------------------------
 *
 * An entry is free if its state is 0, taken while it is written (1), and valid at 2.  The handler
 * runs in a thread that reads from a mapping, so that mapping is not closed meanwhile. */

enum { KEPT = 256, FREE = 0, CHANGING = 1, VALID = 2 };

static struct {
    atomic_int state;
    _Atomic(const unsigned char *) data;
    atomic_size_t size;
    char *path;
} kept[KEPT];

static void keep_path(const kvsi_mapping *mapping, const char *path)
{
    for (size_t i = 0; i < KEPT; i++) {
        int expected = FREE;

        if (!atomic_compare_exchange_strong(&kept[i].state, &expected, CHANGING))
            continue;
        atomic_store(&kept[i].data, mapping->data);
        atomic_store(&kept[i].size, mapping->size);
        kept[i].path = strdup(path); /* if memory runs out, only the path in that message is lost */
        atomic_store(&kept[i].state, kept[i].path ? VALID : FREE);
        return;
    }
}

static void drop_path(const kvsi_mapping *mapping)
{
    for (size_t i = 0; i < KEPT; i++) {
        int expected = VALID;

        if (atomic_load(&kept[i].state) != VALID || atomic_load(&kept[i].data) != mapping->data ||
            !atomic_compare_exchange_strong(&kept[i].state, &expected, CHANGING))
            continue;
        free(kept[i].path);
        atomic_store(&kept[i].state, FREE);
        return;
    }
}

const char *kvsi_mapping_path(const void *address)
{
    for (size_t i = 0; i < KEPT; i++)
        if (atomic_load(&kept[i].state) == VALID &&
            (uintptr_t)address - (uintptr_t)atomic_load(&kept[i].data) < atomic_load(&kept[i].size))
            return kept[i].path;
    return NULL;
}

/* ---- mappings -------------------------------------------------------------------------------- */

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
    keep_path(out, path);
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
    if (!mapping->data)
        return;
    drop_path(mapping);
    munmap((void *)mapping->data, mapping->size);
    *mapping = (kvsi_mapping){0};
}
