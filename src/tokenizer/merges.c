#include "tokenizer/merges.h"

#include "base/array.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

/* ---- the table ------------------------------------------------------------------------------- */

static size_t slot_of(const kvsi_merges *m, int32_t left, int32_t right)
{
    const size_t mask = m->slot_count - 1;
    const uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    uint64_t hash = key * UINT64_C(0x9e3779b97f4a7c15);
    size_t at;

    hash ^= hash >> 32;
    at = (size_t)hash & mask;
    while (m->slots[at].result >= 0 && (m->slots[at].left != left || m->slots[at].right != right))
        at = (at + 1) & mask;
    return at;
}

static kvs_status rehash(kvsi_merges *m, kvs_err *err)
{
    kvsi_merges fresh = {.slot_count = m->slot_count ? 2 * m->slot_count : 256, .count = m->count};

    fresh.slots = kvsi_alloc(fresh.slot_count, sizeof *fresh.slots);
    if (!fresh.slots)
        return kvsi_no_memory(err, "merges");
    for (size_t i = 0; i < fresh.slot_count; i++)
        fresh.slots[i].result = -1;
    for (size_t i = 0; i < m->slot_count; i++)
        if (m->slots[i].result >= 0)
            fresh.slots[slot_of(&fresh, m->slots[i].left, m->slots[i].right)] = m->slots[i];
    kvsi_free(m->slots);
    *m = fresh;
    return KVS_OK;
}

kvs_status kvsi_merges_set(kvsi_merges *m, const kvsi_merge *merge, kvs_err *err)
{
    kvsi_merge *slot;

    if (2 * (m->count + 1) > m->slot_count) {
        TRY(rehash(m, err));
    }
    slot = m->slots + slot_of(m, merge->left, merge->right);
    m->count += slot->result < 0;
    *slot = *merge;
    return KVS_OK;
}

const kvsi_merge *kvsi_merges_find(const kvsi_merges *m, int32_t left, int32_t right)
{
    const kvsi_merge *slot;

    if (!m->slot_count)
        return NULL;
    slot = m->slots + slot_of(m, left, right);
    return slot->result < 0 ? NULL : slot;
}

static int by_rank(const void *a, const void *b)
{
    const kvsi_merge *x = a, *y = b;

    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->left != y->left)
        return x->left < y->left ? -1 : 1;
    return (x->right > y->right) - (x->right < y->right);
}

kvsi_merge *kvsi_merges_list(const kvsi_merges *m)
{
    kvsi_merge *list = kvsi_alloc(m->count, sizeof *list);
    size_t count = 0;

    for (size_t i = 0; list && i < m->slot_count; i++)
        if (m->slots[i].result >= 0)
            list[count++] = m->slots[i];
    if (list)
        qsort(list, count, sizeof *list, by_rank);
    return list;
}

void kvsi_merges_release(kvsi_merges *m)
{
    kvsi_free(m->slots);
    *m = (kvsi_merges){0};
}

/* ---- merging a word -------------------------------------------------------------------------- */

/* A possible merge.  It is stale if one of its symbols has changed since. */
typedef struct kvsi_candidate {
    uint32_t rank, at; /* the left symbol */
    int32_t left, right, result;
} candidate;

static int precedes(const candidate *a, const candidate *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void sift_up(candidate *heap, size_t at)
{
    const candidate moved = heap[at];

    while (at > 0 && precedes(&moved, heap + (at - 1) / 2)) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = moved;
}

static candidate pop(kvsi_word *word)
{
    candidate *heap = word->heap, top = heap[0], moved = heap[--word->heap_count];
    size_t at = 0, child;

    while ((child = 2 * at + 1) < word->heap_count) {
        if (child + 1 < word->heap_count && precedes(heap + child + 1, heap + child))
            child++;
        if (!precedes(heap + child, &moved))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
    return top;
}

static kvs_status push_candidate(kvsi_word *word, const kvsi_merges *merges, uint32_t at,
                                 kvs_err *err)
{
    const kvsi_symbol *left = word->symbols + at;
    const kvsi_merge *merge;
    kvs_status st;

    if (left->next == UINT32_MAX || left->id < 0 || word->symbols[left->next].id < 0)
        return KVS_OK;
    merge = kvsi_merges_find(merges, left->id, word->symbols[left->next].id);
    if (!merge)
        return KVS_OK;
    st = kvsi_array_reserve(&word->heap, &word->heap_capacity, word->heap_count + 1,
                            sizeof *word->heap, err);
    if (st != KVS_OK)
        return st;
    word->heap[word->heap_count] =
        (candidate){merge->rank, at, merge->left, merge->right, merge->result};
    sift_up(word->heap, word->heap_count++);
    return KVS_OK;
}

kvs_status kvsi_word_add(kvsi_word *word, int32_t id, size_t at, kvs_err *err)
{
    const size_t index = word->count;

    if (at >= UINT32_MAX || index >= UINT32_MAX - 1)
        return kvsi_fail(err, KVS_E_LIMIT, "a word is longer than 4 GB");
    if (index == word->capacity) {
        const kvs_status st = kvsi_array_reserve(&word->symbols, &word->capacity, index + 1,
                                                 sizeof *word->symbols, err);
        if (st != KVS_OK)
            return st;
    }
    word->symbols[index] =
        (kvsi_symbol){id, UINT32_MAX, index ? (uint32_t)index - 1 : UINT32_MAX, (uint32_t)at};
    if (index)
        word->symbols[index - 1].next = (uint32_t)index;
    word->count++;
    return KVS_OK;
}

kvs_status kvsi_word_merge(kvsi_word *word, const kvsi_merges *merges, kvs_err *err)
{
    kvsi_symbol *symbols = word->symbols;

    word->heap_count = 0;
    for (uint32_t i = 0; i + 1 < word->count; i++)
        TRY(push_candidate(word, merges, i, err));
    while (word->heap_count > 0) {
        const candidate top = pop(word);
        kvsi_symbol *left = symbols + top.at, *right;

        if (left->id != top.left || left->next == UINT32_MAX)
            continue;
        right = symbols + left->next;
        if (right->id != top.right)
            continue;
        left->id = top.result;
        left->next = right->next;
        right->id = -1; /* makes candidates with this symbol stale */
        if (left->next != UINT32_MAX)
            symbols[left->next].previous = top.at;
        TRY(push_candidate(word, merges, top.at, err));
        if (left->previous != UINT32_MAX)
            TRY(push_candidate(word, merges, left->previous, err));
    }
    return KVS_OK;
}

void kvsi_word_release(kvsi_word *word)
{
    kvsi_free(word->symbols);
    kvsi_free(word->heap);
    *word = (kvsi_word){0};
}
