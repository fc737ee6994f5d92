/* Detects a file's format by its first bytes. */
#include "base/files.h"
#include "base/text.h"
#include "formats/weights_open.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int is_folder_member(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

    return strcmp(name, "config.json") == 0 || strcmp(name, "model.safetensors.index.json") == 0;
}

static kvsi_content detect(const char *path, const unsigned char *start, size_t size)
{
    if (size >= 4 && memcmp(start, "GGUF", 4) == 0)
        return KVSI_CONTENT_GGUF;
    /* JSON after 8 bytes of length, whose last byte is not printable. */
    if (size > 8 && start[8] == '{' && start[7] < ' ')
        return KVSI_CONTENT_SAFETENSORS;
    if (size > 0 && start[0] == '{')
        return is_folder_member(path) ? KVSI_CONTENT_FOLDER_MEMBER : KVSI_CONTENT_JSON;
    if (kvsi_ends_with(path, ".safetensors")) /* damaged: its reader reports how */
        return KVSI_CONTENT_SAFETENSORS;
    return KVSI_CONTENT_OTHER;
}

static kvs_status detect_open(kvsi_content *out, int fd, const char *path, kvs_err *err)
{
    unsigned char start[16];
    struct stat info;
    ssize_t got;

    if (fstat(fd, &info) != 0)
        return kvsi_fail_errno(err, "read", path);
    if (S_ISDIR(info.st_mode)) {
        *out = KVSI_CONTENT_FOLDER;
        return KVS_OK;
    }
    if (!S_ISREG(info.st_mode))
        return kvsi_fail(err, KVS_E_IO, "cannot read '%s': not a regular file", path);
    got = read(fd, start, sizeof start);
    if (got < 0)
        return kvsi_fail_errno(err, "read", path);
    *out = detect(path, start, (size_t)got);
    return KVS_OK;
}

kvs_status kvsi_detect_content(kvsi_content *out, const char *path, kvs_err *err)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* do not block on pipes */
    kvs_status st;

    if (fd < 0)
        return kvsi_fail_errno(err, "open", path);
    st = detect_open(out, fd, path, err);
    close(fd);
    return st;
}
