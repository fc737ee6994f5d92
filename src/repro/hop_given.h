/* repro/hop_given.h - a given trained hop-k model compared with published error rates. */
#ifndef KVSI_REPRO_HOP_GIVEN_H
#define KVSI_REPRO_HOP_GIVEN_H

#include "repro/claims.h"
#include "repro/results.h"

/* Measures results->options->model, with that dropout, on sequences of the original length. */
kvs_status kvsi_hop_given(kvsi_claims *claims, const kvsi_results *results, kvs_err *err);

#endif
