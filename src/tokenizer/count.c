/* Words of texts, counted by several threads.
 *
 * A file is cut where no word can cross: at special strings, and within long stretches between a
 * character that is no space and a space.  (GPT-2's expression has a space only at the start of a
 * word, and words that end with another character do not look at what follows.) */
#include "base/files.h"
#include "base/memory.h"
#include "parallel/threads.h"
#include "tokenizer/array.h"
#include "tokenizer/pattern.h"
#include "tokenizer/train.h"
#include "tokenizer/trie.h"
#include "tokenizer/utf8.h"

#include <string.h>

enum { STRETCH = 1 << 18 }; /* bytes, about */

typedef struct stretches {
    kvsi_bytes *list;
    size_t count, capacity;
} stretches;

/* What a thread has of its own. */
typedef struct counter {
    kvsi_pattern *pattern;
    kvsi_word_counts counts;
    kvs_status status;
    kvs_err err;
} counter;

kvs_status kvsi_word_counts_add(kvsi_word_counts *counts, const char *word, size_t size,
                                uint64_t times, kvs_err *err)
{
    uint32_t id;
    kvs_status st;

    KVS_TRY(kvsi_vocabulary_add(&counts->words, word, size, &id, err));
    KVS_TRY(kvsi_array_reserve(&counts->counts, &counts->capacity, (size_t)id + 1,
                               sizeof *counts->counts, err));
    counts->counts[id] += times;
out:
    return st;
}

void kvsi_word_counts_release(kvsi_word_counts *counts)
{
    kvsi_vocabulary_release(&counts->words);
    kvsi_free(counts->counts);
    *counts = (kvsi_word_counts){0};
}

/* ---- cutting --------------------------------------------------------------------------------- */

static kvs_status add_stretch(stretches *s, const char *text, size_t size, kvs_err *err)
{
    const kvs_status st =
        kvsi_array_reserve(&s->list, &s->capacity, s->count + 1, sizeof *s->list, err);

    if (st == KVS_OK)
        s->list[s->count++] = (kvsi_bytes){text, size};
    return st;
}

static int is_ascii_space(char c)
{
    return c == ' ' || c == '\n';
}

/* A place to cut at or after `at`. */
static size_t find_cut(const char *text, size_t size, size_t at)
{
    for (; at < size; at++)
        if (is_ascii_space(text[at]) && text[at - 1] > ' ' && text[at - 1] < 0x7f)
            return at;
    return size;
}

static kvs_status cut_stretches(stretches *s, const char *text, size_t size, kvs_err *err)
{
    kvs_status st = KVS_OK;

    while (size > 0 && st == KVS_OK) {
        const size_t end = size > STRETCH ? find_cut(text, size, STRETCH) : size;

        st = add_stretch(s, text, end, err);
        text += end;
        size -= end;
    }
    return st;
}

static kvs_status cut_file(stretches *s, const char *text, size_t size,
                           const kvs_tokenizer_training *training, kvs_err *err)
{
    size_t done = 0, at = 0, length;
    kvsi_trie specials = {0};
    int32_t which;
    kvs_status st = KVS_OK;

    for (size_t i = 0; i < training->specials; i++)
        KVS_TRY(kvsi_trie_add(&specials, training->special[i], strlen(training->special[i]),
                              (int32_t)i, err));
    while ((length = kvsi_trie_find(&specials, text, size, done, &at, &which)) > 0) {
        KVS_TRY(cut_stretches(s, text + done, at - done, err));
        done = at + length;
    }
    KVS_TRY(cut_stretches(s, text + done, size - done, err));
out:
    kvsi_trie_release(&specials);
    return st;
}

/* ---- counting -------------------------------------------------------------------------------- */

/* Bytes that are not UTF-8 are words of their own, as when encoding. */
static kvs_status count_stretch(counter *c, kvsi_bytes text)
{
    kvs_status st = KVS_OK;

    for (size_t at = 0; at < text.size;) {
        const size_t valid = kvsi_utf8_valid(text.text + at, text.size - at);
        kvsi_search search = kvsi_search_begin(c->pattern, text.text + at, valid);
        size_t end = at + valid, start, stop;

        for (size_t done = 0; done < valid; done = stop) {
            KVS_TRY(kvsi_search_next(&search, done, &start, &stop, &c->err));
            if (!stop)
                break;
            KVS_TRY(
                kvsi_word_counts_add(&c->counts, text.text + at + start, stop - start, 1, &c->err));
        }
        at = end;
        while (end < text.size && kvsi_utf8_valid(text.text + end, text.size - end) == 0)
            end++;
        if (end > at)
            KVS_TRY(kvsi_word_counts_add(&c->counts, text.text + at, end - at, 1, &c->err));
        at = end;
    }
out:
    return st;
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

static kvs_status count_stretches(kvsi_word_counts *counts, const stretches *s, int threads,
                                  kvs_err *err)
{
    counter *counters = kvsi_alloc((size_t)threads, sizeof *counters);
    kvs_status st = KVS_OK;

    if (!counters)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for counting words");
    for (int i = 0; i < threads; i++)
        KVS_TRY(kvsi_pattern_create(&counters[i].pattern, KVSI_GPT2_EXPRESSION, err));
    KVSI_PARALLEL_PIECES(threads, i, s->count) {
        counter *c = counters + kvsi_thread_index();

        if (c->status == KVS_OK)
            c->status = count_stretch(c, s->list[i]);
    }
    for (int i = 0; i < threads; i++) {
        if (counters[i].status != KVS_OK) {
            st = kvsi_fail(err, counters[i].status, "%s", counters[i].err.message);
            goto out;
        }
        KVS_TRY(add_counts(counts, &counters[i].counts, err));
    }
out:
    for (int i = 0; i < threads; i++) {
        kvsi_pattern_free(counters[i].pattern);
        kvsi_word_counts_release(&counters[i].counts);
    }
    kvsi_free(counters);
    return st;
}

kvs_status kvsi_count_words(kvsi_word_counts *counts, const char *path,
                            const kvs_tokenizer_training *training, kvs_err *err)
{
    const int threads = training->threads > 0 ? training->threads : kvsi_threads_available();
    stretches s = {0};
    char *text = NULL;
    size_t size = 0;
    kvs_status st;

    KVS_TRY(kvsi_file_read(&text, &size, path, SIZE_MAX / 2, err));
    KVS_TRY(cut_file(&s, text, size, training, err));
    KVS_TRY(count_stretches(counts, &s, threads, err));
out:
    kvsi_free(s.list);
    kvsi_free(text);
    return st;
}
