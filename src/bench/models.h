/* bench/models.h - the models of the benchmarks with their configurations. */
#ifndef KVSI_BENCH_MODELS_H
#define KVSI_BENCH_MODELS_H

#include "config/config.h"
#include "kvshift/kvshift_lab.h"

typedef struct kvsi_bench_model {
    const char *name;
    kvs_model_config config; /* without a shift */
    size_t batch, length;    /* sequences per step, tokens per sequence */
    size_t steps;            /* default number of measured steps */
} kvsi_bench_model;

/* Finds a model by its name. */
kvs_status kvsi_bench_model_get(kvsi_bench_model *out, const char *name, kvs_err *err);

#endif
