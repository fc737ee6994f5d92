/* kernels/cpu/gemv_q.h - Q8_0 and Q4_0 weights times a few tokens, in integers.
 *
 * Inputs are rounded to 16 bits (kernels/rounding.h) and packed once per layer; then every row of
 * weights is read once, in order. */
#ifndef KVSI_KERNELS_CPU_GEMV_Q_H
#define KVSI_KERNELS_CPU_GEMV_Q_H

#include "kernels/backend.h"
#include "kernels/cpu/level.h"

enum { BLOCK = 32, LANES = 8, QUARTERS = 4, QUARTER = 16 };

/* Two blocks of inputs.  For Q8_0 the quarters are in order.  For Q4_0 they match the nibbles of
 * 16-bit words of weights: the first eight inputs of each quarter belong to the first block, the
 * others to the second; word i holds the weights of inputs 2i, 16 + 2i, 2i + 1 and 16 + 2i + 1.
 * Lane j sums words 2j and 2j + 1 of all quarters. */
typedef struct block_pair {
    int16_t x[QUARTERS][QUARTER];
    int32_t start[LANES]; /* Q4_0: -8 * sum of the inputs, because stored values are 8 too large */
    float step[LANES];    /* first block's in four lanes, then the second's */
} block_pair;

/* Pairs per row of inputs; the second block of the last pair may be missing (zeros). */
static inline size_t count_pairs(size_t cols)
{
    return (cols + 2 * BLOCK - 1) / (2 * BLOCK);
}

/* `cols` is a whole number of blocks. */
void LEVEL(gemv_q_pack)(block_pair *out, kvsi_dtype type, const float *x, size_t cols);

/* sums[r * tokens + t] = row r . token t, for `count` consecutive rows of weights and
 * `tokens` rows of pairs, tokens <= GEMV_Q_TOKENS_MAX. */
enum { GEMV_Q_TOKENS_MAX = 4 };
void LEVEL(gemv_q)(float *sums, kvsi_dtype type, const unsigned char *rows, size_t count,
                   const block_pair *x, size_t tokens, size_t cols);

#endif
