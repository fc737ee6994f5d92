/* tokenizer/trie.h - finds whole strings in a text: at each place the longest one. */
#ifndef KVSI_TOKENIZER_TRIE_H
#define KVSI_TOKENIZER_TRIE_H

#include "base/status.h"

/* Starts as {0}. */
typedef struct kvsi_trie {
    struct kvsi_trie_node *nodes; /* node 0 is the root */
    size_t count, capacity;
    uint32_t first[256]; /* the root's children */
} kvsi_trie;

/* `value` is not negative; of equal strings the first one counts, an empty one is left out. */
kvs_status kvsi_trie_add(kvsi_trie *trie, const char *text, size_t size, int32_t value,
                         kvs_err *err);
/* The longest string that the text starts with: its size, or 0. */
size_t kvsi_trie_match(const kvsi_trie *trie, const char *text, size_t size, int32_t *value);
/* The first place at or after `from` where a string starts; its size, or 0 if there is none. */
size_t kvsi_trie_find(const kvsi_trie *trie, const char *text, size_t size, size_t from, size_t *at,
                      int32_t *value);
void kvsi_trie_release(kvsi_trie *trie);

#endif
