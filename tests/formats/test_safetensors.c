/* safetensors: our files and foreign files are read, wrong files are refused.  Files are written by
 * hand, byte by byte. */
#include "base/files.h"
#include "base/memory.h"
#include "formats/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h> /* needs those before it */
/* clang-format on */

static char dir[256], path[300]; /* the folder of these tests, and its only file */

static int make_dir(void **state)
{
    const char *root = getenv("TMPDIR");

    (void)state;
    snprintf(dir, sizeof dir, "%.200s/kvshift-safetensors-XXXXXX", root ? root : "/tmp");
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof path, "%s/file", dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(dir); /* fails if a file was left behind */
}

static void put(const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* Length, header, and `data_size` bytes 0, 1, 2, ... */
static void put_file(const char *header, size_t data_size)
{
    const uint64_t length = strlen(header);
    unsigned char bytes[2000] = {0};

    assert_true(8 + length + data_size <= sizeof bytes);
    memcpy(bytes, &length, 8);
    memcpy(bytes + 8, header, length);
    for (size_t i = 0; i < data_size; i++)
        bytes[8 + length + i] = (unsigned char)i;
    put(bytes, 8 + length + data_size);
}

/* The file must be refused with a message that contains `says`, and no memory may leak. */
static void check_refused(const char *at, kvs_status status, const char *says)
{
    const size_t live = kvsi_memory_live();
    kvsi_safetensors *file = (kvsi_safetensors *)&live; /* must be set to NULL */
    kvs_err err = {.message = ""};

    assert_int_equal(kvsi_safetensors_open(&file, at, &err), status);
    assert_null(file);
    assert_int_equal(err.status, status);
    if (!strstr(err.message, says) || !strstr(err.message, at))
        fail_msg("'%s' does not contain '%s' and '%s'", err.message, says, at);
    assert_int_equal(kvsi_memory_live(), live);
}

static kvsi_safetensors *open_good(void)
{
    kvsi_safetensors *file;
    kvs_err err;

    if (kvsi_safetensors_open(&file, path, &err) != KVS_OK)
        fail_msg("%s", err.message);
    return file;
}

/* ---- good files ------------------------------------------------------------------------------ */

/* As written by Python's safetensors for {"weight": float32 [[1, 2, -0.5]], "ids": int64 [7, -1]}:
 * widest type first, header padded with spaces to a multiple of 8. */
static const char PYTHON_FILE[] =
    "\x78\0\0\0\0\0\0\0"
    "{\"ids\":{\"dtype\":\"I64\",\"shape\":[2],\"data_offsets\":[0,16]},"
    "\"weight\":{\"dtype\":\"F32\",\"shape\":[1,3],"
    "\"data_offsets\":[16,28]}} "
    "\x07\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff"
    "\0\0\x80\x3f\0\0\0\x40\0\0\0\xbf";

static void a_python_file_is_read(void **state)
{
    const int64_t ids[] = {7, -1};
    const float weight[] = {1, 2, -0.5f};
    const kvsi_file_tensor *tensor;
    kvsi_safetensors *file;

    (void)state;
    put(PYTHON_FILE, sizeof PYTHON_FILE - 1);
    file = open_good();
    assert_int_equal(kvsi_safetensors_count(file), 2);
    tensor = kvsi_safetensors_find(file, "ids");
    assert_ptr_equal(tensor, kvsi_safetensors_at(file, 0));
    assert_int_equal(tensor->dtype, KVSI_I64);
    assert_int_equal(tensor->rank, 1);
    assert_int_equal(tensor->shape[0], 2);
    assert_memory_equal(tensor->data, ids, sizeof ids);
    tensor = kvsi_safetensors_find(file, "weight");
    assert_ptr_equal(tensor, kvsi_safetensors_at(file, 1));
    assert_int_equal(tensor->dtype, KVSI_F32);
    assert_int_equal(tensor->rank, 2);
    assert_int_equal(tensor->shape[0], 1);
    assert_int_equal(tensor->shape[1], 3);
    assert_int_equal(kvsi_file_tensor_count(tensor), 3);
    assert_memory_equal(tensor->data, weight, sizeof weight);
    assert_null(kvsi_safetensors_find(file, "weigh"));
    assert_null(kvsi_safetensors_find(file, ""));
    assert_null(kvsi_safetensors_at(file, 2));
    kvsi_safetensors_close(file);
}

static void unusual_files_are_read(void **state)
{
    const kvsi_file_tensor *tensor;
    kvsi_safetensors *file;

    (void)state;
    put_file("{}", 0);
    file = open_good();
    assert_int_equal(kvsi_safetensors_count(file), 0);
    assert_null(kvsi_safetensors_find(file, "a"));
    kvsi_safetensors_close(file);

    /* unsorted, unaligned, with metadata, an unknown key, and an empty tensor */
    put_file(" {\"z\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[3,7],\"note\":1},"
             "\"empty\":{\"dtype\":\"F64\",\"shape\":[4,0],\"data_offsets\":[3,3]},"
             "\"__metadata__\":{\"format\":\"pt\"},"
             "\"scalar\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[7,8]},"
             "\"y\":{\"dtype\":\"U8\",\"shape\":[1,3,1,1,1],\"data_offsets\":[0,3]}} ",
             8);
    file = open_good();
    assert_int_equal(kvsi_safetensors_count(file), 4);
    assert_string_equal(kvsi_safetensors_at(file, 0)->name, "y");
    assert_string_equal(kvsi_safetensors_at(file, 1)->name, "empty");
    assert_string_equal(kvsi_safetensors_at(file, 2)->name, "z");
    assert_string_equal(kvsi_safetensors_at(file, 3)->name, "scalar");
    tensor = kvsi_safetensors_find(file, "z");
    assert_memory_equal(tensor->data, "\3\4\5\6", 4);
    tensor = kvsi_safetensors_find(file, "scalar");
    assert_int_equal(tensor->rank, 0);
    assert_int_equal(kvsi_file_tensor_count(tensor), 1);
    assert_int_equal(kvsi_file_tensor_count(kvsi_safetensors_find(file, "empty")), 0);
    assert_null(kvsi_safetensors_find(file, "__metadata__"));
    kvsi_safetensors_close(file);
}

/* ---- bad files ------------------------------------------------------------------------------- */

#define ENTRY(name, dtype, shape, offsets)                                                         \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static void bad_headers_are_refused(void **state)
{
    static const struct {
        const char *header;
        size_t data_size;
        const char *says;
    } cases[] = {
        {"", 0, "JSON"},
        {"{", 0, "JSON"},
        {"[]", 0, "object"},
        {"{} x", 0, "JSON"},
        {"{" ENTRY("a", "U8", "[1]", "[0,1]") "," ENTRY("a", "U8", "[1]", "[1,2]") "}", 2, "JSON"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"shape\":[2],\"data_offsets\":[0,2]}}", 2,
         "JSON"},
        {"{\"__metadata__\":3}", 0, "__metadata__"},
        {"{\"__metadata__\":{\"step\":3}}", 0, "'step'"},
        {"{\"a\":7}", 0, "dtype"},
        {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "dtype"},
        {"{\"a\":{\"dtype\":3,\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "dtype"},
        {"{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, "shape"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, "data_offsets"},
        {"{" ENTRY("a", "U8", "1", "[0,1]") "}", 1, "shape"},
        {"{" ENTRY("a", "U8", "[-1]", "[0,1]") "}", 1, "shape[0]"},
        {"{" ENTRY("a", "U8", "[1,1.0]", "[0,1]") "}", 1, "shape[1]"},
        {"{" ENTRY("a", "U8", "[\"1\"]", "[0,1]") "}", 1, "shape[0]"},
        {"{" ENTRY("a", "U8", "[1,1,1,1,1,1]", "[0,1]") "}", 1, "6 dimensions"},
        {"{" ENTRY("a", "U8", "[18446744073709551617]", "[0,1]") "}", 1, "JSON"},
        {"{" ENTRY("a", "U8", "[4294967296,4294967296]", "[0,0]") "}", 0, "overflows"},
        {"{" ENTRY("a", "F32", "[4611686018427387904]", "[0,0]") "}", 0, "overflows"},
        {"{" ENTRY("a", "U8", "[1]", "[0]") "}", 1, "data_offsets"},
        {"{" ENTRY("a", "U8", "[1]", "[0,1,2]") "}", 1, "data_offsets"},
        {"{" ENTRY("a", "U8", "[1]", "{}") "}", 1, "data_offsets"},
        {"{" ENTRY("a", "U8", "[1]", "[-1,0]") "}", 1, "data_offsets"},
        {"{" ENTRY("a", "U8", "[1]", "[0,1.5]") "}", 1, "data_offsets"},
        {"{" ENTRY("a", "U8", "[1]", "[1,0]") "}", 1, "[1, 0]"},
        {"{" ENTRY("a", "U8", "[2]", "[0,2]") "}", 1, "[0, 2]"},
        {"{" ENTRY("a", "U8", "[1]", "[9223372036854775806,9223372036854775807]") "}", 1,
         "outside"},
        {"{" ENTRY("a", "F32", "[2]", "[0,4]") "}", 4, "needs 8"},
        {"{" ENTRY("a", "U8", "[]", "[0,2]") "}", 2, "needs 1"},
        {"{" ENTRY("a", "U8", "[2]", "[0,2]") "," ENTRY("b", "U8", "[2]", "[1,3]") "}", 3, "'b'"},
        {"{" ENTRY("a", "U8", "[2]", "[0,2]") "," ENTRY("b", "U8", "[2]", "[0,2]") "}", 2,
         "overlaps"},
        {"{" ENTRY("a", "U8", "[3]", "[0,3]") "," ENTRY("b", "U8", "[0]", "[1,1]") "}", 3,
         "overlaps"},
        {"{" ENTRY("a", "U8", "[1]", "[0,1]") "," ENTRY("b", "U8", "[1]", "[2,3]") "}", 3, "gap"},
        {"{" ENTRY("a", "U8", "[1]", "[1,2]") "}", 2, "gap"},
        {"{" ENTRY("a", "U8", "[1]", "[0,1]") "}", 2, "2 bytes of data"},
        {"{}", 1, "1 bytes of data"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_file(cases[i].header, cases[i].data_size);
        check_refused(path, KVS_E_FORMAT, cases[i].says);
    }
}

static void unknown_types_are_refused_by_name(void **state)
{
    (void)state;
    put_file("{" ENTRY("model.norm", "F8_E4M3", "[1]", "[0,2]") "}", 2);
    check_refused(path, KVS_E_UNSUPPORTED, "tensor 'model.norm' has dtype 'F8_E4M3'");
}

static void deep_nesting_is_refused(void **state)
{
    enum { DEPTH = 100000 };
    const uint64_t length = 5 + DEPTH;
    char *bytes = kvsi_alloc(8 + length, 1);

    (void)state;
    memcpy(bytes, &length, 8);
    memcpy(bytes + 8, "{\"a\":", 5);
    memset(bytes + 13, '[', DEPTH);
    put(bytes, 8 + length);
    check_refused(path, KVS_E_FORMAT, "JSON");
    kvsi_free(bytes);
}

static void bad_lengths_are_refused(void **state)
{
    uint64_t length = 3;
    unsigned char bytes[10] = "\0\0\0\0\0\0\0\0{}";

    (void)state;
    memcpy(bytes, &length, 8); /* one more than the file has */
    put(bytes, 10);
    check_refused(path, KVS_E_FORMAT, "only 2 follow");
    length = UINT64_MAX;
    memcpy(bytes, &length, 8);
    put(bytes, 10);
    check_refused(path, KVS_E_FORMAT, "18446744073709551615");
    length = 100000001;
    memcpy(bytes, &length, 8);
    put(bytes, 10);
    assert_int_equal(truncate(path, 200000000), 0); /* a sparse file, large enough */
    check_refused(path, KVS_E_LIMIT, "100000001");
}

static void what_is_no_file_is_refused(void **state)
{
    (void)state;
    put("", 0);
    check_refused(path, KVS_E_FORMAT, "0 bytes");
    put("\2\0\0\0\0\0\0", 7);
    check_refused(path, KVS_E_FORMAT, "7 bytes");
    check_refused(dir, KVS_E_IO, "not a regular file");
    unlink(path);
    check_refused(path, KVS_E_IO, "cannot open");
    assert_int_equal(mkfifo(path, 0600), 0); /* must not block */
    check_refused(path, KVS_E_IO, "not a regular file");
    unlink(path);
}

/* Every truncated file is refused; every changed byte is refused or gives tensors inside the
 * file. */
static void damaged_files_do_no_harm(void **state)
{
    const size_t size = sizeof PYTHON_FILE - 1;
    char bytes[sizeof PYTHON_FILE];

    (void)state;
    for (size_t cut = 0; cut < size; cut++) {
        put(PYTHON_FILE, cut);
        check_refused(path, KVS_E_FORMAT, "");
    }
    for (size_t at = 0; at < 2 * size; at++) {
        kvsi_safetensors *file;
        unsigned sum = 0;

        memcpy(bytes, PYTHON_FILE, size);
        bytes[at / 2] = (char)(bytes[at / 2] ^ (at % 2 ? 0x01 : 0x10));
        put(bytes, size);
        if (kvsi_safetensors_open(&file, path, NULL) != KVS_OK)
            continue;
        for (size_t i = 0; i < kvsi_safetensors_count(file); i++) {
            const kvsi_file_tensor *tensor = kvsi_safetensors_at(file, i);
            const size_t count =
                kvsi_file_tensor_count(tensor) * kvsi_dtype_bytes(tensor->dtype, 1);

            for (size_t byte = 0; byte < count; byte++)
                sum += ((const unsigned char *)tensor->data)[byte];
        }
        assert_true(sum > 0);
        kvsi_safetensors_close(file);
    }
}

/* ---- writing --------------------------------------------------------------------------------- */

static void written_bytes_are_as_expected(void **state)
{
    static const char header[] = "{\"__metadata__\":{\"format\":\"pt\"},"
                                 "\"w\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]},"
                                 "\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[8,11]}}";
    const float w[] = {1, -2};
    const kvsi_file_tensor tensors[] = {
        {.name = "w", .dtype = KVSI_F32, .rank = 2, .shape = {1, 2}, .data = w},
        {.name = "b", .dtype = KVSI_U8, .rank = 1, .shape = {3}, .data = "xyz"},
    };
    char *bytes;
    size_t size;

    (void)state;
    assert_int_equal(kvsi_safetensors_write(path, tensors, 2, NULL), KVS_OK);
    assert_int_equal(kvsi_file_read(&bytes, &size, path, 1000, NULL), KVS_OK);
    assert_int_equal(size, 192 + 11);
    assert_memory_equal(bytes, "\xb8\0\0\0\0\0\0\0", 8); /* 192 - 8 */
    assert_memory_equal(bytes + 8, header, sizeof header - 1);
    for (size_t i = 8 + sizeof header - 1; i < 192; i++)
        assert_int_equal(bytes[i], ' ');
    assert_memory_equal(bytes + 192, "\0\0\x80\x3f\0\0\0\xc0xyz", 11);
    kvsi_free(bytes);
}

static void written_tensors_are_read_back(void **state)
{
    static const float f32[] = {1.5f, -2.25f, 3e-40f, 1e38f, 0, 7};
    static const double f64[] = {0.1, -1e300};
    static const int32_t i32[] = {INT32_MIN, 0, INT32_MAX};
    static const int64_t i64[] = {INT64_MIN, INT64_MAX};
    static const kvsi_file_tensor tensors[] = {
        {.name = "z.weight", .dtype = KVSI_F32, .rank = 3, .shape = {1, 2, 3}, .data = f32},
        {.name = "a \"quoted\" \xc3\xa9", .dtype = KVSI_U8, .rank = 1, .shape = {3}, .data = "abc"},
        {.name = "empty", .dtype = KVSI_F32, .rank = 2, .shape = {0, 5}, .data = NULL},
        {.name = "scalar", .dtype = KVSI_F64, .rank = 0, .data = f64},
        {.name = "m", .dtype = KVSI_F64, .rank = 1, .shape = {2}, .data = f64},
        {.name = "i", .dtype = KVSI_I32, .rank = 1, .shape = {3}, .data = i32},
        {.name = "l", .dtype = KVSI_I64, .rank = 5, .shape = {1, 1, 1, 1, 2}, .data = i64},
    };
    enum { COUNT = sizeof tensors / sizeof *tensors };
    kvsi_safetensors *file;

    (void)state;
    assert_int_equal(kvsi_safetensors_write(path, tensors, COUNT, NULL), KVS_OK);
    file = open_good();
    assert_int_equal(kvsi_safetensors_count(file), COUNT);
    assert_int_equal((uintptr_t)kvsi_safetensors_at(file, 0)->data % 64, 0);
    for (size_t i = 0; i < COUNT; i++) {
        const kvsi_file_tensor *in = &tensors[i], *out = kvsi_safetensors_at(file, i);
        const size_t bytes = kvsi_file_tensor_count(in) * kvsi_dtype_bytes(in->dtype, 1);

        assert_ptr_equal(kvsi_safetensors_find(file, in->name), out);
        assert_string_equal(out->name, in->name);
        assert_int_equal(out->dtype, in->dtype);
        assert_int_equal(out->rank, in->rank);
        assert_memory_equal(out->shape, in->shape, in->rank * sizeof *in->shape);
        if (bytes > 0)
            assert_memory_equal(out->data, in->data, bytes);
    }
    kvsi_safetensors_close(file);
}

/* Two tensors of one name; a missing folder: the old file stays, nothing new appears. */
static void failed_writing_changes_nothing(void **state)
{
    const kvsi_file_tensor twice[] = {
        {.name = "t", .dtype = KVSI_U8, .rank = 1, .shape = {1}, .data = "x"},
        {.name = "t", .dtype = KVSI_U8, .rank = 1, .shape = {1}, .data = "y"},
    };
    const size_t live = kvsi_memory_live();
    char elsewhere[320];
    kvs_err err;
    char *bytes;
    size_t size;

    (void)state;
    put("old", 3);
    assert_int_equal(kvsi_safetensors_write(path, twice, 2, &err), KVS_E_INVALID);
    assert_non_null(strstr(err.message, "'t'"));
    snprintf(elsewhere, sizeof elsewhere, "%s/nowhere/file", dir);
    assert_int_equal(kvsi_safetensors_write(elsewhere, twice, 1, &err), KVS_E_IO);
    assert_int_equal(kvsi_memory_live(), live);
    assert_int_equal(kvsi_file_read(&bytes, &size, path, 100, NULL), KVS_OK);
    assert_string_equal(bytes, "old");
    kvsi_free(bytes);
}

static void many_names_are_found(void **state)
{
    enum { COUNT = 1000 };
    static char names[COUNT][16];
    static unsigned char data[COUNT];
    static kvsi_file_tensor tensors[COUNT];
    kvsi_safetensors *file;

    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        snprintf(names[i], sizeof names[i], "t%zu", i * 7919 % COUNT);
        data[i] = (unsigned char)i;
        tensors[i] = (kvsi_file_tensor){
            .name = names[i], .dtype = KVSI_U8, .rank = 1, .shape = {1}, .data = &data[i]};
    }
    assert_int_equal(kvsi_safetensors_write(path, tensors, COUNT, NULL), KVS_OK);
    file = open_good();
    for (size_t i = 0; i < COUNT; i++)
        assert_ptr_equal(kvsi_safetensors_find(file, names[i]), kvsi_safetensors_at(file, i));
    assert_null(kvsi_safetensors_find(file, "t1000"));
    kvsi_safetensors_close(file);
    kvsi_safetensors_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_python_file_is_read),
        cmocka_unit_test(unusual_files_are_read),
        cmocka_unit_test(bad_headers_are_refused),
        cmocka_unit_test(unknown_types_are_refused_by_name),
        cmocka_unit_test(deep_nesting_is_refused),
        cmocka_unit_test(bad_lengths_are_refused),
        cmocka_unit_test(what_is_no_file_is_refused),
        cmocka_unit_test(damaged_files_do_no_harm),
        cmocka_unit_test(written_bytes_are_as_expected),
        cmocka_unit_test(written_tensors_are_read_back),
        cmocka_unit_test(failed_writing_changes_nothing),
        cmocka_unit_test(many_names_are_found),
    };

    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
