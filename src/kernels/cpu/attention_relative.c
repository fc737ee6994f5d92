#include "kernels/cpu/attention_relative.h"

#include <string.h>

static size_t last_token(const head_view *h, tile_place at)
{
    return last_key(h, at.row + at.m - 1);
}

/* The distance of the first column. */
static size_t farthest(const head_view *h, tile_place at)
{
    return last_token(h, at) - at.key;
}

/* The first column of row i. */
static size_t column_of(const head_view *h, tile_place at, size_t i)
{
    return last_token(h, at) - last_key(h, at.row + i);
}

/* Whole vectors of columns from that of the last row to that of the first. */
static size_t columns_of(const head_view *h, tile_place at)
{
    return column_of(h, at, 0) + whole_vectors(at.n);
}

/* Offset of the numbers of row i. */
static size_t numbers_at(const head_view *h, tile_place at, size_t i)
{
    return token_major(h->a, h->span, h->kv_head, at.row + i) * h->a->relative.size;
}

static float growth_of(const head_view *h, tile_place at, size_t i)
{
    return h->a->growth ? h->a->growth[last_key(h, at.row + i)] : 1.0f;
}

void LEVEL(relative_start)(const scratch *s, const head_view *h, tile_place at)
{
    const kvsi_relative *r = &h->a->relative;
    const size_t columns = columns_of(h, at), first = farthest(h, at);

    for (size_t c = 0; c < r->size; c++)
        for (size_t j = 0; j < columns; j++)
            s->near[c * RELATIVE_COLUMNS + j] =
                j <= first && first - j < r->extent ? r->table[c * r->extent + first - j] : 0.0f;
}

const float *LEVEL(relative_terms)(const scratch *s, const head_view *h, tile_place at, size_t i)
{
    const size_t size = h->a->relative.size, padded = whole_vectors(at.n);
    const float *numbers = h->a->relative.rows + numbers_at(h, at, i);
    const float *near = s->near + column_of(h, at, i), growth = growth_of(h, at, i);

    for (size_t j = 0; j < padded; j += VEC) {
        vec sum = {0};

        for (size_t c = 0; c < size; c++)
            sum += vec_all(numbers[c]) * vec_load(near + c * RELATIVE_COLUMNS + j);
        vec_store(s->terms + j, sum * growth);
    }
    return s->terms;
}

/* ---- backward ---- */

/* The table's gradient of one KV head of a sequence: [size, distances]. */
typedef struct own_gradient {
    double *at;
    size_t distances;
} own_gradient;

static own_gradient gradient_of(const work *w, const kvsi_attention *a, const kvsi_span *span,
                                size_t kv_head)
{
    const size_t extent = a->relative.extent;

    return (own_gradient){
        w->d_table + (span->start * a->kv_heads + kv_head * span->len) * a->relative.size,
        span->len < extent ? span->len : extent,
    };
}

void LEVEL(relative_clear)(const work *w, const head_view *h)
{
    const own_gradient own = gradient_of(w, h->a, h->span, h->kv_head);
    const kvsi_relative *r = &h->a->relative;
    const tile_place all = {0, h->rows, 0, h->keys};

    memset(own.at, 0, r->size * own.distances * sizeof *own.at);
    for (size_t i = 0; i < h->rows; i++)
        memset(r->d_rows + numbers_at(h, all, i), 0, r->size * sizeof *r->d_rows);
}

void LEVEL(relative_row_backward)(const scratch *s, const head_view *h, tile_place at, size_t i,
                                  float *d_scores)
{
    const kvsi_relative *r = &h->a->relative;
    const size_t padded = whole_vectors(at.n), column = column_of(h, at, i);
    const float *numbers = r->rows + numbers_at(h, at, i), growth = growth_of(h, at, i);
    float *d_numbers = r->d_rows + numbers_at(h, at, i);

    for (size_t j = at.n; j < padded; j++)
        d_scores[j] = 0.0f;
    for (size_t c = 0; c < r->size; c++) {
        const float *near = s->near + c * RELATIVE_COLUMNS + column, number = growth * numbers[c];
        float *d_near = s->d_near + c * RELATIVE_COLUMNS + column;
        vec sum = {0};

        for (size_t j = 0; j < padded; j += VEC) {
            const vec d = vec_load(d_scores + j);

            sum += d * vec_load(near + j);
            vec_store(d_near + j, vec_load(d_near + j) + number * d);
        }
        d_numbers[c] += growth * vec_sum(sum);
    }
}

void LEVEL(relative_finish)(const work *w, const scratch *s, const head_view *h, tile_place at)
{
    const own_gradient own = gradient_of(w, h->a, h->span, h->kv_head);
    const size_t columns = columns_of(h, at), first = farthest(h, at);

    for (size_t c = 0; c < h->a->relative.size; c++)
        for (size_t j = 0; j < columns && j <= first; j++)
            if (first - j < own.distances)
                own.at[c * own.distances + first - j] +=
                    (double)s->d_near[c * RELATIVE_COLUMNS + j];
}

void LEVEL(relative_reduce)(const work *w, const kvsi_attention *a)
{
    const kvsi_relative *r = &a->relative;

    for (size_t c = 0; c < r->size; c++)
        for (size_t x = 0; x < r->extent; x++) {
            double sum = 0;

            for (size_t s = 0; s < a->sequences; s++)
                for (size_t head = 0; head < a->kv_heads; head++) {
                    const own_gradient own = gradient_of(w, a, &a->spans[s], head);

                    sum += x < own.distances ? own.at[c * own.distances + x] : 0;
                }
            r->d_table[c * r->extent + x] += (float)sum;
        }
}
