/* model/model.h - a model: its configuration, its parameters, and the table of rotations. */
#ifndef KVSI_MODEL_MODEL_H
#define KVSI_MODEL_MODEL_H

#include "kernels/backend.h"
#include "model/parameters.h"

struct kvs_model {
    kvs_model_config config;
    kvsi_layout layout;
    kvsi_context context; /* operations and threads; no workspace: for moving data only */
    real *parameters;     /* the block described by `layout` */
    real *rotations;      /* [context, head_size]: cosines, then sines */
};

/* Parameters are zero. */
kvs_status kvsi_model_allocate(kvs_model **out, kvs_runtime *rt, const kvs_model_config *config,
                               kvs_err *err);

/* Sets a tensor from float32 numbers in file order, at any alignment. */
void kvsi_model_set(kvs_model *model, const kvsi_parameter *p, const void *float32);

#endif
