/* bench/probe.h - the limits of machine and process, measured in passing. */
#ifndef KVSI_BENCH_PROBE_H
#define KVSI_BENCH_PROBE_H

#include "kernels/backend.h"

/* Many more than threads, so that they end together. */
enum { KVSI_PROBE_PARTS = 2048 };

/* Measures on `threads` threads, for a few hundredths of a second at a time. */
typedef struct kvsi_probe {
    kvsi_context context;
    size_t rounds;
    real sums[KVSI_PROBE_PARTS];
} kvsi_probe;

void kvsi_probe_init(kvsi_probe *probe, const kvsi_ops *ops, int threads);
double kvsi_probe_peak(kvsi_probe *probe); /* floating-point operations a second */
/* Bytes a second of reading x[n], which must be larger than the caches to mean anything. */
double kvsi_probe_read(kvsi_probe *probe, const real *x, size_t n);

/* Numbers between -1 and 1 to work on, in fresh host memory (kvsi_free); NULL if there is none. */
real *kvsi_probe_values(size_t count);

#endif
