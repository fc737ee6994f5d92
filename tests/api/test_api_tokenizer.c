/* Tokenizers, detokenizers and tokenizer training. */
#include "api.h"

#include <kvshift/kvshift_files.h>

static kvs_tokenizer *bytes;

static int setup(void **state)
{
    if (api_setup(state) != 0)
        return -1;
    expect_ok(kvs_tokenizer_load(&bytes, "bytes", &err));
    return 0;
}

static int teardown(void **state)
{
    kvs_tokenizer_free(bytes);
    return api_teardown(state);
}

static void test_load(void **state)
{
    kvs_tokenizer *tokenizer;

    (void)state;
    expect_needed(out, kvs_tokenizer_load(NULL, "bytes", &err));
    expect_no_handle(tokenizer, KVS_E_INVALID, "path is NULL",
                     kvs_tokenizer_load(&tokenizer, NULL, &err));
    tokenizer = bytes;
    assert_int_not_equal(kvs_tokenizer_load(&tokenizer, "", &err), KVS_OK);
    assert_null(tokenizer);
    expect_no_handle(tokenizer, KVS_E_IO, "no-such-file",
                     kvs_tokenizer_load(&tokenizer, api_path("no-such-file"), &err));
    expect_no_handle(
        tokenizer, KVS_E_FORMAT, "tokenizer.json",
        kvs_tokenizer_load(&tokenizer, api_write("tokenizer.json", "{\"model\": 1}"), &err));
    assert_int_equal(kvs_tokenizer_load(&tokenizer, api_path("no-such-file"), NULL), KVS_E_IO);
    expect_nothing(kvs_tokenizer_free(NULL));
}

static void test_save(void **state)
{
    kvs_tokenizer *again;

    (void)state;
    expect_needed(tokenizer, kvs_tokenizer_save(NULL, api_path("a.json"), &err));
    expect_needed(path, kvs_tokenizer_save(bytes, NULL, &err));
    expect_status(KVS_E_IO, "no-folder",
                  kvs_tokenizer_save(bytes, api_path("no-folder/a.json"), &err));
    expect_ok(kvs_tokenizer_save(bytes, api_path("saved.json"), &err));
    expect_ok(kvs_tokenizer_load(&again, api_path("saved.json"), &err));
    assert_int_equal(kvs_tokenizer_vocab(again), 256);
    kvs_tokenizer_free(again);
}

static void test_properties(void **state)
{
    (void)state;
    assert_int_equal(kvs_tokenizer_vocab(bytes), 256);
    assert_int_not_equal(kvs_tokenizer_hash(bytes), 0);
    assert_int_equal(kvs_tokenizer_bos(bytes), -1);
    assert_int_equal(kvs_tokenizer_eos(bytes), -1);
    expect_zero(kvs_tokenizer_vocab(NULL));
    expect_zero(kvs_tokenizer_hash(NULL));
    expect_none(kvs_tokenizer_bos(NULL));
    expect_none(kvs_tokenizer_eos(NULL));
    expect_none(kvs_tokenizer_find(NULL, "a"));
    expect_none(kvs_tokenizer_find(bytes, NULL));
    expect_none(kvs_tokenizer_find(bytes, ""));
    expect_none(kvs_tokenizer_find(bytes, "no such piece"));
}

static void test_encode(void **state)
{
    int32_t *ids;
    size_t count = 7;

    (void)state;
    expect_needed(ids, kvs_tokenizer_encode(NULL, &count, bytes, "a", 1, 0, &err));
    expect_no_handle(ids, KVS_E_INVALID, "count is NULL",
                     kvs_tokenizer_encode(&ids, NULL, bytes, "a", 1, 0, &err));
    expect_no_handle(ids, KVS_E_INVALID, "tokenizer is NULL",
                     kvs_tokenizer_encode(&ids, &count, NULL, "a", 1, 0, &err));
    expect_no_handle(ids, KVS_E_INVALID, "text is NULL",
                     kvs_tokenizer_encode(&ids, &count, bytes, NULL, 1, 0, &err));
    expect_no_handle(ids, KVS_E_INVALID, "flags",
                     kvs_tokenizer_encode(&ids, &count, bytes, "a", 1, 1u << 31, &err));

    expect_ok(kvs_tokenizer_encode(&ids, &count, bytes, "a\0b", 3, 0, &err));
    assert_int_equal(count, 3);
    assert_int_equal(ids[0], 'a');
    assert_int_equal(ids[1], 0);
    assert_int_equal(ids[2], 'b');
    kvs_ids_free(ids);
    expect_ok(kvs_tokenizer_encode(&ids, &count, bytes, "", 0, KVS_ENCODE_NO_SPECIAL, &err));
    assert_int_equal(count, 0);
    kvs_ids_free(ids);
    expect_ok(kvs_tokenizer_encode(&ids, &count, bytes, NULL, 0, 0, &err));
    assert_int_equal(count, 0);
    kvs_ids_free(ids);
    expect_nothing(kvs_ids_free(NULL));
}

static void test_decode(void **state)
{
    static const int32_t ids[] = {'h', 'i'}, wrong[] = {'h', 256}, negative[] = {-1};
    char *text;
    size_t size;

    (void)state;
    expect_needed(text, kvs_tokenizer_decode(NULL, &size, bytes, ids, 2, &err));
    expect_no_handle(text, KVS_E_INVALID, "size is NULL",
                     kvs_tokenizer_decode(&text, NULL, bytes, ids, 2, &err));
    expect_no_handle(text, KVS_E_INVALID, "tokenizer is NULL",
                     kvs_tokenizer_decode(&text, &size, NULL, ids, 2, &err));
    expect_no_handle(text, KVS_E_INVALID, "ids is NULL",
                     kvs_tokenizer_decode(&text, &size, bytes, NULL, 2, &err));
    expect_no_handle(text, KVS_E_INVALID, "256",
                     kvs_tokenizer_decode(&text, &size, bytes, wrong, 2, &err));
    expect_no_handle(text, KVS_E_INVALID, "-1",
                     kvs_tokenizer_decode(&text, &size, bytes, negative, 1, &err));
    expect_ok(kvs_tokenizer_decode(&text, &size, bytes, ids, 2, &err));
    assert_string_equal(text, "hi");
    assert_int_equal(size, 2);
    kvs_text_free(text);
    expect_ok(kvs_tokenizer_decode(&text, &size, bytes, NULL, 0, &err));
    assert_string_equal(text, "");
    assert_int_equal(size, 0);
    kvs_text_free(text);
    expect_nothing(kvs_text_free(NULL));
}

static void test_encode_pair(void **state)
{
    int32_t *ids;
    size_t count, context;

    (void)state;
    expect_needed(ids,
                  kvs_tokenizer_encode_pair(NULL, &count, &context, bytes, "a", 1, "b", 1, &err));
    expect_no_handle(ids, KVS_E_INVALID, "count is NULL",
                     kvs_tokenizer_encode_pair(&ids, NULL, &context, bytes, "a", 1, "b", 1, &err));
    expect_no_handle(ids, KVS_E_INVALID, "context_count is NULL",
                     kvs_tokenizer_encode_pair(&ids, &count, NULL, bytes, "a", 1, "b", 1, &err));
    expect_no_handle(ids, KVS_E_INVALID, "tokenizer is NULL",
                     kvs_tokenizer_encode_pair(&ids, &count, &context, NULL, "a", 1, "b", 1, &err));
    expect_no_handle(
        ids, KVS_E_INVALID, "context is NULL",
        kvs_tokenizer_encode_pair(&ids, &count, &context, bytes, NULL, 1, "b", 1, &err));
    expect_no_handle(
        ids, KVS_E_INVALID, "continuation is NULL",
        kvs_tokenizer_encode_pair(&ids, &count, &context, bytes, "a", 1, NULL, 1, &err));
    /* Without BOS and EOS, an empty context has no token that could predict the first one.  An
     * empty continuation has no token to score. */
    expect_no_handle(ids, KVS_E_INVALID, "",
                     kvs_tokenizer_encode_pair(&ids, &count, &context, bytes, "", 0, "b", 1, &err));
    expect_no_handle(ids, KVS_E_INVALID, "",
                     kvs_tokenizer_encode_pair(&ids, &count, &context, bytes, "a", 1, "", 0, &err));
    expect_ok(kvs_tokenizer_encode_pair(&ids, &count, &context, bytes, "ab ", 3, "c", 1, &err));
    assert_int_equal(count, 4);
    assert_int_equal(context, 2); /* the space belongs to the continuation */
    kvs_ids_free(ids);
}

static void test_detokenizer(void **state)
{
    static const char *const stops[] = {"END"}, *const empty[] = {"a", ""}, *const null[] = {NULL};
    static const int32_t ids[] = {'a', 'E', 'N', 'D', 'b'}, wrong[] = {256};
    kvs_detokenizer *d;
    const char *text;
    size_t size;

    (void)state;
    expect_needed(out, kvs_detokenizer_create(NULL, bytes, NULL, 0, &err));
    expect_no_handle(d, KVS_E_INVALID, "tokenizer is NULL",
                     kvs_detokenizer_create(&d, NULL, NULL, 0, &err));
    expect_no_handle(d, KVS_E_INVALID, "stops is NULL",
                     kvs_detokenizer_create(&d, bytes, NULL, 1, &err));
    expect_no_handle(d, KVS_E_INVALID, "stop", kvs_detokenizer_create(&d, bytes, empty, 2, &err));
    expect_no_handle(d, KVS_E_INVALID, "NULL", kvs_detokenizer_create(&d, bytes, null, 1, &err));
    expect_ok(kvs_detokenizer_create(&d, bytes, NULL, 0, &err));
    kvs_detokenizer_free(d);
    expect_ok(kvs_detokenizer_create(&d, bytes, stops, 1, &err));

    expect_needed(detokenizer, kvs_detokenizer_skip(NULL, ids, 1, &err));
    expect_needed(ids, kvs_detokenizer_skip(d, NULL, 1, &err));
    expect_invalid("256", kvs_detokenizer_skip(d, wrong, 1, &err));
    expect_ok(kvs_detokenizer_skip(d, NULL, 0, &err));
    expect_ok(kvs_detokenizer_skip(d, ids, 1, &err));

    expect_needed(text, kvs_detokenizer_add(NULL, &size, d, ids, 1, &err));
    expect_needed(size, kvs_detokenizer_add(&text, NULL, d, ids, 1, &err));
    expect_no_handle(text, KVS_E_INVALID, "detokenizer is NULL",
                     kvs_detokenizer_add(&text, &size, NULL, ids, 1, &err));
    expect_no_handle(text, KVS_E_INVALID, "ids is NULL",
                     kvs_detokenizer_add(&text, &size, d, NULL, 1, &err));
    expect_no_handle(text, KVS_E_INVALID, "256",
                     kvs_detokenizer_add(&text, &size, d, wrong, 1, &err));
    expect_ok(kvs_detokenizer_add(&text, &size, d, NULL, 0, &err));
    assert_int_equal(size, 0);
    expect_ok(kvs_detokenizer_add(&text, &size, d, ids, 3, &err));
    assert_int_equal(size, 1);
    assert_int_equal(text[0], 'a'); /* "EN" may begin a stop string and is held back */
    assert_int_equal(kvs_detokenizer_stopped(d), 0);
    expect_ok(kvs_detokenizer_add(&text, &size, d, ids + 3, 2, &err));
    assert_int_equal(size, 0);
    assert_int_equal(kvs_detokenizer_stopped(d), 1);

    expect_needed(text, kvs_detokenizer_finish(NULL, &size, d, &err));
    expect_needed(size, kvs_detokenizer_finish(&text, NULL, d, &err));
    expect_no_handle(text, KVS_E_INVALID, "detokenizer is NULL",
                     kvs_detokenizer_finish(&text, &size, NULL, &err));
    expect_ok(kvs_detokenizer_finish(&text, &size, d, &err));
    assert_int_equal(size, 0);
    kvs_detokenizer_reset(d);
    assert_int_equal(kvs_detokenizer_stopped(d), 0);
    kvs_detokenizer_free(d);

    expect_zero(kvs_detokenizer_stopped(NULL));
    expect_nothing(kvs_detokenizer_reset(NULL));
    expect_nothing(kvs_detokenizer_free(NULL));
}

static int stop_at_once(void *user, size_t done, size_t wanted)
{
    (void)done;
    (void)wanted;
    *(int *)user += 1;
    return 1;
}

static void test_train(void **state)
{
    static const char *const null[] = {NULL}, *const special[] = {"<s>"}, *const empty[] = {""};
    const char *file = api_write("text.txt", "one two one two one two three three three");
    const char *files[1];
    kvs_tokenizer *tokenizer;
    kvs_tokenizer_training options;
    int called = 0;

    (void)state;
    files[0] = file;
    expect_init(kvs_tokenizer_training);
    expect_needed(out, kvs_tokenizer_train(NULL, files, 1, NULL, &err));
    expect_no_handle(tokenizer, KVS_E_INVALID, "files is NULL",
                     kvs_tokenizer_train(&tokenizer, NULL, 1, NULL, &err));
    expect_no_handle(tokenizer, KVS_E_INVALID, "NULL",
                     kvs_tokenizer_train(&tokenizer, null, 1, NULL, &err));
    expect_no_handle(tokenizer, KVS_E_INVALID, "",
                     kvs_tokenizer_train(&tokenizer, files, 0, NULL, &err));

    kvs_tokenizer_training_init(&options, sizeof options);
    options.vocab = 260;
    options.threads = -1;
    expect_no_handle(tokenizer, KVS_E_INVALID, "thread",
                     kvs_tokenizer_train(&tokenizer, files, 1, &options, &err));
    options.threads = 1;
    options.vocab = 255; /* less than the number of bytes */
    expect_no_handle(tokenizer, KVS_E_INVALID, "25",
                     kvs_tokenizer_train(&tokenizer, files, 1, &options, &err));
    options.vocab = SIZE_MAX;
    expect_no_handle(tokenizer, KVS_E_INVALID, "vocab",
                     kvs_tokenizer_train(&tokenizer, files, 1, &options, &err));
    options.vocab = 260;
    options.specials = 1;
    expect_no_handle(tokenizer, KVS_E_INVALID, "special",
                     kvs_tokenizer_train(&tokenizer, files, 1, &options, &err));
    options.special = null;
    expect_no_handle(tokenizer, KVS_E_INVALID, "special",
                     kvs_tokenizer_train(&tokenizer, files, 1, &options, &err));
    options.special = empty;
    expect_no_handle(tokenizer, KVS_E_INVALID, "special",
                     kvs_tokenizer_train(&tokenizer, files, 1, &options, &err));
    options.special = special;
    expect_ok(kvs_tokenizer_train(&tokenizer, files, 1, &options, &err));
    assert_int_equal(kvs_tokenizer_vocab(tokenizer), 260);
    assert_int_equal(kvs_tokenizer_find(tokenizer, "<s>"), 0);
    kvs_tokenizer_free(tokenizer);

    options.progress = stop_at_once;
    options.user = &called;
    expect_no_handle(tokenizer, KVS_E_STOPPED, "",
                     kvs_tokenizer_train(&tokenizer, files, 1, &options, &err));
    assert_int_equal(called, 1);

    expect_sizes(kvs_tokenizer_training, offsetof(kvs_tokenizer_training, threads), p->vocab = 260,
                 kvs_tokenizer_train(&tokenizer, files, 1, o, &err), kvs_tokenizer_free(tokenizer));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_load),        cmocka_unit_test(test_save),
        cmocka_unit_test(test_properties),  cmocka_unit_test(test_encode),
        cmocka_unit_test(test_decode),      cmocka_unit_test(test_encode_pair),
        cmocka_unit_test(test_detokenizer), cmocka_unit_test(test_train),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
