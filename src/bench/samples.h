/* bench/samples.h - measurements of many rounds: the best and the median. */
#ifndef KVSI_BENCH_SAMPLES_H
#define KVSI_BENCH_SAMPLES_H

#include "base/status.h"
#include "kvshift/kvshift_lab.h"

/* Starts as {0}. */
typedef struct kvsi_samples {
    double *values; /* ascending */
    size_t count, capacity;
} kvsi_samples;

kvs_status kvsi_samples_add(kvsi_samples *samples, double value, kvs_err *err);
/* best = smallest; NaN if there are none */
kvs_spread kvsi_samples_times(const kvsi_samples *samples);
kvs_spread kvsi_samples_rates(const kvsi_samples *samples); /* best = largest */
void kvsi_samples_release(kvsi_samples *samples);

#endif
