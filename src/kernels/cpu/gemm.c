#include "kernels/cpu/gemm.h"

#include "kernels/cpu/decode.h"
#include "kernels/cpu/round.h"
#include "parallel/threads.h"

/* Most rows and bytes of A that are packed at once. */
enum { SPAN_ROWS = 4080, PACKED_A = 1 << 24 };

/* A piece of C is computed by one thread, which packs its columns of B: pieces are tall. */
enum { PIECE_COLS = 256, PIECE_COLS_MIN = 128 };
enum { PIECES_WANTED = 8, PIECES_NEEDED = 4 };
enum { PACKED_B = PIECE_COLS * UNIT_PANEL_BYTES };

/* Rows or columns that are no plain float32 are decoded or rounded in blocks of this depth before
 * they are packed. */
enum { DECODED_DEPTH = 256 };

_Static_assert((SPAN_ROWS + UNIT_ROWS_MAX) * UNIT_PANEL_BYTES <= PACKED_A,
               "a span has at least one block of depth");
_Static_assert(PIECE_COLS_MIN % UNIT_COLS_MAX == 0, "pieces are whole panels");

static size_t least(size_t x, size_t y)
{
    return x < y ? x : y;
}

static size_t divide_up(size_t n, size_t by)
{
    return (n + by - 1) / by;
}

static size_t round_up(size_t n, size_t to)
{
    return divide_up(n, to) * to;
}

/* ---- packing ---- */

/* A span of A, packed: for each block of unit->depth, consecutive panels of unit->rows. */
typedef struct span {
    const unit *unit;
    unsigned char *packed;
    size_t row, rows;    /* rows of A */
    size_t inner, depth; /* columns of A */
} span;

/* Depth of the block at `inner`, and of its packed panels. */
static size_t block_depth(const span *s, size_t inner)
{
    return least(s->unit->depth, s->depth - inner);
}

static size_t packed_depth(const span *s, size_t inner)
{
    return round_up(block_depth(s, inner), s->unit->group);
}

static unsigned char *packed_panel(const span *s, size_t inner, size_t row)
{
    const size_t rows = round_up(s->rows, s->unit->rows);

    return s->packed + (inner * rows + row * packed_depth(s, inner)) * s->unit->row_bytes;
}

/* Rows row .. row+count-1 of A; rounded if the weights are integers. */
static void pack_panel(const gemm *g, const span *s, size_t inner, size_t row, size_t count)
{
    const unit *u = s->unit;
    const size_t depth = block_depth(s, inner);
    const matrix_view v = {g->a.at + (s->row + row) * g->a.row + (s->inner + inner) * g->a.col,
                           g->a.row, g->a.col};
    unsigned char *panel = packed_panel(s, inner, row);

    if (!g->weights || !kvsi_rounds_inputs(g->weights->type)) {
        u->pack_rows(panel, v, count, depth);
        return;
    }
    for (size_t p = 0; p < depth; p += DECODED_DEPTH) {
        const size_t now = least(DECODED_DEPTH, depth - p);
        float rounded[UNIT_ROWS_MAX * DECODED_DEPTH];

        for (size_t i = 0; i < count; i++)
            round_values(rounded + i * DECODED_DEPTH, v.at + i * v.row + p, now);
        u->pack_rows(panel + p * u->rows * u->row_bytes, (matrix_view){rounded, DECODED_DEPTH, 1},
                     count, now);
    }
}

/* Packs a panel of columns of B; weights that are not plain float32 are decoded first. */
static void pack_columns(const unit *u, unsigned char *panel, const gemm *g, size_t inner,
                         size_t depth, size_t col, size_t count)
{
    const kvsi_matrix *w = g->weights;

    if (!w) { /* transposed: columns of B are rows of the view */
        u->pack_cols(panel,
                     (matrix_view){g->b.at + inner * g->b.row + col * g->b.col, g->b.col, g->b.row},
                     count, depth);
        return;
    }
    if (w->type == KVSI_F32 && w->paired == 0) {
        u->pack_cols(panel,
                     (matrix_view){(const float *)w->data + col * w->cols + inner, w->cols, 1},
                     count, depth);
        return;
    }
    for (size_t p = 0; p < depth; p += DECODED_DEPTH) {
        const size_t now = least(DECODED_DEPTH, depth - p);
        const unsigned char *rows = w->data;
        float decoded[UNIT_COLS_MAX * DECODED_DEPTH];

        for (size_t j = 0; j < count; j++)
            decode_row(decoded + j * DECODED_DEPTH, w->type,
                       rows + kvsi_matrix_row(w, col + j) * kvsi_dtype_bytes(w->type, w->cols),
                       inner + p, now);
        u->pack_cols(panel + p * u->cols * u->col_bytes, (matrix_view){decoded, DECODED_DEPTH, 1},
                     count, now);
    }
}

/* One piece of packing: PANELS panels of one block of depth. */
enum { PANELS = 8 };

static void pack_span(const kvsi_context *c, const gemm *g, const span *s)
{
    const unit *u = s->unit;
    const size_t groups = divide_up(s->rows, PANELS * u->rows);

    KVSI_PARALLEL_PIECES(c->threads, i, groups * divide_up(s->depth, u->depth)) {
        const size_t end = least((i % groups + 1) * PANELS * u->rows, s->rows);
        const unsigned state = u->enter();

        for (size_t row = i % groups * PANELS * u->rows; row < end; row += u->rows)
            pack_panel(g, s, i / groups * u->depth, row, least(u->rows, s->rows - row));
        u->leave(state);
    }
}

/* ---- blocks and pieces ---- */

/* A tile at the edge, with fewer rows or columns: computed in a full-size buffer. */
static void multiply_edge(const unit *u, float *c, size_t stride, const void *a, const void *b,
                          size_t depth, unit_start start, size_t rows, size_t cols)
{
    float whole[UNIT_ROWS_MAX * UNIT_COLS_MAX];

    u->multiply(whole, u->cols, a, b, depth, (unit_start){0});
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++)
            c[i * stride + j] = whole[i * u->cols + j] +
                                (start.c ? start.c[i * start.stride + j] : 0.0f) +
                                (start.bias ? start.bias[j] : 0.0f);
}

/* Rows row .. row+rows-1 of a span times a packed block of B, into columns from `col` on. */
static void multiply_block(const gemm *g, const span *s, size_t inner, size_t row, size_t rows,
                           const unsigned char *b, size_t col, size_t cols)
{
    const unit *u = s->unit;
    const size_t depth = packed_depth(s, inner);
    const int first = s->inner + inner == 0;

    for (size_t j = 0; j < cols; j += u->cols)
        for (size_t i = row; i < row + rows; i += u->rows) {
            const size_t at = (s->row + i) * g->stride + col + j;
            const size_t height = least(u->rows, row + rows - i), width = least(u->cols, cols - j);
            const float *c = first ? g->start : g->c;
            const unit_start start = {c ? c + at : NULL,
                                      first && g->bias ? g->bias + col + j : NULL, g->stride};
            const unsigned char *x = packed_panel(s, inner, i), *y = b + j * depth * u->col_bytes;

            if (height == u->rows && width == u->cols)
                u->multiply(g->c + at, g->stride, x, y, depth, start);
            else
                multiply_edge(u, g->c + at, g->stride, x, y, depth, start, height, width);
        }
}

typedef struct tiling {
    size_t rows, cols, row_count, col_count;
} tiling;

/* Size of each of `count` about equal parts of n, rounded up to whole panels. */
static size_t part(size_t n, size_t count, size_t panel)
{
    return round_up(divide_up(n, count), panel);
}

static tiling cut_pieces(const unit *u, size_t rows, size_t cols)
{
    size_t across = divide_up(cols, PIECE_COLS), down = 1;
    tiling t;

    while (across * down < PIECES_WANTED && cols / across >= 2 * PIECE_COLS_MIN)
        across *= 2;
    while (across * down < PIECES_WANTED && rows / down >= 2 * u->block_rows)
        down *= 2;
    while (across * down < PIECES_NEEDED && cols / across >= 4 * u->cols)
        across *= 2; /* a small C: narrow pieces are slower, but idle threads are worse */
    t.rows = part(rows, down, u->rows);
    t.cols = part(cols, across, u->cols);
    t.row_count = divide_up(rows, t.rows);
    t.col_count = divide_up(cols, t.cols);
    return t;
}

static void multiply_piece(const gemm *g, const span *s, const tiling *t, size_t piece,
                           unsigned char *b)
{
    const unit *u = s->unit;
    const size_t row = piece / t->col_count * t->rows, col = piece % t->col_count * t->cols;
    const size_t rows = least(t->rows, s->rows - row), cols = least(t->cols, g->n - col);
    const unsigned state = u->enter();

    for (size_t inner = 0; inner < s->depth; inner += u->depth) {
        for (size_t j = 0; j < cols; j += u->cols)
            pack_columns(u, b + j * packed_depth(s, inner) * u->col_bytes, g, s->inner + inner,
                         block_depth(s, inner), col + j, least(u->cols, cols - j));
        for (size_t i = 0; i < rows; i += u->block_rows)
            multiply_block(g, s, inner, row + i, least(u->block_rows, rows - i), b, col, cols);
    }
    u->leave(state);
}

size_t LEVEL(gemm_workspace)(int threads)
{
    return PACKED_A + (size_t)threads * PACKED_B;
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

/* Inputs that were rounded to integers keep their values: they are not rounded again. */
static const unit *choose_unit(const kvsi_context *c, const gemm *g)
{
    if (c->precision == KVSI_PRECISION_BF16 && !c->exact &&
        !(g->weights && kvsi_rounds_inputs(g->weights->type)))
        return LEVEL(unit_bf16)();
    return &LEVEL(unit_f32);
}

void LEVEL(gemm)(const kvsi_context *c, const gemm *g)
{
    const unit *u = choose_unit(c, g);
    unsigned char *packed = c->workspace + c->workspace_bytes - LEVEL(gemm_workspace)(c->threads);
    unsigned char *packed_b = packed + PACKED_A;
    size_t span_rows, span_depth;

    if (g->m == 0 || g->n == 0)
        return;
    if (g->k == 0) {
        start_only(g);
        return;
    }
    span_rows = part(g->m, divide_up(g->m, SPAN_ROWS), u->rows);
    span_depth = PACKED_A / (span_rows * u->row_bytes) / u->depth * u->depth;
    for (size_t row = 0; row < g->m; row += span_rows)
        for (size_t inner = 0; inner < g->k; inner += span_depth) {
            const span s = {u,     packed,
                            row,   least(span_rows, g->m - row),
                            inner, least(span_depth, g->k - inner)};
            const tiling t = cut_pieces(u, s.rows, g->n);

            pack_span(c, g, &s);
            KVSI_PARALLEL_PIECES(c->threads, i, t.row_count * t.col_count) {
                multiply_piece(g, &s, &t, i, packed_b + kvsi_thread_index() * PACKED_B);
            }
        }
}
