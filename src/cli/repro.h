/* cli/repro.h - the commands of 'kvshift repro' that do no experiment. */
#ifndef KVSI_CLI_REPRO_H
#define KVSI_CLI_REPRO_H

/* Get the words after 'repro list' and 'repro report'; return the exit code. */
int kvsi_repro_list(int argc, char **argv);
int kvsi_repro_report(int argc, char **argv);

#endif
