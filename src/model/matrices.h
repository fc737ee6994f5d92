/* model/matrices.h - the matrices of a model as the forward pass multiplies with them.
 *
 * They are in the model's block of parameters, or, in a model that was opened for running, where
 * the mapped file has them and in its types.  What a view of the file cannot express is decoded
 * into memory of its own: matrices stored input x output (GPT-2), a head whose rows are normalised,
 * positions that are not float32, float32 that stands at an odd place, and Q6_K, which kernels do
 * not read. */
#ifndef KVSI_MODEL_MATRICES_H
#define KVSI_MODEL_MATRICES_H

#include "kernels/backend.h"

enum { KVSI_LINEAR_PARTS = 3 };

/* W of y = x W^T + bias: parts one above the other, each of which makes its columns of y.  Those
 * that lie behind one another in memory and are alike are one part, so a model with a block has
 * never more. */
typedef struct kvsi_linear {
    size_t parts;
    kvsi_matrix part[KVSI_LINEAR_PARTS];
} kvsi_linear;

typedef struct kvsi_layer_matrices {
    kvsi_linear qkv, o;
    kvsi_linear up, down; /* `up` is [gate; up] in the Llama body; no parts without an MLP */
} kvsi_layer_matrices;

typedef struct kvsi_matrices {
    kvsi_layer_matrices *layers;
    kvsi_matrix embed, positions, head; /* no data: the model has none */
} kvsi_matrices;

/* From a model whose tensors have their places: in model.numbers, or else in model.weights; where
 * the parameters are sharded over ranks, blocks are set later. */
kvs_status kvsi_matrices_init(kvsi_matrices *out, const kvs_model *model, kvs_err *err);
void kvsi_matrices_set_block(kvsi_matrices *out, const kvs_model *model, size_t block);
void kvsi_matrices_release(kvsi_matrices *matrices);

#endif
