/* Training data: the words of documents, independent of how these are stored and split. */
#include "base/files.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/text.h"
#include "support.h"
#include "tokenizer/train.h"

#include <stdio.h>
#include <string.h>
#include <zstd.h>

/* ---- helpers --------------------------------------------------------------------------------- */

/* Text with everything that determines where words end: spaces of all kinds, multi-byte letters,
 * bytes that are not UTF-8, and special strings, one a prefix of another. */
static const char *const parts[] = {
    "a",        "be",           "Sea's",        " ",
    " ",        "  ",           "\n",           "\r\n",
    "\t",       "12",           "!?",           "<e>",
    "<e> more", "\xc2\xa0",     "\xe3\x80\x80", "\xe2\x80\xa8",
    "\xc2\x85", "\xe4\xb8\xad", "\xff",         "\xe3\x80\x82",
    "\xc3\xa9", "\xe1\x9a\x80", "\xe2\x80\x9d", "\xe4\xb8",
};
static const char *const specials[] = {"<e>", "<e> more"};

static void make_text(kvsi_text *text, size_t size, uint64_t seed)
{
    kvsi_random random;

    kvsi_random_init(&random, seed, KVSI_RANDOM_DATA, 0);
    while (text->length < size)
        kvsi_text_add(text, parts[kvsi_random_below(&random, sizeof parts / sizeof *parts)]);
    assert_int_equal(kvsi_text_check(text, NULL), KVS_OK);
}

/* Adds the text in pieces of about `piece` bytes; 0 = in one. */
static void count(kvsi_word_counts *counts, const kvsi_text *text, size_t piece, int threads)
{
    const kvs_tokenizer_training training = {.size = sizeof(kvs_tokenizer_training),
                                             .special = specials,
                                             .specials = 2,
                                             .threads = threads};
    kvsi_word_counter *counter;
    kvsi_random random;

    kvsi_random_init(&random, 9, KVSI_RANDOM_DATA, 0);
    assert_int_equal(kvsi_word_counter_create(&counter, &training, NULL), KVS_OK);
    for (size_t at = 0; at < text->length;) {
        const size_t left = text->length - at;
        size_t size =
            piece > 0 ? piece / 2 + kvsi_random_below(&random, (uint32_t)piece + 1) : left;

        size = size < left ? size : left; /* a piece may be empty */
        assert_int_equal(
            kvsi_word_counter_add(counter, text->data + at, size, at + size == text->length, NULL),
            KVS_OK);
        at += size;
    }
    assert_int_equal(kvsi_word_counter_finish(counter, counts, NULL), KVS_OK);
    kvsi_word_counter_free(counter);
}

static void expect_equal_counts(const kvsi_word_counts *found, const kvsi_word_counts *expected)
{
    assert_int_equal(found->words.count, expected->words.count);
    for (size_t i = 0; i < expected->words.count; i++) {
        const kvsi_bytes word = kvsi_vocabulary_at(&expected->words, i);
        const int32_t at = kvsi_vocabulary_find(&found->words, word.text, word.size);

        assert_true(at >= 0);
        assert_int_equal(found->counts[at], expected->counts[i]);
    }
}

static char *write_bytes(const char *name, const char *data, size_t size)
{
    char *path = kvsi_path_join(support_dir, name);
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    return path;
}

static uint64_t train(const char *name, const char *data, size_t size,
                      const kvs_tokenizer_training *how)
{
    char *path = write_bytes(name, data, size);
    kvs_tokenizer *tokenizer = NULL;
    kvs_err err;
    uint64_t hash;

    if (kvs_tokenizer_train(&tokenizer, (const char *const *)&path, 1, how, &err) != KVS_OK)
        fail_msg("%s: %s", name, err.message);
    hash = kvs_tokenizer_hash(tokenizer);
    kvs_tokenizer_free(tokenizer);
    kvsi_free(path);
    return hash;
}

static void expect_refusal(const char *name, const char *data, size_t size, const char *message)
{
    const kvs_tokenizer_training how = {.size = sizeof(kvs_tokenizer_training), .vocab = 300};
    char *path = write_bytes(name, data, size);
    kvs_tokenizer *tokenizer;
    kvs_err err;

    assert_int_not_equal(kvs_tokenizer_train(&tokenizer, (const char *const *)&path, 1, &how, &err),
                         KVS_OK);
    assert_null(tokenizer);
    if (!strstr(err.message, message))
        fail_msg("'%s' is not in '%s'", message, err.message);
    kvsi_free(path);
}

static size_t compress(char *out, size_t room, const char *text, size_t size)
{
    const size_t packed = ZSTD_compress(out, room, text, size, 3);

    assert_false(ZSTD_isError(packed));
    return packed;
}

/* ---- counting -------------------------------------------------------------------------------- */

static void words_do_not_depend_on_pieces_or_threads(void **state)
{
    static const size_t pieces[] = {1, 7, 100, 70000};
    kvsi_text text = {0}, large = {0};
    kvsi_word_counts whole = {0}, all = {0};

    (void)state;
    make_text(&text, 20000, 1); /* one segment */
    make_text(&large, 900000, 2);
    count(&whole, &text, 0, 1);
    count(&all, &large, 0, 1);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        for (int threads = 1; threads <= 3; threads += 2) {
            kvsi_word_counts found = {0}, many = {0};

            count(&found, &text, pieces[i], threads);
            expect_equal_counts(&found, &whole);
            if (pieces[i] >= 100) {
                count(&many, &large, pieces[i], threads);
                expect_equal_counts(&many, &all);
            }
            kvsi_word_counts_release(&found);
            kvsi_word_counts_release(&many);
        }
    }
    kvsi_word_counts_release(&whole);
    kvsi_word_counts_release(&all);
    kvsi_text_release(&text);
    kvsi_text_release(&large);
}

/* A text may be much larger than the buffered part, with spaces or without. */
static void counting_takes_bounded_memory(void **state)
{
    enum { PIECE = 1 << 20, PIECES = 56, LIMIT = 48 << 20 };
    static const char *const words[] = {"low lower lowest ", "0123456789abcdef"};
    const kvs_tokenizer_training training = {.size = sizeof(kvs_tokenizer_training), .threads = 2};
    char *piece = kvsi_alloc(PIECE, 1);

    (void)state;
    for (size_t w = 0; w < 2; w++) {
        const size_t length = strlen(words[w]), before = kvsi_memory_live();
        kvsi_word_counter *counter;

        for (size_t i = 0; i < PIECE; i++)
            piece[i] = words[w][i % length];
        assert_int_equal(kvsi_word_counter_create(&counter, &training, NULL), KVS_OK);
        for (size_t i = 0; i < PIECES; i++) {
            assert_int_equal(kvsi_word_counter_add(counter, piece, PIECE, i == PIECES - 1, NULL),
                             KVS_OK);
            assert_true(kvsi_memory_live() - before < LIMIT);
        }
        kvsi_word_counter_free(counter);
    }
    kvsi_free(piece);
}

/* ---- files ----------------------------------------------------------------------------------- */

static const char story[] =
    "low lower lowest\nnewer newest wider\n\nthe widest \xc3\xa9t\xc3\xa9\n";

static void every_kind_of_file_gives_the_same(void **state)
{
    static const char line[] =
        "{\"id\": 1, \"text\": \"low lower lowest\\nnewer newest wider\\n\\nthe widest "
        "\\u00e9t\xc3\xa9\\n\"}\n";
    char packed[512];

    (void)state;
    for (int threads = 1; threads <= 3; threads += 2) {
        const kvs_tokenizer_training how = {
            .size = sizeof(kvs_tokenizer_training), .vocab = 280, .threads = threads};
        const uint64_t expected = train("a.txt", story, sizeof story - 1, &how);

        assert_int_equal(train("corpus.en", story, sizeof story - 1, &how), expected);
        assert_int_equal(train("a.jsonl", line, sizeof line - 1, &how), expected);
        assert_int_equal(train("a.txt.zst", packed,
                               compress(packed, sizeof packed, story, sizeof story - 1), &how),
                         expected);
        assert_int_equal(train("a.jsonl.zst", packed,
                               compress(packed, sizeof packed, line, sizeof line - 1), &how),
                         expected);
    }
}

/* Documents are the same for JSON lines and separators; separators are not learned, and no word
 * crosses them. */
static void documents_are_learned_one_by_one(void **state)
{
    static const char text[] = "ab<|endoftext|>\nab<|endoftext|>abab", odd[] = "ab==ab==abab";
    static const char lines[] = "{\"body\": \"ab\"}\n{\"body\": \"ab\"}\n{\"body\": \"abab\"}\n";
    const kvs_tokenizer_training how = {.size = sizeof how, .vocab = 258, .threads = 1},
                                 other = {.size = sizeof other,
                                          .vocab = 258,
                                          .separator = "==",
                                          .field = "body",
                                          .threads = 1},
                                 none = {.size = sizeof none,
                                         .vocab = 258,
                                         .separator = "",
                                         .threads = 1};
    const uint64_t expected = train("b.txt", text, sizeof text - 1, &how);

    (void)state;
    assert_int_equal(train("c.txt", odd, sizeof odd - 1, &other), expected);
    assert_int_equal(train("c.jsonl", lines, sizeof lines - 1, &other), expected);
    assert_int_not_equal(train("c.txt", text, sizeof text - 1, &none), expected);
    assert_int_not_equal(train("c.txt", "abababab", 8, &how),
                         train("c.txt", "abab<|endoftext|>baba", 21, &how));
}

static void what_is_no_text_is_refused(void **state)
{
    char packed[512];
    const size_t size = compress(packed, sizeof packed, story, sizeof story - 1);

    (void)state;
    expect_refusal("d.txt", packed, size, "is a zstd file: expected a name that ends in .zst");
    expect_refusal("d.txt", "\x1f\x8b\x08\x00", 4, "is compressed with gzip");
    expect_refusal("d.json", "{}", 2, "line 1: expected '['");
    expect_refusal("d.jsonl", "{\"body\": 1}\n", 12, "line 1: no text in field 'text'");
    expect_refusal("d.txt.zst", packed, size - 1, "zstd");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_do_not_depend_on_pieces_or_threads),
        cmocka_unit_test(counting_takes_bounded_memory),
        cmocka_unit_test(every_kind_of_file_gives_the_same),
        cmocka_unit_test(documents_are_learned_one_by_one),
        cmocka_unit_test(what_is_no_text_is_refused),
    };

    return cmocka_run_group_tests(tests, support_dir_setup, support_dir_teardown);
}
