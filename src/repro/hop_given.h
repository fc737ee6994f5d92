/* repro/hop_given.h - a trained hop-k model against what is known of the published ones. */
#ifndef KVSI_REPRO_HOP_GIVEN_H
#define KVSI_REPRO_HOP_GIVEN_H

#include "repro/claims.h"
#include "repro/results.h"

/* Measures results->options->model, with its dropout, on sequences of the original's length. */
kvs_status kvsi_hop_given(kvsi_claims *claims, const kvsi_results *results, kvs_err *err);

#endif
