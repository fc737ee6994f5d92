#include "kernels/cpu/cpu.h"
#include "parallel/threads.h"

#include <string.h>

static void add_row(float *restrict y, const float *restrict x, size_t dim)
{
    for (size_t i = 0; i < dim; i++)
        y[i] += x[i];
}

void LEVEL(embed_forward)(kvsi_context *c, float *y, const float *table, const int32_t *ids,
                          size_t n, size_t dim, int add)
{
    const pieces cut = cut_rows(n);

    KVSI_PARALLEL_PIECES(c->threads, i, cut.count) {
        for (size_t t = i * cut.rows; t < piece_end(cut, i, n); t++)
            if (add)
                add_row(y + t * dim, table + (size_t)ids[t] * dim, dim);
            else
                memcpy(y + t * dim, table + (size_t)ids[t] * dim, dim * sizeof *y);
    }
}

/* Tokens repeat, so pieces are columns: each adds all tokens, in order, to its own columns. */
void LEVEL(embed_backward)(kvsi_context *c, float *d_table, const float *d_y, const int32_t *ids,
                           size_t n, size_t dim)
{
    enum { COLUMNS = 16 }; /* a cache line */
    const size_t count = (dim + COLUMNS - 1) / COLUMNS;

    KVSI_PARALLEL_PIECES(c->threads, i, count) {
        const size_t from = i * COLUMNS, to = from + COLUMNS < dim ? from + COLUMNS : dim;

        for (size_t t = 0; t < n; t++) {
            float *restrict sum = d_table + (size_t)ids[t] * dim;
            const float *restrict row = d_y + t * dim;
            for (size_t j = from; j < to; j++)
                sum[j] += row[j];
        }
    }
}
