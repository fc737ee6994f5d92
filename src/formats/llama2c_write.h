/* formats/llama2c_write.h - llama2.c's .bin files: plain Llama models in float32.
 *
 *     legacy      seven int32 (dim, ffn, layers, heads, kv heads, vocab, context; vocab is negative
 *                 if the head is not tied), then the tensors of each kind for all layers, tables of
 *                 cosines and sines that no program reads any more, and the head
 *     version 1   "ak42" as an int32, 1, the seven int32, a byte that says whether the head is tied,
 *                 zeros up to byte 256, then the tensors: norms first
 *
 * Rows of q and k have rotary pairs side by side.  Neither has a place for the base of the positions
 * or the epsilon of the norms: programs take 10000 and 1e-5. */
#ifndef KVSI_FORMATS_LLAMA2C_WRITE_H
#define KVSI_FORMATS_LLAMA2C_WRITE_H

#include "formats/tensor.h"

typedef enum kvsi_llama2c_version { KVSI_LLAMA2C_LEGACY, KVSI_LLAMA2C_V1 } kvsi_llama2c_version;

/* Tensors under our names.  What the format cannot say is KVS_E_UNSUPPORTED. */
kvs_status kvsi_llama2c_write(const char *path, const kvs_model_config *config,
                              kvsi_llama2c_version version, const kvsi_tensor_source *source,
                              kvs_err *err);

#endif
