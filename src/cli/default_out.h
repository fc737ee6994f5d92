/* cli/default_out.h - names of results where --out is not given. */
#ifndef KVSI_CLI_DEFAULT_OUT_H
#define KVSI_CLI_DEFAULT_OUT_H

#include <stddef.h>

enum { KVSI_STEM = 64, KVSI_DEFAULT_OUT = 96 };

/* The name of a file or folder without its folders and endings: "book" of "texts/book.txt.gz".
 * Standard input and pipes are "text". */
void kvsi_stem(char out[KVSI_STEM], const char *path);
/* The first of runs/STEM-1, runs/STEM-2, ... that does not exist.  Only rank 0 uses it, and it
 * makes the folder after all ranks have chosen. */
void kvsi_default_run(char out[KVSI_DEFAULT_OUT], const char *path);

#endif
