#include "kernels/ref/ref.h"

#include <string.h>

void kvsi_ref_embed_forward(kvsi_context *c, real *y, const real *table, const int32_t *ids,
                            size_t n, size_t dim)
{
    (void)c;
    for (size_t t = 0; t < n; t++)
        memcpy(y + t * dim, table + (size_t)ids[t] * dim, dim * sizeof *y);
}

void kvsi_ref_embed_backward(kvsi_context *c, real *d_table, const real *d_y, const int32_t *ids,
                             size_t n, size_t dim)
{
    (void)c;
    for (size_t t = 0; t < n; t++)
        for (size_t i = 0; i < dim; i++)
            d_table[(size_t)ids[t] * dim + i] += d_y[t * dim + i];
}
