/* Tokenizers small enough to check by hand: every component, every file format that fits into a few
 * lines, and damaged or hostile files. */
#include "base/files.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/text.h"
#include "model_files.h"
#include "tokenizer/pattern.h"

#include <stdio.h>
#include <string.h>

#define META "\xe2\x96\x81"

/* ---- helpers --------------------------------------------------------------------------------- */

static kvs_status load_file(kvs_tokenizer **out, const char *name, const void *data, size_t size,
                            kvs_err *err)
{
    char *path = kvsi_path_join(support_dir, name);
    FILE *file = fopen(path, "wb");
    kvs_status st;

    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    fclose(file);
    st = kvs_tokenizer_load(out, path, err);
    kvsi_free(path);
    return st;
}

static kvs_tokenizer *load_text(const char *json)
{
    kvs_tokenizer *t;
    kvs_err err;

    if (load_file(&t, "tokenizer.json", json, strlen(json), &err) != KVS_OK)
        fail_msg("%s", err.message);
    return t;
}

static void expect_refused(const char *json, kvs_status status, const char *words)
{
    kvs_tokenizer *t;
    kvs_err err;
    const kvs_status st = load_file(&t, "tokenizer.json", json, strlen(json), &err);

    if (st != status || !strstr(err.message, words))
        fail_msg("'%.200s': status %d, '%s'; expected %d, '%s'", json, st,
                 st ? err.message : "loaded", status, words);
    assert_null(t);
}

/* The pieces of a text, separated by |. */
static void expect_pieces(const kvs_tokenizer *t, const char *text, const char *expected)
{
    kvsi_text found = {0};
    int32_t *ids;
    size_t count;

    assert_int_equal(kvs_tokenizer_encode(&ids, &count, t, text, strlen(text), 0, NULL), KVS_OK);
    kvsi_text_add(&found, "");
    for (size_t i = 0; i < count; i++) {
        char *piece;
        size_t size;

        assert_int_equal(kvs_tokenizer_decode(&piece, &size, t, ids + i, 1, NULL), KVS_OK);
        kvsi_text_format(&found, "%s%s", i ? "|" : "", piece);
        kvs_text_free(piece);
    }
    kvs_ids_free(ids);
    if (strcmp(found.data, expected) != 0)
        fail_msg("'%s': expected '%s', found '%s'", text, expected, found.data);
    kvsi_text_release(&found);
}

static void expect_round_trip(const kvs_tokenizer *t, const char *text, size_t size)
{
    int32_t *ids;
    char *back;
    size_t count, back_size;

    assert_int_equal(kvs_tokenizer_encode(&ids, &count, t, text, size, 0, NULL), KVS_OK);
    assert_int_equal(kvs_tokenizer_decode(&back, &back_size, t, ids, count, NULL), KVS_OK);
    assert_int_equal(back_size, size);
    assert_memory_equal(back, text, size);
    kvs_ids_free(ids);
    kvs_text_free(back);
}

/* Letters, digits and signs as tokens, no merges.  With ignore_merges whole words are tokens, so
 * pieces show where the text was split. */
#define WORDS(steps)                                                                               \
    "{\"added_tokens\": [], " steps ", \"decoder\": {\"type\": \"Fuse\"}, "                        \
    "\"model\": {\"type\": \"BPE\", \"ignore_merges\": true, \"unk_token\": \"?\", \"vocab\": "    \
    "{\"?\": 0, \"ab\": 1, \"12\": 2, \"1\": 3, \"2\": 4, \"-\": 5, \"--\": 6, \"a\": 7, "         \
    "\"b\": 8, \"ab-\": 9, \"-ab\": 10, \" \": 11, \"" META "\": 12, \"" META "ab\": 13, "         \
    "\"x\": 14, \"ab--\": 15, \"xab\": 16}, \"merges\": []}}"

#define SPLIT(pattern, behavior, invert)                                                           \
    WORDS("\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": " pattern                         \
          ", \"behavior\": \"" behavior "\", \"invert\": " invert "}")

/* ---- components ------------------------------------------------------------------------------ */

static void test_split_behaviors(void **state)
{
    static const struct {
        const char *json, *expected;
    } cases[] = {
        {SPLIT("{\"String\": \"-\"}", "Isolated", "false"), "ab|-|-|ab"},
        {SPLIT("{\"String\": \"-\"}", "Removed", "false"), "ab|ab"},
        {SPLIT("{\"String\": \"-\"}", "Removed", "true"), "-|-"},
        {SPLIT("{\"String\": \"-\"}", "Contiguous", "false"), "ab|--|ab"},
        {SPLIT("{\"String\": \"-\"}", "MergedWithPrevious", "false"), "ab-|-|ab"},
        {SPLIT("{\"String\": \"-\"}", "MergedWithNext", "false"), "ab|-|-ab"},
        {SPLIT("{\"Regex\": \"-+\"}", "MergedWithPrevious", "false"), "ab--|ab"},
        {SPLIT("{\"Regex\": \"[a-z]+(?=-)\"}", "Isolated", "false"), "ab|-|-|a|b"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kvs_tokenizer *t = load_text(cases[i].json);

        expect_pieces(t, "ab--ab", cases[i].expected);
        kvs_tokenizer_free(t);
    }
}

static void test_other_pre_tokenizers(void **state)
{
    static const struct {
        const char *json, *text, *expected;
    } cases[] = {
        {WORDS("\"pre_tokenizer\": {\"type\": \"Digits\", \"individual_digits\": false}"), "ab12ab",
         "ab|12|ab"},
        {WORDS("\"pre_tokenizer\": {\"type\": \"Digits\", \"individual_digits\": true}"), "ab12ab",
         "ab|1|2|ab"},
        {WORDS("\"pre_tokenizer\": {\"type\": \"Punctuation\"}"), "ab--", "ab|-|-"},
        {WORDS("\"pre_tokenizer\": {\"type\": \"Whitespace\"}"), " ab -- ab", "ab|--|ab"},
        {WORDS("\"pre_tokenizer\": {\"type\": \"WhitespaceSplit\"}"), " ab-- ab ", "ab--|ab"},
        {WORDS("\"pre_tokenizer\": {\"type\": \"Metaspace\", \"prepend_scheme\": \"always\"}"),
         "ab ab", META "ab|" META "ab"},
        {WORDS("\"pre_tokenizer\": {\"type\": \"Metaspace\", \"prepend_scheme\": \"never\"}"),
         "ab ab", "ab|" META "ab"},
        {WORDS("\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": "
               "[{\"type\": \"WhitespaceSplit\"}, {\"type\": \"Digits\"}]}"),
         "ab12 12", "ab|12|12"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kvs_tokenizer *t = load_text(cases[i].json);

        expect_pieces(t, cases[i].text, cases[i].expected);
        kvs_tokenizer_free(t);
    }
}

static void test_normalizers(void **state)
{
    static const struct {
        const char *json, *text;
    } cases[] = {
        {WORDS("\"normalizer\": {\"type\": \"Lowercase\"}"), "AB"},
        {WORDS("\"normalizer\": {\"type\": \"Strip\"}"), " \t\xe3\x80\x80"
                                                         "ab\n"},
        {WORDS("\"normalizer\": {\"type\": \"Replace\", \"pattern\": {\"Regex\": \"z+\"}, "
               "\"content\": \"b\"}"),
         "azzz"},
        {WORDS("\"normalizer\": {\"type\": \"Prepend\", \"prepend\": \"a\"}"), "b"},
        {WORDS("\"normalizer\": {\"type\": \"NFKC\"}"), "\xef\xbd\x81\xef\xbd\x82"},
        {WORDS("\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"NFKC\"}, "
               "{\"type\": \"Lowercase\"}]}"),
         "\xef\xbc\xa1\xef\xbd\x82"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kvs_tokenizer *t = load_text(cases[i].json);

        expect_pieces(t, cases[i].text, "ab");
        kvs_tokenizer_free(t);
    }
}

#define MERGING(options)                                                                           \
    "{\"decoder\": {\"type\": \"Fuse\"}, \"model\": {\"type\": \"BPE\"" options                    \
    ", \"vocab\": {\"?\": 0, \"a\": 1, \"b\": 2, \"ab\": 3, \"aa\": 4, \"aab\": 5, \"<0xC3>\": 6," \
    "\"<0xA4>\": 7}, \"merges\": [\"a b\", [\"a\", \"a\"], \"a ab\"]}}"

/* The lowest rank first, then the leftmost; unknown characters according to the options. */
static void test_merging(void **state)
{
    kvs_tokenizer *t = load_text(MERGING(""));

    (void)state;
    expect_pieces(t, "aab", "aab");
    expect_pieces(t, "aaab", "aa|ab");
    expect_pieces(t, "aaa", "aa|a");
    expect_pieces(t, "azb", "ab"); /* z has no token and is dropped */
    kvs_tokenizer_free(t);
    t = load_text(MERGING(", \"unk_token\": \"?\""));
    expect_pieces(t, "azzb", "a|?|?|b");
    kvs_tokenizer_free(t);
    t = load_text(MERGING(", \"unk_token\": \"?\", \"fuse_unk\": true, \"byte_fallback\": true"));
    expect_pieces(t, "azzb", "a|?|b");
    expect_pieces(t, "a\xc3\xa4z", "a|<0xC3>|<0xA4>|?");
    kvs_tokenizer_free(t);
}

#define ADDED(flags)                                                                               \
    "{\"added_tokens\": [{\"id\": 9, \"content\": \"<e>\", \"special\": true" flags                \
    "}, {\"id\": 10, \"content\": \"<e>>\"}], \"decoder\": {\"type\": \"Fuse\"}, \"model\": "      \
    "{\"vocab\": {\"a\": 0, \" \": 1, \"<\": 2, \"e\": 3, \">\": 4}, \"merges\": []}}"

static void test_added_tokens(void **state)
{
    static const struct {
        const char *json, *text, *expected;
    } cases[] = {
        {ADDED(""), "a<e>a <e> a", "a|<e>|a| |<e>| |a"},
        {ADDED(", \"lstrip\": true"), "a  <e> a", "a|<e>| |a"},
        {ADDED(", \"rstrip\": true"), "a <e>  a", "a| |<e>|a"},
        {ADDED(", \"single_word\": true"), "a<e> <e>", "a|<|e|>| |<e>"},
        {ADDED(""), "<e>><e>", "<e>|>|<e>"}, /* tokens that are not normalized are matched first */
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kvs_tokenizer *t = load_text(cases[i].json);

        expect_pieces(t, cases[i].text, cases[i].expected);
        kvs_tokenizer_free(t);
    }
}

static void test_template(void **state)
{
    kvs_tokenizer *t = load_text(
        "{\"added_tokens\": [{\"id\": 1, \"content\": \"<s>\", \"special\": true}, "
        "{\"id\": 2, \"content\": \"</s>\", \"special\": true}], \"decoder\": {\"type\": \"Fuse\"},"
        "\"post_processor\": {\"type\": \"Sequence\", \"processors\": [{\"type\": \"ByteLevel\"}, "
        "{\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"<s>\"}}, "
        "{\"Sequence\": {\"id\": \"A\"}}, {\"SpecialToken\": {\"id\": \"</s>\"}}], "
        "\"special_tokens\": {\"<s>\": {\"ids\": [1]}, \"</s>\": {\"ids\": [2]}}}]}, "
        "\"model\": {\"vocab\": {\"a\": 0}, \"merges\": []}}");
    const int32_t framed[] = {1, 0, 1, 2};
    int32_t *ids;
    size_t count, size;
    char *text;

    (void)state;
    assert_int_equal(kvs_tokenizer_bos(t), 1);
    assert_int_equal(kvs_tokenizer_eos(t), 2);
    assert_int_equal(kvs_tokenizer_encode(&ids, &count, t, "a<s>", 4, 0, NULL), KVS_OK);
    assert_int_equal(count, 4);
    assert_memory_equal(ids, framed, sizeof framed);
    kvs_ids_free(ids);
    assert_int_equal(kvs_tokenizer_encode(&ids, &count, t, "a<s>", 4, KVS_ENCODE_NO_SPECIAL, NULL),
                     KVS_OK);
    assert_int_equal(count, 2);
    kvs_ids_free(ids);
    assert_int_equal(kvs_tokenizer_decode(&text, &size, t, framed, 4, NULL), KVS_OK);
    assert_string_equal(text, "a<s>"); /* the template's tokens are not part of the text */
    kvs_text_free(text);
    kvs_tokenizer_free(t);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static void test_bytes(void **state)
{
    kvs_tokenizer *t;
    kvsi_random random;
    char text[512];

    (void)state;
    assert_int_equal(kvs_tokenizer_load(&t, "bytes", NULL), KVS_OK);
    assert_int_equal(kvs_tokenizer_vocab(t), 256);
    for (unsigned trial = 0; trial < 200; trial++) {
        const size_t size = trial * sizeof text / 200;
        int32_t *ids;
        size_t count;

        kvsi_random_init(&random, 1, KVSI_RANDOM_DATA, trial);
        for (size_t i = 0; i < size; i++)
            text[i] = (char)kvsi_random_below(&random, 256);
        assert_int_equal(kvs_tokenizer_encode(&ids, &count, t, text, size, 0, NULL), KVS_OK);
        assert_int_equal(count, size);
        for (size_t i = 0; i < size; i++)
            assert_int_equal(ids[i], (unsigned char)text[i]);
        kvs_ids_free(ids);
        expect_round_trip(t, text, size);
    }
    kvs_tokenizer_free(t);
}

static void test_ids_outside(void **state)
{
    const int32_t bad[] = {-1, 256, INT32_MAX};
    kvs_tokenizer *t;
    kvs_err err;
    char *text;
    size_t size;

    (void)state;
    assert_int_equal(kvs_tokenizer_load(&t, "bytes", NULL), KVS_OK);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(kvs_tokenizer_decode(&text, &size, t, bad + i, 1, &err), KVS_E_INVALID);
        assert_non_null(strstr(err.message, "vocabulary of 256"));
        assert_null(text);
    }
    kvs_tokenizer_free(t);
}

/* ---- expressions ----------------------------------------------------------------------------- */

static void expect_match(const char *expression, const char *text, size_t start, size_t end)
{
    kvsi_pattern *pattern;
    kvsi_matcher *matcher = NULL;
    kvs_err err;
    kvsi_search search;
    size_t from = 0, to = 0;

    if (kvsi_pattern_create(&pattern, expression, &err) != KVS_OK ||
        kvsi_matcher_create(&matcher, &err) != KVS_OK)
        fail_msg("%s", err.message);
    search = kvsi_search_begin(pattern, matcher, text, strlen(text));
    assert_int_equal(kvsi_search_next(&search, 0, &from, &to, &err), KVS_OK);
    if (to != end || (end && from != start))
        fail_msg("'%s' in '%s': expected %zu-%zu, found %zu-%zu", expression, text, start, end,
                 from, to);
    kvsi_matcher_free(matcher);
    kvsi_pattern_free(pattern);
}

static void test_expressions(void **state)
{
    kvsi_pattern *pattern;
    kvs_err err;

    (void)state;
    expect_match("\\s+", "a\xe3\x80\x80 b", 1, 5);
    expect_match("\\s", "\xe1\xa0\x8e", 0, 0); /* U+180E is not a space, except in PCRE2 */
    expect_match("[^\\s]+$", "a b\nc", 2, 3);
    expect_match("\\w+", "-\xc2\xbd\xcc\x81_", 1, 6);
    expect_match("[\\]x]+", "a]x", 1, 3);
    expect_match("\\h+", "xyzAF", 3, 5);
    expect_match("a*", "bbb", 0, 0); /* only empty matches */
    assert_int_equal(kvsi_pattern_create(&pattern, "[a&&b]", &err), KVS_E_UNSUPPORTED);
    assert_int_equal(kvsi_pattern_create(&pattern, "[a[bc]]", &err), KVS_E_UNSUPPORTED);
    assert_int_equal(kvsi_pattern_create(&pattern, "[\\W]", &err), KVS_E_UNSUPPORTED);
    assert_int_equal(kvsi_pattern_create(&pattern, "(a", &err), KVS_E_FORMAT);
    assert_non_null(strstr(err.message, "'(a'"));
}

/* ---- SentencePiece and llama2.c -------------------------------------------------------------- */

static void add_token(kvsi_text *out, const char *text, float score)
{
    const uint32_t size = (uint32_t)strlen(text);

    kvsi_text_add_bytes(out, (const char *)&score, 4);
    kvsi_text_add_bytes(out, (const char *)&size, 4);
    kvsi_text_add(out, text);
}

/* The higher score first; a piece of characters that are not tokens; byte fallback. */
static void test_scores(void **state)
{
    static const char *const pieces[] = {"<unk>", "\n<s>\n", "\n</s>\n", "<0xC3>", "<0xA4>",
                                         " ",     "a",       "b",        "ab",     "bb",
                                         "abb",   " a",      "xy",       "xyab"};
    const float scores[] = {0, 0, 0, 0, 0, -9, -9, -9, -2, -1, -3, -4, -5, -6};
    kvsi_text file = {0};
    kvs_tokenizer *t;
    kvs_err err;

    (void)state;
    kvsi_text_add_bytes(&file, "\5\0\0\0", 4);
    for (size_t i = 0; i < sizeof scores / sizeof *scores; i++)
        add_token(&file, pieces[i], scores[i]);
    if (load_file(&t, "tokenizer.bin", file.data, file.length, &err) != KVS_OK)
        fail_msg("%s", err.message);
    /* BOS and the prefix space decode to nothing. */
    expect_pieces(t, "abbb", "||abb|b"); /* bb scores higher than ab */
    expect_pieces(t, "bxyab", "||b|xyab");
    expect_pieces(t, "x", "||<unk>");
    assert_int_equal(kvs_tokenizer_find(t, "x"), -1);
    assert_int_equal(kvs_tokenizer_find(t, "xyab"), 13);
    expect_round_trip(t, "ab \xc3\xa4  abb", 10);
    kvs_tokenizer_free(t);
    for (size_t cut = 0; cut < file.length; cut++) { /* every shorter file is refused or complete */
        if (load_file(&t, "cut.bin", file.data, cut, &err) == KVS_OK)
            assert_true(kvs_tokenizer_vocab(t) < 14);
        kvs_tokenizer_free(t);
    }
    kvsi_text_release(&file);
}

/* Fields of a protocol buffer. */
static void add_field(kvsi_text *out, unsigned char tag, const char *data, size_t size)
{
    const char head[2] = {(char)tag, (char)size};

    kvsi_text_add_bytes(out, head, 2);
    kvsi_text_add_bytes(out, data, size);
}

static void add_piece(kvsi_text *out, const char *text, float score, char kind)
{
    kvsi_text piece = {0};
    const char type[2] = {0x18, kind};

    add_field(&piece, 0x0a, text, strlen(text));
    kvsi_text_add(&piece, "\x15");
    kvsi_text_add_bytes(&piece, (const char *)&score, 4);
    kvsi_text_add_bytes(&piece, type, 2);
    add_field(out, 0x0a, piece.data, piece.length);
    kvsi_text_release(&piece);
}

/* User-defined symbols never merge; extra spaces are removed; no dummy prefix; only BPE is
 * supported. */
static void test_sentencepiece(void **state)
{
    static const char *const pieces[] = {"<unk>", "<s>", "</s>", META, "a", "b", "aa", "<b>", "b<"};
    static const char kinds[] = {2, 3, 3, 1, 1, 1, 1, 4, 1};
    kvsi_text file = {0}, unigram;
    kvs_tokenizer *t;
    kvs_err err;

    (void)state;
    for (size_t i = 0; i < sizeof kinds; i++)
        add_piece(&file, pieces[i], (float)-(int)i, kinds[i]);
    add_field(&file, 0x1a, "\x0a\1x\x18\0\x20\1", 7);
    unigram = (kvsi_text){0};
    kvsi_text_add_bytes(&unigram, file.data, file.length);
    add_field(&file, 0x12, "\x18\2", 2);
    add_field(&unigram, 0x12, "\x18\1", 2);
    if (load_file(&t, "tokenizer.model", file.data, file.length, &err) != KVS_OK)
        fail_msg("%s", err.message);
    expect_pieces(t, "  aab<b>a  b ", "|aa|b|<b>|a| |b");
    kvs_tokenizer_free(t);
    assert_int_equal(load_file(&t, "tokenizer.model", unigram.data, unigram.length, &err),
                     KVS_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "other than BPE"));
    kvsi_text_release(&file);
    kvsi_text_release(&unigram);
}

/* ---- configuration files ---- */

static void write_config_file(const char *name, const char *text)
{
    char *path = kvsi_path_join(support_dir, name);

    if (text)
        assert_int_equal(kvsi_file_write_text(path, text, NULL), KVS_OK);
    else
        remove(path);
    kvsi_free(path);
}

static void put_small_model(kvsi_text *file)
{
    static const char *const pieces[] = {"<unk>", "<s>", "</s>", META, "a", "b", "ab", "<pad>"};
    static const char kinds[] = {2, 3, 3, 1, 1, 1, 1, 3};

    for (size_t i = 0; i < sizeof kinds; i++)
        add_piece(file, pieces[i], (float)-(int)i, kinds[i]);
    add_field(file, 0x12, "\x18\2", 2);
    add_field(file, 0x1a, "\x18\1\x20\0", 4);
}

/* The ids of a text, as a string. */
static void expect_ids(const kvs_tokenizer *t, const char *text, const char *expected)
{
    kvsi_text found = {0};
    int32_t *ids;
    size_t count;

    assert_int_equal(kvs_tokenizer_encode(&ids, &count, t, text, strlen(text), 0, NULL), KVS_OK);
    kvsi_text_add(&found, "");
    for (size_t i = 0; i < count; i++)
        kvsi_text_format(&found, i > 0 ? " %d" : "%d", (int)ids[i]);
    if (strcmp(found.data, expected) != 0)
        fail_msg("'%s' is '%s', expected '%s'", text, found.data, expected);
    kvs_ids_free(ids);
    kvsi_text_release(&found);
}

/* Ids as transformers' LlamaTokenizer gives them. */
static void test_config_sentencepiece(void **state)
{
    static const struct {
        const char *config, *map, *added, *model; /* the files; NULL = missing */
        const char *text, *ids;
        int32_t bos, eos;
    } cases[] = {
        {NULL, NULL, NULL, NULL, "ab<pad>b</s>", "1 3 6 7 3 5 2", 1, 2},
        {"{\"add_bos_token\": false}", NULL, NULL, NULL, "ab", "3 6", 1, 2},
        {"{\"add_bos_token\": null, \"add_eos_token\": true, \"model_max_length\": "
         "1000000000000000019884624838656}",
         NULL, NULL, NULL, "ab", "1 3 6 2", 1, 2},
        /* control tokens that no file names are text; new tokens have their id, or the next */
        {"{\"added_tokens_decoder\": {\"9\": {\"content\": \"<x>\", \"special\": true}, "
         "\"8\": {\"content\": \"[y]\", \"rstrip\": true}}, \"eos_token\": \"<x>\", "
         "\"bos_token\": {\"content\": \"<s>\"}, \"pad_token\": \"<z>\"}",
         "{\"eos_token\": \"a\"}", "{\"b\": 5}", NULL, "ab<x>b[y] a<z></s>b",
         "1 3 6 9 3 5 8 3 4 10 3 0 5", 1, 9},
        {"{\"added_tokens_decoder\": {\"8\": {\"content\": \"<x>\"}}, \"bos_token\": \"<x>\", "
         "\"eos_token\": null}",
         NULL, NULL, NULL, "b", "8 3 5", 8, 2},
        /* older files */
        {"{\"eos_token\": \"</s>\"}", "{\"eos_token\": \"<e>\"}", "{\"<x>\": 8, \"<e>\": 9}", NULL,
         "a<x>b<e>", "1 3 4 8 3 5 9", 1, 9},
        {NULL, "{\"additional_special_tokens\": [\"<x>\", {\"content\": \"<pad>\"}]}", NULL, NULL,
         "a<pad><x>", "1 3 4 7 8", 1, 2},
        /* a token without an embedding row is ignored */
        {NULL, NULL, "{\"<x>\": 8}", "{\"vocab_size\": 8}", "a<x>", "1 3 4 0", 1, 2},
    };
    kvsi_text file = {0};

    (void)state;
    put_small_model(&file);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kvs_tokenizer *t;
        kvs_err err;

        write_config_file("tokenizer_config.json", cases[i].config);
        write_config_file("special_tokens_map.json", cases[i].map);
        write_config_file("added_tokens.json", cases[i].added);
        write_config_file("config.json", cases[i].model);
        if (load_file(&t, "tokenizer.model", file.data, file.length, &err) != KVS_OK)
            fail_msg("%zu: %s", i, err.message);
        expect_ids(t, cases[i].text, cases[i].ids);
        assert_int_equal(kvs_tokenizer_bos(t), cases[i].bos);
        assert_int_equal(kvs_tokenizer_eos(t), cases[i].eos);
        kvs_tokenizer_free(t);
        if (load_file(&t, "other.model", file.data, file.length, &err) != KVS_OK)
            fail_msg("%zu: %s", i, err.message);
        expect_ids(t, "ab<pad>",
                   "1 3 6 7"); /* the file has another name: the configuration is not used */
        kvs_tokenizer_free(t);
    }
    write_config_file("special_tokens_map.json", NULL);
    write_config_file("added_tokens.json", NULL);
    write_config_file("config.json", NULL);
    write_config_file("tokenizer_config.json", NULL);
    kvsi_text_release(&file);
}

static void test_hostile_config(void **state)
{
    static const struct {
        const char *name, *text, *words;
    } cases[] = {
        {"tokenizer_config.json", "{", "tokenizer_config.json': malformed JSON"},
        {"tokenizer_config.json", "{\"add_bos_token\": 0}", "'add_bos_token': expected true or"},
        {"tokenizer_config.json", "{\"bos_token\": 1}", "'bos_token': expected text"},
        {"tokenizer_config.json", "{\"bos_token\": {\"content\": []}}", "'bos_token': expected"},
        {"tokenizer_config.json", "{\"added_tokens_decoder\": []}", "expected an object"},
        {"tokenizer_config.json", "{\"added_tokens_decoder\": {\"-1\": {\"content\": \"x\"}}}",
         "'added_tokens_decoder': expected ids"},
        {"tokenizer_config.json", "{\"added_tokens_decoder\": {\"8\": {}}}", "expected ids"},
        {"tokenizer_config.json",
         "{\"added_tokens_decoder\": {\"9999999999\": {\"content\": \"x\"}}}", "too large"},
        {"tokenizer_config.json", "{\"added_tokens_decoder\": {\"4\": {\"content\": \"x\"}}}",
         "'x' has id 4, which belongs to another token"},
        {"tokenizer_config.json", "{\"added_tokens_decoder\": {\"9\": {\"content\": \"a\"}}}",
         "'a' has id 9, which belongs to another token"},
        {"tokenizer_config.json", "{\"additional_special_tokens\": \"x\"}", "expected a list"},
        {"added_tokens.json", "{\"x\": \"8\"}", "token 'x': expected a whole number"},
        {"added_tokens.json", "{\"x\": -8}", "token 'x': expected a whole number"},
        {"added_tokens.json", "[]", "expected a JSON object"},
    };
    kvsi_text file = {0};

    (void)state;
    put_small_model(&file);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kvs_tokenizer *t;
        kvs_err err = {.message = ""};

        write_config_file(cases[i].name, cases[i].text);
        assert_int_not_equal(load_file(&t, "tokenizer.model", file.data, file.length, &err),
                             KVS_OK);
        if (!strstr(err.message, cases[i].words))
            fail_msg("'%s' does not contain '%s'", err.message, cases[i].words);
        write_config_file(cases[i].name, NULL);
    }
    kvsi_text_release(&file);
}

/* For a tokenizer.json only BOS and EOS are read; the template does not change. */
static void test_config_json(void **state)
{
    static const char json[] =
        "{\"added_tokens\": [{\"id\": 0, \"content\": \"<|endoftext|>\", \"special\": true},"
        "{\"id\": 1, \"content\": \"<|im_end|>\", \"special\": true}],"
        "\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 2}, \"merges\": []}}";
    char *saved = kvsi_path_join(support_dir, "saved"), *path;
    kvs_tokenizer *t, *again;
    int made;

    (void)state;
    t = load_text(json);
    assert_int_equal(kvs_tokenizer_eos(t), 0);
    kvs_tokenizer_free(t);
    write_config_file(
        "tokenizer_config.json",
        "{\"add_bos_token\": true, \"bos_token\": null, \"eos_token\": \"<|im_end|>\"}");
    t = load_text(json);
    assert_int_equal(kvs_tokenizer_bos(t), 0);
    assert_int_equal(kvs_tokenizer_eos(t), 1);
    expect_ids(t, "a", "2");
    /* A saved copy has the same EOS. */
    assert_int_equal(kvsi_dir_make(saved, &made, NULL), KVS_OK);
    path = kvsi_path_join(saved, "tokenizer.json");
    assert_int_equal(kvs_tokenizer_save(t, path, NULL), KVS_OK);
    assert_int_equal(kvs_tokenizer_load(&again, path, NULL), KVS_OK);
    assert_int_equal(kvs_tokenizer_eos(again), 1);
    kvs_tokenizer_free(again);
    kvs_tokenizer_free(t);
    write_config_file("tokenizer_config.json", NULL);
    kvsi_free(path);
    kvsi_free(saved);
}

/* A byte-level vocabulary in GGUF: the tokens around a text, also if no key sets them. */
static void test_gguf_templates(void **state)
{
    static const struct {
        const char *pre;
        int add_bos, add_eos; /* -1 = key missing */
        const char *ids;
    } cases[] = {
        {"gpt-2", -1, -1, "0"},    {"gpt-2", 1, 0, "1 0"}, {"gpt-2", 0, 1, "0 2"},
        {"gpt-2", 1, 1, "1 0 2"},  {"qwen2", -1, -1, "0"}, {"llama-bpe", -1, -1, "1 0"},
        {"llama-bpe", 0, -1, "0"},
    };
    static const char words[] = "\10\0\0\0\3\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0a"
                                "\3\0\0\0\0\0\0\0<b>\3\0\0\0\0\0\0\0<e>";
    static const char none[] = "\10\0\0\0\0\0\0\0\0\0\0\0";
    enum { ARRAY = 9, BOOL = 7 };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char flags[2] = {(char)cases[i].add_bos, (char)cases[i].add_eos};
        kvsi_text file = {0};
        kvs_tokenizer *t, *again;
        kvs_err err;
        char *path;

        put_bytes(&file, "GGUF\3\0\0\0", 8);
        put_u64(&file, 0);
        put_u64(&file, 0);
        add_gguf_text(&file, "tokenizer.ggml.model", "gpt2");
        add_gguf_text(&file, "tokenizer.ggml.pre", cases[i].pre);
        add_gguf_key(&file, "tokenizer.ggml.tokens", ARRAY, words, sizeof words - 1);
        add_gguf_key(&file, "tokenizer.ggml.merges", ARRAY, none, sizeof none - 1);
        add_gguf_u32(&file, "tokenizer.ggml.bos_token_id", 1);
        add_gguf_u32(&file, "tokenizer.ggml.eos_token_id", 2);
        if (cases[i].add_bos >= 0)
            add_gguf_key(&file, "tokenizer.ggml.add_bos_token", BOOL, flags, 1);
        if (cases[i].add_eos >= 0)
            add_gguf_key(&file, "tokenizer.ggml.add_eos_token", BOOL, flags + 1, 1);
        if (load_file(&t, "words.gguf", file.data, file.length, &err) != KVS_OK)
            fail_msg("%s", err.message);
        expect_ids(t, "a", cases[i].ids);
        path = kvsi_path_join(support_dir, "saved.json");
        assert_int_equal(kvs_tokenizer_save(t, path, NULL), KVS_OK);
        assert_int_equal(kvs_tokenizer_load(&again, path, NULL), KVS_OK);
        expect_ids(again, "a", cases[i].ids);
        kvs_tokenizer_free(again);
        kvs_tokenizer_free(t);
        kvsi_free(path);
        kvsi_text_release(&file);
    }
}

static void test_character_map(void **state)
{
    (void)state;
    expect_refused(WORDS("\"normalizer\": {\"type\": \"Precompiled\", "
                         "\"precompiled_charsmap\": \"a b\"}"),
                   KVS_E_FORMAT, "base64");
    expect_refused(WORDS("\"normalizer\": {\"type\": \"Precompiled\", "
                         "\"precompiled_charsmap\": \"/////wAAAAA=\"}"),
                   KVS_E_FORMAT, "damaged");
}

/* ---- hostile files --------------------------------------------------------------------------- */

static void test_refusals(void **state)
{
    (void)state;
    expect_refused("{}", KVS_E_FORMAT, "'model'");
    expect_refused("{\"model\": {\"vocab\": {}, \"merges\": []}}", KVS_E_FORMAT, "empty");
    expect_refused("{\"model\": {\"vocab\": {\"a\": 0, \"b\": 0}}}", KVS_E_FORMAT, "id occurs");
    expect_refused("{\"model\": {\"vocab\": {\"a\": 0, \"a\": 1}}}", KVS_E_FORMAT, "duplicate");
    expect_refused("{\"model\": {\"vocab\": {\"a\": 99999999999}}}", KVS_E_FORMAT, "99999999999");
    expect_refused("{\"model\": {\"vocab\": {\"a\": -1}}}", KVS_E_FORMAT, "whole number");
    expect_refused("{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [\"a a\"]}}", KVS_E_FORMAT,
                   "the result is not in the vocabulary");
    expect_refused("{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [\"aa\"]}}", KVS_E_FORMAT,
                   "merge 0");
    expect_refused("{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [[\"a\"]]}}", KVS_E_FORMAT,
                   "merge 0");
    expect_refused("{\"model\": {\"type\": \"Unigram\", \"vocab\": []}}", KVS_E_UNSUPPORTED,
                   "'Unigram'");
    expect_refused("{\"model\": {\"vocab\": {\"a\": 0}, \"dropout\": 0.1}}", KVS_E_UNSUPPORTED,
                   "dropout");
    expect_refused("{\"model\": {\"vocab\": {\"a\": 0}, \"unk_token\": \"?\"}}", KVS_E_FORMAT,
                   "unk_token");
    expect_refused("{\"model\": {\"vocab\": {\"a\": 0}}, \"pre_tokenizer\": {\"type\": \"Split\", "
                   "\"pattern\": {\"Regex\": \"(\"}, \"behavior\": \"Isolated\"}}",
                   KVS_E_FORMAT, "malformed");
    expect_refused(WORDS("\"normalizer\": {\"type\": \"Odd\"}"), KVS_E_UNSUPPORTED,
                   "normalizer 'Odd'");
    expect_refused(WORDS("\"pre_tokenizer\": {\"type\": \"UnicodeScripts\"}"), KVS_E_UNSUPPORTED,
                   "pre-tokenizer 'UnicodeScripts'");
    expect_refused(WORDS("\"post_processor\": {\"type\": \"RobertaProcessing\"}"),
                   KVS_E_UNSUPPORTED, "post-processor 'RobertaProcessing'");
    expect_refused("{\"model\": {\"vocab\": {\"a\": 0}}, \"decoder\": {\"type\": \"CTC\"}}",
                   KVS_E_UNSUPPORTED, "decoder 'CTC'");
    expect_refused("{\"model\": {\"vocab\": {\"a\": 0}}, \"added_tokens\": [{\"id\": 0, "
                   "\"content\": \"b\"}]}",
                   KVS_E_FORMAT, "id occurs twice");
    expect_refused("{\"model\": {\"vocab\": {\"a\": 0}}, \"added_tokens\": [{\"id\": 1, "
                   "\"content\": \"a\"}]}",
                   KVS_E_FORMAT, "the vocabulary has it as 0");
    expect_refused(
        "{\"model\": {\"vocab\": {\"a\": 0}}, \"post_processor\": {\"type\": "
        "\"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"x\"}}, "
        "{\"Sequence\": {\"id\": \"A\"}}], \"special_tokens\": {\"x\": {\"ids\": [7]}}}}",
        KVS_E_FORMAT, "outside the vocabulary");
    expect_refused("\x7f\x45LF what is this", KVS_E_FORMAT, "is not a tokenizer");
    expect_refused("", KVS_E_FORMAT, "is not a tokenizer");
}

static void test_deep_sequences(void **state)
{
    enum { DEPTH = 200 };
    kvsi_text json = {0};

    (void)state;
    kvsi_text_add(&json, "{\"model\": {\"vocab\": {\"a\": 0}}, \"normalizer\": ");
    for (int i = 0; i < DEPTH; i++)
        kvsi_text_add(&json, "{\"type\": \"Sequence\", \"normalizers\": [");
    kvsi_text_add(&json, "{\"type\": \"NFC\"}");
    for (int i = 0; i < DEPTH; i++)
        kvsi_text_add(&json, "]}");
    kvsi_text_add(&json, "}");
    expect_refused(json.data, KVS_E_LIMIT, "nested");
    kvsi_text_release(&json);
}

/* Counts and lengths that exceed the file. */
static void test_hostile_gguf(void **state)
{
    static const struct {
        const char *data;
        size_t size;
    } files[] = {
        {"GGUF\3\0\0\0", 8},
        {"GGUF\3\0\0\0\0\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff", 24},
        {"GGUF\3\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff", 32},
        {"GGUF\3\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0k\x09\0\0\0\x08\0\0\0"
         "\xff\xff\xff\xff\xff\xff\xff\x7f",
         49},
        {"GGUF\3\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0k\x63\0\0\0", 37},
    };

    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        kvs_tokenizer *t;
        kvs_err err;

        assert_int_not_equal(load_file(&t, "bad.gguf", files[i].data, files[i].size, &err), KVS_OK);
        assert_null(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_split_behaviors), cmocka_unit_test(test_other_pre_tokenizers),
        cmocka_unit_test(test_normalizers),     cmocka_unit_test(test_merging),
        cmocka_unit_test(test_added_tokens),    cmocka_unit_test(test_template),
        cmocka_unit_test(test_bytes),           cmocka_unit_test(test_ids_outside),
        cmocka_unit_test(test_expressions),     cmocka_unit_test(test_scores),
        cmocka_unit_test(test_refusals),        cmocka_unit_test(test_deep_sequences),
        cmocka_unit_test(test_hostile_gguf),    cmocka_unit_test(test_sentencepiece),
        cmocka_unit_test(test_character_map),   cmocka_unit_test(test_config_sentencepiece),
        cmocka_unit_test(test_hostile_config),  cmocka_unit_test(test_config_json),
        cmocka_unit_test(test_gguf_templates),
    };

    return cmocka_run_group_tests(tests, support_dir_setup, support_dir_teardown);
}
