/* Counts words with several threads.
 *
 * Text is collected until there is work for all threads and cut into segments where no word can
 * cross: at the ends of texts, at special strings, and between a character that is not a space and
 * a space.  (In GPT-2's expression a space occurs only at the start of a word, and a word that ends
 * with another character does not look at what follows.)  So the counts depend neither on how the
 * text is split over calls nor on the number of threads.  Only a text without such a position in 16
 * MiB is cut at the end of a piece, as in encoding. */
#include "base/array.h"
#include "base/documents.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "kvshift/kvshift_files.h"
#include "parallel/threads.h"
#include "tokenizer/pattern.h"
#include "tokenizer/train.h"
#include "tokenizer/trie.h"

#include <string.h>

enum { SEGMENT_BYTES = 1 << 18, BATCH_BYTES = 1 << 23 }; /* bytes, approximate */

typedef struct segment {
    size_t at, size; /* in `text` */
} segment;

/* State of one thread. */
typedef struct counter {
    kvsi_matcher *matcher;
    kvsi_word_counts counts;
    kvs_status status;
    kvs_err err;
} counter;

struct kvsi_word_counter {
    int threads;
    kvsi_pattern *pattern;
    counter *counters; /* one per thread */
    kvsi_trie specials;
    size_t longest; /* bytes of the longest special string, at least 1 */
    char *text;     /* collected text; the first `cut` of its `size` bytes are in segments */
    size_t size, capacity, cut;
    segment *segments;
    size_t count, segment_capacity;
};

kvs_status kvsi_word_counts_add(kvsi_word_counts *counts, const char *word, size_t size,
                                uint64_t times, kvs_err *err)
{
    uint32_t id;

    TRY(kvsi_vocabulary_add(&counts->words, word, size, &id, err));
    TRY(kvsi_array_reserve(&counts->counts, &counts->capacity, (size_t)id + 1,
                           sizeof *counts->counts, err));
    counts->counts[id] += times;
    return KVS_OK;
}

void kvsi_word_counts_release(kvsi_word_counts *counts)
{
    kvsi_vocabulary_release(&counts->words);
    kvsi_free(counts->counts);
    *counts = (kvsi_word_counts){0};
}

/* ---- segments -------------------------------------------------------------------------------- */

static kvs_status add_segment(kvsi_word_counter *c, size_t size, kvs_err *err)
{
    const kvs_status st = kvsi_array_reserve(&c->segments, &c->segment_capacity, c->count + 1,
                                             sizeof *c->segments, err);

    if (st == KVS_OK)
        c->segments[c->count++] = (segment){c->cut, size};
    c->cut += size;
    return st;
}

/* Whether the character before `at` may be a space.  The spaces beyond ASCII are U+0085, U+00A0,
 * U+1680, some of U+2000 to U+205F, and U+3000; returns 1 for some other characters too. */
static int may_follow_space(const char *text, size_t at)
{
    const unsigned char *end = (const unsigned char *)text + at;

    if (end[-1] < 0x80)
        return end[-1] <= ' ' || end[-1] == 0x7f;
    if (at >= 2 && end[-2] == 0xc2)
        return 1;
    return at >= 3 && (end[-3] == 0xe1 || (end[-3] == 0xe2 && end[-2] <= 0x81) ||
                       (end[-3] == 0xe3 && end[-2] == 0x80 && end[-1] == 0x80));
}

/* Whether no word can cross position `at`, 0 < at < size. */
static int is_boundary(const char *text, size_t at)
{
    return (text[at] == ' ' || text[at] == '\n') && !may_follow_space(text, at);
}

/* Cuts the next `size` bytes into segments. */
static kvs_status cut_segments(kvsi_word_counter *c, size_t size, kvs_err *err)
{
    kvs_status st = KVS_OK;

    while (size > 0 && st == KVS_OK) {
        const char *text = c->text + c->cut;
        size_t end = size > SEGMENT_BYTES ? SEGMENT_BYTES : size;

        while (end < size && !is_boundary(text, end))
            end++;
        st = add_segment(c, end, err);
        size -= end;
    }
    return st;
}

/* The last boundary at or before `limit`; 0 if there is none. */
static size_t last_boundary(const char *text, size_t size, size_t limit)
{
    size_t at = limit < size ? limit : size - 1;

    while (at > 0 && !is_boundary(text, at))
        at--;
    return at;
}

/* Cuts the collected text: all of it if it `ends`, otherwise only the part that later text cannot
 * change.  A special string that starts before `limit` is complete. */
static kvs_status cut_text(kvsi_word_counter *c, int ends, kvs_err *err)
{
    const size_t left = c->size - c->cut;
    size_t limit = left, at = 0, length;
    int32_t which;

    if (!ends)
        limit = left >= c->longest ? left - c->longest + 1 : 0;
    for (;;) {
        const char *text = c->text + c->cut;
        const size_t size = c->size - c->cut, end = limit - (left - size);

        length = kvsi_trie_find(&c->specials, text, size, 0, &at, &which);
        if (length == 0 || at >= end) {
            at = ends ? size : size > 0 ? last_boundary(text, size, end) : 0;
            return cut_segments(c, at, err);
        }
        TRY(cut_segments(c, at, err));
        c->cut += length;
        if (left - (c->size - c->cut) > limit) /* nothing is left before the limit */
            return KVS_OK;
    }
    return KVS_OK;
}

/* ---- counting -------------------------------------------------------------------------------- */

/* Bytes that are not UTF-8 are separate words, as in encoding. */
static kvs_status count_segment(counter *c, const kvsi_pattern *pattern, kvsi_bytes text)
{
    for (size_t at = 0; at < text.size;) {
        const size_t valid = kvsi_utf8_valid(text.text + at, text.size - at);
        kvsi_search search = kvsi_search_begin(pattern, c->matcher, text.text + at, valid);
        size_t end = at + valid, start, stop;

        for (size_t done = 0; done < valid; done = stop) {
            TRY(kvsi_search_next(&search, done, &start, &stop, &c->err));
            if (!stop)
                break;
            TRY(kvsi_word_counts_add(&c->counts, text.text + at + start, stop - start, 1, &c->err));
        }
        at = end;
        while (end < text.size && kvsi_utf8_valid(text.text + end, text.size - end) == 0)
            end++;
        if (end > at)
            TRY(kvsi_word_counts_add(&c->counts, text.text + at, end - at, 1, &c->err));
        at = end;
    }
    return KVS_OK;
}

static kvs_status add_counts(kvsi_word_counts *to, const kvsi_word_counts *from, kvs_err *err)
{
    kvs_status st = KVS_OK;

    for (size_t i = 0; i < from->words.count && st == KVS_OK; i++) {
        const kvsi_bytes word = kvsi_vocabulary_at(&from->words, i);

        st = kvsi_word_counts_add(to, word.text, word.size, from->counts[i], err);
    }
    return st;
}

/* Counts the words of all segments and keeps the text after them. */
static kvs_status count_segments(kvsi_word_counter *c, kvs_err *err)
{
    KVSI_PARALLEL_PIECES(c->threads, i, c->count) {
        counter *own = c->counters + kvsi_thread_index();

        if (own->status == KVS_OK)
            own->status = count_segment(
                own, c->pattern, (kvsi_bytes){c->text + c->segments[i].at, c->segments[i].size});
    }
    for (int i = 0; i < c->threads; i++)
        if (c->counters[i].status != KVS_OK)
            return kvsi_fail(err, c->counters[i].status, "%s", c->counters[i].err.message);
    if (c->cut > 0)
        memmove(c->text, c->text + c->cut, c->size - c->cut);
    c->size -= c->cut;
    c->cut = 0;
    c->count = 0;
    return KVS_OK;
}

/* ---- the counter ----------------------------------------------------------------------------- */

static kvs_status prepare(kvsi_word_counter *c, const kvs_tokenizer_training *training,
                          kvs_err *err)
{
    c->longest = 1;
    c->threads = training->threads > 0 ? training->threads : kvsi_threads_available();
    c->counters = kvsi_alloc((size_t)c->threads, sizeof *c->counters);
    if (!c->counters)
        return kvsi_no_memory(err, "counting words");
    TRY(kvsi_pattern_create(&c->pattern, KVSI_GPT2_EXPRESSION, err));
    for (int i = 0; i < c->threads; i++)
        TRY(kvsi_matcher_create(&c->counters[i].matcher, err));
    for (size_t i = 0; i < training->specials; i++) {
        const size_t length = strlen(training->special[i]);

        TRY(kvsi_trie_add(&c->specials, training->special[i], length, (int32_t)i, err));
        c->longest = length > c->longest ? length : c->longest;
    }
    return KVS_OK;
}

kvs_status kvsi_word_counter_create(kvsi_word_counter **out, const kvs_tokenizer_training *training,
                                    kvs_err *err)
{
    kvsi_word_counter *c = kvsi_alloc(1, sizeof *c);
    kvs_status st;

    *out = NULL;
    if (!c)
        return kvsi_no_memory(err, "counting words");
    TRY_OUT(prepare(c, training, err));
    *out = c;
    c = NULL;
out:
    kvsi_word_counter_free(c);
    return st;
}

void kvsi_word_counter_free(kvsi_word_counter *c)
{
    if (!c)
        return;
    for (int i = 0; c->counters && i < c->threads; i++) {
        kvsi_matcher_free(c->counters[i].matcher);
        kvsi_word_counts_release(&c->counters[i].counts);
    }
    kvsi_free(c->counters);
    kvsi_pattern_free(c->pattern);
    kvsi_trie_release(&c->specials);
    kvsi_free(c->segments);
    kvsi_free(c->text);
    kvsi_free(c);
}

kvs_status kvsi_word_counter_add(kvsi_word_counter *c, const char *text, size_t size, int last,
                                 kvs_err *err)
{
    if (size > 0) {
        TRY(kvsi_array_reserve(&c->text, &c->capacity, c->size + size, 1, err));
        memcpy(c->text + c->size, text, size);
        c->size += size;
    }
    TRY(cut_text(c, last, err));
    if (!last && c->size - c->cut > KVSI_PIECE_BYTES)
        TRY(cut_text(c, 1, err));
    if (c->cut >= BATCH_BYTES)
        TRY(count_segments(c, err));
    return KVS_OK;
}

kvs_status kvsi_word_counter_finish(kvsi_word_counter *c, kvsi_word_counts *counts, kvs_err *err)
{
    TRY(count_segments(c, err));
    for (int i = 0; i < c->threads; i++)
        TRY(add_counts(counts, &c->counters[i].counts, err));
    return KVS_OK;
}
