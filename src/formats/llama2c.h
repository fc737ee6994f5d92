/* formats/llama2c.h - llama2.c's .bin files: plain Llama models in float32.
 *
 * A header, then matrices kind by kind, each kind with its layers one behind the other:
 *
 *     legacy      seven int32; a negative vocabulary: the head is not the embedding
 *     version 1   "ak42", 1, seven int32, one byte (1: head and embedding are one), up to 256 bytes
 *
 * The seven are dim, hidden_dim, layers, heads, kv_heads, vocabulary, context.  The rows of q and k
 * have each head's rotary pairs side by side.  There is no place for the base of the positions and
 * the epsilon of the norms: programs take the two numbers below. */
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

/* One kind of matrix; kinds follow each other in the file. */
typedef struct kvsi_llama2c_part {
    const char *name;   /* ours; NULL: cosines, then sines, which nobody reads */
    int in_layers;      /* the name is a layer's part, and there is one a layer */
    size_t rows, width; /* width 0: a vector */
    size_t interleaved_heads;
} kvsi_llama2c_part;

/* The parts of a file, and how many they are. */
size_t kvsi_llama2c_list(kvsi_llama2c_part parts[KVSI_LLAMA2C_PARTS_MAX],
                         const kvs_model_config *config, int v1);
/* Of one matrix of the kind. */
size_t kvsi_llama2c_part_bytes(const kvsi_llama2c_part *part);

/* Writes tensors that are given under our names, whole or not at all.  What the format cannot say
 * is KVS_E_UNSUPPORTED. */
kvs_status kvsi_llama2c_write(const char *path, const kvs_model_config *config, int v1,
                              const kvsi_tensor_source *source, kvs_err *err);

#endif
