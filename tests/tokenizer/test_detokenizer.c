/* Incremental decoding: whole characters, no part of a stop string, and the same text as from all
 * ids at once; and the boundary of a context and its continuation. */
#include "base/memory.h"
#include "base/random.h"
#include "support.h"
#include "tokenizer/tokenizer.h"

#include <string.h>

#define META "\xe2\x96\x81"

static kvs_tokenizer *load(const char *json)
{
    kvs_tokenizer *t;
    json_t *document;
    kvs_err err;

    assert_int_equal(kvsi_json_parse(&document, json, strlen(json), "test", &err), KVS_OK);
    if (kvsi_tokenizer_from_json(&t, document, "test", &err) != KVS_OK)
        fail_msg("%s", err.message);
    return t;
}

/* Like Llama's: a prefix space, byte fallback, BOS. */
static kvs_tokenizer *llama_like(const char *decoders)
{
    kvsi_text json = {0};
    kvs_tokenizer *t;

    kvsi_text_add(&json,
                  "{\"added_tokens\": [{\"id\": 0, \"content\": \"<s>\", \"special\": true}"
                  "], \"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": "
                  "\"Prepend\", \"prepend\": \"" META "\"}, {\"type\": \"Replace\", "
                  "\"pattern\": {\"String\": \" \"}, \"content\": \"" META "\"}]}, "
                  "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": "
                  "[{\"SpecialToken\": {\"id\": \"<s>\"}}, {\"Sequence\": {\"id\": \"A\"}}], "
                  "\"special_tokens\": {\"<s>\": {\"ids\": [0]}}}, \"decoder\": ");
    kvsi_text_add(&json, decoders);
    kvsi_text_add(&json, ", \"model\": {\"type\": \"BPE\", \"byte_fallback\": true, \"vocab\": {"
                         "\"<s>\": 0, \"a\": 1, \"b\": 2, \"" META "\": 3, \"" META "a\": 4, "
                         "\"ab\": 5");
    for (int byte = 0; byte < 256; byte++)
        kvsi_text_format(&json, ", \"<0x%02X>\": %d", (unsigned)byte, 6 + byte);
    kvsi_text_add(&json, "}, \"merges\": [[\"" META "\", \"a\"], [\"a\", \"b\"]]}}");
    t = load(json.data);
    kvsi_text_release(&json);
    return t;
}

#define STEP_REPLACE                                                                               \
    "{\"type\": \"Replace\", \"pattern\": {\"String\": \"" META "\"}, \"content\": \" \"}"
#define STEP_STRIP "{\"type\": \"Strip\", \"content\": \" \", \"start\": 1, \"stop\": 0}"
#define SEQUENCE(steps) "{\"type\": \"Sequence\", \"decoders\": [" steps "]}"

static const char llama_decoders[] =
    SEQUENCE(STEP_REPLACE ", {\"type\": \"ByteFallback\"}, {\"type\": \"Fuse\"}, " STEP_STRIP);

/* ---- streams --------------------------------------------------------------------------------- */

static kvs_detokenizer *detokenizer(const kvs_tokenizer *t, const char *const *stops, size_t count)
{
    kvs_detokenizer *d;

    assert_int_equal(kvs_detokenizer_create(&d, t, stops, count, NULL), KVS_OK);
    return d;
}

/* The whole text, with | after the part of each id. */
static void stream(kvsi_text *out, kvs_detokenizer *d, const int32_t *ids, size_t count)
{
    const char *text;
    size_t size;

    out->length = 0;
    kvsi_text_add(out, "");
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(kvs_detokenizer_add(&text, &size, d, ids + i, 1, NULL), KVS_OK);
        kvsi_text_add_bytes(out, text, size);
        kvsi_text_add(out, "|");
    }
    assert_int_equal(kvs_detokenizer_finish(&text, &size, d, NULL), KVS_OK);
    kvsi_text_add_bytes(out, text, size);
}

static void expect_stream(const kvs_tokenizer *t, const int32_t *ids, size_t count,
                          const char *const *stops, size_t stop_count, const char *expected)
{
    kvs_detokenizer *d = detokenizer(t, stops, stop_count);
    kvsi_text found = {0};

    for (int round = 0; round < 2; round++) { /* also after a reset */
        stream(&found, d, ids, count);
        assert_string_equal(found.data, expected);
        kvs_detokenizer_reset(d);
    }
    kvsi_text_release(&found);
    kvs_detokenizer_free(d);
}

enum { BYTE = 6 }; /* id of <0x00> */

static void a_leading_space_is_stripped_once(void **state)
{
    kvs_tokenizer *t = llama_like(llama_decoders);

    (void)state;
    expect_stream(t, (int32_t[]){0, 4, 4, 3}, 4, NULL, 0, "|a| a| |");
    expect_stream(t, (int32_t[]){3, 3, 1}, 3, NULL, 0, "| |a|");
    expect_stream(t, (int32_t[]){1, 4}, 2, NULL, 0, "a| a|");
    expect_stream(t, (int32_t[]){BYTE + ' ', BYTE + ' ', 1}, 3, NULL, 0, "| |a|");
    expect_stream(t, (int32_t[]){0}, 1, NULL, 0, "|");
    expect_stream(t, (int32_t[]){0, 0}, 2, NULL, 0, "|<s>|"); /* only the template is omitted */
    kvs_tokenizer_free(t);
}

static void characters_are_never_split(void **state)
{
    kvs_tokenizer *t = llama_like(llama_decoders);

    (void)state;
    /* the euro sign, then only its first two bytes: they are returned at the end or before another
     * letter */
    expect_stream(t, (int32_t[]){1, BYTE + 0xe2, BYTE + 0x82, BYTE + 0xac, 2}, 5, NULL, 0,
                  "a|||\xe2\x82\xac|b|");
    expect_stream(t, (int32_t[]){BYTE + 0xe2, BYTE + 0x82, 2}, 3, NULL, 0,
                  "||\xe2\x82"
                  "b|");
    expect_stream(t, (int32_t[]){1, BYTE + 0xf0, BYTE + 0x9f}, 3, NULL, 0, "a|||\xf0\x9f");
    /* bytes that cannot start a character are returned at once */
    expect_stream(t, (int32_t[]){BYTE + 0x82, BYTE + 0xff, BYTE + 0xc0}, 3, NULL, 0,
                  "\x82|\xff|\xc0|");
    kvs_tokenizer_free(t);
}

static void texts_end_before_a_stop_string(void **state)
{
    static const char *const one[] = {"ba b"}, *const two[] = {"abb", "bb"};
    static const char *const euro[] = {"\xe2\x82\xac"}, *const letter[] = {"a"};
    kvs_tokenizer *t = llama_like(llama_decoders);

    (void)state;
    /* over four tokens; a possible start is held back and returned when it is not one */
    expect_stream(t, (int32_t[]){1, 2, 1, 3, 2, 1}, 6, one, 1, "a||||||");
    expect_stream(t, (int32_t[]){1, 2, 1, 3, 1}, 5, one, 1, "a||||ba a|");
    expect_stream(t, (int32_t[]){2, 1, 3}, 3, one, 1, "|||ba ");
    expect_stream(t, (int32_t[]){2, 2, 1, 3, 2}, 5, one, 1, "|b||||");
    /* a token may end it and continue */
    expect_stream(t, (int32_t[]){2, 5, 2}, 3, letter, 1, "b|||");
    expect_stream(t, (int32_t[]){2, 4, 3, 5}, 4, one, 1, "|b a| |a|b");
    /* the first to end; of two that end together, the longer */
    expect_stream(t, (int32_t[]){1, 2, 2}, 3, two, 2, "|||");
    expect_stream(t, (int32_t[]){2, 2, 1}, 3, two, 2, "|||");
    expect_stream(t, (int32_t[]){5, 2}, 2, two, 2, "||");
    expect_stream(t, (int32_t[]){1, BYTE + 0xe2, BYTE + 0x82, BYTE + 0xac, 1}, 5, euro, 1,
                  "a|||||");
    kvs_tokenizer_free(t);
}

static void a_stop_is_told(void **state)
{
    static const char *const stops[] = {"ab"}, *const empty[] = {"a", ""};
    kvs_tokenizer *t = llama_like(llama_decoders);
    kvs_detokenizer *d = detokenizer(t, stops, 1), *none;
    const char *text;
    size_t size;
    kvs_err err;

    (void)state;
    kvs_detokenizer_add(&text, &size, d, (int32_t[]){1}, 1, NULL);
    assert_false(kvs_detokenizer_stopped(d));
    kvs_detokenizer_add(&text, &size, d, (int32_t[]){2}, 1, NULL);
    assert_true(kvs_detokenizer_stopped(d));
    kvs_detokenizer_finish(&text, &size, d, NULL);
    assert_true(kvs_detokenizer_stopped(d) && size == 0);
    kvs_detokenizer_reset(d);
    assert_false(kvs_detokenizer_stopped(d));
    kvs_detokenizer_free(d);
    assert_int_equal(kvs_detokenizer_create(&none, t, empty, 2, &err), KVS_E_INVALID);
    assert_string_equal(err.message, "stop string 1 is empty");
    assert_null(none);
    kvs_tokenizer_free(t);
}

static void what_goes_before_is_not_shown_but_counts(void **state)
{
    static const char *const stops[] = {"bb"};
    kvs_tokenizer *t = llama_like(llama_decoders);
    kvs_detokenizer *d = detokenizer(t, stops, 1);
    kvsi_text found = {0};

    (void)state;
    assert_int_equal(kvs_detokenizer_skip(d, (int32_t[]){0, 4, 2}, 3, NULL), KVS_OK);
    stream(&found, d, (int32_t[]){4, 2}, 2);
    assert_string_equal(found.data, " a||b"); /* with its space */
    kvs_detokenizer_reset(d);
    assert_int_equal(kvs_detokenizer_skip(d, (int32_t[]){0}, 1, NULL), KVS_OK);
    stream(&found, d, (int32_t[]){4, 2}, 2);
    assert_string_equal(found.data, "a||b"); /* without, at the start of a text */
    kvs_detokenizer_reset(d);
    assert_int_equal(kvs_detokenizer_skip(d, (int32_t[]){2}, 1, NULL), KVS_OK);
    stream(&found, d, (int32_t[]){2, 1},
           2); /* half of a stop string in the skipped text does not count */
    assert_string_equal(found.data, "|ba|");
    kvsi_text_release(&found);
    kvs_detokenizer_free(d);
    kvs_tokenizer_free(t);
}

static void an_id_outside_changes_nothing(void **state)
{
    kvs_tokenizer *t = llama_like(llama_decoders);
    kvs_detokenizer *d = detokenizer(t, NULL, 0);
    const char *text;
    size_t size;
    kvs_err err;

    (void)state;
    assert_int_equal(kvs_detokenizer_add(&text, &size, d, (int32_t[]){1, 999}, 2, &err),
                     KVS_E_INVALID);
    assert_string_equal(err.message, "id 999 is not in the vocabulary of 262 tokens");
    assert_int_equal(kvs_detokenizer_add(&text, &size, d, (int32_t[]){2}, 1, &err), KVS_OK);
    assert_true(size == 1 && *text == 'b');
    kvs_detokenizer_free(d);
    kvs_tokenizer_free(t);
}

/* Decoders after Fuse that need the whole text wait for it. */
static void steps_on_the_whole_text_wait_for_it(void **state)
{
    kvs_tokenizer *t = llama_like(SEQUENCE(
        "{\"type\": \"Fuse\"}, {\"type\": \"Replace\", \"pattern\": {\"String\": \"ab\"}, "
        "\"content\": \"x\"}, {\"type\": \"Strip\", \"content\": \"b\", \"start\": 0, \"stop\": "
        "2}"));

    (void)state;
    expect_stream(t, (int32_t[]){1, 2, 1, 2, 2, 2, 2}, 7, NULL, 0, "|||||||xxb");
    kvs_tokenizer_free(t);
}

/* Ids of every kind, split in every way, give the same text as all at once. */
static void any_pieces_give_the_same_text(void **state)
{
    static const char *const decoders[] = {
        llama_decoders, "{\"type\": \"Metaspace\", \"replacement\": \"" META "\"}", "null",
        SEQUENCE("{\"type\": \"ByteFallback\"}, {\"type\": \"Fuse\"}, {\"type\": \"Strip\", "
                 "\"content\": \"ab\", \"start\": 3, \"stop\": 0}")};
    enum { COUNT = 60 };

    (void)state;
    for (unsigned trial = 0; trial < 400; trial++) {
        kvs_tokenizer *t = llama_like(decoders[trial % 4]);
        kvs_detokenizer *d = detokenizer(t, NULL, 0);
        kvsi_text found = {0};
        int32_t ids[COUNT];
        kvsi_random random;
        const char *part;
        char *whole;
        size_t size, part_size;

        kvsi_random_init(&random, 3, KVSI_RANDOM_DATA, trial);
        for (size_t i = 0; i < COUNT; i++)
            ids[i] = (int32_t)kvsi_random_below(&random, trial % 3 ? 7 : 262);
        assert_int_equal(kvs_tokenizer_decode(&whole, &size, t, ids, COUNT, NULL), KVS_OK);
        for (size_t at = 0, count; at < COUNT; at += count) {
            count = kvsi_random_below(&random, 4);
            count = count < COUNT - at ? count : COUNT - at;
            assert_int_equal(kvs_detokenizer_add(&part, &part_size, d, ids + at, count, NULL),
                             KVS_OK);
            kvsi_text_add_bytes(&found, part, part_size);
        }
        assert_int_equal(kvs_detokenizer_finish(&part, &part_size, d, NULL), KVS_OK);
        kvsi_text_add_bytes(&found, part, part_size);
        assert_int_equal(found.length, size);
        assert_memory_equal(found.data, whole, size);
        kvsi_text_release(&found);
        kvs_text_free(whole);
        kvs_detokenizer_free(d);
        kvs_tokenizer_free(t);
    }
}

/* ---- pairs ----------------------------------------------------------------------------------- */

static void expect_pair(const kvs_tokenizer *t, const char *context, const char *continuation,
                        size_t context_count, const int32_t *expected, size_t count)
{
    int32_t *ids;
    size_t found, border;
    kvs_err err;

    if (kvs_tokenizer_encode_pair(&ids, &found, &border, t, context, strlen(context), continuation,
                                  strlen(continuation), &err) != KVS_OK)
        fail_msg("'%s', '%s': %s", context, continuation, err.message);
    assert_int_equal(border, context_count);
    assert_int_equal(found, count);
    assert_memory_equal(ids, expected, count * sizeof *ids);
    kvs_ids_free(ids);
}

static void pairs_are_split_as_evaluations_do(void **state)
{
    kvs_tokenizer *t = llama_like(llama_decoders);

    (void)state;
    expect_pair(t, "a", "b", 2, (int32_t[]){0, 4, 2}, 3);
    /* a space at the end of the context belongs to the continuation: "b", " a" */
    expect_pair(t, "b ", "a", 3, (int32_t[]){0, 3, 2, 4}, 4);
    expect_pair(t, "b", " a", 3, (int32_t[]){0, 3, 2, 4}, 4);
    /* "ba" is b, a, but the joined text is b, ab: the boundary is after as many ids as the context
     * alone has */
    expect_pair(t, "ba", "ba", 4, (int32_t[]){0, 3, 2, 1, 1}, 5);
    /* an empty context is BOS */
    expect_pair(t, "", "a", 1, (int32_t[]){0, 4}, 2);
    expect_pair(t, " ", "a", 1, (int32_t[]){0, 3, 4}, 3);
    kvs_tokenizer_free(t);
}

static void pairs_without_a_border_are_refused(void **state)
{
    kvs_tokenizer *t = llama_like(llama_decoders), *bytes;
    int32_t *ids;
    size_t count, border;
    kvs_err err;

    (void)state;
    assert_int_equal(kvs_tokenizer_encode_pair(&ids, &count, &border, t, "ba", 2, "b", 1, &err),
                     KVS_E_INVALID);
    assert_string_equal(err.message, "the continuation has no token of its own: the context has 3 "
                                     "tokens, context and continuation 3");
    assert_null(ids);
    assert_int_equal(kvs_tokenizer_encode_pair(&ids, &count, &border, t, "b", 1, "", 0, &err),
                     KVS_E_INVALID);
    assert_int_equal(kvs_tokenizer_load(&bytes, "bytes", &err), KVS_OK);
    assert_int_equal(kvs_tokenizer_encode_pair(&ids, &count, &border, bytes, "", 0, "b", 1, &err),
                     KVS_E_INVALID);
    assert_non_null(strstr(err.message, "neither BOS nor EOS"));
    kvs_tokenizer_free(bytes);
    kvs_tokenizer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_leading_space_is_stripped_once),
        cmocka_unit_test(characters_are_never_split),
        cmocka_unit_test(texts_end_before_a_stop_string),
        cmocka_unit_test(a_stop_is_told),
        cmocka_unit_test(what_goes_before_is_not_shown_but_counts),
        cmocka_unit_test(an_id_outside_changes_nothing),
        cmocka_unit_test(steps_on_the_whole_text_wait_for_it),
        cmocka_unit_test(any_pieces_give_the_same_text),
        cmocka_unit_test(pairs_are_split_as_evaluations_do),
        cmocka_unit_test(pairs_without_a_border_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
