/* Writes shards: ids as they come, then the starts, which are kept in memory, and last the
 * header. */
#include "base/array.h"
#include "base/checksum.h"
#include "base/files.h"
#include "base/memory.h"
#include "data/shard.h"

#include <stddef.h>
#include <string.h>

enum { BLOCK = 8192 }; /* ids converted at a time */

struct kvsi_shard_writer {
    kvsi_new_file *file;
    kvsi_shard_header header;
    kvsi_checksum_stream *sum;
    uint64_t *starts; /* [capacity], the first header.documents are used */
    size_t capacity;
    int ended; /* the current document has ended */
};

size_t kvsi_shard_id_bytes(size_t vocab)
{
    return vocab <= UINT16_MAX + 1 ? 2 : 4;
}

kvs_status kvsi_shard_writer_open(kvsi_shard_writer **out, const char *path, size_t vocab,
                                  uint64_t tokenizer_hash, kvs_err *err)
{
    kvsi_shard_writer *writer = kvsi_alloc(1, sizeof *writer);
    kvs_status st;

    *out = NULL;
    if (!writer)
        return kvsi_no_memory(err, "'%s'", path);
    writer->header = (kvsi_shard_header){.version = KVSI_SHARD_VERSION,
                                         .id_bytes = (uint32_t)kvsi_shard_id_bytes(vocab),
                                         .vocab = vocab,
                                         .tokenizer_hash = tokenizer_hash};
    memcpy(writer->header.magic, kvsi_shard_magic, sizeof kvsi_shard_magic);
    TRY_OUT(kvsi_checksum_create(&writer->sum, err));
    TRY_OUT(kvsi_new_file_open(&writer->file, path, err));
    TRY_OUT(kvsi_new_file_write(writer->file, &writer->header, sizeof writer->header, err));
    *out = writer;
    writer = NULL;
out:
    kvsi_shard_writer_abandon(writer);
    return st;
}

void kvsi_shard_writer_abandon(kvsi_shard_writer *writer)
{
    if (!writer)
        return;
    kvsi_new_file_abandon(writer->file);
    kvsi_checksum_free(writer->sum);
    kvsi_free(writer->starts);
    kvsi_free(writer);
}

static kvs_status put(kvsi_shard_writer *w, const void *data, size_t size, kvs_err *err)
{
    kvsi_checksum_add(w->sum, data, size);
    return kvsi_new_file_write(w->file, data, size, err);
}

/* At most BLOCK ids. */
static kvs_status put_ids(kvsi_shard_writer *w, const int32_t *ids, size_t count, kvs_err *err)
{
    uint16_t narrow[BLOCK];

    for (size_t i = 0; i < count; i++) {
        if (ids[i] < 0 || (uint64_t)ids[i] >= w->header.vocab)
            return kvsi_fail(
                err, KVS_E_FORMAT,
                "the tokenizer returned id %d, expected ids below its vocabulary of %llu",
                (int)ids[i], (unsigned long long)w->header.vocab);
        narrow[i] = (uint16_t)ids[i];
    }
    if (w->header.id_bytes == 2)
        return put(w, narrow, count * sizeof *narrow, err);
    return put(w, ids, count * sizeof *ids, err);
}

kvs_status kvsi_shard_writer_add(kvsi_shard_writer *writer, const int32_t *ids, size_t count,
                                 kvs_err *err)
{
    kvsi_shard_writer *w = writer;

    if (count == 0)
        return KVS_OK;
    if (w->header.documents == 0 || w->ended) {
        TRY(kvsi_array_reserve(&w->starts, &w->capacity, (size_t)w->header.documents + 1,
                               sizeof *w->starts, err));
        w->starts[w->header.documents++] = w->header.tokens;
        w->ended = 0;
    }
    for (size_t done = 0; done < count;) {
        const size_t left = count - done, now = left < BLOCK ? left : BLOCK;

        TRY(put_ids(w, ids + done, now, err));
        done += now;
    }
    w->header.tokens += count;
    return KVS_OK;
}

void kvsi_shard_writer_end_document(kvsi_shard_writer *writer)
{
    writer->ended = 1;
}

uint64_t kvsi_shard_writer_tokens(const kvsi_shard_writer *writer)
{
    return writer->header.tokens;
}

uint64_t kvsi_shard_writer_documents(const kvsi_shard_writer *writer)
{
    return writer->header.documents;
}

kvs_status kvsi_shard_writer_commit(kvsi_shard_writer *writer, uint64_t *checksum, kvs_err *err)
{
    static const char zeros[8] = {0};
    kvsi_shard_writer *w = writer;
    kvsi_shard_header *h = &w->header;
    kvs_status st;

    TRY_OUT(put(w, zeros, (size_t)(-(h->tokens * h->id_bytes) % sizeof zeros), err));
    TRY_OUT(put(w, w->starts, (size_t)h->documents * sizeof *w->starts, err));
    kvsi_checksum_add(w->sum, h, offsetof(kvsi_shard_header, checksum));
    *checksum = h->checksum = kvsi_checksum_value(w->sum);
    TRY_OUT(kvsi_new_file_write_at(w->file, 0, h, sizeof *h, err));
    st = kvsi_new_file_commit(w->file, err);
    w->file = NULL;
out:
    kvsi_shard_writer_abandon(w);
    return st;
}
