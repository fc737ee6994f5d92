/* repro/plan.h - the runs that an experiment wants: arms, and each of them for several seeds.
 *
 *     kvsi_planned run = {.task = kvsi_induction_task};
 *     kvs_model_config_init(&run.model); ...
 *     snprintf(run.arm, sizeof run.arm, "KV shifting, 1 layer");
 *     TRY_OUT(kvsi_plan_add(plan, &run, err));          one run for each seed
 *
 * Runs of one seed share the order of their data and all weights that are not the attention's own,
 * because those are functions of the seed and of names. */
#ifndef KVSI_REPRO_PLAN_H
#define KVSI_REPRO_PLAN_H

#include "kvshift/kvshift_lab.h"

typedef struct kvsi_planned kvsi_planned;

/* Makes what a run learns.  `corpus` is the experiment's text; NULL = it has none. */
typedef kvs_status kvsi_task_maker(kvs_task **out, const kvsi_planned *run,
                                   const kvs_corpus *corpus, kvs_err *err);

struct kvsi_planned {
    char arm[64];  /* shared by its seeds; labels in figures */
    char name[96]; /* of the run's folder; kvsi_plan_add makes it from arm and seed */
    size_t
        setting; /* number and value of what is varied beside the arm (size, rate), if anything */
    double value;
    uint64_t seed;
    kvs_model_config model; /* vocab and context may be 0: as the task needs */
    kvs_train_config train; /* the seed is set by kvsi_plan_add */
    kvsi_task_maker *task;
    union {
        kvs_induction_config induction;
        kvs_ngram_config ngram;
        kvs_hopk_config hopk;
        kvs_igsm_config igsm;
    } settings; /* of the task */
    uint64_t eval_every;
    size_t eval_sequences; /* of text: at most so many windows */
    int keeps_checkpoints; /* all of them, to look back at */
    kvs_planned_run view;  /* what it takes */
    size_t rank;           /* that does it */
};

typedef struct kvsi_plan {
    kvs_scale scale;
    size_t seeds;      /* of each arm */
    size_t text_vocab; /* the text's tokenizer has so many tokens; 0 = bytes */
    const char *model; /* a trained one is given, which some experiments need no others for */
    kvsi_planned *runs;
    size_t count, capacity;
} kvsi_plan;

/* One run for each seed 1, 2, ... */
kvs_status kvsi_plan_add(kvsi_plan *plan, const kvsi_planned *run, kvs_err *err);
/* Fills in what each run takes, once all are there. */
kvs_status kvsi_plan_measure(kvsi_plan *plan, const kvs_runtime *rt, kvs_err *err);
/* Gives each run that is to be done to one of so many ranks, so that all have about as much to do;
 * the share of the rank that has most, 0 to 1. */
double kvsi_plan_share(kvsi_plan *plan, size_t ranks);
void kvsi_plan_release(kvsi_plan *plan);

/* The model that a run trains: with the vocabulary and context that its task needs, finished. */
kvs_status kvsi_planned_model(kvs_model_config *out, const kvsi_planned *run, const kvs_task *task,
                              kvs_err *err);

/* Tasks.  The table of pairs of ngram is another one for every seed. */
kvsi_task_maker kvsi_induction_task, kvsi_ngram_task, kvsi_hopk_task, kvsi_igsm_task,
    kvsi_text_task;

#endif
