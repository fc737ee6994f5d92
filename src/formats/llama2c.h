/* formats/llama2c.h - llama2.c's .bin files: plain Llama models in float32.
 *
 * A header, then the matrices by kind; the layers of a kind are contiguous:
 *
 *     legacy      seven int32; vocabulary < 0: the head is not tied to the embedding
 *     version 1   "ak42", 1, seven int32, one byte (1: tied head), padded to 256 bytes
 *
 * The seven are dim, hidden_dim, layers, heads, kv_heads, vocabulary, context.  In q and k, the
 * rows of each rotary pair are adjacent.  The rotary base and the epsilon of the norms are not
 * stored; programs use the two constants below. */
#ifndef KVSI_FORMATS_LLAMA2C_H
#define KVSI_FORMATS_LLAMA2C_H

#include "formats/tensor.h"

enum {
    KVSI_LLAMA2C_MAGIC = 0x616b3432,
    KVSI_LLAMA2C_NUMBERS = 7,
    KVSI_LLAMA2C_V1_HEADER = 256,
    KVSI_LLAMA2C_PARTS_MAX = 14,
};

extern const double kvsi_llama2c_rope_base, kvsi_llama2c_norm_eps;

/* A kind of matrix, in file order. */
typedef struct kvsi_llama2c_part {
    const char *name;   /* our name; NULL: cosines, then sines, which are not used */
    int in_layers;      /* one per layer; `name` is the part after the layer number */
    size_t rows, width; /* width 0: a vector */
    size_t interleaved_heads;
} kvsi_llama2c_part;

/* Fills the kinds of a file and returns their number. */
size_t kvsi_llama2c_list(kvsi_llama2c_part parts[KVSI_LLAMA2C_PARTS_MAX],
                         const kvs_model_config *config, int v1);
/* The number of values of one matrix. */
size_t kvsi_llama2c_part_bytes(const kvsi_llama2c_part *part);

/* Writes tensors with our names.  The file appears only when complete.  KVS_E_UNSUPPORTED if the
 * format cannot represent the model. */
kvs_status kvsi_llama2c_write(const char *path, const kvs_model_config *config, int v1,
                              const kvsi_tensor_source *source, kvs_err *err);

#endif
