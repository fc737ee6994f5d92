/* repro/hop_given.h - a trained hop-k model against what is known of the published ones. */
#ifndef KVSI_REPRO_HOP_GIVEN_H
#define KVSI_REPRO_HOP_GIVEN_H

#include "repro/findings.h"
#include "repro/trial.h"

/* Measures trial->options->model, with its dropout, on sequences of the original's length. */
kvs_status kvsi_hop_given(kvsi_findings *findings, const kvsi_trial *trial, kvs_err *err);

#endif
