/* repro/results.h - the finished runs of an experiment, and metrics of them. */
#ifndef KVSI_REPRO_RESULTS_H
#define KVSI_REPRO_RESULTS_H

#include "base/statistics.h"
#include "report/run.h"
#include "repro/plan.h"

typedef struct kvsi_run_result {
    const kvsi_planned *plan;
    char *dir;
    kvsi_run log; /* without points if the run diverged in its first step */
    int diverged;
    json_t *measured; /* result of the experiment's `measure`; NULL = none */
} kvsi_run_result;

typedef struct kvsi_results {
    const kvsi_plan *plan;
    const kvs_repro_options *options;
    kvs_runtime *rt;
    kvsi_run_result *runs; /* in the order of the plan; the seeds of an arm are adjacent */
    size_t count;
} kvsi_results;

kvs_status kvsi_results_open(kvsi_results *results, kvs_err *err);
void kvsi_results_close(kvsi_results *results);

/* The runs of one arm: one per seed. */
typedef struct kvsi_arm_result {
    const char *name;
    const kvsi_run_result *runs;
    size_t count;
} kvsi_arm_result;

/* Arm 0, 1, ... in the order of the plan; count = 0 past the end. */
kvsi_arm_result kvsi_results_arm(const kvsi_results *results, size_t index);

/* A number computed from a run; NaN = none. */
typedef double kvsi_metric(const kvsi_run_result *run);

kvsi_metric kvsi_final_accuracy; /* of the finished model, in percent */
kvsi_metric kvsi_final_loss;
kvsi_metric kvsi_step_at_99; /* first step with 99 % accuracy; infinite = never */

enum { KVSI_SEEDS_MAX = 64 };

/* The metric of each run of an arm; returns how many there are. */
size_t kvsi_arm_values(double out[KVSI_SEEDS_MAX], const kvsi_arm_result *arm, kvsi_metric *read);
/* The same without values that are not finite. */
size_t kvsi_arm_finite_values(double out[KVSI_SEEDS_MAX], const kvsi_arm_result *arm,
                              kvsi_metric *read);
kvsi_estimate kvsi_arm_estimate(const kvsi_arm_result *arm, kvsi_metric *read);

/* A metric of two arms, compared seed by seed. */
typedef struct kvsi_comparison {
    kvsi_paired_test test;
    double ours, theirs; /* means */
} kvsi_comparison;

/* Arms are numbered as in kvsi_results_arm. */
kvsi_comparison kvsi_compare(const kvsi_results *results, size_t arm, size_t reference,
                             kvsi_metric *metric);

#endif
