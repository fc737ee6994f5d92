/* base/dtype.h - the types of numbers in files and in weights: plain ones, halves, and blocks of
 * small whole numbers with a common factor, as GGUF has them.
 *
 *     Q8_0   32 numbers: a half d, then 32 signed bytes q;            d * q
 *     Q4_0   32 numbers: a half d, then 16 bytes; number i is the low four bits of byte i, number
 *            16 + i the high ones;                                    d * (q - 8)
 *     Q4_K   256 numbers in eight runs of 32: halves d and m, then 12 bytes with a six-bit scale s
 *            and offset o a run, then 128 bytes of four bits;         d * s * q - m * o
 *     Q6_K   256 numbers in sixteen runs of 16: 128 bytes with their lower four bits, 64 with their
 *            upper two, 16 signed scales s, a half d;                 d * s * (q - 32)
 *
 * Everything here is plain C and gives the same bits on every processor; kernels have fast versions
 * of what they need. */
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
    KVSI_Q4_K,
    KVSI_Q6_K,
    KVSI_DTYPES
} kvsi_dtype;

const char *kvsi_dtype_name(kvsi_dtype dtype); /* as safetensors and GGUF write it: "F32", "Q8_0" */

/* Numbers come in blocks: 1 of the plain types, 32 or 256 of the others. */
size_t kvsi_dtype_block(kvsi_dtype dtype);
/* Bytes of `count` numbers, a whole number of blocks. */
size_t kvsi_dtype_bytes(kvsi_dtype dtype, size_t count);

/* Whether numbers of the type can be weights: F32, F16, BF16 and the blocks. */
int kvsi_dtype_is_weight(kvsi_dtype dtype);
/* Numbers of such a type as float32, exactly, and the other way: rounded to nearest, ties to even
 * (F16, BF16); Q8_0 and Q4_0 as GGUF's own tools round them; Q4_K and Q6_K are read only.  `data`
 * may be at any alignment; `count` is a whole number of blocks.  What becomes blocks is finite. */
void kvsi_dtype_decode(float *out, kvsi_dtype dtype, const void *data, size_t count);
void kvsi_dtype_encode(void *out, kvsi_dtype dtype, const float *in, size_t count);

float kvsi_f16_to_float(uint16_t half);

#endif
