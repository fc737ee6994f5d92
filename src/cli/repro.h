/* cli/repro.h - the subcommands of 'kvshift repro' that do not run an experiment. */
#ifndef KVSI_CLI_REPRO_H
#define KVSI_CLI_REPRO_H

/* argv begins after 'repro list' and 'repro report'.  Return the exit code. */
int kvsi_repro_list(int argc, char **argv);
int kvsi_repro_report(int argc, char **argv);

#endif
