/* formats/tensor.h - tensors as files hold them: name, type, shape, and bytes at any alignment. */
#ifndef KVSI_FORMATS_TENSOR_H
#define KVSI_FORMATS_TENSOR_H

#include "base/status.h"

#include <stddef.h>

enum { KVSI_TENSOR_RANK_MAX = 5 };

typedef enum kvsi_dtype {
    KVSI_F32,
    KVSI_F64,
    KVSI_I32,
    KVSI_I64,
    KVSI_U8,
    KVSI_F16,
    KVSI_BF16,
    KVSI_DTYPES
} kvsi_dtype;

typedef struct kvsi_file_tensor {
    const char *name;
    kvsi_dtype dtype;
    size_t rank, shape[KVSI_TENSOR_RANK_MAX];
    const void
        *data; /* a view into the mapped file, at any alignment; or the caller's when writing */
} kvsi_file_tensor;

const char *kvsi_dtype_name(kvsi_dtype dtype); /* as safetensors writes it: "F32", "BF16" */
size_t kvsi_dtype_size(kvsi_dtype dtype);
size_t kvsi_file_tensor_count(const kvsi_file_tensor *tensor); /* product of the shape */
size_t kvsi_file_tensor_bytes(const kvsi_file_tensor *tensor);

/* Whether numbers of the type can become float32 and back: F32, F16, BF16. */
int kvsi_dtype_is_weight(kvsi_dtype dtype);
/* Numbers of such a type as float32, exactly, and the other way, rounded to nearest, ties to even.
 * `data` may be at any alignment. */
void kvsi_dtype_decode(float *out, kvsi_dtype dtype, const void *data, size_t count);
void kvsi_dtype_encode(void *out, kvsi_dtype dtype, const float *in, size_t count);

/* Tensors that are made one by one while they are written, so that a file may be larger than
 * memory.  `describe` fills everything but data, with a name that lives as long as the source and a
 * type for which kvsi_dtype_is_weight holds; `read` gives tensor `index` as float32. */
typedef struct kvsi_tensor_source {
    size_t count;
    void (*describe)(const void *self, size_t index, kvsi_file_tensor *out);
    kvs_status (*read)(const void *self, size_t index, float *out, kvs_err *err);
    const void *self;
} kvsi_tensor_source;

#endif
