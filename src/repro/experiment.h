/* repro/experiment.h - an experiment of the paper is a row of the table in experiments.c:
 *
 *     about      its name, the paper's figure, the claim, what is scaled at each scale
 *     plan       makes the list of runs (arms x settings x seeds); NULL = nothing is trained
 *     measure    looks at each finished model; what it says is kept beside the run and comes back
 *                in kvsi_trial_run.measured; NULL = nothing but the log is needed
 *     conclude   turns the finished runs (or, without a plan, a computation of its own) into
 *                claims, figures and tables
 *
 * Everything else is shared: folders, resuming, text, statistics, charts, pages. */
#ifndef KVSI_REPRO_EXPERIMENT_H
#define KVSI_REPRO_EXPERIMENT_H

#include "repro/findings.h"
#include "repro/plan.h"
#include "repro/trial.h"

typedef struct kvsi_experiment {
    kvs_experiment about;
    kvs_status (*plan)(kvsi_plan *plan, kvs_err *err);
    kvs_status (*measure)(json_t **out, const kvsi_planned *run, const kvs_model *model,
                          kvs_err *err);
    kvs_status (*conclude)(kvsi_findings *findings, const kvsi_trial *trial, kvs_err *err);
} kvsi_experiment;

/* One file each. */
extern const kvsi_experiment kvsi_repro_induction_depth;

kvs_status kvsi_experiment_find(const kvsi_experiment **out, const char *name, kvs_err *err);

#endif
