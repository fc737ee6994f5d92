#include "kernels/cpu/attention_packed.h"

#include <string.h>

static size_t whole(size_t n, size_t group)
{
    return (n + group - 1) / group * group;
}

/* ---- memory ---- */

/* Operands of one block of rows.  "left" ones have rows, "right" ones have columns. */
typedef struct packed_rows {
    unsigned char *q_left, *d_out_left;   /* rows of the block; sums over channels */
    unsigned char *q_right, *d_out_right; /* columns are channels; sums over rows of the block */
    unsigned char *scores_left;           /* rows x keys, or keys x rows */
    float *product, *d_q;                 /* [ROWS, whole_channels] */
} packed_rows;

static packed_rows rows_in(const unit *u, unsigned char *memory, size_t head_size)
{
    const size_t channels = whole_channels(head_size);
    const size_t left = ROWS * channels * u->row_bytes, right = ROWS * channels * u->col_bytes;
    packed_rows r;

    r.q_left = memory;
    r.d_out_left = r.q_left + left;
    r.q_right = r.d_out_left + left;
    r.d_out_right = r.q_right + right;
    r.scores_left = r.d_out_right + right;
    r.product = (float *)(r.scores_left + ROWS * ROWS * u->row_bytes);
    r.d_q = r.product + ROWS * channels;
    return r;
}

size_t LEVEL(attention_packed_scratch)(const unit *u, size_t head_size)
{
    const size_t channels = whole_channels(head_size);

    return u ? ROWS * (2 * channels * (u->row_bytes + u->col_bytes) + ROWS * u->row_bytes +
                       2 * channels * sizeof(float))
             : 0;
}

/* A tile of one of the packed arrays; `key` is a multiple of KEYS. */
static unsigned char *tile_at(unsigned char *packed, const head_view *h, size_t key)
{
    const size_t first = h->span->start / PACKED_LENGTH_MIN * h->a->kv_heads +
                         h->span->len / PACKED_LENGTH_MIN * h->kv_head;

    return packed + (first + key / KEYS) * packed_tile_bytes(h->unit, h->head_size);
}

/* ---- packing and products ---- */

static void pack_left(const unit *u, unsigned char *to, matrix_view v, size_t rows, size_t depth)
{
    const size_t bytes = whole(depth, u->group) * u->row_bytes;

    for (size_t i = 0; i < rows; i += u->rows)
        u->pack_rows(to + i * bytes, (matrix_view){v.at + i * v.row, v.row, v.col},
                     rows - i < u->rows ? rows - i : u->rows, depth);
}

/* Rows of the view are columns of the operand. */
static void pack_right(const unit *u, unsigned char *to, matrix_view v, size_t cols, size_t depth)
{
    const size_t bytes = whole(depth, u->group) * u->col_bytes;

    for (size_t j = 0; j < cols; j += u->cols)
        u->pack_cols(to + j * bytes, (matrix_view){v.at + j * v.row, v.row, v.col},
                     cols - j < u->cols ? cols - j : u->cols, depth);
}

/* c[m, n] = a b, or += ; whole panels are written, so c has room for them. */
static void multiply(const unit *u, float *c, size_t stride, const unsigned char *a,
                     const unsigned char *b, size_t m, size_t n, size_t depth, int add)
{
    const size_t k = whole(depth, u->group);

    for (size_t j = 0; j < n; j += u->cols)
        for (size_t i = 0; i < m; i += u->rows) {
            float *at = c + i * stride + j;

            u->multiply(at, stride, a + i * k * u->row_bytes, b + j * k * u->col_bytes, k,
                        (unit_start){.c = add ? at : NULL, .stride = stride});
        }
}

/* Packs n rows of k^ or v^ from `key` on: each row becomes a column; products sum over channels. */
static void pack_by_key(const head_view *h, unsigned char *packed, const float *rows, size_t key,
                        size_t n)
{
    const size_t d = h->head_size;

    pack_right(h->unit, tile_at(packed, h, key), (matrix_view){rows + key * d, d, 1}, n, d);
}

/* The same rows with a column for each channel; products sum over the n keys. */
static void pack_by_channel(const head_view *h, unsigned char *packed, const float *rows,
                            size_t key, size_t n)
{
    const size_t d = h->head_size;

    pack_right(h->unit, tile_at(packed, h, key), (matrix_view){rows + key * d, 1, d}, d, n);
}

static size_t keys_of_tile(const head_view *h, size_t key)
{
    return h->keys - key < KEYS ? h->keys - key : KEYS;
}

/* ---- forward ---- */

void LEVEL(attention_pack_forward)(const work *w, const head_view *h)
{
    for (size_t key = 0; key < h->keys; key += KEYS) {
        pack_by_key(h, w->k_by_key, h->k, key, keys_of_tile(h, key));
        pack_by_channel(h, w->v_by_channel, h->v, key, keys_of_tile(h, key));
    }
}

void LEVEL(attention_pack_rows)(const scratch *s, const head_view *h, size_t row, size_t m)
{
    const size_t d = h->head_size;

    pack_left(h->unit, rows_in(h->unit, s->packed, d).q_left, (matrix_view){h->q + row * d, d, 1},
              m, d);
}

void LEVEL(attention_packed_scores)(const work *w, const scratch *s, const head_view *h, size_t m,
                                    size_t key, size_t n)
{
    multiply(h->unit, s->scores, KEYS, rows_in(h->unit, s->packed, h->head_size).q_left,
             tile_at(w->k_by_key, h, key), m, n, h->head_size, 0);
}

void LEVEL(attention_packed_values)(const work *w, const scratch *s, const head_view *h, size_t m,
                                    size_t key, size_t n)
{
    const size_t d = h->head_size, keys = keys_of_tile(h, key);
    unsigned char *left = rows_in(h->unit, s->packed, d).scores_left;

    /* The tile was packed with all its keys; the rows attend to the first n of them. */
    for (size_t i = 0; n < keys && i < m; i++)
        memset(s->scores + i * KEYS + n, 0, (keys - n) * sizeof *s->scores);
    pack_left(h->unit, left, (matrix_view){s->scores, KEYS, 1}, m, keys);
    multiply(h->unit, s->out, whole_channels(d), left, tile_at(w->v_by_channel, h, key), m, d, keys,
             1);
}

/* ---- backward ---- */

static void pack_backward(const work *w, const head_view *h)
{
    for (size_t key = 0; key < h->keys; key += KEYS) {
        pack_by_key(h, w->k_by_key, h->k, key, keys_of_tile(h, key));
        pack_by_channel(h, w->k_by_channel, h->k, key, keys_of_tile(h, key));
        pack_by_key(h, w->v_by_key, h->v, key, keys_of_tile(h, key));
    }
}

/* d_rows[n, d] += left^T right, where left[m, n] are scores or their gradients, and the columns of
 * `right` are channels of the block's rows. */
static void add_transposed(const unit *u, float *d_rows, const packed_rows *r, const float *left,
                           const unsigned char *right, size_t m, size_t n, size_t d)
{
    const size_t stride = whole_channels(d);

    pack_left(u, r->scores_left, (matrix_view){left, 1, KEYS}, n, m);
    multiply(u, r->product, stride, r->scores_left, right, n, d, m, 0);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < d; j++)
            d_rows[i * d + j] += r->product[i * stride + j];
}

/* Rows row .. row+m-1: d_q is written, d_k and d_v are added to. */
static void backward_rows(const work *w, const scratch *s, const head_view *h, size_t row, size_t m)
{
    const size_t d = h->head_size, stride = whole_channels(d), first = h->q_at / d + row;
    const size_t k_at = k_offset(h->a, h->span, h->kv_head), keys = last_key(h, row + m - 1) + 1;
    const float *q = h->q + row * d, *d_out = w->d_out + first * d;
    const packed_rows r = rows_in(h->unit, s->packed, d);
    const unit *u = h->unit;

    pack_left(u, r.q_left, (matrix_view){q, d, 1}, m, d);
    pack_right(u, r.q_right, (matrix_view){q, 1, d}, d, m);
    pack_left(u, r.d_out_left, (matrix_view){d_out, d, 1}, m, d);
    pack_right(u, r.d_out_right, (matrix_view){d_out, 1, d}, d, m);
    memset(r.d_q, 0, ROWS * stride * sizeof *r.d_q);
    for (size_t key = first_key(h, row) / KEYS * KEYS; key < keys; key += KEYS) {
        const size_t n = keys_of_tile(h, key);

        multiply(u, s->scores, KEYS, r.q_left, tile_at(w->k_by_key, h, key), m, n, d, 0);
        multiply(u, s->d_scores, KEYS, r.d_out_left, tile_at(w->v_by_key, h, key), m, n, d, 0);
        LEVEL(attention_probabilities)(w, s, h, row, m, key, n);
        add_transposed(u, w->d_v + k_at + key * d, &r, s->scores, r.d_out_right, m, n, d);
        add_transposed(u, w->d_k + k_at + key * d, &r, s->d_scores, r.q_right, m, n, d);
        pack_left(u, r.scores_left, (matrix_view){s->d_scores, KEYS, 1}, m, n);
        multiply(u, r.d_q, stride, r.scores_left, tile_at(w->k_by_channel, h, key), m, d, n, 1);
    }
    for (size_t i = 0; i < m; i++)
        memcpy(w->d_q + (first + i) * d, r.d_q + i * stride, d * sizeof *r.d_q);
}

void LEVEL(attention_packed_backward)(const work *w, const head_view *h)
{
    const size_t d = h->head_size, k_at = k_offset(h->a, h->span, h->kv_head);
    const scratch s = LEVEL(attention_scratch)(w, d);

    pack_backward(w, h);
    memset(w->d_k + k_at, 0, h->keys * d * sizeof *w->d_k);
    memset(w->d_v + k_at, 0, h->keys * d * sizeof *w->d_v);
    for (size_t row = 0; row < h->rows; row += ROWS)
        backward_rows(w, &s, h, row, h->rows - row < ROWS ? h->rows - row : ROWS);
}
