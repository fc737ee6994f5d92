/* Measuring the memory: reading without other work. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vector.h"
#include "parallel/threads.h"

static float sum_of(const float *x, size_t n)
{
    enum { LOADS = 8 };
    vec sums[LOADS] = {{0}};
    float rest = 0;
    size_t i = 0;

    for (; i + LOADS * VEC <= n; i += LOADS * VEC)
        for (size_t j = 0; j < LOADS; j++)
            sums[j] += vec_load(x + i + j * VEC);
    for (; i < n; i++)
        rest += x[i];
    for (size_t j = 1; j < LOADS; j++)
        sums[0] += sums[j];
    return vec_sum(sums[0]) + rest;
}

void LEVEL(read_through)(kvsi_context *c, float *sums, size_t parts, const float *x, size_t n)
{
    KVSI_PARALLEL_PIECES(c->threads, i, parts) {
        const size_t from = n * i / parts, to = n * (i + 1) / parts;

        sums[i] = sum_of(x + from, to - from);
    }
}
