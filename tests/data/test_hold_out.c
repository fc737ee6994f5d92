/* A single file of token ids as a corpus: its last part is the validation split. */
#include "base/files.h"
#include "base/memory.h"
#include "data/data.h"
#include "support.h"

#include <stdio.h>
#include <string.h>

enum { TOKENS = 1000, LLMC_HEADER = 256 };

/* Token t has id t; ids of 2 bytes as nanoGPT has them, or of 4 bytes as llm.c. */
static void write_ids(const char *path, int is_wide, size_t tokens)
{
    int32_t header[LLMC_HEADER] = {20240801, 7, (int32_t)tokens};
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    if (is_wide)
        assert_int_equal(fwrite(header, sizeof header, 1, file), 1);
    for (size_t t = 0; t < tokens; t++) {
        const uint16_t narrow = (uint16_t)t;
        const uint32_t wide = (uint32_t)t;

        assert_int_equal(is_wide ? fwrite(&wide, 4, 1, file) : fwrite(&narrow, 2, 1, file), 1);
    }
    assert_int_equal(fclose(file), 0);
}

static kvs_corpus *open_ids(const char *path)
{
    const kvs_corpus_options how = {.size = sizeof(kvs_corpus_options), .vocab = TOKENS};
    kvs_corpus *corpus;

    assert_int_equal(kvs_corpus_open(&corpus, path, &how, NULL), KVS_OK);
    return corpus;
}

static void check_split(const kvs_corpus *corpus, kvs_split split, int32_t first, size_t tokens)
{
    const kvs_split_info *info = &kvs_corpus_get_info(corpus)->split[split];
    int32_t ids[TOKENS + 1];

    assert_int_equal(info->tokens, tokens);
    assert_int_equal(info->longest, tokens);
    assert_int_equal(info->documents, 1);
    assert_int_equal(kvs_corpus_read(ids, TOKENS + 1, corpus, split, 0), tokens);
    assert_int_equal(ids[0], first);
    assert_int_equal(ids[tokens - 1], first + (int32_t)tokens - 1);
    assert_int_equal(kvs_corpus_document(ids, TOKENS, corpus, split, 0), tokens);
    assert_int_equal(ids[0], first);
}

static void the_end_is_held_out(void **state)
{
    char *dir = support_make_dir(), *path = kvsi_path_join(dir, "x.bin");

    (void)state;
    for (int is_wide = 0; is_wide < 2; is_wide++) {
        kvs_corpus *corpus;
        kvs_data *task;

        write_ids(path, is_wide, TOKENS);
        corpus = open_ids(path);
        assert_int_equal(kvs_data_create_corpus(&task, corpus, 10, NULL), KVS_E_INVALID);
        assert_int_equal(kvs_corpus_hold_out(corpus, 0.1, NULL), KVS_OK);
        check_split(corpus, KVS_SPLIT_TRAIN, 0, 900);
        check_split(corpus, KVS_SPLIT_VALID, 900, 100);
        assert_int_equal(kvs_corpus_check(corpus, NULL), KVS_OK);
        assert_int_equal(kvs_corpus_windows(corpus, KVS_SPLIT_VALID, 10), 10);
        assert_int_equal(kvs_data_create_corpus(&task, corpus, 10, NULL), KVS_OK);
        kvs_data_free(task);
        kvs_corpus_close(corpus);
    }
    kvsi_free(path);
    support_remove_dir(dir);
}

static void expect_refusal(kvs_corpus *corpus, double fraction, const char *text)
{
    const uint64_t tokens = kvs_corpus_get_info(corpus)->split[KVS_SPLIT_TRAIN].tokens;
    kvs_err err;

    assert_int_equal(kvs_corpus_hold_out(corpus, fraction, &err), KVS_E_INVALID);
    assert_non_null(strstr(err.message, text));
    assert_int_equal(kvs_corpus_get_info(corpus)->split[KVS_SPLIT_TRAIN].tokens, tokens);
}

static void what_cannot_be_cut_is_refused(void **state)
{
    char *dir = support_make_dir(), *path = kvsi_path_join(dir, "x.bin");
    kvs_corpus *corpus;

    (void)state;
    write_ids(path, 0, 30);
    corpus = open_ids(path);
    expect_refusal(corpus, 0.05, "has 30 tokens");
    expect_refusal(corpus, 0, "cannot be held out");
    expect_refusal(corpus, 1, "cannot be held out");
    expect_refusal(corpus, 0.99, "cannot be held out");
    assert_int_equal(kvs_corpus_hold_out(corpus, 0.5, NULL), KVS_OK);
    expect_refusal(corpus, 0.5, "validation split");
    kvs_corpus_close(corpus);
    kvsi_free(path);
    support_remove_dir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_end_is_held_out),
        cmocka_unit_test(what_cannot_be_cut_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
