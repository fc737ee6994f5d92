/* repro/reuse.h - runs that another experiment has made already: several compare with the same
 * ordinary model, and a run is a function of what was planned. */
#ifndef KVSI_REPRO_REUSE_H
#define KVSI_REPRO_REUSE_H

#include "repro/plan.h"

/* Looks among the experiments below options->reuse for a finished run with the same plan, text and
 * evaluations, and copies its files to `dir`, those that end it last.  *taken: there was one.  What
 * cannot be read there is passed over. */
kvs_status kvsi_reuse(int *taken, const char *dir, const char *planned, const kvsi_planned *run,
                      size_t eval_sequences, const kvs_repro_options *options, kvs_err *err);

#endif
