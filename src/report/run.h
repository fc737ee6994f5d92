/* report/run.h - a run as reports need it, from its log and, once it has ended, result.json. */
#ifndef KVSI_REPORT_RUN_H
#define KVSI_REPORT_RUN_H

#include "base/json.h"
#include "kvshift/kvshift.h"
#include "kvshift/kvshift_lab.h"
#include "report/run_extras.h"
#include "run/benchmarks.h"

typedef struct kvsi_run_point {
    uint64_t step, tokens;         /* tokens: sum up to and including this step */
    double loss, accuracy;         /* of the batch; NaN = none */
    double lr, grad_norm, seconds; /* seconds: of all steps so far */
    kvs_shift_mean k, v;           /* NaN on most steps */
} kvsi_run_point;

typedef struct kvsi_run_evaluation {
    uint64_t step;
    double loss; /* finite */
} kvsi_run_evaluation;

typedef struct kvsi_run {
    kvs_run_summary summary;
    int is_text;      /* trained on text, not on a task */
    json_t *settings; /* see report/settings.h */
    char *command;    /* command line; "" if not recorded */
    char version[32]; /* of the program that made the run */
    char cpu_level[32];
    size_t threads;
    kvsi_run_point *points; /* one per logged step, in order; at least one */
    size_t point_count;
    kvsi_run_evaluation *evaluations; /* in order; the last is the final one if the run ended */
    size_t evaluation_count;
    char *dir;
    kvsi_run_extras extras;     /* empty until it is read */
    kvsi_benchmark *benchmarks; /* scores during training, in the order of the steps */
    size_t benchmark_count;
} kvsi_run;

kvs_status kvsi_run_open(kvsi_run *run, const char *dir, kvs_err *err);
void kvsi_run_close(kvsi_run *run); /* a zeroed one is fine */

/* All planned steps are done and the final loss is a number. */
int kvsi_run_is_complete(const kvsi_run *run);
/* Loss of the evaluation after `step`; NaN if there was none. */
double kvsi_run_loss_at(const kvsi_run *run, uint64_t step);
/* Mean accuracy of the 20 batches up to point `last`; NaN if none was scored. */
double kvsi_run_recent_accuracy(const kvsi_run *run, size_t last);

#endif
