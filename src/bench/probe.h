/* bench/probe.h - measures peak arithmetic and read bandwidth between other measurements. */
#ifndef KVSI_BENCH_PROBE_H
#define KVSI_BENCH_PROBE_H

#include "bench/samples.h"
#include "kernels/backend.h"
#include "kernels/units.h"

/* Many more than threads, so that all threads finish together. */
enum { KVSI_PROBE_PARTS = 2048 };

/* Measures a unit on `threads` threads, for a few hundredths of a second at a time. */
typedef struct kvsi_probe {
    const kvsi_unit *unit;
    int threads;
    size_t rounds;
    double sums[KVSI_PROBE_PARTS];
} kvsi_probe;

/* The processor must have the unit. */
void kvsi_probe_init(kvsi_probe *probe, const kvsi_unit *unit, int threads);
double kvsi_probe_peak(kvsi_probe *probe); /* operations per second */

/* The peaks that products are compared with: that of the unit that computes them, and the best of
 * the units that multiply float32. */
typedef struct kvsi_peaks {
    kvsi_products products;
    kvsi_probe used, f32; /* the second is measured if its unit is another one */
    kvsi_samples used_rates, f32_rates;
} kvsi_peaks;

void kvsi_peaks_init(kvsi_peaks *peaks, kvsi_products products, int threads);
/* Returns the peak of the products, which is added to the samples if it `counts`. */
kvs_status kvsi_peaks_measure(kvsi_peaks *peaks, int counts, double *peak, kvs_err *err);
kvs_bench_peaks kvsi_peaks_get(const kvsi_peaks *peaks);
void kvsi_peaks_release(kvsi_peaks *peaks);

/* Bytes per second of reading x[n], which should be larger than the caches. */
double kvsi_probe_read(const kvsi_ops *ops, int threads, const real *x, size_t n);

/* `count` values between -1 and 1, newly allocated (kvsi_free); NULL if out of memory. */
real *kvsi_probe_values(size_t count);

#endif
