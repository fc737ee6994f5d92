/* cli/train_plan.h - what a run would take: the answer to --dry-run. */
#ifndef KVSI_CLI_TRAIN_PLAN_H
#define KVSI_CLI_TRAIN_PLAN_H

#include "cli/train_setup.h"

/* Of several ranks all ask, and the first prints. */
kvs_status kvsi_train_plan_print(const kvsi_train_setup *w, const kvsi_train_options *s,
                                 kvs_err *err);

#endif
