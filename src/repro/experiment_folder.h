/* repro/experiment_folder.h - an experiment's folder:
 *
 *     plan.json          experiment, scale and texts, checked when resuming
 *     runs/              run folders: repro/execute.h
 *     results.json       claims
 *     experiment.json    everything else on the page
 *     *.svg, *.csv       charts and tables; runs.csv
 *     page.html, page.md
 */
#ifndef KVSI_REPRO_EXPERIMENT_FOLDER_H
#define KVSI_REPRO_EXPERIMENT_FOLDER_H

#include "report/page.h"
#include "repro/experiment.h"

/* Creates the folder, or checks that it belongs to this experiment and may be resumed. */
kvs_status kvsi_experiment_begin(const kvsi_experiment *experiment,
                                 const kvs_repro_options *options, kvs_err *err);
/* Checks that the folder created by rank 0 is visible on this rank. */
kvs_status kvsi_experiment_join(const kvsi_experiment *experiment, const kvs_repro_options *options,
                                kvs_err *err);
/* Whether a folder holds an experiment on these texts; NULL = any texts. */
int kvsi_experiment_has_texts(const char *dir, const json_t *texts);
/* Writes results, runs.csv and pages.  `seconds`: time spent besides the runs. */
kvs_status kvsi_experiment_finish(const kvsi_experiment *experiment, const kvsi_results *results,
                                  const kvsi_claims *claims, double seconds, kvs_err *err);

enum { KVSI_CLAIMS_MAX = 64 };

/* The claims of results.json, as views of it; returns how many, at most `capacity`. */
size_t kvsi_saved_claims(kvs_claim *out, size_t capacity, const json_t *claims);

/* The files of a finished experiment, read back. */
typedef struct kvsi_saved {
    char *dir;
    json_t *experiment, *claims;
} kvsi_saved;

kvs_status kvsi_saved_open(kvsi_saved *saved, const char *dir, kvs_err *err);
void kvsi_saved_close(kvsi_saved *saved);
int kvsi_saved_exists(const char *dir);

/* "98.20 ± 0.13 %"; a dash for NaN. */
void kvsi_claim_value(char *out, size_t size, const kvs_claim *claim);

/* Fills an empty page, HTML or Markdown. */
kvs_status kvsi_saved_page(kvsi_page *page, const kvsi_saved *saved, kvs_err *err);
/* The same as part of a page, without its heading. */
kvs_status kvsi_saved_section(kvsi_page *page, const kvsi_saved *saved, kvs_err *err);

#endif
