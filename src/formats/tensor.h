/* formats/tensor.h - tensors in files: name, type, shape, and data at any alignment. */
#ifndef KVSI_FORMATS_TENSOR_H
#define KVSI_FORMATS_TENSOR_H

#include "base/dtype.h"
#include "base/status.h"

enum { KVSI_TENSOR_RANK_MAX = 5 };

typedef struct kvsi_file_tensor {
    const char *name;
    kvsi_dtype dtype;
    size_t rank, shape[KVSI_TENSOR_RANK_MAX];
    const void *data; /* a view into the mapped file at any alignment; when writing, the caller's */
} kvsi_file_tensor;

size_t kvsi_file_tensor_count(const kvsi_file_tensor *tensor); /* product of the shape */
size_t kvsi_file_tensor_bytes(const kvsi_file_tensor *tensor);

/* Tensors that are produced one at a time while they are written, so that a file may be larger than
 * memory.  `describe` fills everything but data; the name lives as long as the source, the type can
 * be written (kvsi_dtype_encode), and rows are whole blocks.  `read` gives tensor `index` as
 * float32. */
typedef struct kvsi_tensor_source {
    size_t count;
    void (*describe)(const void *self, size_t index, kvsi_file_tensor *out);
    kvs_status (*read)(const void *self, size_t index, float *out, kvs_err *err);
    const void *self;
} kvsi_tensor_source;

#endif
