/* Real tokenizers, if KVSHIFT_SHARED has them: ids equal every reference list, in every format of
 * the same tokenizer; texts are reproduced; saved tokenizers give the same ids; and training gives
 * the reference's merges. */
#include "base/files.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/text.h"
#include "base/utf8.h"
#include "support.h"
#include "tokenizer/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- helpers --------------------------------------------------------------------------------- */

/* A path below the shared data; skips the test if it does not exist. */
static char *shared(const char *name)
{
    const char *root = getenv("KVSHIFT_SHARED");
    char *path = NULL;

    if (root) {
        char *data = kvsi_path_join(root, "data");

        path = kvsi_path_join(data, name);
        kvsi_free(data);
    }
    if (!path || !kvsi_file_exists(path)) {
        print_message("no '%s' in $KVSHIFT_SHARED/data\n", name);
        kvsi_free(path);
        skip();
    }
    return path;
}

static char *read_shared(const char *name, size_t *size)
{
    char *path = shared(name), *text;
    kvs_err err;

    if (kvsi_file_read(&text, size, path, SIZE_MAX / 2, &err) != KVS_OK)
        fail_msg("%s", err.message);
    kvsi_free(path);
    return text;
}

static kvs_tokenizer *load(const char *path)
{
    kvs_tokenizer *t;
    kvs_err err;

    if (kvs_tokenizer_load(&t, path, &err) != KVS_OK)
        fail_msg("%s", err.message);
    return t;
}

static kvs_tokenizer *load_shared(const char *name)
{
    char *path = shared(name);
    kvs_tokenizer *t = load(path);

    kvsi_free(path);
    return t;
}

static kvs_tokenizer *save_and_load(const kvs_tokenizer *t)
{
    char *path = kvsi_path_join(support_dir, "saved.json");
    kvs_tokenizer *again;
    kvs_err err;

    if (kvs_tokenizer_save(t, path, &err) != KVS_OK)
        fail_msg("%s", err.message);
    again = load(path);
    kvsi_free(path);
    return again;
}

/* `expected` as "1 2 3" */
static void expect_ids(const kvs_tokenizer *t, const char *text, size_t size, unsigned flags,
                       const char *expected)
{
    kvsi_text found = {0};
    int32_t *ids;
    size_t count;

    assert_int_equal(kvs_tokenizer_encode(&ids, &count, t, text, size, flags, NULL), KVS_OK);
    kvsi_text_add(&found, "");
    for (size_t i = 0; i < count; i++)
        kvsi_text_format(&found, "%s%d", i ? " " : "", (int)ids[i]);
    if (strcmp(found.data, expected) != 0)
        fail_msg("'%.*s': expected %s, found %s", (int)size, text, expected, found.data);
    kvsi_text_release(&found);
    kvs_ids_free(ids);
}

/* Splits off the next line; NULL at the end. */
static char *next_line(char **rest)
{
    char *line = *rest, *end = strchr(line, '\n');

    if (!*line)
        return NULL;
    *rest = end ? end + 1 : line + strlen(line);
    if (end)
        *end = '\0';
    return line;
}

/* ---- lists ----------------------------------------------------------------------------------- */

/* Texts separated by a line, and their ids, one line each. */
static size_t check_text_list(const kvs_tokenizer *t, const char *base)
{
    static const char border[] = "\n__ggml_vocab_test__\n";
    char names[2][128];
    size_t size, checked = 0;
    char *texts, *lists, *text, *list;

    snprintf(names[0], sizeof names[0], "%s.inp", base);
    snprintf(names[1], sizeof names[1], "%s.out", base);
    texts = text = read_shared(names[0], &size);
    lists = list = read_shared(names[1], &size);
    while (text && list) {
        char *end = strstr(text, border), *line_end = strchr(list, '\n');

        if (line_end)
            *line_end = '\0';
        expect_ids(t, text, end ? (size_t)(end - text) : strlen(text), KVS_ENCODE_NO_SPECIAL,
                   list + strspn(list, " "));
        checked++;
        text = end ? end + strlen(border) : NULL;
        list = line_end ? line_end + 1 : NULL;
    }
    assert_null(text);
    kvsi_free(texts);
    kvsi_free(lists);
    return checked;
}

static void join_ids(kvsi_text *out, const json_t *ids)
{
    const json_t *id;
    size_t i;

    out->length = 0;
    kvsi_text_add(out, "");
    json_array_foreach(ids, i, id)
        kvsi_text_format(out, "%s%d", i ? " " : "", (int)json_integer_value(id));
}

static void check_decoding(const kvs_tokenizer *t, const json_t *list, const char *expected)
{
    const size_t count = json_array_size(list);
    int32_t *ids = kvsi_alloc(count, sizeof *ids);
    char *text;
    size_t size;

    for (size_t i = 0; i < count; i++)
        ids[i] = (int32_t)json_integer_value(json_array_get(list, i));
    assert_int_equal(kvs_tokenizer_decode(&text, &size, t, ids, count, NULL), KVS_OK);
    assert_string_equal(text, expected);
    kvs_text_free(text);
    kvsi_free(ids);
}

/* One JSON object per line: text, ids, ids with special tokens, and the decoded text. */
static size_t check_json_list(const kvs_tokenizer *t, const char *name)
{
    kvsi_text ids = {0};
    size_t size, checked = 0;
    char *lines = read_shared(name, &size), *rest = lines;

    for (char *line; (line = next_line(&rest)) != NULL; checked++) {
        json_t *object;
        const char *text;

        assert_int_equal(kvsi_json_parse(&object, line, strlen(line), name, NULL), KVS_OK);
        text = json_string_value(json_object_get(object, "text"));
        join_ids(&ids, json_object_get(object, "ids"));
        expect_ids(t, text, strlen(text), KVS_ENCODE_NO_SPECIAL, ids.data);
        join_ids(&ids, json_object_get(object, "ids_with_special"));
        expect_ids(t, text, strlen(text), 0, ids.data);
        check_decoding(t, json_object_get(object, "ids_with_special"),
                       json_string_value(json_object_get(object, "decoded")));
        json_decref(object);
    }
    kvsi_text_release(&ids);
    kvsi_free(lines);
    return checked;
}

/* As loaded, and again after saving. */
static void check_gpt2(kvs_tokenizer *t)
{
    kvs_tokenizer *again = save_and_load(t);

    assert_int_equal(kvs_tokenizer_vocab(t), 50257);
    assert_int_equal(kvs_tokenizer_eos(t), 50256);
    assert_int_equal(check_text_list(t, "tokenizer-gpt2/ggml-vocab-gpt-2.gguf"), 47);
    assert_int_equal(check_json_list(t, "tokenizer-gpt2/expected_ids.jsonl"), 23);
    assert_int_equal(check_text_list(again, "tokenizer-gpt2/ggml-vocab-gpt-2.gguf"), 47);
    assert_int_equal(check_json_list(again, "tokenizer-gpt2/expected_ids.jsonl"), 23);
    assert_int_equal(kvs_tokenizer_hash(again), kvs_tokenizer_hash(t));
    kvs_tokenizer_free(again);
    kvs_tokenizer_free(t);
}

static void test_gpt2_json(void **state)
{
    (void)state;
    check_gpt2(load_shared("tokenizer-gpt2/tokenizer.json"));
}

static void test_gpt2_gguf(void **state)
{
    (void)state;
    check_gpt2(load_shared("tokenizer-gpt2/ggml-vocab-gpt-2.gguf"));
}

static void test_gpt2_original_files(void **state)
{
    (void)state;
    check_gpt2(load_shared("tokenizer-gpt2/vocab.bpe"));
}

static void check_llama2(const char *name)
{
    kvs_tokenizer *t = load_shared(name), *again = save_and_load(t);

    assert_int_equal(kvs_tokenizer_vocab(t), 32000);
    assert_int_equal(kvs_tokenizer_bos(t), 1);
    assert_int_equal(kvs_tokenizer_eos(t), 2);
    assert_int_equal(check_text_list(t, "tokenizer-llama2/ggml-vocab-llama-spm.gguf"), 47);
    assert_int_equal(check_json_list(t, "tokenizer-llama2/expected_ids.jsonl"), 23);
    assert_int_equal(check_text_list(again, "tokenizer-llama2/ggml-vocab-llama-spm.gguf"), 47);
    assert_int_equal(check_json_list(again, "tokenizer-llama2/expected_ids.jsonl"), 23);
    kvs_tokenizer_free(again);
    kvs_tokenizer_free(t);
}

static void test_llama2_json(void **state)
{
    (void)state;
    check_llama2("tokenizer-llama2/tokenizer.json");
}

static void test_llama2_model(void **state)
{
    (void)state;
    check_llama2("tokenizer-llama2/tokenizer.model");
}

static void test_llama2_bin(void **state)
{
    (void)state;
    check_llama2("tokenizer-llama2/tokenizer.bin");
}

static void test_llama2_gguf(void **state)
{
    (void)state;
    check_llama2("tokenizer-llama2/ggml-vocab-llama-spm.gguf");
}

static void test_tinystories(void **state)
{
    kvs_tokenizer *t = load_shared("tinystories656K-hf");

    (void)state;
    check_json_list(t, "tinystories656K-hf/expected_ids.jsonl");
    kvs_tokenizer_free(t);
}

/* A character map, and user-defined symbols that it does not change.  Ids by SentencePiece 0.2. */
static void test_baichuan(void **state)
{
    static const struct {
        const char *text, *ids;
    } cases[] = {
        {"Hello world", "24568 1275"},
        {"  two  spaces ", "31106 31106 1132 31106 7707 31106"},
        {"\357\274\241\357\274\231\302\275\357\254\201 \342\205\247",
         "703 71 53 33358 54 14007 903 15053"},
        {"\344\275\240\345\245\275\357\274\214\344\270\226\347\225\214\343\200\202\357\274\222\357"
         "\274\220\357\274\222\357\274\224\345\271\264",
         "9875 31213 72 2781 73 64 62 64 66 31189"},
        {"<h2>title</h2>---```", "31106 7 8321 9 91 88"},
        {"na\303\257ve e\314\201\343\200\200x\011z", "7859 33752 707 8770 2759 6 31160"},
        {"\360\237\230\200", "31106 36301"},
    };
    kvs_tokenizer *t = load_shared("tokenizer-baichuan"), *again = save_and_load(t);

    (void)state;
    assert_int_equal(kvs_tokenizer_vocab(t), 64000);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_ids(t, cases[i].text, strlen(cases[i].text), KVS_ENCODE_NO_SPECIAL, cases[i].ids);
    /* In a tokenizer.json user-defined symbols can only be added tokens, after which a text starts
     * again: texts without them have the same ids. */
    expect_ids(again, cases[0].text, strlen(cases[0].text), KVS_ENCODE_NO_SPECIAL, cases[0].ids);
    kvs_tokenizer_free(t);
    kvs_tokenizer_free(again);
}

/* ---- round trips ----------------------------------------------------------------------------- */

/* Decoding id by id gives the same text, in whole characters if the text is valid UTF-8. */
static void expect_stream(const kvs_tokenizer *t, const int32_t *ids, size_t count,
                          const char *text, size_t size)
{
    const int whole = kvsi_utf8_valid(text, size) == size;
    kvs_detokenizer *d;
    const char *part;
    size_t part_size, at = 0;

    assert_int_equal(kvs_detokenizer_create(&d, t, NULL, 0, NULL), KVS_OK);
    for (size_t i = 0; i <= count; i++) {
        if (i < count)
            assert_int_equal(kvs_detokenizer_add(&part, &part_size, d, ids + i, 1, NULL), KVS_OK);
        else
            assert_int_equal(kvs_detokenizer_finish(&part, &part_size, d, NULL), KVS_OK);
        assert_true(part_size <= size - at);
        assert_int_equal(memcmp(part, text + at, part_size), 0);
        assert_true(!whole || kvsi_utf8_valid(part, part_size) == part_size);
        at += part_size;
    }
    assert_int_equal(at, size);
    kvs_detokenizer_free(d);
}

static void expect_round_trip(const kvs_tokenizer *t, const char *text, size_t size)
{
    int32_t *ids;
    char *back;
    size_t count, back_size;

    assert_int_equal(kvs_tokenizer_encode(&ids, &count, t, text, size, 0, NULL), KVS_OK);
    assert_int_equal(kvs_tokenizer_decode(&back, &back_size, t, ids, count, NULL), KVS_OK);
    assert_int_equal(back_size, size);
    assert_int_equal(memcmp(back, text, size), 0);
    expect_stream(t, ids, count, text, size);
    kvs_ids_free(ids);
    kvs_text_free(back);
}

static void test_round_trips(void **state)
{
    static const char *const tokenizers[] = {"tokenizer-gpt2/tokenizer.json",
                                             "tokenizer-llama2/tokenizer.model",
                                             "tokenizer-llama2/tokenizer.json"};
    static const char *const texts[] = {"tinyshakespeare/input.txt",
                                        "chinese-novels/sanguo-yanyi.txt",
                                        "english-novels/Stevenson_Treasure_1883.txt"};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        kvs_tokenizer *t = load_shared(tokenizers[i]);

        for (size_t k = 0; k < 3; k++) {
            size_t size;
            char *text = read_shared(texts[k], &size);

            expect_round_trip(t, text, size);
            kvsi_free(text);
        }
        for (unsigned trial = 0; trial < 300; trial++) {
            kvsi_random random;
            char bytes[300];

            kvsi_random_init(&random, 7, KVSI_RANDOM_DATA, trial);
            for (size_t b = 0; b < trial; b++)
                bytes[b] = (char)kvsi_random_below(&random, trial % 2 ? 256 : 16);
            expect_round_trip(t, bytes, trial);
        }
        kvs_tokenizer_free(t);
    }
}

/* Random ids, as from an untrained model, also where decoding is not invertible: incremental
 * decoding equals decoding at once. */
static void test_streams(void **state)
{
    static const char *const tokenizers[] = {"tokenizer-gpt2/vocab.bpe",
                                             "tokenizer-llama2/tokenizer.bin",
                                             "tokenizer-llama2/tokenizer.json",
                                             "tokenizer-llama2/ggml-vocab-llama-spm.gguf",
                                             "tokenizer-baichuan",
                                             "tinystories656K-hf",
                                             "stories260K/tok512.model",
                                             "stories260K/tok512.bin"};
    enum { COUNT = 2000 };
    size_t text_size;
    char *text = read_shared("chinese-novels/xiyou-ji.txt", &text_size);

    (void)state;
    for (size_t i = 0; i < sizeof tokenizers / sizeof *tokenizers; i++) {
        kvs_tokenizer *t = load_shared(tokenizers[i]);
        int32_t *ids, drawn[COUNT];
        size_t count, size;
        kvsi_random random;
        char *whole;

        kvsi_random_init(&random, 11, KVSI_RANDOM_DATA, i);
        for (size_t k = 0; k < COUNT; k++)
            drawn[k] = (int32_t)kvsi_random_below(&random, (uint32_t)kvs_tokenizer_vocab(t));
        assert_int_equal(kvs_tokenizer_decode(&whole, &size, t, drawn, COUNT, NULL), KVS_OK);
        expect_stream(t, drawn, COUNT, whole, size);
        kvs_text_free(whole);
        assert_int_equal(kvs_tokenizer_encode(&ids, &count, t, text, 100000, 0, NULL), KVS_OK);
        assert_int_equal(kvs_tokenizer_decode(&whole, &size, t, ids, count, NULL), KVS_OK);
        expect_stream(t, ids, count, whole, size);
        kvs_text_free(whole);
        kvs_ids_free(ids);
        kvs_tokenizer_free(t);
    }
    kvsi_free(text);
}

/* Splitting a text where no merge can cross changes nothing: the ids equal those of the whole text
 * merged at once. */
static void test_cuts(void **state)
{
    enum { SIZE = 200000 };
    kvs_tokenizer *t = load_shared("tokenizer-llama2/tokenizer.json");
    size_t size, count, at = 0;
    char *text = read_shared("tinyshakespeare/input.txt", &size);
    kvsi_text normalized = {0};
    kvsi_matcher *matcher;
    kvsi_word word = {0};
    int32_t *ids;

    (void)state;
    assert_true(size > SIZE);
    assert_int_equal(kvsi_matcher_create(&matcher, NULL), KVS_OK);
    assert_int_equal(kvsi_normalize(&t->normalizers, matcher, &normalized, text, SIZE, NULL),
                     KVS_OK);
    kvsi_matcher_free(matcher);
    assert_true(kvsi_safe_prefix(t, normalized.data, normalized.length) < 100);
    for (size_t length; at < normalized.length; at += length) {
        const char *character = normalized.data + at;
        uint32_t code;
        int32_t id;

        length = kvsi_utf8_next(character, normalized.length - at, &code);
        id = *character == '\n' ? t->byte_ids['\n']
                                : kvsi_vocabulary_find(&t->vocabulary, character, length);
        assert_true(id >= 0);
        assert_int_equal(kvsi_word_add(&word, id, at, NULL), KVS_OK);
    }
    assert_int_equal(kvsi_word_merge(&word, &t->merges, NULL), KVS_OK);
    assert_int_equal(kvs_tokenizer_encode(&ids, &count, t, text, SIZE, KVS_ENCODE_NO_SPECIAL, NULL),
                     KVS_OK);
    at = 0;
    for (uint32_t i = 0; i < word.count; i = word.symbols[i].next, at++)
        assert_int_equal(ids[at], word.symbols[i].id);
    assert_int_equal(at, count);
    kvs_ids_free(ids);
    kvsi_word_release(&word);
    kvsi_text_release(&normalized);
    kvsi_free(text);
    kvs_tokenizer_free(t);
}

/* ---- damage ---------------------------------------------------------------------------------- */

/* A truncated file is refused, or is a smaller valid file; it never does harm. */
static void test_truncated_files(void **state)
{
    static const char *const names[] = {"stories260K/tok512.model", "stories260K/tok512.bin",
                                        "tokenizer-gpt2/ggml-vocab-gpt-2.gguf",
                                        "tokenizer-gpt2/tokenizer.json"};
    char path[4096]; /* on the stack: a skipped test frees nothing */

    (void)state;
    snprintf(path, sizeof path, "%s/cut", support_dir);
    for (size_t i = 0; i < 4; i++) {
        size_t size;
        char *data = read_shared(names[i], &size);

        for (size_t cut = 0; cut < 40; cut++) {
            FILE *file = fopen(path, "wb");
            kvs_tokenizer *t;
            kvs_err err;

            assert_non_null(file);
            fwrite(data, 1, size * cut / 40 / (cut % 3 * 50 + 1), file);
            fclose(file);
            if (kvs_tokenizer_load(&t, path, &err) != KVS_OK)
                assert_null(t);
            kvs_tokenizer_free(t);
        }
        kvsi_free(data);
    }
}

/* ---- training -------------------------------------------------------------------------------- */

static kvs_tokenizer *train(const char *path, size_t vocab, int threads)
{
    static const char *const special[] = {"<|endoftext|>"};
    const kvs_tokenizer_training training = {.size = sizeof(kvs_tokenizer_training),
                                             .vocab = vocab,
                                             .special = special,
                                             .specials = 1,
                                             .threads = threads};
    const char *const files[] = {path};
    kvs_tokenizer *t;
    kvs_err err;

    if (kvs_tokenizer_train(&t, files, 1, &training, &err) != KVS_OK)
        fail_msg("%s", err.message);
    return t;
}

static void check_reference(const json_t *model)
{
    size_t size, rank = 0;
    char *vocab = read_shared("bpe-train-reference/train-bpe-reference-vocab.json", &size);
    char *merges, *rest;
    json_t *expected;

    assert_int_equal(kvsi_json_parse(&expected, vocab, size, "reference", NULL), KVS_OK);
    assert_true(json_equal(json_object_get(model, "vocab"), expected));
    merges = rest = read_shared("bpe-train-reference/train-bpe-reference-merges.txt", &size);
    for (char *line; (line = next_line(&rest)) != NULL; rank++)
        assert_string_equal(
            json_string_value(json_array_get(json_object_get(model, "merges"), rank)), line);
    assert_int_equal(rank, json_array_size(json_object_get(model, "merges")));
    json_decref(expected);
    kvsi_free(vocab);
    kvsi_free(merges);
}

static void test_training_reference(void **state)
{
    char *corpus = shared("bpe-train-reference/corpus.en");
    char *path = kvsi_path_join(support_dir, "trained.json");

    (void)state;
    for (int threads = 1; threads <= 3; threads += 2) {
        kvs_tokenizer *t = train(corpus, 500, threads);
        json_t *document;

        assert_int_equal(kvs_tokenizer_vocab(t), 500);
        assert_int_equal(kvs_tokenizer_save(t, path, NULL), KVS_OK);
        assert_int_equal(kvsi_json_read(&document, path, SIZE_MAX / 2, NULL), KVS_OK);
        check_reference(json_object_get(document, "model"));
        json_decref(document);
        kvs_tokenizer_free(t);
    }
    kvsi_free(path);
    kvsi_free(corpus);
}

static void test_training_threads(void **state)
{
    char *text = shared("tinyshakespeare/input.txt");
    kvs_tokenizer *one = train(text, 2000, 1), *four = train(text, 2000, 4);
    kvs_tokenizer *again = save_and_load(one);

    (void)state;
    assert_int_equal(kvs_tokenizer_hash(one), kvs_tokenizer_hash(four));
    assert_int_equal(kvs_tokenizer_hash(one), kvs_tokenizer_hash(again));
    kvs_tokenizer_free(one);
    kvs_tokenizer_free(four);
    kvs_tokenizer_free(again);
    kvsi_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt2_json),
        cmocka_unit_test(test_gpt2_gguf),
        cmocka_unit_test(test_gpt2_original_files),
        cmocka_unit_test(test_llama2_json),
        cmocka_unit_test(test_llama2_model),
        cmocka_unit_test(test_llama2_bin),
        cmocka_unit_test(test_llama2_gguf),
        cmocka_unit_test(test_tinystories),
        cmocka_unit_test(test_baichuan),
        cmocka_unit_test(test_round_trips),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_truncated_files),
        cmocka_unit_test(test_training_reference),
        cmocka_unit_test(test_training_threads),
    };

    return cmocka_run_group_tests(tests, support_dir_setup, support_dir_teardown);
}
