/* The types of numbers in files.  Halves are converted by bits, so that every processor gives the
 * same ones. */
#include "formats/tensor.h"

#include <stdint.h>
#include <string.h>

static const struct {
    const char *name;
    size_t size;
} dtypes[KVSI_DTYPES] = {
    [KVSI_F32] = {"F32", 4},   [KVSI_F64] = {"F64", 8}, [KVSI_I32] = {"I32", 4},
    [KVSI_I64] = {"I64", 8},   [KVSI_U8] = {"U8", 1},   [KVSI_F16] = {"F16", 2},
    [KVSI_BF16] = {"BF16", 2},
};

const char *kvsi_dtype_name(kvsi_dtype dtype)
{
    return dtypes[dtype].name;
}

size_t kvsi_dtype_size(kvsi_dtype dtype)
{
    return dtypes[dtype].size;
}

size_t kvsi_file_tensor_count(const kvsi_file_tensor *tensor)
{
    size_t count = 1;

    for (size_t i = 0; i < tensor->rank; i++)
        count *= tensor->shape[i];
    return count;
}

size_t kvsi_file_tensor_bytes(const kvsi_file_tensor *tensor)
{
    return kvsi_file_tensor_count(tensor) * kvsi_dtype_size(tensor->dtype);
}

int kvsi_dtype_is_weight(kvsi_dtype dtype)
{
    return dtype == KVSI_F32 || dtype == KVSI_F16 || dtype == KVSI_BF16;
}

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
static float f16_to_float(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16, magnitude = half & 0x7fff;

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
    if (magnitude >= 0x477ff000) /* from 65520 on, rounding leaves the range */
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x38800000) { /* below 2^-14: adding 0.5 leaves the multiples of 2^-24 */
        const float rounded = from_bits(magnitude) + 0.5F;

        return (uint16_t)(sign | (to_bits(rounded) - to_bits(0.5F)));
    }
    return (uint16_t)(sign |
                      (magnitude - ((127 - 15) << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13);
}

static uint16_t float_to_bf16(float value)
{
    const uint32_t bits = to_bits(value);

    if ((bits & 0x7fffffff) > 0x7f800000) /* rounding must not make a NaN infinite */
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

void kvsi_dtype_decode(float *out, kvsi_dtype dtype, const void *data, size_t count)
{
    const unsigned char *from = data;

    if (dtype == KVSI_F32) {
        memcpy(out, data, count * sizeof *out);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        uint16_t half;

        memcpy(&half, from + 2 * i, sizeof half);
        out[i] = dtype == KVSI_F16 ? f16_to_float(half) : from_bits((uint32_t)half << 16);
    }
}

void kvsi_dtype_encode(void *out, kvsi_dtype dtype, const float *in, size_t count)
{
    unsigned char *to = out;

    if (dtype == KVSI_F32) {
        memcpy(out, in, count * sizeof *in);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const uint16_t half = dtype == KVSI_F16 ? float_to_f16(in[i]) : float_to_bf16(in[i]);

        memcpy(to + 2 * i, &half, sizeof half);
    }
}
