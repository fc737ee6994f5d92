/* formats/llama_layout.h - what formats made for plain Llama models share. */
#ifndef KVSI_FORMATS_LLAMA_LAYOUT_H
#define KVSI_FORMATS_LLAMA_LAYOUT_H

#include "formats/tensor.h"

/* Whether a program that knows plain Llama models only computes this one exactly: Llama's body,
 * rotary positions over whole heads, and nothing shifted, windowed, rescaled or left out.  What
 * only matters to training (dropout, initial values) does not count.  If not, KVS_E_UNSUPPORTED
 * says that `format` has no place for what. */
kvs_status kvsi_check_plain_llama(const kvs_model_config *config, const char *format, kvs_err *err);

/* The same tensors with the rows of each rotary pair, which are half a head apart in our order,
 * side by side in q and k. */
typedef struct kvsi_interleaved {
    const kvsi_tensor_source *ours; /* under our names */
    const kvs_model_config *config;
} kvsi_interleaved;

kvsi_tensor_source kvsi_interleave(const kvsi_interleaved *self);

#endif
