/* repro/reuse.h - copies runs that another experiment has finished, or their records
 * (repro/records.h).  Several experiments compare with the same vanilla model, and a run is determined
 * by its plan and the CPU level. */
#ifndef KVSI_REPRO_REUSE_H
#define KVSI_REPRO_REUSE_H

#include "repro/experiment.h"

/* The wanted run. */
typedef struct kvsi_wanted {
    const kvsi_experiment *experiment;
    const kvs_repro_options *options;
    const char *planned; /* text of planned.json */
    const kvsi_planned *run;
    size_t eval_sequences;
    const char *cpu_level;
} kvsi_wanted;

/* Searches the experiments in options->reuse and options->records for a finished run with the same
 * plan, text, evaluations and CPU level, and copies it to `dir`.  What an experiment measures is
 * copied with runs of that experiment; a run without a model is of no use to others that measure.
 * *taken: one was found.  Unreadable runs are skipped. */
kvs_status kvsi_reuse(int *taken, const char *dir, const kvsi_wanted *wanted, kvs_err *err);

#endif
