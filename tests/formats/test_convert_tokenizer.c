/* Tokenizers in converted models: in every form, texts get the same ids. */
#include "base/files.h"
#include "base/memory.h"
#include "convert/convert.h"
#include "formats/gguf.h"
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const texts[] = {
    "",
    "the cat sat on the mat, the other cat did not",
    "  two  spaces\tand\n\nlines ",
    "Äpfel, straße, 你好 🙂",
    "<s>special</s> the <unk>",
    "x<|end|>y the<|end|> cat",
    "12345 don't",
    "\xff\xfe no text at all",
};

enum { TEXTS = sizeof texts / sizeof *texts };

static kvs_tokenizer *load(const char *path)
{
    kvs_tokenizer *t = NULL;
    kvs_err err;

    if (kvs_tokenizer_load(&t, path, &err) != KVS_OK)
        fail_msg("'%s': %s", path, err.message);
    return t;
}

static void expect_same_ids(const kvs_tokenizer *found, const kvs_tokenizer *expected,
                            const char *text, size_t size)
{
    int32_t *ids, *wanted;
    size_t count, wanted_count;

    assert_int_equal(kvs_tokenizer_encode(&ids, &count, found, text, size, 0, NULL), KVS_OK);
    assert_int_equal(kvs_tokenizer_encode(&wanted, &wanted_count, expected, text, size, 0, NULL),
                     KVS_OK);
    if (count != wanted_count || memcmp(ids, wanted, count * sizeof *ids) != 0)
        fail_msg("'%.40s': %zu ids, expected %zu; count or ids differ", text, count, wanted_count);
    kvs_ids_free(ids);
    kvs_ids_free(wanted);
}

/* Writes a model with this tokenizer and reads the tokenizer back. */
static kvs_status write_with(const char *tokenizer, const char *out, int shifted, kvs_format format,
                             kvs_err *err)
{
    kvs_tokenizer *t = load(tokenizer);
    kvsi_convert_request options;
    kvs_model_config config;

    kvsi_model_config_init(&config);
    config.vocab = kvs_tokenizer_vocab(t) + 3; /* ids without a token */
    config.dim = 8;
    config.heads = 2;
    config.shift.targets = shifted ? KVS_SHIFT_K : 0;
    kvs_tokenizer_free(t);
    kvsi_convert_request_init(&options);
    options.how.config = &config;
    options.out = out;
    options.how.tokenizer = tokenizer;
    options.how.overwrite = 1;
    options.how.format = format;
    return kvsi_convert(&options, err);
}

static void expect_round_trip(const char *tokenizer, const char *name, int shifted)
{
    char *out = kvsi_path_join(support_dir, name);
    kvs_tokenizer *before = load(tokenizer), *after;
    kvs_err err;

    if (write_with(tokenizer, out, shifted, KVS_FORMAT_AUTO, &err) != KVS_OK)
        fail_msg("'%s': %s", tokenizer, err.message);
    after = load(out);
    for (size_t i = 0; i < TEXTS; i++)
        expect_same_ids(after, before, texts[i], strlen(texts[i]));
    assert_int_equal(kvs_tokenizer_bos(after), kvs_tokenizer_bos(before));
    assert_int_equal(kvs_tokenizer_eos(after), kvs_tokenizer_eos(before));
    kvs_tokenizer_free(before);
    kvs_tokenizer_free(after);
    kvsi_free(out);
}

/* The kind of the file's vocabulary; "" if it has none. */
static void expect_kind(const char *name, const char *kind)
{
    char *path = kvsi_path_join(support_dir, name);
    const char *found = "";
    kvsi_gguf *file;
    size_t size = 0;

    assert_int_equal(kvsi_gguf_open(&file, path, NULL), KVS_OK);
    assert_int_equal(kvsi_gguf_get_text(&found, &size, file, "tokenizer.ggml.model", NULL), KVS_OK);
    assert_int_equal(size, strlen(kind));
    assert_memory_equal(found, kind, size);
    kvsi_gguf_close(file);
    kvsi_free(path);
}

static char *write_text(const char *name, const char *text)
{
    char *path = kvsi_path_join(support_dir, name);

    assert_int_equal(kvsi_file_write_text(path, text, NULL), KVS_OK);
    return path;
}

/* ---- byte-level ------------------------------------------------------------------------------ */

static char *learn_byte_level(void)
{
    static const char *const special[] = {"<|end|>"};
    char *corpus = write_text("corpus.txt", "the cat sat on the mat the other cat sat too 12345 "
                                            "don't don't the cat's mat");
    char *path = kvsi_path_join(support_dir, "learned.json");
    const kvs_tokenizer_training training = {
        .size = sizeof(kvs_tokenizer_training), .vocab = 290, .special = special, .specials = 1};
    kvs_tokenizer *t;

    assert_int_equal(kvs_tokenizer_train(&t, (const char *const *)&corpus, 1, &training, NULL),
                     KVS_OK);
    assert_int_equal(kvs_tokenizer_save(t, path, NULL), KVS_OK);
    kvs_tokenizer_free(t);
    kvsi_free(corpus);
    return path;
}

static void byte_level_words_go_along(void **state)
{
    char *learned = learn_byte_level();

    (void)state;
    expect_round_trip(learned, "plain.gguf", 0);
    expect_kind("plain.gguf", "gpt2");
    expect_round_trip(learned, "shifted.gguf", 1);
    expect_kind("shifted.gguf", "gpt2");
    expect_round_trip(learned, "folder", 1);
    expect_round_trip("bytes", "bytes.gguf", 0);
    expect_kind("bytes.gguf", "gpt2");
    kvsi_free(learned);
}

/* ---- SentencePiece and similar --------------------------------------------------------------- */

#define LLAMA_LIKE(merges, normalizer)                                                             \
    "{\"version\": \"1.0\", \"added_tokens\": ["                                                   \
    "{\"id\": 0, \"content\": \"<unk>\", \"special\": true, \"normalized\": false},"               \
    "{\"id\": 1, \"content\": \"<s>\", \"special\": true, \"normalized\": false},"                 \
    "{\"id\": 2, \"content\": \"</s>\", \"special\": true, \"normalized\": false}],"               \
    "\"normalizer\": " normalizer ", \"pre_tokenizer\": null,"                                     \
    "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": ["                         \
    "{\"SpecialToken\": {\"id\": \"<s>\", \"type_id\": 0}},"                                       \
    "{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}], \"pair\": [], \"special_tokens\": {"        \
    "\"<s>\": {\"id\": \"<s>\", \"ids\": [1], \"tokens\": [\"<s>\"]}}},"                           \
    "\"decoder\": null, \"model\": {\"type\": \"BPE\", \"unk_token\": \"<unk>\","                  \
    "\"fuse_unk\": true, \"byte_fallback\": true, \"vocab\": {\"<unk>\": 0, \"<s>\": 1,"           \
    "\"</s>\": 2, \"\xe2\x96\x81\": 3, \"t\": 4, \"h\": 5, \"e\": 6, \"a\": 7, \"c\": 8,"          \
    "\"th\": 9, \"the\": 10, \"\xe2\x96\x81the\": 11, \"at\": 12, \"cat\": 13, \"he\": 14},"       \
    "\"merges\": [" merges "]}}"

#define PREPEND                                                                                    \
    "{\"type\": \"Sequence\", \"normalizers\": ["                                                  \
    "{\"type\": \"Prepend\", \"prepend\": \"\xe2\x96\x81\"},"                                      \
    "{\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": \"\xe2\x96\x81\"}]}"

#define EVERY_CUT "\"t h\", \"a t\", \"h e\", \"t he\", \"th e\", \"c at\", \"\xe2\x96\x81 the\""

static void merges_that_scores_can_say_become_scores(void **state)
{
    char *path = write_text("every.json", LLAMA_LIKE(EVERY_CUT, PREPEND));

    (void)state;
    expect_round_trip(path, "scored.gguf", 0);
    expect_kind("scored.gguf", "llama");
    kvsi_free(path);
}

/* A missing merge, an order that no scores give, other components: the whole tokenizer.json is
 * stored in a kvshift file, and nothing in a llama file. */
static void other_words_go_along_whole(void **state)
{
    static const struct {
        const char *document, *reason;
    } cases[] = {
        {LLAMA_LIKE("\"t h\", \"a t\", \"th e\", \"c at\", \"\xe2\x96\x81 the\"", PREPEND),
         "merges whose order no scores give"},
        {LLAMA_LIKE("\"t he\", \"t h\", \"a t\", \"h e\", \"th e\", \"c at\", \"\xe2\x96\x81 the\"",
                    PREPEND),
         "merges whose order no scores give"},
        {LLAMA_LIKE(EVERY_CUT, "{\"type\": \"Lowercase\"}"), "its normalizer"},
    };
    char *out = kvsi_path_join(support_dir, "refused.gguf");

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *path = write_text("other.json", cases[i].document);
        kvs_err err = {.message = ""};

        expect_round_trip(path, "whole.gguf", 1);
        expect_kind("whole.gguf", "");
        assert_int_equal(write_with(path, out, 0, KVS_FORMAT_GGUF, &err), KVS_E_UNSUPPORTED);
        if (!strstr(err.message, cases[i].reason))
            fail_msg("found '%s', expected '%s'", err.message, cases[i].reason);
        assert_false(kvsi_file_exists(out));
        kvsi_free(path);
    }
    kvsi_free(out);
}

/* ---- real tokenizers ------------------------------------------------------------------------- */

static char *find_data(const char *name)
{
    const char *shared = getenv("KVSHIFT_SHARED");
    char *data = kvsi_path_join(shared ? shared : "", "data"), *path = kvsi_path_join(data, name);

    kvsi_free(data);
    if (shared && kvsi_file_exists(path))
        return path;
    print_message("skipped: no data/%s below $KVSHIFT_SHARED\n", name);
    kvsi_free(path);
    return NULL;
}

static void real_tokenizers_go_along(void **state)
{
    static const struct {
        const char *name, *kind;
    } tokenizers[] = {
        {"tokenizer-llama2/tokenizer.model", "llama"},
        {"tokenizer-llama2/tokenizer.json", "llama"},
        {"tokenizer-llama2/tokenizer.bin", "llama"},
        {"tokenizer-baichuan/tokenizer.model", "llama"}, /* has a character map */
        {"stories260K/tok512.model", "llama"},
        {"tokenizer-gpt2/tokenizer.json", "gpt2"},
        {"tinystories656K-hf/tokenizer.json", ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof tokenizers / sizeof *tokenizers; i++) {
        char *path = find_data(tokenizers[i].name);

        if (!path)
            skip();
        expect_round_trip(path, "real.gguf", 1);
        expect_kind("real.gguf", tokenizers[i].kind);
        expect_round_trip(path, "real", 1);
        kvsi_free(path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(byte_level_words_go_along, support_dir_setup,
                                        support_dir_teardown),
        cmocka_unit_test_setup_teardown(merges_that_scores_can_say_become_scores, support_dir_setup,
                                        support_dir_teardown),
        cmocka_unit_test_setup_teardown(other_words_go_along_whole, support_dir_setup,
                                        support_dir_teardown),
        cmocka_unit_test_setup_teardown(real_tokenizers_go_along, support_dir_setup,
                                        support_dir_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
