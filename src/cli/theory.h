/* cli/theory.h - the subcommands of kvshift theory; argv begins after the subcommand. */
#ifndef KVSI_CLI_THEORY_H
#define KVSI_CLI_THEORY_H

#include "cli/cli.h"
#include "kvshift/kvshift_lab.h"

int kvsi_theory_theorem1(int argc, char **argv, const void *what);
int kvsi_theory_theorem2(int argc, char **argv, const void *what);
int kvsi_theory_theorem3(int argc, char **argv, const void *what);
int kvsi_theory_landscape(int argc, char **argv, const void *what);

#endif
