/* base/dtype.h - types of values in files and weights: plain types, and GGUF's quantized blocks of
 * small integers with a common scale.
 *
 *     Q8_0   32 values: f16 d, then 32 signed bytes q;                d * q
 *     Q4_0   32 values: f16 d, then 16 bytes; value i is the low four bits of byte i, value 16 + i
 *            the high four;                                           d * (q - 8)
 *     Q5_0   32 values: f16 d, 32 bits, 16 bytes as in Q4_0; bit i is the fifth bit of value i;
 *                                                                     d * (q - 16)
 *     Q4_K   256 values in eight runs of 32: f16 d and m, 12 bytes with a six-bit scale s and
 *            offset o per run, 128 bytes of four bits;                d * s * q - m * o
 *     Q5_K   as Q4_K, with 32 bytes before the four bits; bit r of byte i is the fifth bit of value
 *            i of run r;                                              d * s * q - m * o
 *     Q6_K   256 values in sixteen runs of 16: 128 bytes with the lower four bits, 64 with the
 *            upper two, 16 signed scales s, f16 d;                    d * s * (q - 32)
 *
 * This code is plain C and gives the same bits on every processor; kernels have fast versions of
 * the parts they need. */
#ifndef KVSI_BASE_DTYPE_H
#define KVSI_BASE_DTYPE_H

#include <stddef.h>
#include <stdint.h>

typedef enum kvsi_dtype {
    KVSI_F32,
    KVSI_F64,
    KVSI_I32,
    KVSI_I64,
    KVSI_U8,
    KVSI_F16,
    KVSI_BF16,
    KVSI_Q8_0,
    KVSI_Q4_0,
    KVSI_Q5_0,
    KVSI_Q4_K,
    KVSI_Q5_K,
    KVSI_Q6_K,
    KVSI_DTYPES
} kvsi_dtype;

const char *kvsi_dtype_name(kvsi_dtype dtype); /* as in safetensors and GGUF: "F32", "Q8_0" */

/* Values per block: 1 for plain types, otherwise 32 or 256. */
size_t kvsi_dtype_block(kvsi_dtype dtype);
/* Bytes of `count` values, a whole number of blocks. */
size_t kvsi_dtype_bytes(kvsi_dtype dtype, size_t count);

/* Whether weights may have this type: F32, F16, BF16 and the quantized blocks. */
int kvsi_dtype_is_weight(kvsi_dtype dtype);
/* Converts values to float32, exactly, and back: F16 and BF16 round to nearest, ties to even;
 * Q8_0 and Q4_0 round as in GGUF's tools; Q5_0 and the K types are read only.  `data` may be
 * unaligned; `count` is a whole number of blocks.  Values to quantize must be finite. */
void kvsi_dtype_decode(float *out, kvsi_dtype dtype, const void *data, size_t count);
void kvsi_dtype_encode(void *out, kvsi_dtype dtype, const float *in, size_t count);

float kvsi_f16_to_float(uint16_t bits);
float kvsi_bf16_to_float(uint16_t bits);
uint16_t kvsi_float_to_bf16(float value); /* to nearest, ties to even; NaN stays NaN */

#endif
