/* tokenizer/trie.h - a set of strings; finds the longest one at each position of a text. */
#ifndef KVSI_TOKENIZER_TRIE_H
#define KVSI_TOKENIZER_TRIE_H

#include "base/status.h"

/* Starts as {0}. */
typedef struct kvsi_trie {
    struct kvsi_trie_node *nodes; /* node 0 is the root */
    size_t count, capacity;
    uint32_t first[256]; /* the root's children */
} kvsi_trie;

/* `value` must not be negative.  Equal strings keep the first value; an empty string is ignored. */
kvs_status kvsi_trie_add(kvsi_trie *trie, const char *text, size_t size, int32_t value,
                         kvs_err *err);
/* The size of the longest string that the text starts with, or 0. */
size_t kvsi_trie_match(const kvsi_trie *trie, const char *text, size_t size, int32_t *value);
/* The size of the first match at or after `from`, and its position; 0 if there is none. */
size_t kvsi_trie_find(const kvsi_trie *trie, const char *text, size_t size, size_t from, size_t *at,
                      int32_t *value);
void kvsi_trie_release(kvsi_trie *trie);

#endif
