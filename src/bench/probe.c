#include "bench/probe.h"

#include "base/clock.h"
#include "base/memory.h"

#include <math.h>

static const double ENOUGH = 0.03; /* seconds per measurement */

/* ---- one unit ---- */

static double run(kvsi_probe *probe)
{
    const double started = kvsi_clock_seconds();

    kvsi_unit_run(probe->unit, probe->threads, probe->sums, KVSI_PROBE_PARTS, probe->rounds);
    return kvsi_clock_seconds() - started;
}

/* The shortest of a few runs, because other work on the machine slows some of them. */
static double shortest_run(kvsi_probe *probe)
{
    double shortest = INFINITY;

    for (int i = 0; i < 5; i++)
        shortest = fmin(shortest, run(probe));
    return shortest;
}

static double rate_of(const kvsi_probe *probe, double seconds)
{
    return probe->unit->operations * (double)probe->rounds * KVSI_PROBE_PARTS / seconds;
}

/* Doubles the work until a measurement is long enough. */
void kvsi_probe_init(kvsi_probe *probe, const kvsi_unit *unit, int threads)
{
    *probe = (kvsi_probe){.unit = unit, .threads = threads, .rounds = 1};
    while (shortest_run(probe) < ENOUGH / 2)
        probe->rounds *= 2;
}

double kvsi_probe_peak(kvsi_probe *probe)
{
    return rate_of(probe, run(probe));
}

/* ---- the peaks of products ---- */

void kvsi_peaks_init(kvsi_peaks *peaks, kvsi_products products, int threads)
{
    const double clearly = 1.05; /* faster than the unit in use: more than measurements vary */
    double best = 0;
    const kvsi_unit *unit;

    *peaks = (kvsi_peaks){.products = products};
    kvsi_probe_init(&peaks->used, products.unit, threads);
    if (products.unit->operands == KVSI_OPERANDS_F32) {
        peaks->f32 = peaks->used;
        best = clearly * rate_of(&peaks->used, shortest_run(&peaks->used));
    }
    for (size_t i = 0; (unit = kvsi_unit_at(i)) != NULL; i++) {
        kvsi_probe probe;
        double rate;

        if (unit == products.unit || unit->operands != KVSI_OPERANDS_F32 || kvsi_unit_lacks(unit))
            continue;
        kvsi_probe_init(&probe, unit, threads);
        rate = rate_of(&probe, shortest_run(&probe));
        if (rate > best) {
            best = rate;
            peaks->f32 = probe;
        }
    }
}

kvs_status kvsi_peaks_measure(kvsi_peaks *peaks, int counts, double *peak, kvs_err *err)
{
    const int same = peaks->f32.unit == peaks->used.unit;
    const double f32 = same ? 0 : kvsi_probe_peak(&peaks->f32);
    const double used = kvsi_probe_peak(&peaks->used);

    if (peak)
        *peak = used / peaks->products.cost;
    if (!counts)
        return KVS_OK;
    TRY(kvsi_samples_add(&peaks->used_rates, used / peaks->products.cost, err));
    return kvsi_samples_add(&peaks->f32_rates, same ? used : f32, err);
}

kvs_bench_peaks kvsi_peaks_get(const kvsi_peaks *peaks)
{
    return (kvs_bench_peaks){
        .unit = peaks->products.name,
        .rate = kvsi_samples_rates(&peaks->used_rates),
        .f32_unit = peaks->f32.unit->name,
        .f32_rate = kvsi_samples_rates(&peaks->f32_rates),
    };
}

void kvsi_peaks_release(kvsi_peaks *peaks)
{
    kvsi_samples_release(&peaks->used_rates);
    kvsi_samples_release(&peaks->f32_rates);
}

/* ---- memory ---- */

double kvsi_probe_read(const kvsi_ops *ops, int threads, const real *x, size_t n)
{
    kvsi_context context = {.ops = ops, .threads = threads};
    real sums[KVSI_PROBE_PARTS];
    const double started = kvsi_clock_seconds();

    ops->read_through(&context, sums, KVSI_PROBE_PARTS, x, n);
    return (double)n * sizeof *x / (kvsi_clock_seconds() - started);
}

real *kvsi_probe_values(size_t count)
{
    real *x = kvsi_alloc(count, sizeof *x);

    for (size_t i = 0; x && i < count; i++)
        x[i] = (real)(i * 7919 % 2001) / 1000 - 1;
    return x;
}
