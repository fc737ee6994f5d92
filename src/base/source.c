#include "base/source.h"

#include "base/checksum.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/spool.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

enum { BLOCK = 1 << 17 }; /* bytes per read */

typedef enum compression { PLAIN, ZSTD, GZIP } compression;

struct kvsi_source {
    const char *path; /* as messages name it */
    int piped;        /* a copy of piped input */
    int fd;
    uint64_t bytes;
    uint64_t size; /* of the file */
    kvsi_checksum_stream *sum;
    compression compression;
    ZSTD_DStream *zstd;
    z_stream gzip;
    int gzip_ready;       /* gzip must be released */
    unsigned char *block; /* compressed */
    size_t at, end;       /* its unread part */
    int inside;           /* a zstd frame or gzip member is not complete */
};

static kvs_status open_file(kvsi_source *source, const char *path, kvs_err *err)
{
    struct stat info;

    /* With O_NONBLOCK opening a pipe does not wait for a writer, so that it can be refused. */
    source->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (source->fd < 0)
        return kvsi_fail_errno(err, "open", source->path);
    if (fstat(source->fd, &info) != 0)
        return kvsi_fail_errno(err, "read", source->path);
    if (!S_ISREG(info.st_mode))
        return kvsi_fail(err, KVS_E_IO, "cannot read '%s': not a regular file", source->path);
    source->size = (uint64_t)info.st_size;
    return KVS_OK;
}

/* Looks at the first bytes: reading a compressed file as text would give a useless tokenizer.
 * Piped input has no name, so its compression is that of these bytes. */
static kvs_status check_compression(kvsi_source *source, kvs_err *err)
{
    static const struct {
        const char *bytes, *what;
        compression compression; /* if piped input has it */
    } formats[] = {
        {"\x28\xb5\x2f\xfd", "a zstd file: expected a name that ends in .zst", ZSTD},
        {"\x1f\x8b\x08", "compressed with gzip: expected a name that ends in .gz", GZIP},
        {"\xfd"
         "7zXZ",
         "compressed with xz: expected text, plain or as .gz or .zst", PLAIN},
        {"BZh", "compressed with bzip2: expected text, plain or as .gz or .zst", PLAIN},
        {"PK\x03\x04", "a zip file: expected text, plain or as .gz or .zst", PLAIN},
        {"PAR1", "a Parquet file: expected text or JSON lines, plain or as .gz or .zst", PLAIN},
    };
    char start[8];
    const ssize_t got = pread(source->fd, start, sizeof start, 0);

    if (got < 0)
        return kvsi_fail_errno(err, "read", source->path);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        const size_t length = strlen(formats[i].bytes);

        if ((size_t)got < length || memcmp(start, formats[i].bytes, length) != 0)
            continue;
        if (!source->piped || formats[i].compression == PLAIN)
            return kvsi_fail(err, KVS_E_FORMAT, "'%s' is %s", source->path, formats[i].what);
        source->compression = formats[i].compression;
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
    source->zstd = ZSTD_createDStream();
    return source->zstd &&
           !ZSTD_isError(ZSTD_DCtx_setParameter(source->zstd, ZSTD_d_windowLogMax, log));
}

static int open_gzip(kvsi_source *source)
{
    enum { GZIP_ONLY = 16 };

    source->gzip_ready = inflateInit2(&source->gzip, GZIP_ONLY + MAX_WBITS) == Z_OK;
    return source->gzip_ready;
}

static int open_decompressor(kvsi_source *source)
{
    source->block = kvsi_alloc(BLOCK, 1);
    return source->block && (source->compression == ZSTD ? open_zstd(source) : open_gzip(source));
}

kvs_status kvsi_source_open(kvsi_source **out, const char *path, kvs_err *err)
{
    kvsi_source *source = kvsi_alloc(1, sizeof *source);
    kvs_status st = KVS_OK;

    *out = NULL;
    if (!source)
        goto no_memory;
    source->path = kvsi_spool_name(path);
    source->piped = kvsi_is_spooled(path);
    source->fd = -1;
    TRY_OUT(kvsi_checksum_create(&source->sum, err));
    TRY_OUT(open_file(source, path, err));
    source->compression = kvsi_ends_with(path, ".zst")  ? ZSTD
                          : kvsi_ends_with(path, ".gz") ? GZIP
                                                        : PLAIN;
    if (source->compression == PLAIN)
        TRY_OUT(check_compression(source, err));
    if (source->compression != PLAIN && !open_decompressor(source))
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
    if (source->gzip_ready)
        inflateEnd(&source->gzip);
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

/* Decompress from the block into out, and set *made to the number of bytes.  Both may hold output
 * after their input is used up. */

static kvs_status decompress_zstd(kvsi_source *source, void *out, size_t size, size_t *made,
                                  kvs_err *err)
{
    ZSTD_inBuffer input = {.src = source->block + source->at, .size = source->end - source->at};
    ZSTD_outBuffer output = {.dst = out, .size = size};
    const size_t hint = ZSTD_decompressStream(source->zstd, &output, &input);

    if (ZSTD_isError(hint))
        return kvsi_fail(err, KVS_E_FORMAT, "'%s' is not a valid zstd file: %s", source->path,
                         ZSTD_getErrorName(hint));
    source->at += input.pos;
    source->inside = hint != 0;
    *made = output.pos;
    return KVS_OK;
}

/* A file may have several members, one after the other. */
static kvs_status decompress_gzip(kvsi_source *source, void *out, size_t size, size_t *made,
                                  kvs_err *err)
{
    const uInt room = (uInt)(size < BLOCK ? size : BLOCK);
    z_stream *stream = &source->gzip;
    int code;

    stream->next_in = source->block + source->at;
    stream->avail_in = (uInt)(source->end - source->at);
    stream->next_out = out;
    stream->avail_out = room;
    source->inside = source->inside || stream->avail_in > 0;
    code = inflate(stream, Z_NO_FLUSH);
    source->at = source->end - stream->avail_in;
    *made = room - stream->avail_out;
    if (code == Z_STREAM_END) {
        source->inside = 0;
        code = inflateReset(stream);
    }
    if (code == Z_MEM_ERROR)
        return kvsi_no_memory(err, "'%s'", source->path);
    if (code != Z_OK && code != Z_BUF_ERROR) /* Z_BUF_ERROR: nothing to do without more input */
        return kvsi_fail(err, KVS_E_FORMAT, "'%s' is not a valid gzip file: %s", source->path,
                         stream->msg ? stream->msg : "malformed data");
    return KVS_OK;
}

/* Reads the next block once the last one is used; *ended = whether there was none. */
static kvs_status refill(kvsi_source *source, int *ended, kvs_err *err)
{
    source->at = 0;
    TRY(read_disk(source, source->block, BLOCK, &source->end, err));
    *ended = source->end == 0;
    return KVS_OK;
}

kvs_status kvsi_source_read(kvsi_source *source, void *out, size_t size, size_t *got, kvs_err *err)
{
    int ended = 0;

    *got = 0;
    if (source->compression == PLAIN)
        return read_disk(source, out, size, got, err);
    while (*got == 0) {
        /* The decompressor is called once more without input before the file counts as ended. */
        if (source->at == source->end)
            TRY(refill(source, &ended, err));
        if (ended && !source->inside)
            break;
        TRY(source->compression == ZSTD ? decompress_zstd(source, out, size, got, err)
                                        : decompress_gzip(source, out, size, got, err));
        if (ended && *got == 0)
            return kvsi_fail(err, KVS_E_FORMAT, "'%s' ends in the middle of its %s data",
                             source->path, source->compression == ZSTD ? "zstd" : "gzip");
    }
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
