/* bench/probe.h - measures peak arithmetic and read bandwidth between other measurements. */
#ifndef KVSI_BENCH_PROBE_H
#define KVSI_BENCH_PROBE_H

#include "kernels/backend.h"

/* Many more than threads, so that all threads finish together. */
enum { KVSI_PROBE_PARTS = 2048 };

/* Measures on `threads` threads, for a few hundredths of a second at a time. */
typedef struct kvsi_probe {
    kvsi_context context;
    size_t rounds;
    real sums[KVSI_PROBE_PARTS];
} kvsi_probe;

void kvsi_probe_init(kvsi_probe *probe, const kvsi_ops *ops, int threads);
double kvsi_probe_peak(kvsi_probe *probe); /* floating-point operations per second */
/* Bytes per second of reading x[n], which should be larger than the caches. */
double kvsi_probe_read(kvsi_probe *probe, const real *x, size_t n);

/* `count` values between -1 and 1, newly allocated (kvsi_free); NULL if out of memory. */
real *kvsi_probe_values(size_t count);

#endif
