/* formats/safetensors.h - tensors in a file: 8-byte little-endian header length, a JSON header
 * {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}, then the bytes.
 *
 * A file is hostile until checked: header size, types, shapes, ranges against the file and against
 * dtype x shape, gaps and overlaps are all checked at open. */
#ifndef KVSI_FORMATS_SAFETENSORS_H
#define KVSI_FORMATS_SAFETENSORS_H

#include "base/status.h"

#include <stdint.h>

enum { KVSI_TENSOR_RANK_MAX = 5 };

typedef enum kvsi_dtype { KVSI_F32, KVSI_F64, KVSI_I32, KVSI_I64, KVSI_U8 } kvsi_dtype;

typedef struct kvsi_file_tensor {
    const char *name;
    kvsi_dtype dtype;
    size_t rank, shape[KVSI_TENSOR_RANK_MAX];
    const void
        *data; /* a view into the mapped file, at any alignment; or the caller's when writing */
} kvsi_file_tensor;

size_t kvsi_dtype_size(kvsi_dtype dtype);
size_t kvsi_file_tensor_count(const kvsi_file_tensor *tensor); /* product of the shape */

typedef struct kvsi_safetensors kvsi_safetensors;

kvs_status kvsi_safetensors_open(kvsi_safetensors **out, const char *path, kvs_err *err);
void kvsi_safetensors_close(kvsi_safetensors *file);
size_t kvsi_safetensors_count(const kvsi_safetensors *file);
const kvsi_file_tensor *kvsi_safetensors_at(const kvsi_safetensors *file, size_t index);
const kvsi_file_tensor *kvsi_safetensors_find(const kvsi_safetensors *file, const char *name);

/* All tensors in the given order, whole or not at all. */
kvs_status kvsi_safetensors_write(const char *path, const kvsi_file_tensor *tensors, size_t count,
                                  kvs_err *err);

#endif
