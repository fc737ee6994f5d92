/* bench/estimate.h - how long a training will take on this machine. */
#ifndef KVSI_BENCH_ESTIMATE_H
#define KVSI_BENCH_ESTIMATE_H

#include "config/config.h"

/* Measures the operations per second of the matrix products of a CPU level, in about a tenth of a
 * second; NaN if memory runs out. */
double kvsi_estimate_peak(const char *cpu_level, int threads, kvsi_precision precision);
/* Training reaches a share of the peak, less for narrow models, which fill vectors and caches only
 * partly, and each step has a fixed cost.  Both were measured on two cores. */
double kvsi_estimate_seconds(double flops, double steps, size_t dim, double peak);

#endif
