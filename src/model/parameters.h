/* model/parameters.h - the offset and the file name of every tensor.
 *
 * All parameters are one block; gradients and the optimizer's moments are blocks of the same
 * layout.  The block has three parts, one per group of the optimizer:
 *
 *     | matrices and embeddings | norm gains and biases | shift and filter parameters |
 *
 * Within a part tensors are in file order.  q, k, v are adjacent, so are gate and up, and the
 * shifts of a layer: fused matrices are views. */
#ifndef KVSI_MODEL_PARAMETERS_H
#define KVSI_MODEL_PARAMETERS_H

#include "formats/tensor.h"
#include "kernels/real.h"

enum { KVSI_NAME_SIZE = 96, KVSI_PARAMETER_RANK_MAX = 3 };

typedef enum kvsi_group { KVSI_MATRICES, KVSI_GAINS, KVSI_SHIFTS, KVSI_GROUPS } kvsi_group;

/* The purpose of a tensor, which determines its group and its initial values. */
typedef enum kvsi_role {
    KVSI_EMBEDDING,  /* the table of tokens */
    KVSI_POSITION,   /* the table of positions */
    KVSI_PROJECTION, /* q, k, v */
    KVSI_OUTPUT,     /* o */
    KVSI_UP,         /* gate, up */
    KVSI_DOWN,
    KVSI_HEAD,
    KVSI_GAIN,
    KVSI_BIAS,
    KVSI_RELATIVE,       /* r of relative positions */
    KVSI_RELATIVE_TABLE, /* their terms by distance */
    KVSI_FACTOR,         /* of the MLP's output */
    KVSI_TAPS,           /* shift parameters that become taps */
    KVSI_GATE,           /* gate weights of the form `data` */
    KVSI_FILTER,         /* taps of a filter, without that of the row itself */
} kvsi_role;

kvsi_group kvsi_group_of(kvsi_role role);

typedef struct kvsi_parameter {
    char name[KVSI_NAME_SIZE]; /* as in files */
    kvsi_role role;
    size_t rank, shape[KVSI_PARAMETER_RANK_MAX], count; /* as in files */
    int transposed; /* a matrix stored input x output in files; the block has output x input */
    size_t layer;   /* if it belongs to one */
    size_t offset;  /* in the block */
} kvsi_parameter;

enum { KVSI_ABSENT = -1 }; /* as an offset: the model has no such tensor */

/* A norm; both are absent if there is none, `bias` also in an RMSNorm. */
typedef struct kvsi_norm_offsets {
    ptrdiff_t gain, bias;
} kvsi_norm_offsets;

/* Offsets of one layer's tensors.  `up` is [gate; up] in an MLP with a gate; the shifts are absent
 * if they have no parameters. */
typedef struct kvsi_layer_offsets {
    kvsi_norm_offsets attention_in, attention_out; /* before attention, and of its output */
    kvsi_norm_offsets mlp_in, mlp_out; /* a shared norm is both attention_in and mlp_in */
    ptrdiff_t qkv, qkv_bias, o, o_bias, up, up_bias, down, down_bias;
    ptrdiff_t q_shift, k_shift, v_shift;
    ptrdiff_t q_norm, k_norm;
    ptrdiff_t relative, relative_table;
    ptrdiff_t attention_filter, mlp_filter, mlp_factor;
} kvsi_layer_offsets;

typedef struct kvsi_layout {
    size_t count;
    kvsi_parameter *list;             /* [count], in file order */
    ptrdiff_t embed, positions, head; /* a tied head is the embedding */
    kvsi_norm_offsets embed_norm, final_norm;
    kvsi_layer_offsets *layers;
    size_t group_start[KVSI_GROUPS + 1]; /* group_start[KVSI_GROUPS] = size of the block */
} kvsi_layout;

kvs_status kvsi_layout_init(kvsi_layout *layout, const kvs_model_config *config, kvs_err *err);
void kvsi_layout_release(kvsi_layout *layout);
size_t kvsi_layout_total(const kvsi_layout *layout);
const kvsi_parameter *kvsi_layout_find(const kvsi_layout *layout, const char *name);

/* Its description in files: matrices have the given type, all other tensors are F32. */
void kvsi_parameter_describe(const kvsi_parameter *p, kvsi_dtype matrices, kvsi_file_tensor *out);

/* Index in a file's tensor of value `i` of the block's tensor. */
size_t kvsi_file_index(const kvsi_parameter *p, size_t i);

/* The initial values of one tensor, in the block's order.  They depend on the seed and the tensor's
 * name only. */
void kvsi_parameter_fill(real *out, const kvsi_parameter *p, const kvs_model_config *config,
                         uint64_t seed, int threads);
/* The same as float32 in file order. */
kvs_status kvsi_parameter_make(float *out, const kvsi_parameter *p, const kvs_model_config *config,
                               uint64_t seed, int threads, kvs_err *err);

#endif
