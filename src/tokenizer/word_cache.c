#include "tokenizer/word_cache.h"

#include "base/memory.h"

#include <string.h>

enum { SLOTS = 1 << 17, WORDS_MAX = SLOTS / 2 };

struct kvsi_word_cache_entry {
    uint32_t hash, key, first_id;
    uint16_t size, count; /* size = 0: free */
};

typedef struct kvsi_word_cache_entry entry;

static entry *entry_of(const kvsi_word_cache *cache, const char *word, size_t size, uint32_t hash)
{
    size_t at = hash % SLOTS;

    for (;; at = (at + 1) % SLOTS) {
        entry *e = cache->entries + at;

        if (!e->size || (e->hash == hash && e->size == size &&
                         memcmp(cache->keys.data + e->key, word, size) == 0))
            return e;
    }
}

const int32_t *kvsi_word_cache_get(const kvsi_word_cache *cache, const char *word, size_t size,
                                   size_t *count)
{
    const entry *e;

    if (!cache->entries || size == 0 || size > KVSI_CACHED_WORD_MAX)
        return NULL;
    e = entry_of(cache, word, size, (uint32_t)kvsi_hash_bytes(word, size));
    *count = e->count;
    return e->size ? cache->ids.ids + e->first_id : NULL;
}

static kvs_status reserve(kvsi_word_cache *cache, kvs_err *err)
{
    if (!cache->entries)
        cache->entries = kvsi_alloc(SLOTS, sizeof *cache->entries);
    if (!cache->entries)
        return kvsi_no_memory(err, "a cache of words");
    if (cache->used == WORDS_MAX) {
        memset(cache->entries, 0, SLOTS * sizeof *cache->entries);
        cache->used = cache->keys.length = cache->ids.count = 0;
    }
    return KVS_OK;
}

kvs_status kvsi_word_cache_put(kvsi_word_cache *cache, const char *word, size_t size,
                               const int32_t *ids, size_t count, kvs_err *err)
{
    const uint32_t hash = (uint32_t)kvsi_hash_bytes(word, size);
    entry *e;

    if (size == 0 || size > KVSI_CACHED_WORD_MAX || count == 0 || count > UINT16_MAX)
        return KVS_OK;
    TRY(reserve(cache, err));
    TRY(kvsi_ids_add(&cache->ids, ids, count, err));
    kvsi_text_add_bytes(&cache->keys, word, size);
    TRY(kvsi_text_check(&cache->keys, err));
    e = entry_of(cache, word, size, hash);
    cache->used += !e->size;
    *e = (entry){hash, (uint32_t)(cache->keys.length - size), (uint32_t)(cache->ids.count - count),
                 (uint16_t)size, (uint16_t)count};
    return KVS_OK;
}

void kvsi_word_cache_release(kvsi_word_cache *cache)
{
    kvsi_free(cache->entries);
    kvsi_text_release(&cache->keys);
    kvsi_free(cache->ids.ids);
    *cache = (kvsi_word_cache){0};
}
