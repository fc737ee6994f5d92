/* Hostile tokenizer files: small files that would exhaust memory, time or stack are refused, when
 * loaded or at the first text. */
#include "base/memory.h"
#include "model_files.h"

#include <string.h>

static kvs_status load(kvs_tokenizer **t, const kvsi_text *file, kvs_err *err)
{
    char *path = write_file(support_dir, "tokenizer", file->data, file->length);
    const kvs_status st = kvs_tokenizer_load(t, path, err);

    kvsi_free(path);
    return st;
}

/* Starts a tokenizer.json with one token, "a". */
static void put_document(kvsi_text *json, const char *key, const char *value)
{
    kvsi_text_format(json, "{\"model\": {\"vocab\": {\"a\": 0}}, \"%s\": %s}", key, value);
}

/* {"type": "Sequence", MEMBERS: [STEP, STEP, ...]} as the value of `key`. */
static void put_steps(kvsi_text *json, const char *key, const char *members, const char *step,
                      int count)
{
    kvsi_text steps = {0};

    kvsi_text_format(&steps, "{\"type\": \"Sequence\", \"%s\": [%s", members, step);
    for (int i = 1; i < count; i++)
        kvsi_text_format(&steps, ", %s", step);
    kvsi_text_add(&steps, "]}");
    put_document(json, key, steps.data);
    kvsi_text_release(&steps);
}

static void expect_refused(kvsi_text *json, kvs_status status, const char *words)
{
    kvs_tokenizer *t;
    kvs_err err;

    assert_int_equal(load(&t, json, &err), status);
    assert_null(t);
    if (!strstr(err.message, words))
        fail_msg("'%s' does not contain '%s'", err.message, words);
    kvsi_text_release(json);
}

static kvs_tokenizer *expect_loaded(kvsi_text *json)
{
    kvs_tokenizer *t;
    kvs_err err;

    if (load(&t, json, &err) != KVS_OK)
        fail_msg("%s", err.message);
    kvsi_text_release(json);
    return t;
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* Every step calls the next recursively. */
static void many_steps(void **state)
{
    kvsi_text json = {0};

    (void)state;
    put_steps(&json, "pre_tokenizer", "pretokenizers", "{\"type\": \"Digits\"}", 64);
    kvs_tokenizer_free(expect_loaded(&json));
    put_steps(&json, "pre_tokenizer", "pretokenizers", "{\"type\": \"Digits\"}", 65);
    expect_refused(&json, KVS_E_LIMIT, "more than 64 normalizers");
    put_steps(&json, "decoder", "decoders", "{\"type\": \"Fuse\"}", 65);
    expect_refused(&json, KVS_E_LIMIT, "more than 64 normalizers");
    put_steps(&json, "normalizer", "normalizers", "{\"type\": \"NFC\"}", 65);
    expect_refused(&json, KVS_E_LIMIT, "more than 64 normalizers");
}

/* Each of these at least doubles a text. */
static void growing_words(void **state)
{
    static const char *const steps[] = {
        "{\"type\": \"ByteLevel\", \"use_regex\": false, \"add_prefix_space\": false}",
        "{\"type\": \"Metaspace\", \"replacement\": \"   \", \"split\": false}",
    };

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        kvsi_text json = {0};
        kvs_tokenizer *t;
        int32_t *ids;
        size_t count;
        kvs_err err;

        put_steps(&json, "pre_tokenizer", "pretokenizers", steps[i], 40);
        t = expect_loaded(&json);
        assert_int_equal(kvs_tokenizer_encode(&ids, &count, t, " \xc3\xa9", 3, 0, &err),
                         KVS_E_LIMIT);
        assert_non_null(strstr(err.message, "more than 64 times as long"));
        assert_null(ids);
        kvs_tokenizer_free(t);
    }
}

static void growing_pieces(void **state)
{
    static const char step[] =
        "{\"type\": \"Replace\", \"pattern\": {\"String\": \"a\"}, \"content\": \"aa\"}";
    const int32_t id = 0;
    kvsi_text json = {0};
    kvs_tokenizer *t;
    char *text;
    size_t size;
    kvs_err err;

    (void)state;
    put_steps(&json, "decoder", "decoders", step, 40);
    t = expect_loaded(&json);
    assert_int_equal(kvs_tokenizer_decode(&text, &size, t, &id, 1, &err), KVS_E_LIMIT);
    assert_non_null(strstr(err.message, "more than 64 times as long"));
    assert_null(text);
    kvs_tokenizer_free(t);
}

/* The decoder searches for the replacement; an empty one would match everywhere and never end. */
static void empty_replacement(void **state)
{
    kvsi_text json = {0};

    (void)state;
    put_document(&json, "decoder", "{\"type\": \"Metaspace\", \"replacement\": \"\"}");
    expect_refused(&json, KVS_E_FORMAT, "of a Metaspace is empty");
}

/* Matches that end inside a character. */
static void parts_of_characters(void **state)
{
    kvsi_text json = {0};

    (void)state;
    put_document(&json, "pre_tokenizer",
                 "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"\\\\C\"}, "
                 "\"behavior\": \"Isolated\"}");
    expect_refused(&json, KVS_E_FORMAT, "'\\C' is malformed");
}

/* ---- templates ------------------------------------------------------------------------------- */

/* A template that repeats a token of `ids` ids `times` times. */
static void put_template(kvsi_text *out, int ids, int times)
{
    kvsi_text_add(out, "{\"type\": \"TemplateProcessing\", \"single\": [");
    for (int i = 0; i < times; i++)
        kvsi_text_add(out, "{\"SpecialToken\": {\"id\": \"x\"}}, ");
    kvsi_text_add(out, "{\"Sequence\": {\"id\": \"A\"}}], \"special_tokens\": {\"x\": "
                       "{\"ids\": [0");
    for (int i = 1; i < ids; i++)
        kvsi_text_add(out, ", 0");
    kvsi_text_add(out, "]}}}");
}

static void long_frames(void **state)
{
    kvsi_text template = {0}, json = {0};

    (void)state;
    put_template(&template, 16, 16);
    put_document(&json, "post_processor", template.data);
    kvs_tokenizer_free(expect_loaded(&json));
    kvsi_text_release(&template);

    put_template(&template, 16, 17);
    put_document(&json, "post_processor", template.data);
    expect_refused(&json, KVS_E_LIMIT, "more than 256 tokens on one side");
    kvsi_text_release(&template);

    put_template(&template, 16, 1);
    put_steps(&json, "post_processor", "processors", template.data, 17);
    expect_refused(&json, KVS_E_LIMIT, "more than 256 tokens on one side");
    kvsi_text_release(&template);
}

/* ---- other formats --------------------------------------------------------------------------- */

/* llama2.c: tokens without text. */
static void empty_tokens(void **state)
{
    kvsi_text file = {0};

    (void)state;
    put_u32(&file, 0);
    for (int i = 0; i < 2; i++) {
        put_u32(&file, 0);
        put_u32(&file, 0);
    }
    expect_refused(&file, KVS_E_FORMAT, "token 0 has no text");
}

/* Words without ids: no byte of the text is a token. */
static void words_without_ids(void **state)
{
    kvsi_text json = {0};
    kvs_tokenizer *t;

    (void)state;
    put_document(&json, "pre_tokenizer", "{\"type\": \"ByteLevel\"}");
    t = expect_loaded(&json);
    for (int i = 0; i < 2; i++) {
        int32_t *ids;
        size_t count;

        assert_int_equal(kvs_tokenizer_encode(&ids, &count, t, "b b", 3, 0, NULL), KVS_OK);
        assert_int_equal(count, 0);
        kvs_ids_free(ids);
    }
    kvs_tokenizer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_steps),          cmocka_unit_test(growing_words),
        cmocka_unit_test(growing_pieces),      cmocka_unit_test(empty_replacement),
        cmocka_unit_test(parts_of_characters), cmocka_unit_test(long_frames),
        cmocka_unit_test(empty_tokens),        cmocka_unit_test(words_without_ids),
    };

    return cmocka_run_group_tests(tests, support_dir_setup, support_dir_teardown);
}
