/* Parameters and memory of a model, from its configuration. */
#include "base/status.h"
#include "kvshift/kvshift_lab.h"
#include "model/layer.h"
#include "model/parameters.h"

/* Tables that grow with the vocabulary or the context, not with the model. */
static int is_embedding(kvsi_role role)
{
    return role == KVSI_EMBEDDING || role == KVSI_POSITION || role == KVSI_HEAD;
}

/* Bytes that one layer keeps per token, and of the last tokens for the shift and the filters. */
static void add_state(kvs_model_sizes *sizes, const kvs_model_config *config, size_t layer)
{
    const kvsi_layer_shape shape = kvsi_layer_shape_of(config, layer);
    const size_t kv_row = shape.kv_heads * shape.head_size;
    const unsigned targets = config->shift.targets;
    size_t raw_row = 0, filtered = 0;

    if (targets & KVS_SHIFT_K)
        raw_row += kv_row;
    if (targets & KVS_SHIFT_V)
        raw_row += kv_row;
    if (targets & KVS_SHIFT_Q)
        raw_row += shape.heads * shape.head_size;
    if (config->filters & KVSI_FILTER_ATTENTION)
        filtered += config->dim;
    if (config->filters & KVSI_FILTER_MLP)
        filtered += config->dim;
    sizes->cache_bytes_per_token += 2 * kv_row * sizeof(float);
    sizes->shift_state_bytes +=
        (config->shift.window * raw_row + config->filter_window * filtered) * sizeof(float);
}

kvs_status kvs_model_config_sizes(kvs_model_sizes *out, const kvs_model_config *config,
                                  kvs_err *err)
{
    kvs_model_sizes sizes = {0};
    kvsi_layout layout;

    NEED(out);
    NEED(config);
    TRY(kvsi_layout_init(&layout, config, err));
    for (size_t i = 0; i < layout.count; i++)
        if (is_embedding(layout.list[i].role))
            sizes.embedding_parameters += layout.list[i].count;
    sizes.parameters = kvsi_layout_total(&layout);
    sizes.weight_bytes = sizes.parameters * sizeof(float);
    sizes.training_bytes = 4 * sizes.weight_bytes; /* weights, gradients and two moments */
    for (size_t l = 0; l < config->layers; l++)
        add_state(&sizes, config, l);
    kvsi_layout_release(&layout);
    *out = sizes;
    return KVS_OK;
}

size_t kvsi_model_config_heads(const kvs_model_config *config, size_t layer)
{
    return kvsi_layer_shape_of(config, layer).heads;
}

size_t kvsi_model_config_kv_heads(const kvs_model_config *config, size_t layer)
{
    return kvsi_layer_shape_of(config, layer).kv_heads;
}

size_t kvs_model_config_heads(const kvs_model_config *config, size_t layer)
{
    return config && layer < config->layers ? kvsi_model_config_heads(config, layer) : 0;
}

size_t kvs_model_config_kv_heads(const kvs_model_config *config, size_t layer)
{
    return config && layer < config->layers ? kvsi_model_config_kv_heads(config, layer) : 0;
}
