/* What Python does with random numbers, text and JSON; SHA-256.  The expected values were made with
 * Python 3.11 unless a standard gives them. */
#include "base/memory.h"
#include "base/sha256.h"
#include "eval/python_random.h"
#include "eval/python_text.h"
#include "support.h"

#include <string.h>

/* ---- SHA-256 --------------------------------------------------------------------------------- */

static void hashes_are_those_of_the_standard(void **state)
{
    static const struct {
        const char *text, *hash;
    } vectors[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    char out[KVSI_SHA256_TEXT], a[1000];
    kvsi_sha256 hash;

    (void)state;
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        kvsi_sha256_of(out, vectors[i].text, strlen(vectors[i].text));
        assert_string_equal(out, vectors[i].hash);
    }
    memset(a, 'a', sizeof a);
    kvsi_sha256_start(&hash);
    for (size_t i = 0; i < 1000; i++)
        kvsi_sha256_add(&hash, a, sizeof a);
    kvsi_sha256_finish(&hash, out);
    assert_string_equal(out, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* Every way to divide a text gives the same hash, also around the length of a block. */
static void hashes_do_not_depend_on_pieces(void **state)
{
    char text[200], whole[KVSI_SHA256_TEXT], parts[KVSI_SHA256_TEXT];

    (void)state;
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)(7 * i + 1);
    for (size_t size = 50; size < sizeof text; size++)
        for (size_t cut = 0; cut <= size; cut += 13) {
            kvsi_sha256 hash;

            kvsi_sha256_of(whole, text, size);
            kvsi_sha256_start(&hash);
            kvsi_sha256_add(&hash, text, cut);
            kvsi_sha256_add(&hash, text + cut, size - cut);
            kvsi_sha256_finish(&hash, parts);
            assert_string_equal(parts, whole);
        }
}

/* ---- random.Random --------------------------------------------------------------------------- */

static void expect_samples(size_t n, size_t k, const size_t *expected, size_t count)
{
    kvsi_python_random random;
    size_t *out = kvsi_alloc(k, sizeof *out);
    kvs_err err;

    assert_non_null(out);
    kvsi_python_seed(&random, 1234);
    for (size_t i = 0; i < count; i++) {
        if (i % k == 0)
            assert_int_equal(kvsi_python_sample(&random, n, k, out, &err), KVS_OK);
        assert_int_equal(out[i % k], expected[i]);
    }
    kvsi_free(out);
}

#define EXPECT_SAMPLES(n, k, ...)                                                                  \
    do {                                                                                           \
        static const size_t expected[] = {__VA_ARGS__};                                            \
        expect_samples(n, k, expected, sizeof expected / sizeof *expected);                        \
    } while (0)

static void samples_are_those_of_python(void **state)
{
    (void)state;
    EXPECT_SAMPLES(40398, 6, 28883, 7657, 490, 5940, 38156, 2288, 5500, 6450, 23241, 15519, 1142,
                   2019);
    EXPECT_SAMPLES(39905, 11, 28883, 7657, 490, 5940, 38156, 2288, 5500, 6450, 23241, 15519, 1142);
    EXPECT_SAMPLES(1119, 25, 902, 239, 15, 185, 71, 171, 201, 726);
    EXPECT_SAMPLES(2251, 5, 1805, 478, 30, 371, 143);
    EXPECT_SAMPLES(50, 2, 49, 28, 7, 0);
    EXPECT_SAMPLES(20, 5, 14, 3, 0, 2, 1);
}

static void uniform_numbers_are_those_of_python(void **state)
{
    kvsi_python_random random;

    (void)state;
    kvsi_python_seed(&random, 0);
    assert_true(kvsi_python_uniform(&random) == 0.8444218515250481);
    assert_true(kvsi_python_uniform(&random) == 0.7579544029403025);
    kvsi_python_seed(&random, 99);
    assert_true(kvsi_python_uniform(&random) == 0.40397807494366633);
    kvsi_python_seed(&random, UINT64_C(0x123456789abcdef));
    assert_true(kvsi_python_uniform(&random) == 0.8966868918276133);
    kvsi_python_seed(&random, 1234);
    for (size_t i = 0; i < 700; i++) /* beyond the first 624 words */
        kvsi_python_uniform(&random);
    assert_true(kvsi_python_uniform(&random) == 0.25693756873105145);
}

static void impossible_samples_are_refused(void **state)
{
    kvsi_python_random random;
    size_t out[4];
    kvs_err err;

    (void)state;
    kvsi_python_seed(&random, 1);
    assert_int_equal(kvsi_python_sample(&random, 3, 4, out, &err), KVS_E_INVALID);
    assert_int_equal(kvsi_python_sample(&random, 3, 3, out, &err), KVS_OK);
    assert_int_equal(out[0] + out[1] + out[2], 3);
    assert_int_equal(kvsi_python_sample(&random, 0, 0, out, &err), KVS_OK);
}

/* ---- text ------------------------------------------------------------------------------------ */

static void texts_are_stripped_as_python_does(void **state)
{
    static const struct {
        const char *text, *expected;
    } vectors[] = {
        {"", ""},
        {" \t\n\v\f\r", ""},
        {"  a b ", "a b"},
        {"\x1c\x1d"
         "a\x1e\x1f",
         "a"},
        {"\xc2\x85\xc2\xa0"
         "a\xe1\x9a\x80\xe2\x80\x83\xe2\x80\xa8\xe3\x80\x80",
         "a"},
        {"\xe2\x80\x8b"
         "a",
         "\xe2\x80\x8b"
         "a"}, /* U+200B is no white space */
        {"\x1b"
         "a",
         "\x1b"
         "a"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        const char *text = vectors[i].text;
        const kvsi_text_part inner = kvsi_python_strip(text, strlen(text));

        assert_int_equal(inner.size, strlen(vectors[i].expected));
        assert_memory_equal(inner.text, vectors[i].expected, inner.size);
    }
    assert_int_equal(kvsi_python_length("a\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80", 10), 4);
}

static void texts_are_capitalized_as_python_does(void **state)
{
    static const struct {
        const char *text, *expected;
    } vectors[] = {
        {"", ""},
        {"the Man and Bob", "The man and bob"},
        {"HELLO", "Hello"},
        {"\xc3\xa9\xc3\x89", "\xc3\x89\xc3\xa9"},
        {"\xc3\x9f"
         "A",
         "Ssa"},                     /* sharp s */
        {"\xef\xac\x81N", "Fin"},    /* the ligature fi */
        {"\xc7\x86X", "\xc7\x85x"},  /* dz with caron has a title case */
        {"A\xc4\xb0", "Ai\xcc\x87"}, /* I with a dot */
        {"\xce\x9f\xce\x94\xce\x9f\xce\xa3", "\xce\x9f\xce\xb4\xce\xbf\xcf\x82"}, /* final sigma */
        {"\xce\x91\xce\xa3\xce\x91", "\xce\x91\xcf\x83\xce\xb1"},
        {"A \xce\xa3 B", "A \xcf\x83 b"},
        {"A\xce\xa3'. B", "A\xcf\x82'. b"},
        {"1A", "1a"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        kvsi_text out = {0};

        kvsi_text_add(&out, "");
        kvsi_python_capitalize(&out, vectors[i].text, strlen(vectors[i].text));
        assert_string_equal(out.data, vectors[i].expected);
        kvsi_text_release(&out);
    }
}

static void numbers_are_printed_as_python_does(void **state)
{
    static const struct {
        double value;
        const char *expected;
    } vectors[] = {
        {0.0, "0.0"},
        {-0.0, "-0.0"},
        {1.0, "1.0"},
        {0.1, "0.1"},
        {1.0 / 3, "0.3333333333333333"},
        {1e15, "1000000000000000.0"},
        {1e16, "1e+16"},
        {1.5e300, "1.5e+300"},
        {1e-4, "0.0001"},
        {1.25e-5, "1.25e-05"},
        {5e-324, "5e-324"},
        {123456789.125, "123456789.125"},
        {9007199254740993.0, "9007199254740992.0"},
        {-2.5, "-2.5"},
        {0.30000000000000004, "0.30000000000000004"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        kvsi_text out = {0};

        kvsi_python_float(&out, vectors[i].value);
        assert_string_equal(out.data, vectors[i].expected);
        kvsi_text_release(&out);
    }
}

static void json_is_printed_as_python_does(void **state)
{
    json_error_t error;
    json_t *value =
        json_loads("{\"b\": [1, 2.50, true, null, []], \"a\": {}, "
                   "\"t\": \"\\u00e9\\n\\\"\\\\/\\t\\u0007\\u007f\", \"o\": {\"x\": -3}}",
                   0, &error);
    kvsi_text out = {0};

    (void)state;
    assert_non_null(value);
    kvsi_python_json(&out, value);
    assert_string_equal(out.data, "{\n  \"b\": [\n    1,\n    2.5,\n    true,\n    null,\n    []\n"
                                  "  ],\n  \"a\": {},\n"
                                  "  \"t\": \"\xc3\xa9\\n\\\"\\\\/\\t\\u0007\x7f\",\n"
                                  "  \"o\": {\n    \"x\": -3\n  }\n}");
    kvsi_text_release(&out);
    json_decref(value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hashes_are_those_of_the_standard),
        cmocka_unit_test(hashes_do_not_depend_on_pieces),
        cmocka_unit_test(samples_are_those_of_python),
        cmocka_unit_test(uniform_numbers_are_those_of_python),
        cmocka_unit_test(impossible_samples_are_refused),
        cmocka_unit_test(texts_are_stripped_as_python_does),
        cmocka_unit_test(texts_are_capitalized_as_python_does),
        cmocka_unit_test(numbers_are_printed_as_python_does),
        cmocka_unit_test(json_is_printed_as_python_does),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
