/* cli/theory.h - the verbs of kvshift theory. */
#ifndef KVSI_CLI_THEORY_H
#define KVSI_CLI_THEORY_H

#include "cli/cli.h"
#include "kvshift/kvshift_lab.h"

extern const kvsi_command kvsi_theory_theorem1, kvsi_theory_theorem2, kvsi_theory_theorem3,
    kvsi_theory_landscape;

#endif
