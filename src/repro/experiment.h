/* repro/experiment.h - an experiment of the paper is a row of the table in experiments.c:
 *
 *     about      name, the paper's figure, its claim, and what is scaled at each scale
 *     text       arms and claims of language models that differ only in their shift
 *                (repro/text_arms.h); a function below that is set comes first
 *     plan       lists the runs (arms x settings x seeds); NULL = nothing is trained
 *     measure    evaluates each finished model; its result is stored with the run and returned in
 *                kvsi_run_result.measured; NULL = the log is enough
 *     conclude   turns the finished runs (or, without a plan, its own computation) into claims,
 *                charts and tables
 *
 * The engine does the rest: folders, resuming, text, pages. */
#ifndef KVSI_REPRO_EXPERIMENT_H
#define KVSI_REPRO_EXPERIMENT_H

#include "repro/claims.h"
#include "repro/plan.h"
#include "repro/results.h"

typedef struct kvsi_text_comparison kvsi_text_comparison;

/* A finished run: its folder and its model. */
typedef struct kvsi_finished {
    const kvsi_planned *plan;
    const char *dir;
    const kvs_model *model;
    kvs_runtime *rt;
} kvsi_finished;

typedef struct kvsi_experiment {
    kvs_experiment about;
    const kvsi_text_comparison *text;
    kvs_status (*plan)(kvsi_plan *plan, kvs_err *err);
    kvs_status (*measure)(json_t **out, const kvsi_finished *run, kvs_err *err);
    kvs_status (*conclude)(kvsi_claims *claims, const kvsi_results *results, kvs_err *err);
} kvsi_experiment;

/* One file each. */
extern const kvsi_experiment kvsi_repro_induction_depth, kvsi_repro_induction_width,
    kvsi_repro_ngram, kvsi_repro_lm_loss, kvsi_repro_seeds, kvsi_repro_learning_rates,
    kvsi_repro_scaling_law, kvsi_repro_coefficients, kvsi_repro_variants, kvsi_repro_ablations,
    kvsi_repro_windows, kvsi_repro_qkv, kvsi_repro_theorem1, kvsi_repro_theorem2,
    kvsi_repro_theorem3, kvsi_repro_landscape, kvsi_repro_hop_k, kvsi_repro_igsm;

kvs_status kvsi_experiment_find(const kvsi_experiment **out, const char *name, kvs_err *err);

/* The experiment's own functions, or those for its text arms. */
kvs_status kvsi_experiment_plan(kvsi_plan *plan, const kvsi_experiment *experiment, kvs_err *err);
kvs_status kvsi_experiment_conclude(kvsi_claims *claims, const kvsi_results *results,
                                    const kvsi_experiment *experiment, kvs_err *err);

#endif
