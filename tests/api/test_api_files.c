/* Files: descriptions and checks of models, formats, conversion, documents, corpora. */
#include "api.h"

#include <kvshift/kvshift_files.h>

/* ---- model files ---- */

static void test_describe(void **state)
{
    kvs_model_info info = {.size = sizeof info};
    struct {
        kvs_model_info info;
        unsigned char more[API_EXTRA];
    } wide = {.info.size = sizeof wide};

    (void)state;
    expect_ok(kvs_model_save(api_model, api_dir, &err));
    expect_needed(out, kvs_model_describe(NULL, api_dir, &err));
    expect_needed(path, kvs_model_describe(&info, NULL, &err));
    expect_status(KVS_E_IO, "no-such-file",
                  kvs_model_describe(&info, api_path("no-such-file"), &err));
    info.size = 0;
    expect_invalid("size", kvs_model_describe(&info, api_dir, &err));
    info.size = offsetof(kvs_model_info, bytes);
    info.bytes = 77;
    expect_ok(kvs_model_describe(&info, api_dir, &err));
    assert_string_equal(info.format, "safetensors");
    assert_int_equal(info.files, 1);
    assert_int_equal(info.bytes, 77); /* not a field of the smaller struct */
    expect_ok(kvs_model_describe(&wide.info, api_dir, &err));
    assert_int_equal(wide.info.size, sizeof wide);
    assert_true(wide.info.bytes > 0);
}

static void test_check(void **state)
{
    kvs_model_check_result result = {.size = sizeof result};

    (void)state;
    expect_ok(kvs_model_save(api_model, api_dir, &err));
    expect_needed(path, kvs_model_check(&result, NULL, &err));
    expect_status(KVS_E_IO, "no-such-file",
                  kvs_model_check(&result, api_path("no-such-file"), &err));
    expect_ok(kvs_model_check(NULL, api_dir, &err));
    expect_ok(kvs_model_check(&result, api_dir, &err));
    assert_int_equal(result.has_checksums, 0);
    assert_int_equal(result.values, kvs_model_parameters(api_model));
    result.size = 0;
    expect_invalid("size", kvs_model_check(&result, api_dir, &err));
    result.size = offsetof(kvs_model_check_result, values);
    result.values = 77;
    expect_ok(kvs_model_check(&result, api_dir, &err));
    assert_int_equal(result.values, 77);
}

static void test_formats(void **state)
{
    kvs_format format;

    (void)state;
    for (int i = KVS_FORMAT_AUTO; i <= KVS_FORMAT_LLAMA2C_V1; i++) {
        expect_ok(kvs_format_parse(&format, kvs_format_name((kvs_format)i), &err));
        assert_int_equal(format, i);
    }
    assert_null(kvs_format_name((kvs_format)-1));
    assert_null(kvs_format_name((kvs_format)(KVS_FORMAT_LLAMA2C_V1 + 1)));
    expect_needed(out, kvs_format_parse(NULL, "hf", &err));
    expect_needed(name, kvs_format_parse(&format, NULL, &err));
    expect_invalid("docx", kvs_format_parse(&format, "docx", &err));
    expect_invalid("", kvs_format_parse(&format, "", &err));
}

static int stop_bytes(void *user, uint64_t done, uint64_t all)
{
    assert_true(done <= all);
    ++*(int *)user;
    return 1;
}

static void test_convert(void **state)
{
    kvs_convert_options options;
    kvs_model_config *config = api_config();
    int called = 0;

    (void)state;
    expect_init(kvs_convert_options);
    expect_ok(kvs_model_save(api_model, api_dir, &err));
    expect_needed(out, kvs_convert(NULL, api_dir, NULL, &err));
    /* There is neither an input nor a configuration. */
    expect_invalid("config", kvs_convert(api_path("a.gguf"), NULL, NULL, &err));
    assert_int_not_equal(kvs_convert("", api_dir, NULL, &err), KVS_OK);
    expect_status(KVS_E_IO, "no-such-file",
                  kvs_convert(api_path("a.gguf"), api_path("no-such-file"), NULL, &err));
    kvs_convert_options_init(&options, sizeof options);
    options.format = (kvs_format)99;
    expect_invalid("format", kvs_convert(api_path("a.gguf"), api_dir, &options, &err));
    options.format = KVS_FORMAT_AUTO;
    options.dtype = (kvs_dtype)99;
    expect_invalid("", kvs_convert(api_path("a.gguf"), api_dir, &options, &err));
    options.dtype = KVS_DTYPE_KEEP;
    options.threads = -1;
    expect_invalid("thread", kvs_convert(api_path("a.gguf"), api_dir, &options, &err));
    options.threads = 1;
    options.config = config; /* not allowed with an input */
    expect_invalid("config", kvs_convert(api_path("a.gguf"), api_dir, &options, &err));
    expect_ok(kvs_convert(api_path("random.gguf"), NULL, &options, &err));
    options.config = NULL;
    options.format = KVS_FORMAT_LLAMA2C; /* this format cannot hold a shift */
    expect_status(KVS_E_UNSUPPORTED, "", kvs_convert(api_path("a.bin"), api_dir, &options, &err));
    options.format = KVS_FORMAT_AUTO;
    options.progress = stop_bytes;
    options.user = &called;
    expect_status(KVS_E_STOPPED, "", kvs_convert(api_path("a.gguf"), api_dir, &options, &err));
    assert_int_equal(called, 1);
    assert_int_not_equal(access(api_path("a.gguf"), F_OK), 0); /* there is no partial file */
    expect_ok(kvs_convert(api_path("a.gguf"), api_dir, NULL, &err));
    expect_status(KVS_E_EXISTS, "a.gguf", kvs_convert(api_path("a.gguf"), api_dir, NULL, &err));
    expect_sizes(kvs_convert_options, offsetof(kvs_convert_options, threads), p->overwrite = 1,
                 kvs_convert(api_path("a.gguf"), api_dir, o, &err), (void)0);
    kvs_model_config_free(config);
}

/* ---- texts ---- */

static void test_documents(void **state)
{
    const char *path = api_write("docs.txt", "one<|endoftext|>two");
    kvs_documents *documents;
    const char *text;
    size_t size;
    int last;

    (void)state;
    expect_needed(out, kvs_documents_open(NULL, path, NULL, NULL, &err));
    expect_no_handle(documents, KVS_E_INVALID, "path is NULL",
                     kvs_documents_open(&documents, NULL, NULL, NULL, &err));
    expect_no_handle(documents, KVS_E_IO, "no-such-file",
                     kvs_documents_open(&documents, api_path("no-such-file"), NULL, NULL, &err));
    expect_ok(kvs_documents_open(&documents, path, NULL, NULL, &err));
    expect_needed(text, kvs_documents_next(NULL, &size, &last, documents, &err));
    expect_no_handle(text, KVS_E_INVALID, "size is NULL",
                     kvs_documents_next(&text, NULL, &last, documents, &err));
    expect_no_handle(text, KVS_E_INVALID, "documents is NULL",
                     kvs_documents_next(&text, &size, &last, NULL, &err));
    expect_no_handle(text, KVS_E_INVALID, "last is NULL",
                     kvs_documents_next(&text, &size, NULL, documents, &err));
    expect_ok(kvs_documents_next(&text, &size, &last, documents, &err));
    assert_int_equal(size, 3);
    assert_memory_equal(text, "one", 3);
    assert_int_equal(last, 1);
    expect_ok(kvs_documents_next(&text, &size, &last, documents, &err));
    assert_memory_equal(text, "two", 3);
    expect_ok(kvs_documents_next(&text, &size, &last, documents, &err));
    assert_null(text);
    expect_ok(kvs_documents_next(&text, &size, &last, documents, &err));
    assert_null(text);
    assert_int_not_equal(kvs_documents_checksum(documents), 0);
    expect_zero(kvs_documents_checksum(NULL));
    kvs_documents_close(documents);
    expect_ok(kvs_documents_open(&documents, path, "text", "", &err));
    expect_ok(kvs_documents_next(&text, &size, &last, documents, &err));
    assert_int_equal(size, 19);
    kvs_documents_close(documents);
    expect_nothing(kvs_documents_close(NULL));
}

/* ---- corpora ---- */

static int stop_corpus(void *user, const kvs_corpus_progress *progress)
{
    (void)progress;
    ++*(int *)user;
    return 1;
}

static void test_corpus_build(void **state)
{
    static const char *const null[] = {NULL};
    const char *files[] = {api_write("novel.txt", "It was a dark and stormy night.")};
    char file[256];
    kvs_corpus_build_options options;
    int called = 0;

    (void)state;
    snprintf(file, sizeof file, "%s", files[0]);
    files[0] = file;
    expect_init(kvs_corpus_build_options);
    expect_needed(dir, kvs_corpus_build(NULL, files, 1, "bytes", NULL, &err));
    expect_needed(files, kvs_corpus_build(api_path("c"), NULL, 1, "bytes", NULL, &err));
    expect_invalid("NULL", kvs_corpus_build(api_path("c"), null, 1, "bytes", NULL, &err));
    expect_invalid("", kvs_corpus_build(api_path("c"), files, 0, "bytes", NULL, &err));
    expect_needed(tokenizer, kvs_corpus_build(api_path("c"), files, 1, NULL, NULL, &err));
    expect_status(KVS_E_IO, "no-such-file",
                  kvs_corpus_build(api_path("c"), files, 1, api_path("no-such-file"), NULL, &err));
    assert_int_not_equal(kvs_corpus_build("", files, 1, "bytes", NULL, &err), KVS_OK);
    kvs_corpus_build_options_init(&options, sizeof options);
    options.valid = 1;
    expect_invalid("valid", kvs_corpus_build(api_path("c"), files, 1, "bytes", &options, &err));
    options.valid = -0.1;
    expect_invalid("valid", kvs_corpus_build(api_path("c"), files, 1, "bytes", &options, &err));
    options.valid = NAN;
    expect_invalid("valid", kvs_corpus_build(api_path("c"), files, 1, "bytes", &options, &err));
    options.valid = 0;
    options.eos = KVS_EOS_YES; /* the tokenizer "bytes" has no EOS */
    expect_invalid("EOS", kvs_corpus_build(api_path("c"), files, 1, "bytes", &options, &err));
    options.eos = (kvs_eos)9;
    expect_invalid("eos", kvs_corpus_build(api_path("c"), files, 1, "bytes", &options, &err));
    options.eos = KVS_EOS_AUTO;
    options.progress = stop_corpus;
    options.user = &called;
    expect_status(KVS_E_STOPPED, "",
                  kvs_corpus_build(api_path("c"), files, 1, "bytes", &options, &err));
    assert_int_equal(called, 1);
    assert_int_not_equal(access(api_path("c"), F_OK), 0);
    expect_ok(kvs_corpus_build(api_path("c"), files, 1, "bytes", NULL, &err));
    expect_status(KVS_E_EXISTS, "", kvs_corpus_build(api_path("c"), files, 1, "bytes", NULL, &err));
    expect_sizes(kvs_corpus_build_options, offsetof(kvs_corpus_build_options, progress),
                 p->overwrite = 1, kvs_corpus_build(api_path("c"), files, 1, "bytes", o, &err),
                 (void)0);
}

/* Builds a corpus of two documents, `valid` of which are for validation. */
static kvs_corpus *built(double valid)
{
    const char *files[1];
    char file[256];
    kvs_corpus_build_options options;
    kvs_corpus *corpus;

    snprintf(file, sizeof file, "%s", api_write("two.txt", "first text<|endoftext|>second"));
    files[0] = file;
    kvs_corpus_build_options_init(&options, sizeof options);
    options.overwrite = 1;
    options.valid = valid;
    expect_ok(kvs_corpus_build(api_path("two"), files, 1, "bytes", &options, &err));
    expect_ok(kvs_corpus_open(&corpus, api_path("two"), NULL, &err));
    return corpus;
}

static void test_corpus_open(void **state)
{
    kvs_corpus *corpus = built(0);

    (void)state;
    kvs_corpus_close(corpus);
    expect_init(kvs_corpus_options);
    expect_needed(out, kvs_corpus_open(NULL, api_path("two"), NULL, &err));
    expect_no_handle(corpus, KVS_E_INVALID, "path is NULL",
                     kvs_corpus_open(&corpus, NULL, NULL, &err));
    expect_no_handle(corpus, KVS_E_IO, "no-such-file",
                     kvs_corpus_open(&corpus, api_path("no-such-file"), NULL, &err));
    expect_sizes(kvs_corpus_options, offsetof(kvs_corpus_options, tokenizer), (void)p,
                 kvs_corpus_open(&corpus, api_path("two"), o, &err), kvs_corpus_close(corpus));
    expect_nothing(kvs_corpus_close(NULL));
}

static void test_corpus(void **state)
{
    kvs_corpus *corpus = built(0);
    kvs_tokenizer *tokenizer;
    kvs_data *data;
    int32_t ids[32];
    uint64_t bytes, checksum;

    (void)state;
    assert_int_equal(kvs_corpus_get_info(corpus)->split[KVS_SPLIT_TRAIN].documents, 2);
    expect_null(kvs_corpus_get_info(NULL));
    expect_needed(out, kvs_corpus_load_tokenizer(NULL, corpus, &err));
    expect_no_handle(tokenizer, KVS_E_INVALID, "corpus is NULL",
                     kvs_corpus_load_tokenizer(&tokenizer, NULL, &err));
    expect_ok(kvs_corpus_load_tokenizer(&tokenizer, corpus, &err));
    assert_int_equal(kvs_tokenizer_vocab(tokenizer), 256);
    kvs_tokenizer_free(tokenizer);
    expect_needed(corpus, kvs_corpus_check(NULL, &err));
    expect_ok(kvs_corpus_check(corpus, &err));

    expect_needed(corpus, kvs_corpus_hold_out(NULL, 0.5, &err));
    expect_invalid("", kvs_corpus_hold_out(corpus, NAN, &err));
    expect_invalid("", kvs_corpus_hold_out(corpus, 0.5, &err)); /* not a single file */

    assert_non_null(strstr(kvs_corpus_source(corpus, 0, &bytes, &checksum), "two.txt"));
    assert_int_equal(bytes, 29);
    assert_non_null(kvs_corpus_source(corpus, 0, NULL, NULL));
    expect_null(kvs_corpus_source(corpus, 1, &bytes, NULL));
    expect_null(kvs_corpus_source(corpus, SIZE_MAX, NULL, NULL));
    expect_null(kvs_corpus_source(NULL, 0, NULL, NULL));

    assert_int_equal(kvs_corpus_read(ids, 32, corpus, KVS_SPLIT_TRAIN, 0), 16);
    assert_int_equal(ids[10], 's');
    assert_int_equal(kvs_corpus_read(ids, 32, corpus, KVS_SPLIT_TRAIN, 15), 1);
    expect_zero(kvs_corpus_read(ids, 32, corpus, KVS_SPLIT_TRAIN, 16));
    expect_zero(kvs_corpus_read(ids, 32, corpus, KVS_SPLIT_TRAIN, UINT64_MAX));
    expect_zero(kvs_corpus_read(ids, 32, corpus, KVS_SPLIT_VALID, 0));
    expect_zero(kvs_corpus_read(ids, 32, corpus, (kvs_split)9, 0));
    expect_zero(kvs_corpus_read(ids, 0, corpus, KVS_SPLIT_TRAIN, 0));
    expect_zero(kvs_corpus_read(NULL, 32, corpus, KVS_SPLIT_TRAIN, 0));
    expect_zero(kvs_corpus_read(ids, 32, NULL, KVS_SPLIT_TRAIN, 0));

    assert_int_equal(kvs_corpus_document(ids, 32, corpus, KVS_SPLIT_TRAIN, 1), 6);
    assert_int_equal(kvs_corpus_document(ids, 2, corpus, KVS_SPLIT_TRAIN, 1), 6);
    assert_int_equal(kvs_corpus_document(NULL, 0, corpus, KVS_SPLIT_TRAIN, 1), 6);
    expect_zero(kvs_corpus_document(ids, 32, corpus, KVS_SPLIT_TRAIN, 2));
    expect_zero(kvs_corpus_document(ids, 32, corpus, KVS_SPLIT_TRAIN, UINT64_MAX));
    expect_zero(kvs_corpus_document(ids, 32, corpus, (kvs_split)9, 0));
    expect_zero(kvs_corpus_document(NULL, 32, corpus, KVS_SPLIT_TRAIN, 0));
    expect_zero(kvs_corpus_document(ids, 32, NULL, KVS_SPLIT_TRAIN, 0));

    assert_int_equal(kvs_corpus_windows(corpus, KVS_SPLIT_TRAIN, 100), 2);
    expect_zero(kvs_corpus_windows(corpus, KVS_SPLIT_TRAIN, 0));
    expect_zero(kvs_corpus_windows(corpus, KVS_SPLIT_VALID, 4));
    expect_zero(kvs_corpus_windows(corpus, (kvs_split)9, 4));
    expect_zero(kvs_corpus_windows(NULL, KVS_SPLIT_TRAIN, 4));

    expect_needed(out, kvs_data_create_corpus(NULL, corpus, 4, &err));
    expect_no_handle(data, KVS_E_INVALID, "corpus is NULL",
                     kvs_data_create_corpus(&data, NULL, 4, &err));
    expect_no_handle(data, KVS_E_INVALID, "context",
                     kvs_data_create_corpus(&data, corpus, 0, &err));
    expect_no_handle(data, KVS_E_INVALID, "validation",
                     kvs_data_create_corpus(&data, corpus, 4, &err));
    kvs_corpus_close(corpus);
    corpus = built(0.5);
    expect_ok(kvs_data_create_corpus(&data, corpus, 4, &err));
    assert_int_equal(kvs_data_vocab(data), 256);
    kvs_data_free(data);
    kvs_corpus_close(corpus);
}

static void test_records(void **state)
{
    const char *path = api_write("pairs.jsonl", "{\"prompt\": \"a\", \"response\": \"b\"}\n"
                                                "{\"prompt\": \"c\", \"response\": \"d\"}\n");
    kvs_records_info info = {.size = sizeof info};
    kvs_records_options usual;
    kvs_record_kind kind;
    kvs_tokenizer *bytes;
    kvs_data *data;

    (void)state;
    expect_needed(out, kvs_records_detect(NULL, path, NULL, &err));
    expect_needed(path, kvs_records_detect(&kind, NULL, NULL, &err));
    expect_status(KVS_E_FORMAT, "line 1: expected 'messages'",
                  kvs_records_detect(&kind, api_write("a.jsonl", "{}"), NULL, &err));
    path = api_write("pairs.jsonl", "{\"prompt\": \"a\", \"response\": \"b\"}\n"
                                    "{\"prompt\": \"c\", \"response\": \"d\"}\n");
    expect_ok(kvs_records_detect(&kind, path, NULL, &err));
    assert_int_equal(kind, KVS_RECORD_PAIR);

    expect_init(kvs_records_options);
    kvs_records_options_init(&usual, sizeof usual);
    expect_needed(out, kvs_data_create_records(NULL, &info, path, &usual, &err));
    expect_no_handle(data, KVS_E_INVALID, "path is NULL",
                     kvs_data_create_records(&data, &info, NULL, &usual, &err));
    expect_no_handle(data, KVS_E_INVALID, "options is NULL",
                     kvs_data_create_records(&data, &info, path, NULL, &err));
    expect_no_handle(data, KVS_E_INVALID, "tokenizer is NULL",
                     kvs_data_create_records(&data, &info, path, &usual, &err));
    expect_ok(kvs_tokenizer_load(&bytes, "bytes", &err));
    usual.tokenizer = bytes;
    expect_no_handle(data, KVS_E_INVALID, "length is 0",
                     kvs_data_create_records(&data, &info, path, &usual, &err));
    usual.length = 8;
    usual.fraction = 1;
    expect_no_handle(data, KVS_E_INVALID, "fraction is 1",
                     kvs_data_create_records(&data, &info, path, &usual, &err));
    usual.fraction = 0.05;
    info.size = 0;
    expect_no_handle(data, KVS_E_INVALID, "kvs_records_info",
                     kvs_data_create_records(&data, &info, path, &usual, &err));
    info.size = sizeof info;
    expect_ok(kvs_data_create_records(&data, &info, path, &usual, &err));
    assert_int_equal(info.split[KVS_SPLIT_TRAIN].records, 1);
    assert_int_equal(info.split[KVS_SPLIT_VALID].records, 1);
    kvs_data_free(data);
    kvs_tokenizer_free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_describe),    cmocka_unit_test(test_check),
        cmocka_unit_test(test_formats),     cmocka_unit_test(test_convert),
        cmocka_unit_test(test_documents),   cmocka_unit_test(test_corpus_build),
        cmocka_unit_test(test_corpus_open), cmocka_unit_test(test_corpus),
        cmocka_unit_test(test_records),
    };

    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
