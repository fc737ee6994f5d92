/* The generator against Philox's published values, and its numbers against their distributions. 
 * Seeds are fixed: a failure means that the code has changed. */
#include "base/random.h"

#include <math.h>

/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h> /* needs those before it */
/* clang-format on */

enum { DRAWS = 100000 };

static kvsi_random stream(uint64_t seed, kvsi_purpose purpose, uint64_t index)
{
    kvsi_random random;

    kvsi_random_init(&random, seed, purpose, index);
    return random;
}

/* Random123's vectors for philox4x32-10.  The counter is (block, purpose, index low, index high),
 * the key (seed low, seed high). */
static void philox_known_answers(void **state)
{
    static const struct {
        kvsi_random start;
        uint32_t expected[4];
    } vectors[] = {
        {{.used = 4}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{.seed = UINT64_MAX,
          .index = UINT64_MAX,
          .purpose = UINT32_MAX,
          .block = UINT32_MAX,
          .used = 4},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{.seed = UINT64_C(0x299f31d0a4093822),
          .index = UINT64_C(0x0370734413198a2e),
          .purpose = 0x85a308d3,
          .block = 0x243f6a88,
          .used = 4},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };

    (void)state;
    for (size_t v = 0; v < sizeof vectors / sizeof *vectors; v++) {
        kvsi_random random = vectors[v].start;

        for (int i = 0; i < 4; i++)
            assert_int_equal(kvsi_random_word(&random), vectors[v].expected[i]);
    }
}

/* The words of a stream are those of blocks 0, 1, 2, ... */
static void blocks_follow_each_other(void **state)
{
    kvsi_random random = stream(5, KVSI_RANDOM_DATA, 17);

    (void)state;
    for (uint32_t block = 0; block < 3; block++) {
        kvsi_random alone = {
            .seed = 5, .index = 17, .purpose = KVSI_RANDOM_DATA, .block = block, .used = 4};

        for (int i = 0; i < 4; i++)
            assert_int_equal(kvsi_random_word(&random), kvsi_random_word(&alone));
    }
}

static void uniform_moments(void **state)
{
    kvsi_random random = stream(1, KVSI_RANDOM_DATA, 0);
    double sum = 0, squares = 0;
    unsigned set[53] = {0};

    (void)state;
    for (int i = 0; i < DRAWS; i++) {
        const double u = kvsi_random_uniform(&random), scaled = u * 0x1p53;

        assert_true(u >= 0 && u < 1);
        assert_true(scaled == floor(scaled));
        for (int bit = 0; bit < 53; bit++)
            set[bit] += (unsigned)((uint64_t)scaled >> bit & 1);
        sum += u;
        squares += (u - 0.5) * (u - 0.5);
    }
    assert_true(fabs(sum / DRAWS - 0.5) < 4 * sqrt(1.0 / 12 / DRAWS));
    assert_true(fabs(squares / DRAWS - 1.0 / 12) < 4 * sqrt(1.0 / 180 / DRAWS));
    for (int bit = 0; bit < 53; bit++)
        assert_true(fabs(set[bit] - DRAWS / 2.0) < 4 * sqrt(DRAWS / 4.0));
}

/* The deviation of the counts from equality, in standard deviations of a chi-square with `bins` - 1
 * degrees. */
static double unevenness(const unsigned *counts, size_t bins)
{
    const double expected = (double)DRAWS / (double)bins, freedom = (double)bins - 1;
    double sum = 0;

    for (size_t i = 0; i < bins; i++)
        sum += (counts[i] - expected) * (counts[i] - expected) / expected;
    return (sum - freedom) / sqrt(2 * freedom);
}

static void below_is_even(void **state)
{
    kvsi_random random = stream(2, KVSI_RANDOM_DATA, 0);
    unsigned small[7] = {0}, large[3] = {0};

    (void)state;
    for (int i = 0; i < DRAWS; i++) {
        const uint32_t a = kvsi_random_below(&random, 7);
        const uint32_t b = kvsi_random_below(&random, UINT32_C(3) << 30); /* not a power of two */

        assert_true(a < 7 && b < UINT32_C(3) << 30);
        small[a]++;
        large[b % 3]++; /* without redrawing, multiples of 3 come twice as often */
        assert_int_equal(kvsi_random_below(&random, 1), 0);
    }
    assert_true(fabs(unevenness(small, 7)) < 4);
    assert_true(fabs(unevenness(large, 3)) < 4);
}

static void normal_moments(void **state)
{
    kvsi_random random = stream(3, KVSI_RANDOM_INIT, 0);
    double power[5] = {0};
    unsigned beyond_two = 0;

    (void)state;
    for (int i = 0; i < DRAWS; i++) {
        const double x = kvsi_random_normal(&random);

        assert_true(isfinite(x));
        for (int p = 1; p <= 4; p++)
            power[p] += pow(x, p) / DRAWS;
        beyond_two += fabs(x) > 2;
    }
    /* deviations of the sample moments: sqrt of 1, 2, 15 and 96, over sqrt(n) */
    assert_true(fabs(power[1]) < 4 * sqrt(1.0 / DRAWS));
    assert_true(fabs(power[2] - 1) < 4 * sqrt(2.0 / DRAWS));
    assert_true(fabs(power[3]) < 4 * sqrt(15.0 / DRAWS));
    assert_true(fabs(power[4] - 3) < 4 * sqrt(96.0 / DRAWS));
    assert_true(fabs(beyond_two - 0.0455 * DRAWS) < 4 * sqrt(0.0455 * DRAWS));
}

static void streams_repeat(void **state)
{
    kvsi_random first = stream(9, KVSI_RANDOM_EVAL, 4), other = stream(9, KVSI_RANDOM_EVAL, 5);
    uint32_t words[10];
    kvsi_random again;

    (void)state;
    for (int i = 0; i < 10; i++) {
        words[i] = kvsi_random_word(&first);
        kvsi_random_normal(&other);
    }
    again = stream(9, KVSI_RANDOM_EVAL, 4);
    for (int i = 0; i < 10; i++)
        assert_int_equal(kvsi_random_word(&again), words[i]);
}

/* Streams that differ in one parameter, in its low or high half, are independent. */
static void streams_are_independent(void **state)
{
    const kvsi_random base = stream(7, KVSI_RANDOM_DATA, 100);
    const kvsi_random others[] = {
        stream(8, KVSI_RANDOM_DATA, 100), stream(7 + (UINT64_C(1) << 32), KVSI_RANDOM_DATA, 100),
        stream(7, KVSI_RANDOM_EVAL, 100), stream(7, KVSI_RANDOM_INIT, 100),
        stream(7, KVSI_RANDOM_DATA, 101), stream(7, KVSI_RANDOM_DATA, 100 + (UINT64_C(1) << 32)),
    };

    (void)state;
    for (size_t s = 0; s < sizeof others / sizeof *others; s++) {
        kvsi_random a = base, b = others[s];
        double product = 0;

        for (int i = 0; i < DRAWS; i++)
            product += (kvsi_random_uniform(&a) - 0.5) * (kvsi_random_uniform(&b) - 0.5);
        assert_true(fabs(product) < 4 * sqrt(DRAWS / 144.0));
    }
}

static void hash_known_answers(void **state)
{
    (void)state;
    assert_true(kvsi_hash_text("") == UINT64_C(0xcbf29ce484222325));
    assert_true(kvsi_hash_text("a") == UINT64_C(0xaf63dc4c8601ec8c));
    assert_true(kvsi_hash_text("foobar") == UINT64_C(0x85944171f73967e8));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_known_answers),    cmocka_unit_test(blocks_follow_each_other),
        cmocka_unit_test(uniform_moments),         cmocka_unit_test(below_is_even),
        cmocka_unit_test(normal_moments),          cmocka_unit_test(streams_repeat),
        cmocka_unit_test(streams_are_independent), cmocka_unit_test(hash_known_answers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
