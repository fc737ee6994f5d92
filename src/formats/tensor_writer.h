/* formats/tensor_writer.h - writes tensors of a source to a file, one at a time.
 *
 * Memory holds the largest tensor as float32. */
#ifndef KVSI_FORMATS_TENSOR_WRITER_H
#define KVSI_FORMATS_TENSOR_WRITER_H

#include "base/files.h"
#include "formats/tensor.h"

typedef struct kvsi_tensor_writer {
    const kvsi_tensor_source *source;
    float *values; /* buffer for the largest tensor */
} kvsi_tensor_writer;

kvs_status kvsi_tensor_writer_init(kvsi_tensor_writer *writer, const kvsi_tensor_source *source,
                                   kvs_err *err);
void kvsi_tensor_writer_release(kvsi_tensor_writer *writer);

/* Appends tensor `index` in its described type.  A value that would become infinite in this type is
 * KVS_E_LIMIT. */
kvs_status kvsi_tensor_writer_put(const kvsi_tensor_writer *writer, size_t index,
                                  kvsi_new_file *file, kvs_err *err);

#endif
