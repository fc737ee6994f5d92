/* cli/train_benchmarks.h - the model's scores on benchmarks during training.
 *
 * Scores need an exact runtime (docs/running.md), which training has not, so the weights are copied
 * into a second model. */
#ifndef KVSI_CLI_TRAIN_BENCHMARKS_H
#define KVSI_CLI_TRAIN_BENCHMARKS_H

#include "cli/train_setup.h"
#include "kvshift/kvshift_files.h"

/* One item of --eval-tasks. */
typedef struct kvsi_train_benchmark {
    char *name;
    size_t documents; /* at most; 0 = all */
} kvsi_train_benchmark;

typedef struct kvsi_train_benchmarks {
    const kvs_tokenizer *tokenizer; /* borrowed */
    const char *data;               /* borrowed */
    kvs_runtime *rt;
    kvs_model *model; /* NULL on ranks that score nothing */
    float *values;    /* of the largest tensor */
    kvsi_train_benchmark *items;
    size_t count;
    kvs_benchmark_score *scores; /* of the last evaluation */
    char **names;                /* [score_count]: task and metric, with a NUL after each */
    size_t score_count;
} kvsi_train_benchmarks;

/* Reads the tasks and makes the second model if --eval-tasks-every is given.  Fails if the tasks or
 * their files are wrong, or the run cannot be scored. */
kvs_status kvsi_train_benchmarks_init(kvsi_train_benchmarks *benchmarks, const kvsi_train_setup *w,
                                      const kvsi_train_options *s, kvs_err *err);
void kvsi_train_benchmarks_release(kvsi_train_benchmarks *benchmarks);

/* Scores the model; *out is borrowed until the next call. */
kvs_status kvsi_train_benchmarks_score(kvsi_train_benchmarks *benchmarks, const kvs_model *model,
                                       kvs_benchmark_scores *out, kvs_err *err);
void kvsi_train_benchmarks_print(uint64_t step, const kvs_benchmark_scores *scores);

#endif
