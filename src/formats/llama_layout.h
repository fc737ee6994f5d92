/* formats/llama_layout.h - shared by formats for plain Llama models. */
#ifndef KVSI_FORMATS_LLAMA_LAYOUT_H
#define KVSI_FORMATS_LLAMA_LAYOUT_H

#include "formats/tensor.h"

/* Whether a program for plain Llama models computes this model exactly: Llama's body, rotary
 * positions over whole heads, and no shift, window, score scale or missing part.  Settings of
 * training (dropout, initial values) are ignored.  Otherwise KVS_E_UNSUPPORTED; the message names
 * `format` and the unsupported part. */
kvs_status kvsi_check_plain_llama(const kvs_model_config *config, const char *format, kvs_err *err);

/* The heads of a tensor of q or k, whose rows rotate; 0 = it is another one. */
size_t kvsi_rotary_heads(const char *name, const kvs_model_config *config);

/* The same tensors with the rows of each rotary pair adjacent in q and k; in our order they are
 * half a head apart. */
typedef struct kvsi_interleaved {
    const kvsi_tensor_source *ours; /* with our names */
    const kvs_model_config *config;
} kvsi_interleaved;

kvsi_tensor_source kvsi_interleave(const kvsi_interleaved *self);

#endif
