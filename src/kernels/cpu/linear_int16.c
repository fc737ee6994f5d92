#include "kernels/cpu/linear_int16.h"

#ifdef __AVX2__

#include "kernels/cpu/decode.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/round.h"
#include "kernels/cpu/transpose.h"
#include "parallel/threads.h"

#include <string.h>

/* The inner kernel holds ROWS x VECTORS vectors of LANES sums; a panel of weights has COLS
 * columns. */
enum { LANES = 8, ROWS = 4, VECTORS = 2, COLS = VECTORS * LANES };

typedef float floats8 __attribute__((vector_size(32), aligned(4), may_alias));

/* Inputs per unpacked panel of weights, and columns per piece: both stay in the caches. */
enum { BLOCK = KVSI_ROUND_BLOCK, DEPTH = 256, BLOCKS = DEPTH / BLOCK, PIECE_COLS = 128 };

/* Pieces are halved down to PIECE_ROWS_MIN rows until there are PIECES_WANTED. */
enum { PIECES_WANTED = 8, PIECE_ROWS_MIN = 96 };

static size_t least(size_t x, size_t y)
{
    return x < y ? x : y;
}

static size_t divide_up(size_t n, size_t by)
{
    return (n + by - 1) / by;
}

/* ---- inputs ---- */

/* ROWS tokens: for each block, pairs of inputs of all tokens side by side, then the steps. */
typedef struct input_block {
    int16_t x[BLOCK / 2][ROWS][2];
    float step[ROWS];
} input_block;

static void pack_block(input_block *out, const float *x, size_t stride, size_t rows)
{
    memset(out, 0, sizeof *out);
    for (size_t r = 0; r < rows; r++) {
        vec whole[ROUND_VECTORS];
        int16_t values[BLOCK];

        out->step[r] = round_block(whole, x + r * stride);
        for (int j = 0; j < ROUND_VECTORS; j++)
            *(shorts_of_vec *)(values + j * VEC) =
                __builtin_convertvector(__builtin_convertvector(whole[j], veci), shorts_of_vec);
        for (int p = 0; p < BLOCK / 2; p++)
            memcpy(out->x[p][r], values + 2 * p, sizeof out->x[p][r]);
    }
}

/* ---- weights ---- */

/* COLS columns: for each block, pairs of weights of all columns side by side, and the factors. */
typedef struct weight_block {
    int16_t w[BLOCK / 2][COLS][2];
    float factor[COLS];
} weight_block;

/* Unpacks a block to 16 bits. */
INLINE void unpack_block(int16_t out[BLOCK], kvsi_dtype type, const unsigned char *at)
{
    if (type == KVSI_Q8_0) {
        for (int i = 0; i < BLOCK; i++)
            out[i] = (int16_t)((at[2 + i] ^ 128) - 128); /* signed */
        return;
    }
    for (int i = 0; i < BLOCK / 2; i++) {
        out[i] = (int16_t)((at[2 + i] & 15) - 8);
        out[BLOCK / 2 + i] = (int16_t)((at[2 + i] >> 4) - 8);
    }
}

static void unpack_columns(weight_block *out, const kvsi_matrix *w, size_t col, size_t count,
                           size_t block)
{
    const size_t bytes = w->cols / BLOCK * run_bytes(w->type);
    int16_t values[COLS][BLOCK];

    if (count < COLS)
        memset(values, 0, sizeof values);
    for (size_t j = 0; j < COLS; j++) {
        const unsigned char *at = (const unsigned char *)w->data +
                                  kvsi_matrix_row(w, col + (j < count ? j : 0)) * bytes +
                                  block * run_bytes(w->type);

        out->factor[j] = j < count ? one_from_f16(at) : 0.0f;
        if (w->type == KVSI_Q8_0)
            unpack_block(values[j], KVSI_Q8_0, at);
        else
            unpack_block(values[j], KVSI_Q4_0, at);
    }
    transpose(out->w, COLS, values, BLOCK / 2, COLS, BLOCK / 2);
}

/* A panel: columns col .. col+count-1, blocks from `first` on; missing columns are 0. */
static void unpack_panel(weight_block *out, const kvsi_matrix *w, size_t col, size_t count,
                         size_t first, size_t blocks)
{
    for (size_t b = 0; b < blocks; b++)
        unpack_columns(&out[b], w, col, count, first + b);
}

/* ---- the inner kernel ---- */

typedef struct tile {
    floats8 c[ROWS][VECTORS];
} tile;

INLINE __m256i load_words(const void *at)
{
    return _mm256_loadu_si256((const __m256i *)at);
}

INLINE __m256i add_products(__m256i sum, __m256i x, __m256i w)
{
#ifdef __AVX512VNNI__
    return _mm256_dpwssd_epi32(sum, x, w);
#else
    return _mm256_add_epi32(sum, _mm256_madd_epi16(x, w));
#endif
}

/* sums = products of one block */
INLINE void multiply_block(__m256i sums[ROWS][VECTORS], const input_block *a, const weight_block *b)
{
#pragma GCC unroll 16
    for (int i = 0; i < ROWS; i++)
#pragma GCC unroll 4
        for (int j = 0; j < VECTORS; j++)
            sums[i][j] = _mm256_setzero_si256();
#pragma GCC unroll 4
    for (int p = 0; p < BLOCK / 2; p++) {
        __m256i w[VECTORS];

#pragma GCC unroll 4
        for (int j = 0; j < VECTORS; j++) {
            w[j] = load_words(b->w[p][j * LANES]);
            __asm__("" : "+x"(w[j])); /* keep it in a register */
        }
#pragma GCC unroll 16
        for (int i = 0; i < ROWS; i++) {
            int32_t pair;
            __m256i x;

            memcpy(&pair, a->x[p][i], sizeof pair);
            x = _mm256_set1_epi32(pair);
#pragma GCC unroll 4
            for (int j = 0; j < VECTORS; j++)
                sums[i][j] = add_products(sums[i][j], x, w[j]);
        }
    }
}

/* Not inlined, so that the registers hold the sums and the tile stays in memory. */
__attribute__((noinline)) static void multiply_tile(tile *t, const input_block *a,
                                                    const weight_block *b, size_t blocks)
{
    for (size_t k = 0; k < blocks; k++) {
        __m256i sums[ROWS][VECTORS];

        multiply_block(sums, &a[k], &b[k]);
#pragma GCC unroll 16
        for (int i = 0; i < ROWS; i++)
#pragma GCC unroll 4
            for (int j = 0; j < VECTORS; j++)
                t->c[i][j] += (floats8)_mm256_cvtepi32_ps(sums[i][j]) *
                              (*(const floats8 *)(b[k].factor + j * LANES) * a[k].step[i]);
    }
}

/* ---- pieces ---- */

typedef struct product {
    const kvsi_matrix *w;
    const float *x, *residual;
    float *y;
    const input_block *inputs; /* packed inputs of the span: [panels of ROWS][blocks per row] */
    size_t row, rows;          /* first row and rows of the span */
    size_t blocks;
} product;

/* Adds a tile to y; at the first block y starts from residual and bias. */
static void add_tile(const product *m, const tile *t, size_t row, size_t col, int first)
{
    const kvsi_matrix *w = m->w;
    const size_t stride = kvsi_matrix_stride(w);
    const float *start = first ? m->residual : m->y, *bias = first ? w->bias : NULL;
    const size_t rows = least(ROWS, m->rows - row), cols = least(COLS, w->rows - col);

    for (size_t i = 0; i < rows; i++) {
        const size_t at = (m->row + row + i) * stride + col;
        const float *sums = (const float *)t->c[i];
        size_t j = 0;

        for (; j + VEC <= cols; j += VEC) {
            vec value = vec_load(sums + j);

            value += start ? vec_load(start + at + j) : (vec){0};
            value += bias ? vec_load(bias + col + j) : (vec){0};
            vec_store(m->y + at + j, value);
        }
        for (; j < cols; j++)
            m->y[at + j] = sums[j] + (start ? start[at + j] : 0.0f) + (bias ? bias[col + j] : 0.0f);
    }
}

/* Rows row .. row+ROWS-1 of the span and a panel of columns, for some blocks. */
static void multiply_panel(const product *m, size_t row, size_t col, const weight_block *b,
                           size_t first, size_t blocks)
{
    tile t = {0};

    multiply_tile(&t, m->inputs + row / ROWS * m->blocks + first, b, blocks);
    add_tile(m, &t, row, col, first == 0);
}

static void multiply_piece(const product *m, size_t row, size_t rows, size_t col, size_t cols,
                           weight_block *b)
{
    for (size_t first = 0; first < m->blocks; first += BLOCKS) {
        const size_t blocks = least(BLOCKS, m->blocks - first);

        for (size_t j = 0; j < cols; j += COLS)
            unpack_panel(b + j / COLS * BLOCKS, m->w, col + j, least(COLS, cols - j), first,
                         blocks);
        for (size_t i = row; i < row + rows; i += ROWS)
            for (size_t j = 0; j < cols; j += COLS)
                multiply_panel(m, i, col + j, b + j / COLS * BLOCKS, first, blocks);
    }
}

static void pack_inputs(const kvsi_context *c, const product *m, input_block *out)
{
    KVSI_PARALLEL_PIECES(c->threads, i, divide_up(m->rows, ROWS)) {
        const float *x = m->x + (m->row + i * ROWS) * m->w->cols;

        for (size_t b = 0; b < m->blocks; b++)
            pack_block(&out[i * m->blocks + b], x + b * BLOCK, m->w->cols,
                       least(ROWS, m->rows - i * ROWS));
    }
}

static void multiply_span(const kvsi_context *c, const product *m, weight_block *weights)
{
    const size_t across = divide_up(m->w->rows, PIECE_COLS);
    size_t down = 1, rows;

    while (across * down < PIECES_WANTED && m->rows / down >= 2 * PIECE_ROWS_MIN)
        down *= 2;
    rows = divide_up(divide_up(m->rows, down), ROWS) * ROWS;
    down = divide_up(m->rows, rows);
    KVSI_PARALLEL_PIECES(c->threads, i, across * down) {
        const size_t row = i / across * rows, col = i % across * PIECE_COLS;

        multiply_piece(m, row, least(rows, m->rows - row), col, least(PIECE_COLS, m->w->rows - col),
                       weights + kvsi_thread_index() * (PIECE_COLS / COLS * BLOCKS));
    }
}

/* Tokens whose inputs are packed at once, limited by the workspace. */
static size_t span_rows(const kvsi_context *c, const kvsi_matrix *w)
{
    const size_t weights = (size_t)c->threads * (PIECE_COLS / COLS * BLOCKS) * sizeof(weight_block);
    const size_t room = LEVEL(gemm_workspace)(c->threads) - weights;

    return room / (w->cols / BLOCK * sizeof(input_block)) * ROWS;
}

int LEVEL(int16_suits)(const kvsi_context *c, const kvsi_matrix *w)
{
    return kvsi_rounds_inputs(w->type) && span_rows(c, w) >= PIECE_ROWS_MIN;
}

void LEVEL(linear_int16)(const kvsi_context *c, float *y, const float *x, const kvsi_matrix *w,
                         size_t n, const float *residual)
{
    weight_block *weights =
        (weight_block *)(c->workspace + c->workspace_bytes - LEVEL(gemm_workspace)(c->threads));
    input_block *inputs =
        (input_block *)(weights + (size_t)c->threads * (PIECE_COLS / COLS * BLOCKS));
    const size_t span = span_rows(c, w);

    for (size_t row = 0; row < n; row += span) {
        const product m = {w, x, residual, y, inputs, row, least(span, n - row), w->cols / BLOCK};

        pack_inputs(c, &m, inputs);
        multiply_span(c, &m, weights);
    }
}

#else

int LEVEL(int16_suits)(const kvsi_context *c, const kvsi_matrix *w)
{
    (void)c;
    (void)w;
    return 0;
}

/* Never called: int16_suits is 0. */
void LEVEL(linear_int16)(const kvsi_context *c, float *y, const float *x, const kvsi_matrix *w,
                         size_t n, const float *residual)
{
    (void)c;
    (void)y;
    (void)x;
    (void)w;
    (void)n;
    (void)residual;
}

#endif
