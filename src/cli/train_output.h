/* cli/train_output.h - what 'kvshift train' prints on standard output: the plan of --dry-run, the
 * sequences of --show, and the result of a run with its profile. */
#ifndef KVSI_CLI_TRAIN_OUTPUT_H
#define KVSI_CLI_TRAIN_OUTPUT_H

#include "base/json.h"
#include "cli/train_setup.h"
#include "kvshift/kvshift_files.h"

/* Prints the memory and the work that the run would need.  Collective; rank 0 prints. */
/* Operations of that many steps of a plan, and about how long they take on this machine. */
double kvsi_train_flops(const kvs_plan *plan, double steps);
double kvsi_train_seconds(const kvs_plan *plan, const kvsi_train_setup *w,
                          const kvsi_train_options *s, double steps);
kvs_status kvsi_train_print_plan(const kvsi_train_setup *setup, const kvsi_train_options *s,
                                 kvs_err *err);

/* Prints the first sequences that the seed trains on, as many as --show asks for: as text if there
 * is a tokenizer, otherwise as the words of the task. */
kvs_status kvsi_train_print_sequences(const kvsi_train_setup *setup, const kvsi_train_options *s,
                                      kvs_err *err);

/* Sums over steps, for --profile.  The first two steps are left out: they warm up. */
typedef struct kvsi_train_profile {
    uint64_t steps;
    double seconds, sending, waiting;
    double planned; /* bytes of memory */
} kvsi_train_profile;

void kvsi_train_profile_add(kvsi_train_profile *profile, const kvs_step_record *record);

/* Prints the result, as text or as JSON; the profile only if the options ask for it. */
kvs_status kvsi_train_print_result(const kvsi_train_setup *setup, const kvsi_train_options *s,
                                   const kvs_train_result *result,
                                   const kvsi_train_profile *profile, kvs_err *err);

#endif
