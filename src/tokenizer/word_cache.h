/* tokenizer/word_cache.h - a cache of the ids of words; most words of a text occur repeatedly. */
#ifndef KVSI_TOKENIZER_WORD_CACHE_H
#define KVSI_TOKENIZER_WORD_CACHE_H

#include "base/text.h"
#include "tokenizer/ids.h"

enum { KVSI_CACHED_WORD_MAX = 64 }; /* bytes; longer words seldom repeat */

/* Starts as {0}.  Bounded: a full cache is emptied. */
typedef struct kvsi_word_cache {
    struct kvsi_word_cache_entry *entries;
    size_t used;
    kvsi_text keys;
    kvsi_ids ids;
} kvsi_word_cache;

/* The ids of a word, borrowed until the next kvsi_word_cache_put; NULL if not cached. */
const int32_t *kvsi_word_cache_get(const kvsi_word_cache *cache, const char *word, size_t size,
                                   size_t *count);
/* Adds a word that is not cached.  Long words and words without ids are ignored. */
kvs_status kvsi_word_cache_put(kvsi_word_cache *cache, const char *word, size_t size,
                               const int32_t *ids, size_t count, kvs_err *err);
void kvsi_word_cache_release(kvsi_word_cache *cache);

#endif
