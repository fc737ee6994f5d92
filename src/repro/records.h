/* repro/records.h - compact records of finished runs, which are small enough to be committed:
 *
 *     DIR/EXPERIMENT-SCALE/plan.json       as in the experiment's folder
 *     DIR/EXPERIMENT-SCALE/runs/NAME/      planned.json, train.jsonl, result.json, and measured.json
 *                                          or diverged.json: a run folder without its model
 *
 * They are read like any folder of experiments (repro/reuse.h), and results computed from them are
 * the same to the byte.  So that this holds although logs are thinned, results of language models
 * are always computed from the thinned log:
 *
 *     of N steps each block of ceil(N / 200) becomes one point, the mean loss to 7 digits.
 *
 * Logs of tasks keep every step, of which the steps to an accuracy are computed. */
#ifndef KVSI_REPRO_RECORDS_H
#define KVSI_REPRO_RECORDS_H

#include "report/run.h"
#include "repro/plan.h"

/* Written for runs that were taken over from elsewhere. */
#define KVSI_TAKEN "taken.json"

/* Thins the log of a language model of `steps` steps; thinning it again changes nothing. */
void kvsi_run_thin(kvsi_run *run, uint64_t steps);

/* Writes the record of the finished run in `dir` below options->records; not of a run that was taken
 * over, unless it was measured since. */
kvs_status kvsi_record_run(const char *dir, const kvsi_planned *run, const char *experiment,
                           const kvs_repro_options *options, kvs_err *err);

#endif
