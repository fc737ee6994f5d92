#include "base/source.h"

#include "base/checksum.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

enum { BLOCK = 1 << 17 }; /* bytes per read */

struct kvsi_source {
    const char *path;
    int fd;
    uint64_t bytes;
    uint64_t size; /* of the file */
    kvsi_checksum_stream *sum;
    ZSTD_DStream *zstd; /* NULL = plain */
    unsigned char *block;
    ZSTD_inBuffer input; /* the unread part of the block */
    int inside_frame;    /* the compressed frame is not complete */
};

static kvs_status open_file(kvsi_source *source, kvs_err *err)
{
    struct stat info;

    /* With O_NONBLOCK opening a pipe does not wait for a writer, so that it can be refused. */
    source->fd = open(source->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (source->fd < 0)
        return kvsi_fail_errno(err, "open", source->path);
    if (fstat(source->fd, &info) != 0)
        return kvsi_fail_errno(err, "read", source->path);
    if (!S_ISREG(info.st_mode))
        return kvsi_fail(err, KVS_E_IO, "cannot read '%s': not a regular file", source->path);
    source->size = (uint64_t)info.st_size;
    return KVS_OK;
}

/* The first bytes of compressed files.  Reading them as text would give a useless tokenizer. */
static kvs_status refuse_compressed(const kvsi_source *source, kvs_err *err)
{
    static const struct {
        const char *bytes, *what;
    } formats[] = {
        {"\x28\xb5\x2f\xfd", "a zstd file: expected a name that ends in .zst"},
        {"\x1f\x8b\x08", "compressed with gzip: expected text, plain or as .zst"},
        {"\xfd"
         "7zXZ",
         "compressed with xz: expected text, plain or as .zst"},
        {"BZh", "compressed with bzip2: expected text, plain or as .zst"},
        {"PK\x03\x04", "a zip file: expected text, plain or as .zst"},
        {"PAR1", "a Parquet file: expected text or JSON lines, plain or as .zst"},
    };
    char start[8];
    const ssize_t got = pread(source->fd, start, sizeof start, 0);

    if (got < 0)
        return kvsi_fail_errno(err, "read", source->path);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        const size_t length = strlen(formats[i].bytes);

        if ((size_t)got >= length && memcmp(start, formats[i].bytes, length) == 0)
            return kvsi_fail(err, KVS_E_FORMAT, "'%s' is %s", source->path, formats[i].what);
    }
    return KVS_OK;
}

/* The file sets the window size, and zstd allocates it at once.  Allow 8 MB, which all common
 * compression levels keep to, or more for a larger file. */
static int open_zstd(kvsi_source *source)
{
    enum {
        ALWAYS = 23,
        LOG_MAX = 27,
        TIMES = 1024
    }; /* logarithms; bytes of window per byte of file */
    int log = ALWAYS;

    while (log < LOG_MAX && (uint64_t)1 << log < TIMES * source->size)
        log++;
    source->block = kvsi_alloc(BLOCK, 1);
    source->zstd = ZSTD_createDStream();
    return source->block && source->zstd &&
           !ZSTD_isError(ZSTD_DCtx_setParameter(source->zstd, ZSTD_d_windowLogMax, log));
}

kvs_status kvsi_source_open(kvsi_source **out, const char *path, kvs_err *err)
{
    kvsi_source *source = kvsi_alloc(1, sizeof *source);
    kvs_status st = KVS_OK;

    *out = NULL;
    if (!source)
        goto no_memory;
    source->path = path;
    source->fd = -1;
    TRY_OUT(kvsi_checksum_create(&source->sum, err));
    TRY_OUT(open_file(source, err));
    if (!kvsi_ends_with(path, ".zst"))
        TRY_OUT(refuse_compressed(source, err));
    else if (!open_zstd(source))
        goto no_memory;
    *out = source;
    source = NULL;
out:
    kvsi_source_close(source);
    return st;

no_memory:
    kvsi_source_close(source);
    return kvsi_no_memory(err, "'%s'", path);
}

void kvsi_source_close(kvsi_source *source)
{
    if (!source)
        return;
    if (source->fd >= 0)
        close(source->fd);
    ZSTD_freeDStream(source->zstd);
    kvsi_checksum_free(source->sum);
    kvsi_free(source->block);
    kvsi_free(source);
}

static kvs_status read_disk(kvsi_source *source, void *out, size_t size, size_t *got, kvs_err *err)
{
    ssize_t count;

    do
        count = read(source->fd, out, size);
    while (count < 0 && errno == EINTR);
    if (count < 0)
        return kvsi_fail_errno(err, "read", source->path);
    *got = (size_t)count;
    source->bytes += *got;
    kvsi_checksum_add(source->sum, out, *got);
    return KVS_OK;
}

/* Reads the next block once the last one is used; *ended = whether there was none. */
static kvs_status refill(kvsi_source *source, int *ended, kvs_err *err)
{
    size_t got = 0;
    const kvs_status st = read_disk(source, source->block, BLOCK, &got, err);

    source->input = (ZSTD_inBuffer){.src = source->block, .size = got};
    *ended = got == 0;
    return st;
}

kvs_status kvsi_source_read(kvsi_source *source, void *out, size_t size, size_t *got, kvs_err *err)
{
    ZSTD_outBuffer output = {.dst = out, .size = size};
    int ended = 0;

    *got = 0;
    if (!source->zstd)
        return read_disk(source, out, size, got, err);
    while (output.pos == 0) {
        size_t hint;

        /* The decompressor may hold output after its input is used up, so it is called once more
         * without input before the file counts as ended. */
        if (source->input.pos == source->input.size)
            TRY(refill(source, &ended, err));
        if (ended && !source->inside_frame)
            break;
        hint = ZSTD_decompressStream(source->zstd, &output, &source->input);
        if (ZSTD_isError(hint))
            return kvsi_fail(err, KVS_E_FORMAT, "'%s' is not a valid zstd file: %s", source->path,
                             ZSTD_getErrorName(hint));
        if (ended && output.pos == 0)
            return kvsi_fail(err, KVS_E_FORMAT, "'%s' ends in the middle of its zstd data",
                             source->path);
        source->inside_frame = hint != 0;
    }
    *got = output.pos;
    return KVS_OK;
}

uint64_t kvsi_source_bytes(const kvsi_source *source)
{
    return source->bytes;
}

uint64_t kvsi_source_checksum(const kvsi_source *source)
{
    return kvsi_checksum_value(source->sum);
}
