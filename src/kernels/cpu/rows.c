/* Small operations on whole arrays and rows. */
#include "kernels/cpu/bf16.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vector.h"
#include "kernels/host.h"
#include "parallel/threads.h"

#include <math.h>
#include <string.h>

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

void LEVEL(scale)(kvsi_context *c, float *x, float factor, size_t count)
{
    KVSI_PARALLEL_PIECES(c->threads, i, pieces_of(count)) {
        for (size_t at = i * PIECE_VALUES; at < end_of_piece(i, count); at++)
            x[at] *= factor;
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

void LEVEL(round_bf16)(kvsi_context *c, float *x, uint16_t *kept, size_t count)
{
    KVSI_PARALLEL_PIECES(c->threads, i, pieces_of(count)) {
        float *restrict values = x;
        uint16_t *restrict halves = kept;

        for (size_t at = i * PIECE_VALUES; at < end_of_piece(i, count); at++) {
            const uint32_t bits = bf16_bits(values[at]) & 0xffff0000;

            memcpy(&values[at], &bits, sizeof bits);
            if (halves)
                halves[at] = (uint16_t)(bits >> 16);
        }
    }
}

void LEVEL(widen_bf16)(kvsi_context *c, float *x, const uint16_t *kept, size_t count)
{
    KVSI_PARALLEL_PIECES(c->threads, i, pieces_of(count)) {
        float *restrict values = x;
        const uint16_t *restrict halves = kept;

        for (size_t at = i * PIECE_VALUES; at < end_of_piece(i, count); at++) {
            const uint32_t bits = (uint32_t)halves[at] << 16;

            memcpy(&values[at], &bits, sizeof bits);
        }
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
