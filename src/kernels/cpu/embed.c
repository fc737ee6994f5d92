#include "kernels/cpu/cpu.h"
#include "kernels/cpu/decode.h"
#include "parallel/threads.h"

#include <string.h>

static void add_row(float *restrict y, const float *restrict x, size_t dim)
{
    for (size_t i = 0; i < dim; i++)
        y[i] += x[i];
}

static void embed_row(float *y, const kvsi_matrix *table, size_t id, int add)
{
    const size_t dim = table->cols;
    const unsigned char *row =
        (const unsigned char *)table->data + id * kvsi_dtype_bytes(table->type, dim);

    if (add) /* positions, always float32 */
        add_row(y, (const float *)(const void *)row, dim);
    else
        decode_row(y, table->type, row, 0, dim);
}

void LEVEL(embed_forward)(kvsi_context *c, float *y, const kvsi_matrix *table, const int32_t *ids,
                          size_t n, int add)
{
    const pieces cut = cut_rows(n);

    KVSI_PARALLEL_PIECES(c->threads, i, cut.count) {
        for (size_t t = i * cut.rows; t < piece_end(cut, i, n); t++)
            embed_row(y + t * table->cols, table, (size_t)ids[t], add);
    }
}

/* Ids repeat, so the work is split by columns: each piece adds all tokens in order. */
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
