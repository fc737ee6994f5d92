/* tokenizer/merges.h - byte-pair encoding: which neighbours become one, and in what order.
 *
 * Of all neighbours in a word that may be merged, those of the lowest rank go first, and of equal
 * ranks the leftmost; until none is left.  Ranks may be equal (SentencePiece's scores are). */
#ifndef KVSI_TOKENIZER_MERGES_H
#define KVSI_TOKENIZER_MERGES_H

#include "base/status.h"

typedef struct kvsi_merge {
    int32_t left, right, result;
    uint32_t rank;
} kvsi_merge;

/* Starts as {0}. */
typedef struct kvsi_merges {
    kvsi_merge *slots; /* by hash, then the next one; left = right = 0 and result = -1: free */
    size_t slot_count, count;
} kvsi_merges;

/* A pair that is there already gets the new result and rank. */
kvs_status kvsi_merges_set(kvsi_merges *merges, const kvsi_merge *merge, kvs_err *err);
const kvsi_merge *kvsi_merges_find(const kvsi_merges *merges, int32_t left, int32_t right);
/* All of them by rank, in fresh memory; NULL if there is none. */
kvsi_merge *kvsi_merges_list(const kvsi_merges *merges);
void kvsi_merges_release(kvsi_merges *merges);

/* A word while it is being merged: a linked list in an array, from symbol 0 on. */
typedef struct kvsi_symbol {
    int32_t id;                  /* negative: unknown, merges with nothing */
    uint32_t next, previous, at; /* `at`: where its bytes start; UINT32_MAX ends the list */
} kvsi_symbol;

/* Starts as {0}; used again and again. */
typedef struct kvsi_word {
    kvsi_symbol *symbols;
    size_t count, capacity;
    struct kvsi_candidate *heap;
    size_t heap_count, heap_capacity;
} kvsi_word;

kvs_status kvsi_word_add(kvsi_word *word, int32_t id, size_t at, kvs_err *err);
kvs_status kvsi_word_merge(kvsi_word *word, const kvsi_merges *merges, kvs_err *err);
void kvsi_word_release(kvsi_word *word);

#endif
