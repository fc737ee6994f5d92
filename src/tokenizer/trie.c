#include "tokenizer/trie.h"

#include "base/array.h"
#include "base/memory.h"

struct kvsi_trie_node {
    uint32_t child, sibling; /* 0 = none */
    int32_t value;           /* -1: no string ends here */
    unsigned char byte;
};

typedef struct kvsi_trie_node node;

static uint32_t child_of(const kvsi_trie *trie, uint32_t parent, unsigned char byte)
{
    uint32_t at = parent ? trie->nodes[parent].child : trie->first[byte];

    while (at && trie->nodes[at].byte != byte)
        at = trie->nodes[at].sibling;
    return at;
}

static kvs_status add_child(kvsi_trie *trie, uint32_t parent, unsigned char byte, uint32_t *child,
                            kvs_err *err)
{
    uint32_t *link;
    kvs_status st;

    trie->count += trie->count == 0;
    if (trie->count >= UINT32_MAX)
        return kvsi_fail(err, KVS_E_LIMIT, "too many added tokens");
    st = kvsi_array_reserve(&trie->nodes, &trie->capacity, trie->count + 1, sizeof(node), err);
    if (st != KVS_OK)
        return st;
    *child = (uint32_t)trie->count++;
    link = parent ? &trie->nodes[parent].child : trie->first + byte;
    trie->nodes[*child] = (node){.sibling = *link, .value = -1, .byte = byte};
    *link = *child;
    return KVS_OK;
}

kvs_status kvsi_trie_add(kvsi_trie *trie, const char *text, size_t size, int32_t value,
                         kvs_err *err)
{
    uint32_t at = 0;

    for (size_t i = 0; i < size; i++) {
        const unsigned char byte = (unsigned char)text[i];
        uint32_t child = child_of(trie, at, byte);

        if (!child) {
            TRY(add_child(trie, at, byte, &child, err));
        }
        at = child;
    }
    if (size > 0 && trie->nodes[at].value < 0)
        trie->nodes[at].value = value;
    return KVS_OK;
}

size_t kvsi_trie_match(const kvsi_trie *trie, const char *text, size_t size, int32_t *value)
{
    size_t longest = 0;
    uint32_t at = 0;

    for (size_t i = 0; i < size; i++) {
        at = child_of(trie, at, (unsigned char)text[i]);
        if (!at)
            break;
        if (trie->nodes[at].value >= 0) {
            *value = trie->nodes[at].value;
            longest = i + 1;
        }
    }
    return longest;
}

size_t kvsi_trie_find(const kvsi_trie *trie, const char *text, size_t size, size_t from, size_t *at,
                      int32_t *value)
{
    if (!trie->count)
        return 0;
    for (size_t i = from; i < size; i++) {
        size_t length;

        if (!trie->first[(unsigned char)text[i]])
            continue;
        length = kvsi_trie_match(trie, text + i, size - i, value);
        if (length) {
            *at = i;
            return length;
        }
    }
    return 0;
}

void kvsi_trie_release(kvsi_trie *trie)
{
    kvsi_free(trie->nodes);
    *trie = (kvsi_trie){0};
}
