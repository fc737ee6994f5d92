#include "base/checksum.h"

#include "base/files.h"
#include "base/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

enum { CHUNK = 1 << 16 };

uint64_t kvsi_checksum(const void *data, size_t size)
{
    return XXH64(data, size, 0);
}

kvs_status kvsi_checksum_create(kvsi_checksum_stream **out, kvs_err *err)
{
    XXH64_state_t *state = XXH64_createState();

    *out = NULL;
    if (!state)
        return kvsi_no_memory(err, "a checksum");
    XXH64_reset(state, 0);
    *out = (kvsi_checksum_stream *)state; /* the library's own type, under our name */
    return KVS_OK;
}

void kvsi_checksum_add(kvsi_checksum_stream *stream, const void *data, size_t size)
{
    XXH64_update((XXH64_state_t *)stream, data, size);
}

uint64_t kvsi_checksum_value(const kvsi_checksum_stream *stream)
{
    return XXH64_digest((const XXH64_state_t *)stream);
}

void kvsi_checksum_free(kvsi_checksum_stream *stream)
{
    XXH64_freeState((XXH64_state_t *)stream);
}

kvs_status kvsi_checksum_file(uint64_t *out, const char *path, kvs_err *err)
{
    kvsi_checksum_stream *stream = NULL;
    char chunk[CHUNK];
    size_t size;
    FILE *file = NULL;
    kvs_status st = kvsi_checksum_create(&stream, err);

    if (st == KVS_OK && !(file = fopen(path, "rb")))
        st = kvsi_fail_errno(err, "open", path);
    while (st == KVS_OK && (size = fread(chunk, 1, sizeof chunk, file)) > 0)
        kvsi_checksum_add(stream, chunk, size);
    if (st == KVS_OK && ferror(file))
        st = kvsi_fail_errno(err, "read", path);
    if (st == KVS_OK)
        *out = kvsi_checksum_value(stream);
    if (file)
        fclose(file);
    kvsi_checksum_free(stream);
    return st;
}

void kvsi_checksum_print(char *out, uint64_t value)
{
    snprintf(out, KVSI_CHECKSUM_TEXT, "%016" PRIx64, value);
}
