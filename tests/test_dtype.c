/* Numbers of half the size: every F16 there is, and what rounding must do at its edges. */
#include "base/dtype.h"
#include "support.h"

#include <math.h>
#include <string.h>

static float decoded(kvsi_dtype dtype, unsigned bits)
{
    const uint16_t half = (uint16_t)bits;
    float value;

    kvsi_dtype_decode(&value, dtype, &half, 1);
    return value;
}

static unsigned encoded(kvsi_dtype dtype, float value)
{
    uint16_t half;

    kvsi_dtype_encode(&half, dtype, &value, 1);
    return half;
}

static void halves_come_back(void **state)
{
    (void)state;
    for (unsigned bits = 0; bits < 0x10000; bits++) {
        const float f16 = decoded(KVSI_F16, bits), bf16 = decoded(KVSI_BF16, bits);

        if (!isnan(f16))
            assert_int_equal(encoded(KVSI_F16, f16), bits);
        else
            assert_true(isnan(decoded(KVSI_F16, encoded(KVSI_F16, f16))));
        if (!isnan(bf16))
            assert_int_equal(encoded(KVSI_BF16, bf16), bits);
        else
            assert_true(isnan(decoded(KVSI_BF16, encoded(KVSI_BF16, bf16))));
    }
}

static void f16_has_its_values(void **state)
{
    (void)state;
    assert_true(decoded(KVSI_F16, 0x3c00) == 1.0F);
    assert_true(decoded(KVSI_F16, 0xc000) == -2.0F);
    assert_true(decoded(KVSI_F16, 0x7bff) == 65504.0F);
    assert_true(decoded(KVSI_F16, 0x0400) == 0x1p-14F);
    assert_true(decoded(KVSI_F16, 0x0001) == 0x1p-24F);
    assert_true(decoded(KVSI_F16, 0x83ff) == -0x3ffp-24F);
    assert_true(isinf(decoded(KVSI_F16, 0x7c00)));
}

/* Between any two neighbours: below the middle goes down, above goes up, the middle to even. */
static void rounding_is_to_nearest_even(void **state)
{
    (void)state;
    for (unsigned bits = 0; bits < 0x7bff; bits++) {
        const float low = decoded(KVSI_F16, bits), high = decoded(KVSI_F16, bits + 1);
        const float middle = low + (high - low) / 2;

        assert_int_equal(encoded(KVSI_F16, nextafterf(middle, 0)), bits);
        assert_int_equal(encoded(KVSI_F16, nextafterf(middle, high)), bits + 1);
        assert_int_equal(encoded(KVSI_F16, middle), bits % 2 == 0 ? bits : bits + 1);
        assert_int_equal(encoded(KVSI_F16, -middle), (bits % 2 == 0 ? bits : bits + 1) | 0x8000);
    }
    assert_int_equal(encoded(KVSI_F16, nextafterf(65520.0F, 0)), 0x7bff);
    assert_int_equal(encoded(KVSI_F16, 65520.0F), 0x7c00);
    assert_int_equal(encoded(KVSI_F16, 1e30F), 0x7c00);
    assert_int_equal(encoded(KVSI_BF16, 1.00390625F), 0x3f80); /* 1 + 2^-8, a tie */
    assert_int_equal(encoded(KVSI_BF16, 1.01171875F), 0x3f82); /* 1 + 3 * 2^-8, a tie */
    assert_int_equal(encoded(KVSI_BF16, 3.4e38F), 0x7f80);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(halves_come_back),
        cmocka_unit_test(f16_has_its_values),
        cmocka_unit_test(rounding_is_to_nearest_even),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
