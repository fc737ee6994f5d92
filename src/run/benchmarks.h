/* run/benchmarks.h - benchmarks.jsonl: one line per evaluation on benchmarks during training. */
#ifndef KVSI_RUN_BENCHMARKS_H
#define KVSI_RUN_BENCHMARKS_H

#include "base/json.h"
#include "run/run.h"

/* One score of one step, as it was read. */
typedef struct kvsi_benchmark {
    uint64_t step;
    char *task, *metric;
    double value, error; /* NaN = not a number, none */
    size_t documents;
} kvsi_benchmark;

/* A line; a new reference.  Out of memory is found by the next kvsi_json_check. */
json_t *kvsi_benchmarks_to_json(uint64_t step, const kvs_benchmark_scores *scores);
/* Reads the file of a run, in the order of the steps; without a file *count is 0.  Ends at a line
 * that is still being written. */
kvs_status kvsi_benchmarks_read(kvsi_benchmark **out, size_t *count, const char *dir, kvs_err *err);
void kvsi_benchmarks_free(kvsi_benchmark *scores, size_t count); /* NULL does nothing */

#endif
