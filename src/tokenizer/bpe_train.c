/* Learns merges from word counts: the most frequent pair of adjacent tokens becomes a token,
 * repeatedly.
 *
 * Pair counts are updated incrementally.  Each pair lists the words that contain it, so a merge
 * visits only these words and updates only their pairs.  A heap holds the pairs by count.  Its
 * entries may be stale: an entry whose count is too high is pushed again with the current count, so
 * the first entry whose count is current is the maximum.  Ties: the pair with the greater bytes
 * comes first, comparing the left token and then the right. */
#include "base/array.h"
#include "base/memory.h"
#include "kvshift/kvshift_files.h"
#include "tokenizer/train.h"

#include <string.h>

#define NONE UINT32_MAX

typedef struct pair {
    uint32_t left, right;
    int64_t count;
    uint32_t places; /* head of the list of words that contain or contained the pair, or NONE */
} pair;

typedef struct place {
    uint32_t word, next;
} place;

typedef struct heap_entry {
    int64_t count;
    uint32_t pair;
} heap_entry;

typedef struct word {
    size_t at;     /* index of its first token */
    uint32_t size; /* number of tokens */
} word;

typedef struct trainer {
    uint32_t *tokens; /* the tokens of all words */
    word *words;
    const uint64_t *counts;
    kvsi_vocabulary bytes; /* the bytes of each token */
    pair *pairs;
    size_t pair_count, pair_capacity;
    uint32_t *slots; /* hash table of pairs: index + 1, 0 = free */
    size_t slot_count;
    place *places;
    size_t place_count, place_capacity;
    heap_entry *heap;
    size_t heap_count, heap_capacity;
    kvs_err *err;
} trainer;

/* ---- pairs ----------------------------------------------------------------------------------- */

static uint32_t *slot_of(const trainer *l, uint32_t left, uint32_t right)
{
    const size_t mask = l->slot_count - 1;
    uint64_t hash = ((uint64_t)left << 32 | right) * UINT64_C(0x9e3779b97f4a7c15);
    size_t at;

    hash ^= hash >> 32;
    for (at = (size_t)hash & mask; l->slots[at]; at = (at + 1) & mask) {
        const pair *p = l->pairs + l->slots[at] - 1;

        if (p->left == left && p->right == right)
            break;
    }
    return l->slots + at;
}

static kvs_status rehash(trainer *l)
{
    uint32_t *old = l->slots;
    const size_t count = l->slot_count ? 2 * l->slot_count : 1 << 14;

    l->slots = kvsi_alloc(count, sizeof *l->slots);
    if (!l->slots) {
        l->slots = old;
        return kvsi_no_memory(l->err, "pairs");
    }
    l->slot_count = count;
    kvsi_free(old);
    for (size_t i = 0; i < l->pair_count; i++)
        *slot_of(l, l->pairs[i].left, l->pairs[i].right) = (uint32_t)i + 1;
    return KVS_OK;
}

static kvs_status find_pair(trainer *l, uint32_t left, uint32_t right, uint32_t *out)
{
    uint32_t *slot;

    if (2 * (l->pair_count + 1) > l->slot_count)
        TRY(rehash(l));
    slot = slot_of(l, left, right);
    if (!*slot) {
        TRY(kvsi_array_reserve(&l->pairs, &l->pair_capacity, l->pair_count + 1, sizeof *l->pairs,
                               l->err));
        l->pairs[l->pair_count] = (pair){left, right, 0, NONE};
        *slot = (uint32_t)++l->pair_count;
    }
    *out = *slot - 1;
    return KVS_OK;
}

/* Adds a word to the pair's list unless it was the last one added. */
static kvs_status add_place(trainer *l, pair *p, uint32_t index)
{
    kvs_status st;

    if (p->places != NONE && l->places[p->places].word == index)
        return KVS_OK;
    if (l->place_count >= NONE)
        return kvsi_fail(l->err, KVS_E_LIMIT, "the texts have too many distinct words");
    st = kvsi_array_reserve(&l->places, &l->place_capacity, l->place_count + 1, sizeof *l->places,
                            l->err);
    if (st != KVS_OK)
        return st;
    l->places[l->place_count] = (place){index, p->places};
    p->places = (uint32_t)l->place_count++;
    return KVS_OK;
}

/* ---- the heap -------------------------------------------------------------------------------- */

static int compare_bytes(const trainer *l, uint32_t a, uint32_t b)
{
    const kvsi_bytes x = kvsi_vocabulary_at(&l->bytes, a), y = kvsi_vocabulary_at(&l->bytes, b);
    const int order = memcmp(x.text, y.text, x.size < y.size ? x.size : y.size);

    return order ? order : (x.size > y.size) - (x.size < y.size);
}

static int precedes(const trainer *l, const heap_entry *a, const heap_entry *b)
{
    const pair *p = l->pairs + a->pair, *q = l->pairs + b->pair;
    int order;

    if (a->count != b->count)
        return a->count > b->count;
    order = compare_bytes(l, p->left, q->left);
    return order ? order > 0 : compare_bytes(l, p->right, q->right) > 0;
}

static kvs_status push(trainer *l, uint32_t index)
{
    const heap_entry fresh = {l->pairs[index].count, index};
    size_t at = l->heap_count;

    TRY(kvsi_array_reserve(&l->heap, &l->heap_capacity, at + 1, sizeof *l->heap, l->err));
    l->heap_count++;
    for (; at > 0 && precedes(l, &fresh, l->heap + (at - 1) / 2); at = (at - 1) / 2)
        l->heap[at] = l->heap[(at - 1) / 2];
    l->heap[at] = fresh;
    return KVS_OK;
}

static heap_entry pop(trainer *l)
{
    heap_entry *heap = l->heap;
    const heap_entry top = heap[0], moved = heap[--l->heap_count];
    size_t at = 0, child;

    while ((child = 2 * at + 1) < l->heap_count) {
        if (child + 1 < l->heap_count && precedes(l, heap + child + 1, heap + child))
            child++;
        if (!precedes(l, heap + child, &moved))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
    return top;
}

/* *best = the most frequent pair, or NONE. */
static kvs_status pop_best(trainer *l, uint32_t *best)
{
    *best = NONE;
    while (l->heap_count > 0) {
        const heap_entry top = pop(l);
        const int64_t count = l->pairs[top.pair].count;
        kvs_status st;

        if (count == top.count && count > 0) {
            *best = top.pair;
            return KVS_OK;
        }
        if (count <= 0 || count > top.count)
            continue; /* the pair is gone, or a later entry has its higher count */
        st = push(l, top.pair);
        if (st != KVS_OK)
            return st;
    }
    return KVS_OK;
}

/* ---- merging --------------------------------------------------------------------------------- */

/* Adds `sign` times the word's count to its pairs.  Pairs that contain token `fresh` (NONE: all
 * pairs) get the word in their lists. */
static kvs_status count_pairs(trainer *l, uint32_t index, int64_t sign, uint32_t fresh)
{
    const word *w = l->words + index;
    const uint32_t *tokens = l->tokens + w->at;

    for (uint32_t i = 0; i + 1 < w->size; i++) {
        uint32_t p;

        TRY(find_pair(l, tokens[i], tokens[i + 1], &p));
        l->pairs[p].count += sign * (int64_t)l->counts[index];
        if (sign > 0 && (fresh == NONE || tokens[i] == fresh || tokens[i + 1] == fresh))
            TRY(add_place(l, l->pairs + p, index));
    }
    return KVS_OK;
}

static int has_pair(const trainer *l, uint32_t index, const pair *p)
{
    const word *w = l->words + index;
    const uint32_t *tokens = l->tokens + w->at;

    for (uint32_t i = 0; i + 1 < w->size; i++)
        if (tokens[i] == p->left && tokens[i + 1] == p->right)
            return 1;
    return 0;
}

static void replace_pair(trainer *l, uint32_t index, const pair *p, uint32_t token)
{
    word *w = l->words + index;
    uint32_t *tokens = l->tokens + w->at, kept = 0;

    for (uint32_t i = 0; i < w->size; kept++) {
        const int joined = i + 1 < w->size && tokens[i] == p->left && tokens[i + 1] == p->right;

        tokens[kept] = joined ? token : tokens[i];
        i += joined ? 2 : 1;
    }
    w->size = kept;
}

static kvs_status merge_everywhere(trainer *l, uint32_t which, uint32_t token, int is_new)
{
    const pair merged = l->pairs[which];
    const size_t first_new = l->pair_count;

    for (uint32_t at = merged.places; at != NONE; at = l->places[at].next) {
        const uint32_t index = l->places[at].word;

        if (!has_pair(l, index, &merged))
            continue;
        TRY(count_pairs(l, index, -1, NONE));
        replace_pair(l, index, &merged, token);
        TRY(count_pairs(l, index, 1, token));
    }
    /* Only counts of pairs with the new token can have grown.  If the token is new, so are its
     * pairs. */
    for (size_t i = is_new ? first_new : 0; i < l->pair_count; i++)
        if (l->pairs[i].left == token || l->pairs[i].right == token)
            TRY(push(l, (uint32_t)i));
    return KVS_OK;
}

/* ---- training -------------------------------------------------------------------------------- */

static kvs_status set_up(trainer *l, const kvsi_word_counts *counts)
{
    const kvsi_vocabulary *words = &counts->words;
    size_t at = 0;

    l->counts = counts->counts;
    l->tokens = kvsi_alloc(words->bytes.length, sizeof *l->tokens);
    l->words = kvsi_alloc(words->count, sizeof *l->words);
    if (!l->tokens || !l->words)
        return kvsi_no_memory(l->err, "%zu words", words->count);
    for (unsigned byte = 0; byte < 256; byte++) {
        const char character = (char)byte;

        TRY(kvsi_vocabulary_set(&l->bytes, byte, &character, 1, l->err));
    }
    for (size_t i = 0; i < words->count; i++) {
        const kvsi_bytes text = kvsi_vocabulary_at(words, i);

        l->words[i] = (word){at, (uint32_t)text.size};
        for (size_t k = 0; k < text.size; k++)
            l->tokens[at++] = (unsigned char)text.text[k];
        TRY(count_pairs(l, (uint32_t)i, 1, NONE));
    }
    for (size_t i = 0; i < l->pair_count; i++)
        TRY(push(l, (uint32_t)i));
    return KVS_OK;
}

/* Adds the concatenation of two tokens.  It may already exist as the result of another merge. */
static kvs_status add_token(trainer *l, const pair *p, uint32_t *token, int *is_new)
{
    const kvsi_bytes left = kvsi_vocabulary_at(&l->bytes, p->left);
    const kvsi_bytes right = kvsi_vocabulary_at(&l->bytes, p->right);
    const size_t before = l->bytes.count;
    kvsi_text joined = {0};
    kvs_status st;

    kvsi_text_add_bytes(&joined, left.text, left.size);
    kvsi_text_add_bytes(&joined, right.text, right.size);
    TRY_OUT(kvsi_text_check(&joined, l->err));
    TRY_OUT(kvsi_vocabulary_add(&l->bytes, joined.data, joined.length, token, l->err));
    *is_new = l->bytes.count > before;
out:
    kvsi_text_release(&joined);
    return st;
}

static kvs_status add_best_merge(trainer *l, kvsi_bpe_trained *out, int *done)
{
    uint32_t best, token;
    int is_new;

    TRY(pop_best(l, &best));
    *done = best == NONE;
    if (*done)
        return KVS_OK;
    TRY(add_token(l, l->pairs + best, &token, &is_new));
    TRY(kvsi_array_reserve(&out->merges, &out->capacity, out->count + 1, sizeof *out->merges,
                           l->err));
    out->merges[out->count++] =
        (struct kvsi_trained_merge){l->pairs[best].left, l->pairs[best].right};
    return merge_everywhere(l, best, token, is_new);
}

static void release(trainer *l)
{
    kvsi_free(l->tokens);
    kvsi_free(l->words);
    kvsi_vocabulary_release(&l->bytes);
    kvsi_free(l->pairs);
    kvsi_free(l->slots);
    kvsi_free(l->places);
    kvsi_free(l->heap);
}

kvs_status kvsi_bpe_train(kvsi_bpe_trained *out, const kvsi_word_counts *counts, size_t wanted,
                          const kvs_tokenizer_training *training, kvs_err *err)
{
    enum { REPORT_EVERY = 256 };
    trainer l = {.err = err};
    kvs_status st;
    int done = 0;

    TRY_OUT(set_up(&l, counts));
    while (!done && l.bytes.count < 256 + wanted) {
        const size_t learned = l.bytes.count - 256;

        if (training->progress && learned % REPORT_EVERY == 0 &&
            training->progress(training->user, learned, wanted)) {
            st = kvsi_fail(err, KVS_E_STOPPED, "stopped after %zu of %zu merges", learned, wanted);
            goto out;
        }
        TRY_OUT(add_best_merge(&l, out, &done));
    }
    out->tokens = l.bytes;
    l.bytes = (kvsi_vocabulary){0};
out:
    release(&l);
    return st;
}

void kvsi_bpe_trained_release(kvsi_bpe_trained *learned)
{
    kvsi_vocabulary_release(&learned->tokens);
    kvsi_free(learned->merges);
    *learned = (kvsi_bpe_trained){0};
}
