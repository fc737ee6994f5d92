/* Measuring the machine at this level: arithmetic without memory, memory without arithmetic. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vector.h"
#include "parallel/threads.h"

/* Enough to hide the latency of two multiply-adds per cycle, few enough for 16 registers. */
enum { CHAINS = 12 };

static float burn(float start, size_t rounds)
{
    const vec factor = vec_all(0.999f), term = vec_all(1e-3f); /* stays between 0 and 1 */
    vec chains[CHAINS], sum = {0};

    for (int i = 0; i < CHAINS; i++)
        chains[i] = vec_all(start + (float)i / CHAINS);
    for (size_t round = 0; round < rounds; round++)
        for (int i = 0; i < CHAINS; i++)
            chains[i] = chains[i] * factor + term;
    for (int i = 0; i < CHAINS; i++)
        sum += chains[i];
    return vec_sum(sum);
}

void LEVEL(multiply_add)(kvsi_context *c, float *sums, size_t parts, size_t rounds, double *flops)
{
    KVSI_PARALLEL_PIECES(c->threads, i, parts) {
        sums[i] = burn((float)i / (float)parts, rounds);
    }
    *flops = 2.0 * VEC * CHAINS * (double)rounds * (double)parts;
}

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
