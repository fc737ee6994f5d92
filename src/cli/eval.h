/* cli/eval.h - the verbs of 'kvshift eval' that read stored results. */
#ifndef KVSI_CLI_EVAL_H
#define KVSI_CLI_EVAL_H

#include "cli/cli.h"

extern const kvsi_command kvsi_eval_compare, kvsi_eval_show, kvsi_eval_table;

#endif
