/* Measuring the memory: plain C, one thread. */
#include "kernels/ref/ref.h"

void kvsi_ref_read_through(kvsi_context *c, real *sums, size_t parts, const real *x, size_t n)
{
    (void)c;
    for (size_t i = 0; i < parts; i++) {
        sums[i] = 0;
        for (size_t at = n * i / parts; at < n * (i + 1) / parts; at++)
            sums[i] += x[at];
    }
}
