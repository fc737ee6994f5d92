/* model/parameters.h - where every tensor of the model lies.
 *
 * All parameters are one block of numbers; gradients and the optimizer's moments are blocks of the
 * same layout.  The block has three runs, one per group that the optimizer treats alike:
 *
 *     | matrices and embeddings | norm gains | shift numbers |
 *
 * Inside a run tensors keep their order in files.  q, k, v stand next to each other, and gate, up,
 * so that the fused matrices [q;k;v] and [gate;up] are views. */
#ifndef KVSI_MODEL_PARAMETERS_H
#define KVSI_MODEL_PARAMETERS_H

#include "base/status.h"
#include "kernels/real.h"

#include <stddef.h>

enum { KVSI_NAME_SIZE = 96 };

typedef enum kvsi_group { KVSI_MATRICES, KVSI_GAINS, KVSI_SHIFTS, KVSI_GROUPS } kvsi_group;

typedef struct kvsi_parameter {
    char name[KVSI_NAME_SIZE]; /* as in files */
    kvsi_group group;
    size_t rank, shape[2], count;
    size_t offset; /* in the block */
} kvsi_parameter;

/* Offsets of one layer's tensors. */
typedef struct kvsi_layer_offsets {
    size_t input_norm, qkv, o, post_norm, gate_up, down;
    size_t q_shift, k_shift, v_shift; /* meaningful where that target is shifted */
} kvsi_layer_offsets;

typedef struct kvsi_layout {
    size_t count;
    kvsi_parameter *list;           /* [count], in file order */
    size_t embed, final_norm, head; /* offsets; a tied head is the embedding */
    kvsi_layer_offsets *layers;
    size_t group_start[KVSI_GROUPS + 1]; /* group_start[KVSI_GROUPS] = size of the block */
} kvsi_layout;

kvs_status kvsi_layout_init(kvsi_layout *layout, const kvs_model_config *config, kvs_err *err);
void kvsi_layout_release(kvsi_layout *layout);
size_t kvsi_layout_total(const kvsi_layout *layout);
const kvsi_parameter *kvsi_layout_find(const kvsi_layout *layout, const char *name);

/* The initial values of one tensor: weights ~ N(0, init_std), gains 1, shifts by their init.
 * They depend on the seed and the tensor's name only. */
void kvsi_parameter_fill(real *out, const kvsi_parameter *p, const kvs_model_config *config,
                         uint64_t seed);

#endif
