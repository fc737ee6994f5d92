#include "bench/probe.h"

#include "base/clock.h"
#include "base/memory.h"

#include <math.h>

static const double ENOUGH = 0.03; /* seconds per measurement */

static double run(kvsi_probe *probe, double *flops)
{
    const double started = kvsi_clock_seconds();

    probe->context.ops->multiply_add(&probe->context, probe->sums, KVSI_PROBE_PARTS, probe->rounds,
                                     flops);
    return kvsi_clock_seconds() - started;
}

/* The shortest of a few runs, because other work on the machine slows some of them. */
static double shortest_run(kvsi_probe *probe)
{
    double flops, shortest = INFINITY;

    for (int i = 0; i < 5; i++)
        shortest = fmin(shortest, run(probe, &flops));
    return shortest;
}

/* Doubles the work until a measurement is long enough. */
void kvsi_probe_init(kvsi_probe *probe, const kvsi_ops *ops, int threads)
{
    *probe = (kvsi_probe){.context = {.ops = ops, .threads = threads}, .rounds = 1};
    while (shortest_run(probe) < ENOUGH / 2)
        probe->rounds *= 2;
}

double kvsi_probe_peak(kvsi_probe *probe)
{
    double flops;
    const double seconds = run(probe, &flops);

    return flops / seconds;
}

double kvsi_probe_read(kvsi_probe *probe, const real *x, size_t n)
{
    const double started = kvsi_clock_seconds();

    probe->context.ops->read_through(&probe->context, probe->sums, KVSI_PROBE_PARTS, x, n);
    return (double)n * sizeof *x / (kvsi_clock_seconds() - started);
}

real *kvsi_probe_values(size_t count)
{
    real *x = kvsi_alloc(count, sizeof *x);

    for (size_t i = 0; x && i < count; i++)
        x[i] = (real)(i * 7919 % 2001) / 1000 - 1;
    return x;
}
