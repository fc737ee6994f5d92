/* repro/hop_errors.h - error rates of a hop-k model by number of hops. */
#ifndef KVSI_REPRO_HOP_ERRORS_H
#define KVSI_REPRO_HOP_ERRORS_H

#include "base/json.h"
#include "config/config.h"
#include "kvshift/kvshift_lab.h"

enum { KVSI_HOPS_MAX = 32 };

typedef struct kvsi_hop_error {
    double error;     /* share of the letters asked for that are wrong */
    double deviation; /* its standard error, by bootstrap over sequences */
} kvsi_hop_error;

/* For 0 .. task->hops hops, each on `sequences` new sequences, with the model's dropout on or
 * off. */
kvs_status kvsi_hop_errors(kvsi_hop_error out[KVSI_HOPS_MAX], const kvs_model *model,
                           const kvsi_hopk_config *task, size_t sequences, int dropout,
                           kvs_err *err);

json_t *kvsi_hop_errors_to_json(const kvsi_hop_error *errors, size_t hops); /* a new reference */
kvs_status kvsi_hop_errors_from_json(kvsi_hop_error *errors, size_t hops, const json_t *list,
                                     const char *what, kvs_err *err);

/* Loads a trained model.  Published hop-k models have no configuration: for a safetensors file
 * alone, with GPT-2's names, sizes are inferred from the tensors, with heads of 32 channels and no
 * output matrix. */
kvs_status kvsi_hop_model_load(kvs_model **out, kvs_runtime *rt, const char *path, kvs_err *err);
/* Sets all three dropout rates. */
void kvsi_hop_model_drop(kvs_model *model, double rate);

#endif
