/* repro/plan.h - the planned runs of an experiment: each arm with several seeds.
 *
 *     kvsi_planned run = {.task = kvsi_induction_task};
 *     kvsi_model_config_init(&run.model); ...
 *     snprintf(run.arm, sizeof run.arm, "KV shifting, 1 layer");
 *     TRY_OUT(kvsi_plan_add(plan, &run, err));          one run per seed
 *
 * Runs of one seed share the order of their data and the initial values of all tensors they have in
 * common, because both are functions of the seed and of tensor names. */
#ifndef KVSI_REPRO_PLAN_H
#define KVSI_REPRO_PLAN_H

#include "config/config.h"
#include "kvshift/kvshift_lab.h"

typedef struct kvsi_planned kvsi_planned;

/* Creates the task of a run.  `corpus` is the experiment's text; NULL = none. */
typedef kvs_status kvsi_task_maker(kvs_data **out, const kvsi_planned *run,
                                   const kvs_corpus *corpus, kvs_err *err);

struct kvsi_planned {
    char arm[64];  /* label in charts; the same for all seeds */
    char name[96]; /* of the run folder; set by kvsi_plan_add from arm and seed */
    double value;  /* of what is varied besides the arm, such as width or rate, if anything */
    uint64_t seed;
    kvs_model_config model; /* vocab and context 0 = from the task */
    kvs_train_config train; /* seed: set by kvsi_plan_add */
    kvsi_task_maker *task;
    union {
        kvsi_induction_config induction;
        kvsi_ngram_config ngram;
        kvsi_hopk_config hopk;
        kvsi_igsm_config igsm;
    } settings; /* of `task` */
    uint64_t eval_every;
    size_t eval_sequences; /* for text an upper limit on windows */
    int keeps_checkpoints; /* all, for `measure` */
    kvs_planned_run view;  /* size and cost */
    size_t rank;           /* that trains it */
};

typedef struct kvsi_plan {
    kvs_scale scale;
    size_t seeds;      /* per arm */
    size_t text_vocab; /* tokens of the tokenizer to train; 0 = bytes */
    const char *model; /* a trained model to measure instead of training; NULL = none */
    kvsi_planned *runs;
    size_t count, capacity;
} kvsi_plan;

/* Adds one run for each seed 1, 2, ... */
kvs_status kvsi_plan_add(kvsi_plan *plan, const kvsi_planned *run, kvs_err *err);
/* Computes size and cost of all runs. */
kvs_status kvsi_plan_measure(kvsi_plan *plan, const kvs_runtime *rt, kvs_err *err);
/* Assigns each unfinished run to a rank so that work is balanced.  Returns the largest share of the
 * work that a rank has, 0 to 1. */
double kvsi_plan_share(kvsi_plan *plan, size_t ranks);
void kvsi_plan_release(kvsi_plan *plan);

/* The model that a run trains, with vocabulary and context from its task, finished. */
kvs_status kvsi_planned_model(kvs_model_config *out, const kvsi_planned *run, const kvs_data *task,
                              kvs_err *err);

/* The tasks.  ngram has a different table of pairs for each seed. */
kvsi_task_maker kvsi_induction_task, kvsi_ngram_task, kvsi_hopk_task, kvsi_igsm_task,
    kvsi_text_task;

#endif
