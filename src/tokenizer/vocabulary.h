/* tokenizer/vocabulary.h - a two-way map of pieces (strings) and ids. */
#ifndef KVSI_TOKENIZER_VOCABULARY_H
#define KVSI_TOKENIZER_VOCABULARY_H

#include "base/text.h"

typedef struct kvsi_bytes {
    const char *text;
    size_t size;
} kvsi_bytes;

/* Starts as {0}. */
typedef struct kvsi_vocabulary {
    kvsi_text bytes; /* of all pieces, concatenated */
    struct kvsi_piece {
        uint32_t at, size; /* at = UINT32_MAX: no piece has this id */
    } * pieces;
    size_t count, capacity; /* count = largest id + 1 */
    uint32_t *slots;        /* hash table with linear probing: id + 1, 0 = free */
    size_t slot_count, used;
} kvsi_vocabulary;

/* KVS_E_FORMAT if the piece or the id exists. */
kvs_status kvsi_vocabulary_set(kvsi_vocabulary *v, uint64_t id, const char *text, size_t size,
                               kvs_err *err);
/* *id = the id of the piece; a new piece gets the next free id. */
kvs_status kvsi_vocabulary_add(kvsi_vocabulary *v, const char *text, size_t size, uint32_t *id,
                               kvs_err *err);
int32_t kvsi_vocabulary_find(const kvsi_vocabulary *v, const char *text,
                             size_t size); /* -1 = not found */
/* The piece, borrowed until the next addition; text = NULL if the id has none. */
kvsi_bytes kvsi_vocabulary_at(const kvsi_vocabulary *v, size_t id);
void kvsi_vocabulary_release(kvsi_vocabulary *v);

#endif
