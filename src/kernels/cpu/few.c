#include "kernels/cpu/few.h"

#include "kernels/cpu/decode.h"
#include "parallel/threads.h"

enum { PIECE_ROWS = 32, TOGETHER = 4 }; /* rows a piece, tokens that share one decoding */

/* sums[t] = row . x[t] for `tokens` rows of x; type and tokens are constants at every call.  Runs
 * are summed by turns in two places, so that one need not wait for the other. */
INLINE void dot_run(kvsi_dtype type, size_t tokens, float *sums, const unsigned char *row,
                    const float *x, size_t cols)
{
    const size_t bytes = kvsi_dtype_bytes(type, RUN), runs = cols / RUN;
    vec totals[2][TOGETHER] = {{{0}}};

    for (size_t i = 0; i < runs; i++) {
        const run r = decode_run(type, row + i * bytes);

        for (size_t t = 0; t < tokens; t++) {
            const float *at = x + t * cols + i * RUN;
            vec sum = r.w[0] * vec_load(at);

            for (int j = 1; j < RUN_VECTORS; j++)
                sum += r.w[j] * vec_load(at + j * VEC);
            totals[i % 2][t] += sum * r.factor;
        }
    }
    for (size_t t = 0; t < tokens; t++)
        sums[t] = vec_sum(totals[0][t] + totals[1][t]);
    if (runs * RUN < cols) {
        float rest[RUN];

        kvsi_dtype_decode(rest, type, row + runs * bytes, cols - runs * RUN);
        for (size_t t = 0; t < tokens; t++)
            for (size_t i = runs * RUN; i < cols; i++)
                sums[t] += rest[i - runs * RUN] * x[t * cols + i];
    }
}

INLINE void dot_tokens(kvsi_dtype type, size_t tokens, float *sums, const unsigned char *row,
                       const float *x, size_t cols)
{
    switch (tokens) {
    case 1:
        dot_run(type, 1, sums, row, x, cols);
        break;
    case 2:
        dot_run(type, 2, sums, row, x, cols);
        break;
    case 3:
        dot_run(type, 3, sums, row, x, cols);
        break;
    default:
        dot_run(type, 4, sums, row, x, cols);
    }
}

static void dot_row(kvsi_dtype type, size_t tokens, float *sums, const unsigned char *row,
                    const float *x, size_t cols)
{
    switch (type) {
    case KVSI_F16:
        dot_tokens(KVSI_F16, tokens, sums, row, x, cols);
        break;
    case KVSI_BF16:
        dot_tokens(KVSI_BF16, tokens, sums, row, x, cols);
        break;
    case KVSI_Q8_0:
        dot_tokens(KVSI_Q8_0, tokens, sums, row, x, cols);
        break;
    case KVSI_Q4_0:
        dot_tokens(KVSI_Q4_0, tokens, sums, row, x, cols);
        break;
    default:
        dot_tokens(KVSI_F32, tokens, sums, row, x, cols);
    }
}

/* Types without runs, a block at a time through float32. */
static void dot_blocks(kvsi_dtype type, size_t tokens, float *sums, const unsigned char *row,
                       const float *x, size_t cols)
{
    enum { BLOCK_MAX = 256 };
    const size_t block = kvsi_dtype_block(type);
    float numbers[BLOCK_MAX];

    for (size_t t = 0; t < tokens; t++)
        sums[t] = 0;
    for (size_t i = 0; i < cols; i += block) {
        kvsi_dtype_decode(numbers, type, row + kvsi_dtype_bytes(type, i), block);
        for (size_t t = 0; t < tokens; t++)
            sums[t] += dot(numbers, x + t * cols + i, block);
    }
}

void LEVEL(linear_few)(const kvsi_context *c, float *y, const float *x, const kvsi_matrix *w,
                       size_t n, const float *residual)
{
    const size_t stride = kvsi_matrix_stride(w), bytes = kvsi_dtype_bytes(w->type, w->cols);

    KVSI_PARALLEL_PIECES(c->threads, i, (w->rows + PIECE_ROWS - 1) / PIECE_ROWS) {
        const size_t from = i * PIECE_ROWS, end = from + PIECE_ROWS;

        for (size_t o = from; o < (end < w->rows ? end : w->rows); o++)
            for (size_t t = 0; t < n; t += TOGETHER) {
                const unsigned char *row = (const unsigned char *)w->data + o * bytes;
                const size_t tokens = n - t < TOGETHER ? n - t : TOGETHER;
                const size_t column = kvsi_matrix_column(w, o);
                float sums[TOGETHER];

                (w->type == KVSI_Q4_K ? dot_blocks : dot_row)(w->type, tokens, sums, row,
                                                              x + t * w->cols, w->cols);
                for (size_t k = 0; k < tokens; k++)
                    y[(t + k) * stride + column] =
                        sums[k] + (residual ? residual[(t + k) * stride + column] : 0.0f) +
                        (w->bias ? w->bias[column] : 0.0f);
            }
    }
}
