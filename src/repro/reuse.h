/* repro/reuse.h - copies runs that another experiment has finished.  Several experiments compare
 * with the same vanilla model, and a run is determined by its plan. */
#ifndef KVSI_REPRO_REUSE_H
#define KVSI_REPRO_REUSE_H

#include "repro/plan.h"

/* Searches the experiments in options->reuse for a finished run with the same plan, text and
 * evaluations, and copies it to `dir`.  *taken: one was found.  Unreadable runs are skipped. */
kvs_status kvsi_reuse(int *taken, const char *dir, const char *planned, const kvsi_planned *run,
                      size_t eval_sequences, const kvs_repro_options *options, kvs_err *err);

#endif
