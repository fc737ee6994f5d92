/* Measuring the machine: plain C, one thread. */
#include "kernels/ref/ref.h"

void kvsi_ref_multiply_add(kvsi_context *c, real *sums, size_t parts, size_t rounds, double *flops)
{
    (void)c;
    for (size_t i = 0; i < parts; i++) {
        sums[i] = (real)i / (real)parts;
        for (size_t round = 0; round < rounds; round++)
            sums[i] = sums[i] * (real)0.999 + (real)1e-3;
    }
    *flops = 2.0 * (double)rounds * (double)parts;
}

void kvsi_ref_read_through(kvsi_context *c, real *sums, size_t parts, const real *x, size_t n)
{
    (void)c;
    for (size_t i = 0; i < parts; i++) {
        sums[i] = 0;
        for (size_t at = n * i / parts; at < n * (i + 1) / parts; at++)
            sums[i] += x[at];
    }
}
