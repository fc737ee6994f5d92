/* theory/network.h - the theorems' one-layer network as a model of this library.
 *
 * One head with identity projections; no norm, no residual, no MLP; ALiBi if the slope is above 0,
 * otherwise no positions. */
#ifndef KVSI_THEORY_NETWORK_H
#define KVSI_THEORY_NETWORK_H

#include "base/status.h"
#include "kvshift/kvshift_lab.h"

typedef struct kvsi_network_plan {
    size_t tokens, dim, context;
    double score_scale, slope;
    int tied; /* logits are products with the embeddings; otherwise the attention output */
} kvsi_network_plan;

kvs_status kvsi_network_create(kvs_model **out, kvs_runtime *rt, const kvsi_network_plan *plan,
                               const kvs_coefficients *at, kvs_err *err);
/* `embeddings` is [tokens, dim]. */
kvs_status kvsi_network_embed(kvs_model *network, const double *embeddings, kvs_err *err);

#endif
