/* data/shard.h - token ids in a file, with the starts of their documents.
 *
 *     bytes 0    "kvstoken"
 *           8    u32  version, 1
 *          12    u32  bytes per id, 2 or 4
 *          16    u64  vocabulary: every id is below
 *          24    u64  hash of the tokenizer
 *          32    u64  tokens
 *          40    u64  documents
 *          48    u64  0
 *          56    u64  checksum: xxHash64 of all bytes from 64 on, then bytes 0 to 55
 *          64    the ids, then zeros up to a multiple of 8
 *                u64  the first token of each document: 0, then increasing
 *
 * All little-endian.  Also read: llm.c's .bin (256 32-bit numbers, the first three are magic,
 * version and count, then ids) and nanoGPT's (only 16-bit ids).  These do not store document
 * starts: the file is one document. */
#ifndef KVSI_DATA_SHARD_H
#define KVSI_DATA_SHARD_H

#include "base/mapping.h"
#include "kvshift/kvshift_files.h"

typedef enum kvsi_shard_format {
    KVSI_SHARD_OWN,
    KVSI_SHARD_LLMC,
    KVSI_SHARD_NANOGPT,
} kvsi_shard_format;

const char *kvsi_shard_format_name(kvsi_shard_format format);

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct kvsi_shard {
    char *path;
    kvsi_shard_format format;
    size_t vocab, id_bytes;
    uint64_t tokenizer_hash; /* 0 = unknown */
    uint64_t tokens, documents;
    uint64_t longest;  /* longest document, in tokens */
    uint64_t checksum; /* stored in the file; 0 = none */

    kvsi_mapping map;
    const unsigned char *ids; /* in the map, as are the starts */
    const uint64_t *starts;   /* NULL = one document */
} kvsi_shard;

/* Checks everything except the checksum, so that all later reads are in range.  `vocab` is for
 * foreign files (0 = not given); one of our files must match it. */
kvs_status kvsi_shard_open(kvsi_shard *shard, const char *path, size_t vocab, kvs_err *err);
void kvsi_shard_close(kvsi_shard *shard);
kvs_status kvsi_shard_verify(const kvsi_shard *shard, kvs_err *err); /* the checksum */

/* The start of a document; `document` = documents gives the end of the last. */
uint64_t kvsi_shard_start(const kvsi_shard *shard, uint64_t document);
void kvsi_shard_read(const kvsi_shard *shard, uint64_t first, size_t count, int32_t *ids);

/* ---- writing --------------------------------------------------------------------------------- */

typedef struct kvsi_shard_writer kvsi_shard_writer;

size_t kvsi_shard_id_bytes(size_t vocab); /* for a vocabulary of this size */
kvs_status kvsi_shard_writer_open(kvsi_shard_writer **out, const char *path, size_t vocab,
                                  uint64_t tokenizer_hash, kvs_err *err);
void kvsi_shard_writer_abandon(kvsi_shard_writer *writer); /* NULL does nothing */
/* Appends to the current document. */
kvs_status kvsi_shard_writer_add(kvsi_shard_writer *writer, const int32_t *ids, size_t count,
                                 kvs_err *err);
/* Ends the current document; an empty one is not counted. */
void kvsi_shard_writer_end_document(kvsi_shard_writer *writer);
uint64_t kvsi_shard_writer_tokens(const kvsi_shard_writer *writer);
uint64_t kvsi_shard_writer_documents(const kvsi_shard_writer *writer);
/* Closes the handle either way; the file exists only after success. */
kvs_status kvsi_shard_writer_commit(kvsi_shard_writer *writer, uint64_t *checksum, kvs_err *err);

/* ---- both ------------------------------------------------------------------------------------ */

typedef struct kvsi_shard_header {
    char magic[8];
    uint32_t version, id_bytes;
    uint64_t vocab, tokenizer_hash, tokens, documents, zero, checksum;
} kvsi_shard_header;

_Static_assert(sizeof(kvsi_shard_header) == 64, "the header has no padding");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "shards are little-endian");

enum { KVSI_SHARD_VERSION = 1 };
extern const char kvsi_shard_magic[8];

#endif
