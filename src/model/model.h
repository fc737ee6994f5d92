/* model/model.h - a model: its configuration, its parameters, and the tables of its positions. */
#ifndef KVSI_MODEL_MODEL_H
#define KVSI_MODEL_MODEL_H

#include "formats/weights.h"
#include "kernels/backend.h"
#include "model/layer.h"
#include "model/matrices.h"
#include "model/parameters.h"
#include "model/shard_layout.h"
#include "parallel/comm.h"

/* Tables of attention; NULL if the kind of positions does not use them. */
typedef struct kvsi_tables {
    real *rotations; /* [context, rotary]: cosines, then sines */
    real *slopes;    /* [heads] */
    real *growth;    /* [context]: factors of scores */
} kvsi_tables;

struct kvs_model {
    kvs_model_config config;
    kvsi_token_ids ids; /* from the files that the model was read from */
    kvsi_layout layout;
    kvsi_context context; /* without a workspace: for memory and transfers */
    kvs_comm *comm;       /* whose ranks train it; borrowed */
    /* The parameters are sharded over the ranks (ZeRO stage 3); NULL = all are in this process. */
    kvsi_shard_layout *shards;
    real *parameters; /* one buffer in the order of `layout`, or this rank's shards; NULL: the
                              matrices are in a file */
    real *small;      /* gains, biases and shift parameters, in the buffer or allocated alone */
    kvsi_weights *weights; /* the mapped file that has the matrices; NULL with a buffer */
    real **values;         /* [layout.count] tensors in the layout's order; NULL: in `views`, or
                              the block is not gathered */
    const void **views;    /* [layout.count] matrices in the file's type, adopted by the backend;
                              NULL with a buffer */
    uint64_t version;      /* changes with the values of the matrices; at least 1 */
    kvsi_matrices matrices;
    kvsi_tables tables, sliding_tables; /* for ordinary layers, and for those with a window */
};

/* A gain, bias or shift parameter by its offset in the block. */
static inline real *kvsi_model_small(const kvs_model *model, ptrdiff_t offset)
{
    return model->small + ((size_t)offset - model->layout.group_start[KVSI_GAINS]);
}

/* A model without weights; kvs_model_free releases it in any state. */
kvs_status kvsi_model_begin(kvs_model **out, kvs_runtime *rt, const kvs_model_config *config,
                            kvs_err *err);
/* Parameters are zero. */
kvs_status kvsi_model_allocate(kvs_model **out, kvs_runtime *rt, const kvs_model_config *config,
                               kvs_err *err);

/* Loads a model whose matrices stay in the mapped file, as kvs_model_load does with `mapped`. */
kvs_status kvsi_model_map(kvs_model **out, kvs_runtime *rt, const char *path, kvs_err *err);

/* Adds the shift of `shifted`, which starts as the identity, to the configuration of a model that
 * has none. */
kvs_status kvsi_config_retrofit(kvs_model_config *config, const kvs_model_config *shifted,
                                kvs_err *err);

/* kvs_model_save without the Python file: for checkpoints, which have checksums of their files. */
kvs_status kvsi_model_save_weights(const kvs_model *model, const char *dir, kvs_err *err);

/* A checksum of all weights, tensor by tensor. */
kvs_status kvsi_model_fingerprint(uint64_t *out, const kvs_model *model, kvs_err *err);

/* KVS_E_UNSUPPORTED if the weights are in a file; `what` ends the message ("trained"). */
kvs_status kvsi_model_must_own(const kvs_model *model, const char *what, kvs_err *err);

/* KVS_E_UNSUPPORTED if the parameters are sharded over ranks. */
kvs_status kvsi_model_must_be_whole(const kvs_model *model, kvs_err *err);

/* Sets values of a tensor from `first` on, in the block's order.  Values that this rank does not
 * hold are ignored. */
kvs_status kvsi_model_put(kvs_model *model, const kvsi_parameter *p, size_t first,
                          const real *values, size_t count, kvs_err *err);
/* Sets a tensor that is in memory from float32 in file order, at any alignment. */
kvs_status kvsi_model_set(kvs_model *model, const kvsi_parameter *p, const void *float32,
                          kvs_err *err);

/* ---- taps: taps.c ---- */

/* Checks that the shift of the model has this target, layer and head. */
kvs_status kvsi_check_shifted_head(const kvs_model_config *config, size_t layer, unsigned target,
                                   size_t head, kvs_err *err);
/* Reads the taps of all heads of a target in one layer: out[heads, head_size, window + 1], oldest
 * first, as parameters of the form `channel`.  Form data has no fixed taps. */
kvs_status kvsi_layer_taps(real *out, const kvs_model *model, size_t layer, unsigned target,
                           kvs_err *err);

/* ---- parameters that are sharded over ranks: sharded.c ---- */

/* Points the tensors of a block at `values`, which holds the whole block. */
void kvsi_model_set_block(kvs_model *model, size_t block, real *values);
/* Collective, blocking: out[bucket->all.count] = every rank's shard of a bucket; `shard` is this
 * rank's.  Backend memory. */
kvs_status kvsi_bucket_all_gather(real *out, const real *shard, const kvsi_shard_layout *layout,
                                  const kvsi_bucket *bucket, const kvs_comm *comm, kvs_err *err);
/* Collective: one tensor in file order; out NULL = this rank does not need it. */
kvs_status kvsi_sharded_read(const kvs_model *model, const kvsi_parameter *p, float *out,
                             kvs_err *err);

/* ---- weights of files ---- */

/* Checks that an open model has all tensors of a layout, and no others. */
kvs_status kvsi_weights_fit(const kvsi_layout *layout, const kvsi_weights *weights, kvs_err *err);
/* The values of a file's tensor in file order; small tensors must be finite. */
kvs_status kvsi_weights_values(float *out, const kvsi_parameter *p,
                               const kvsi_weights_tensor *tensor, kvs_err *err);
/* Collective: sets all tensors of every rank's model from the weights that rank 0 has open; the
 * other ranks pass NULL. */
kvs_status kvsi_model_broadcast_weights(kvs_model *model, const kvsi_weights *weights,
                                        kvs_err *err);

/* Checks that an open model has all tensors of its configuration, with the right shapes and
 * readable types, and no others. */
kvs_status kvsi_weights_check(const kvsi_weights *weights, kvs_err *err);
/* Sets all tensors that are in memory from an open model with the same tensors. */
kvs_status kvsi_model_set_weights(kvs_model *model, const kvsi_weights *weights, kvs_err *err);

#endif
