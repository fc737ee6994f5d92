/* model/layer.h - the shape of one layer's attention; layers with a sliding window may differ. */
#ifndef KVSI_MODEL_LAYER_H
#define KVSI_MODEL_LAYER_H

#include "config/config.h"

typedef struct kvsi_layer_shape {
    size_t heads, kv_heads, head_size;
    size_t rotary;          /* the first `rotary` channels of a head rotate */
    size_t q_width;         /* heads * head_size, also of attention's output */
    size_t qkv_width;       /* (heads + 2 kv_heads) * head_size */
    size_t sliding_window;  /* 0 = none */
    size_t relative_extent; /* distances with a term of relative positions; 0 = none */
} kvsi_layer_shape;

/* Channels per head that rotate, in layers with a sliding window or in the others. */
size_t kvsi_rotary_channels(const kvs_model_config *config, int slides);

kvsi_layer_shape kvsi_layer_shape_of(const kvs_model_config *config, size_t layer);

/* Returns the number of heads of one target of the shift: KVS_SHIFT_Q, _K or _V. */
static inline size_t kvsi_target_heads(const kvsi_layer_shape *shape, unsigned target)
{
    return target == KVS_SHIFT_Q ? shape->heads : shape->kv_heads;
}

#endif
