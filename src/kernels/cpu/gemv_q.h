/* kernels/cpu/gemv_q.h - quantized weights times one token, in integers, with the order of
 * summation of kernels/rounding.h.
 *
 * Inputs are rounded and packed once per layer; then every row of weights is read once, in
 * order, and leaves four integers for every group.  After some rows, sixteen with VNNI, these are
 * summed, and the factors are applied to all these rows at a time. */
#ifndef KVSI_KERNELS_CPU_GEMV_Q_H
#define KVSI_KERNELS_CPU_GEMV_Q_H

#include "kernels/backend.h"
#include "kernels/cpu/level.h"
#include "kernels/cpu/vector.h"
#include "kernels/rounding.h"

/* linear_int16 takes over above this many tokens; levels without AVX2 have no gemv_q.  With vectors
 * of 64 bytes linear_int16 unpacks Q8_0 so fast that it is the faster one from three tokens on. */
#ifdef __AVX2__
enum { GEMV_Q_TOKENS_MAX = KVSI_FEW_ROWS };
#else
enum { GEMV_Q_TOKENS_MAX = 0 };
#endif
#if VEC_BYTES == 64 && defined __AVX512BW__
enum { GEMV_Q8_0_TOKENS_MAX = 2 };
#else
enum { GEMV_Q8_0_TOKENS_MAX = GEMV_Q_TOKENS_MAX };
#endif

/* A block of inputs.  Q8_0 has them in order.  The other types have two planes of bytes, x = 256 *
 * high + low, because the products of bytes need no unpacking of weights to 16 bits. */
typedef struct gemv_block {
    union {
        _Alignas(64) int16_t x[KVSI_ROUND_BLOCK];
        struct {
            uint8_t low[KVSI_ROUND_BLOCK];
            int8_t high[KVSI_ROUND_BLOCK];
        } plane;
    };
    /* Sums of inputs, for what is subtracted from the stored weights:
     *     Q4_0, Q5_0   [8][4]: of a group, times -8 or -16, then three zeros
     *     Q4_K, Q5_K   [8]: of 32 inputs, times -1
     *     Q6_K         [16]: of 16 inputs, times -32 */
    int32_t sums[32];
    float step;
} gemv_block;

static inline size_t gemv_blocks(size_t cols)
{
    return (cols + KVSI_ROUND_BLOCK - 1) / KVSI_ROUND_BLOCK;
}

/* `cols` is a whole number of blocks of the type. */
void LEVEL(gemv_q_pack)(gemv_block *out, kvsi_dtype type, const float *x, size_t cols);

/* y[r] += row r . x, for `count` consecutive rows of weights. */
void LEVEL(gemv_q)(float *y, kvsi_dtype type, const unsigned char *rows, size_t count,
                   const gemv_block *x, size_t cols);

#endif
