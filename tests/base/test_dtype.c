/* 16-bit types: every F16 value, and rounding at the limits; quantized blocks. */
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

/* Between two adjacent values: below the middle rounds down, above up, the middle to even. */
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

/* Blocks written by hand: scales that are exact in f16, values that are exact in bytes. */
static void blocks_have_their_values(void **state)
{
    unsigned char q8[34] = {0x00, 0x34}, q4[18] = {0x00, 0xb4}, k[144] = {0x00, 0x3c, 0x00, 0x38};
    float out[256];

    (void)state;
    q8[2] = 3;
    q8[33] = (unsigned char)-128;
    kvsi_dtype_decode(out, KVSI_Q8_0, q8, 32);
    assert_true(out[0] == 0.75F && out[1] == 0 && out[31] == -32.0F); /* d = 1/4 */
    q4[2] = 0xf0;
    kvsi_dtype_decode(out, KVSI_Q4_0, q4, 32);
    assert_true(out[0] == 2.0F && out[16] == -1.75F && out[1] == 2.0F); /* d = -1/4 */
    k[4] = 0xc5;       /* scale of run 0 is 5, and 48 is added to that of run 4 */
    k[8] = 0x83;       /* offset of run 0 is 3, and 32 is added to that of run 4 */
    k[12] = 0x21;      /* run 4: scale 1 + 48, offset 2 + 32 */
    k[16] = 0x97;      /* number 0 of runs 0 and 1 */
    k[16 + 64] = 0x4b; /* number 0 of runs 4 and 5 */
    kvsi_dtype_decode(out, KVSI_Q4_K, k, 256); /* d = 1, m = 1/2 */
    assert_true(out[0] == 5.0F * 7 - 1.5F && out[32] == 0);
    assert_true(out[128] == 49.0F * 11 - 17.0F && out[1] == -1.5F);
}

/* d = 1/4; checks lower bits, upper bits and scale at several positions. */
static void blocks_of_six_bits_have_their_values(void **state)
{
    unsigned char block[210] = {0};
    float out[256];

    (void)state;
    block[209] = 0x34;
    for (int i = 0; i < 16; i++)
        block[192 + i] = (unsigned char)(i - 8);
    block[0] = 0xa5;            /* numbers 0 and 64 */
    block[128] = 0x93;          /* 3 for number 0, 0 for 32, 1 for 64, 2 for 96 */
    block[64 + 32 + 31] = 0x7c; /* numbers 128 + 63 and 128 + 127 */
    block[128 + 63] = 0x44;     /* of 128 + 31: 0, 63: 1, 95: 0, 127: 1 */
    kvsi_dtype_decode(out, KVSI_Q6_K, block, 256);
    assert_true(out[0] == 0.25F * -8 * (0x35 - 32) && out[64] == 0.25F * -4 * (0x1a - 32));
    assert_true(out[32] == 0.25F * -6 * -32 && out[96] == 0.25F * -2 * (0x20 - 32));
    assert_true(out[191] == 0.25F * 3 * (0x1c - 32) && out[255] == 0.25F * 7 * (0x17 - 32));
    assert_true(out[16] == 0.25F * -7 * -32 && out[128] == 0);
}

/* d = 1/4 and m = 1/2; the fifth bits of several values. */
static void blocks_of_five_bits_have_their_values(void **state)
{
    unsigned char q5[22] = {0x00, 0x34}, k[176] = {0x00, 0x34, 0x00, 0x38};
    float out[256];

    (void)state;
    q5[2] = 0x02; /* of value 1 */
    q5[5] = 0x80; /* of value 31 */
    q5[6] = 0x3c; /* values 0 and 16 */
    q5[7] = 0x0f; /* values 1 and 17 */
    q5[21] = 0x90;
    kvsi_dtype_decode(out, KVSI_Q5_0, q5, 32);
    assert_true(out[0] == 0.25F * (12 - 16) && out[16] == 0.25F * (3 - 16));
    assert_true(out[1] == 0.25F * 15 && out[17] == -4.0F && out[31] == 0.25F * (25 - 16));
    k[4 + 1] = 7;          /* scale of run 1 */
    k[4 + 5] = 9;          /* offset of run 1 */
    k[4 + 11] = 0xa3;      /* run 7: scale 3, offset 10 */
    k[16 + 5] = 0x82;      /* value 5 of runs 1 and 7 */
    k[48 + 5] = 0xb0;      /* value 5 of run 1 */
    k[48 + 96 + 5] = 0x40; /* value 5 of run 7 */
    kvsi_dtype_decode(out, KVSI_Q5_K, k, 256);
    assert_true(out[32 + 5] == 0.25F * 7 * (16 + 11) - 4.5F && out[32] == -4.5F);
    assert_true(out[224 + 5] == 0.25F * 3 * (16 + 4) - 5.0F && out[0] == 0);
}

/* Decoded values are within half a step of the encoded ones; the extreme value is exact. */
static void blocks_round(void **state)
{
    static const kvsi_dtype types[] = {KVSI_Q8_0, KVSI_Q4_0};
    float in[32], out[32];
    unsigned char block[34];

    (void)state;
    for (int i = 0; i < 32; i++)
        in[i] = (float)((i * 37) % 32 - 15) / 8;
    in[5] = -2.0F; /* the extreme: -8 steps of 1/4, or -127 of 2/127 */
    for (size_t t = 0; t < 2; t++) {
        const float step = types[t] == KVSI_Q8_0 ? 2.0F / 127 : 0.25F;

        kvsi_dtype_encode(block, types[t], in, 32);
        kvsi_dtype_decode(out, types[t], block, 32);
        for (int i = 0; i < 32; i++)
            assert_true(fabsf(out[i] - in[i]) <=
                        (types[t] == KVSI_Q4_0 && in[i] > 1.75F ? step : step / 2 + 0.001F));
        assert_true(fabsf(out[5] + 2.0F) < 0.002F);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(halves_come_back),
        cmocka_unit_test(f16_has_its_values),
        cmocka_unit_test(rounding_is_to_nearest_even),
        cmocka_unit_test(blocks_have_their_values),
        cmocka_unit_test(blocks_of_five_bits_have_their_values),
        cmocka_unit_test(blocks_of_six_bits_have_their_values),
        cmocka_unit_test(blocks_round),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
