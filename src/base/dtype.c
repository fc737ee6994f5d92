/* f16 and quantized blocks are converted by bit operations in a fixed order, so that every
 * processor gives the same values. */
#include "base/dtype.h"

#include <math.h>
#include <string.h>

enum { RUN = 32, SUPER = 256 }; /* values per block of Q8_0, Q4_0 and Q5_0, and of the K types */

static const struct {
    const char *name;
    size_t block, bytes; /* values and bytes per block */
    int weight;
} dtypes[KVSI_DTYPES] = {
    [KVSI_F32] = {"F32", 1, 4, 1},
    [KVSI_F64] = {"F64", 1, 8, 0},
    [KVSI_I32] = {"I32", 1, 4, 0},
    [KVSI_I64] = {"I64", 1, 8, 0},
    [KVSI_U8] = {"U8", 1, 1, 0},
    [KVSI_F16] = {"F16", 1, 2, 1},
    [KVSI_BF16] = {"BF16", 1, 2, 1},
    [KVSI_Q8_0] = {"Q8_0", RUN, 2 + RUN, 1},
    [KVSI_Q4_0] = {"Q4_0", RUN, 2 + RUN / 2, 1},
    [KVSI_Q5_0] = {"Q5_0", RUN, 2 + RUN / 8 + RUN / 2, 1},
    [KVSI_Q4_K] = {"Q4_K", SUPER, 4 + 12 + SUPER / 2, 1},
    [KVSI_Q5_K] = {"Q5_K", SUPER, 4 + 12 + SUPER / 8 + SUPER / 2, 1},
    [KVSI_Q6_K] = {"Q6_K", SUPER, SUPER / 2 + SUPER / 4 + 16 + 2, 1},
};

const char *kvsi_dtype_name(kvsi_dtype dtype)
{
    return dtypes[dtype].name;
}

size_t kvsi_dtype_block(kvsi_dtype dtype)
{
    return dtypes[dtype].block;
}

size_t kvsi_dtype_bytes(kvsi_dtype dtype, size_t count)
{
    return count / dtypes[dtype].block * dtypes[dtype].bytes;
}

int kvsi_dtype_is_weight(kvsi_dtype dtype)
{
    return dtypes[dtype].weight;
}

/* ---- f16 and bf16 ---- */

static float from_bits(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t to_bits(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* sign 1, exponent 5 (bias 15), fraction 10 -> sign 1, exponent 8 (bias 127), fraction 23 */
float kvsi_f16_to_float(uint16_t bits)
{
    const uint32_t sign = (uint32_t)(bits & 0x8000) << 16, magnitude = bits & 0x7fff;

    if (magnitude >= 0x7c00) /* infinity or NaN */
        return from_bits(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
    if (magnitude < 0x400) { /* zero or subnormal: a multiple of 2^-24 */
        const float value = (float)magnitude * 0x1p-24f;

        return sign ? -value : value;
    }
    return from_bits(sign | ((magnitude << 13) + ((127 - 15) << 23)));
}

static uint16_t float_to_f16(float value)
{
    const uint32_t bits = to_bits(value), magnitude = bits & 0x7fffffff;
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);

    if (magnitude > 0x7f800000) /* NaN stays NaN, and quiet */
        return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
    if (magnitude >= 0x477ff000) /* values from 65520 on round to infinity */
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x38800000) { /* below 2^-14: adding 0.5 rounds to multiples of 2^-24 */
        const float rounded = from_bits(magnitude) + 0.5F;

        return (uint16_t)(sign | (to_bits(rounded) - to_bits(0.5F)));
    }
    return (uint16_t)(sign |
                      (magnitude - ((127 - 15) << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13);
}

float kvsi_bf16_to_float(uint16_t bits)
{
    return from_bits((uint32_t)bits << 16);
}

uint16_t kvsi_float_to_bf16(float value)
{
    const uint32_t bits = to_bits(value);

    if ((bits & 0x7fffffff) > 0x7f800000) /* rounding must not turn a NaN into infinity */
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static uint16_t get_u16(const unsigned char *at)
{
    uint16_t bits16;

    memcpy(&bits16, at, sizeof bits16);
    return bits16;
}

static void put_u16(unsigned char *at, uint16_t bits16)
{
    memcpy(at, &bits16, sizeof bits16);
}

/* ---- quantized blocks ---- */

static void decode_q8_0(float *out, const unsigned char *block)
{
    const float d = kvsi_f16_to_float(get_u16(block));

    for (int i = 0; i < RUN; i++)
        out[i] = d * (float)(int8_t)block[2 + i];
}

static void decode_q4_0(float *out, const unsigned char *block)
{
    const float d = kvsi_f16_to_float(get_u16(block));

    for (int i = 0; i < RUN / 2; i++) {
        out[i] = d * (float)((block[2 + i] & 15) - 8);
        out[RUN / 2 + i] = d * (float)((block[2 + i] >> 4) - 8);
    }
}

static void decode_q5_0(float *out, const unsigned char *block)
{
    const unsigned char *upper = block + 2, *lower = upper + RUN / 8;
    const float d = kvsi_f16_to_float(get_u16(block));

    for (int i = 0; i < RUN; i++) {
        const int low = i < RUN / 2 ? lower[i] & 15 : lower[i - RUN / 2] >> 4;
        const int high = upper[i / 8] >> (i % 8) & 1;

        out[i] = d * (float)((low | high << 4) - 16);
    }
}

/* Scale and offset of run `r` of eight, six bits each.  Runs 0-3 are stored directly; the upper two
 * bits of runs 4-7 are in the upper bits of those. */
static void run_scale(int *scale, int *offset, const unsigned char *packed, int r)
{
    if (r < 4) {
        *scale = packed[r] & 63;
        *offset = packed[r + 4] & 63;
    } else {
        *scale = (packed[r + 4] & 15) | (packed[r - 4] >> 6) << 4;
        *offset = packed[r + 4] >> 4 | (packed[r] >> 6) << 4;
    }
}

/* Q4_K, and Q5_K if there are upper bits. */
static void decode_runs(float *out, const unsigned char *block, const unsigned char *upper,
                        const unsigned char *lower)
{
    const float d = kvsi_f16_to_float(get_u16(block)), m = kvsi_f16_to_float(get_u16(block + 2));

    for (int r = 0; r < SUPER / RUN; r++) {
        int scale, offset;

        run_scale(&scale, &offset, block + 4, r);
        const float factor = d * (float)scale, least = m * (float)offset;

        for (int i = 0; i < RUN; i++) {
            const int low = lower[r / 2 * RUN + i] >> (r % 2 * 4) & 15; /* two runs share bytes */
            const int high = upper ? upper[i] >> r & 1 : 0;

            out[r * RUN + i] = factor * (float)(low | high << 4) - least;
        }
    }
}

/* Each half of the block is four runs of 32.  Runs 0 and 2, and runs 1 and 3, share bytes for the
 * lower four bits; all four share bytes for the upper two. */
static void decode_q6_k(float *out, const unsigned char *block)
{
    const unsigned char *upper = block + SUPER / 2, *scales = upper + SUPER / 4;
    const float d = kvsi_f16_to_float(get_u16(scales + 16));

    for (int i = 0; i < SUPER; i++) {
        const int side = i / 128, r = i / RUN % 4, at = i % RUN;
        const int low = block[side * 64 + r % 2 * RUN + at] >> (r / 2 * 4) & 15;
        const int high = upper[side * RUN + at] >> (r * 2) & 3;

        out[i] = d * (float)(int8_t)scales[i / 16] * (float)((low | high << 4) - 32);
    }
}

/* The value of largest magnitude; the first of equals. */
static float extreme(const float *in)
{
    float most = 0;

    for (int i = 0; i < RUN; i++)
        most = fabsf(in[i]) > fabsf(most) ? in[i] : most;
    return most;
}

/* 1 / scale, or 0 if the scale is too small for the division (and for f16): then all values of the
 * block are 0. */
static float inverse_of(float d)
{
    const float inverse = d != 0 ? 1.0F / d : 0.0F;

    return isfinite(inverse) ? inverse : 0.0F;
}

static void encode_q8_0(unsigned char *block, const float *in)
{
    const float d = fabsf(extreme(in)) / 127.0F, inverse = inverse_of(d);

    put_u16(block, float_to_f16(d));
    for (int i = 0; i < RUN; i++)
        block[2 + i] = (unsigned char)(int8_t)roundf(in[i] * inverse);
}

static int four_bits(float x)
{
    const int q = (int)(x + 8.5F);

    return q < 15 ? q : 15;
}

static void encode_q4_0(unsigned char *block, const float *in)
{
    const float d = extreme(in) / -8.0F, inverse = inverse_of(d);

    put_u16(block, float_to_f16(d));
    for (int i = 0; i < RUN / 2; i++)
        block[2 + i] =
            (unsigned char)(four_bits(in[i] * inverse) | four_bits(in[RUN / 2 + i] * inverse) << 4);
}

/* ---- any type ---- */

static void decode_block(float *out, kvsi_dtype dtype, const unsigned char *block)
{
    switch (dtype) {
    case KVSI_F16:
        *out = kvsi_f16_to_float(get_u16(block));
        break;
    case KVSI_BF16:
        *out = from_bits((uint32_t)get_u16(block) << 16);
        break;
    case KVSI_Q8_0:
        decode_q8_0(out, block);
        break;
    case KVSI_Q4_0:
        decode_q4_0(out, block);
        break;
    case KVSI_Q5_0:
        decode_q5_0(out, block);
        break;
    case KVSI_Q4_K:
        decode_runs(out, block, NULL, block + 16);
        break;
    case KVSI_Q5_K:
        decode_runs(out, block, block + 16, block + 16 + SUPER / 8);
        break;
    case KVSI_Q6_K:
        decode_q6_k(out, block);
        break;
    default:
        memcpy(out, block, sizeof *out);
    }
}

void kvsi_dtype_decode(float *out, kvsi_dtype dtype, const void *data, size_t count)
{
    const size_t block = dtypes[dtype].block, bytes = dtypes[dtype].bytes;
    const unsigned char *from = data;

    if (dtype == KVSI_F32) {
        memcpy(out, data, count * sizeof *out);
        return;
    }
    for (size_t i = 0; i < count / block; i++)
        decode_block(out + i * block, dtype, from + i * bytes);
}

void kvsi_dtype_encode(void *out, kvsi_dtype dtype, const float *in, size_t count)
{
    const size_t block = dtypes[dtype].block, bytes = dtypes[dtype].bytes;
    unsigned char *to = out;

    if (dtype == KVSI_F32) {
        memcpy(out, in, count * sizeof *in);
        return;
    }
    for (size_t i = 0; i < count / block; i++, to += bytes, in += block)
        if (dtype == KVSI_F16)
            put_u16(to, float_to_f16(*in));
        else if (dtype == KVSI_BF16)
            put_u16(to, kvsi_float_to_bf16(*in));
        else if (dtype == KVSI_Q8_0)
            encode_q8_0(to, in);
        else
            encode_q4_0(to, in);
}
