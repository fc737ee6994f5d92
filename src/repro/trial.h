/* repro/trial.h - an experiment's runs once they are done, and numbers read from them. */
#ifndef KVSI_REPRO_TRIAL_H
#define KVSI_REPRO_TRIAL_H

#include "base/statistics.h"
#include "report/run.h"
#include "repro/plan.h"

typedef struct kvsi_trial_run {
    const kvsi_planned *plan;
    char *dir;
    kvsi_run log; /* of a run that diverged at once: no points */
    int diverged;
    json_t *measured; /* what the experiment's own `measure` found; NULL = it has none */
} kvsi_trial_run;

typedef struct kvsi_trial {
    const kvsi_plan *plan;
    const kvs_repro_options *options;
    kvs_runtime *rt;
    kvsi_trial_run *runs; /* in the order of the plan; seeds of an arm are neighbours */
    size_t count;
} kvsi_trial;

kvs_status kvsi_trial_open(kvsi_trial *trial, kvs_err *err);
void kvsi_trial_close(kvsi_trial *trial);

/* The runs of one arm (and, where several are varied, one setting) are neighbours in the plan. */
typedef struct kvsi_trial_arm {
    const char *name;
    const kvsi_trial_run *runs;
    size_t count;
} kvsi_trial_arm;

/* Arm 0, 1, ... in the order of the plan; count = 0 past the end. */
kvsi_trial_arm kvsi_trial_arm_at(const kvsi_trial *trial, size_t index);

/* One number of a run; NaN if it has none. */
typedef double kvsi_reading(const kvsi_trial_run *run);

kvsi_reading kvsi_final_accuracy; /* of the finished model, in percent */
kvsi_reading kvsi_final_loss;
kvsi_reading kvsi_step_at_99; /* first step with 99 % accuracy; infinite = never */

enum { KVSI_SEEDS_MAX = 64 };

/* Readings of an arm's runs; returns how many. */
size_t kvsi_read_arm(double out[KVSI_SEEDS_MAX], const kvsi_trial_arm *arm, kvsi_reading *read);
/* Those that are finite numbers. */
size_t kvsi_read_finite(double out[KVSI_SEEDS_MAX], const kvsi_trial_arm *arm, kvsi_reading *read);
kvsi_estimate kvsi_estimate_arm(const kvsi_trial_arm *arm, kvsi_reading *read);

#endif
