/* tokenizer/merges.h - byte-pair encoding: the table of merges, and merging a word.
 *
 * Among the adjacent pairs of a word that have a merge, the lowest rank is merged first,
 * and the leftmost of equal ranks, until none is left.  Ranks may be equal (SentencePiece). */
#ifndef KVSI_TOKENIZER_MERGES_H
#define KVSI_TOKENIZER_MERGES_H

#include "base/status.h"

typedef struct kvsi_merge {
    int32_t left, right, result;
    uint32_t rank;
} kvsi_merge;

/* Starts as {0}. */
typedef struct kvsi_merges {
    kvsi_merge *slots; /* hash table with linear probing; result = -1: free */
    size_t slot_count, count;
} kvsi_merges;

/* Replaces the result and rank if the pair exists. */
kvs_status kvsi_merges_set(kvsi_merges *merges, const kvsi_merge *merge, kvs_err *err);
const kvsi_merge *kvsi_merges_find(const kvsi_merges *merges, int32_t left, int32_t right);
/* All merges sorted by rank, in fresh memory; NULL if out of memory. */
kvsi_merge *kvsi_merges_list(const kvsi_merges *merges);
void kvsi_merges_release(kvsi_merges *merges);

/* A word being merged: a linked list in an array; symbol 0 is the head. */
typedef struct kvsi_symbol {
    int32_t id;                  /* negative: unknown, never merged */
    uint32_t next, previous, at; /* `at` = offset of its bytes; next = UINT32_MAX ends the list */
} kvsi_symbol;

/* Starts as {0}; reusable. */
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
