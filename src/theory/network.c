#include "theory/network.h"

#include "base/memory.h"
#include "config/config.h"

static const char embeddings_name[] = "model.embed_tokens.weight";

static kvs_status set_taps(kvs_model *network, const kvs_coefficients *at, kvs_err *err)
{
    const float k[] = {(float)at->alpha2,
                       (float)at->alpha1}; /* in files the oldest tap comes first */
    const float v[] = {(float)at->beta2, (float)at->beta1};

    TRY(kvs_model_write_tensor(network, "model.layers.0.self_attn.k_shift", k, 2, err));
    return kvs_model_write_tensor(network, "model.layers.0.self_attn.v_shift", v, 2, err);
}

kvs_status kvsi_network_create(kvs_model **out, kvs_runtime *rt, const kvsi_network_plan *plan,
                               const kvs_coefficients *at, kvs_err *err)
{
    kvs_model *network = NULL;
    kvs_model_config c;
    kvs_status st;

    *out = NULL;
    kvsi_model_config_init(&c);
    c.vocab = plan->tokens;
    c.dim = plan->dim;
    c.context = plan->context;
    c.heads = c.layers = 1;
    c.shift.targets = KVS_SHIFT_K | KVS_SHIFT_V;
    c.positions = plan->slope > 0 ? KVSI_POSITIONS_ALIBI : KVSI_POSITIONS_NONE;
    c.slopes = plan->slope > 0;
    c.slope[0] = plan->slope;
    c.score_scale = plan->score_scale;
    c.head = plan->tied ? KVSI_HEAD_LINEAR : KVSI_HEAD_NONE;
    c.tied = plan->tied;
    c.no_norm = c.no_residual = c.no_mlp = c.identity_projections = 1;
    TRY_OUT(kvs_model_create(&network, rt, &c, 1, err));
    TRY_OUT(set_taps(network, at, err));
    *out = network;
    network = NULL;
out:
    kvs_model_free(network);
    return st;
}

kvs_status kvsi_network_embed(kvs_model *network, const double *embeddings, kvs_err *err)
{
    const kvs_model_config *c = kvs_model_get_config(network);
    const size_t count = c->vocab * c->dim;
    float *values = kvsi_alloc(count, sizeof *values);
    kvs_status st;

    if (!values)
        return kvsi_no_memory(err, "%zu embeddings", c->vocab);
    for (size_t i = 0; i < count; i++)
        values[i] = (float)embeddings[i];
    st = kvs_model_write_tensor(network, embeddings_name, values, count, err);
    kvsi_free(values);
    return st;
}
