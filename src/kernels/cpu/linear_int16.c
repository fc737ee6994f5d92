#include "kernels/cpu/linear_int16.h"

#include "kernels/cpu/decode.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/round.h"
#include "kernels/cpu/transpose.h"
#include "parallel/threads.h"

#include <string.h>
#ifdef __SSE2__
#include <immintrin.h>
#endif

/* The inner kernel holds ROWS x VECTORS vectors of sums; a panel of weights has COLS columns. */
#if VEC_BYTES == 64
enum { ROWS = 12, VECTORS = 2 };
#elif defined __AVX512VL__
enum { ROWS = 6, VECTORS = 4 };
#else
enum { ROWS = 4, VECTORS = 2 };
#endif
enum { COLS = VECTORS * VEC };

/* A block has up to 128 pairs of inputs, and 8 pairs for the sums of 32 inputs of Q4_K and Q5_K. */
enum { BLOCK = KVSI_ROUND_BLOCK, GROUP = 32, GROUPS_MAX = BLOCK / GROUP };
enum { PAIRS = BLOCK / 2, PAIRS_MAX = PAIRS + GROUPS_MAX };

/* A piece is a panel of columns for up to PIECE_ROWS tokens; pieces are halved down to
 * PIECE_ROWS_MIN tokens until there are PIECES_WANTED. */
enum { PIECES_WANTED = 8, PIECE_ROWS_MIN = 96, PIECE_ROWS = 480 };
_Static_assert(PIECE_ROWS % ROWS == 0, "a piece has whole panels of tokens");

static size_t least(size_t x, size_t y)
{
    return x < y ? x : y;
}

static size_t divide_up(size_t n, size_t by)
{
    return (n + by - 1) / by;
}

/* The groups of a block, and how many pairs each and all have. */
typedef struct grouping {
    size_t count, pairs[GROUPS_MAX], all;
} grouping;

static grouping groups_of(kvsi_dtype type, size_t inputs)
{
    grouping g = {.count = inputs / GROUP, .all = inputs / 2};

    if (type == KVSI_Q6_K)
        return (grouping){2, {PAIRS / 2, PAIRS / 2}, PAIRS};
    if (has_k_blocks(type))
        return (grouping){2, {PAIRS, GROUPS_MAX}, PAIRS_MAX};
    for (size_t i = 0; i < g.count; i++)
        g.pairs[i] = GROUP / 2;
    return g;
}

/* ---- inputs ---- */

/* A block of ROWS tokens: pairs of inputs of all tokens side by side, then the steps. */
typedef struct input_block {
    int16_t x[PAIRS_MAX][ROWS][2];
    float step[ROWS];
} input_block;

static void pack_block(input_block *out, kvsi_dtype type, const float *x, size_t stride,
                       size_t rows, size_t inputs)
{
    _Alignas(VEC_BYTES) int16_t values[ROWS][2 * PAIRS_MAX];

    memset(values, 0, sizeof values);
    memset(out->step, 0, sizeof out->step);
    for (size_t r = 0; r < rows; r++) {
        out->step[r] = round_block(values[r], x + r * stride, inputs, kvsi_round_top(type));
        if (has_k_blocks(type))
            for (int g = 0; g < GROUPS_MAX; g++) { /* the sum is 256 * the first + the second */
                int sum = 0;

                for (int i = 0; i < GROUP; i++)
                    sum += values[r][g * GROUP + i];
                values[r][BLOCK + 2 * g] = (int16_t)(sum >> 8);
                values[r][BLOCK + 2 * g + 1] = (int16_t)(sum & 255);
            }
    }
    transpose((float *)out->x, ROWS, (const float *)values, PAIRS_MAX, ROWS, PAIRS_MAX);
}

/* ---- weights ---- */

/* A block of COLS columns: pairs of weights of all columns side by side, and the factors. */
typedef struct weight_block {
    int16_t w[PAIRS_MAX][COLS][2];
    float factor[GROUPS_MAX][COLS];
} weight_block;

static void unpack_q8_0(int16_t *restrict out, const unsigned char *restrict at)
{
    for (int i = 0; i < GROUP; i++)
        out[i] = (int16_t)((at[2 + i] ^ 128) - 128); /* signed */
}

static void unpack_q4_0(int16_t *restrict out, const unsigned char *restrict at)
{
    for (int i = 0; i < GROUP / 2; i++) {
        out[i] = (int16_t)((at[2 + i] & 15) - 8);
        out[GROUP / 2 + i] = (int16_t)((at[2 + i] >> 4) - 8);
    }
}

static void unpack_q5_0(int16_t *restrict out, const unsigned char *restrict at)
{
    uint32_t upper;

    memcpy(&upper, at + 2, sizeof upper);
    for (int i = 0; i < GROUP / 2; i++) {
        out[i] = (int16_t)((at[6 + i] & 15) + (int)(upper >> i << 4 & 16) - 16);
        out[GROUP / 2 + i] = (int16_t)((at[6 + i] >> 4) + (int)(upper >> (i + 12) & 16) - 16);
    }
}

/* Q4_K, or Q5_K if there are upper bits. */
INLINE void unpack_q45_k(int16_t *restrict out, const unsigned char *restrict at,
                         const unsigned char *restrict upper, const unsigned char *restrict lower)
{
    uint64_t scales, offsets;

    k_scales(&scales, &offsets, at + 4);
    for (int r = 0; r < GROUPS_MAX; r++) {
        const int16_t scale = (int16_t)(scales >> 8 * r & 63),
                      low = (int16_t)(offsets >> 8 * r & 63);

        for (int i = 0; i < GROUP; i++) {
            int q = lower[r / 2 * GROUP + i] >> (r % 2 * 4) & 15;

            if (upper)
                q |= (upper[i] >> r & 1) << 4;
            out[r * GROUP + i] = (int16_t)(scale * q);
        }
        out[BLOCK + 2 * r] = (int16_t)(-256 * low);
        out[BLOCK + 2 * r + 1] = (int16_t)-low;
    }
}

static void unpack_q6_k(int16_t *restrict out, const unsigned char *restrict at)
{
    for (int r = 0; r < GROUPS_MAX; r++) {
        const unsigned char *lower = at + r / 4 * 64 + r % 2 * GROUP;
        const unsigned char *upper = at + 128 + r / 4 * GROUP;

        for (int half = 0; half < 2; half++) {
            const int scale = (at[192 + 2 * r + half] ^ 128) - 128; /* signed */

            for (int i = 16 * half; i < 16 * half + 16; i++) {
                const int q = (lower[i] >> (r / 2 % 2 * 4) & 15) | (upper[i] >> (r % 4 * 2) & 3)
                                                                       << 4;

                out[r * GROUP + i] = (int16_t)(scale * (q - 32));
            }
        }
    }
}

/* Unpacks column `col` of a panel: `groups` groups of the block at `at`. */
static void unpack_column(int16_t out[2 * PAIRS_MAX], weight_block *b, size_t col, kvsi_dtype type,
                          const unsigned char *at, size_t groups)
{
    const size_t bytes = block_bytes(type);

    if (has_k_blocks(type)) {
        if (type == KVSI_Q4_K)
            unpack_q45_k(out, at, NULL, at + 16);
        else if (type == KVSI_Q5_K)
            unpack_q45_k(out, at, at + 16, at + 48);
        else
            unpack_q6_k(out, at);
        b->factor[0][col] = one_from_f16(type == KVSI_Q6_K ? at + 208 : at);
        b->factor[1][col] = one_from_f16(type == KVSI_Q6_K ? at + 208 : at + 2);
        return;
    }
    for (size_t g = 0; g < groups; g++, at += bytes, out += GROUP) {
        if (type == KVSI_Q8_0)
            unpack_q8_0(out, at);
        else if (type == KVSI_Q4_0)
            unpack_q4_0(out, at);
        else
            unpack_q5_0(out, at);
        b->factor[g][col] = one_from_f16(at);
    }
}

/* A panel of Q8_0 without missing columns, 16 of them at a time: a group has as many pairs.  `from`
 * is where the block begins in a row of weights. */
#if VEC_BYTES == 64 && defined __AVX512BW__
#define HAS_WHOLE_PANELS 1
INLINE __m256i load_factors(const uint16_t factors[GROUP / 2])
{
    return _mm256_loadu_si256((const __m256i *)(const void *)factors);
}

static void unpack_whole_panel(weight_block *out, const kvsi_matrix *w, size_t col, size_t from,
                               size_t groups)
{
    enum { SIDE = GROUP / 2 };
    const size_t bytes = block_bytes(KVSI_Q8_0), row_bytes = kvsi_dtype_bytes(KVSI_Q8_0, w->cols);
    const size_t ahead = COLS * row_bytes; /* the next panel: for few tokens, memory is the limit */
    const unsigned char *columns[COLS];

    for (size_t k = 0; k < COLS; k++)
        columns[k] =
            (const unsigned char *)w->data + kvsi_matrix_row(w, col + k) * row_bytes + from;
    for (size_t g = 0; g < groups; g++)
        for (size_t j = 0; j < COLS; j += SIDE) {
            _Alignas(VEC_BYTES) int16_t values[SIDE][GROUP];
            uint16_t factors[SIDE];

#pragma GCC unroll 16
            for (size_t k = 0; k < SIDE; k++) {
                const unsigned char *at = columns[j + k] + g * bytes;

                __builtin_prefetch(at + ahead);
                memcpy(&factors[k], at, sizeof *factors);
                _mm512_storeu_si512(values[k], _mm512_cvtepi8_epi16(_mm256_loadu_si256(
                                                   (const __m256i *)(const void *)(at + 2))));
            }
            _mm512_storeu_ps(out->factor[g] + j, _mm512_cvtph_ps(load_factors(factors)));
            transpose_16x16((any_float *)out->w[g * SIDE][j], COLS, (const any_float *)values,
                            SIDE);
        }
}
#else
#define HAS_WHOLE_PANELS 0
static void unpack_whole_panel(weight_block *out, const kvsi_matrix *w, size_t col, size_t from,
                               size_t groups)
{
    (void)out;
    (void)w;
    (void)col;
    (void)from;
    (void)groups;
}
#endif

/* A panel: columns col .. col+count-1, block number `block`; missing columns are 0. */
static void unpack_panel(weight_block *out, const kvsi_matrix *w, size_t col, size_t count,
                         size_t block, const grouping *g)
{
    enum { TOGETHER = 4 };
    const size_t row_bytes = kvsi_dtype_bytes(w->type, w->cols);
    const size_t from = kvsi_dtype_bytes(w->type, block * BLOCK);

    if (HAS_WHOLE_PANELS && w->type == KVSI_Q8_0 && count == COLS) {
        unpack_whole_panel(out, w, col, from, g->count);
        return;
    }
    for (size_t j = 0; j < COLS; j += TOGETHER) {
        _Alignas(VEC_BYTES) int16_t values[TOGETHER][2 * PAIRS_MAX];

        for (size_t k = j; k < j + TOGETHER; k++)
            if (k < count) {
                unpack_column(values[k - j], out, k, w->type,
                              (const unsigned char *)w->data +
                                  kvsi_matrix_row(w, col + k) * row_bytes + from,
                              g->count);
            } else {
                memset(values[k - j], 0, sizeof values[k - j]);
                for (int i = 0; i < GROUPS_MAX; i++)
                    out->factor[i][k] = 0;
            }
        transpose((float *)out->w[0][j], COLS, (const float *)values, PAIRS_MAX, TOGETHER, g->all);
    }
}

/* ---- the inner kernel ---- */

/* sum + products of pairs of 16-bit integers */
INLINE veci add_products(veci sum, veci x, veci w)
{
#if VEC_BYTES == 64 && defined __AVX512VNNI__
    return (veci)_mm512_dpwssd_epi32((__m512i)sum, (__m512i)x, (__m512i)w);
#elif VEC_BYTES == 32 && defined __AVX512VNNI__ && defined __AVX512VL__
    return (veci)_mm256_dpwssd_epi32((__m256i)sum, (__m256i)x, (__m256i)w);
#elif VEC_BYTES == 32
    return sum + (veci)_mm256_madd_epi16((__m256i)x, (__m256i)w);
#elif VEC_BYTES == 16 && defined __SSE2__
    return sum + (veci)_mm_madd_epi16((__m128i)x, (__m128i)w);
#else
    return sum + (x << 16 >> 16) * (w << 16 >> 16) + (x >> 16) * (w >> 16);
#endif
}

/* totals += step * sums over the groups of a block.  `rows` is a constant at every call. */
INLINE void multiply_rows(int rows, float (*totals)[COLS], const input_block *a,
                          const weight_block *b, const grouping *g)
{
    const int16_t(*x)[ROWS][2] = a->x;
    const int16_t(*w)[COLS][2] = b->w;
    vec t[ROWS][VECTORS];

#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int j = 0; j < VECTORS; j++)
            t[i][j] = (vec){0};
    for (size_t k = 0; k < g->count; k++) {
        const int16_t(*const end)[ROWS][2] = x + g->pairs[k];
        veci sums[ROWS][VECTORS];

#pragma GCC unroll 16
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
            for (int j = 0; j < VECTORS; j++)
                sums[i][j] = (veci){0};
#pragma GCC unroll 2
        for (; x < end; x++, w++) {
            veci weights[VECTORS];

#pragma GCC unroll 4
            for (int j = 0; j < VECTORS; j++) {
                weights[j] = *(const veci *)(const void *)(*w)[j * VEC];
                OPAQUE(weights[j]);
            }
#pragma GCC unroll 16
            for (int i = 0; i < rows; i++) {
                int32_t pair;
                veci inputs;

                memcpy(&pair, (*x)[i], sizeof pair);
                inputs = pair - (veci){0};
                OPAQUE(inputs);
#pragma GCC unroll 4
                for (int j = 0; j < VECTORS; j++)
                    sums[i][j] = add_products(sums[i][j], inputs, weights[j]);
            }
        }
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
            for (int j = 0; j < VECTORS; j++)
                t[i][j] = vec_multiply_add(__builtin_convertvector(sums[i][j], vec),
                                           vec_load(b->factor[k] + j * VEC), t[i][j]);
        __asm__("" : "+m"(t)); /* stays in memory: the registers hold the sums */
    }
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int j = 0; j < VECTORS; j++)
            vec_store(totals[i] + j * VEC, vec_multiply_add(t[i][j], vec_all(a->step[i]),
                                                            vec_load(totals[i] + j * VEC)));
}

/* Not inlined, so that the registers hold the sums. */
__attribute__((noinline)) static void multiply_tile(size_t rows, float (*totals)[COLS],
                                                    const input_block *a, const weight_block *b,
                                                    const grouping *g)
{
    if (rows == 1)
        multiply_rows(1, totals, a, b, g);
    else if (rows == 2)
        multiply_rows(2, totals, a, b, g);
    else if (rows <= 4)
        multiply_rows(4, totals, a, b, g);
    else if (rows <= 8 && ROWS > 8)
        multiply_rows(8 < ROWS ? 8 : ROWS, totals, a, b, g);
    else
        multiply_rows(ROWS, totals, a, b, g);
}

/* ---- pieces ---- */

/* What a thread needs for a piece: unpacked weights and y, which stay in the caches. */
typedef struct piece_memory {
    weight_block weights;
    float totals[PIECE_ROWS][COLS];
} piece_memory;

typedef struct product {
    const kvsi_matrix *w;
    const float *x, *residual;
    float *y;
    input_block *inputs; /* packed inputs of the span: [panels of ROWS][blocks] */
    size_t row, rows;    /* the span's tokens */
    size_t first, blocks;
} product;

static size_t inputs_of(const product *m, size_t block)
{
    return least(BLOCK, m->w->cols - block * BLOCK);
}

/* y starts from residual and bias.  `cols` is a constant in a full panel, here and below. */
INLINE void start_totals(const product *m, float *out, size_t row, size_t col, size_t cols)
{
    const size_t at = (m->row + row) * kvsi_matrix_stride(m->w) + col;
    const float *residual = m->residual ? m->residual + at : NULL;
    const float *bias = m->w->bias ? m->w->bias + col : NULL;

    if (m->first > 0) {
        memcpy(out, m->y + at, cols * sizeof *out);
        return;
    }
    for (size_t j = 0; j < cols; j++)
        out[j] = (residual ? residual[j] : 0.0f) + (bias ? bias[j] : 0.0f);
}

/* Tokens row .. row+rows-1 of the span, and a panel of columns. */
INLINE void multiply_columns(const product *m, size_t row, size_t rows, size_t col, size_t cols,
                             piece_memory *own)
{
    const kvsi_matrix *w = m->w;

    for (size_t i = 0; i < rows; i++)
        start_totals(m, own->totals[i], row + i, col, cols);
    for (size_t k = 0; k < m->blocks; k++) {
        const grouping g = groups_of(w->type, inputs_of(m, m->first + k));

        unpack_panel(&own->weights, w, col, cols, m->first + k, &g);
        for (size_t i = 0; i < rows; i += ROWS)
            multiply_tile(rows - i, own->totals + i, m->inputs + (row + i) / ROWS * m->blocks + k,
                          &own->weights, &g);
    }
    for (size_t i = 0; i < rows; i++)
        memcpy(m->y + (m->row + row + i) * kvsi_matrix_stride(w) + col, own->totals[i],
               cols * sizeof *m->y);
}

static void multiply_piece(const product *m, size_t row, size_t rows, size_t col, piece_memory *own)
{
    if (m->w->rows - col >= COLS)
        multiply_columns(m, row, rows, col, COLS, own);
    else
        multiply_columns(m, row, rows, col, m->w->rows - col, own);
}

static void pack_inputs(const kvsi_context *c, const product *m)
{
    KVSI_PARALLEL_PIECES(c->threads, i, divide_up(m->rows, ROWS)) {
        const float *x = m->x + (m->row + i * ROWS) * m->w->cols;

        for (size_t k = 0; k < m->blocks; k++)
            pack_block(&m->inputs[i * m->blocks + k], m->w->type, x + (m->first + k) * BLOCK,
                       m->w->cols, least(ROWS, m->rows - i * ROWS), inputs_of(m, m->first + k));
    }
}

static void multiply_span(const kvsi_context *c, const product *m, piece_memory *memory)
{
    const size_t across = divide_up(m->w->rows, COLS);
    size_t down = divide_up(m->rows, PIECE_ROWS), rows;

    while (across * down < PIECES_WANTED && m->rows / down >= 2 * PIECE_ROWS_MIN)
        down *= 2;
    rows = divide_up(divide_up(m->rows, down), ROWS) * ROWS;
    down = divide_up(m->rows, rows);
    KVSI_PARALLEL_PIECES(c->threads, i, across * down) {
        const size_t row = i / across * rows;

        multiply_piece(m, row, least(rows, m->rows - row), i % across * COLS,
                       memory + kvsi_thread_index());
    }
}

/* The workspace holds the memory of each thread and the packed inputs of a span: all blocks of some
 * tokens or, if rows are very long, some blocks of ROWS tokens. */
void LEVEL(linear_int16)(const kvsi_context *c, float *y, const float *x, const kvsi_matrix *w,
                         size_t n, const float *residual)
{
    const size_t workspace = LEVEL(gemm_workspace)(c->threads);
    const size_t threads = (size_t)c->threads, all = divide_up(w->cols, BLOCK);
    const size_t room = (workspace - threads * sizeof(piece_memory)) / sizeof(input_block);
    const size_t blocks = least(all, room), tokens = room / blocks * ROWS;
    piece_memory *memory = (piece_memory *)(c->workspace + c->workspace_bytes - workspace);
    input_block *inputs = (input_block *)(memory + threads);

    for (size_t row = 0; row < n; row += tokens)
        for (size_t first = 0; first < all; first += blocks) {
            const product m = {.w = w,
                               .x = x,
                               .residual = residual,
                               .y = y,
                               .inputs = inputs,
                               .row = row,
                               .rows = least(tokens, n - row),
                               .first = first,
                               .blocks = least(blocks, all - first)};

            pack_inputs(c, &m);
            multiply_span(c, &m, memory);
        }
}
