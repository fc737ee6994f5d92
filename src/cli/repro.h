/* cli/repro.h - the verbs of 'kvshift repro' that do not run an experiment. */
#ifndef KVSI_CLI_REPRO_H
#define KVSI_CLI_REPRO_H

#include "cli/cli.h"

extern const kvsi_command kvsi_repro_list, kvsi_repro_report;

#endif
