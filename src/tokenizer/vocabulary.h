/* tokenizer/vocabulary.h - pieces of text and their numbers, either way. */
#ifndef KVSI_TOKENIZER_VOCABULARY_H
#define KVSI_TOKENIZER_VOCABULARY_H

#include "base/text.h"

typedef struct kvsi_bytes {
    const char *text;
    size_t size;
} kvsi_bytes;

/* Starts as {0}. */
typedef struct kvsi_vocabulary {
    kvsi_text bytes; /* of all pieces, one behind the other */
    struct kvsi_piece {
        uint32_t at, size; /* at = UINT32_MAX: no piece has this id */
    } * pieces;
    size_t count, capacity; /* count = greatest id + 1 */
    uint32_t *slots;        /* id + 1, or 0 = free; found by hash, then the next one */
    size_t slot_count, used;
} kvsi_vocabulary;

/* A piece or an id that is there already is KVS_E_FORMAT. */
kvs_status kvsi_vocabulary_set(kvsi_vocabulary *v, uint64_t id, const char *text, size_t size,
                               kvs_err *err);
/* Gives the piece the next free id, if it is new; *id is its id in the end. */
kvs_status kvsi_vocabulary_add(kvsi_vocabulary *v, const char *text, size_t size, uint32_t *id,
                               kvs_err *err);
int32_t kvsi_vocabulary_find(const kvsi_vocabulary *v, const char *text, size_t size); /* -1 */
/* The piece, borrowed until one is added; text = NULL where the id has none. */
kvsi_bytes kvsi_vocabulary_at(const kvsi_vocabulary *v, size_t id);
void kvsi_vocabulary_release(kvsi_vocabulary *v);

#endif
