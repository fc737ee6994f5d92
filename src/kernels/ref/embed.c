#include "kernels/ref/ref.h"

void kvsi_ref_embed_forward(kvsi_context *c, real *y, const kvsi_matrix *table, const int32_t *ids,
                            size_t n, int add)
{
    const size_t dim = table->cols;

    (void)c;
    for (size_t t = 0; t < n; t++)
        for (size_t i = 0; i < dim; i++)
            y[t * dim + i] = (add ? y[t * dim + i] : 0) + kvsi_ref_weight(table, (size_t)ids[t], i);
}

void kvsi_ref_embed_backward(kvsi_context *c, real *d_table, const real *d_y, const int32_t *ids,
                             size_t n, size_t dim)
{
    (void)c;
    for (size_t t = 0; t < n; t++)
        for (size_t i = 0; i < dim; i++)
            d_table[(size_t)ids[t] * dim + i] += d_y[t * dim + i];
}
