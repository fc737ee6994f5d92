#include "kernels/cpu/gemm.h"

#include "kernels/cpu/decode.h"
#include "parallel/threads.h"

/* One operand is packed by all threads together, the shared one; the other one is packed by pieces
 * of C, each of which belongs to one thread.  The smaller operand is shared, so pieces are long
 * and seldom pack the same values. */

/* Most rows or columns, and most bytes, of the shared operand that are packed at once. */
enum { SPAN_MAX = 4080, SHARED_BYTES = 1 << 24 };

/* Rows or columns that a piece packs. */
enum { PIECE = 256, PIECE_MIN = 128 };
enum { PIECES_WANTED = 8, PIECES_NEEDED = 4 };
enum { OWN_BYTES = (PIECE + UNIT_ROWS_MAX) * UNIT_PANEL_BYTES }; /* a piece has whole panels */

/* Columns that a unit cannot pack as they are stored are decoded in blocks of this depth. */
enum { DECODED_DEPTH = 256 };

/* Panels across memory, whose values of one k are consecutive, are packed together in steps of this
 * depth: a row of memory is read once, not a cache line or two for each panel. */
enum { STRIP_DEPTH = 32 };

_Static_assert((SPAN_MAX + UNIT_ROWS_MAX) * UNIT_PANEL_BYTES <= SHARED_BYTES,
               "a span has at least one block of depth");

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

/* Depth of one step of packing panels of a view. */
static size_t step_depth(const matrix_view *v, size_t depth)
{
    return v->col == 1 ? depth : STRIP_DEPTH;
}

/* Packs rows row .. end-1 of A, `depth` values of k from `inner` on: panels of unit->rows. */
static void pack_rows(const unit *u, unsigned char *panels, const gemm *g, size_t inner,
                      size_t depth, size_t row, size_t end)
{
    const size_t panel_bytes = u->rows * round_up(depth, u->group) * u->row_bytes;
    const matrix_view v = g->a;
    const size_t step = step_depth(&v, depth);

    for (size_t p = 0; p < depth; p += step)
        for (size_t i = row; i < end; i += u->rows)
            u->pack_rows(panels + (i - row) / u->rows * panel_bytes + p * u->rows * u->row_bytes,
                         (matrix_view){v.at + i * v.row + (inner + p) * v.col, v.row, v.col},
                         least(u->rows, end - i), least(step, depth - p));
}

/* Packs the first values of a panel of columns as they are stored; returns how many values of k. */
static size_t pack_stored(const unit *u, unsigned char *panel, const kvsi_matrix *w, size_t inner,
                          size_t depth, size_t col, size_t count)
{
    const size_t whole = depth / UNIT_STORED * UNIT_STORED;
    const size_t bytes = kvsi_dtype_bytes(w->type, w->cols);
    const size_t first = kvsi_matrix_row(w, col), step = kvsi_matrix_row(w, col + 1) - first;

    if (!u->pack_stored || count < u->cols)
        return 0;
    for (size_t j = 2; j < count; j++)
        if (kvsi_matrix_row(w, col + j) != first + j * step)
            return 0;
    return u->pack_stored(panel, w->type,
                          (const unsigned char *)w->data + first * bytes +
                              kvsi_dtype_bytes(w->type, inner),
                          step * bytes, whole)
               ? whole
               : 0;
}

/* Packs a panel of columns of weights; those that the unit cannot pack are decoded first. */
static void pack_weights(const unit *u, unsigned char *panel, const kvsi_matrix *w, size_t inner,
                         size_t depth, size_t col, size_t count)
{
    for (size_t p = pack_stored(u, panel, w, inner, depth, col, count); p < depth;
         p += DECODED_DEPTH) {
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

/* Packs columns col .. end-1 of B in the same way: panels of unit->cols. */
static void pack_columns(const unit *u, unsigned char *panels, const gemm *g, size_t inner,
                         size_t depth, size_t col, size_t end)
{
    const kvsi_matrix *w = g->weights;
    const size_t panel_bytes = u->cols * round_up(depth, u->group) * u->col_bytes;
    /* transposed: columns of B are rows of the view */
    const matrix_view v =
        w ? (matrix_view){w->data, w->cols, 1} : (matrix_view){g->b.at, g->b.col, g->b.row};
    const size_t step = step_depth(&v, depth);

    if (w && (w->type != KVSI_F32 || w->paired != 0)) {
        for (; col < end; col += u->cols, panels += panel_bytes)
            pack_weights(u, panels, w, inner, depth, col, least(u->cols, end - col));
        return;
    }
    for (size_t p = 0; p < depth; p += step)
        for (size_t j = col; j < end; j += u->cols)
            u->pack_cols(panels + (j - col) / u->cols * panel_bytes + p * u->cols * u->col_bytes,
                         (matrix_view){v.at + j * v.row + (inner + p) * v.col, v.row, v.col},
                         least(u->cols, end - j), least(step, depth - p));
}

/* All of B, packed: for each block of unit->depth, consecutive panels of unit->cols.  Returns the
 * place of the panel from `col` on; `inner` is where the block starts, `depth` its packed depth. */
static size_t packed_column(const unit *u, size_t n, size_t inner, size_t depth, size_t col)
{
    return (inner * round_up(n, u->cols) + col * depth) * u->col_bytes;
}

/* One piece of packing: PANELS panels of one block of depth. */
enum { PANELS = 8 };

static const unit *unit_of(const kvsi_context *c, const gemm *g)
{
    return LEVEL(unit_of)(c, g->weights ? g->weights->type : KVSI_F32);
}

size_t LEVEL(gemm_packed_bytes)(const kvsi_context *c, const gemm *g)
{
    const unit *u = unit_of(c, g);
    const size_t bytes = packed_column(u, g->n, round_up(g->k, u->group), 0, 0);

    return round_up(bytes, GEMM_ALIGNMENT);
}

void LEVEL(gemm_pack)(const kvsi_context *c, void *packed, const gemm *g)
{
    const unit *u = unit_of(c, g);
    const size_t groups = divide_up(g->n, PANELS * u->cols);

    KVSI_PARALLEL_PIECES(c->threads, i, groups * divide_up(g->k, u->depth)) {
        const size_t inner = i / groups * u->depth, depth = least(u->depth, g->k - inner);
        const size_t col = i % groups * PANELS * u->cols;
        const unsigned state = u->enter();

        pack_columns(u,
                     (unsigned char *)packed +
                         packed_column(u, g->n, inner, round_up(depth, u->group), col),
                     g, inner, depth, col, least(col + PANELS * u->cols, g->n));
        u->leave(state);
    }
}

/* A span of k of some rows of A, or of some columns of B, packed: for each block of unit->depth,
 * consecutive panels. */
typedef struct span {
    const unit *unit;
    const gemm *product;
    int is_b;
    unsigned char *packed;
    size_t from, count;  /* rows or columns */
    size_t inner, depth; /* k */
} span;

static size_t span_panel(const span *s)
{
    return s->is_b ? s->unit->cols : s->unit->rows;
}

/* Depth of the block at `inner` of the span. */
static size_t block_depth(const span *s, size_t inner)
{
    return least(s->unit->depth, s->depth - inner);
}

/* The panel from row or column `at` of the span on. */
static unsigned char *span_at(const span *s, size_t inner, size_t at)
{
    const size_t depth = round_up(block_depth(s, inner), s->unit->group);
    const size_t bytes = s->is_b ? s->unit->col_bytes : s->unit->row_bytes;

    return s->packed + (inner * round_up(s->count, span_panel(s)) + at * depth) * bytes;
}

static void pack_span(const kvsi_context *c, const span *s)
{
    const unit *u = s->unit;
    const size_t group = PANELS * span_panel(s), groups = divide_up(s->count, group);

    KVSI_PARALLEL_PIECES(c->threads, i, groups * divide_up(s->depth, u->depth)) {
        const size_t inner = i / groups * u->depth, from = i % groups * group;
        const unsigned state = u->enter();

        (s->is_b ? pack_columns : pack_rows)(
            u, span_at(s, inner, from), s->product, s->inner + inner, block_depth(s, inner),
            s->from + from, s->from + least(from + group, s->count));
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

/* A block of C, and its packed operands: `depth` values of k from `inner` on. */
typedef struct block {
    const unsigned char *a, *b;
    size_t row, rows, col, cols;
    size_t inner, depth;
} block;

static void multiply_block(const unit *u, const gemm *g, const block *k)
{
    const size_t depth = round_up(k->depth, u->group);

    for (size_t j = 0; j < k->cols; j += u->cols)
        for (size_t i = 0; i < k->rows; i += u->rows) {
            const size_t at = (k->row + i) * g->stride + k->col + j;
            const size_t height = least(u->rows, k->rows - i), width = least(u->cols, k->cols - j);
            const float *c = k->inner == 0 ? g->start : g->c;
            const unit_start start = {c ? c + at : NULL,
                                      k->inner == 0 && g->bias ? g->bias + k->col + j : NULL,
                                      g->stride};
            const unsigned char *x = k->a + i * depth * u->row_bytes;
            const unsigned char *y = k->b + j * depth * u->col_bytes;

            if (height == u->rows && width == u->cols)
                u->multiply(g->c + at, g->stride, x, y, depth, start);
            else
                multiply_edge(u, g->c + at, g->stride, x, y, depth, start, height, width);
        }
}

/* Pieces of C: parts of the rows or columns of the shared span by parts of those of the other
 * operand. */
typedef struct tiling {
    size_t shared, own, shared_count, own_count;
} tiling;

/* Size of each of `count` about equal parts of n, rounded up to whole panels. */
static size_t part(size_t n, size_t count, size_t panel)
{
    return round_up(divide_up(n, count), panel);
}

static tiling cut_pieces(const span *s, size_t own)
{
    const unit *u = s->unit;
    const size_t panel = s->is_b ? u->rows : u->cols;
    size_t parts = divide_up(own, PIECE), shared_parts = 1;
    tiling t;

    while (parts * shared_parts < PIECES_WANTED && own / parts >= 2 * PIECE_MIN)
        parts *= 2;
    while (parts * shared_parts < PIECES_WANTED && s->count / shared_parts >= 2 * u->block_rows)
        shared_parts *= 2;
    while (parts * shared_parts < PIECES_NEEDED && own / parts >= 4 * panel)
        parts *= 2; /* a small C: narrow pieces are slower, but idle threads are worse */
    t.own = part(own, parts, panel);
    t.shared = part(s->count, shared_parts, span_panel(s));
    t.own_count = divide_up(own, t.own);
    t.shared_count = divide_up(s->count, t.shared);
    return t;
}

/* Columns of B that are already packed, or packed into `buffer`. */
static const unsigned char *own_columns(const span *s, size_t inner, size_t col, size_t cols,
                                        unsigned char *buffer)
{
    const gemm *g = s->product;
    const unit *u = s->unit;
    const size_t depth = block_depth(s, inner);

    if (g->packed)
        return (const unsigned char *)g->packed +
               packed_column(u, g->n, s->inner + inner, round_up(depth, u->group), col);
    pack_columns(u, buffer, g, s->inner + inner, depth, col, col + cols);
    return buffer;
}

static void multiply_piece(const span *s, const tiling *t, size_t piece, unsigned char *buffer)
{
    const gemm *g = s->product;
    const unit *u = s->unit;
    const size_t own = piece % t->own_count * t->own;
    const size_t shared = piece / t->own_count * t->shared;
    const size_t owns = least(t->own, (s->is_b ? g->m : g->n) - own);
    const size_t shares = least(t->shared, s->count - shared);
    const unsigned state = u->enter();

    for (size_t inner = 0; inner < s->depth; inner += u->depth) {
        block k = {.inner = s->inner + inner, .depth = block_depth(s, inner)};

        if (s->is_b) {
            pack_rows(u, buffer, g, k.inner, k.depth, own, own + owns);
            k.a = buffer;
            k.row = own;
            k.rows = owns;
            k.b = span_at(s, inner, shared);
            k.col = s->from + shared;
            k.cols = shares;
            multiply_block(u, g, &k);
            continue;
        }
        k.b = own_columns(s, inner, own, owns, buffer);
        k.col = own;
        k.cols = owns;
        for (size_t i = 0; i < shares; i += u->block_rows) {
            k.a = span_at(s, inner, shared + i);
            k.row = s->from + shared + i;
            k.rows = least(u->block_rows, shares - i);
            multiply_block(u, g, &k);
        }
    }
    u->leave(state);
}

size_t LEVEL(gemm_workspace)(int threads)
{
    return SHARED_BYTES + (size_t)threads * OWN_BYTES;
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
    const unit *u = unit_of(c, g);
    unsigned char *packed = c->workspace + c->workspace_bytes - LEVEL(gemm_workspace)(c->threads);
    unsigned char *own = packed + SHARED_BYTES;
    span s = {.unit = u, .product = g, .is_b = g->n < g->m && !g->packed, .packed = packed};
    const size_t count = s.is_b ? g->n : g->m;
    size_t span_count, span_depth;

    if (g->m == 0 || g->n == 0)
        return;
    if (g->k == 0) {
        start_only(g);
        return;
    }
    span_count = part(count, divide_up(count, SPAN_MAX), span_panel(&s));
    span_depth =
        SHARED_BYTES / (span_count * (s.is_b ? u->col_bytes : u->row_bytes)) / u->depth * u->depth;
    for (s.from = 0; s.from < count; s.from += span_count)
        for (s.inner = 0; s.inner < g->k; s.inner += span_depth) {
            tiling t;

            s.count = least(span_count, count - s.from);
            s.depth = least(span_depth, g->k - s.inner);
            t = cut_pieces(&s, s.is_b ? g->m : g->n);
            pack_span(c, &s);
            KVSI_PARALLEL_PIECES(c->threads, i, t.shared_count * t.own_count) {
                multiply_piece(&s, &t, i, own + kvsi_thread_index() * OWN_BYTES);
            }
        }
}
