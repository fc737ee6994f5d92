/* cli/train_output.h - how a run ended, on standard output: for people, or as JSON. */
#ifndef KVSI_CLI_TRAIN_OUTPUT_H
#define KVSI_CLI_TRAIN_OUTPUT_H

#include "cli/train_profile.h"
#include "cli/train_setup.h"

typedef struct kvsi_train_outcome {
    const kvsi_train_setup *w;
    const kvsi_train_options *s;
    const kvs_train_result *result;
    const kvsi_train_profile *profile; /* shown if the settings ask for it */
} kvsi_train_outcome;

kvs_status kvsi_train_result_print(const kvsi_train_outcome *outcome, kvs_err *err);

#endif
