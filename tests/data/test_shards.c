/* Shards: written data is read back; foreign files; damaged and hostile files are refused. */
#include "base/files.h"
#include "base/memory.h"
#include "data/shard.h"
#include "support.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

static char *dir, *path;

static int make_dir(void **state)
{
    (void)state;
    dir = support_make_dir();
    path = kvsi_path_join(dir, "a.shard");
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    kvsi_free(path);
    support_remove_dir(dir);
    return 0;
}

/* ---- helpers --------------------------------------------------------------------------------- */

static void write_bytes(const void *data, size_t size)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static void expect_refusal(size_t vocab, const char *message)
{
    kvsi_shard shard;
    kvs_err err;

    if (kvsi_shard_open(&shard, path, vocab, &err) == KVS_OK)
        fail_msg("accepted, expected: %s", message);
    if (!strstr(err.message, message) || !strstr(err.message, "a.shard"))
        fail_msg("refused with: %s; expected: %s", err.message, message);
    assert_null(strchr(err.message, '\n'));
}

/* Documents of 3, 1 and 5 tokens: ids step, 2 * step, ... */
static void write_shard(size_t vocab, int32_t step)
{
    static const size_t lengths[] = {3, 1, 5};
    kvsi_shard_writer *writer;
    uint64_t checksum;
    int32_t id = 0;

    assert_int_equal(kvsi_shard_writer_open(&writer, path, vocab, 77, NULL), KVS_OK);
    for (size_t d = 0; d < 3; d++) {
        for (size_t i = 0; i < lengths[d]; i++) {
            id += step;
            assert_int_equal(kvsi_shard_writer_add(writer, &id, 1, NULL), KVS_OK);
        }
        kvsi_shard_writer_end_document(writer);
        kvsi_shard_writer_end_document(writer); /* an empty document is not counted */
    }
    assert_int_equal(kvsi_shard_writer_tokens(writer), 9);
    assert_int_equal(kvsi_shard_writer_documents(writer), 3);
    assert_int_equal(kvsi_shard_writer_commit(writer, &checksum, NULL), KVS_OK);
}

/* ---- our own --------------------------------------------------------------------------------- */

static void what_is_written_is_read(void **state)
{
    static const struct {
        size_t vocab, id_bytes;
        int32_t step;
    } cases[] = {
        {10, 2, 1}, {65536, 2, 65535 / 9}, {65537, 4, 65536 / 9}, {2000000000, 4, 200000000}};

    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        kvsi_shard shard;
        int32_t ids[9];

        write_shard(cases[c].vocab, cases[c].step);
        assert_int_equal(kvsi_shard_open(&shard, path, 0, NULL), KVS_OK);
        assert_int_equal(shard.vocab, cases[c].vocab);
        assert_int_equal(shard.id_bytes, cases[c].id_bytes);
        assert_int_equal(shard.tokenizer_hash, 77);
        assert_int_equal(shard.tokens, 9);
        assert_int_equal(shard.documents, 3);
        assert_int_equal(shard.longest, 5);
        assert_int_equal(kvsi_shard_start(&shard, 0), 0);
        assert_int_equal(kvsi_shard_start(&shard, 1), 3);
        assert_int_equal(kvsi_shard_start(&shard, 2), 4);
        assert_int_equal(kvsi_shard_start(&shard, 3), 9);
        kvsi_shard_read(&shard, 0, 9, ids);
        for (int32_t i = 0; i < 9; i++)
            assert_int_equal(ids[i], (i + 1) * cases[c].step);
        assert_int_equal(kvsi_shard_verify(&shard, NULL), KVS_OK);
        kvsi_shard_close(&shard);
    }
}

static void ids_outside_the_vocabulary_are_not_written(void **state)
{
    static const int32_t bad[] = {-1, 10, 70000};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        kvsi_shard_writer *writer;
        kvs_err err;

        assert_int_equal(kvsi_shard_writer_open(&writer, path, 10, 77, NULL), KVS_OK);
        assert_int_equal(kvsi_shard_writer_add(writer, &bad[i], 1, &err), KVS_E_FORMAT);
        assert_non_null(strstr(err.message, "vocabulary of 10"));
        kvsi_shard_writer_abandon(writer);
        assert_false(kvsi_file_exists(path));
    }
}

/* Every changed byte is detected by opening or by the checksum, and so is every other length. */
static void every_damage_is_noticed(void **state)
{
    size_t size = 0;
    char *whole = NULL;

    (void)state;
    write_shard(10, 1);
    assert_int_equal(kvsi_file_read(&whole, &size, path, 1 << 20, NULL), KVS_OK);
    for (size_t i = 0; i < size; i++) {
        kvsi_shard shard;

        whole[i] ^= 1;
        write_bytes(whole, size);
        if (kvsi_shard_open(&shard, path, 10, NULL) == KVS_OK) {
            assert_int_equal(kvsi_shard_verify(&shard, NULL), KVS_E_FORMAT);
            kvsi_shard_close(&shard);
        }
        whole[i] ^= 1;
    }
    for (size_t length = 8; length < size; length++) {
        write_bytes(whole, length);
        expect_refusal(0, length < sizeof(kvsi_shard_header) ? "expected a header" : "do not fit");
    }
    kvsi_free(whole);
}

/* Sets a number of the file (8 bytes unless it is an id) to a value that must be refused. */
static void hostile_numbers_are_refused(void **state)
{
    const size_t ids = sizeof(kvsi_shard_header), starts = ids + 24; /* 9 ids of 2 bytes, padded */
    const struct {
        size_t offset, size;
        uint64_t value;
        const char *message;
    } cases[] = {
        {offsetof(kvsi_shard_header, version), 4, 2, "has version 2, expected 1"},
        {offsetof(kvsi_shard_header, id_bytes), 4, 3, "ids of 3 bytes"},
        {offsetof(kvsi_shard_header, id_bytes), 4, 4, "do not fit"},
        {offsetof(kvsi_shard_header, vocab), 8, 0, "vocabulary of 0"},
        {offsetof(kvsi_shard_header, vocab), 8, UINT64_MAX, "vocabulary of 18446744073709551615"},
        {offsetof(kvsi_shard_header, tokens), 8, UINT64_MAX / 2 + 10, "do not fit"},
        {offsetof(kvsi_shard_header, tokens), 8, UINT64_MAX, "do not fit"},
        {offsetof(kvsi_shard_header, tokens), 8, 13, "do not fit"},
        {offsetof(kvsi_shard_header, documents), 8, UINT64_MAX, "do not fit"},
        {offsetof(kvsi_shard_header, documents), 8, (UINT64_C(1) << 61) + 3, "do not fit"},
        {ids + 6, 2, 10, "has id 10"},
        {ids + 6, 2, 65535, "has id 65535"},
        {starts, 8, 1, "document 0 starts at token 1, expected 0"},
        {starts + 8, 8, 0, "document 0 goes from token 0 to 0"},
        {starts + 8, 8, 5, "document 1 goes from token 5 to 4"},
        {starts + 16, 8, 9, "document 2 goes from token 9 to 9"},
        {starts + 16, 8, 10, "document 1 goes from token 3 to 10 of 9"},
        {starts + 16, 8, UINT64_MAX, "expected increasing starts"},
    };
    size_t size = 0;
    char *whole = NULL;

    (void)state;
    write_shard(10, 1);
    assert_int_equal(kvsi_file_read(&whole, &size, path, 1 << 20, NULL), KVS_OK);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        char *bad = kvsi_alloc(size, 1);

        memcpy(bad, whole, size);
        memcpy(bad + cases[c].offset, &cases[c].value, cases[c].size);
        write_bytes(bad, size);
        expect_refusal(0, cases[c].message);
        kvsi_free(bad);
    }
    kvsi_free(whole);
    write_shard(10, 1);
    expect_refusal(11, "has a vocabulary of 10, expected 11");
}

/* ---- foreign --------------------------------------------------------------------------------- */

/* llm.c's header, then `size` bytes. */
static void write_llmc(int32_t magic, int32_t version, int32_t count, const void *ids, size_t size)
{
    int32_t file[256 + 8] = {magic, version, count};

    memcpy(file + 256, ids, size);
    write_bytes(file, 256 * sizeof *file + size);
}

static void expect_ids(size_t vocab, kvsi_shard_format format, const int32_t *expected,
                       size_t count)
{
    kvsi_shard shard;
    int32_t ids[16];
    kvs_err err;

    if (kvsi_shard_open(&shard, path, vocab, &err) != KVS_OK)
        fail_msg("%s", err.message);
    assert_int_equal(shard.format, format);
    assert_int_equal(shard.vocab, vocab);
    assert_int_equal(shard.tokens, count);
    assert_int_equal(shard.documents, 1);
    assert_int_equal(kvsi_shard_start(&shard, 1), count);
    kvsi_shard_read(&shard, 0, count, ids);
    assert_memory_equal(ids, expected, count * sizeof *ids);
    kvsi_shard_close(&shard);
}

static void foreign_files_are_read(void **state)
{
    static const uint16_t narrow[] = {50256, 3, 0, 1};
    static const uint32_t wide[] = {128000, 3, 0, 1};
    static const int32_t expected[] = {50256, 3, 0, 1}, expected_wide[] = {128000, 3, 0, 1};

    (void)state;
    write_llmc(20240520, 1, 4, narrow, sizeof narrow);
    expect_ids(50257, KVSI_SHARD_LLMC, expected, 4);
    expect_refusal(50256, "has id 50256");
    expect_refusal(0, "llm.c's ids, give the size of its vocabulary");
    write_llmc(20240801, 7, 4, wide, sizeof wide);
    expect_ids(128256, KVSI_SHARD_LLMC, expected_wide, 4);
    write_bytes(narrow, sizeof narrow);
    expect_ids(50257, KVSI_SHARD_NANOGPT, expected, 4);
    expect_refusal(50256, "has id 50256");
    expect_refusal(0, "nanoGPT's ids, give the size of its vocabulary");
}

static void bad_foreign_files_are_refused(void **state)
{
    static const uint16_t ids[] = {1, 2, 3, 4};

    (void)state;
    write_llmc(20240520, 1, 5, ids, sizeof ids);
    expect_refusal(10, "claims 5 tokens");
    write_llmc(20240520, 1, -4, ids, sizeof ids);
    expect_refusal(10, "claims -4 tokens");
    write_llmc(20240520, 1, 3, ids, 7);
    expect_refusal(10, "claims 3 tokens");
    write_llmc(20240520, 1, 0, ids, 0);
    expect_refusal(10, "contains no tokens");
    write_bytes(ids, 7);
    expect_refusal(10, "not a whole number of 16-bit ids");
    write_bytes(ids, 0);
    expect_refusal(10, "is empty");
    assert_int_equal(remove(path), 0);
    expect_refusal(10, "cannot open");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_written_is_read, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(ids_outside_the_vocabulary_are_not_written, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(every_damage_is_noticed, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(hostile_numbers_are_refused, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(foreign_files_are_read, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(bad_foreign_files_are_refused, make_dir, remove_dir),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
