/* model/matrices.h - the matrices of a model as the forward pass uses them.
 *
 * They are in the model's block of parameters or, in a model that was opened for running, views of
 * the mapped file in its own types.  Matrices that kernels cannot use as they are in the file are
 * decoded into memory: those stored input x output (GPT-2), a head whose rows are normalised,
 * positions that are not float32, and misaligned float32. */
#ifndef KVSI_MODEL_MATRICES_H
#define KVSI_MODEL_MATRICES_H

#include "kernels/backend.h"

enum { KVSI_LINEAR_PARTS = 3 };

/* W of y = x W^T + bias: parts, each of which computes its own columns of y.  Parts that are
 * adjacent in memory and of one type are merged, so a model with a block always has one part. */
typedef struct kvsi_linear {
    size_t parts;
    kvsi_matrix part[KVSI_LINEAR_PARTS];
} kvsi_linear;

typedef struct kvsi_layer_matrices {
    kvsi_linear qkv, o;
    kvsi_linear relative; /* r of relative positions; no parts without them */
    kvsi_linear up, down; /* `up` is [gate; up] in the Llama body; no parts without an MLP */
} kvsi_layer_matrices;

typedef struct kvsi_matrices {
    kvsi_layer_matrices *layers;
    kvsi_matrix embed, positions, head; /* data NULL: the model has none */
} kvsi_matrices;

/* Builds the matrices from model.values and model.views.  With parameters sharded over ranks the
 * blocks are set later, by kvsi_matrices_set_block. */
kvs_status kvsi_matrices_init(kvsi_matrices *out, const kvs_model *model, kvs_err *err);
void kvsi_matrices_set_block(kvsi_matrices *out, const kvs_model *model, size_t block);
void kvsi_matrices_release(kvsi_matrices *matrices);

#endif
