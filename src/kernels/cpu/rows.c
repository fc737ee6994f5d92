/* Small operations on whole arrays and rows. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vector.h"
#include "kernels/host.h"
#include "parallel/threads.h"

#include <math.h>

enum { PIECE_VALUES = 1 << 14 }; /* a multiple of 4: dropout draws four words at a time */

static size_t pieces_of(size_t count)
{
    return (count + PIECE_VALUES - 1) / PIECE_VALUES;
}

static size_t end_of_piece(size_t i, size_t count)
{
    return (i + 1) * PIECE_VALUES < count ? (i + 1) * PIECE_VALUES : count;
}

void LEVEL(dropout)(kvsi_context *c, float *x, size_t count, const kvsi_dropout *d)
{
    KVSI_PARALLEL_PIECES(c->threads, i, pieces_of(count)) {
        const size_t end = end_of_piece(i, count);

        for (size_t at = i * PIECE_VALUES; at < end; at += 4) {
            float factors[4];

            kvsi_keep_factors(factors, d, at / 4);
            for (size_t j = 0; j < 4 && at + j < end; j++)
                x[at + j] *= factors[j];
        }
    }
}

void LEVEL(add)(kvsi_context *c, float *y, const float *x, size_t count)
{
    KVSI_PARALLEL_PIECES(c->threads, i, pieces_of(count)) {
        float *restrict to = y;
        const float *restrict from = x;

        for (size_t at = i * PIECE_VALUES; at < end_of_piece(i, count); at++)
            to[at] += from[at];
    }
}

typedef uint32_t vecu __attribute__((vector_size(VEC_BYTES), aligned(4), may_alias));
typedef uint16_t halves __attribute__((vector_size(VEC_BYTES / 2), aligned(2), may_alias));

/* The upper 16 bits are those of kvsi_float_to_bf16, the lower ones are 0. */
INLINE vecu round_upper(vec x)
{
    const vecu bits = (vecu)x, even = bits >> 16 & 1;
    const vecu is_nan = (vecu)(x != x);

    return ((is_nan & (bits | 0x400000)) | (~is_nan & (bits + 0x7fff + even))) & 0xffff0000;
}

void LEVEL(round_bf16)(kvsi_context *c, float *x, uint16_t *kept, size_t count)
{
    KVSI_PARALLEL_PIECES(c->threads, i, pieces_of(count)) {
        const size_t end = end_of_piece(i, count);
        size_t at = i * PIECE_VALUES;

        for (; at + VEC <= end; at += VEC) {
            const vecu rounded = round_upper(vec_load(x + at));

            vec_store(x + at, (vec)rounded);
            if (kept)
                *(halves *)(kept + at) = __builtin_convertvector(rounded >> 16, halves);
        }
        for (; at < end; at++) {
            const uint16_t bits = kvsi_float_to_bf16(x[at]);

            x[at] = kvsi_bf16_to_float(bits);
            if (kept)
                kept[at] = bits;
        }
    }
}

void LEVEL(widen_bf16)(kvsi_context *c, float *x, const uint16_t *kept, size_t count)
{
    KVSI_PARALLEL_PIECES(c->threads, i, pieces_of(count)) {
        const size_t end = end_of_piece(i, count);
        size_t at = i * PIECE_VALUES;

        for (; at + VEC <= end; at += VEC)
            vec_store(x + at,
                      (vec)(__builtin_convertvector(*(const halves *)(kept + at), vecu) << 16));
        for (; at < end; at++)
            x[at] = kvsi_bf16_to_float(kept[at]);
    }
}

static float inverse_length(const float *x, size_t cols)
{
    const float sum = dot(x, x, cols);

    return sum > 0 ? 1.0f / sqrtf(sum) : 0.0f;
}

void LEVEL(unit_rows_forward)(kvsi_context *c, float *y, const float *x, size_t rows, size_t cols)
{
    const pieces cut = cut_rows(rows);

    KVSI_PARALLEL_PIECES(c->threads, i, cut.count) {
        for (size_t r = i * cut.rows; r < piece_end(cut, i, rows); r++) {
            const float inverse = inverse_length(x + r * cols, cols);
            for (size_t j = 0; j < cols; j++)
                y[r * cols + j] = x[r * cols + j] * inverse;
        }
    }
}

/* With z = x / |x|:  d_x += (d_y - z <z, d_y>) / |x| */
static void unit_row_backward(float *restrict d_x, const float *restrict d_y,
                              const float *restrict x, size_t cols)
{
    const float inverse = inverse_length(x, cols);
    const float pull = inverse * inverse * dot(x, d_y, cols);

    for (size_t j = 0; j < cols; j++)
        d_x[j] += (d_y[j] - x[j] * pull) * inverse;
}

void LEVEL(unit_rows_backward)(kvsi_context *c, float *d_x, const float *d_y, const float *x,
                               size_t rows, size_t cols)
{
    const pieces cut = cut_rows(rows);

    KVSI_PARALLEL_PIECES(c->threads, i, cut.count) {
        for (size_t r = i * cut.rows; r < piece_end(cut, i, rows); r++)
            unit_row_backward(d_x + r * cols, d_y + r * cols, x + r * cols, cols);
    }
}
