/* theory/network.h - the theorems' one-layer network as a model of this library.
 *
 * One head, identity projections, the embeddings as they are given, and nothing else: no norm, no
 * residual, no MLP, no positions unless ALiBi's slope is above 0. */
#ifndef KVSI_THEORY_NETWORK_H
#define KVSI_THEORY_NETWORK_H

#include "base/status.h"
#include "kvshift/kvshift_lab.h"

typedef struct kvsi_network_plan {
    size_t tokens, dim, context;
    double score_scale, slope;
    int tied; /* logits are products with the embeddings; otherwise what attention makes */
} kvsi_network_plan;

kvs_status kvsi_network_create(kvs_model **out, kvs_runtime *rt, const kvsi_network_plan *plan,
                               const kvs_coefficients *at, kvs_err *err);
/* [tokens, dim] */
kvs_status kvsi_network_embed(kvs_model *network, const double *embeddings, kvs_err *err);

#endif
