/* formats/tensor_writer.h - tensors of a source, made one by one, into a file on its way.
 *
 * Memory holds the largest tensor as float32 and nothing else. */
#ifndef KVSI_FORMATS_TENSOR_WRITER_H
#define KVSI_FORMATS_TENSOR_WRITER_H

#include "base/files.h"
#include "formats/tensor.h"

typedef struct kvsi_tensor_writer {
    const kvsi_tensor_source *source;
    float *values; /* room for the largest */
} kvsi_tensor_writer;

kvs_status kvsi_tensor_writer_init(kvsi_tensor_writer *writer, const kvsi_tensor_source *source,
                                   kvs_err *err);
void kvsi_tensor_writer_release(kvsi_tensor_writer *writer);

/* Appends tensor `index` in the type that its description has.  A number that the type cannot hold
 * is KVS_E_LIMIT: it would come back infinite. */
kvs_status kvsi_tensor_writer_put(const kvsi_tensor_writer *writer, size_t index,
                                  kvsi_new_file *file, kvs_err *err);

#endif
