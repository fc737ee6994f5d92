#include "kernels/cpu/gemm.h"

#include "kernels/cpu/decode.h"
#include "kernels/cpu/transpose.h"
#include "parallel/threads.h"

#include <string.h>

/* The inner kernel holds ROWS x VECTORS vectors of C in registers. */
enum { ROWS = 6, VECTORS = 2, COLS = VECTORS * VEC };

/* Sizes of blocks: a panel of B (COLS x DEPTH) stays in the first cache, a block of A
 * (BLOCK_ROWS x DEPTH) in the second. */
enum { DEPTH = 256, BLOCK_ROWS = 240 };

/* Most rows and floats of A that are packed at once. */
enum { SPAN_ROWS = 4080, PACKED_A = 1 << 22 };

/* A piece of C is computed by one thread, which packs its columns of B: pieces are tall. */
enum { PIECE_COLS = 256, PIECE_COLS_MIN = 128, PACKED_B = PIECE_COLS * DEPTH };
enum { PIECES_WANTED = 8, PIECES_NEEDED = 4 };

_Static_assert(BLOCK_ROWS % ROWS == 0 && SPAN_ROWS % ROWS == 0 && PIECE_COLS_MIN % COLS == 0,
               "blocks are whole panels");
_Static_assert(SPAN_ROWS *DEPTH <= PACKED_A, "a span has at least one block of depth");

static size_t least(size_t x, size_t y)
{
    return x < y ? x : y;
}

static size_t divide_up(size_t n, size_t by)
{
    return (n + by - 1) / by;
}

/* ---- packing ---- */

/* panel[p * width + i] = (i, p) of the view's first `count` rows, 0 for i >= count; `width` is a
 * constant at every call */
INLINE void pack_panel(float *restrict panel, matrix_view v, size_t width, size_t count,
                       size_t depth)
{
    if (v.row == 1 && count == width) {
        for (size_t p = 0; p < depth; p++)
            memcpy(panel + p * width, v.at + p * v.col, width * sizeof *panel);
        return;
    }
    if (v.col == 1 && count == width) {
        transpose(panel, width, v.at, v.row, width, depth);
        return;
    }
    if (v.col == 1)
        transpose(panel, width, v.at, v.row, count, depth);
    else
        for (size_t p = 0; p < depth; p++)
            for (size_t i = 0; i < count; i++)
                panel[p * width + i] = v.at[i * v.row + p * v.col];
    for (size_t p = 0; p < depth; p++)
        memset(panel + p * width + count, 0, (width - count) * sizeof *panel);
}

/* A span of A, packed: for each block of DEPTH, consecutive panels of ROWS. */
typedef struct span {
    const float *packed;
    size_t row, rows;    /* rows of A */
    size_t inner, depth; /* columns of A */
} span;

static size_t panel_rows(const span *s)
{
    return divide_up(s->rows, ROWS) * ROWS;
}

static const float *packed_panel(const span *s, size_t inner, size_t row)
{
    return s->packed + inner * panel_rows(s) + row * least(DEPTH, s->depth - inner);
}

/* One piece of packing: PANELS panels of one block of depth. */
enum { PANELS = 8 };

static void pack_rows(const gemm *g, const span *s, float *packed, size_t piece)
{
    const size_t groups = divide_up(s->rows, PANELS * ROWS);
    const size_t inner = piece / groups * DEPTH, depth = least(DEPTH, s->depth - inner);
    const size_t end = least((piece % groups + 1) * PANELS * ROWS, s->rows);

    for (size_t row = piece % groups * PANELS * ROWS; row < end; row += ROWS) {
        const size_t count = least(ROWS, s->rows - row);
        const matrix_view v = {g->a.at + (s->row + row) * g->a.row + (s->inner + inner) * g->a.col,
                               g->a.row, g->a.col};

        pack_panel(packed + (packed_panel(s, inner, row) - s->packed), v, ROWS, count, depth);
    }
}

static void pack_span(const kvsi_context *c, const gemm *g, const span *s, float *packed)
{
    KVSI_PARALLEL_PIECES(c->threads, i,
                         divide_up(s->rows, PANELS * ROWS) * divide_up(s->depth, DEPTH)) {
        pack_rows(g, s, packed, i);
    }
}

/* ---- the inner kernel ---- */

/* Initial values of a tile of C; start has rows `ld` apart. */
typedef struct origin {
    const float *start, *bias;
    size_t ld;
} origin;

/* The loops over constants must be unrolled so that the sums stay in registers. */
INLINE void add_products(vec sum[ROWS][VECTORS], const float *restrict a, const float *restrict b,
                         size_t depth)
{
    for (size_t p = 0; p < depth; p++, a += ROWS, b += COLS) {
        vec y[VECTORS];

#pragma GCC unroll 4
        for (int j = 0; j < VECTORS; j++)
            y[j] = vec_load(b + j * VEC);
#pragma GCC unroll 16
        for (int i = 0; i < ROWS; i++) {
            const vec x = vec_all(a[i]);
#pragma GCC unroll 4
            for (int j = 0; j < VECTORS; j++)
                sum[i][j] += x * y[j];
        }
    }
}

static void multiply_whole(float *c, size_t ldc, const float *restrict a, const float *restrict b,
                           size_t depth, origin o)
{
    vec sum[ROWS][VECTORS];

#pragma GCC unroll 16
    for (int i = 0; i < ROWS; i++) {
        __builtin_prefetch(c + (size_t)i * ldc, 1);
#pragma GCC unroll 4
        for (int j = 0; j < VECTORS; j++)
            sum[i][j] = (vec){0};
    }
    add_products(sum, a, b, depth);
#pragma GCC unroll 16
    for (int i = 0; i < ROWS; i++)
#pragma GCC unroll 4
        for (int j = 0; j < VECTORS; j++) {
            vec value = sum[i][j];

            if (o.start)
                value += vec_load(o.start + (size_t)i * o.ld + j * VEC);
            if (o.bias)
                value += vec_load(o.bias + j * VEC);
            vec_store(c + (size_t)i * ldc + j * VEC, value);
        }
}

/* A tile at the edge, with fewer rows or columns: computed in a full-size buffer. */
static void multiply_edge(float *c, size_t ldc, const float *restrict a, const float *restrict b,
                          size_t depth, origin o, size_t rows, size_t cols)
{
    float whole[ROWS * COLS];

    multiply_whole(whole, COLS, a, b, depth, (origin){0});
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++)
            c[i * ldc + j] = whole[i * COLS + j] + (o.start ? o.start[i * o.ld + j] : 0.0f) +
                             (o.bias ? o.bias[j] : 0.0f);
}

/* ---- blocks and pieces ---- */

/* Rows row .. row+rows-1 of a span times a packed block of B, into columns from `col` on. */
static void multiply_block(const gemm *g, const span *s, size_t inner, size_t row, size_t rows,
                           const float *b, size_t col, size_t cols)
{
    const size_t depth = least(DEPTH, s->depth - inner);
    const int first = s->inner + inner == 0;

    for (size_t j = 0; j < cols; j += COLS)
        for (size_t i = row; i < row + rows; i += ROWS) {
            const size_t at = (s->row + i) * g->stride + col + j;
            const size_t height = least(ROWS, row + rows - i), width = least(COLS, cols - j);
            const float *start = first ? g->start : g->c;
            const origin o = {start ? start + at : NULL,
                              first && g->bias ? g->bias + col + j : NULL, g->stride};

            if (height == ROWS && width == COLS)
                multiply_whole(g->c + at, g->stride, packed_panel(s, inner, i), b + j * depth,
                               depth, o);
            else
                multiply_edge(g->c + at, g->stride, packed_panel(s, inner, i), b + j * depth, depth,
                              o, height, width);
        }
}

typedef struct tiling {
    size_t rows, cols, row_count, col_count;
} tiling;

/* Size of each of `count` about equal parts of n, rounded up to whole panels. */
static size_t part(size_t n, size_t count, size_t panel)
{
    return divide_up(divide_up(n, count), panel) * panel;
}

static tiling cut_pieces(size_t rows, size_t cols)
{
    size_t across = divide_up(cols, PIECE_COLS), down = 1;
    tiling t;

    while (across * down < PIECES_WANTED && cols / across >= 2 * PIECE_COLS_MIN)
        across *= 2;
    while (across * down < PIECES_WANTED && rows / down >= 2 * BLOCK_ROWS)
        down *= 2;
    while (across * down < PIECES_NEEDED && cols / across >= 4 * COLS)
        across *= 2; /* a small C: narrow pieces are slower, but idle threads are worse */
    t.rows = part(rows, down, ROWS);
    t.cols = part(cols, across, COLS);
    t.row_count = divide_up(rows, t.rows);
    t.col_count = divide_up(cols, t.cols);
    return t;
}

/* Packs a panel of columns of B; weights that are not plain float32 are decoded first. */
static void pack_columns(float *panel, const gemm *g, size_t inner, size_t depth, size_t col,
                         size_t count)
{
    const kvsi_matrix *w = g->weights;
    matrix_view v = {g->b.at, g->b.col,
                     g->b.row}; /* transposed: columns of B are rows of the panel */
    float decoded[COLS * DEPTH];

    if (!w)
        v.at += inner * g->b.row + col * g->b.col;
    else if (w->type == KVSI_F32 && w->paired == 0)
        v = (matrix_view){(const float *)w->data + col * w->cols + inner, w->cols, 1};
    else {
        const unsigned char *row = w->data;

        for (size_t j = 0; j < count; j++)
            decode_row(decoded + j * DEPTH, w->type,
                       row + kvsi_matrix_row(w, col + j) * kvsi_dtype_bytes(w->type, w->cols),
                       inner, depth);
        v = (matrix_view){decoded, DEPTH, 1};
    }
    pack_panel(panel, v, COLS, count, depth);
}

static void multiply_piece(const gemm *g, const span *s, const tiling *t, size_t piece, float *b)
{
    const size_t row = piece / t->col_count * t->rows, col = piece % t->col_count * t->cols;
    const size_t rows = least(t->rows, s->rows - row), cols = least(t->cols, g->n - col);

    for (size_t inner = 0; inner < s->depth; inner += DEPTH) {
        const size_t depth = least(DEPTH, s->depth - inner);

        for (size_t j = 0; j < cols; j += COLS)
            pack_columns(b + j * depth, g, s->inner + inner, depth, col + j, least(COLS, cols - j));
        for (size_t i = 0; i < rows; i += BLOCK_ROWS)
            multiply_block(g, s, inner, row + i, least(BLOCK_ROWS, rows - i), b, col, cols);
    }
}

size_t LEVEL(gemm_workspace)(int threads)
{
    return (PACKED_A + (size_t)threads * PACKED_B) * sizeof(float);
}

/* C for k = 0, where there is no product: start and bias alone. */
static void start_only(const gemm *g)
{
    if (g->start == g->c && !g->bias)
        return;
    for (size_t i = 0; i < g->m; i++)
        for (size_t j = 0; j < g->n; j++)
            g->c[i * g->stride + j] =
                (g->start ? g->start[i * g->stride + j] : 0.0f) + (g->bias ? g->bias[j] : 0.0f);
}

void LEVEL(gemm)(const kvsi_context *c, const gemm *g)
{
    float *packed =
        (float *)(c->workspace + c->workspace_bytes - LEVEL(gemm_workspace)(c->threads));
    float *packed_b = packed + PACKED_A;
    size_t span_rows, span_depth;

    if (g->m == 0 || g->n == 0)
        return;
    if (g->k == 0) {
        start_only(g);
        return;
    }
    span_rows = part(g->m, divide_up(g->m, SPAN_ROWS), ROWS);
    span_depth = PACKED_A / span_rows / DEPTH * DEPTH;
    for (size_t row = 0; row < g->m; row += span_rows)
        for (size_t inner = 0; inner < g->k; inner += span_depth) {
            const span s = {packed, row, least(span_rows, g->m - row), inner,
                            least(span_depth, g->k - inner)};
            const tiling t = cut_pieces(s.rows, g->n);

            pack_span(c, g, &s, packed);
            KVSI_PARALLEL_PIECES(c->threads, i, t.row_count * t.col_count) {
                multiply_piece(g, &s, &t, i, packed_b + kvsi_thread_index() * PACKED_B);
            }
        }
}
