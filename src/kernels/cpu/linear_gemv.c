#include "kernels/cpu/linear_gemv.h"

#include "kernels/cpu/decode.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/gemv_q.h"
#include "kernels/cpu/linear_exact.h"
#include "kernels/rounding.h"
#include "parallel/threads.h"

/* Tokens per row of weights that is read, and rows per call. */
enum { TOGETHER = 4, ROWS_TOGETHER = 32 };
enum { PIECES_WANTED = 8, PIECE_BYTES = 1 << 13 };

typedef struct gemv {
    const kvsi_matrix *w;
    size_t n;
    const float *x;
    const gemv_block *packed; /* x rounded to integers, if the weights are */
    const uint32_t *pairs;    /* x rounded to bfloat16, in that precision */
    float *y;
    const float *residual;
    int exact;
} gemv;

/* sums[t] = row . x[t] for `tokens` rows of x; type and tokens are constants at every call.  Even
 * and odd runs have separate sums, which halves the dependency chain. */
INLINE void dot_run(kvsi_dtype type, size_t tokens, float *sums, const unsigned char *row,
                    const float *x, size_t cols)
{
    const size_t bytes = run_bytes(type), runs = cols / RUN;
    vec totals[2][TOGETHER] = {{{0}}};

    for (size_t i = 0; i < runs; i++) {
        const run r = decode_run(type, row + i * bytes);

        for (size_t t = 0; t < tokens; t++) {
            const float *at = x + t * cols + i * RUN;
            vec sum = r.w[0] * vec_load(at);

            for (int j = 1; j < RUN_VECTORS; j++)
                sum += r.w[j] * vec_load(at + j * VEC);
            totals[i % 2][t] += sum;
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
    default:
        dot_tokens(KVSI_F32, tokens, sums, row, x, cols);
    }
}

/* Rows row .. row+count-1 of the weights times `tokens` tokens from `token` on. */
static void dot_rows(const gemv *f, size_t row, size_t count, size_t token, size_t tokens,
                     float *sums)
{
    const kvsi_matrix *w = f->w;
    const size_t bytes = kvsi_dtype_bytes(w->type, w->cols);

    for (size_t r = 0; r < count; r++)
        dot_row(w->type, tokens, sums + r * tokens,
                (const unsigned char *)w->data + (row + r) * bytes, f->x + token * w->cols,
                w->cols);
}

/* Stores the sums of one token; rows are in y's order. */
static void store_in_order(const gemv *f, size_t row, size_t count, const float *sums)
{
    const float *residual = f->residual ? f->residual + row : NULL;
    const float *bias = f->w->bias ? f->w->bias + row : NULL;

    for (size_t r = 0; r < count; r++)
        f->y[row + r] = sums[r] + (residual ? residual[r] : 0.0f) + (bias ? bias[r] : 0.0f);
}

/* Stores the sums of several tokens, in any order of rows. */
static void store(const gemv *f, size_t row, size_t count, size_t token, size_t tokens,
                  const float *sums)
{
    const size_t stride = kvsi_matrix_stride(f->w);

    for (size_t r = 0; r < count; r++) {
        const size_t column = kvsi_matrix_column(f->w, row + r);
        const float bias = f->w->bias ? f->w->bias[column] : 0.0f;

        for (size_t k = 0; k < tokens; k++) {
            const size_t at = (token + k) * stride + column;

            f->y[at] = sums[r * tokens + k] + (f->residual ? f->residual[at] : 0.0f) + bias;
        }
    }
}

/* Some rows of quantized weights and one token; the sums start from residual and bias. */
static void multiply_quantized(const gemv *f, size_t row, size_t count, size_t token)
{
    const kvsi_matrix *w = f->w;
    const size_t base = token * kvsi_matrix_stride(w);
    const float *residual = f->residual ? f->residual + base : NULL;
    float sums[ROWS_TOGETHER] = {0};
    size_t columns[ROWS_TOGETHER];

    for (size_t r = 0; r < count; r++)
        columns[r] = w->paired > 0 ? kvsi_matrix_column(w, row + r) : row + r;
    for (size_t r = 0; residual && r < count; r++)
        sums[r] += residual[columns[r]];
    for (size_t r = 0; w->bias && r < count; r++)
        sums[r] += w->bias[columns[r]];
    LEVEL(gemv_q)
    (sums, w->type, (const unsigned char *)w->data + row * kvsi_dtype_bytes(w->type, w->cols),
     count, f->packed + token * gemv_blocks(w->cols), w->cols);
    for (size_t r = 0; r < count; r++)
        f->y[base + columns[r]] = sums[r];
}

/* Some rows of a piece that ends at `end`, all tokens. */
static void multiply_rows(const gemv *f, size_t row, size_t count, size_t end)
{
    if (f->pairs || (f->exact && exact_suits(f->w->type))) {
        LEVEL(linear_exact_rows)(f->y, f->x, f->pairs, f->w, f->n, f->residual, row, count, end);
        return;
    }
    if (f->packed) {
        for (size_t t = 0; t < f->n; t++)
            multiply_quantized(f, row, count, t);
        return;
    }
    for (size_t t = 0; t < f->n; t += TOGETHER) {
        const size_t tokens = f->n - t < TOGETHER ? f->n - t : TOGETHER;
        float sums[ROWS_TOGETHER * TOGETHER];

        dot_rows(f, row, count, t, tokens, sums);
        if (f->n == 1 && f->w->paired == 0)
            store_in_order(f, row, count, sums);
        else
            store(f, row, count, t, tokens, sums);
    }
}

static unsigned char *workspace(const kvsi_context *c)
{
    return c->workspace + c->workspace_bytes - LEVEL(gemm_workspace)(c->threads);
}

static gemv_block *pack(const kvsi_context *c, const float *x, const kvsi_matrix *w, size_t n)
{
    gemv_block *blocks = (gemv_block *)workspace(c);

    for (size_t t = 0; t < n; t++)
        LEVEL(gemv_q_pack)(blocks + t * gemv_blocks(w->cols), w->type, x + t * w->cols, w->cols);
    return blocks;
}

static uint32_t *round_inputs(const kvsi_context *c, const float *x, const kvsi_matrix *w, size_t n)
{
    uint32_t *pairs = (uint32_t *)workspace(c);

    LEVEL(linear_exact_round)(pairs, x, n, w->cols);
    return pairs;
}

/* Whether inputs are rounded to bfloat16. */
static int uses_pairs(const kvsi_context *c, const kvsi_matrix *w)
{
    return c->precision == KVSI_PRECISION_BF16 && exact_suits(w->type);
}

int LEVEL(gemv_suits)(const kvsi_context *c, const kvsi_matrix *w, size_t n)
{
    const size_t most = LEVEL(gemm_workspace)(c->threads);

    if (kvsi_rounds_inputs(w->type))
        return n <= (w->type == KVSI_Q8_0 ? GEMV_Q8_0_TOKENS_MAX : GEMV_Q_TOKENS_MAX) &&
               w->cols > 0 && n * gemv_blocks(w->cols) * sizeof(gemv_block) <= most;
    if (uses_pairs(c, w) && LEVEL(linear_exact_pairs)(n, w->cols) * sizeof(uint32_t) > most)
        return 0;
    return n <= GEMV_TOKENS_MAX && w->cols > 0;
}

/* Rows per piece: enough pieces for all threads, but none smaller than PIECE_BYTES. */
static size_t piece_rows(const kvsi_matrix *w)
{
    const size_t share = w->rows / PIECES_WANTED,
                 least = PIECE_BYTES / kvsi_dtype_bytes(w->type, w->cols);
    const size_t rows = share > least ? share : least;

    return (rows / ROWS_TOGETHER + 1) * ROWS_TOGETHER;
}

static size_t piece_count(const kvsi_matrix *w)
{
    const size_t rows = piece_rows(w);

    return (w->rows + rows - 1) / rows;
}

/* Piece i, counted over the pieces of all parts. */
static void multiply_piece(gemv f, size_t i)
{
    size_t rows, end;

    for (; f.w->next && i >= piece_count(f.w); f.w = f.w->next) {
        i -= piece_count(f.w);
        f.y += f.w->rows;
        f.residual = f.residual ? f.residual + f.w->rows : NULL;
    }
    rows = piece_rows(f.w);
    end = (i + 1) * rows < f.w->rows ? (i + 1) * rows : f.w->rows;
    for (size_t row = i * rows; row < end; row += ROWS_TOGETHER)
        multiply_rows(&f, row, end - row < ROWS_TOGETHER ? end - row : ROWS_TOGETHER, end);
}

void LEVEL(linear_gemv)(const kvsi_context *c, float *y, const float *x, const kvsi_matrix *w,
                        size_t n, const float *residual)
{
    const gemv f = {.w = w,
                    .n = n,
                    .x = x,
                    .packed = kvsi_rounds_inputs(w->type) ? pack(c, x, w, n) : NULL,
                    .pairs = uses_pairs(c, w) ? round_inputs(c, x, w, n) : NULL,
                    .y = y,
                    .residual = residual,
                    .exact = c->exact};
    size_t pieces = 0;

    for (const kvsi_matrix *part = w; part; part = part->next)
        pieces += piece_count(part);
    KVSI_PARALLEL_PIECES(c->threads, i, pieces) {
        multiply_piece(f, i);
    }
}
