/* Documents of text files: separators, JSON lines and arrays, compression, folders, and documents
 * larger than a piece. */
#include "base/documents.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/text_files.h"
#include "data/corpus.h"
#include "support.h"

#include <stdio.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

static const char SEPARATOR[] = "<|endoftext|>";

/* ---- helpers --------------------------------------------------------------------------------- */

static char *write_bytes(const char *name, const void *data, size_t size)
{
    char *path = kvsi_path_join(support_dir, name);
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    return path;
}

/* All documents, each after its length: "3:abc0:..."; or the error message. */
static kvs_status collect(kvsi_text *out, const char *path, const char *field,
                          const char *separator, kvs_err *err)
{
    kvsi_documents *documents = NULL;
    kvsi_text document = {0};
    kvsi_document_piece piece;
    int found = 0;
    kvs_status st;

    TRY_OUT(kvsi_documents_open(&documents, path, field, separator, err));
    for (;;) {
        TRY_OUT(kvsi_documents_next(documents, &piece, &found, err));
        if (!found)
            break;
        kvsi_text_add_bytes(&document, piece.text, piece.size);
        if (!piece.last)
            continue;
        kvsi_text_format(out, "%zu:", document.length);
        kvsi_text_add_bytes(out, document.data, document.length);
        kvsi_text_release(&document);
    }
out:
    kvsi_text_release(&document);
    kvsi_documents_close(documents);
    return st;
}

static void expect_documents(const char *name, const void *data, size_t size, const char *separator,
                             const char *expected)
{
    char *path = write_bytes(name, data, size);
    kvsi_text found = {0};
    kvs_err err;

    if (collect(&found, path, "text", separator, &err) != KVS_OK)
        fail_msg("%s", err.message);
    kvsi_text_add(&found, "");
    assert_string_equal(found.data, expected);
    kvsi_text_release(&found);
    kvsi_free(path);
}

static void expect_failure(const char *name, const void *data, size_t size, const char *message)
{
    char *path = write_bytes(name, data, size);
    kvsi_text found = {0};
    kvs_err err;

    if (collect(&found, path, "text", SEPARATOR, &err) == KVS_OK)
        fail_msg("'%s' was accepted, expected: %s", name, message);
    if (!strstr(err.message, message))
        fail_msg("'%s' was refused with: %s; expected: %s", name, err.message, message);
    assert_null(strchr(err.message, '\n'));
    kvsi_text_release(&found);
    kvsi_free(path);
}

/* ---- .txt ------------------------------------------------------------------------------------ */

static void separators_cut_text(void **state)
{
    static const struct {
        const char *text, *separator, *expected;
    } cases[] = {
        {"one\ntwo\n", SEPARATOR, "8:one\ntwo\n"},
        {"one<|endoftext|>two", SEPARATOR, "3:one3:two"},
        {"one\n<|endoftext|>\ntwo\n<|endoftext|>\n", SEPARATOR, "4:one\n4:two\n"},
        {"one<|endoftext|>\r\ntwo", SEPARATOR, "3:one3:two"},
        {"one<|endoftext|>\n\ntwo", SEPARATOR, "3:one4:\ntwo"},
        {"<|endoftext|><|endoftext|>\n<|endoftext|>one", SEPARATOR, "3:one"},
        {"one<|endoftext|", SEPARATOR, "15:one<|endoftext|"},
        {"<<|endoftext|>>", SEPARATOR, "1:<1:>"},
        {"xaaaby", "aab", "2:xa1:y"},
        {"one<|endoftext|>two", "", "19:one<|endoftext|>two"},
        {"one\n\ntwo", "\n\n", "3:one3:two"},
        {"", SEPARATOR, ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_documents("a.txt", cases[i].text, strlen(cases[i].text), cases[i].separator,
                         cases[i].expected);
}

/* A separator that crosses two reads is found. */
static void separators_are_found_across_reads(void **state)
{
    enum { AROUND = 1 << 16 };

    (void)state;
    for (size_t before = AROUND - sizeof SEPARATOR; before <= AROUND + 1; before++) {
        kvsi_text text = {0}, expected = {0};

        for (size_t i = 0; i < before; i++)
            kvsi_text_add(&text, "x");
        kvsi_text_format(&expected, "%zu:%s3:end", before, text.data);
        kvsi_text_format(&text, "%s\nend", SEPARATOR);
        expect_documents("a.txt", text.data, text.length, SEPARATOR, expected.data);
        kvsi_text_release(&text);
        kvsi_text_release(&expected);
    }
}

static void bytes_are_kept(void **state)
{
    static const char text[] = "\xff\xfe\0\x80 a\xc3";

    (void)state;
    expect_documents("a.txt", "\xff\x80 a\xc3", 5, SEPARATOR, "5:\xff\x80 a\xc3");
    expect_documents("notes.md", "PK", 2, SEPARATOR, "2:PK"); /* text with any name */
    {
        char *path = write_bytes("a.txt", text, sizeof text - 1);
        kvsi_text found = {0};

        assert_int_equal(collect(&found, path, "text", SEPARATOR, NULL), KVS_OK);
        assert_int_equal(found.length, 2 + sizeof text - 1);
        assert_memory_equal(found.data + 2, text, sizeof text - 1);
        kvsi_text_release(&found);
        kvsi_free(path);
    }
}

/* Pieces of a long document are bounded, end at line ends, and are complete. */
static void long_documents_come_in_pieces(void **state)
{
    static const char line[] = "a line of a long document\n";
    const size_t size = 2 * (size_t)KVSI_PIECE_BYTES + 12345;
    kvsi_text text = {0};
    kvsi_documents *documents;
    kvsi_document_piece piece = {.last = 0};
    size_t pieces = 0, done = 0;
    char *path;
    int found = 0;

    (void)state;
    while (text.length < size)
        kvsi_text_add_bytes(&text, line, sizeof line - 1);
    path = write_bytes("a.txt", text.data, text.length);
    assert_int_equal(kvsi_documents_open(&documents, path, "text", SEPARATOR, NULL), KVS_OK);
    while (!piece.last) {
        assert_int_equal(kvsi_documents_next(documents, &piece, &found, NULL), KVS_OK);
        assert_true(found && piece.size <= KVSI_PIECE_BYTES && done + piece.size <= text.length);
        assert_memory_equal(piece.text, text.data + done, piece.size);
        assert_int_equal(piece.text[piece.size - 1], '\n');
        done += piece.size;
        pieces++;
    }
    assert_int_equal(done, text.length);
    assert_int_equal(pieces, 3);
    assert_int_equal(kvsi_documents_next(documents, &piece, &found, NULL), KVS_OK);
    assert_false(found);
    assert_int_equal(kvsi_documents_bytes(documents), text.length);
    kvsi_documents_close(documents);
    kvsi_text_release(&text);
    kvsi_free(path);
}

static void cuts_are_between_lines_or_characters(void **state)
{
    static const struct {
        const char *text;
        size_t at, expected;
    } cases[] = {
        {"0123456\n89abcdef", 8, 8},   /* between two words */
        {"0123456\n89abcdef", 9, 8},   /* a little before */
        {"01\n3456789abcdef", 10, 10}, /* too far before */
        {"012345\n\n89abcdef", 8, 8},  /* any line end is better than none */
        {"0123456\xc3\xa9xyz", 8, 7},  /* not inside a character */
        {"012345\xe2\x82\xac", 8, 6},
        {"\x80\x80\x80\x80\x80\x80\x80\x80", 6, 6}, /* no characters */
        {"ab", 1, 1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(kvsi_text_cut(cases[i].text, strlen(cases[i].text), cases[i].at),
                         cases[i].expected);
}

/* ---- .jsonl ---------------------------------------------------------------------------------- */

static void lines_of_json_are_documents(void **state)
{
    static const char text[] = "{\"text\": \"one\", \"id\": 1}\n"
                               "\n"
                               "{\"id\": 2, \"text\": \"t\\nw\\u00f6\"}\r\n"
                               "{\"text\": \"\"}\n"
                               "{\"text\": \"<|endoftext|>\"}";

    (void)state;
    expect_documents("a.jsonl", text, sizeof text - 1, SEPARATOR,
                     "3:one5:t\nw\xc3\xb6"
                     "13:<|endoftext|>");
}

static void bad_lines_are_refused(void **state)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"{\"text\": \"a\"}\n{\"text\": \n", "a.jsonl' line 2: malformed JSON"},
        {"{\"text\": \"a\"}\n\n[\"a\"]\n", "line 3: expected a JSON object"},
        {"{\"body\": \"a\"}\n", "line 1: no text in field 'text'"},
        {"{\"text\": 7}\n", "line 1: no text in field 'text'"},
        {"{\"text\": \"\xff\"}\n", "line 1: malformed JSON"},
        {"{\"text\": \"a\", \"text\": \"b\"}\n", "line 1: malformed JSON"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_failure("a.jsonl", cases[i].text, strlen(cases[i].text), cases[i].message);
}

/* ---- .json ----------------------------------------------------------------------------------- */

static void objects_of_an_array_are_documents(void **state)
{
    static const char text[] = "\xef\xbb\xbf[ {\"text\": \"one\", \"more\": [{\"a\": \"}\"}]},\r\n"
                               "{\"id\": 2, \"text\": \"t]\\\"\\n{w\\u00f6\\\\\"}\n"
                               " , {\"text\": \"\"}, {\"text\": \"<|endoftext|>\"}\n]\n";

    (void)state;
    expect_documents("a.json", text, sizeof text - 1, SEPARATOR,
                     "3:one9:t]\"\n{w\xc3\xb6\\"
                     "13:<|endoftext|>");
    expect_documents("a.json", " []", 3, SEPARATOR, "");
}

static void bad_arrays_are_refused(void **state)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "a.json' line 1: expected '['"},
        {"{\"text\": \"a\"}", "line 1: expected '['"},
        {"[\n\n1]", "line 3: expected an object"},
        {"[{\"text\": \"a\"}\n{\"text\": \"b\"}]", "line 2: expected ',' or ']'"},
        {"[{\"text\": \"a\"}", "line 1: expected ',' or ']'"},
        {"[{\"text\": \"a\"},]", "line 1: expected an object"},
        {"[{\"text\": \"a\"}] []", "line 1: expected nothing after the array"},
        {"[{\"text\": \"a\"},\n{\"text\": \"", "line 2: an object without an end"},
        {"[{\"text\": \"a\"},\n{\"text\": \"a\\", "line 2: an object without an end"},
        {"[\n{\"text\": \"a\"]}]", "line 2: malformed JSON"},
        {"[{\"body\": \"a\"}]", "line 1: no text in field 'text'"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_failure("a.json", cases[i].text, strlen(cases[i].text), cases[i].message);
}

/* Objects are found across reads, wherever a read ends. */
static void long_arrays_are_whole(void **state)
{
    enum { OBJECTS = 20000 };
    kvsi_text text = {0}, expected = {0};

    (void)state;
    for (int i = 0; i < OBJECTS; i++) {
        kvsi_text_format(&text, "%s{\"text\": \"\\\"%d\"}", i == 0 ? "[" : ",\n", i % 10);
        kvsi_text_format(&expected, "2:\"%d", i % 10);
    }
    kvsi_text_add(&text, "]");
    expect_documents("a.json", text.data, text.length, SEPARATOR, expected.data);
    kvsi_text_release(&text);
    kvsi_text_release(&expected);
}

/* ---- .gz ------------------------------------------------------------------------------------- */

/* Appends a member of a .gz file. */
static void add_member(kvsi_text *out, const char *text, size_t size)
{
    enum { GZIP = 16, MEMORY = 8 };
    z_stream stream = {.next_in = (unsigned char *)text, .avail_in = (uInt)size};
    unsigned char *packed;
    size_t bound;

    assert_int_equal(
        deflateInit2(&stream, 6, Z_DEFLATED, GZIP + MAX_WBITS, MEMORY, Z_DEFAULT_STRATEGY), Z_OK);
    bound = deflateBound(&stream, (uLong)size);
    packed = kvsi_alloc(bound, 1);
    stream.next_out = packed;
    stream.avail_out = (uInt)bound;
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    kvsi_text_add_bytes(out, (char *)packed, bound - stream.avail_out);
    assert_int_equal(deflateEnd(&stream), Z_OK);
    kvsi_free(packed);
}

static void gzip_files_are_read(void **state)
{
    kvsi_text data = {0};

    (void)state;
    add_member(&data, "one<|endof", 10); /* two members, as written by `cat a.gz b.gz` */
    add_member(&data, "text|>two", 9);
    expect_documents("a.txt.gz", data.data, data.length, SEPARATOR, "3:one3:two");
    for (size_t cut = 1; cut < data.length; cut++) {
        char *path = write_bytes("a.txt.gz", data.data, cut);
        kvsi_text found = {0};
        kvs_err err;

        /* At the end of the first member the file is whole. */
        if (collect(&found, path, "text", SEPARATOR, &err) == KVS_OK)
            assert_string_equal(found.data, "10:one<|endof");
        else
            assert_non_null(strstr(err.message, "ends in the middle of its gzip data"));
        kvsi_text_release(&found);
        kvsi_free(path);
    }
    kvsi_text_add(&data, "more");
    expect_failure("a.txt.gz", data.data, data.length, "is not a valid gzip file");
    data.data[data.length / 2] = (char)~data.data[data.length / 2];
    expect_failure("a.txt.gz", data.data, data.length, "is not a valid gzip file");
    kvsi_text_release(&data);
    add_member(&data, "[{\"text\": \"one\"}]", 17);
    expect_documents("a.json.gz", data.data, data.length, SEPARATOR, "3:one");
    expect_documents("a.txt.gz", "", 0, SEPARATOR, "");
    kvsi_text_release(&data);
}

static void long_gzip_text_is_whole(void **state)
{
    enum { SIZE = 5 << 20 };
    char *text = kvsi_alloc(SIZE, 1);
    kvsi_text data = {0}, expected = {0};

    (void)state;
    memset(text, 'x', SIZE);
    add_member(&data, text, SIZE);
    kvsi_text_format(&expected, "%d:", SIZE);
    kvsi_text_add_bytes(&expected, text, SIZE);
    expect_documents("a.txt.gz", data.data, data.length, SEPARATOR, expected.data);
    kvsi_text_release(&data);
    kvsi_text_release(&expected);
    kvsi_free(text);
}

/* ---- folders --------------------------------------------------------------------------------- */

static void folders_stand_for_their_texts(void **state)
{
    static const char *const names[] = {"b.txt",       "a.jsonl.gz", "c.bin",
                                        ".hidden.txt", "d/z.json",   "d/y.md.zst"};
    const char *paths[] = {support_dir, NULL};
    char *inner = kvsi_path_join(support_dir, "d"), *file;
    kvsi_text_files files;
    int made;
    kvs_err err;

    (void)state;
    assert_int_equal(kvsi_text_files_list(&files, paths, 1, &err), KVS_E_IO);
    assert_non_null(strstr(err.message, "has no text"));
    assert_int_equal(kvsi_dir_make(inner, &made, NULL), KVS_OK);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        kvsi_free(write_bytes(names[i], "", 0));
    paths[1] = file = kvsi_path_join(support_dir, "c.bin"); /* a file may have any name */
    assert_int_equal(kvsi_text_files_list(&files, paths, 2, NULL), KVS_OK);
    assert_int_equal(files.count, 5);
    assert_non_null(strstr(files.paths[0], "/a.jsonl.gz"));
    assert_non_null(strstr(files.paths[1], "/b.txt"));
    assert_non_null(strstr(files.paths[2], "/d/y.md.zst"));
    assert_non_null(strstr(files.paths[3], "/d/z.json"));
    assert_string_equal(files.paths[4], file);
    kvsi_text_files_release(&files);
    for (size_t i = 4; i < sizeof names / sizeof *names; i++) {
        char *path = kvsi_path_join(support_dir, names[i]);

        assert_int_equal(remove(path), 0);
        kvsi_free(path);
    }
    assert_int_equal(remove(inner), 0);
    kvsi_free(inner);
    kvsi_free(file);
}

/* ---- .zst ------------------------------------------------------------------------------------ */

/* Two frames, as written by `cat a.zst b.zst`. */
static size_t compress_zstd(char *out, size_t capacity, const char *first, const char *second)
{
    size_t size = ZSTD_compress(out, capacity, first, strlen(first), 3);

    size += ZSTD_compress(out + size, capacity - size, second, strlen(second), 3);
    return size;
}

static void compressed_files_are_read(void **state)
{
    char data[512];
    const size_t size = compress_zstd(data, sizeof data, "one<|endof", "text|>two");
    const size_t lines =
        compress_zstd(data + 256, 256, "{\"text\": \"one\"}\n", "{\"text\": \"two\"}");

    (void)state;
    expect_documents("a.txt.zst", data, size, SEPARATOR, "3:one3:two");
    expect_documents("a.jsonl.zst", data + 256, lines, SEPARATOR, "3:one3:two");
    expect_documents("a.txt.zst", "", 0, SEPARATOR, "");
}

/* More text than one read: what the decompressor holds at the end is not lost. */
static void long_compressed_text_is_whole(void **state)
{
    enum { SIZE = 1 << 20 };
    char *text = kvsi_alloc(SIZE + 1, 1), *packed = kvsi_alloc(SIZE, 1);
    kvsi_text expected = {0};
    size_t size;

    (void)state;
    memset(text, 'x', SIZE);
    size = ZSTD_compress(packed, SIZE, text, SIZE, 3);
    assert_false(ZSTD_isError(size));
    kvsi_text_format(&expected, "%d:%s", SIZE, text);
    expect_documents("a.txt.zst", packed, size, SEPARATOR, expected.data);
    for (size_t cut = 1; cut < size; cut++)
        expect_failure("a.txt.zst", packed, cut, "zstd");
    kvsi_text_release(&expected);
    kvsi_free(text);
    kvsi_free(packed);
}

static void what_is_no_text_is_refused(void **state)
{
    /* one byte, in a frame with a window of 64 MB */
    static const char wide[] = {'\x28', '\xb5', '\x2f', '\xfd', 0, '\x80', 9, 0, 0, 'a'};
    char *path = kvsi_path_join(support_dir, "folder.txt");
    kvs_err err;
    kvsi_text found = {0};
    int made;

    (void)state;
    expect_failure("a.txt.zst", "plain text", 10, "is not a valid zstd file");
    expect_failure("a.txt.zst", wide, sizeof wide, "too much memory");
    expect_failure("a.txt", wide, sizeof wide, "is a zstd file: expected a name that ends in .zst");
    expect_failure("a.txt", "\x1f\x8b\x08", 3, "is compressed with gzip");
    expect_failure("a.parquet", "PAR1....", 8, "is a Parquet file");
    assert_int_equal(kvsi_dir_make(path, &made, NULL), KVS_OK);
    assert_int_equal(collect(&found, path, "text", SEPARATOR, &err), KVS_E_IO);
    assert_non_null(strstr(err.message, "not a regular file"));
    kvsi_free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(separators_cut_text, support_dir_setup,
                                        support_dir_teardown),
        cmocka_unit_test_setup_teardown(separators_are_found_across_reads, support_dir_setup,
                                        support_dir_teardown),
        cmocka_unit_test_setup_teardown(bytes_are_kept, support_dir_setup, support_dir_teardown),
        cmocka_unit_test_setup_teardown(long_documents_come_in_pieces, support_dir_setup,
                                        support_dir_teardown),
        cmocka_unit_test(cuts_are_between_lines_or_characters),
        cmocka_unit_test_setup_teardown(lines_of_json_are_documents, support_dir_setup,
                                        support_dir_teardown),
        cmocka_unit_test_setup_teardown(bad_lines_are_refused, support_dir_setup,
                                        support_dir_teardown),
        cmocka_unit_test_setup_teardown(objects_of_an_array_are_documents, support_dir_setup,
                                        support_dir_teardown),
        cmocka_unit_test_setup_teardown(bad_arrays_are_refused, support_dir_setup,
                                        support_dir_teardown),
        cmocka_unit_test_setup_teardown(long_arrays_are_whole, support_dir_setup,
                                        support_dir_teardown),
        cmocka_unit_test_setup_teardown(gzip_files_are_read, support_dir_setup,
                                        support_dir_teardown),
        cmocka_unit_test_setup_teardown(long_gzip_text_is_whole, support_dir_setup,
                                        support_dir_teardown),
        cmocka_unit_test_setup_teardown(folders_stand_for_their_texts, support_dir_setup,
                                        support_dir_teardown),
        cmocka_unit_test_setup_teardown(compressed_files_are_read, support_dir_setup,
                                        support_dir_teardown),
        cmocka_unit_test_setup_teardown(long_compressed_text_is_whole, support_dir_setup,
                                        support_dir_teardown),
        cmocka_unit_test_setup_teardown(what_is_no_text_is_refused, support_dir_setup,
                                        support_dir_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
