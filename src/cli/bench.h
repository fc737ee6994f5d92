/* cli/bench.h - shared by the verbs of kvshift bench. */
#ifndef KVSI_CLI_BENCH_H
#define KVSI_CLI_BENCH_H

#include "cli/cli.h"
#include "kvshift/kvshift_lab.h"

typedef struct kvsi_bench_run {
    size_t threads;
    const char *cpu_level;
    int json;
    int exact;             /* this and the next: of bench infer */
    const char *precision; /* NULL = f32 */
} kvsi_bench_run;

/* The rows of those options, for a verb whose settings have a kvsi_bench_run `run`. */
/* clang-format off */
#define KVSI_BENCH_ROWS(settings)                                                                  \
    {.name = "threads", .kind = KVSI_SETTING_SIZE, .offset = offsetof(settings, run.threads),      \
     .group = "Run", .placeholder = "N", .help = "number of threads",                              \
     .automatic = "every core", .high = 1024},                                                     \
    {.name = "cpu-level", .kind = KVSI_SETTING_TEXT, .offset = offsetof(settings, run.cpu_level),  \
     .group = "Run", .placeholder = "NAME", .help = "CPU level of the kernels",                    \
     .automatic = "auto"},                                                                         \
    {.name = "json", .kind = KVSI_SETTING_FLAG, .offset = offsetof(settings, run.json),            \
     .group = "Run", .help = "print one JSON object"}
/* clang-format on */

kvs_status kvsi_bench_runtime(kvs_runtime **out, const kvsi_bench_run *run, kvs_err *err);
/* The fields of every result (build, CPU level, threads), followed by those of `rest`, which is
 * released; NULL if memory ran out. */
json_t *kvsi_bench_json(const char *bench, const kvs_runtime *rt, json_t *rest);
void kvsi_bench_print_runtime(const kvs_runtime *rt);

/* Adds the units, their peaks, and the fractions of them that `rate` is. */
void kvsi_bench_add_peaks(json_t *value, const kvs_bench_peaks *peaks, double rate);
/* Ends a line with the fractions: "62.0 % of the peak of fma-256 (230.1 GFLOP/s)" ... */
void kvsi_bench_print_fractions(const kvs_bench_peaks *peaks, double rate);

/* Decimal units: 1e9 and 1e6, not powers of two. */
double kvsi_bench_giga(double x);
double kvsi_bench_mega(double x);

extern const kvsi_command kvsi_bench_machine, kvsi_bench_train, kvsi_bench_attention,
    kvsi_bench_infer, kvsi_bench_compare;

#endif
