#include "bench/estimate.h"

#include "base/memory.h"
#include "bench/probe.h"
#include "kernels/runtime.h"
#include "kvshift/kvshift_lab.h"

#include <math.h>

enum { PROBES = 5 };

double kvsi_estimate_peak(const char *cpu_level, int threads, kvsi_precision precision)
{
    const kvsi_products products = kvsi_products_of(cpu_level, precision, KVSI_REAL_TYPE);
    kvsi_probe *probe = kvsi_alloc(1, sizeof *probe);
    double peak = 0;

    if (!probe)
        return NAN;
    kvsi_probe_init(probe, products.unit, threads);
    for (int i = 0; i < PROBES; i++) /* other processes make some lower */
        peak = fmax(peak, kvsi_probe_peak(probe) / products.cost);
    kvsi_free(probe);
    return peak;
}

double kvsi_estimate_seconds(double flops, double steps, size_t dim, double peak)
{
    const double width = (double)dim, share = 0.8 * width / (width + 16), per_step = 0.0005;

    return flops / (share * peak) + per_step * steps;
}

double kvs_train_peak(const kvs_runtime *rt, const kvs_train_config *train)
{
    return rt && train ? kvsi_estimate_peak(kvs_runtime_cpu_level(rt), kvs_runtime_threads(rt),
                                            train->precision)
                       : NAN;
}

double kvs_train_seconds(const kvs_plan *plan, const kvs_model_config *config,
                         const kvs_train_config *train, double steps, double peak)
{
    double flops;

    if (!plan || !config || !train)
        return NAN;
    flops = plan->flops_per_token * plan->tokens_per_step * steps / (double)plan->ranks;
    return kvsi_estimate_seconds(flops * (train->recompute ? 4.0 / 3 : 1), steps, config->dim,
                                 peak);
}
